//! Targets that a user names: a path, with an optional prefix that says how to open it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::model::ModelSpec;

/// A target that a user names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The prefix, if there is one.
    pub kind: Option<TargetKind>,
    /// The path after the prefix; the description of a simulated drive, after `model:`.
    pub path: PathBuf,
}

/// How a target's prefix asks to open it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TargetKind {
    /// `file:`
    File,
    /// `block:`
    Block,
    /// `nvme:`
    Nvme,
    /// `dax:`
    Dax,
    /// `image:`: the image of drives with virtual SSDs. It is no device: each virtual SSD is one.
    Image,
    /// `model:`: a simulated drive, which the rest of the target describes ([`ModelSpec`](crate::ModelSpec)).
    Model,
}

const PREFIXES: [(&str, TargetKind); 6] = [
    ("image:", TargetKind::Image),
    ("file:", TargetKind::File),
    ("block:", TargetKind::Block),
    ("nvme:", TargetKind::Nvme),
    ("dax:", TargetKind::Dax),
    ("model:", TargetKind::Model),
];

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found =
            PREFIXES.iter().find_map(|(prefix, kind)| Some((*kind, text.strip_prefix(prefix)?)));
        let (kind, path) = found.map_or((None, text), |(kind, path)| (Some(kind), path));
        if kind == Some(TargetKind::Model) {
            path.parse::<ModelSpec>()?;
        }
        if path.is_empty() {
            return Err(format!("\"{text}\" names no path, such as block:/dev/nvme0n1"));
        }
        Ok(Self { kind, path: path.into() })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = PREFIXES.iter().find(|(_, kind)| self.kind == Some(*kind));
        write!(f, "{}{}", prefix.map_or("", |(prefix, _)| prefix), self.path.display())
    }
}
