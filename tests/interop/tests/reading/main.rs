//! What reading makes of traces of all kinds, beside what others make of them: upstream's Trace Processor, and whoever reads the formats
//! that we write.
//!
//! | module | what it does |
//! |---|---|
//! | `kinds` | the traces: some recorded (`recorded`), some written by hand (`made`) |
//! | `tables` | our tables beside Trace Processor's, row by row |
//! | `cuts` | cuts beside the whole, as Trace Processor answers
//! | `readers` | what other programs read of what we write

mod cuts;
mod kinds;
mod made;
mod readers;
mod recorded;
mod tables;
