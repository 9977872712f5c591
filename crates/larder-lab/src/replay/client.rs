//! A look-aside client: a GET that misses is followed by a SET of the traced size.
//!
//! Keys and values are real bytes. A value begins with the number of its key, and every hit is checked for it. The
//! number of the SET follows, so that setting a key again changes its value: otherwise an engine that finds the same
//! bytes on flash could skip the write.

use std::time::Duration;

use larder::{AnyRoute, Routed, VALUE_BYTES_MAX, Value, block_on};
use larder_workload::{Op, Request};

use crate::Error;

/// Bytes of the key number, and of the SET number. Shorter values contain parts of both.
const MARK_BYTES: usize = 8;
const KEY_BYTES_MAX: u32 = 65_535;

/// The counters of a client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ClientCounts {
    pub(super) requests: u64,
    pub(super) gets: u64,
    pub(super) hits: u64,
    /// Objects that no tier can hold.
    pub(super) refused: u64,
}

pub(super) struct Client<'a> {
    cache: &'a Routed<AnyRoute>,
    key: Vec<u8>,
    value: Vec<u8>,
    /// The number of the next SET (including fills), and its increment. No two clients of a cache use the same number.
    next_set: u64,
    clients: u64,
    pub(super) counts: ClientCounts,
}

impl ClientCounts {
    /// Adds the counts of another client.
    pub(super) fn add(&mut self, other: Self) {
        let Self { requests, gets, hits, refused } = other;
        self.requests += requests;
        self.gets += gets;
        self.hits += hits;
        self.refused += refused;
    }
}

impl<'a> Client<'a> {
    pub(super) fn new(cache: &'a Routed<AnyRoute>) -> Self {
        Self::one_of(cache, 0, 1)
    }

    /// Client `number` of `clients`, counted from 0.
    pub(super) fn one_of(cache: &'a Routed<AnyRoute>, number: u64, clients: u64) -> Self {
        let counts = ClientCounts::default();
        let (key, value, next_set) = (Vec::new(), Vec::new(), number + 1);
        Self { cache, key, value, next_set, clients, counts }
    }

    /// Makes one request and the fill after a miss, and waits for both.
    pub(super) fn make(&mut self, request: &Request) -> Result<(), Error> {
        block_on(self.play(request, || ()))
    }

    /// Makes one request and the fill after a miss. Calls `got` when a GET has its answer.
    pub(super) async fn play(
        &mut self,
        request: &Request,
        got: impl FnOnce(),
    ) -> Result<(), Error> {
        self.counts.requests += 1;
        self.write_key(request);
        match request.op {
            Op::Get => {
                self.counts.gets += 1;
                let found = self.cache.get(&self.key).await.map_err(cache_error)?;
                got();
                match found {
                    Some(value) => {
                        check_value(request.key, &value)?;
                        self.counts.hits += 1;
                    }
                    // Size 0 means unknown, so there is no value to fill.
                    None if request.value_bytes > 0 => self.set(request).await,
                    None => {}
                }
            }
            Op::Set => self.set(request).await,
            Op::Delete => _ = self.cache.delete(&self.key).await.map_err(cache_error)?,
        }
        Ok(())
    }

    async fn set(&mut self, request: &Request) {
        let bytes = VALUE_BYTES_MAX.min(request.value_bytes as usize);
        if self.value.len() < bytes {
            self.value.resize(bytes.next_power_of_two(), 0x6c);
        }
        mark(&mut self.value[..bytes], request.key, self.next_set);
        self.next_set += self.clients;
        let ttl = (request.ttl_s > 0).then(|| Duration::from_secs(u64::from(request.ttl_s)));
        // The only refusal is of an object that no tier can hold. The cache has no older version of it then.
        if self.cache.set(&self.key, &self.value[..bytes], ttl).await.is_err() {
            self.counts.refused += 1;
        }
    }

    /// A key of the traced length that begins with the key's number, so that different keys differ.
    fn write_key(&mut self, request: &Request) {
        let bytes = request.key_bytes.clamp(8, KEY_BYTES_MAX) as usize;
        self.key.clear();
        self.key.extend_from_slice(&request.key.to_le_bytes());
        self.key.resize(bytes, 0x6b);
    }
}

/// Marks `value` as the value of `key`, different from that of every other SET.
fn mark(value: &mut [u8], key: u64, sets: u64) {
    let (of_key, rest) = value.split_at_mut(key_mark_bytes(value.len()));
    let of_set = rest.len().min(MARK_BYTES);
    of_key.copy_from_slice(&key.to_le_bytes()[..of_key.len()]);
    rest[..of_set].copy_from_slice(&sets.to_le_bytes()[..of_set]);
}

/// Bytes of a value of this length that come from its key.
fn key_mark_bytes(value_bytes: usize) -> usize {
    (value_bytes / 2).min(MARK_BYTES)
}

fn check_value(key: u64, value: &Value) -> Result<(), Error> {
    let marked = key_mark_bytes(value.len());
    if value[..marked] == key.to_le_bytes()[..marked] {
        return Ok(());
    }
    Err(Error::run(format!("the cache returned a value of another key for key {key:#x}")))
}

fn cache_error(error: larder::Error) -> Error {
    Error::run(format!("cache: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_set_writes_other_bytes_and_none_of_another_key() {
        for bytes in [2, 3, 15, 16, 17, 400] {
            let value = |key: u64, sets| {
                let mut value = vec![0x6c; bytes];
                mark(&mut value, key, sets);
                value
            };
            assert_ne!(value(0x0102, 7), value(0x0102, 8), "{bytes}");
            let marked = |value: &[u8]| value[..key_mark_bytes(bytes)].to_vec();
            assert_eq!(marked(&value(0x0102, 7)), marked(&value(0x0102, 8)), "{bytes}");
            assert_ne!(marked(&value(0x0102, 7)), marked(&value(0x0103, 7)), "{bytes}");
        }
        // One byte only distinguishes SETs, not keys.
        let mut short = [0];
        mark(&mut short, 0x0102, 7);
        assert_eq!((short, key_mark_bytes(1)), ([7], 0));
    }
}
