//! Items and values: how key and value travel between the tiers and to the user.

use std::fmt;
use std::ops::Deref;

use larder_device::IoBuffer;

use crate::cache::Tiers;
use crate::dram::{Pin, Record, Writer, encode, record_bytes};
use crate::key::KeyHash;

/// A value that the cache returned. Cheap to clone and never copied: it pins the memory that it
/// lies in, which the cache does not use for anything else until the value is dropped. Copy what
/// you want to keep for long.
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
#[derive(Clone)]
pub struct Value(Pin);

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
    pub version: u32,
}

impl Value {
    /// The value of a record.
    pub(crate) fn new(pin: Pin) -> Self {
        Self(pin)
    }

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

    /// Names this version of the key's value, for [`Larder::cas`](crate::Larder::cas). A value that
    /// left DRAM for flash and came back has another version, and so has every value after a
    /// restart. One that DRAM has no room for has version 0, which `cas` never stores over.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// let version = || block_on(cache.get(b"bread")).map(|found| found.map(|it| it.version()));
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// let before = version()?;
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// assert_ne!(before, version()?);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn version(&self) -> u32 {
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
        let Record { flags, version, .. } = self.record();
        ValueMeta { flags, version }
    }

    /// Second of the cache's clock at which it expires; 0 is never.
    pub(crate) fn expiry_s(&self) -> u32 {
        self.record().expiry_s
    }

    /// Which tiers it may be in.
    pub(crate) fn tiers(&self) -> Tiers {
        self.record().tiers
    }

    fn record(&self) -> Record<'_> {
        self.0.record()
    }

    /// A value that no tier keeps: a copy in memory of its own.
    pub(crate) fn alone(item: &ItemRef<'_>) -> Self {
        let bytes = record_bytes(item);
        let mut writer = Writer::allocate(bytes);
        let at = writer.append(bytes, |room| encode(room, item, 0));
        Self::new(writer.segment().pin(at.expect("the segment was made for it")))
    }
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

/// What an item is to the large-object engine. Everywhere else there are only whole ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A key with its value.
    #[default]
    Whole,
    /// A key whose value lies in parts; in its place it says which.
    Head,
    /// A part of the value of another key. No user's key finds it.
    Part,
}

/// A key with its value, wherever they lie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ItemRef<'a> {
    pub(crate) hash: KeyHash,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
    /// Second of the cache's clock at which the value expires; 0 is never.
    pub(crate) expiry_s: u32,
    /// What the user marked it with.
    pub(crate) flags: u32,
    /// Whether flash holds this very version (or nothing) under the key: such an item can be
    /// dropped without a trace.
    pub(crate) clean: bool,
    pub(crate) kind: Kind,
    /// Which tiers it may be in.
    pub(crate) tiers: Tiers,
}

impl<'a> ItemRef<'a> {
    /// An item that only DRAM knows.
    pub(crate) fn new(hash: KeyHash, key: &'a [u8], value: &'a [u8], expiry_s: u32) -> Self {
        let (kind, tiers) = (Kind::Whole, Tiers::Both);
        Self { hash, key, value, expiry_s, flags: 0, clean: false, kind, tiers }
    }

    /// Key and value together, in bytes.
    pub(crate) fn object_bytes(&self) -> usize {
        self.key.len() + self.value.len()
    }

    pub(crate) fn is_expired(&self, now_s: u32) -> bool {
        is_expired(self.expiry_s, now_s)
    }
}

/// An item that was read from flash, in the buffer that it was read into.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) buffer: IoBuffer,
    pub(crate) hash: KeyHash,
    /// Where in the buffer the key begins; the value follows it.
    pub(crate) at: usize,
    pub(crate) key_bytes: usize,
    pub(crate) value_bytes: usize,
    pub(crate) expiry_s: u32,
    pub(crate) flags: u32,
    pub(crate) kind: Kind,
    /// Which tiers it may be in: never DRAM alone.
    pub(crate) tiers: Tiers,
}

impl Fetched {
    /// The item, clean: it is on flash.
    pub(crate) fn item(&self) -> ItemRef<'_> {
        let (key, rest) = self.buffer.as_slice()[self.at..].split_at(self.key_bytes);
        let value = &rest[..self.value_bytes];
        let Self { flags, kind, tiers, .. } = *self;
        ItemRef {
            flags,
            kind,
            tiers,
            clean: true,
            ..ItemRef::new(self.hash, key, value, self.expiry_s)
        }
    }
}

/// Whether something that expires at `expiry_s` is dead at `now_s`. 0 never expires.
pub(crate) fn is_expired(expiry_s: u32, now_s: u32) -> bool {
    expiry_s != 0 && expiry_s <= now_s
}
