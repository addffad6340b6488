//! `heap_cost_rust pairs THREADS`: as of `heap_cost`, which runs it, with the SDK's allocator.

use std::alloc::System;

use ferretto::heap::Profiled;
use ferretto_benches::pairs;

#[global_allocator]
static ALLOCATOR: Profiled<System> = Profiled::new(System);

fn main() -> Result<(), String> {
    let threads = std::env::args().nth(2).and_then(|threads| threads.parse().ok());
    pairs(threads.ok_or("heap_cost_rust pairs THREADS")?)
}
