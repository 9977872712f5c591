//! The cache for threads. `larder.Cache` inherits from it, so that its calls run no Python.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use larder::{Config, ErrorKind, FileDevice, FileOptions, Larder, RealClock, SetOptions, block_on};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMemoryView};

use crate::arguments::{Key, Lifetime};
use crate::calls;
use crate::codec::{ATTACHED_BYTES_MAX, Codec, Decoded};
use crate::errors;
use crate::filling;
use crate::fork::Birthplace;
use crate::view::View;

/// A cache, and the codec of its values.
#[pyclass(frozen, subclass, module = "larder._larder")]
pub(crate) struct Store {
    /// `None` after a close, which releases the file.
    cache: RwLock<Option<Arc<Larder>>>,
    codec: Arc<Codec>,
    /// The lifetime of values that are set without one.
    usual: Option<Duration>,
    born: Birthplace,
}

/// Keys with their values, and the number from which a walk goes on.
type Page<'py> = (Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>, u64);

/// Settings that are words, as the package passes them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Settings {
    crash_safety: String,
    admission: String,
    on_change: String,
    dram_policy: String,
    /// Seconds.
    lock_wait: f64,
    start_empty: bool,
    reserve: bool,
}

impl Settings {
    fn config(&self, memory_bytes: u64, has_flash: bool) -> Result<Config, String> {
        Ok(Config {
            dram_bytes: memory_bytes,
            memory_bytes: has_flash.then_some(memory_bytes),
            crash_safety: self.crash_safety.parse().map_err(|e| format!("crash_safety: {e}"))?,
            admission: self.admission.parse().map_err(|e| format!("admission: {e}"))?,
            on_change: self.on_change.parse().map_err(|e| format!("on_change: {e}"))?,
            dram_policy: self.dram_policy.parse().map_err(|e| format!("dram_policy: {e}"))?,
            start_empty: self.start_empty,
            ..Config::default()
        })
    }
}

/// Opens a cache on the file at `path`, or in memory.
fn open(
    config: Config,
    path: Option<&PathBuf>,
    options: &FileOptions,
) -> Result<Larder, larder::Error> {
    config.check()?;
    let device: Option<Arc<dyn larder::Device>> = match path {
        Some(path) => Some(Arc::new(FileDevice::open(path, options)?)),
        None => None,
    };
    block_on(Larder::open(config, device, Arc::new(RealClock)))
}

/// The error of an opening, in the words of the package's arguments.
#[cold]
fn refused(py: Python<'_>, error: &larder::Error, path: Option<&PathBuf>) -> PyErr {
    let shown = path.map(|path| path.display().to_string()).unwrap_or_default();
    match error.kind() {
        ErrorKind::InUse => errors::new(
            py,
            "InUseError",
            format!(
                "path='{shown}': another cache has the file open, in this process or another ({error}). One process \
                 opens a file. Several processes share a cache by a server: run `larder serve --memcached \
                 unix:/run/larder.sock`, and use larder.Client(unix='/run/larder.sock'), which has the same calls; or \
                 give each its own file with path='…-{{worker}}'"
            ),
        ),
        ErrorKind::Config => {
            let text = error.to_string().replace("memory_bytes", "memory");
            errors::new(py, "ConfigError", text.replace("dram_bytes", "memory"))
        }
        ErrorKind::Foreign => {
            let text = format!("path='{shown}': {error}; name another file, or remove this one");
            errors::new(py, "ForeignError", text)
        }
        _ => errors::of_cache(py, error),
    }
}

impl Store {
    /// The open cache.
    #[inline]
    pub(crate) fn cache(&self, py: Python<'_>) -> PyResult<Arc<Larder>> {
        self.born.check(py)?;
        let cache = self.cache.read().unwrap_or_else(PoisonError::into_inner);
        cache.clone().ok_or_else(|| errors::closed(py))
    }

    pub(crate) fn codec(&self) -> &Arc<Codec> {
        &self.codec
    }

    pub(crate) fn born(&self) -> Birthplace {
        self.born
    }

    /// The lifetime that a caller means.
    pub(crate) fn ttl(&self, said: Lifetime) -> Option<Duration> {
        said.in_cache(self.usual)
    }

    /// Takes the cache out: later calls find it closed.
    pub(crate) fn take(&self) -> Option<Arc<Larder>> {
        self.cache.write().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// A value that DRAM has, or the certainty that there is none; `None` if the call may have to wait.
    #[inline]
    pub(crate) fn find_at_once<'py>(
        &self,
        py: Python<'py>,
        cache: &Larder,
        key: &[u8],
    ) -> PyResult<Option<Option<Bound<'py, PyAny>>>> {
        let look = |value: &[u8], meta: larder::ValueMeta| self.codec.decode(py, value, meta.flags);
        let found: Option<PyResult<Decoded<'_>>> =
            cache.get_at_once_with(key, look).map_err(|error| errors::of_cache(py, &error))?;
        match found {
            Some(decoded) => Ok(Some(Some(self.codec.finish(decoded?)?))),
            None if cache.misses_at_once(key).map_err(|error| errors::of_cache(py, &error))? => {
                Ok(Some(None))
            }
            None => Ok(None),
        }
    }

    #[inline]
    fn find<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Bound<'py, PyAny>>> {
        let cache = self.cache(py)?;
        if let Some(found) = self.find_at_once(py, &cache, key)? {
            return Ok(found);
        }
        let found = py.detach(|| block_on(cache.get(key)));
        let found = found.map_err(|error| errors::of_cache(py, &error))?;
        found.map(|value| self.codec.read(py, &value)).transpose()
    }

    /// Makes a call of the cache without the interpreter's lock.
    fn wait<T: Send>(
        &self,
        py: Python<'_>,
        call: impl AsyncFnOnce(&Larder) -> Result<T, larder::Error> + Send,
    ) -> PyResult<T> {
        let cache = self.cache(py)?;
        let ended = py.detach(|| block_on(call(&cache)));
        ended.map_err(|error| errors::of_cache(py, &error))
    }

    fn store(
        &self,
        py: Python<'_>,
        key: Key<'_>,
        value: &Bound<'_, PyAny>,
        ttl: Option<Duration>,
    ) -> PyResult<()> {
        let (value, flags) = self.codec.encode(value)?;
        let options = SetOptions { ttl, flags, ..SetOptions::default() };
        let cache = self.cache(py)?;
        let stored = value.len() <= ATTACHED_BYTES_MAX
            && cache.set_at_once(key.0, &value, options).map_err(|e| errors::of_cache(py, &e))?;
        if stored {
            return Ok(());
        }
        let stored = py.detach(|| block_on(cache.set_with(key.0, &value, options)));
        stored.map_err(|error| errors::of_cache(py, &error))
    }
}

#[pymethods]
impl Store {
    #[new]
    #[pyo3(signature = (path, memory_bytes, flash_bytes, ttl, codec, functions, settings, /))]
    #[allow(clippy::too_many_arguments)] // of a call that the package makes
    fn new(
        py: Python<'_>,
        path: Option<PathBuf>,
        memory_bytes: u64,
        flash_bytes: u64,
        ttl: Lifetime,
        codec: String,
        functions: Option<(Py<PyAny>, Py<PyAny>)>,
        settings: Settings,
    ) -> PyResult<Self> {
        let config = settings.config(memory_bytes, path.is_some());
        let config = config.map_err(|why| errors::new(py, "ConfigError", why))?;
        let lock_wait = Duration::try_from_secs_f64(settings.lock_wait).map_err(|_| {
            let given = settings.lock_wait;
            PyValueError::new_err(format!("lock_wait={given}: must be seconds, at least 0"))
        })?;
        let options = FileOptions {
            capacity_bytes: Some(flash_bytes),
            create: true,
            lock_wait,
            preallocate: settings.reserve,
            ..FileOptions::default()
        };
        let opened = py.detach(|| open(config, path.as_ref(), &options));
        let cache = opened.map_err(|error| refused(py, &error, path.as_ref()))?;
        Ok(Self {
            cache: RwLock::new(Some(Arc::new(cache))),
            codec: Arc::new(Codec::new(codec, functions)),
            usual: ttl.in_cache(None),
            born: Birthplace::here(),
        })
    }

    /// The value of `key`, or `default`.
    ///
    /// A stored `None` is returned as `None`: with another `default` it can be told from a miss.
    /// :raises CodecError: if the value was written by another codec.
    #[pyo3(signature = (key, default = None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: Key<'_>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.find(py, key.0)?.or(default))
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let found = self.find(py, key.extract::<Key<'_>>()?.0)?;
        found.ok_or_else(|| PyKeyError::new_err(key.clone().unbind()))
    }

    /// The bytes of the value of `key` as a read-only `memoryview`, without a copy; or `default`.
    ///
    /// They are as the codec wrote them. The view stays as it is, whatever becomes of the key, and pins memory of the
    /// cache until it is released; beyond 64 views (one more for each 8 MiB of `memory` above 512 MiB) it is a copy.
    #[pyo3(signature = (key, default = None))]
    fn get_view<'py>(
        &self,
        py: Python<'py>,
        key: Key<'_>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.wait(py, async |cache| cache.get(key.0).await)? {
            Some(value) => Ok(Some(View::of(py, value).map(Bound::<PyMemoryView>::into_any)?)),
            None => Ok(default),
        }
    }

    /// Store a value.
    ///
    /// It is there for the next call, and may be evicted at any later time. A value that no tier can hold is not
    /// stored, and the older one is gone.
    /// :raises InvalidInputError: for a key of more than 65,535 bytes.
    #[pyo3(signature = (key, value, ttl = Lifetime::Usual), text_signature = "(key, value, ttl=...)")]
    fn set(
        &self,
        py: Python<'_>,
        key: Key<'_>,
        value: &Bound<'_, PyAny>,
        ttl: Lifetime,
    ) -> PyResult<()> {
        self.store(py, key, value, self.ttl(ttl))
    }

    fn __setitem__(&self, py: Python<'_>, key: Key<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.store(py, key, value, self.usual)
    }

    /// Store a value unless there is one. Returns whether it was stored. One step: of several callers, one stores.
    #[pyo3(signature = (key, value, ttl = Lifetime::Usual), text_signature = "(key, value, ttl=...)")]
    fn add(
        &self,
        py: Python<'_>,
        key: Key<'_>,
        value: &Bound<'_, PyAny>,
        ttl: Lifetime,
    ) -> PyResult<bool> {
        let (value, flags) = self.codec.encode(value)?;
        let options = SetOptions { ttl: self.ttl(ttl), flags, ..SetOptions::default() };
        self.wait(py, async |cache| cache.add(key.0, &value, options).await)
    }

    /// Store a value if there is one. Returns whether it was stored.
    #[pyo3(signature = (key, value, ttl = Lifetime::Usual), text_signature = "(key, value, ttl=...)")]
    fn replace(
        &self,
        py: Python<'_>,
        key: Key<'_>,
        value: &Bound<'_, PyAny>,
        ttl: Lifetime,
    ) -> PyResult<bool> {
        let (value, flags) = self.codec.encode(value)?;
        let options = SetOptions { ttl: self.ttl(ttl), flags, ..SetOptions::default() };
        self.wait(py, async |cache| cache.replace(key.0, &value, options).await)
    }

    /// The value of `key`; if it is missing, what `make()` returns, which is stored. `make` may also be the value.
    ///
    /// Of all threads and tasks that miss the key, one makes the value, and the others wait for it. If it raises, all
    /// of them get the exception, and nothing is stored. If the key is set or deleted meanwhile, that counts: the value
    /// is returned, but not stored. In a coroutine, use :class:`larder.AsyncCache`.
    #[pyo3(signature = (key, make, ttl = Lifetime::Usual), text_signature = "(key, make, ttl=...)")]
    fn get_or_set<'py>(
        &self,
        py: Python<'py>,
        key: Key<'_>,
        make: Py<PyAny>,
        ttl: Lifetime,
    ) -> PyResult<Bound<'py, PyAny>> {
        let cache = self.cache(py)?;
        if let Some(Some(found)) = self.find_at_once(py, &cache, key.0)? {
            return Ok(found);
        }
        let ttl = self.ttl(ttl);
        let value = filling::get_or_set(py, (&cache, &self.codec), key.0, &make, ttl);
        self.codec.read(py, &value.map_err(|error| errors::of_fetch(py, &error))?)
    }

    /// Remove a key. Returns whether it was there.
    fn delete(&self, py: Python<'_>, key: Key<'_>) -> PyResult<bool> {
        self.wait(py, async |cache| cache.delete(key.0).await)
    }

    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        match self.delete(py, key.extract()?)? {
            true => Ok(()),
            false => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    /// Remove a key and return its value, in one step. Without `default`, a miss raises `KeyError`.
    #[pyo3(signature = (key, *default))]
    fn pop<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: &Bound<'py, pyo3::types::PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let of: Key<'_> = key.extract()?;
        match self.wait(py, async |cache| calls::pop(cache, of.0).await)? {
            Some(value) => self.codec.read(py, &value),
            None => default.get_item(0).map_err(|_| PyKeyError::new_err(key.clone().unbind())),
        }
    }

    /// Give a value a new lifetime, from now. Returns whether it is there.
    #[pyo3(signature = (key, ttl = Lifetime::Usual), text_signature = "(key, ttl=...)")]
    fn touch(&self, py: Python<'_>, key: Key<'_>, ttl: Lifetime) -> PyResult<bool> {
        let ttl = self.ttl(ttl);
        self.wait(py, async |cache| cache.touch(key.0, ttl).await)
    }

    /// The same as `touch`. It is about one key: values that have expired are never found, and need no call to remove
    /// them, as `expire()` of diskcache does.
    fn expire(&self, py: Python<'_>, key: Key<'_>, ttl: Lifetime) -> PyResult<bool> {
        self.touch(py, key, ttl)
    }

    /// Add to a number, in one step, and return the sum. A missing one begins at `default`, with lifetime `ttl`;
    /// `default=None` raises `KeyError` instead. A number that is there keeps its lifetime.
    /// :raises InvalidInputError: if the value is no `int` of 64 bits with sign, or the sum would not be.
    #[pyo3(
        signature = (key, delta = 1, default = Some(0), ttl = Lifetime::Usual),
        text_signature = "(key, delta=1, default=0, ttl=...)"
    )]
    fn incr(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        delta: i64,
        default: Option<i64>,
        ttl: Lifetime,
    ) -> PyResult<i64> {
        let (of, ttl): (Key<'_>, _) = (key.extract()?, self.ttl(ttl));
        let counted =
            self.wait(py, async |cache| calls::count(cache, of.0, (delta, default), ttl).await)?;
        counted.told(py, key)
    }

    /// Subtract from a number, in one step; see `incr`. It may become negative.
    #[pyo3(
        signature = (key, delta = 1, default = Some(0), ttl = Lifetime::Usual),
        text_signature = "(key, delta=1, default=0, ttl=...)"
    )]
    fn decr(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        delta: i64,
        default: Option<i64>,
        ttl: Lifetime,
    ) -> PyResult<i64> {
        let delta = delta
            .checked_neg()
            .ok_or_else(|| PyValueError::new_err(format!("delta={delta}: is beyond 64 bits")))?;
        self.incr(py, key, delta, default, ttl)
    }

    /// Whether there is a value. Does not count as a use.
    fn has_key(&self, py: Python<'_>, key: Key<'_>) -> PyResult<bool> {
        self.wait(py, async |cache| cache.contains(key.0).await)
    }

    fn __contains__(&self, py: Python<'_>, key: Key<'_>) -> PyResult<bool> {
        self.has_key(py, key)
    }

    /// The values of those keys that have one. Reads of flash run at the same time.
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (cache, found) = (self.cache(py)?, PyDict::new(py));
        let mut asked = Vec::new();
        for key in keys.try_iter()? {
            let key = key?;
            let of: Key<'_> = key.extract()?;
            match self.find_at_once(py, &cache, of.0)? {
                Some(Some(value)) => found.set_item(&key, value)?,
                Some(None) => {}
                None => asked.push((of.0.to_vec(), key)),
            }
        }
        if !asked.is_empty() {
            let keys: Vec<&[u8]> = asked.iter().map(|(key, _)| key.as_slice()).collect();
            let values = py.detach(|| block_on(cache.get_many(&keys)));
            let values = values.map_err(|error| errors::of_cache(py, &error))?;
            for ((_, key), value) in asked.iter().zip(values) {
                if let Some(value) = value {
                    found.set_item(key, self.codec.read(py, &value)?)?;
                }
            }
        }
        Ok(found)
    }

    /// Store all items of a mapping, with one lifetime.
    #[pyo3(signature = (items, ttl = Lifetime::Usual), text_signature = "(items, ttl=...)")]
    fn set_many(&self, py: Python<'_>, items: &Bound<'_, PyAny>, ttl: Lifetime) -> PyResult<()> {
        let ttl = self.ttl(ttl);
        for item in items.call_method0("items")?.try_iter()? {
            let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item?.extract()?;
            self.store(py, key.extract()?, &value, ttl)?;
        }
        Ok(())
    }

    /// Remove keys. Returns the number of those that were there.
    fn delete_many(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<usize> {
        let keys = owned_keys(keys)?;
        self.wait(py, async |cache| calls::delete_many(cache, &keys).await)
    }

    /// Remove everything, also from the file.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.wait(py, async |cache| cache.clear().await)
    }

    /// Write to flash what only DRAM has, and wait until it is there. After it a killed process loses none of that.
    ///
    /// Returns the `objects` and `bytes` that went to flash, the objects that stay in DRAM alone (`refused` by
    /// admission, or by their size), and those that device errors have `lost`.
    fn flush<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let flushed = self.wait(py, async |cache| cache.flush().await)?;
        calls::flushed_objects(py, flushed)
    }

    /// Write what flash lacks, and release the file. Later calls raise `ClosedError`. A second close does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.born.check(py)?;
        py.detach(|| match self.take() {
            Some(cache) => block_on(cache.close()).map(drop),
            None => Ok(()),
        })
        .map_err(|error| errors::of_cache(py, &error))
    }

    /// Whether the cache was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.cache.read().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Whether this process is a child of the one that opened the cache.
    #[getter]
    fn forked(&self) -> bool {
        !self.born.is_here()
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(usize::try_from(self.cache(py)?.estimated_len()).unwrap_or(usize::MAX))
    }

    fn __bool__(&self) -> bool {
        true
    }

    /// A page of a walk over all items: keys, values, and the number from which the walk goes on, 0 at its end.
    fn _page<'py>(&self, py: Python<'py>, cursor: u64, count: usize) -> PyResult<Page<'py>> {
        let page = self.wait(py, async |cache| cache.scan_from(cursor, count).await)?;
        let item = |item: &larder::Scanned| {
            let key = pyo3::types::PyBytes::new(py, item.key()).into_any();
            Ok((key, View::of(py, item.value().clone())?.into_any()))
        };
        let items = page.items.iter().map(item).collect::<PyResult<_>>()?;
        Ok((items, page.next))
    }

    /// Counters since the opening, and gauges, by name. `hits` and `hit_ratio` are sums over DRAM and flash; names end
    /// with their unit.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (stats, told) = (self.cache(py)?.stats(), PyDict::new(py));
        for metric in stats.metrics() {
            told.set_item(metric.name, metric.value)?;
        }
        let hits = stats.hits();
        told.set_item("hits", hits)?;
        #[allow(clippy::cast_precision_loss)] // a ratio for people
        told.set_item("hit_ratio", hits as f64 / stats.gets.max(1) as f64)?;
        Ok(told)
    }
}

/// Copies of all keys.
pub(crate) fn owned_keys(keys: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<u8>>> {
    keys.try_iter()?.map(|key| Ok(key?.extract::<Key<'_>>()?.0.to_vec())).collect()
}

impl Drop for Store {
    fn drop(&mut self) {
        let cache = self.cache.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if !self.born.is_here() {
            // Its threads are in the parent, which also has its file: to wait for them would be to wait for ever.
            std::mem::forget(cache);
        } else if cache.is_some() {
            // The end of its threads may take a moment.
            Python::attach(|py| py.detach(|| drop(cache)));
        }
    }
}
