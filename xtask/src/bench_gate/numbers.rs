//! The page of numbers, and what differs from it.
//!
//! The page has one table. A row is a kind of request, a count, its number for one request, the compiler with which it
//! was counted, and the reason why it is what it is. The text around the table is left as it is.

use std::fmt;

/// How far a count may be from its number, in percent of the number.
pub(super) const TOLERANCE_PERCENT: f64 = 2.0;

/// The header of the table.
const HEADER: &str = "| request | count | number | compiler | reason of the last change |";
const RULE: &str = "|---|---|---:|---|---|";

/// What is counted of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    Instructions,
    SystemCalls,
    Allocations,
    AllocatedBytes,
}

impl Count {
    const ALL: [Self; 4] =
        [Self::Instructions, Self::SystemCalls, Self::Allocations, Self::AllocatedBytes];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::SystemCalls => "system calls",
            Self::Allocations => "allocations",
            Self::AllocatedBytes => "allocated bytes",
        }
    }

    /// A difference that says nothing even where it is a large share: a wake-up more in a run, a table that grew.
    fn noise(self) -> f64 {
        match self {
            Self::Instructions | Self::AllocatedBytes => 1.0,
            Self::SystemCalls => 0.05,
            Self::Allocations => 0.01,
        }
    }
}

/// A count of one request, from this run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Measured {
    pub(super) kind: &'static str,
    pub(super) count: Count,
    pub(super) number: f64,
}

#[derive(Debug, Clone, PartialEq)]
struct Row {
    kind: String,
    count: Count,
    number: f64,
    compiler: String,
    reason: String,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, count, number, compiler, reason } = self;
        write!(f, "| {kind} | {} | {} | {compiler} | {reason} |", count.name(), shown(*number))
    }
}

/// A number with two digits behind the point, or none if it is large.
fn shown(number: f64) -> String {
    if number < 100.0 { format!("{number:.2}") } else { format!("{number:.0}") }
}

/// The page.
#[derive(Debug)]
pub(super) struct Page {
    before: String,
    rows: Vec<Row>,
    after: String,
}

impl Page {
    /// Reads a page. The error names the line.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let table = format!("{HEADER}\n{RULE}\n");
        let (before, rest) =
            text.split_once(&table).ok_or_else(|| format!("no table begins with {HEADER}"))?;
        let rows_end = rest.lines().take_while(|line| line.starts_with('|')).count();
        let rows: Result<Vec<Row>, String> = rest.lines().take(rows_end).map(row).collect();
        let after: String = rest.split_inclusive('\n').skip(rows_end).collect();
        Ok(Self { before: before.to_owned(), rows: rows?, after })
    }

    pub(super) fn text(&self) -> String {
        let rows: String = self.rows.iter().map(|row| format!("{row}\n")).collect();
        format!("{}{HEADER}\n{RULE}\n{rows}{}", self.before, self.after)
    }

    /// Kind and count of each row.
    #[cfg(test)]
    pub(super) fn names(&self) -> Vec<(&str, &str)> {
        self.rows.iter().map(|row| (row.kind.as_str(), row.count.name())).collect()
    }

    fn row(&self, of: &Measured) -> Option<&Row> {
        self.rows.iter().find(|row| row.kind == of.kind && row.count == of.count)
    }

    /// The counts that are too far from their numbers, or that have none.
    pub(super) fn differing(&self, measured: &[Measured]) -> Vec<Measured> {
        let differs = |one: &&Measured| match self.row(one) {
            Some(row) => is_too_far(row, one.number),
            None => true,
        };
        measured.iter().filter(differs).copied().collect()
    }

    /// A count next to its number, for a list.
    pub(super) fn line(&self, one: &Measured) -> String {
        let written = self.row(one).map_or_else(|| "no number".to_owned(), |row| shown(row.number));
        let name = one.count.name();
        format!("{:22} {name:16} {:>10}  written down: {written}", one.kind, shown(one.number))
    }

    /// A count that differs, in words.
    pub(super) fn difference(&self, one: &Measured) -> String {
        let what = format!("{} {}: {}", one.kind, one.count.name(), shown(one.number));
        match self.row(one) {
            None => format!("{what}, no number is written down"),
            Some(row) => format!("{what}, not {} (by {})", shown(row.number), row.compiler),
        }
    }

    /// Replaces a number, or adds its row.
    pub(super) fn write_down(&mut self, one: &Measured, compiler: &str, reason: &str) {
        let row = Row {
            kind: one.kind.to_owned(),
            count: one.count,
            number: one.number,
            compiler: compiler.to_owned(),
            reason: reason.to_owned(),
        };
        match self.rows.iter_mut().find(|old| old.kind == row.kind && old.count == row.count) {
            Some(old) => *old = row,
            None => self.rows.push(row),
        }
    }
}

fn is_too_far(row: &Row, number: f64) -> bool {
    let allowed = (row.number * TOLERANCE_PERCENT / 100.0).max(row.count.noise());
    let is_near = (number - row.number).abs() <= allowed;
    // A number that is none differs too.
    !is_near
}

fn row(line: &str) -> Result<Row, String> {
    let refused = |what: &str| format!("{line}: {what}");
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    let [kind, count, number, compiler, reason] = cells[..] else {
        return Err(refused("a row has 5 cells"));
    };
    let known = Count::ALL.into_iter().find(|known| known.name() == count);
    Ok(Row {
        kind: kind.to_owned(),
        count: known.ok_or_else(|| refused("the second cell is no count"))?,
        number: number.parse().map_err(|_| refused("the third cell is no number"))?,
        compiler: compiler.to_owned(),
        reason: reason.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(rows: &str) -> Page {
        Page::read(&format!("before\n\n{HEADER}\n{RULE}\n{rows}\nafter\n")).unwrap()
    }

    fn measured(count: Count, number: f64) -> Measured {
        Measured { kind: "dram-hit", count, number }
    }

    #[test]
    fn a_count_may_differ_by_two_percent_in_either_direction() {
        let page = page("| dram-hit | instructions | 1000 | rustc 1.95.0 | first |\n");
        for (number, differs) in [
            (1000.0, false),
            (1019.0, false),
            (981.0, false),
            (1030.0, true),
            (970.0, true),
            (f64::NAN, true),
        ] {
            let found = page.differing(&[measured(Count::Instructions, number)]);
            assert_eq!(found.len(), usize::from(differs), "{number}");
        }
    }

    #[test]
    fn an_allocation_where_there_was_none_differs() {
        let page = page(
            "| dram-hit | allocations | 0.00 | rustc 1.95.0 | first |\n\
             | dram-hit | system calls | 4.00 | rustc 1.95.0 | first |\n",
        );
        let noise = [measured(Count::Allocations, 0.004), measured(Count::SystemCalls, 4.04)];
        assert_eq!(page.differing(&noise), []);
        let more = [measured(Count::Allocations, 1.0), measured(Count::SystemCalls, 5.0)];
        assert_eq!(page.differing(&more), more);
    }

    #[test]
    fn a_count_without_a_number_differs() {
        let one = measured(Count::Allocations, 0.0);
        let page = page("| dram-hit | instructions | 1000 | rustc 1.95.0 | first |\n");
        assert_eq!(page.differing(&[one]), [one]);
        assert_eq!(page.difference(&one), "dram-hit allocations: 0.00, no number is written down");
        assert_eq!(
            page.difference(&measured(Count::Instructions, 1234.5)),
            "dram-hit instructions: 1234, not 1000 (by rustc 1.95.0)"
        );
    }

    #[test]
    fn a_new_number_replaces_the_old_one_and_nothing_else() {
        let other = "| nbd-write | allocations | 2.00 | rustc 1.94.0 | first |\n";
        let old = "| dram-hit | allocations | 0.00 | rustc 1.94.0 | first |\n";
        let mut page = page(&format!("{old}{other}"));
        let before = page.text();
        page.write_down(&measured(Count::Allocations, 1.0), "rustc 1.95.0", "a copy");
        let new = "| dram-hit | allocations | 1.00 | rustc 1.95.0 | a copy |\n";
        assert_eq!(page.text(), before.replace(old, new));
        page.write_down(&measured(Count::AllocatedBytes, 64.0), "rustc 1.95.0", "a copy");
        assert!(page.text().contains("bytes | 64.00 | rustc 1.95.0 | a copy |\n\nafter\n"));
    }

    #[test]
    fn a_row_that_means_nothing_is_named() {
        for (line, says) in [
            ("| dram-hit | allocations | 1 | rustc |", "5 cells"),
            ("| dram-hit | wishes | 1 | rustc | first |", "no count"),
            ("| dram-hit | allocations | many | rustc | first |", "no number"),
        ] {
            let error = Page::read(&format!("{HEADER}\n{RULE}\n{line}\n")).unwrap_err();
            assert!(error.contains(says) && error.contains("dram-hit"), "{error}");
        }
        assert!(Page::read("nothing").unwrap_err().contains("no table"));
    }
}
