//! What a server says while it starts.

use std::io::{BufRead, BufReader};
use std::process::Child;

/// Listens to what a child says until `found` makes something of a line. `None` if it has ended before.
pub(crate) fn hears<T>(child: &mut Child, found: impl FnMut(String) -> Option<T>) -> Option<T> {
    let said = child.stdout.take().map(BufReader::new);
    let mut lines = said.into_iter().flat_map(|said| said.lines().map_while(Result::ok));
    let heard = lines.find_map(found);
    // Its later output is not read, but has somewhere to go.
    std::thread::spawn(move || lines.for_each(drop));
    heard
}

/// The same until it says that it is ready. Whether it does.
pub(crate) fn is_ready(child: &mut Child) -> bool {
    hears(child, |line| line.starts_with("ready").then_some(())).is_some()
}
