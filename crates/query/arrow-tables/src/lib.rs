//! The tables of a trace as others take them: columns of Arrow, in batches.
//!
//! | module | what it does |
//! |---|---|
//! | [`relation`] | a table, or a view over one, as columns that can be asked cell by cell |
//! | [`catalog`] | all of them by name, those that Trace Processor's users expect among them |
//! | [`arg_sets`] | numbers and order of sets of arguments in files |
//! | [`batch`] | a relation's schema, and its rows as batches of Arrow |
//!
//! Here Arrow begins: the wings above know nothing of it. Types are few, so that what a table's rows are compared, joined and computed with
//! needs no cast, and means what it means in SQLite, which Trace Processor's users know:
//!
//! | in a table | in Arrow | because |
//! |---|---|---|
//! | numbers, ids, times | `Int64` | 0 - 1 is -1, also of a depth, and keys of any two tables are of one type |
//! | texts | `Dictionary(Int32, Utf8)` | a name is there once; one dictionary for all batches of a column |
//! | floating-point numbers | `Float64` | |
//! | yes or no | `Boolean` | |
//!
//! ```
//! use ferretto_arrow_tables::{BATCH_ROWS, Catalog, batches};
//! use ferretto_trace_tables::tables::{SliceRow, Tables};
//!
//! let mut tables = Tables::default();
//! let name = tables.strings.intern("frame");
//! tables.slice.push(SliceRow { ts: 100, dur: 20, name: Some(name), ..Default::default() });
//! let slices = Catalog::new(&tables).find("slice").unwrap();
//! let batches: Vec<_> = batches(&slices, BATCH_ROWS)?.collect::<Result<_, _>>()?;
//! assert_eq!((batches.len(), batches[0].num_rows()), (1, 1));
//! # Ok::<_, arrow_schema::ArrowError>(())
//! ```

pub mod arg_sets;
pub mod batch;
pub mod catalog;
pub mod relation;
mod views;

pub use arg_sets::ArgSets;
pub use batch::{BATCH_ROWS, Batches, batches, schema};
pub use catalog::Catalog;
pub use relation::{Column, Relation};
