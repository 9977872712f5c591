//! House rules and long checks.

fn main() {}
