//! Reads the output of a server while it starts.

use std::io::{BufRead, BufReader};
use std::process::Child;

/// Reads the lines of a child until `found` returns a value for one. `None` if the child has ended before.
pub(crate) fn hears<T>(child: &mut Child, found: impl FnMut(String) -> Option<T>) -> Option<T> {
    let said = child.stdout.take().map(BufReader::new);
    let mut lines = said.into_iter().flat_map(|said| said.lines().map_while(Result::ok));
    let heard = lines.find_map(found);
    // Drain the later output, so that the child never blocks on a full pipe.
    std::thread::spawn(move || lines.for_each(drop));
    heard
}

/// Waits until the child prints that it is ready. Returns whether it did.
pub(crate) fn is_ready(child: &mut Child) -> bool {
    hears(child, |line| line.starts_with("ready").then_some(())).is_some()
}
