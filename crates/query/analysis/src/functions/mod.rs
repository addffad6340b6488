//! Functions that DataFusion lacks, or has otherwise than SQLite and Trace Processor.

mod arg_json;
mod args;
mod clocks;
mod conversions;
mod hash;
pub(crate) mod joining;
mod layout;
mod metadata;
mod numbers;
mod of_tables;
pub(crate) mod of_trace;
mod patterns;
mod printf;
mod slices;
pub(crate) mod strings;
pub(crate) mod text;
mod time;
mod to_ftrace;

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    AggregateUDF, ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::prelude::SessionContext;
use ferretto_trace_tables::Tables;

use self::of_trace::{Asked, Constant};

/// Functions of DataFusion's that SQLite has not, and that make much of little or take long for it.
const WITHOUT: [&str; 6] = ["repeat", "lpad", "rpad", "overlay", "regexp_replace", "levenshtein"];

/// Makes all of them known. Gives the names of those whose values are of one trace, whatever they are called with.
pub(crate) fn register(
    context: &SessionContext,
    tables: &Arc<Tables>,
    path: Option<&str>,
    asked: &Asked,
) -> HashSet<String> {
    WITHOUT.into_iter().for_each(|name| context.deregister_udf(name));
    let simple = [
        conversions::all(),
        hash::all(),
        joining::all(),
        numbers::all(),
        patterns::all(),
        strings::all(),
        printf::all(),
        time::all(),
    ];
    for function in simple.into_iter().flatten() {
        context.register_udf(ScalarUDF::new_from_impl(function));
    }
    context.register_udf(ScalarUDF::new_from_impl(Constant::each()));
    context.register_udaf(AggregateUDF::new_from_impl(layout::Layout::new()));
    let of_tables =
        [metadata::all(tables), clocks::all(tables), arg_json::all(tables), to_ftrace::all(tables)];
    let of_tables = of_tables.into_iter().flatten().map(|it| ScalarUDF::new_from_impl(it.telling(asked)));
    let bounds = time::bounds(tables).into_iter().map(ScalarUDF::new_from_impl);
    let others = [
        ScalarUDF::new_from_impl(args::ExtractArg::new(tables.clone(), asked.clone())),
        ScalarUDF::new_from_impl(slices::IsAncestor::new(tables.clone())),
        ScalarUDF::new_from_impl(Constant::trace(path)),
    ];
    let of_trace: Vec<ScalarUDF> = of_tables.chain(bounds).chain(others).collect();
    let names = of_trace.iter().map(|function| function.name().to_owned()).collect();
    of_trace.into_iter().for_each(|function| context.register_udf(function));
    names
}

/// What a function of arrays does. Arrays of arguments are all as long as the rows are many.
type Run = fn(&[ArrayRef]) -> Result<ArrayRef>;

/// A function that looks at nothing but its arguments.
#[derive(Clone, Debug)]
pub(crate) struct Simple {
    name: &'static str,
    signature: Signature,
    returns: Returns,
    run: Run,
}

/// The type of what a function gives.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Returns {
    /// Always this one.
    Int,
    Real,
    Text,
    Blob,
    Truth,
    /// That which all arguments fit into.
    Common,
    /// Integers of integers, doubles of all else.
    Whole,
}

impl Simple {
    /// One of any number of arguments.
    pub(crate) fn new(name: &'static str, returns: Returns, run: Run) -> Self {
        let signature = Signature::one_of(
            vec![
                datafusion::logical_expr::TypeSignature::VariadicAny,
                datafusion::logical_expr::TypeSignature::Nullary,
            ],
            Volatility::Immutable,
        );
        Self { name, signature, returns, run }
    }

    /// One that takes so many arguments of any type.
    pub(crate) fn of(count: usize, name: &'static str, returns: Returns, run: Run) -> Self {
        let signature = match count {
            0 => Signature::nullary(Volatility::Immutable),
            count => Signature::any(count, Volatility::Immutable),
        };
        Self { signature, ..Self::new(name, returns, run) }
    }
}

impl PartialEq for Simple {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Simple {}

impl std::hash::Hash for Simple {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Simple {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        Ok(match self.returns {
            Returns::Int => DataType::Int64,
            Returns::Real => DataType::Float64,
            Returns::Text => DataType::Utf8View,
            Returns::Blob => DataType::Binary,
            Returns::Truth => DataType::Boolean,
            Returns::Common => text::common_type(args),
            Returns::Whole if args.first().is_some_and(is_whole) => DataType::Int64,
            Returns::Whole => DataType::Float64,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        invoke(&args, self.run)
    }

    /// A conversion to the type that something has already is none.
    fn simplify(&self, mut args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let is_one = matches!(self.name, "cast_int" | "cast_real" | "cast_text" | "truth");
        if is_one
            && args.len() == 1
            && let Some(arg) = args.pop()
        {
            let has = arg.get_type(info.schema().as_ref())?;
            return Ok(match has == self.return_type(&[])? {
                true => ExprSimplifyResult::Simplified(arg),
                false => ExprSimplifyResult::Original(vec![arg]),
            });
        }
        Ok(ExprSimplifyResult::Original(args))
    }
}

/// Whether its values are integers.
pub(crate) fn is_whole(data_type: &DataType) -> bool {
    data_type.is_integer() || *data_type == DataType::Boolean
}

/// Runs a function on rows, or once if nothing is of a row.
pub(crate) fn invoke(
    args: &ScalarFunctionArgs,
    run: impl FnOnce(&[ArrayRef]) -> Result<ArrayRef>,
) -> Result<ColumnarValue> {
    let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
    let rows = if is_scalar { 1 } else { args.number_rows };
    let arrays = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
    let array = run(&arrays)?;
    text::check_size(&array)?;
    if is_scalar && array.len() == 1 {
        return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?));
    }
    Ok(ColumnarValue::Array(array))
}

/// The number of rows, and the arrays, of a function that has arguments.
pub(crate) fn rows(args: &[ArrayRef]) -> usize {
    args.first().map_or(1, |array| array.len())
}
