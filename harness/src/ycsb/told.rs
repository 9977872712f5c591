//! The final output of YCSB's client, one number on each line: `[READ], Return=OK, 12`.

/// See the module.
#[derive(Debug)]
pub(super) struct YcsbReport {
    /// Operations a second.
    pub(super) throughput: f64,
    /// Kind of operation, result, count.
    returns: Vec<(String, String, u64)>,
    /// Records that were read and then written, as one operation.
    read_modify_writes: u64,
}

impl YcsbReport {
    /// Parses the output.
    pub(super) fn read(said: &str) -> Result<Self, String> {
        let mut told = Self { throughput: 0.0, returns: Vec::new(), read_modify_writes: 0 };
        for line in said.lines() {
            let mut parts = line.split(", ");
            let (Some(kind), Some(what), Some(number)) = (parts.next(), parts.next(), parts.next())
            else {
                continue;
            };
            let Some(kind) = kind.strip_prefix('[').and_then(|kind| kind.strip_suffix(']')) else {
                continue;
            };
            let count = || number.trim().parse::<u64>().map_err(|_| format!("no number: {line}"));
            match (kind, what.strip_prefix("Return=")) {
                (_, Some(ended)) => {
                    told.returns.push((kind.to_owned(), ended.to_owned(), count()?));
                }
                ("OVERALL", None) if what.starts_with("Throughput") => {
                    told.throughput = number.trim().parse().unwrap_or(0.0);
                }
                ("READ-MODIFY-WRITE", None) if what == "Operations" => {
                    told.read_modify_writes = count()?;
                }
                _ => {}
            }
        }
        match told.returns.is_empty() {
            true => Err(format!("YCSB says nothing of operations: {}", said.trim())),
            false => Ok(told),
        }
    }

    /// Number of values that YCSB has verified.
    pub(super) fn verified(&self) -> u64 {
        self.good("VERIFY")
    }

    /// Checks that this number of records was loaded, and that nothing else happened.
    pub(super) fn is_load_of(&self, records: u64) -> Result<(), String> {
        self.nothing_wrong()?;
        is("records inserted", self.good("INSERT"), records)
    }

    /// Checks that this number of operations was done, that every value that was read existed and was right, and that
    /// nothing failed.
    pub(super) fn is_run_of(&self, operations: u64) -> Result<(), String> {
        self.nothing_wrong()?;
        // A record that is read and then written counts as a read and as an update.
        let parts: u64 = ["READ", "UPDATE", "INSERT"].map(|kind| self.good(kind)).iter().sum();
        is("operations", parts.saturating_sub(self.read_modify_writes), operations)?;
        is("values verified", self.verified(), self.good("READ"))
    }

    fn good(&self, kind: &str) -> u64 {
        let of_kind = self.returns.iter().filter(|(of, ended, _)| of == kind && ended == "OK");
        of_kind.map(|(_, _, count)| count).sum()
    }

    fn nothing_wrong(&self) -> Result<(), String> {
        let wrong = self.returns.iter().filter(|(_, ended, count)| ended != "OK" && *count > 0);
        let wrong: Vec<String> = wrong
            .map(|(kind, ended, count)| format!("{count} {kind} ended with {ended}"))
            .collect();
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join(", ")) }
    }
}

fn is(what: &str, found: u64, wanted: u64) -> Result<(), String> {
    match found == wanted {
        true => Ok(()),
        false => Err(format!("{found} {what}, not {wanted}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "Starting test.
[OVERALL], RunTime(ms), 500
[OVERALL], Throughput(ops/sec), 20.0
[READ], Operations, 10
[READ], AverageLatency(us), 12.5
[READ], Return=OK, 10
[READ-MODIFY-WRITE], Operations, 4
[UPDATE], Return=OK, 4
[VERIFY], Return=OK, 10
";

    #[test]
    fn a_run_is_as_long_as_was_asked_and_every_read_is_verified() {
        let told = YcsbReport::read(SAID).unwrap();
        assert_eq!((told.throughput, told.verified()), (20.0, 10));
        assert_eq!(told.is_run_of(10), Ok(()));
        assert_eq!(told.is_run_of(11).unwrap_err(), "10 operations, not 11");
        let fewer = SAID.replace("[VERIFY], Return=OK, 10", "[VERIFY], Return=OK, 9");
        let fewer = YcsbReport::read(&fewer).unwrap().is_run_of(10);
        assert_eq!(fewer.unwrap_err(), "9 values verified, not 10");
        let load = YcsbReport::read("[INSERT], Return=OK, 7\n").unwrap();
        assert_eq!(load.is_load_of(7), Ok(()));
        assert!(load.is_load_of(8).is_err());
    }

    #[test]
    fn whatever_is_not_well_is_told() {
        for wrong in ["[READ], Return=NOT_FOUND, 1", "[VERIFY], Return=UNEXPECTED_STATE, 1"] {
            let told = YcsbReport::read(&format!("{SAID}{wrong}\n")).unwrap();
            let (kind, ended) = wrong.split_once(", Return=").unwrap();
            let (kind, ended) = (kind.trim_matches(['[', ']']), ended.trim_end_matches(", 1"));
            assert_eq!(told.is_run_of(10).unwrap_err(), format!("1 {kind} ended with {ended}"));
        }
        assert!(YcsbReport::read("Exception in thread \"main\"").is_err());
    }
}
