//! Look-ups of many keys at once: prefetches memory for all of them before it reads the first one, and reads flash
//! concurrently.

use super::Larder;
use crate::base::error::Error;
use crate::base::key::{KeyHash, check_key};
use crate::base::side_by_side::together;
use crate::dram::value::{PinnedValue, Value, ValueMeta};

/// Number of keys whose memory is prefetched at a time: a few more than the memory accesses that a core has in
/// flight, and few enough that all are still in its caches when they are read.
const ASKED_TOGETHER: usize = 16;

/// A key that DRAM cannot answer at once: its index among the keys, and its hash.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MissedKey {
    at: usize,
    hash: KeyHash,
}

impl Larder {
    /// Looks all `keys` up; the answers are in the same order. Look-ups in DRAM wait for memory together, and reads
    /// of flash run concurrently.
    ///
    /// # Errors
    /// As [`Larder::get`], for the first key that has one.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set(b"rye", b"1", None))?;
    /// let found = block_on(cache.get_many(&["rye", "oat"]))?;
    /// assert_eq!(found[0].as_deref(), Some(&b"1"[..]));
    /// assert!(found[1].is_none());
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>, Error> {
        self.look_up_many(keys, PinnedValue::keep).await
    }

    /// As [`Larder::look_up`], for many keys.
    pub(super) async fn look_up_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        look: impl Fn(PinnedValue) -> Value,
    ) -> Result<Vec<Option<Value>>, Error> {
        let mut found = vec![None; keys.len()];
        let missed = self.get_many_at_once(keys, |at, value| found[at] = Some(look(value)))?;
        if missed.is_empty() {
            return Ok(found);
        }
        // Keep the values found so far before the first wait.
        found.iter_mut().for_each(|value| *value = value.take().map(Value::kept));
        for (at, value) in self.get_missed(keys, &missed).await? {
            found[at] = value;
        }
        Ok(found)
    }

    /// Looks all `keys` up as [`Larder::get_many`] does and calls `look` for each value found, with the index of its
    /// key, the value and its metadata. Values in DRAM come first. Returns the number of values found.
    ///
    /// Each value is kept only while `look` runs, and no list of values is built: a server can copy each to its send
    /// buffer.
    ///
    /// # Errors
    /// As [`Larder::get`], for the first key that has one.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set(b"oat", b"2", None))?;
    /// let mut reply = Vec::new();
    /// let copy = |at: usize, value: &[u8], _| reply.push((at, value.to_vec()));
    /// assert_eq!(block_on(cache.get_many_with(&["rye", "oat"], copy))?, 1);
    /// assert_eq!(reply, [(1, b"2".to_vec())]);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn get_many_with<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut look: impl FnMut(usize, &[u8], ValueMeta),
    ) -> Result<usize, Error> {
        let mut hits = 0;
        let mut show = |at: usize, value: Value| {
            hits += 1;
            look(at, &value, value.meta());
        };
        let missed = self.get_many_at_once(keys, |at, value| show(at, value.for_now()))?;
        for (at, value) in self.get_missed(keys, &missed).await? {
            if let Some(value) = value {
                show(at, value);
            }
        }
        Ok(hits)
    }

    /// Calls `hit` for each value in DRAM. Returns the keys that DRAM cannot answer at once.
    pub(crate) fn get_many_at_once<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut hit: impl FnMut(usize, PinnedValue),
    ) -> Result<Vec<MissedKey>, Error> {
        keys.iter().try_for_each(|key| check_key(key.as_ref()))?;
        let mut missed = Vec::new();
        let mut hashes = [KeyHash(0); ASKED_TOGETHER];
        for (chunk, keys) in keys.chunks(ASKED_TOGETHER).enumerate() {
            for (hash, key) in hashes.iter_mut().zip(keys) {
                *hash = self.hasher.hash(key.as_ref());
            }
            self.core.dram.prefetch(&hashes[..keys.len()]);
            for (at, (key, hash)) in keys.iter().zip(hashes).enumerate() {
                let at = chunk * ASKED_TOGETHER + at;
                match self.get_at_once(hash, key.as_ref(), self.stopwatch.begin()) {
                    Some(value) => hit(at, value),
                    None => missed.push(MissedKey { at, hash }),
                }
            }
        }
        debug_assert!(missed.is_sorted_by(|a, b| a.at < b.at), "a key is missed once");
        Ok(missed)
    }

    /// Looks up the keys that DRAM could not answer at once.
    pub(crate) async fn get_missed<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        missed: &[MissedKey],
    ) -> Result<Vec<(usize, Option<Value>)>, Error> {
        if missed.is_empty() {
            return Ok(Vec::new());
        }
        debug_assert!(missed.iter().all(|missed| missed.at < keys.len()), "of these keys");
        let get = |&MissedKey { at, hash }: &MissedKey| {
            self.get_below_dram(hash, keys[at].as_ref(), self.stopwatch.begin())
        };
        let values: Result<Vec<_>, _> =
            together(missed.iter().map(get)).await.into_iter().collect();
        Ok(missed.iter().map(|missed| missed.at).zip(values?).collect())
    }
}
