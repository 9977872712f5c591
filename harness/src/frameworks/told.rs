//! What a program tells about the features that it has tried.

/// What stands between a feature and the reason why it fails.
const SEPARATOR: &str = " -- ";

/// Whether a feature works, or why it does not.
pub(super) type Outcome = Result<(), String>;

/// The lines of a program.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Names and versions of the packages that it uses.
    pub(super) versions: Vec<String>,
    features: Vec<(String, Outcome)>,
}

impl Told {
    /// Reads "version NAME VERSION", "ok FEATURE" and "not ok FEATURE -- WHY", and passes over other lines.
    pub(super) fn read(text: &str) -> Self {
        let mut told = Self::default();
        for line in text.lines() {
            if let Some(version) = line.strip_prefix("version ") {
                told.versions.push(version.to_owned());
            } else if let Some(feature) = line.strip_prefix("ok ") {
                told.features.push((feature.to_owned(), Ok(())));
            } else if let Some(failure) = line.strip_prefix("not ok ") {
                told.features.push(failed(failure));
            }
        }
        told
    }

    /// The features in the order of the program.
    pub(super) fn features(&self) -> impl Iterator<Item = &str> {
        self.features.iter().map(|(name, _)| name.as_str())
    }

    /// The outcome of a feature. One that the program has not come to fails.
    pub(super) fn outcome(&self, feature: &str) -> Outcome {
        let found = self.features.iter().find(|(name, _)| name == feature);
        found.map_or_else(
            || Err("the program has not come to it".to_owned()),
            |(_, told)| told.clone(),
        )
    }
}

fn failed(failure: &str) -> (String, Outcome) {
    let (name, why) = failure.split_once(SEPARATOR).unwrap_or((failure, "no reason is told"));
    (name.to_owned(), Err(why.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_with_their_reasons() {
        let text =
            "version a 1.2\nok Lock: held\nnot ok Lock: lost -- Error: 1 of 2\nTraceback: x\n";
        let told = Told::read(text);
        assert_eq!(told.versions, ["a 1.2"]);
        assert_eq!(told.features().collect::<Vec<_>>(), ["Lock: held", "Lock: lost"]);
        assert_eq!(told.outcome("Lock: held"), Ok(()));
        assert_eq!(told.outcome("Lock: lost"), Err("Error: 1 of 2".to_owned()));
    }

    #[test]
    fn a_feature_that_the_program_has_not_come_to_fails() {
        assert!(Told::read("ok a\n").outcome("b").is_err());
        assert_eq!(Told::read("not ok a\n").outcome("a"), Err("no reason is told".to_owned()));
    }
}
