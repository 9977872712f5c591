//! Values that are out of date but still of use: who serves them, and who brings the next.
//!
//! A client that changes its source invalidates the key instead of deleting it. Whoever reads the key finds the old
//! value, marked as stale; one of them wins, and fetches the new one, while the others are served what is there.
//! `memcached` calls it so: `md key I`, and the flags `X`, `W` and `Z` of an answer.

use std::time::Duration;

use super::{Change, Larder};
use crate::error::Error;
use crate::key::check_key;

impl Larder {
    /// Marks the key's value as [stale](crate::ValueMeta::stale): it is served on, from DRAM only, until it is
    /// replaced or evicted, and the first who asks for the right to replace it gets it ([`Larder::win`]). It has
    /// a new version, and lives on for `ttl`, or as long as it would have. Says whether there is one.
    ///
    /// What replaces it is not stale. [`Larder::touch`], [`Larder::append`], [`Larder::incr`] and the like leave it
    /// stale. [`Change::Invalidate`] does the same on conditions, and gives it a version.
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
    /// assert!(!cache.win(b"bread", meta.version)?, "somebody else bakes");
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

    /// Asks for the right to bring a new value in the place of this version of the key's value: stale, soon to
    /// expire, or a stub. Says whether the caller has won it: nobody else will from this version. It is remembered as
    /// long as this version is in DRAM. `false`, too, if the version is not there any more.
    ///
    /// It waits for nobody, and changes nothing but [`ValueMeta::won`](crate::ValueMeta::won).
    ///
    /// # Errors
    /// As [`Larder::get`].
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// // A stub for who comes while we fetch.
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
