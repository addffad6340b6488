//! The language, from bytes to statements: words, macros, statements of Perfetto's own, and the rest as `sqlparser` has it.

pub(crate) mod dialect;
pub(crate) mod headings;
pub(crate) mod macros;
pub(crate) mod parse;
pub(crate) mod statement;
pub(crate) mod text;
