//! `cargo xtask tidy --counts`: sizes of the crates, one row for each. Tests are left out, including inline ones.

use super::tree::Tree;
use super::{arrows, circles, scan};

const HEAD: &str = "\
crate             files  lines: median   p90   most  functions  lines: median   p90   most  asserts/fn  circles
";

/// The counts of a crate, or of all.
#[derive(Default)]
struct Counts {
    files: Vec<usize>,
    functions: Vec<usize>,
    assertions: usize,
    circles: usize,
}

/// The table.
pub(super) fn table(tree: &Tree) -> String {
    let mut all = Counts::default();
    let mut table = HEAD.to_owned();
    for manifest in arrows::manifests(tree) {
        let folder = manifest.path.trim_end_matches("Cargo.toml");
        let counts = Counts::of(tree, folder);
        table.push_str(&counts.row(folder.trim_end_matches('/').trim_start_matches("crates/")));
        all.add(counts);
    }
    table + &all.row("all")
}

impl Counts {
    fn of(tree: &Tree, folder: &str) -> Self {
        let source = format!("{folder}src/");
        let mut counts = Self { circles: circles::count(tree, folder), ..Self::default() };
        for file in tree.rust().filter(|file| file.path.starts_with(&source) && !file.is_test()) {
            let code = scan::code_only(&file.text);
            let code = scan::before_tests(&code);
            counts.files.push(code.lines().count());
            let lines = |(begin, end): (usize, usize)| {
                scan::line_of(code, end) - scan::line_of(code, begin) + 1
            };
            counts.functions.extend(scan::functions(code).into_iter().map(lines));
            counts.assertions += assertions(code);
        }
        counts
    }

    fn add(&mut self, other: Self) {
        self.files.extend(other.files);
        self.functions.extend(other.functions);
        self.assertions += other.assertions;
        self.circles += other.circles;
    }

    #[allow(clippy::cast_precision_loss)] // thousands
    fn row(&self, name: &str) -> String {
        let [files, functions] = [&self.files, &self.functions].map(|lines| {
            let at = |share| at_share(lines, share);
            format!("{:14} {:5} {:6}", at(0.5), at(0.9), at(1.0))
        });
        let rate = self.assertions as f64 / self.functions.len().max(1) as f64;
        format!(
            "{name:16} {:6} {files} {:10} {functions} {rate:11.3} {:8}\n",
            self.files.len(),
            self.functions.len(),
            self.circles,
        )
    }
}

/// The quantile of the numbers at this share; 0 if there are none.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // thousands
fn at_share(numbers: &[usize], share: f64) -> usize {
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    let rank = (numbers.len() as f64 * share).ceil() as usize;
    numbers.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

/// Number of assertions of all kinds.
fn assertions(code: &str) -> usize {
    let names =
        ["assert", "assert_eq", "assert_ne", "debug_assert", "debug_assert_eq", "debug_assert_ne"];
    let made = |name: &&str| {
        let calls = |at: &usize| code[at + name.len()..].starts_with('!');
        scan::words(code, name).into_iter().filter(calls).count()
    };
    names.iter().map(made).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_is_a_row_without_its_tests() {
        let long = format!("fn f() {{\n    assert!(true);\n{}}}\n", "\n".repeat(7));
        let tested = "fn g() {}\n#[cfg(test)]\nmod tests {\n    fn h() { assert_eq!(1, 1) }\n}\n";
        let tree = Tree::of(&[
            ("crates/x/Cargo.toml", ""),
            ("crates/x/src/lib.rs", &long),
            ("crates/x/src/a.rs", tested),
            ("crates/x/src/tests.rs", "fn t() {}\n"),
            ("crates/x/tests/it/main.rs", "fn t() {}\n"),
        ]);
        let counts = Counts::of(&tree, "crates/x/");
        assert_eq!((counts.files.clone(), counts.functions.clone()), (vec![10, 1], vec![10, 1]));
        assert_eq!((counts.assertions, counts.circles), (1, 0));
        let row = counts.row("x");
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(cells, ["x", "2", "1", "10", "10", "2", "1", "10", "10", "0.500", "0"]);
        assert_eq!(table(&tree).lines().count(), 3);
    }

    #[test]
    fn shares_are_of_what_is_sorted() {
        let numbers: Vec<usize> = (1..=10).rev().collect();
        assert_eq!([0.0, 0.5, 0.9, 1.0].map(|share| at_share(&numbers, share)), [1, 5, 9, 10]);
        assert_eq!(at_share(&[], 0.9), 0);
    }

    #[test]
    fn assertions_of_all_kinds_count_once() {
        assert_eq!(assertions("assert!(a); debug_assert_eq!(b, c); fn assert() {} x.assert_eq"), 2);
    }
}
