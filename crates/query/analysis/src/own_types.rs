//! Values of several types in one column of an answer. SQLite decides the type of each value; a column here has one, into which all fit.
//!
//! Where a column of the answer is one of several expressions (`coalesce`, `CASE`, `min` and `max` of several) whose types are different, the
//! answer's plan gets columns more: the same choice, but NULL wherever what is chosen is of another type. Who shows values one by one
//! takes them from there, each as it was before it became one of the column's type ([`Shown`]). What a query does with the column itself, such as
//! to sort by it, is as ever. It is done where values go from the choice to the answer as they are: through other lists of columns,
//! conditions, sorting and limits, and not through groups, `DISTINCT`, unions or arithmetic.

use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    BinaryExpr, Case, Expr, ExprSchemable as _, Filter, Limit, LogicalPlan, Operator, Projection, Sort,
    SubqueryAlias, cast, lit,
};

use crate::cell::Cell;
use crate::functions::text::is_text;

/// Which columns say what values of another one were.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Own {
    /// The column that has them all.
    column: usize,
    ints: Option<usize>,
    reals: Option<usize>,
}

impl Own {
    /// How many columns more it is.
    pub(crate) fn columns(&self) -> usize {
        usize::from(self.ints.is_some()) + usize::from(self.reals.is_some())
    }
}

/// A kind of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Int,
    Real,
    Text,
    Null,
}

/// The plan of an answer with the columns more that there are to be, behind its own, and what these are.
pub(crate) fn with_own_types(plan: LogicalPlan) -> Result<(LogicalPlan, Vec<Own>)> {
    add(plan, &mut 0)
}

fn add(plan: LogicalPlan, made: &mut usize) -> Result<(LogicalPlan, Vec<Own>)> {
    let below = |input: Arc<LogicalPlan>, made: &mut usize| -> Result<(Arc<LogicalPlan>, Vec<Own>)> {
        let (input, own) = add(Arc::unwrap_or_clone(input), made)?;
        Ok((Arc::new(input), own))
    };
    Ok(match plan {
        LogicalPlan::Projection(it) => {
            let (input, own) = below(it.input, made)?;
            project(input, &own, it.expr, made)?
        }
        LogicalPlan::Sort(it) => {
            let (input, own) = below(it.input, made)?;
            (LogicalPlan::Sort(Sort { input, ..it }), own)
        }
        LogicalPlan::Limit(it) => {
            let (input, own) = below(it.input, made)?;
            (LogicalPlan::Limit(Limit { input, ..it }), own)
        }
        LogicalPlan::Filter(it) => {
            let (input, own) = below(it.input, made)?;
            (LogicalPlan::Filter(Filter::try_new(it.predicate, input)?), own)
        }
        LogicalPlan::SubqueryAlias(it) => {
            let (input, own) = below(it.input, made)?;
            (LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(input, it.alias)?), own)
        }
        other => (other, Vec::new()),
    })
}

/// The columns of a list, and those that say more of some of them.
fn project(
    input: Arc<LogicalPlan>,
    below: &[Own],
    mut exprs: Vec<Expr>,
    made: &mut usize,
) -> Result<(LogicalPlan, Vec<Own>)> {
    let schema = input.schema().clone();
    let mut all = Vec::new();
    let mut more = Vec::new();
    let columns = exprs.len();
    let mut push = |expr: Expr| {
        *made += 1;
        more.push(expr.alias(format!("__own_{made}")));
        columns + more.len() - 1
    };
    for (column, expr) in exprs.iter().enumerate() {
        let expr = bare(expr);
        let (ints, reals) = match expr {
            Expr::Column(name) => {
                match below.iter().find(|own| schema.maybe_index_of_column(name) == Some(own.column)) {
                    Some(own) => {
                        let by_place = |at: usize| Expr::Column(Column::from(schema.qualified_field(at)));
                        (own.ints.map(by_place), own.reals.map(by_place))
                    }
                    None => continue,
                }
            }
            expr => match kinds(expr, &schema) {
                Some(kinds) => {
                    let of = |kind| kinds.contains(&kind).then(|| only(expr, kind, &schema)).transpose();
                    let reals = if kinds.contains(&Kind::Text) { of(Kind::Real)? } else { None };
                    (of(Kind::Int)?, reals)
                }
                None => continue,
            },
        };
        all.push(Own { column, ints: ints.map(&mut push), reals: reals.map(&mut push) });
    }
    exprs.extend(more);
    Ok((LogicalPlan::Projection(Projection::try_new(exprs, input)?), all))
}

fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => bare(&alias.expr),
        other => other,
    }
}

/// The kinds of a choice, if there are several.
fn kinds(expr: &Expr, schema: &DFSchema) -> Option<Vec<Kind>> {
    let mut leaves = Vec::new();
    // What is random would be chosen twice.
    if expr.is_volatile() || !collect(expr, schema, &mut leaves) {
        return None;
    }
    let mut kinds: Vec<Kind> = Vec::new();
    for leaf in leaves.into_iter().filter(|kind| *kind != Kind::Null) {
        if !kinds.contains(&leaf) {
            kinds.push(leaf);
        }
    }
    (kinds.len() > 1).then_some(kinds)
}

/// The kinds of all that may be chosen. Whether each has one.
fn collect(expr: &Expr, schema: &DFSchema, out: &mut Vec<Kind>) -> bool {
    match choice(expr) {
        Some(Choice::Case(case)) => results(case).all(|result| collect(result, schema, out)),
        Some(Choice::First(args)) => args.iter().all(|arg| collect(arg, schema, out)),
        Some(Choice::Extreme(args, _)) => {
            let from = out.len();
            // Texts beside numbers are compared as texts here: nobody knows what SQLite would choose.
            args.iter().all(|arg| collect(arg, schema, out))
                && out.iter().skip(from).all(|kind| matches!(kind, Kind::Int | Kind::Real | Kind::Null))
        }
        None => match expr.get_type(schema).ok().and_then(|data_type| kind_of(&data_type)) {
            Some(kind) => {
                out.push(kind);
                true
            }
            None => false,
        },
    }
}

fn kind_of(data_type: &DataType) -> Option<Kind> {
    match data_type {
        DataType::Null => Some(Kind::Null),
        DataType::Boolean => Some(Kind::Int),
        it if it.is_integer() => Some(Kind::Int),
        it if it.is_floating() => Some(Kind::Real),
        it if is_text(it) => Some(Kind::Text),
        _ => None,
    }
}

/// An expression whose value is that of one of several.
enum Choice<'a> {
    Case(&'a Case),
    /// The first that is not NULL.
    First(&'a [Expr]),
    /// The smallest, or the largest if it is true.
    Extreme(&'a [Expr], bool),
}

fn choice(expr: &Expr) -> Option<Choice<'_>> {
    match bare(expr) {
        Expr::Case(case) => Some(Choice::Case(case)),
        Expr::ScalarFunction(ScalarFunction { func, args }) => match func.name() {
            "coalesce" => Some(Choice::First(args)),
            "scalar_min" => Some(Choice::Extreme(args, false)),
            "scalar_max" => Some(Choice::Extreme(args, true)),
            _ => None,
        },
        _ => None,
    }
}

fn results(case: &Case) -> impl Iterator<Item = &Expr> {
    case.when_then_expr.iter().map(|(_, then)| then.as_ref()).chain(case.else_expr.as_deref())
}

/// The choice, but NULL where what is chosen is of another kind.
fn only(expr: &Expr, kind: Kind, schema: &DFSchema) -> Result<Expr> {
    let case = |whens: Vec<(Expr, Expr)>| {
        let when_then_expr = whens.into_iter().map(|(when, then)| (Box::new(when), Box::new(then))).collect();
        Expr::Case(Case { expr: None, when_then_expr, else_expr: None })
    };
    Ok(match choice(expr) {
        Some(Choice::Case(it)) => {
            let then = |(when, then): &(Box<Expr>, Box<Expr>)| {
                Ok((when.clone(), Box::new(only(then, kind, schema)?)))
            };
            Expr::Case(Case {
                expr: it.expr.clone(),
                when_then_expr: it.when_then_expr.iter().map(then).collect::<Result<_>>()?,
                else_expr: it
                    .else_expr
                    .as_deref()
                    .map(|it| only(it, kind, schema).map(Box::new))
                    .transpose()?,
            })
        }
        Some(Choice::First(args)) => {
            let when = |arg: &Expr| Ok((arg.clone().is_not_null(), only(arg, kind, schema)?));
            case(args.iter().map(when).collect::<Result<_>>()?)
        }
        Some(Choice::Extreme(args, is_largest)) => {
            let when = |arg: &Expr| {
                let (left, right) = (Box::new(arg.clone()), Box::new(expr.clone()));
                let is_it = Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right });
                Ok((is_it, only(arg, kind, schema)?))
            };
            let mut whens = args.iter().map(when).collect::<Result<Vec<_>>>()?;
            // Of those that are alike SQLite takes the last of the smallest, and the first of the largest.
            if !is_largest {
                whens.reverse();
            }
            case(whens)
        }
        None => {
            let has = expr.get_type(schema)?;
            match (kind_of(&has) == Some(kind), kind) {
                (true, Kind::Int) if has != DataType::Int64 => cast(expr.clone(), DataType::Int64),
                (true, Kind::Real) if has != DataType::Float64 => cast(expr.clone(), DataType::Float64),
                (true, _) => expr.clone(),
                (false, Kind::Real) => lit(ScalarValue::Float64(None)),
                (false, _) => lit(ScalarValue::Int64(None)),
            }
        }
    })
}

/// Rows of an answer as SQLite shows them: values of a column may be of several types.
#[derive(Clone, Debug)]
pub struct Shown {
    batch: RecordBatch,
    /// By column.
    own: Vec<(usize, Option<ArrayRef>, Option<ArrayRef>)>,
}

impl Shown {
    /// Rows whose first columns are those of the schema.
    pub(crate) fn of(schema: &SchemaRef, own: &[Own], batch: &RecordBatch) -> Result<Self> {
        let place = |at: Option<usize>| at.and_then(|at| batch.columns().get(at).cloned());
        let own = own.iter().map(|own| (own.column, place(own.ints), place(own.reals))).collect();
        Ok(Self { batch: visible(schema, batch)?, own })
    }

    /// How many rows there are.
    #[must_use]
    pub fn num_rows(&self) -> usize {
        self.batch.num_rows()
    }

    /// The same with one type a column.
    #[must_use]
    pub fn batch(&self) -> &RecordBatch {
        &self.batch
    }

    /// The cells of a row.
    ///
    /// # Panics
    ///
    /// If there is no such row.
    pub fn cells(&self, row: usize) -> impl Iterator<Item = Cell<'_>> {
        self.batch.columns().iter().enumerate().map(move |(column, array)| {
            let own = self.own.iter().find(|own| own.0 == column);
            let arrays = own.into_iter().flat_map(|(_, ints, reals)| [ints, reals]).flatten();
            let mut arrays = arrays.filter(|array| !array.is_null(row));
            Cell::of(arrays.next().unwrap_or(array), row)
        })
    }
}

/// The columns of an answer without those behind them.
pub(crate) fn visible(schema: &SchemaRef, batch: &RecordBatch) -> Result<RecordBatch> {
    let arrays = batch.columns().iter().take(schema.fields().len()).cloned().collect();
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(schema.clone(), arrays, &options)?)
}
