//! What was allocated, for the terminal.

/// What was sampled, at a session's end.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Bytes between samples.
    pub interval_bytes: u64,
    /// Samples.
    pub samples: u64,
    /// Of them such whose stack is not there to its root.
    pub incomplete: u64,
    /// Heaps of processes, those with the largest maximum first.
    pub processes: Vec<ProcessLine>,
    /// By heap and stack, over all processes.
    pub sites: Vec<Site>,
    /// What is missing.
    pub lost: Lost,
}

/// A heap of a process, in bytes that its samples stand for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessLine {
    /// Its number.
    pub pid: u32,
    /// What it was called.
    pub name: String,
    /// The heap.
    pub heap: String,
    /// What it has not freed.
    pub live_bytes: u64,
    /// What it had at the most.
    pub maximum_bytes: u64,
    /// All that it has allocated.
    pub allocated_bytes: u64,
    /// Blocks that were sampled.
    pub samples: u64,
}

/// Who has allocated: a stack's functions as people write them, innermost first, and bytes that its samples stand for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// In which heap.
    pub heap: String,
    /// The functions.
    pub functions: Vec<String>,
    /// What was not freed.
    pub live_bytes: u64,
    /// What was there when its process had most.
    pub maximum_bytes: u64,
    /// All that it has allocated.
    pub allocated_bytes: u64,
    /// Blocks that were sampled.
    pub samples: u64,
}

/// What was lost, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Samples for which a ring had no room.
    pub no_room: u64,
    /// Samples for which a program's table had none: it has a million that live.
    pub table_full: u64,
    /// Samples for which there was no room here: too many stacks, or blocks that live.
    pub no_place: u64,
    /// Samples that a thread has begun to write, and ended.
    pub unfinished: u64,
    /// Blocks that were freed without notice: they look as if they lived on.
    pub frees: u64,
    /// Samples on stacks that programs have made for themselves, of which there is a page.
    pub foreign_stacks: u64,
    /// Programs that have asked for a ring in vain.
    pub refused: u64,
    /// Programs whose ring had no sense in it.
    pub broken: u64,
}
