//! The tables of a trace as others take them: columns of Arrow, in batches.
//!
//! | module | what it does |
//! |---|---|
//! | [`relation`] | a table, or a view over one, as columns that can be asked cell by cell |
//! | [`catalog`] | all of them by name, those that Trace Processor's users expect among them |
//!
//! Here Arrow begins: the wings above know nothing of it.

pub mod catalog;
pub mod relation;

pub use catalog::Catalog;
pub use relation::{Column, Relation};
