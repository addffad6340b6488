//! The ferretto command.

fn main() {}
