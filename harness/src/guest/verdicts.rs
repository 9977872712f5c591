//! Judges a guest's report: the checks of its scenario, the exit status of every step without a check of it, and the
//! space around partitions.

use std::io::Write;
use std::time::Duration;

use serde_json::{Value, json};

use super::frames::{Frames, Step};
use super::scenario::Scenario;
use crate::step::Verdict;

/// The results of a guest.
pub(super) struct Evidence {
    pub(super) frames: Frames,
    /// For each partition: the number of its namespace, and whether the space around it is unchanged.
    pub(super) untouched: Vec<(usize, bool)>,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    check: String,
    holds: bool,
    measured: String,
}

/// The result of a scenario.
pub(super) struct ScenarioResult {
    name: String,
    kernel: String,
    findings: Vec<Finding>,
    steps: Vec<Step>,
    pub(super) seconds: f64,
}

/// Judges the results of a scenario.
pub(super) fn judge(
    scenario: &Scenario,
    kernel: String,
    ran: Result<Evidence, String>,
) -> ScenarioResult {
    let name = scenario.name.clone();
    let (findings, steps) = match ran {
        Ok(evidence) => (findings(scenario, &evidence), evidence.frames.steps),
        Err(message) => {
            let check = "the guest runs its scenario".to_owned();
            (vec![Finding { check, holds: false, measured: message }], Vec::new())
        }
    };
    ScenarioResult { name, kernel, findings, steps, seconds: 0.0 }
}

fn findings(scenario: &Scenario, evidence: &Evidence) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    for check in &scenario.checks {
        let (holds, measured) = match check.judge(&evidence.frames) {
            Ok(judged) => judged,
            Err(message) => (false, message),
        };
        findings.push(Finding { check: check.text().to_owned(), holds, measured });
    }
    findings.push(exits(scenario, &evidence.frames));
    for (number, same) in &evidence.untouched {
        let check = format!("what lies around the partition of namespace {number} is untouched");
        let measured = if *same { "same bytes" } else { "other bytes" }.to_owned();
        findings.push(Finding { check, holds: *same, measured });
    }
    findings
}

/// Every step must exit with 0, unless a check judges its exit status.
fn exits(scenario: &Scenario, frames: &Frames) -> Finding {
    let judged = |step: &Step| scenario.checks.iter().any(|check| check.judges_exit_of(&step.name));
    let steps: Vec<&Step> = frames.steps.iter().filter(|step| !judged(step)).collect();
    let failed: Vec<String> = steps
        .iter()
        .filter(|step| step.status != 0)
        .map(|step| {
            let errors = String::from_utf8_lossy(&step.errors);
            let said = errors.lines().chain(step.text().lines()).next().unwrap_or("").to_owned();
            format!("{} exits {}: {said}", step.name, step.status)
        })
        .collect();
    let check = "other steps exit with 0".to_owned();
    let measured =
        if failed.is_empty() { format!("{} steps", steps.len()) } else { failed.join("; ") };
    Finding { check, holds: failed.is_empty(), measured }
}

impl ScenarioResult {
    /// Whether all checks hold.
    pub(super) fn passed(&self) -> bool {
        self.findings.iter().all(|finding| finding.holds)
    }

    /// Prints a line for each check.
    pub(super) fn print(&self) {
        // Guests run concurrently: print one guest's lines as a whole.
        let mut out = std::io::stdout().lock();
        self.write(&mut out).expect("standard output takes it, as println demands");
    }

    fn write(&self, out: &mut impl Write) -> std::io::Result<()> {
        for finding in &self.findings {
            let word = if finding.holds { "ok  " } else { "FAIL" };
            writeln!(out, "{word}  {}  {}: {}", self.name, finding.check, finding.measured)?;
        }
        writeln!(out, "      {}  {:.1} s", self.name, self.seconds)
    }

    /// The result as JSON.
    pub(super) fn json(&self) -> Value {
        let finding = |found: &Finding| {
            let Finding { check, holds, measured, .. } = found;
            json!({ "check": check, "holds": holds, "measured": measured })
        };
        let step = |step: &Step| {
            json!({
                "name": step.name,
                "exit": step.status,
                "seconds": step.seconds,
                "output": step.text(),
                "errors": String::from_utf8_lossy(&step.errors),
            })
        };
        let checks: Vec<Value> = self.findings.iter().map(finding).collect();
        let steps: Vec<Value> = self.steps.iter().map(step).collect();
        json!({
            "name": self.name,
            "kernel": self.kernel,
            "passed": self.passed(),
            "seconds": self.seconds,
            "checks": checks,
            "steps": steps,
        })
    }
}

/// The verdict on all scenarios together.
pub(super) fn verdict(outcomes: &[ScenarioResult], elapsed: Duration) -> Verdict {
    let all = outcomes.iter().flat_map(|outcome| &outcome.findings);
    let (count, wrong) = (all.clone().count(), all.filter(|finding| !finding.holds).count());
    if wrong == 0 {
        let seconds = elapsed.as_secs();
        return Verdict::Passed(format!("{} guests, {count} checks, {seconds} s", outcomes.len()));
    }
    let failed = outcomes.iter().filter(|outcome| !outcome.passed());
    let names: Vec<&str> = failed.map(|outcome| outcome.name.as_str()).collect();
    Verdict::Failed(format!("{wrong} of {count} checks, in {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(report: &str, untouched: &[(usize, bool)]) -> ScenarioResult {
        let text = "# x\n#: namespace size=1M\n#: check exit(a) = 3\n#: check number(b) = 7\n";
        let scenario = Scenario::read("s", text).unwrap();
        let frames = Frames::read(report.as_bytes()).unwrap();
        let evidence = Evidence { frames, untouched: untouched.to_vec() };
        judge(&scenario, "6".to_owned(), Ok(evidence))
    }

    #[test]
    fn a_step_may_fail_only_where_a_check_says_so() {
        let good = outcome("@end a 3 0 0 1 2\n\n@end b 0 1 0 1 2\n7\n", &[(1, true)]);
        assert!(good.passed());
        assert_eq!(
            verdict(&[good], Duration::from_secs(2)),
            Verdict::Passed("1 guests, 4 checks, 2 s".to_owned())
        );
        let bad = outcome("@end a 3 0 0 1 2\n\n@end b 1 1 3 1 2\n7Oh!\n", &[(1, false)]);
        let wrong: Vec<&str> =
            bad.findings.iter().filter(|f| !f.holds).map(|f| f.measured.as_str()).collect();
        assert_eq!(wrong, ["b exits 1: Oh!", "other bytes"]);
        assert_eq!(
            verdict(&[bad], Duration::ZERO),
            Verdict::Failed("2 of 4 checks, in s".to_owned())
        );
    }

    #[test]
    fn a_step_that_never_ran_and_a_guest_that_died_are_failures() {
        let outcome = outcome("@end a 3 0 0 1 2\n\n", &[]);
        assert!(!outcome.passed());
        let scenario =
            Scenario::read("s", "# x\n#: namespace size=1M\n#: check exit(a)\n").unwrap();
        let dead = judge(&scenario, String::new(), Err("console ends".to_owned()));
        assert!(!dead.passed());
        let json = dead.json();
        assert_eq!(json["checks"][0]["measured"], "console ends");
    }
}
