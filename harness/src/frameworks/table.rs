//! The table of features, and what it sums up to.

use std::fmt::Write;

use super::framework::Backend;
use super::told::{Outcome, Told};

/// Features that work on Valkey or memcached and are known to fail on Larder: framework, feature, reason.
const KNOWN: [(&str, &str, &str); 1] =
    [("cashews", "get_keys_count (DBSIZE)", "with flash, DBSIZE is an estimate")];

/// A feature of a framework in one of its protocols.
pub(super) struct Row {
    framework: String,
    feature: String,
    backend: Backend,
    larder: Outcome,
    /// Valkey or memcached, by the protocol.
    other: Option<Outcome>,
    known: Option<&'static str>,
}

impl Row {
    fn works_on_other(&self) -> bool {
        self.other == Some(Ok(()))
    }

    /// Fails on Larder for no known reason, and works on the other server.
    fn is_worse(&self) -> bool {
        self.works_on_other() && self.larder.is_err() && self.known.is_none()
    }
}

/// The rows of a framework, from what its program told of Larder in DRAM, of Larder with flash, and of the other.
pub(super) fn rows(
    framework: &str,
    backend: Backend,
    [dram, flash]: [&Told; 2],
    other: Option<&Told>,
) -> Vec<Row> {
    let mut features: Vec<&str> = Vec::new();
    for feature in other.into_iter().chain([dram, flash]).flat_map(Told::features) {
        if !features.contains(&feature) {
            features.push(feature);
        }
    }
    let row = |feature: &str| Row {
        framework: framework.to_owned(),
        feature: feature.to_owned(),
        backend,
        larder: both(dram.outcome(feature), flash.outcome(feature)),
        other: other.map(|told| told.outcome(feature)),
        known: known(framework, feature),
    };
    features.into_iter().map(row).collect()
}

fn both(dram: Outcome, flash: Outcome) -> Outcome {
    dram.and_then(|()| flash.map_err(|why| format!("with flash: {why}")))
}

fn known(framework: &str, feature: &str) -> Option<&'static str> {
    let is_it = |entry: &&(&str, &str, &str)| (entry.0, entry.1) == (framework, feature);
    KNOWN.iter().find(is_it).map(|(_, _, reason)| *reason)
}

/// The table, with the reasons of failures at the ends of its lines.
pub(super) fn shown(rows: &[Row]) -> String {
    let width = |of: fn(&Row) -> &str| rows.iter().map(|row| of(row).chars().count()).max();
    let (names, features) = (width(|row| &row.framework), width(|row| &row.feature));
    let (names, features) = (names.unwrap_or(0).max(9), features.unwrap_or(0).max(7));
    let mut text =
        format!("{:names$}  {:features$}  Larder  Valkey  memcached\n", "framework", "feature");
    for row in rows {
        let larder = word(Some(&row.larder));
        let (valkey, memcached) = match row.backend {
            Backend::Resp => (word(row.other.as_ref()), "–"),
            Backend::Memcached => ("–", word(row.other.as_ref())),
        };
        let (framework, feature, why) = (&row.framework, &row.feature, reasons(row));
        let line = format!(
            "{framework:names$}  {feature:features$}  {larder:6}  {valkey:6}  {memcached:9}{why}"
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

fn word(outcome: Option<&Outcome>) -> &'static str {
    match outcome {
        Some(Ok(())) => "ok",
        Some(Err(_)) => "FAILS",
        None => "–",
    }
}

fn reasons(row: &Row) -> String {
    let mut text = String::new();
    if let Err(why) = &row.larder {
        let _ = write!(text, "  Larder: {why}");
    }
    if let Some(Err(why)) = &row.other {
        let _ = write!(text, "  {}: {why}", other_name(row.backend));
    }
    if let Some(reason) = row.known {
        let _ = write!(text, "  (known: {reason})");
    }
    text
}

fn other_name(backend: Backend) -> &'static str {
    match backend {
        Backend::Resp => "Valkey",
        Backend::Memcached => "memcached",
    }
}

/// "N of M features that work on Valkey work on Larder"; the same for memcached.
pub(super) fn sum(rows: &[Row], backend: Backend) -> String {
    let there: Vec<&Row> =
        rows.iter().filter(|row| row.backend == backend && row.works_on_other()).collect();
    let works = there.iter().filter(|row| row.larder.is_ok()).count();
    let (all, other) = (there.len(), other_name(backend));
    format!("{works} of {all} features that work on {other} work on Larder")
}

/// Features that fail on Larder for no known reason, and work on the other server.
pub(super) fn worse(rows: &[Row]) -> Vec<String> {
    let worse = rows.iter().filter(|row| row.is_worse());
    worse.map(|row| format!("{}: {}", row.framework, row.feature)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(dram: &str, flash: &str, other: &str) -> Vec<Row> {
        let [dram, flash, other] = [dram, flash, other].map(Told::read);
        rows("f", Backend::Resp, [&dram, &flash], Some(&other))
    }

    #[test]
    fn a_feature_that_works_elsewhere_must_work_in_dram_and_with_flash() {
        let found =
            of("ok a\nok b\nok c\n", "ok a\nnot ok b -- lost\nok c\n", "ok a\nok b\nnot ok c\n");
        assert_eq!(worse(&found), ["f: b"]);
        assert_eq!(
            sum(&found, Backend::Resp),
            "1 of 2 features that work on Valkey work on Larder"
        );
        assert!(shown(&found).contains("Larder: with flash: lost"), "{}", shown(&found));
    }

    #[test]
    fn a_known_failure_is_shown_with_its_reason_and_is_not_worse() {
        let (framework, feature, reason) = KNOWN[0];
        let [good, bad] = ["ok", "not ok"].map(|word| Told::read(&format!("{word} {feature}\n")));
        let found = rows(framework, Backend::Resp, [&good, &bad], Some(&good));
        assert!(worse(&found).is_empty());
        assert!(shown(&found).contains(&format!("(known: {reason})")), "{}", shown(&found));
    }

    #[test]
    fn a_program_that_stops_on_larder_is_worse() {
        assert_eq!(worse(&of("ok a\n", "ok a\n", "ok a\nok b\n")), ["f: b"]);
    }

    #[test]
    fn what_fails_on_both_is_shown_and_not_counted() {
        let found = of("not ok a -- x\n", "ok a\n", "not ok a -- y\n");
        assert!(worse(&found).is_empty());
        assert_eq!(
            sum(&found, Backend::Resp),
            "0 of 0 features that work on Valkey work on Larder"
        );
        assert!(shown(&found).contains("FAILS   FAILS   –          Larder: x  Valkey: y"));
    }

    #[test]
    fn memcached_has_a_column_and_a_sum_of_its_own() {
        let told = Told::read("ok a\n");
        let found = rows("f", Backend::Memcached, [&told, &told], Some(&told));
        assert_eq!(
            sum(&found, Backend::Resp),
            "0 of 0 features that work on Valkey work on Larder"
        );
        assert_eq!(
            sum(&found, Backend::Memcached),
            "1 of 1 features that work on memcached work on Larder"
        );
        assert!(shown(&found).contains("ok      –       ok"), "{}", shown(&found));
    }
}
