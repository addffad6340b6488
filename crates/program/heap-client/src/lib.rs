//! What lives in a program whose heap is profiled. Whoever stands in the place of its allocator asks here, at each call, what is to be done:
//!
//! ```text
//! malloc ─▶ passes(size)? ─ yes, nearly always ──────────────▶ the real one
//!              └ no: a sample is due ─▶ allocated() ─ around ─▶ the real one ─▶ table of sampled blocks, record in the ring
//! free   ─▶ is_unsampled(address)? ─ yes, nearly always ─────▶ the real one
//!              └ perhaps: freed() ─ was it? a record ────────▶ the real one
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | `profiled` | an allocator in Rust that does so, for programs that have this linked |
//! | [`off`] | the same for programs that are built without |
//! | `library` | what there is in its place where `libferretto_preload.so` is loaded |
//! | `thread` | what each thread has: how many bytes until the next sample |
//! | `sampler` | which blocks are samples, and of how many bytes |
//! | `heaps` | the heaps of the program, and what a session wants of them |
//! | `table` | the sampled blocks that live |
//! | `ring` | writes records that the profiler reads |
//! | `stack` | registers, and how far the stack reaches |
//! | `attach` | asks the profiler for a ring |
//!
//! What it must not do, as it runs inside of every `malloc`: allocate, wait for a lock, panic, or run on after a `fork` as if nothing had happened. So there
//! is no lock; what must not survive a fork is in memory that the kernel wipes in the child (MADV_WIPEONFORK), which makes the child a program that has not
//! attached yet, and does so when its first sample is due. Nothing here is called from outside of the threads' own calls: no thread, no signal, no timer.
//! `errno` is as it was.
#![allow(unsafe_code)]

mod attach;
mod client;
mod heaps;
mod library;
pub mod off;
mod profiled;
mod ring;
mod sampler;
mod stack;
mod table;
mod thread;

pub use client::{Reallocation, allocated, freed, is_unsampled, passes, start};
pub use ferretto_shm::heap::{HeapName, VERSION};
pub use heaps::OwnHeap;
pub use profiled::{Heap, Profiled};
