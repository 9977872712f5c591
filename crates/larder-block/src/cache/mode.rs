//! Cache modes: what becomes of reads and writes. Open CAS's (block-cache.md, 1.2), by its names.

use std::fmt;
use std::str::FromStr;

use crate::{Error, ErrorKind};

/// What becomes of reads and writes.
///
/// ```
/// use larder_block::cache::Mode;
///
/// let mode: Mode = "write-back".parse()?;
/// assert_eq!(mode, "wb".parse()?);
/// assert!(mode.may_be_dirty());
/// assert!("write".parse::<Mode>().unwrap_err().to_string().contains("write-through"));
/// # Ok::<(), larder_block::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// A write goes to the core, and then to the cache device. What is read is kept. The core always has all: the
    /// default.
    #[default]
    WriteThrough,
    /// A write goes to the cache device, durably with what says where it is, and to the core later. What is read is
    /// kept.
    WriteBack,
    /// A write goes to the core; it is cached only where all of it was cached before. What is read is kept.
    WriteAround,
    /// A write goes to the core, and what was cached of it is void. What is read is kept.
    WriteInvalidate,
    /// Writes as in write-back; what is read is not kept.
    WriteOnly,
    /// All goes to the core, and what is cached of a write is void. Dirty data are read from the cache device.
    PassThrough,
}

/// With the names and short forms that parsing takes.
const MODES: [(Mode, &str, &str); 6] = [
    (Mode::WriteThrough, "write-through", "wt"),
    (Mode::WriteBack, "write-back", "wb"),
    (Mode::WriteAround, "write-around", "wa"),
    (Mode::WriteInvalidate, "write-invalidate", "wi"),
    (Mode::WriteOnly, "write-only", "wo"),
    (Mode::PassThrough, "pass-through", "pt"),
];

impl Mode {
    /// All of them.
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        MODES.into_iter().map(|(mode, ..)| mode)
    }

    /// Whether the cache device may have what the core has not (Open CAS: lazy write).
    pub fn may_be_dirty(self) -> bool {
        matches!(self, Self::WriteBack | Self::WriteOnly)
    }

    /// Whether what was read from the core is kept.
    pub(super) fn keeps_reads(self) -> bool {
        !matches!(self, Self::WriteOnly | Self::PassThrough)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = MODES.into_iter().find(|(mode, ..)| mode == self).map(|(_, name, _)| name);
        f.write_str(name.expect("each has a name"))
    }
}

impl FromStr for Mode {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let found = MODES.into_iter().find(|(_, name, short)| text == *name || text == *short);
        found.map(|(mode, ..)| mode).ok_or_else(|| {
            let names: Vec<String> =
                MODES.iter().map(|(_, name, short)| format!("{name} ({short})")).collect();
            Error::new(
                ErrorKind::Setup,
                format!("cache mode {text:?}: give one of {}", names.join(", ")),
            )
        })
    }
}
