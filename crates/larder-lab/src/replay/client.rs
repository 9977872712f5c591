//! A look-aside client: a GET that misses is followed by a SET of the traced size.
//!
//! Keys and values are real bytes. A value begins with the number of its key, and every hit is
//! checked for it.

use std::time::Duration;

use larder::{Larder, Value, block_on};

use crate::Error;
use crate::workload::{Op, Request};

const MARK_BYTES: usize = 8;
const KEY_BYTES_MAX: u32 = 65_535;
const VALUE_BYTES_MAX: u32 = 16 << 20;

/// What the client saw.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ClientCounts {
    pub(super) requests: u64,
    pub(super) gets: u64,
    pub(super) hits: u64,
    /// Objects that no tier can hold.
    pub(super) refused: u64,
}

pub(super) struct Client<'a> {
    cache: &'a Larder,
    key: Vec<u8>,
    value: Vec<u8>,
    pub(super) counts: ClientCounts,
}

impl<'a> Client<'a> {
    pub(super) fn new(cache: &'a Larder) -> Self {
        Self { cache, key: Vec::new(), value: Vec::new(), counts: ClientCounts::default() }
    }

    /// Makes one request, and the fill that follows from it.
    pub(super) fn make(&mut self, request: &Request) -> Result<(), Error> {
        self.counts.requests += 1;
        self.write_key(request);
        match request.op {
            Op::Get => {
                self.counts.gets += 1;
                let found = block_on(self.cache.get(&self.key)).map_err(cache_error)?;
                match found {
                    Some(value) => {
                        check_value(request.key, &value)?;
                        self.counts.hits += 1;
                    }
                    // Size 0 is unknown: nothing to fill with.
                    None if request.value_bytes > 0 => self.set(request),
                    None => {}
                }
            }
            Op::Set => self.set(request),
            Op::Delete => _ = block_on(self.cache.delete(&self.key)).map_err(cache_error)?,
        }
        Ok(())
    }

    fn set(&mut self, request: &Request) {
        let bytes = request.value_bytes.min(VALUE_BYTES_MAX) as usize;
        if self.value.len() < bytes {
            self.value.resize(bytes.next_power_of_two(), 0x6c);
        }
        let mark = request.key.to_le_bytes();
        let marked = bytes.min(MARK_BYTES);
        self.value[..marked].copy_from_slice(&mark[..marked]);
        let ttl = (request.ttl_s > 0).then(|| Duration::from_secs(u64::from(request.ttl_s)));
        // The only refusal is of an object that no tier can hold; the cache has no older one then.
        if block_on(self.cache.set(&self.key, &self.value[..bytes], ttl)).is_err() {
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

fn check_value(key: u64, value: &Value) -> Result<(), Error> {
    let marked = value.len().min(MARK_BYTES);
    if value[..marked] == key.to_le_bytes()[..marked] {
        return Ok(());
    }
    Err(Error::run(format!("the cache returned a value of another key for key {key:#x}")))
}

fn cache_error(error: larder::Error) -> Error {
    Error::run(format!("cache: {error}"))
}
