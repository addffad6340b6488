//! Flame graphs: `CREATE VIRTUAL TABLE f USING __intrinsic_flamegraph((select …))`, read by `f(__intrinsic_flamegraph_config(…))`.
//!
//! The query is a tree of frames: `id`, `parent_id`, `name`, `value`, and other columns. What is asked of it says from where it is looked at,
//! which frames and stacks are left out, what makes frames the same, and what is added up. Frames that are the same and have come the same way
//! become one, and get a place in the picture.
//!
//! | module | what it does |
//! |---|---|
//! | [`config`] | what is asked |
//! | [`paths`] | which frames and stacks are left out |
//! | [`halves`] | frames that become one, from the root down and from a frame up |
//! | [`sums`] | values of those |
//! | [`aggregates`] | other columns of those |
//! | [`layout`] | places in the picture |

mod aggregates;
pub(crate) mod config;
mod halves;
mod layout;
mod paths;
mod sums;

use arrow::array::{
    Array as _, ArrayRef, Float64Array, Int64Array, RecordBatch, StringViewArray, UInt64Array, new_null_array,
};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, SchemaRef};
use datafusion::common::{Result, exec_err, plan_err};

use self::config::{Aggregate, Config};
use self::sums::Values;
use crate::functions::text::is_text;
use crate::limits::Held;
use crate::operators::flamegraph::halves::Halves;
use crate::operators::flamegraph::layout::layout;
use crate::operators::flamegraph::paths::Paths;
use crate::operators::keys::{Keys, boxed};
use crate::operators::whole::{Operator, column, input, int_field};

/// Columns that every tree begins with.
const SOURCE: [&str; 4] = ["id", "parent_id", "name", "value"];
/// Columns that every answer has; others of the tree have other names.
const OWN: [&str; 9] = [
    "_tree_id",
    "_tree_parent_id",
    "depth",
    "name",
    "self_value",
    "cumulative_value",
    "parent_cumulative_value",
    "x_start",
    "x_end",
];
/// What a frame takes of memory here, about.
const FRAME_BYTES: usize = 256;

/// The operator.
#[derive(Debug)]
pub(crate) struct Flamegraph {
    config: Config,
    /// Whether only the sum of all is asked for.
    is_super_root: bool,
}

impl Flamegraph {
    /// Of what `__intrinsic_flamegraph_config` is called with, and `SUPER_ROOT` before it if only the sum is asked for.
    pub(crate) fn new(args: &[String]) -> Result<Self> {
        let (is_super_root, args) = match args {
            [first, rest @ ..] if first == "SUPER_ROOT" => (true, rest),
            all => (false, all),
        };
        Ok(Self { config: Config::read(args)?, is_super_root })
    }
}

/// Columns of the tree behind those that every one has.
fn properties(schema: &SchemaRef) -> Result<Vec<&Field>> {
    let fields: Vec<&Field> = schema.fields().iter().map(AsRef::as_ref).collect();
    let Some((source, properties)) = fields.split_first_chunk() else {
        return plan_err!("flamegraph: source must contain id, parent_id, name and value");
    };
    let source: &[&Field; 4] = source;
    if source.iter().zip(SOURCE).any(|(field, name)| field.name() != name) {
        return plan_err!("flamegraph: first source columns must be id, parent_id, name, value");
    }
    if let Some(field) = properties.iter().find(|field| OWN.contains(&field.name().as_str())) {
        return plan_err!("flamegraph: reserved property column '{}'", field.name());
    }
    Ok(properties.to_vec())
}

/// Whether values of this type can be added up.
fn is_number(data_type: &DataType) -> bool {
    data_type.is_integer() || data_type.is_floating()
}

impl Operator for Flamegraph {
    fn fields(&self, inputs: &[SchemaRef]) -> Result<Vec<Field>> {
        let schema = input(inputs, 0)?;
        let properties = properties(schema)?;
        let primary = self.config.values.first().map(String::as_str).unwrap_or_default();
        let type_of = |name: &str| match schema.field_with_name(name) {
            Ok(field) if is_number(field.data_type()) => Ok(field.data_type().clone()),
            // A tree of no rows.
            Ok(field) if field.data_type().is_null() => Ok(DataType::Int64),
            Ok(_) => plan_err!("flamegraph: value columns must be numeric"),
            Err(_) => plan_err!("flamegraph: value column: column '{name}' does not exist"),
        };
        for name in &self.config.values {
            type_of(name)?;
        }
        let value = if self.is_super_root { DataType::Float64 } else { type_of(primary)? };
        let of_value = |name: &str| Field::new(name, value.clone(), true);
        let mut out = vec![int_field("_tree_id"), int_field("_tree_parent_id"), int_field("depth")];
        out.push(Field::new("name", DataType::Utf8View, true));
        out.extend(
            ["self_value", "cumulative_value", "parent_cumulative_value", "x_start", "x_end"].map(of_value),
        );
        for field in &properties {
            let is_text = self.config.aggregate_of(field.name()).is_some_and(|it| it != Aggregate::Sum);
            let data_type = if is_text { DataType::Utf8View } else { field.data_type().clone() };
            out.push(Field::new(field.name(), data_type, true));
        }
        for field in properties.iter().filter(|field| is_number(field.data_type())) {
            out.push(Field::new(format!("self_{}", field.name()), field.data_type().clone(), true));
            out.push(Field::new(format!("cumulative_{}", field.name()), field.data_type().clone(), true));
        }
        Ok(out)
    }

    fn run(&self, inputs: &[RecordBatch], held: &Held) -> Result<Vec<ArrayRef>> {
        let batch = input(inputs, 0)?;
        let fields = self.fields(&[batch.schema()])?;
        if self.is_super_root {
            return super_root(batch, &fields);
        }
        held.try_grow(batch.num_rows() * FRAME_BYTES)?;
        self.graph(batch, &fields, held)
    }
}

impl Flamegraph {
    fn graph(&self, batch: &RecordBatch, fields: &[Field], held: &Held) -> Result<Vec<ArrayRef>> {
        let batch = &paths::parents_first(batch)?;
        let schema = batch.schema();
        if !is_text(column(batch, "name")?.data_type()) && !column(batch, "name")?.data_type().is_null() {
            return exec_err!("flamegraph: name column must be a string");
        }
        // What makes frames the same.
        let key = |name: &str| match schema.field_with_name(name) {
            Ok(field) => Ok(field.clone()),
            Err(_) => plan_err!("flamegraph: grouping column: column '{name}' does not exist"),
        };
        let names = std::iter::once("name").chain(self.config.groups.iter().map(String::as_str));
        let mut keys = Keys::by(names.map(key).collect::<Result<_>>()?)?;
        let keys: Vec<usize> = keys.of(batch)?.into_iter().map(Option::unwrap_or_default).collect();
        let paths = Paths::read(batch, &self.config, &keys)?;
        let values = self.config.values.iter().map(|name| Values::read(column(batch, name)?));
        let values = values.collect::<Result<Vec<_>>>()?;
        let halves = Halves::make(&self.config, &paths, &keys, &values, held)?;
        let sums = values.iter().map(|values| values.sums(&self.config, &paths, &halves));
        let sums = sums.collect::<Result<Vec<_>>>()?;
        let Some(primary) = sums.first() else {
            return plan_err!("flamegraph: at least one value column is required");
        };
        let is_kept = |node: usize| sums.iter().any(|sums| !sums.is_zero(node));
        let places = layout(&halves, primary, is_kept);
        let nodes: UInt64Array = places.iter().map(|place| u64::try_from(place.node).ok()).collect();
        let frames: UInt64Array =
            places.iter().map(|place| u64::try_from(halves.frame(place.node)).ok()).collect();
        let int = |value: usize| i64::try_from(value).ok();
        let parents: UInt64Array = places
            .iter()
            .map(|place| {
                place.parent.and_then(|row| places.get(row)).and_then(|it| u64::try_from(it.node).ok())
            })
            .collect();
        let mut arrays = vec![
            boxed((0..places.len()).map(int).collect::<Int64Array>()),
            boxed(places.iter().map(|place| place.parent.and_then(int)).collect::<Int64Array>()),
            boxed(places.iter().map(|place| Some(place.depth)).collect::<Int64Array>()),
            crate::table::sql_array(&take(column(batch, "name")?, &frames, None)?)?,
            take(&primary.own_array(), &nodes, None)?,
            take(&primary.all_array(), &nodes, None)?,
            take(&primary.all_array(), &parents, None)?,
        ];
        let begins = places.iter().map(|place| place.x_start);
        let ends = places.iter().map(|place| place.x_start + primary.width(place.node));
        arrays.push(primary.as_own_type(begins));
        arrays.push(primary.as_own_type(ends));
        for field in properties(&schema)? {
            let array = column(batch, field.name())?;
            arrays.push(match self.config.aggregate_of(field.name()) {
                Some(aggregate) => take(&aggregates::made(aggregate, array, &paths, &halves)?, &nodes, None)?,
                None if self.config.groups.contains(field.name()) => take(array, &frames, None)?,
                None => new_null_array(array.data_type(), places.len()),
            });
        }
        for field in properties(&schema)?.into_iter().filter(|field| is_number(field.data_type())) {
            let at = self.config.values.iter().position(|name| name == field.name());
            match at.and_then(|at| sums.get(at)) {
                Some(sums) => {
                    arrays.push(take(&sums.own_array(), &nodes, None)?);
                    arrays.push(take(&sums.all_array(), &nodes, None)?);
                }
                None => arrays.extend([0; 2].map(|_| new_null_array(field.data_type(), places.len()))),
            }
        }
        // A text column may have been one of nothing but NULL.
        let as_field =
            |(array, field): (ArrayRef, &Field)| crate::functions::text::to_type(&array, field.data_type());
        arrays.into_iter().zip(fields).map(as_field).collect()
    }
}

/// The one row that stands for all.
fn super_root(batch: &RecordBatch, fields: &[Field]) -> Result<Vec<ArrayRef>> {
    let values = crate::functions::text::reals(column(batch, "value")?)?;
    let sum: f64 = values.iter().flatten().sum();
    let array = |field: &Field| match field.name().as_str() {
        "_tree_id" | "depth" => boxed(Int64Array::from(vec![0])),
        "cumulative_value" => boxed(Float64Array::from(vec![sum])),
        "name" => boxed(StringViewArray::new_null(1)),
        _ => new_null_array(field.data_type(), 1),
    };
    Ok(fields.iter().map(array).collect())
}
