//! Values that the cache returns, and their metadata.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use super::record::{ItemView, encode, record_bytes};
use super::segment::{Pin, Writer};
use crate::base::item::{DramFields, ItemRef, Marks, over_at_ms};
use crate::base::key::KeyHash;

/// A value that the cache returned. It is not a copy: it pins its memory, which the cache does not reuse until the
/// value is dropped.
///
/// The number of values that may pin memory at a time is an eighth of the number of DRAM segments: 64 with 512 KiB to
/// 512 MiB of DRAM, one more for every 8 MiB above, fewer below. A caller that keeps more, clones included, gets
/// copies, which are not part of the cache's budget and are counted in
/// [`Stats::copied_values`](crate::Stats::copied_values). Drop values that you do not need, and use
/// [`Larder::get_with`](crate::Larder::get_with) to look at values without keeping them.
///
/// ```
/// # use larder::{Larder, RealClock, SetOptions, block_on};
/// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
/// block_on(cache.set(b"bread", b"rye", None))?;
/// let bread = block_on(cache.get(b"bread"))?.unwrap();
/// assert_eq!((bread.len(), &bread[..]), (3, &b"rye"[..]));
/// block_on(cache.set(b"bread", b"oat", None))?;
/// assert_eq!(*bread, *b"rye", "a value never changes");
/// # Ok::<(), larder::Error>(())
/// ```
pub struct Value {
    pin: Pin,
    /// The marks of the record before this look-up: the value, and what is known of it, stay as they were then.
    marks: Marks,
    /// Whether it holds a permit of its tier, to be given back on drop.
    permitted: bool,
}

/// A value for a short look, without a permit.
#[derive(Debug)]
pub(crate) struct PinnedValue(Value);

/// Metadata of a value.
///
/// ```
/// # use larder::{Larder, RealClock, SetOptions, block_on};
/// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
/// block_on(cache.set_with(b"bread", b"rye", SetOptions { flags: 7, ..Default::default() }))?;
/// let meta = block_on(cache.get_with(b"bread", |_, meta| meta))?.unwrap();
/// assert_eq!(meta.flags, 7);
/// # Ok::<(), larder::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ValueMeta {
    /// The user's flags: [`Value::flags`].
    pub flags: u32,
    /// Identifies this version: [`Value::version`].
    pub version: u64,
    /// When it expires, in the time of [`Larder::now`](crate::Larder::now), to the millisecond; from flash, to the
    /// second. `None` means never.
    pub expires_at: Option<Duration>,
    /// Whether it is out of date, by [`Larder::invalidate`](crate::Larder::invalidate) or
    /// [`SetOptions::stale`](crate::SetOptions::stale): serve it only until there is a new value.
    pub stale: bool,
    /// Whether a caller has won the right to bring a new value: [`Larder::win`](crate::Larder::win).
    pub won: bool,
    /// Whether it was found before, since it was set or came back from flash.
    pub fetched: bool,
    /// Whether it was set with [`SetOptions::binary_key`](crate::SetOptions::binary_key); always false for a value
    /// that came back from flash.
    pub binary_key: bool,
    marks: Marks,
}

impl ValueMeta {
    /// The remaining lifetime at `now`; `None` if it never expires.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use larder::{Larder, RealClock, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set(b"bread", b"rye", Some(Duration::from_millis(2500))))?;
    /// let meta = block_on(cache.get_with(b"bread", |_, meta| meta))?.unwrap();
    /// assert!(meta.remaining(cache.now()).unwrap() <= Duration::from_millis(2501));
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn remaining(&self, now: Duration) -> Option<Duration> {
        self.expires_at.map(|end| end.saturating_sub(now))
    }

    /// How long before `now` it was last set or found, in whole seconds; wraps around after 24 days. `None` if that
    /// is not known: without [`Config::access_times`](crate::Config::access_times), or if it has just come from
    /// flash.
    ///
    /// ```
    /// # use larder::{Config, Larder, RealClock, block_on};
    /// let config = Config { access_times: true, ..Config::default() };
    /// # let cache = block_on(Larder::open(config, None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// let meta = block_on(cache.get_with(b"bread", |_, meta| meta))?.unwrap();
    /// assert!(meta.since_access(cache.now()).is_some_and(|idle| idle.as_secs() < 5));
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn since_access(&self, now: Duration) -> Option<Duration> {
        let now_s = u32::try_from(now.as_secs()).unwrap_or(u32::MAX);
        self.marks.idle_s(now_s).map(|idle_s| Duration::from_secs(idle_s.into()))
    }
}

impl Value {
    pub(crate) fn key(&self) -> &[u8] {
        self.record().key
    }

    /// The flags with which the value was set.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set_with(b"bread", b"rye", SetOptions { flags: 7, ..Default::default() }))?;
    /// assert_eq!(block_on(cache.get(b"bread"))?.map(|value| value.flags()), Some(7));
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn flags(&self) -> u32 {
        self.record().flags
    }

    /// Identifies this version of the key's value, for [`Larder::cas`](crate::Larder::cas). It is larger than that of
    /// every earlier value of the key, also across a restart, unless it was given
    /// ([`SetOptions::version`](crate::SetOptions::version)). A value that left DRAM for flash and came back has a
    /// new version. A value that DRAM has no room for has version 0, which `cas` never replaces.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// let version = || block_on(cache.get(b"bread")).map(|found| found.map(|it| it.version()));
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// let before = version()?;
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// assert!(version()? > before);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn version(&self) -> u64 {
        self.record().version
    }

    /// The value's metadata.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// let bread = block_on(cache.get(b"bread"))?.unwrap();
    /// assert_eq!((bread.meta().flags, bread.meta().version), (bread.flags(), bread.version()));
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn meta(&self) -> ValueMeta {
        self.meta_of(&self.record())
    }

    /// Calls `look` with the value and its metadata. The record is decoded once for both.
    #[inline]
    pub(crate) fn look_with<T>(&self, look: impl FnOnce(&[u8], ValueMeta) -> T) -> T {
        let record = self.record();
        look(record.value, self.meta_of(&record))
    }

    #[inline]
    fn meta_of(&self, record: &ItemView<'_>) -> ValueMeta {
        let ItemView { flags, version, expiry_s, early_ms, stale, .. } = *record;
        let expires_at =
            (expiry_s != 0).then(|| Duration::from_millis(over_at_ms(expiry_s, early_ms)));
        let marks = self.marks;
        let (won, fetched) = (marks.is_won(), marks.is_fetched());
        let binary_key = marks.has_binary_key();
        ValueMeta { flags, version, expires_at, stale, won, fetched, binary_key, marks }
    }

    /// Whether it has expired.
    pub(crate) fn is_over(&self, now_ms: u64) -> bool {
        self.record().is_over(now_ms)
    }

    /// Its item, without the marks of look-ups.
    pub(crate) fn item(&self, hash: KeyHash) -> ItemRef<'_> {
        self.record().item(hash, false)
    }

    /// Whether this is that very record. While a record is pinned, no other record can have its address.
    pub(crate) fn is_of(&self, record: &ItemView<'_>) -> bool {
        std::ptr::eq(self.key(), record.key)
    }

    fn record(&self) -> ItemView<'_> {
        self.pin.record()
    }

    /// A value that no tier holds: a copy in its own memory.
    pub(crate) fn alone(item: &ItemRef<'_>) -> Self {
        let dram = DramFields { version: 0, ..item.dram };
        let pin = copied(&ItemRef { dram, ..*item });
        Self { pin, marks: Marks::default(), permitted: false }
    }

    /// A value that the caller keeps: with a permit, or else a copy. A value in its own memory needs no permit.
    #[inline]
    pub(crate) fn kept(mut self) -> Self {
        let Some(permits) = self.pin.permits() else { return self };
        if self.permitted || permits.try_take() {
            self.permitted = true;
            return self;
        }
        permits.copied.add(1);
        // The record has neither the hash nor the clean bit; the copy does not need them.
        let pin = copied(&self.record().item(KeyHash(0), false));
        Self { pin, marks: self.marks, permitted: false }
    }
}

impl Clone for Value {
    fn clone(&self) -> Self {
        PinnedValue::new(self.pin.clone(), self.marks).keep()
    }
}

impl Drop for Value {
    #[inline]
    fn drop(&mut self) {
        // Before the pin is dropped, and with it perhaps the segment.
        if self.permitted
            && let Some(permits) = self.pin.permits()
        {
            permits.give_back();
        }
    }
}

impl PinnedValue {
    /// The value of a record that had these marks when it was found.
    #[inline]
    pub(crate) fn new(pin: Pin, marks: Marks) -> Self {
        Self(Value { pin, marks, permitted: false })
    }

    /// See [`Value::alone`].
    pub(crate) fn alone(item: &ItemRef<'_>) -> Self {
        Self(Value::alone(item))
    }

    /// The same value without marks, for values whose earlier look-ups are not known.
    pub(crate) fn unmarked(mut self) -> Self {
        self.0.marks = Marks::default();
        self
    }

    /// For a caller that keeps it.
    #[inline]
    pub(crate) fn keep(self) -> Value {
        self.0.kept()
    }

    /// For a caller that drops it at once, before any wait.
    #[inline]
    pub(crate) fn for_now(self) -> Value {
        self.0
    }
}

impl Clone for PinnedValue {
    fn clone(&self) -> Self {
        Self::new(self.0.pin.clone(), self.0.marks)
    }
}

impl Deref for PinnedValue {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0
    }
}

/// Copies an item to a record in its own memory.
fn copied(item: &ItemRef<'_>) -> Pin {
    let bytes = record_bytes(item);
    let mut writer = Writer::allocate(bytes);
    let at = writer.append(bytes, |room| encode(room, item));
    writer.segment().pin(at.expect("the segment was made for it"))
}

impl Deref for Value {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.record().value
    }
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Value {}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Value({} bytes)", self.len())
    }
}
