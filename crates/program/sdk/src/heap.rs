//! Profiles of the program's heap (feature `heap`): who allocates memory, and who keeps it.
//!
//! ```
//! use std::alloc::System;
//!
//! #[global_allocator]
//! static ALLOCATOR: ferretto::heap::Profiled<System> = ferretto::heap::Profiled::new(System);
//! # fn main() { drop(Box::new(1)); }
//! ```
//!
//! makes `ferretto profile --heap -- the-program` show its heap, whichever allocator is inside, and however the program is linked. Without a profiler that
//! costs less than a nanosecond for a block; there is no thread, and nothing to initialise. Arenas and pools report to a [`Heap`] of their own.

#[cfg(feature = "off")]
pub use ferretto_heap_client::off::{Heap, Profiled};
#[cfg(not(feature = "off"))]
pub use ferretto_heap_client::{Heap, Profiled};
