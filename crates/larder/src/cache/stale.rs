//! Stale values: still served, while one caller brings a new value.
//!
//! A client that changes its source invalidates the key instead of deleting it. Readers of the key find the old
//! value, marked as stale. One of them wins the right to replace it and fetches the new value; the others use the old
//! one. In `memcached` these are `md key I`, and the flags `X`, `W` and `Z` of an answer.

use std::time::Duration;

use super::{Change, Larder};
use crate::base::error::Error;
use crate::base::key::check_key;

impl Larder {
    /// Marks the key's value as [stale](crate::ValueMeta::stale): it is still served, from DRAM only, until it is
    /// replaced or evicted, and the first caller that asks for the right to replace it gets it ([`Larder::win`]). The
    /// value gets a new version, and lives on for `ttl`, or for its old lifetime. Returns whether there is a value.
    ///
    /// A value that replaces it is not stale. [`Larder::touch`], [`Larder::append`], [`Larder::incr`] and similar
    /// calls leave it stale. [`Change::Invalidate`] does the same inside an update, and can set the version.
    ///
    /// # Errors
    /// As [`Larder::update`]: a value that DRAM cannot hold is not marked. Delete it.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set(b"bread", b"rye of yesterday", None))?;
    /// assert!(block_on(cache.invalidate(b"bread", None))?);
    /// let meta = block_on(cache.get_with(b"bread", |_, meta| meta))?.unwrap();
    /// assert!(meta.stale && !meta.won);
    /// assert!(cache.win(b"bread", meta.version)?, "bake!");
    /// assert!(!cache.win(b"bread", meta.version)?, "another caller bakes");
    /// block_on(cache.set(b"bread", b"rye of today", None))?;
    /// assert!(!block_on(cache.get_with(b"bread", |_, meta| meta.stale))?.unwrap());
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn invalidate(&self, key: &[u8], ttl: Option<Duration>) -> Result<bool, Error> {
        let before = self
            .update(key, |current| match current {
                Some(_) => Change::Invalidate { ttl, version: None },
                None => Change::Keep,
            })
            .await?;
        Ok(before.is_some())
    }

    /// Asks for the right to replace this version of the key's value, because it is stale, expires soon, or is a
    /// stub. Returns whether the caller has won it: no other caller wins with this version. The cache remembers that
    /// while this version is in DRAM. Also returns `false` if the version is not there any more.
    ///
    /// It does not wait, and changes nothing but [`ValueMeta::won`](crate::ValueMeta::won).
    ///
    /// # Errors
    /// As [`Larder::get`].
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// // A stub for callers that come while we fetch.
    /// let stub = SetOptions { won: true, ..SetOptions::default() };
    /// assert!(block_on(cache.add(b"bread", b"", stub))?, "we fetch");
    /// let meta = block_on(cache.get_with(b"bread", |_, meta| meta))?.unwrap();
    /// assert!(meta.won && !cache.win(b"bread", meta.version)?, "they wait");
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn win(&self, key: &[u8], version: u64) -> Result<bool, Error> {
        check_key(key)?;
        self.core.gate.check()?;
        Ok(version != 0
            && self.core.dram.win(self.hasher.hash(key), key, version, self.core.now_ms()))
    }
}
