//! Parses callgrind's output for the functions of our own crates (`callgrind-format` in valgrind's manual).

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Implementations that the reader does not follow: they run without a written call, or are obvious from the type.
const UNWRITTEN: [&str; 3] = [
    " as core::ops::drop::Drop>::drop",
    " as core::clone::Clone>::clone",
    " as core::convert::From<",
];
/// Source lines of a function with a body of one line, including its signature and closing brace.
const ACCESSOR_LINES: u32 = 3;

/// The functions that ran.
#[derive(Debug, Default)]
pub(super) struct Profile {
    /// By file, below `crates/`, and name.
    functions: BTreeMap<(String, String), Function>,
    /// The names of our own functions.
    own: BTreeSet<String>,
}

#[derive(Debug, Default)]
struct Function {
    /// Lines of its own file that ran.
    lines: BTreeSet<u32>,
    calls: BTreeSet<String>,
}

/// Names that are spelled out at their first use, and are numbers afterwards.
#[derive(Default)]
struct Names(HashMap<String, String>);

impl Names {
    fn resolve(&mut self, word: &str) -> String {
        let (number, name) = word.split_once(' ').unwrap_or((word, ""));
        if !name.is_empty() {
            self.0.insert(number.to_owned(), name.to_owned());
        }
        self.0.get(number).cloned().unwrap_or_else(|| number.to_owned())
    }
}

impl Profile {
    /// Reads the functions in files below `root`, which ends in `crates/`. Examples and tests are not counted.
    pub(super) fn read(text: &str, root: &str) -> Self {
        let (mut files, mut names) = (Names::default(), Names::default());
        let mut profile = Self::default();
        let (mut of_object, mut at_file) = (String::new(), String::new());
        let (mut at, mut line, mut is_calls_cost) = (None, 0_u32, false);
        for text in text.lines() {
            match text.split_once('=') {
                Some(("fl", file)) => {
                    of_object = files.resolve(file);
                    at_file.clone_from(&of_object);
                }
                Some(("fi" | "fe", file)) => at_file = files.resolve(file),
                Some(("cfi" | "cfl", file)) => _ = files.resolve(file),
                Some(("fn", name)) => {
                    let name = names.resolve(name);
                    let file = of_object.strip_prefix(root).filter(|file| file.contains("/src/"));
                    at = file.map(|file| (file.to_owned(), name.clone()));
                    if let Some(at) = &at {
                        profile.own.insert(name);
                        profile.functions.entry(at.clone()).or_default();
                    }
                }
                Some(("cfn", name)) => {
                    let name = names.resolve(name);
                    if let Some(function) = at.as_ref().and_then(|at| profile.functions.get_mut(at))
                    {
                        function.calls.insert(name);
                    }
                }
                Some(("calls", _)) => is_calls_cost = true,
                Some(_) => {}
                None => {
                    let Some(next) = line_after(line, text) else { continue };
                    line = next;
                    let is_own = !std::mem::take(&mut is_calls_cost) && at_file == of_object;
                    let function = at.as_ref().and_then(|at| profile.functions.get_mut(at));
                    if let Some(function) = function.filter(|_| is_own && line > 0) {
                        function.lines.insert(line);
                    }
                }
            }
        }
        profile
    }

    /// Number of functions that ran, by file. With `followed`, leaves out functions without a written call, and
    /// accessors.
    pub(super) fn files(&self, followed: bool) -> BTreeMap<String, usize> {
        let mut files = BTreeMap::new();
        for ((file, name), function) in &self.functions {
            if !followed || self.is_followed(name, function) {
                *files.entry(file.clone()).or_default() += 1;
            }
        }
        files
    }

    /// Whether a reader who follows a call reads the function: the call is written out, and the function is longer than
    /// a line or calls another one of ours.
    fn is_followed(&self, name: &str, function: &Function) -> bool {
        if UNWRITTEN.iter().any(|unwritten| name.contains(unwritten)) {
            return false;
        }
        let (Some(first), Some(last)) = (function.lines.first(), function.lines.last()) else {
            return false;
        };
        last - first >= ACCESSOR_LINES || function.calls.iter().any(|call| self.own.contains(call))
    }
}

/// The source line of a cost, which may be relative to the previous one; `None` if this line is no cost.
fn line_after(line: u32, text: &str) -> Option<u32> {
    let (position, cost) = text.split_once(' ')?;
    cost.parse::<u64>().ok()?;
    match position.split_at_checked(1)? {
        ("+", more) => line.checked_add(more.parse().ok()?),
        ("-", less) => line.checked_sub(less.parse().ok()?),
        ("*", "") => Some(line),
        _ => position.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUT: &str = "\
positions: line
events: Ir

fl=(1) /w/crates/x/examples/e.rs
fn=(1) e::hit
4 3
cfi=(2) /w/crates/x/src/a.rs
cfn=(2) x::get
calls=1 10
5 90

fl=(2)
fn=(2)
10 2
cfi=(3) /w/crates/x/src/b.rs
cfn=(3) x::B::len
calls=1 7
+5 4
fi=(9) /rustc/library/core/src/ptr.rs
99 1
fe=(2)
-4 1

fl=(3)
fn=(3)
7 1
+1 1
+1 1
fn=(4) <x::B as core::ops::drop::Drop>::drop
20 1
+9 2

fl=(5) /elsewhere/crates/y/src/lib.rs
fn=(5) y::far
1 1
";

    #[test]
    fn functions_of_ours_are_found_by_file() {
        let profile = Profile::read(OUT, "/w/crates/");
        let files = |followed| {
            let files = profile.files(followed).into_iter();
            files.map(|(file, count)| format!("{file} {count}")).collect::<Vec<_>>()
        };
        assert_eq!(files(false), ["x/src/a.rs 1", "x/src/b.rs 2"]);
        assert_eq!(files(true), ["x/src/a.rs 1"], "an accessor and a drop are not followed");
        let lines: Vec<u32> = profile.functions[&("x/src/a.rs".to_owned(), "x::get".to_owned())]
            .lines
            .iter()
            .copied()
            .collect();
        assert_eq!(lines, [10, 95], "the cost of a call and lines of other files are passed");
    }

    #[test]
    fn a_cost_says_its_line_by_the_one_before() {
        assert_eq!(line_after(10, "+5 7"), Some(15));
        assert_eq!(line_after(10, "-5 7"), Some(5));
        assert_eq!(line_after(10, "* 7"), Some(10));
        assert_eq!(line_after(10, "42 7"), Some(42));
        assert_eq!([line_after(10, "events: Ir"), line_after(10, "")], [None, None]);
    }
}
