//! What an update does to a key.

use std::borrow::Cow;
use std::num::NonZeroU64;
use std::time::Duration;

use super::SetOptions;
use crate::dram::value::Value;

/// The change that [`Larder::update`](crate::Larder::update) makes to a key.
///
/// ```
/// use larder::Change;
///
/// assert_ne!(Change::Keep, Change::StoreKeepingExpiry(b"rye"[..].into()));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change<'a> {
    /// Leave the value as it is.
    Keep,
    /// Store a value.
    Store(Cow<'a, [u8]>, SetOptions),
    /// Store a value with the expiry of the existing one; it is [stale](crate::ValueMeta::stale) if the existing one
    /// is.
    StoreKeepingExpiry(Cow<'a, [u8]>),
    /// The same, with a given version, as in [`SetOptions::version`]: a caller that must report the version draws it
    /// first ([`Larder::draw_version`](crate::Larder::draw_version)).
    StoreKeepingExpiryAs(Cow<'a, [u8]>, NonZeroU64),
    /// Keep the value and its version, and set its remaining lifetime; `None` means for ever.
    Touch(Option<Duration>),
    /// Keep the value, but mark it as stale, as [`Larder::invalidate`](crate::Larder::invalidate) does.
    Invalidate {
        /// Its remaining lifetime; `None` keeps the old one, [`Duration::MAX`] means for ever.
        ttl: Option<Duration>,
        /// Its new version; `None` assigns a larger one.
        version: Option<NonZeroU64>,
    },
}

/// Outcome of [`Larder::cas`](crate::Larder::cas).
///
/// ```
/// # use larder::{Cas, Larder, RealClock, block_on};
/// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
/// let missing = block_on(cache.cas(b"bread", b"rye", 1, Default::default()))?;
/// assert_eq!(missing, Cas::NotFound);
/// # Ok::<(), larder::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Cas {
    /// The value was stored.
    Stored,
    /// The value has another version.
    OtherVersion,
    /// There is no value.
    #[default]
    NotFound,
}

/// Outcome of an attempt to update.
pub(super) enum Attempt {
    /// The value that was there before, if any.
    Done(Option<Value>),
    /// Another caller was faster.
    Again,
    /// There is no room in DRAM yet.
    Full,
    /// The item is for flash only, and this number of bytes must be taken from the limit first.
    NoneTaken(usize),
}

/// Whether the value has this version. 0 is the version of values that DRAM has no room for, and matches none.
pub(super) fn names(version: u64, value: &Value) -> bool {
    version != 0 && value.version() == version
}

/// The decimal number that a value is.
pub(super) fn number_in(value: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(value).ok()?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}
