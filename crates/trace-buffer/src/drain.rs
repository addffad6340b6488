//! The walk through one sequence, in the order of its chunks.
#[derive(Debug)]
pub(crate) struct Drain {}
