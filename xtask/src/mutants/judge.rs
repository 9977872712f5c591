//! Decides whether enough mutants were caught.

use larder_harness::step::Verdict;

use super::Mutant;
use super::mutant::FOLDERS;
use super::reasons::{Reason, Reasons, Sort};
use super::stages::Fate;

/// Smallest percentage of noticeable mutants that must be caught.
const CAUGHT_PERCENT_MIN: usize = 95;
/// With fewer mutants than this, the percentage is not judged.
const JUDGED_FROM: usize = 60;

/// Mutants and their fates.
pub(super) type Fates = [(Mutant, Fate)];

/// Number of mutants by fate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct FateCounts {
    pub(super) caught: usize,
    pub(super) timed_out: usize,
    pub(super) unviable: usize,
    pub(super) missed: usize,
    /// Missed mutants that no test can notice.
    pub(super) equivalent: usize,
}

impl FateCounts {
    /// Counts the mutants for which `wanted` is true.
    pub(super) fn of(fates: &Fates, reasons: &Reasons, wanted: impl Fn(&Mutant) -> bool) -> Self {
        let mut counts = Self::default();
        for (mutant, fate) in fates.iter().filter(|(mutant, _)| wanted(mutant)) {
            match fate {
                Fate::Caught(_) => counts.caught += 1,
                Fate::TimedOut(_) => counts.timed_out += 1,
                Fate::Unviable => counts.unviable += 1,
                Fate::Missed => {
                    counts.missed += 1;
                    let reason = reasons.of(mutant);
                    counts.equivalent +=
                        usize::from(reason.is_some_and(|reason| reason.sort == Sort::Equivalent));
                }
            }
        }
        counts
    }

    /// Mutants that were noticed. A test that does not end counts.
    pub(super) fn noticed(&self) -> usize {
        self.caught + self.timed_out
    }

    /// Mutants that compile.
    pub(super) fn viable(&self) -> usize {
        self.noticed() + self.missed
    }

    /// Mutants that a test could notice.
    pub(super) fn noticeable(&self) -> usize {
        self.viable() - self.equivalent
    }
}

/// The problems of a run.
#[derive(Debug)]
pub(super) struct Judgement<'a> {
    counts: FateCounts,
    /// Survivors without a written reason.
    pub(super) unexplained: Vec<&'a Mutant>,
    /// Reasons for mutants that no longer exist.
    pub(super) void: Vec<&'a Reason>,
}

/// Judges a run. `all` are all existing mutants.
pub(super) fn judge<'a>(all: &[Mutant], fates: &'a Fates, reasons: &'a Reasons) -> Judgement<'a> {
    let missed = fates.iter().filter(|(_, fate)| *fate == Fate::Missed).map(|(mutant, _)| mutant);
    Judgement {
        counts: FateCounts::of(fates, reasons, |_| true),
        unexplained: missed.filter(|mutant| reasons.of(mutant).is_none()).collect(),
        void: reasons.void(all),
    }
}

impl Judgement<'_> {
    pub(super) fn verdict(&self, fates: &Fates) -> Verdict {
        let counts = self.counts;
        let (noticed, noticeable) = (counts.noticed(), counts.noticeable());
        let told = format!(
            "{noticed} of {noticeable} caught ({} mutants in {}, {} unviable, {} equivalent)",
            fates.len(),
            FOLDERS.join(", "),
            counts.unviable,
            counts.equivalent
        );
        let enough = noticed * 100 >= noticeable * CAUGHT_PERCENT_MIN;
        match (self.unexplained.len(), self.void.len()) {
            (0, 0) if enough || noticeable < JUDGED_FROM => Verdict::Passed(told),
            (0, 0) => Verdict::Failed(format!("{told}: less than {CAUGHT_PERCENT_MIN} %")),
            (0, void) => Verdict::Failed(format!("{told}; {void} reasons are void")),
            (some, _) => Verdict::Failed(format!("{told}; {some} survive without a reason")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::mutant::tests::mutant;
    use super::*;

    fn reasons(sort: &str) -> Reasons {
        let text = r#"[{"file": "soc/x.rs", "change": "c", "line": "the line of c",
            "sort": "SORT", "why": "w"}]"#;
        Reasons::parse(&text.replace("SORT", sort)).unwrap()
    }

    fn fates(caught: usize, missed: usize) -> Vec<(Mutant, Fate)> {
        let of = |count, fate| vec![(mutant("soc/x.rs", "c"), fate); count];
        [of(caught, Fate::Caught("it")), of(1, Fate::Unviable), of(missed, Fate::Missed)].concat()
    }

    fn passes(fates: &Fates, reasons: &Reasons) -> bool {
        let all = [mutant("soc/x.rs", "c")];
        matches!(judge(&all, fates, reasons).verdict(fates), Verdict::Passed(_))
    }

    #[test]
    fn a_survivor_without_a_reason_fails() {
        assert!(passes(&fates(99, 1), &reasons("speed")));
        assert!(!passes(&fates(99, 1), &Reasons::default()));
    }

    #[test]
    fn too_few_caught_fail_unless_no_test_can_tell_or_the_sample_is_small() {
        assert!(passes(&fates(95, 5), &reasons("speed")));
        assert!(!passes(&fates(94, 6), &reasons("speed")));
        assert!(passes(&fates(94, 6), &reasons("equivalent")));
        assert!(passes(&fates(10, 5), &reasons("choice")));
    }

    #[test]
    fn a_reason_of_nothing_fails() {
        let fates = fates(99, 0);
        let reasons = reasons("speed");
        let judgement = judge(&[mutant("soc/y.rs", "c")], &fates, &reasons);
        assert!(
            matches!(judgement.verdict(&fates), Verdict::Failed(text) if text.contains("void"))
        );
    }
}
