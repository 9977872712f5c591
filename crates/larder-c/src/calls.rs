//! The calls themselves, without a pointer.

use std::sync::Arc;
use std::time::Duration;

use larder::{Config, Device, Error, FileDevice, Larder, RealClock, SetOptions, Value, block_on};

use crate::answers::Answers;
use crate::status::larder_status::{self, LARDER_FAILED, LARDER_IN_USE, LARDER_INVALID};
use crate::status::{failed, refuse};

/// A cache, and the thread that gives later answers.
pub struct larder_cache {
    cache: Arc<Larder>,
    answers: Answers,
}

/// A value that was found. It stays as it was, also when its key gets another value.
pub struct larder_value(pub(crate) Value);

impl larder_cache {
    /// In memory, or also in a file.
    pub(crate) fn open(
        path: Option<&str>,
        memory_bytes: u64,
        flash_bytes: u64,
    ) -> Result<Self, larder_status> {
        let device = path.map(|path| FileDevice::create(path, flash_bytes)).transpose();
        let device = device.map_err(|error| {
            use larder::device::ErrorKind::{InUse, Setup};
            let status = match error.kind() {
                InUse => LARDER_IN_USE,
                Setup => LARDER_INVALID,
                _ => larder_status::LARDER_DEVICE,
            };
            refuse(status, &error.to_string())
        })?;
        let device = device.map(|device| Arc::new(device) as Arc<dyn Device>);
        let defaults = Config::default();
        let dram_bytes = if memory_bytes == 0 { defaults.dram_bytes } else { memory_bytes };
        let config = Config { dram_bytes, ..defaults };
        let opened = block_on(Larder::open(config, device, Arc::new(RealClock)));
        let cache = Arc::new(opened.map_err(|error| failed(&error))?);
        let answers = Answers::new();
        let answers = answers.map_err(|cause| refuse(LARDER_FAILED, &cause.to_string()))?;
        Ok(Self { cache, answers })
    }

    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Value>, Error> {
        block_on(self.cache.get(key))
    }

    pub(crate) fn set(&self, key: &[u8], value: &[u8], ttl_ms: u64) -> Result<(), Error> {
        let options = options(ttl_ms);
        if self.cache.set_at_once(key, value, options)? {
            return Ok(());
        }
        block_on(self.cache.set_with(key, value, options))
    }

    pub(crate) fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        block_on(self.cache.delete(key))
    }

    /// Calls `done` with the value: at once, or from another thread after a read of flash.
    pub(crate) fn get_later(
        &self,
        key: &[u8],
        done: impl FnOnce(Result<Option<Value>, Error>) + Send + 'static,
    ) {
        if !self.cache.may_read_flash(key) {
            return done(self.get(key));
        }
        let (cache, key) = (Arc::clone(&self.cache), key.to_vec());
        self.answers.run(async move { done(cache.get(&key).await) });
    }

    /// Calls `done` when the value is stored: at once, or from another thread when there is room.
    pub(crate) fn set_later(
        &self,
        (key, value): (&[u8], &[u8]),
        ttl_ms: u64,
        done: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) {
        let options = options(ttl_ms);
        match self.cache.set_at_once(key, value, options) {
            Ok(false) => {}
            ended => return done(ended.map(|_| ())),
        }
        let (cache, key, value) = (Arc::clone(&self.cache), key.to_vec(), value.to_vec());
        self.answers.run(async move { done(cache.set_with(&key, &value, options).await) });
    }

    /// Waits for all later answers.
    pub(crate) fn wait(&self) {
        self.answers.wait();
    }

    pub(crate) fn is_answering(&self) -> bool {
        self.answers.is_here()
    }

    /// Writes what only memory holds, and ends.
    pub(crate) fn close(self) -> Result<(), Error> {
        self.answers.end();
        block_on(self.cache.close()).map(|_| ())
    }
}

fn options(ttl_ms: u64) -> SetOptions {
    let ttl = (ttl_ms > 0).then(|| Duration::from_millis(ttl_ms));
    SetOptions { ttl, ..SetOptions::default() }
}
