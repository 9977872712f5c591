//! Why some mutants survive: `xtask/mutants.json`, maintained by hand.
//!
//! An entry names the file, the change and the text of the line. So it stays valid if the line moves, and becomes void
//! if the line changes.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::Mutant;

/// The file, relative to the root of the workspace.
pub(super) const FILE: &str = "xtask/mutants.json";

/// The kind of a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    /// The program behaves the same: no test can notice.
    Equivalent,
    /// Every answer is right, but it is slower or costs memory.
    Speed,
    /// Every answer is right, but the choice of items that stay, or a counter, differs a little.
    Choice,
}

impl Sort {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Equivalent => "equivalent",
            Self::Speed => "speed",
            Self::Choice => "choice",
        }
    }

    fn read(word: &str) -> Option<Self> {
        [Self::Equivalent, Self::Speed, Self::Choice].into_iter().find(|sort| sort.word() == word)
    }
}

/// The reason why a mutant survives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reason {
    file: String,
    change: String,
    line: String,
    pub(super) sort: Sort,
    pub(super) why: String,
}

impl Reason {
    fn is_of(&self, mutant: &Mutant) -> bool {
        self.file == mutant.file && self.change == mutant.change && self.line == mutant.line
    }

    /// A description of the mutant.
    pub(super) fn subject(&self) -> String {
        format!("{}: {}, at `{}`", self.file, self.change, self.line)
    }
}

/// All reasons.
#[derive(Debug, Default)]
pub(super) struct Reasons(Vec<Reason>);

impl Reasons {
    /// Reads the file.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let told = |cause: String| format!("{}: {cause}", path.display());
        Self::parse(&fs::read_to_string(path).map_err(|cause| told(cause.to_string()))?)
            .map_err(told)
    }

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let entries: Vec<Value> =
            serde_json::from_str(text).map_err(|cause| format!("cannot be read: {cause}"))?;
        let reason = |entry: &Value| {
            let text = |field: &str| {
                let text = entry.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
                text.map(str::to_owned).ok_or_else(|| format!("{field} is missing in {entry}"))
            };
            let word = text("sort")?;
            let sort = Sort::read(&word)
                .ok_or_else(|| format!("sort {word}: write equivalent, speed or choice"))?;
            let (file, change, line) = (text("file")?, text("change")?, text("line")?);
            Ok(Reason { file, change, line, sort, why: text("why")? })
        };
        entries.iter().map(reason).collect::<Result<_, String>>().map(Self)
    }

    /// The reason for this mutant, if there is one.
    pub(super) fn of(&self, mutant: &Mutant) -> Option<&Reason> {
        self.0.iter().find(|reason| reason.is_of(mutant))
    }

    /// Reasons for mutants that are not in `all`.
    pub(super) fn void<'a>(&'a self, all: &[Mutant]) -> Vec<&'a Reason> {
        self.0.iter().filter(|reason| !all.iter().any(|mutant| reason.is_of(mutant))).collect()
    }
}

#[cfg(test)]
mod tests {
    use larder_harness::workspace;

    use super::super::mutant::tests::mutant;
    use super::*;

    #[test]
    fn a_reason_holds_for_its_line_alone() {
        let text = r#"[{"file": "a/x.rs", "change": "c", "line": "the line of c",
            "sort": "speed", "why": "it looks twice"}]"#;
        let reasons = Reasons::parse(text).unwrap();
        let (its, other) = (mutant("a/x.rs", "c"), mutant("a/y.rs", "c"));
        assert_eq!(reasons.of(&its).unwrap().why, "it looks twice");
        assert_eq!(reasons.of(&other), None);
        let mut moved = its.clone();
        moved.line = "another line".to_owned();
        assert_eq!(reasons.of(&moved), None);
        assert_eq!(reasons.void(&[other, its]).len(), 0);
        assert_eq!(reasons.void(&[moved]).len(), 1);
    }

    #[test]
    fn what_is_no_reason_is_refused() {
        for wrong in ["", "{}", r#"[{"file": "x"}]"#] {
            assert!(Reasons::parse(wrong).is_err(), "{wrong}");
        }
        let all =
            r#"[{"file": "x", "change": "c", "line": "l", "sort": "equivalent", "why": "w"}]"#;
        assert!(Reasons::parse(all).is_ok());
        assert!(Reasons::parse(&all.replace("equivalent", "lazy")).unwrap_err().contains("lazy"));
        assert!(Reasons::parse(&all.replace("\"w\"", "\"\"")).unwrap_err().contains("why"));
    }

    #[test]
    fn ours_can_be_read() {
        assert!(Reasons::read(&workspace::root().join(FILE)).is_ok());
    }
}
