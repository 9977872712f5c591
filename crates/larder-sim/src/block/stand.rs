//! The state of the visitor, according to commands and labels.
//!
//! After a completed command the state is known. A command that the end of the server has interrupted was done or not:
//! the label says which, before the next start. It must not say anything else.

use serde_json::Value;

/// A file that is a core, and its number. Files are numbered: first those of the permanent cores, then the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Visitor {
    pub(super) file: u64,
    pub(super) number: u64,
}

/// The state of the visitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stand {
    /// The cache has no visitor.
    Out,
    In(Visitor),
    /// A command to add this file as a core is running.
    Comes(Visitor),
    /// A command to remove this core is running.
    Goes(Visitor),
}

impl Stand {
    /// The file that clients may have used since the last completed command.
    pub(super) fn served(self) -> Option<u64> {
        match self {
            Self::In(visitor) | Self::Goes(visitor) => Some(visitor.file),
            Self::Out | Self::Comes(_) => None,
        }
    }

    /// The state when no server runs, according to the cores in the label.
    pub(super) fn settled(self, listed: &Listed) -> Result<Self, String> {
        let may_be = match (self, listed.visitor) {
            (Self::Out | Self::Comes(_) | Self::Goes(_), None) => true,
            (Self::In(was) | Self::Goes(was) | Self::Comes(was), Some(is)) => is == was,
            (Self::In(_), None) | (Self::Out, Some(_)) => false,
        };
        match may_be {
            true => Ok(listed.visitor.map_or(Self::Out, Self::In)),
            false => Err(format!(
                "the label lists {:?} of the cores that come and go, and it was {self:?}",
                listed.visitor
            )),
        }
    }
}

/// The cores that a cache reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    /// The core in addition to the permanent ones.
    pub(super) visitor: Option<Visitor>,
    /// Number of pieces that a start found to differ from their core; `None` for a cache that does not run.
    pub(super) changed: Option<u64>,
}

impl Listed {
    /// Decodes the JSON of `larder block status`. The first `stay` of these files are the permanent cores, which have
    /// the same numbers.
    pub(super) fn of(status: &str, files: &[String], stay: u64) -> Result<Self, String> {
        let status: Value =
            serde_json::from_str(status).map_err(|why| format!("status: {why} in {status:?}"))?;
        let cores = status["cores"].as_array().ok_or_else(|| format!("no cores in {status}"))?;
        let mut all = Vec::new();
        for core in cores {
            let path = core["path"].as_str().unwrap_or_default();
            let file = files.iter().position(|file| path.ends_with(file.as_str()));
            let (Some(file), Some(number)) = (file, core["core"].as_u64()) else {
                return Err(format!("it lists {core}, which was not made a core"));
            };
            all.push(Visitor { file: file as u64, number });
        }
        let (stays, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|it| it.file < stay);
        let are_there = stays.iter().map(|it| (it.file, it.number)).eq((0..stay).map(|n| (n, n)));
        if !are_there || others.len() > 1 {
            return Err(format!("it lists the cores {stays:?}, {others:?}"));
        }
        let changed = status["running"]["found"]["changed"].as_u64();
        Ok(Self { visitor: others.first().copied(), changed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Visitor = Visitor { file: 2, number: 7 };
    const OTHER: Visitor = Visitor { file: 3, number: 7 };
    const AGAIN: Visitor = Visitor { file: 2, number: 8 };

    /// Whether a label may list `visitor` after the state `was`.
    fn may_be(was: Stand, visitor: Option<Visitor>) -> bool {
        let settled = was.settled(&Listed { visitor, changed: None });
        assert!(settled.as_ref().is_err() || settled == Ok(visitor.map_or(Stand::Out, Stand::In)));
        settled.is_ok()
    }

    #[test]
    fn a_label_says_what_was_answered_and_either_of_what_was_cut_off() {
        let all = [None, Some(ONE), Some(OTHER), Some(AGAIN)];
        let of = |was| all.map(|visitor| may_be(was, visitor));
        assert_eq!(of(Stand::Out), [true, false, false, false]);
        assert_eq!(of(Stand::In(ONE)), [false, true, false, false]);
        assert_eq!(of(Stand::Goes(ONE)), [true, true, false, false]);
        assert_eq!(of(Stand::Comes(ONE)), [true, true, false, false]);
    }

    #[test]
    fn a_status_lists_the_cores_that_stay_and_one_other_at_most() {
        let files = ["/d/core0", "/d/core1", "/d/visitor0", "/d/visitor1"].map(str::to_owned);
        let of = |cores: &[(u64, &str)]| {
            let core = |(number, path)| serde_json::json!({"core": number, "path": path});
            let cores: Vec<Value> = cores.iter().copied().map(core).collect();
            Listed::of(&serde_json::json!({"cores": cores}).to_string(), &files, 2)
        };
        let (zero, one) = ((0, "file:/d/core0"), (1, "/d/core1"));
        assert_eq!(of(&[zero, one]).unwrap().visitor, None);
        let both = of(&[zero, one, (7, "file:/d/visitor0")]);
        assert_eq!(both.unwrap().visitor, Some(ONE));
        for wrong in [
            &[zero][..],
            &[zero, (2, "/d/core1")],
            &[zero, one, (2, "/d/other")],
            &[zero, one, (2, "/d/visitor0"), (3, "/d/visitor1")],
        ] {
            assert!(of(wrong).is_err(), "{wrong:?}");
        }
        let running = r#"{"cores": [], "running": {"found": {"changed": 3}}}"#;
        assert_eq!(Listed::of(running, &files, 0).unwrap().changed, Some(3));
        assert!(Listed::of("{}", &files, 2).is_err() && Listed::of("x", &files, 2).is_err());
    }
}
