//! The result in a sentence.

use super::format;
use crate::replay::outcome::Run;

/// The main result: write amplification with and without placement, or why it is unknown.
pub(super) fn sentence(runs: &[Run]) -> String {
    let known: Vec<(&Run, String)> = runs
        .iter()
        .filter_map(|run| Some((run, format::factor(run.dlwa.filter(|dlwa| dlwa.is_finite())?))))
        .collect();
    match known.as_slice() {
        _ if runs.is_empty() => "No run was made.".to_owned(),
        [] => {
            "How much the drive wrote is unknown: this device does not count the bytes it writes \
               to its media."
                .to_owned()
        }
        [(_, a), (_, b)] if a == b => format!(
            "With placement and without it alike, the drive wrote {a} bytes per byte of the cache."
        ),
        [(first, first_dlwa), rest @ ..] => {
            let mut text = format!(
                "{} the drive wrote {first_dlwa} bytes per byte of the cache",
                capitalised(with(first))
            );
            for (run, dlwa) in rest {
                text += &format!("; {} it, {dlwa}", with_short(run));
            }
            text + "."
        }
    }
}

/// Notes below the finding: hit ratios, and whether the run is complete.
pub(super) fn notes(runs: &[Run]) -> Vec<String> {
    let mut notes: Vec<String> = hits(runs).into_iter().collect();
    for run in runs.iter().filter(|run| run.interrupted) {
        let done = run.intervals.last().map_or(run.requests, |interval| interval.requests);
        notes.push(format!(
            "The run {} was cut short after {} requests: its numbers are those of the part that ran.",
            with(run),
            format::thousands(done)
        ));
    }
    notes
}

fn hits(runs: &[Run]) -> Option<String> {
    let ratios: Vec<(&Run, String)> = runs
        .iter()
        .filter(|run| run.gets > 0 && run.hit_ratio.is_finite())
        .map(|run| (run, format::percent(run.hit_ratio)))
        .collect();
    match ratios.as_slice() {
        [] => None,
        [(_, only)] => Some(format!("{only} of the GETs found their key.")),
        [(_, a), (_, b)] if a == b => {
            Some(format!("{a} of the GETs found their key in both runs."))
        }
        ratios => {
            let each: Vec<String> =
                ratios.iter().map(|(run, ratio)| format!("{ratio} {}", with(run))).collect();
            Some(format!("GETs that found their key: {}.", each.join(", ")))
        }
    }
}

fn with(run: &Run) -> &'static str {
    if run.placement == "on" { "with placement" } else { "without placement" }
}

fn with_short(run: &Run) -> &'static str {
    if run.placement == "on" { "with" } else { "without" }
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |c| c.to_uppercase().collect::<String>() + chars.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::run;

    fn with_dlwa(placement: &'static str, dlwa: Option<f64>) -> Run {
        Run { dlwa, ..run(placement) }
    }

    #[test]
    fn two_runs_are_compared() {
        let runs = [with_dlwa("on", Some(1.012)), with_dlwa("off", Some(3.4))];
        assert_eq!(
            sentence(&runs),
            "With placement the drive wrote 1.01 bytes per byte of the cache; without it, 3.40."
        );
        let runs = [with_dlwa("off", Some(3.4)), with_dlwa("on", Some(1.012))];
        assert_eq!(
            sentence(&runs),
            "Without placement the drive wrote 3.40 bytes per byte of the cache; with it, 1.01."
        );
    }

    #[test]
    fn one_run_equal_runs_and_no_run() {
        assert_eq!(
            sentence(&[with_dlwa("off", Some(2.0))]),
            "Without placement the drive wrote 2.00 bytes per byte of the cache."
        );
        let runs = [with_dlwa("on", Some(1.0)), with_dlwa("off", Some(1.0))];
        assert!(sentence(&runs).contains("alike, the drive wrote 1.00"));
        assert_eq!(sentence(&[]), "No run was made.");
    }

    #[test]
    fn unknown_amplification_is_called_unknown() {
        for dlwa in [None, Some(f64::NAN), Some(f64::INFINITY)] {
            assert!(sentence(&[with_dlwa("off", dlwa)]).contains("unknown"));
        }
    }

    #[test]
    fn notes_tell_hits_and_interruptions() {
        let mut runs = [run("on"), run("off")];
        assert!(notes(&runs).is_empty(), "no GETs, no interruption");
        for run in &mut runs {
            run.gets = 10;
            run.hit_ratio = 0.5;
        }
        assert_eq!(notes(&runs), ["50.00% of the GETs found their key in both runs."]);
        runs[1].hit_ratio = 0.25;
        runs[1].interrupted = true;
        runs[1].requests = 1234;
        let notes = notes(&runs);
        assert!(notes[0].contains("50.00% with placement, 25.00% without placement"));
        assert!(notes[1].contains("without placement was cut short after 1,234 requests"));
    }
}
