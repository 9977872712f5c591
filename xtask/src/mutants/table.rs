//! The result, as Markdown and as JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use super::Mutant;
use super::judge::{FateCounts, Fates, Judgement};
use super::reasons::Reasons;
use super::stages::{Fate, STAGES};

/// A table by folder, one by stage, and a line for each survivor.
pub(super) fn markdown(
    folders: &[&str],
    fates: &Fates,
    reasons: &Reasons,
    judgement: &Judgement,
    command: &str,
) -> String {
    let mut text = format!("`{command}`\n\n");
    text.push_str("| folder | mutants | caught | timeout | missed | equivalent | unviable |\n");
    text.push_str("|---|---|---|---|---|---|---|\n");
    for folder in folders {
        row(
            &mut text,
            folder,
            &FateCounts::of(fates, reasons, |mutant| mutant.folder() == *folder),
        );
    }
    row(&mut text, "all", &FateCounts::of(fates, reasons, |_| true));
    text.push_str("\nMissed ones include those that are equivalent. Noticed by:");
    for stage in &STAGES {
        let by =
            |fate: &Fate| [Fate::Caught(stage.name), Fate::TimedOut(stage.name)].contains(fate);
        let noticed = fates.iter().filter(|(_, fate)| by(fate)).count();
        let _ = write!(text, " {} {noticed},", stage.name);
    }
    text.pop();
    text.push_str(".\n");
    for (mutant, _) in fates.iter().filter(|(_, fate)| *fate == Fate::Missed) {
        let _ = write!(text, "\n- {}, at `{}`: {}", mutant.name, mutant.line, why(mutant, reasons));
    }
    for reason in &judgement.void {
        let _ = write!(text, "\n- VOID, there is no such mutant: {}", reason.subject());
    }
    text.push('\n');
    text
}

fn row(text: &mut String, name: &str, counts: &FateCounts) {
    let FateCounts { caught, timed_out, unviable, missed, equivalent } = counts;
    let all = counts.viable() + unviable;
    let _ = writeln!(
        text,
        "| {name} | {all} | {caught} | {timed_out} | {missed} | {equivalent} | {unviable} |"
    );
}

fn why(mutant: &Mutant, reasons: &Reasons) -> String {
    reasons.of(mutant).map_or_else(
        || "NO REASON: write a test, or say why in xtask/mutants.json".to_owned(),
        |reason| format!("{}: {}", reason.sort.word(), reason.why),
    )
}

/// Every mutant with its fate.
pub(super) fn json(fates: &Fates, reasons: &Reasons, command: &str) -> Value {
    let entry = |(mutant, fate): &(Mutant, Fate)| {
        let (word, stage) = match fate {
            Fate::Caught(stage) => ("caught", Some(*stage)),
            Fate::TimedOut(stage) => ("timeout", Some(*stage)),
            Fate::Unviable => ("unviable", None),
            Fate::Missed => ("missed", None),
        };
        let reason = reasons.of(mutant).filter(|_| *fate == Fate::Missed);
        json!({
            "name": mutant.name,
            "folder": mutant.folder(),
            "line": mutant.line,
            "fate": word,
            "stage": stage,
            "reason": reason.map(|reason| reason.sort.word()),
            "why": reason.map(|reason| reason.why.as_str()),
        })
    };
    json!({ "command": command, "mutants": fates.iter().map(entry).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::super::judge::judge;
    use super::super::mutant::tests::mutant;
    use super::*;

    #[test]
    fn every_mutant_is_in_the_tables() {
        let all = [mutant("soc/x.rs", "a"), mutant("loc/x.rs", "b"), mutant("loc/x.rs", "c")];
        let fates: Vec<(Mutant, Fate)> = all
            .iter()
            .cloned()
            .zip([Fate::Caught("unit tests"), Fate::TimedOut("soak"), Fate::Missed])
            .collect();
        let reasons = Reasons::default();
        let judgement = judge(&all, &fates, &reasons);
        let text = markdown(&["soc", "loc"], &fates, &reasons, &judgement, "the command");
        for part in [
            "| soc | 1 | 1 | 0 | 0 | 0 | 0 |",
            "| loc | 2 | 0 | 1 | 1 | 0 | 0 |",
            "| all | 3 | 1 | 1 | 1 | 0 | 0 |",
            "unit tests 1, tests/it 0, examples 0, threads 0, soak 1.",
            "loc/x.rs:1:2: c, at `the line of c`: NO REASON",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        let json = json(&fates, &reasons, "the command");
        assert_eq!(json.pointer("/mutants/1/fate"), Some(&Value::from("timeout")));
        assert_eq!(json.pointer("/mutants/2/folder"), Some(&Value::from("loc")));
    }
}
