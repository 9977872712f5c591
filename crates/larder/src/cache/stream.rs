//! Long values in parts: uses the memory of a part, not of the value.
//!
//! A reader holds no lock between two parts, and nothing keeps the parts on flash. Parts carry the stamp of their
//! version, so all parts of a stream belong to one version, whatever is set or deleted during the stream. If a part
//! is gone, the stream ends with an error. A writer stores parts that no look-up finds yet, however long its source
//! takes, and takes the key's lock for the head only: of two concurrent writers, the one that ends later wins.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::FetchError;
use super::core::Core;
use crate::base::error::{Error, ErrorKind};
use crate::base::item::FlashItem;
use crate::base::key::KeyHash;
use crate::base::tier::Tier;
use crate::dram::Lookup;
use crate::dram::value::Value;
use crate::engine::long::{LongLookup, NewParts, Parts};
use crate::flash::{EngineId, Flash};

/// A value in chunks, from [`Larder::get_stream`](crate::Larder::get_stream).
pub struct ValueStream<'a> {
    core: &'a Core,
    value_bytes: usize,
    flags: u32,
    expires_at: Option<Duration>,
    rest: Rest,
}

/// The rest of the stream.
#[derive(Debug)]
enum Rest {
    Whole(Value),
    Parts(EngineId, Parts),
    Nothing,
}

/// Some bytes of a value.
#[derive(Debug)]
pub struct Chunk(ChunkSource);

#[derive(Debug)]
enum ChunkSource {
    Value(Value),
    Part(FlashItem),
}

impl Deref for Chunk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            ChunkSource::Value(value) => value,
            ChunkSource::Part(fetched) => fetched.item().value,
        }
    }
}

impl AsRef<[u8]> for Chunk {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for ValueStream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ValueStream({} bytes)", self.value_bytes)
    }
}

impl<'a> ValueStream<'a> {
    /// A stream of one chunk.
    pub(super) fn whole(core: &'a Core, value: Value) -> Self {
        Self {
            core,
            value_bytes: value.len(),
            flags: value.flags(),
            expires_at: value.meta().expires_at,
            rest: Rest::Whole(value),
        }
    }

    /// Begins to read the value of a key. DRAM first, without a lock: if flash has the key after that, its version was
    /// the newest at some moment since then.
    pub(super) async fn begin(core: &'a Core, hash: KeyHash, key: &[u8]) -> Option<(Self, Tier)> {
        if !core.dram.holds(hash)
            && let Some(flash) = &core.flash
        {
            flash.asked(hash);
        }
        core.look_twice(hash, || Self::look(core, hash, key)).await
    }

    async fn look(core: &'a Core, hash: KeyHash, key: &[u8]) -> Option<(Self, Tier)> {
        match core.dram.get(hash, key, || core.now_ms()) {
            Lookup::Hit(value) => {
                return Some((Self::whole(core, value.keep()), Tier::Dram));
            }
            Lookup::Expired => return None,
            Lookup::Absent => {}
        }
        let flash = core.flash.as_ref()?;
        let (found, engine, tier) = flash.look_up(hash, key, core.now_s()).await?;
        let stream = match found {
            LongLookup::Whole(fetched) => Self::whole(core, Value::alone(&fetched.item())),
            LongLookup::InParts(parts) => Self::of_parts(core, engine, parts),
        };
        Some((stream, tier))
    }

    fn of_parts(core: &'a Core, engine: EngineId, parts: Parts) -> Self {
        Self {
            core,
            value_bytes: parts.value_bytes(),
            flags: parts.flags,
            expires_at: (parts.expiry_s != 0).then(|| Duration::from_secs(parts.expiry_s.into())),
            rest: Rest::Parts(engine, parts),
        }
    }

    /// Length of the whole value in bytes.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// assert_eq!(block_on(cache.get_stream(b"bread"))?.unwrap().value_bytes(), 3);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// The flags with which the value was set.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// let marked = SetOptions { flags: 7, ..SetOptions::default() };
    /// block_on(cache.set_with(b"bread", b"rye", marked))?;
    /// assert_eq!(block_on(cache.get_stream(b"bread"))?.unwrap().flags(), 7);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn flags(&self) -> u32 {
        self.flags
    }

    /// When it expires, in the time of [`Larder::now`](crate::Larder::now); `None` means never. A stream that was begun
    /// before goes on.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// assert_eq!(block_on(cache.get_stream(b"bread"))?.unwrap().expires_at(), None);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn expires_at(&self) -> Option<Duration> {
        self.expires_at
    }

    /// The next bytes of the value; `None` after the last ones. If the future is dropped, the next call loses
    /// nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Incomplete`] if a part is gone or cannot be read: the chunks so far are no whole value.
    /// [`ErrorKind::Closed`] if the cache was closed during the stream.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// let (mut stream, mut bytes) = (block_on(cache.get_stream(b"bread"))?.unwrap(), Vec::new());
    /// while let Some(chunk) = block_on(stream.next())? {
    ///     bytes.extend_from_slice(&chunk);
    /// }
    /// assert_eq!(bytes, b"rye");
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn next(&mut self) -> Result<Option<Chunk>, Error> {
        if let (Rest::Parts(engine, parts), Some(flash)) = (&mut self.rest, &self.core.flash) {
            let inside = self.core.enter().await?;
            let part = flash.next_part(*engine, parts).await;
            self.core.leave(inside);
            if let Ok(Some(part)) = part {
                return Ok(Some(Chunk(ChunkSource::Part(part))));
            }
            self.rest = Rest::Nothing;
            return part.map(|_| None).map_err(|_| {
                let message =
                    "a part of the value is gone: it was replaced, evicted or cannot be read";
                Error::new(ErrorKind::Incomplete, message)
            });
        }
        match std::mem::replace(&mut self.rest, Rest::Nothing) {
            Rest::Whole(value) => Ok(Some(Chunk(ChunkSource::Value(value)))),
            Rest::Parts(..) | Rest::Nothing => Ok(None),
        }
    }
}

/// Stores the parts as they come. `None` if one is lost.
pub(super) async fn store_parts<S, B, E>(
    core: &Core,
    flash: &Flash,
    (engine, mut parts): (EngineId, NewParts),
    source: &mut Source<S, B>,
) -> Result<Option<NewParts>, FetchError>
where
    S: AsyncFnMut() -> Result<B, E>,
    B: AsRef<[u8]>,
    E: std::error::Error + Send + Sync + 'static,
{
    while parts.next_bytes() > 0 {
        let part = source.take(parts.next_bytes()).await?;
        // Not during the wait for the source: a close waits for all calls inside.
        let inside = core.enter().await?;
        let stored = flash.add_part(engine, &mut parts, &part, core.now_s()).await;
        core.leave(inside);
        if !stored {
            return Ok(None);
        }
    }
    source.end().await?;
    Ok(Some(parts))
}

/// The source of a value's bytes.
pub(super) struct Source<S, B> {
    source: S,
    /// The last piece, unused from `at` on.
    piece: Option<B>,
    at: usize,
    came: usize,
    value_bytes: usize,
}

impl<S, B: AsRef<[u8]>, E> Source<S, B>
where
    S: AsyncFnMut() -> Result<B, E>,
    E: std::error::Error + Send + Sync + 'static,
{
    /// A source of a value of this length, of which nothing has come yet.
    pub(super) fn of(source: S, value_bytes: usize) -> Self {
        Self { source, piece: None, at: 0, came: 0, value_bytes }
    }

    /// Returns the next `bytes` bytes.
    pub(super) async fn take(&mut self, bytes: usize) -> Result<Vec<u8>, FetchError> {
        let mut taken = Vec::with_capacity(bytes);
        while taken.len() < bytes {
            let Some(rest) = self.rest().await? else {
                return Err(self.differs("ended").into());
            };
            let used = rest.len().min(bytes - taken.len());
            taken.extend_from_slice(&rest[..used]);
            self.at += used;
        }
        Ok(taken)
    }

    /// Checks that the source has ended.
    pub(super) async fn end(&mut self) -> Result<(), FetchError> {
        match self.rest().await? {
            None => Ok(()),
            Some(_) => Err(self.differs("went on").into()),
        }
    }

    /// The unused rest of the last piece, or the next piece; `None` at the end.
    async fn rest(&mut self) -> Result<Option<&[u8]>, FetchError> {
        if self.piece.as_ref().is_none_or(|piece| self.at == piece.as_ref().len()) {
            let piece =
                (self.source)().await.map_err(|error| FetchError::Fetch(Arc::new(error)))?;
            (self.came, self.at) = (self.came + piece.as_ref().len(), 0);
            self.piece = Some(piece);
        }
        let piece = self.piece.as_ref().map_or(&[][..], AsRef::as_ref);
        Ok(Some(&piece[self.at..]).filter(|rest| !rest.is_empty()))
    }

    fn differs(&self, what: &str) -> Error {
        let Self { came, value_bytes, .. } = self;
        let message = format!("the source {what} at {came} bytes of a value of {value_bytes}");
        Error::new(ErrorKind::InvalidInput, message)
    }
}
