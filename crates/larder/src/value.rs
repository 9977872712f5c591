//! Items and values: how key and value travel between the tiers and to the user.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use crate::dram::{ItemView, Marks, Pin, Writer, encode, record_bytes};
use crate::item::{DramFields, ItemRef, over_at_ms};
use crate::key::KeyHash;

/// A value that the cache returned. It is not copied, but pins the memory that it lies in, which the cache does
/// not use for anything else until the value is dropped.
///
/// An eighth as many values as DRAM has segments may be kept at a time like that: 64 with 512 KiB to 512 MiB of DRAM,
/// one more for every 8 MiB above, fewer below. Whoever keeps more, clones included, gets copies of its own, which
/// are no part of the cache's budget and are counted in [`Stats::copied_values`](crate::Stats::copied_values). Drop
/// what you do not need, and look at values with [`Larder::get_with`](crate::Larder::get_with), which keeps none.
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
    /// Those of its record before it was found: the value is what it was then, and so is what is known of it.
    marks: Marks,
    /// Whether it has taken a permit of its tier, which it gives back.
    permitted: bool,
}

/// A value that somebody looks at, and does not keep: it has no permit.
#[derive(Debug)]
pub(crate) struct Pinned(Value);

/// What is known of a value beside its bytes.
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
    /// What it was marked with when it was set: [`Value::flags`].
    pub flags: u32,
    /// Names this version: [`Value::version`].
    pub version: u64,
    /// When it expires, in the time of [`Larder::now`](crate::Larder::now) and to the millisecond, from flash to the
    /// second; `None` is never.
    pub expires_at: Option<Duration>,
    /// Whether it is out of date by [`Larder::invalidate`](crate::Larder::invalidate), or
    /// [`SetOptions::stale`](crate::SetOptions::stale): to be served only until there is a new value.
    pub stale: bool,
    /// Whether somebody has won the right to bring a new value: [`Larder::win`](crate::Larder::win).
    pub won: bool,
    /// Whether it was found before, since it was set or came back from flash.
    pub fetched: bool,
    /// Whether it was set so ([`SetOptions::binary_key`](crate::SetOptions::binary_key)); not of one that came back
    /// from flash.
    pub binary_key: bool,
    marks: Marks,
}

impl ValueMeta {
    /// How long it lives from `now` on; `None` is for ever.
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

    /// How long before `now` it was set or found the last time, in whole seconds of 24 days, after which the count
    /// begins anew. `None` if that is not known: without
    /// [`Config::access_times`](crate::Config::access_times), or if it has just come from flash.
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

    /// What the value was marked with when it was set.
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

    /// Names this version of the key's value, for [`Larder::cas`](crate::Larder::cas): larger than that of
    /// every value that the key had before, also before a restart, unless it was given
    /// ([`SetOptions::version`](crate::SetOptions::version)). A value that left DRAM for flash and came back has a
    /// new one. One that DRAM has no room for has version 0, which `cas` never stores over.
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

    /// What is known of it beside its bytes.
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
        let ItemView { flags, version, expiry_s, early_ms, stale, .. } = self.record();
        let expires_at =
            (expiry_s != 0).then(|| Duration::from_millis(over_at_ms(expiry_s, early_ms)));
        let marks = self.marks;
        let (won, fetched) = (marks.is_won(), marks.is_fetched());
        let binary_key = marks.has_binary_key();
        ValueMeta { flags, version, expires_at, stale, won, fetched, binary_key, marks }
    }

    /// Whether its time is over.
    pub(crate) fn is_over(&self, now_ms: u64) -> bool {
        self.record().is_over(now_ms)
    }

    /// Its item, as if nobody had found it.
    pub(crate) fn item(&self, hash: KeyHash) -> ItemRef<'_> {
        self.record().item(hash, false)
    }

    /// Whether this is the very record: as long as it is pinned, no other lies there.
    pub(crate) fn is_of(&self, record: &ItemView<'_>) -> bool {
        std::ptr::eq(self.key(), record.key)
    }

    fn record(&self) -> ItemView<'_> {
        self.pin.record()
    }

    /// A value that no tier keeps: a copy in memory of its own.
    pub(crate) fn alone(item: &ItemRef<'_>) -> Self {
        let dram = DramFields { version: 0, ..item.dram };
        let pin = copied(&ItemRef { dram, ..*item });
        Self { pin, marks: Marks::default(), permitted: false }
    }

    /// The same for somebody who keeps it: with a permit, or else a copy. Memory that is its alone needs none.
    #[inline]
    pub(crate) fn kept(mut self) -> Self {
        let Some(permits) = self.pin.permits() else { return self };
        if self.permitted || permits.try_take() {
            self.permitted = true;
            return self;
        }
        permits.copied.add(1);
        // No record says its hash, nor whether flash has it.
        let pin = copied(&self.record().item(KeyHash(0), false));
        Self { pin, marks: self.marks, permitted: false }
    }
}

impl Clone for Value {
    fn clone(&self) -> Self {
        Pinned::new(self.pin.clone(), self.marks).keep()
    }
}

impl Drop for Value {
    #[inline]
    fn drop(&mut self) {
        // Before the pin goes, and with it perhaps the segment.
        if self.permitted
            && let Some(permits) = self.pin.permits()
        {
            permits.give_back();
        }
    }
}

impl Pinned {
    /// The value of a record, which had these marks when it was found.
    #[inline]
    pub(crate) fn new(pin: Pin, marks: Marks) -> Self {
        Self(Value { pin, marks, permitted: false })
    }

    /// See [`Value::alone`].
    pub(crate) fn alone(item: &ItemRef<'_>) -> Self {
        Self(Value::alone(item))
    }

    /// The same, of which nobody knows whether it was found before.
    pub(crate) fn unmarked(mut self) -> Self {
        self.0.marks = Marks::default();
        self
    }

    /// For somebody who keeps it.
    #[inline]
    pub(crate) fn keep(self) -> Value {
        self.0.kept()
    }

    /// For somebody who drops it at once, before anything is waited for.
    #[inline]
    pub(crate) fn for_now(self) -> Value {
        self.0
    }
}

impl Clone for Pinned {
    fn clone(&self) -> Self {
        Self::new(self.0.pin.clone(), self.0.marks)
    }
}

impl Deref for Pinned {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0
    }
}

/// A record in memory of its own.
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
