//! What a trace becomes: tables of typed columns, in memory.
//!
//! | module | what it does |
//! |---|---|
//! | [`strings`] | every text once; columns hold [`Str`], its number |
//! | [`mod@column`] | how a column is kept: whole, or with gaps that cost nothing where there is nothing |
//! | [`blocks`], [`packed`] | long columns: all but their last rows in as few bits as they need |
//! | [`helper`] | what another thread may do meanwhile |
//! | [`store`] | where blocks lie that memory has no room for |
//! | `saved` | how tables lie in a file |
//! | [`table`] | what a table says of itself: names, types, documentation, and a cell by its row |
//! | [`ids`] | the numbers of rows, a type for each table that others point to |
//! | [`consistency`] | whether they hang together |
//! | [`tables`] | the tables, one definition each |
//!
//! The names of tables and columns, and what stands in them, are those of upstream's Trace Processor (its `tables/*.py` and the SQL views
//! over them): who knows its tables knows these. Rows are in the order in which Trace Processor would have them, and a row's number is its
//! `id`.
//!
//! ```
//! use ferretto_trace_tables::tables::{SliceRow, Tables};
//! use ferretto_trace_tables::{Table, TrackId, Value};
//!
//! let mut tables = Tables::default();
//! let name = tables.strings.intern("frame");
//! tables.slice.push(SliceRow { ts: 100, dur: 20, track_id: TrackId(0), name: Some(name), ..Default::default() });
//! let name = tables.slice.columns().into_iter().find(|column| column.name == "name").unwrap();
//! assert_eq!(name.data.get(0), Value::Str(tables.strings.intern("frame")));
//! ```

pub mod blocks;
pub mod column;
pub mod consistency;
pub mod helper;
pub mod ids;
pub mod packed;
mod saved;
pub mod store;
pub mod strings;
pub mod table;
pub mod tables;

pub use blocks::Blocks;
pub use column::{Cell, Gaps, Kind, Run, Value};
pub use helper::Helper;
pub use ids::*;
pub use store::Store;
pub use strings::{Str, Strings};
pub use table::{Column, Table};
pub use tables::Tables;
