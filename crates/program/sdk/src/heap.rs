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

/// An allocator whose blocks a heap profiler sees, if there is one. With the feature `off` it is the one inside and nothing else.
pub type Profiled<A = std::alloc::System> = ferretto_heap_client::Profiled<A, { !cfg!(feature = "off") }>;

/// Memory that a program hands out itself: an arena, a pool, buffers of a device. In profiles it is a heap of its own.
///
/// ```
/// static ARENA: ferretto::heap::Heap = ferretto::heap::Heap::new("org.example.arena");
///
/// fn allocate(place: u64, bytes: u64) {
///     // …
///     ARENA.allocated(place, bytes);
/// }
///
/// fn give_back(place: u64) {
///     ARENA.freed(place);
///     // …
/// }
/// # allocate(1, 2);
/// # give_back(1);
/// ```
pub type Heap = ferretto_heap_client::Heap<{ !cfg!(feature = "off") }>;
