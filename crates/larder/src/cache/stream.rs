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

use super::{FetchError, Larder, SetOptions};
use crate::base::error::{Error, ErrorKind};
use crate::base::item::FlashItem;
use crate::base::key::{KeyHash, check_key, check_length};
use crate::base::tier::Tier;
use crate::dram::Lookup;
use crate::dram::value::Value;
use crate::engine::long::{LongLookup, NewParts, Parts};
use crate::flash::{EngineId, Flash};

/// A value in chunks, from [`Larder::get_stream`].
pub struct ValueStream<'a> {
    cache: &'a Larder,
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
    fn whole(cache: &'a Larder, value: Value) -> Self {
        Self {
            cache,
            value_bytes: value.len(),
            flags: value.flags(),
            expires_at: value.meta().expires_at,
            rest: Rest::Whole(value),
        }
    }

    fn of_parts(cache: &'a Larder, engine: EngineId, parts: Parts) -> Self {
        Self {
            cache,
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

    /// When it expires, in the time of [`Larder::now`]; `None` means never. A stream that was begun before goes on.
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
        if let (Rest::Parts(engine, parts), Some(flash)) = (&mut self.rest, &self.cache.core.flash)
        {
            let inside = self.cache.enter().await?;
            let part = flash.next_part(*engine, parts).await;
            self.cache.leave(inside);
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

impl Larder {
    /// Looks `key` up and returns its value in chunks. A value that is longer than a region lies in parts on flash,
    /// and each part is a chunk; any other value is one chunk. A part is at most an eighth of a region, and only one
    /// is in memory at a time. The value is not brought to DRAM.
    ///
    /// All chunks belong to one version, the newest when this returns. A later set or delete of the key does not stop
    /// the stream, unless a part of it is reclaimed before it is read.
    ///
    /// # Errors
    /// If the key is invalid or the cache is closed.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// let mut stream = block_on(cache.get_stream(b"bread"))?.unwrap();
    /// assert_eq!(stream.value_bytes(), 3);
    /// assert_eq!(block_on(stream.next())?.as_deref(), Some(&b"rye"[..]));
    /// assert!(block_on(stream.next())?.is_none());
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn get_stream(&self, key: &[u8]) -> Result<Option<ValueStream<'_>>, Error> {
        check_key(key)?;
        let hash = self.hasher.hash(key);
        let begun = self.stopwatch.begin();
        if let Some(found) = self.get_at_once(hash, key, begun) {
            return Ok(Some(ValueStream::whole(self, found.keep())));
        }
        self.check_reentry()?;
        let inside = self.enter().await?;
        self.core.counters.gets.add(1);
        let found = self.begin_stream(hash, key).await;
        self.leave(inside);
        self.note_get(begun, found.as_ref().map(|(_, tier)| *tier));
        Ok(found.map(|(stream, _)| stream))
    }

    /// DRAM first, without a lock: if flash has the key after that, its version was the newest at some moment since
    /// then.
    async fn begin_stream(&self, hash: KeyHash, key: &[u8]) -> Option<(ValueStream<'_>, Tier)> {
        match self.core.dram.get(hash, key, || self.core.now_ms()) {
            Lookup::Hit(value) => {
                return Some((ValueStream::whole(self, value.keep()), Tier::Dram));
            }
            Lookup::Expired => return None,
            Lookup::Absent => {}
        }
        let flash = self.core.flash.as_ref()?;
        flash.asked(hash);
        let (found, engine, tier) = flash.look_up(hash, key, self.core.now_s()).await?;
        let stream = match found {
            LongLookup::Whole(fetched) => ValueStream::whole(self, Value::alone(&fetched.item())),
            LongLookup::InParts(parts) => ValueStream::of_parts(self, engine, parts),
        };
        Some((stream, tier))
    }

    /// Stores a value of `value_bytes` bytes that `source` returns in pieces of any length, and replaces an older
    /// value. If the value will lie in parts on flash, it goes there as it comes, past DRAM, with the memory of a
    /// part; any other value is collected and set as usual. The key keeps its older value until the whole new one is
    /// there; a look-up during the last step may find nothing.
    ///
    /// # Errors
    /// The error of the source, or an error if the source ends (with an empty piece) too early or goes on too long:
    /// then nothing has changed. As [`Larder::set_with`]: then the key has no value.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// let mut pieces = ["rye ", "loaf"].into_iter();
    /// let source = async || Ok::<_, std::io::Error>(pieces.next().unwrap_or(""));
    /// block_on(cache.set_stream(b"bread", 8, SetOptions::default(), source)).unwrap();
    /// assert_eq!(block_on(cache.get(b"bread"))?.as_deref(), Some(&b"rye loaf"[..]));
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn set_stream<B, E>(
        &self,
        key: &[u8],
        value_bytes: usize,
        options: SetOptions,
        source: impl AsyncFnMut() -> Result<B, E>,
    ) -> Result<(), FetchError>
    where
        B: AsRef<[u8]>,
        E: std::error::Error + Send + Sync + 'static,
    {
        check_key(key)?;
        check_length(value_bytes)?;
        let hash = self.hasher.hash(key);
        let mut source = Source { source, piece: None, at: 0, came: 0, value_bytes };
        let item = self.item(hash, key, &[], options);
        let begun = match &self.core.flash {
            Some(flash) => {
                let begun = flash.new_parts(&item, value_bytes, self.core.now_s());
                begun.map(|begun| (flash, begun))
            }
            None => None,
        };
        let Some((flash, (engine, parts))) = begun else {
            let value = source.take(value_bytes).await?;
            source.end().await?;
            return Ok(self.set_with(key, &value, options).await?);
        };
        self.check_reentry()?;
        let stored = self.store_parts(flash, (engine, parts), &mut source).await?;
        let inside = self.enter().await?;
        let ended = match stored {
            Some(parts) => self.store_head(flash, (engine, &parts), key, options).await,
            None => self.remove(hash, key).await.map(|_| ()),
        };
        self.core.counters.sets.add(1);
        self.leave(inside);
        Ok(ended?)
    }

    /// Stores the parts as they come. `None` if one is lost.
    async fn store_parts<S, B, E>(
        &self,
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
            let inside = self.enter().await?;
            let stored = flash.add_part(engine, &mut parts, &part, self.core.now_s()).await;
            self.leave(inside);
            if !stored {
                return Ok(None);
            }
        }
        source.end().await?;
        Ok(Some(parts))
    }

    /// Stores the head, which makes the new value replace that of the key.
    async fn store_head(
        &self,
        flash: &Flash,
        (engine, parts): (EngineId, &NewParts),
        key: &[u8],
        options: SetOptions,
    ) -> Result<(), Error> {
        let hash = self.hasher.hash(key);
        let _key_lock = self.core.lock_key(hash).await;
        let seen = self.tier_and_bytes(hash, key);
        let now_s = self.core.now_s();
        flash.remove(hash, key, now_s).await?;
        self.supersede(hash, key, None);
        if self.core.dram.remove(hash, key, self.core.now_ms()).is_some() || seen.is_some() {
            self.core.counters.replaced_objects.add(1);
        }
        flash.add_head(engine, parts, &self.item(hash, key, &[], options), now_s).await;
        Ok(())
    }
}

/// The source of a value's bytes.
struct Source<S, B> {
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
    /// Returns the next `bytes` bytes.
    async fn take(&mut self, bytes: usize) -> Result<Vec<u8>, FetchError> {
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
    async fn end(&mut self) -> Result<(), FetchError> {
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
