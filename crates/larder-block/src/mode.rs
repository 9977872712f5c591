//! Cache modes: how reads and writes are handled. The modes and their names are those of Open CAS (block-cache.md,
//! 1.2).

use std::fmt;
use std::str::FromStr;

use crate::{Error, ErrorKind};

/// How reads and writes are handled.
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
    /// A write goes to the core, and then to the cache device. Reads are cached. The core always has all data. This is
    /// the default.
    #[default]
    WriteThrough,
    /// A write goes to the cache device, durably and with its metadata, and to the core later. Reads are cached.
    WriteBack,
    /// A write goes to the core; it is cached only if all of its range was cached before. Reads are cached.
    WriteAround,
    /// A write goes to the core and invalidates the cached data of its range. Reads are cached.
    WriteInvalidate,
    /// Writes as in write-back. Reads are not cached.
    WriteOnly,
    /// All requests go to the core. A write invalidates the cached data of its range. Dirty data is read from the
    /// cache device.
    PassThrough,
}

/// The modes with their names and short forms, as parsed.
const MODES: [(Mode, &str, &str); 6] = [
    (Mode::WriteThrough, "write-through", "wt"),
    (Mode::WriteBack, "write-back", "wb"),
    (Mode::WriteAround, "write-around", "wa"),
    (Mode::WriteInvalidate, "write-invalidate", "wi"),
    (Mode::WriteOnly, "write-only", "wo"),
    (Mode::PassThrough, "pass-through", "pt"),
];

impl Mode {
    /// All modes.
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        MODES.into_iter().map(|(mode, ..)| mode)
    }

    /// Whether the cache device may have data that the core lacks (Open CAS: lazy write).
    pub fn may_be_dirty(self) -> bool {
        matches!(self, Self::WriteBack | Self::WriteOnly)
    }

    /// Whether data that was read from the core is cached.
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
