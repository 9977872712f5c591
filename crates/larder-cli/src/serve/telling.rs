//! Lines for the user while the server runs.

use std::fmt;
use std::io::{self, Write};

/// Prints a line. If standard output is closed, the server goes on all the same, so that the cache is closed cleanly
/// later.
pub(super) fn say(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// Prints a problem.
pub(super) fn complain(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}
