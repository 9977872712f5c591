//! The output of Perl tests (TAP): a line for each check.

/// Numbers of passed, failed and skipped checks in the output of one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TapCounts {
    pub(super) passed: usize,
    pub(super) failed: usize,
    pub(super) skipped: usize,
}

/// Counts lines such as `ok 3 - stored` and `not ok 4`. Planned checks without a line have failed.
pub(super) fn count(output: &str) -> TapCounts {
    let mut counted = TapCounts::default();
    let mut planned = None;
    for line in output.lines() {
        let is_skipped = line.contains("# skip") || line.contains("# SKIP");
        if let Some(plan) = line.strip_prefix("1..") {
            let count = plan.split_whitespace().next().and_then(|count| count.parse().ok());
            planned = count.filter(|count| *count > 0 || !is_skipped);
            counted.skipped += usize::from(is_skipped);
        } else if line.starts_with("not ok") {
            counted.failed += 1;
        } else if line.starts_with("ok ") {
            if is_skipped { counted.skipped += 1 } else { counted.passed += 1 }
        }
    }
    let came = counted.passed + counted.failed;
    match planned {
        Some(planned) => counted.failed += usize::saturating_sub(planned, came + counted.skipped),
        // The test died before it could print its plan.
        None if counted.skipped == 0 => counted.failed += 1,
        None => {}
    }
    counted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_and_what_did_not_come_has_failed() {
        let count = |output| {
            let TapCounts { passed, failed, skipped } = super::count(output);
            (passed, failed, skipped)
        };
        assert_eq!(count("1..3\nok 1 - a\nnot ok 2 - b\n# why\nok 3 # skip no\n"), (1, 1, 1));
        assert_eq!(count("1..4\nok 1\nok 2\nDied\n"), (2, 2, 0));
        assert_eq!(count("ok 1\nok 2\n1..2\n"), (2, 0, 0));
        assert_eq!(count("ok 1\nDied\n"), (1, 1, 0));
        assert_eq!(count("1..0 # SKIP not here\n"), (0, 0, 1));
        assert_eq!(count(""), (0, 1, 0));
    }
}
