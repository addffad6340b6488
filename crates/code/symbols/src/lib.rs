//! What an ELF file says of its code, and names of functions as people write them.
//!
//! | module | what it does |
//! |---|---|
//! | [`elf`] | a file's segments, symbols, build id and sections for unwinding |
//! | `within` | a file of which so much is read and no more |
//! | `unwinding` | whether what these sections say ends |
//! | [`lines`] | functions, those that were inlined too, and lines of addresses |
//! | [`kernel`] | `/proc/kallsyms` |
//! | [`mod@demangle`] | `_ZN4core3fmt…` as `core::fmt::…` |
//!
//! Files are those of strangers: whatever is in them, reading them ends, within bounds. Nothing here opens a file.

#![forbid(unsafe_code)]

mod debug;
pub mod demangle;
pub mod elf;
pub mod kernel;
pub mod lines;
mod metered;
mod names;
mod unwinding;
mod within;

pub use demangle::demangle;
pub use elf::{Elf, Read, Section};
pub use kernel::KernelSymbols;
pub use unwinding::Unwinding;
