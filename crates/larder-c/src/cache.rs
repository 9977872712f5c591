//! The functions that C calls: pointers become references here, and nowhere else.
//!
//! # Safety
//! All of them trust the caller for the same: a pointer to bytes is valid for the length beside it, a handle is one
//! that this library has returned and that was not closed or freed since, and a place for a result can be written.

#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // above, for all; the header says it in words of C

use std::ffi::{CStr, c_char, c_void};
use std::ptr::{null, null_mut};

use crate::calls::{larder_cache, larder_value};
use crate::status::larder_status::{self, LARDER_INVALID, LARDER_NOT_FOUND, LARDER_OK};
use crate::status::{failed, refuse, text};

/// Called once with the outcome of `larder_get_async`. On `LARDER_OK` the value is the callee's, to be freed with
/// `larder_value_free`; otherwise it is NULL.
pub type larder_got = Option<
    unsafe extern "C" fn(context: *mut c_void, status: larder_status, value: *mut larder_value),
>;

/// Called once with the outcome of `larder_set_async`.
pub type larder_done = Option<unsafe extern "C" fn(context: *mut c_void, status: larder_status)>;

/// The caller's pointer, which goes back to the caller's function.
struct Context(*mut c_void);

// SAFETY: nothing here looks at what it points to; larder.h says that another thread may give it back.
unsafe impl Send for Context {}

impl Context {
    fn pointer(self) -> *mut c_void {
        self.0
    }
}

/// # Safety
/// `bytes` is valid for `length`, or `length` is 0.
unsafe fn slice<'a>(bytes: *const c_void, length: usize) -> Result<&'a [u8], larder_status> {
    if length == 0 {
        return Ok(&[]);
    }
    if bytes.is_null() || isize::try_from(length).is_err() {
        return Err(refuse(
            LARDER_INVALID,
            "a pointer to bytes is NULL, or their length is too large",
        ));
    }
    // SAFETY: it is not NULL, the length fits, and the caller says that it is valid.
    Ok(unsafe { std::slice::from_raw_parts(bytes.cast(), length) })
}

/// # Safety
/// `cache` is NULL, or an open cache.
unsafe fn opened<'a>(cache: *const larder_cache) -> Result<&'a larder_cache, larder_status> {
    // SAFETY: the caller says so.
    unsafe { cache.as_ref() }.ok_or_else(|| refuse(LARDER_INVALID, "cache is NULL"))
}

fn status(done: Result<larder_status, larder_status>) -> larder_status {
    done.unwrap_or_else(|status| status)
}

/// Opens a cache.
///
/// `path` is the file for flash, which is created, or opened with what is in it; NULL is a cache in memory only.
/// `memory_bytes` is the memory for objects; 0 is the default, 64 MiB. `flash_bytes` is the size of the file, a
/// multiple of 4096. On `LARDER_OK`, `*cache` is the cache, to be closed with `larder_close`; otherwise it is NULL.
///
/// A file belongs to one process: another gets `LARDER_IN_USE`. Do not use a cache in a forked child.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_open(
    path: *const c_char,
    memory_bytes: u64,
    flash_bytes: u64,
    cache: *mut *mut larder_cache,
) -> larder_status {
    if cache.is_null() {
        return refuse(LARDER_INVALID, "the place for the cache is NULL");
    }
    // SAFETY: it is not NULL, and the caller says that it can be written.
    unsafe { *cache = null_mut() };
    let path = match path.is_null() {
        true => None,
        // SAFETY: the caller says that it is a text that ends with a zero byte.
        false => match unsafe { CStr::from_ptr(path) }.to_str() {
            Ok(path) => Some(path),
            Err(_) => return refuse(LARDER_INVALID, "path is not UTF-8"),
        },
    };
    match larder_cache::open(path, memory_bytes, flash_bytes) {
        Ok(opened) => {
            // SAFETY: as above.
            unsafe { *cache = Box::into_raw(Box::new(opened)) };
            LARDER_OK
        }
        Err(status) => status,
    }
}

/// Looks up a key. On `LARDER_OK`, `*value` is the value, to be freed with `larder_value_free`; otherwise it is NULL.
/// `LARDER_NOT_FOUND`: there is none. It waits for flash if it has to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_get(
    cache: *const larder_cache,
    key: *const c_void,
    key_length: usize,
    value: *mut *mut larder_value,
) -> larder_status {
    if value.is_null() {
        return refuse(LARDER_INVALID, "the place for the value is NULL");
    }
    // SAFETY: it is not NULL, and the caller says that it can be written.
    unsafe { *value = null_mut() };
    let done = || {
        // SAFETY: the caller says so.
        let (cache, key) = unsafe { (opened(cache)?, slice(key, key_length)?) };
        let Some(found) = cache.get(key).map_err(|error| failed(&error))? else {
            return Ok(LARDER_NOT_FOUND);
        };
        // SAFETY: as above.
        unsafe { *value = Box::into_raw(Box::new(larder_value(found))) };
        Ok(LARDER_OK)
    };
    status(done())
}

/// Stores a value, which is copied. `ttl_ms` is its lifetime in milliseconds; 0 is for ever.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_set(
    cache: *const larder_cache,
    key: *const c_void,
    key_length: usize,
    value: *const c_void,
    value_length: usize,
    ttl_ms: u64,
) -> larder_status {
    let done = || {
        // SAFETY: the caller says so.
        let (cache, key) = unsafe { (opened(cache)?, slice(key, key_length)?) };
        // SAFETY: the caller says so.
        let value = unsafe { slice(value, value_length)? };
        cache.set(key, value, ttl_ms).map_err(|error| failed(&error))?;
        Ok(LARDER_OK)
    };
    status(done())
}

/// Deletes a key. `LARDER_NOT_FOUND`: there was none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_delete(
    cache: *const larder_cache,
    key: *const c_void,
    key_length: usize,
) -> larder_status {
    let done = || {
        // SAFETY: the caller says so.
        let (cache, key) = unsafe { (opened(cache)?, slice(key, key_length)?) };
        let was_there = cache.delete(key).map_err(|error| failed(&error))?;
        Ok(if was_there { LARDER_OK } else { LARDER_NOT_FOUND })
    };
    status(done())
}

/// As `larder_get`, without a wait: `done` gets the outcome. What memory answers is told before this function returns,
/// by the same thread; what has to be read from flash is told later, by a thread of the library, one at a time. `done`
/// must not close the cache. On any status but `LARDER_OK` it was not and will not be called.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_get_async(
    cache: *const larder_cache,
    key: *const c_void,
    key_length: usize,
    done: larder_got,
    context: *mut c_void,
) -> larder_status {
    let begun = || {
        // SAFETY: the caller says so.
        let (cache, key) = unsafe { (opened(cache)?, slice(key, key_length)?) };
        let done = done.ok_or_else(|| refuse(LARDER_INVALID, "done is NULL"))?;
        let context = Context(context);
        cache.get_later(key, move |ended| {
            let (status, value) = match ended {
                Ok(Some(found)) => (LARDER_OK, Box::into_raw(Box::new(larder_value(found)))),
                Ok(None) => (LARDER_NOT_FOUND, null_mut()),
                Err(error) => (failed(&error), null_mut()),
            };
            // SAFETY: the caller's function, with the caller's context.
            unsafe { done(context.pointer(), status, value) };
        });
        Ok(LARDER_OK)
    };
    status(begun())
}

/// As `larder_set`, without a wait: see `larder_get_async`. Key and value are copied before it returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_set_async(
    cache: *const larder_cache,
    key: *const c_void,
    key_length: usize,
    value: *const c_void,
    value_length: usize,
    ttl_ms: u64,
    done: larder_done,
    context: *mut c_void,
) -> larder_status {
    let begun = || {
        // SAFETY: the caller says so.
        let (cache, key) = unsafe { (opened(cache)?, slice(key, key_length)?) };
        // SAFETY: the caller says so.
        let value = unsafe { slice(value, value_length)? };
        let done = done.ok_or_else(|| refuse(LARDER_INVALID, "done is NULL"))?;
        let context = Context(context);
        cache.set_later((key, value), ttl_ms, move |ended| {
            let status = ended.map_or_else(|error| failed(&error), |()| LARDER_OK);
            // SAFETY: the caller's function, with the caller's context.
            unsafe { done(context.pointer(), status) };
        });
        Ok(LARDER_OK)
    };
    status(begun())
}

/// Waits until all outcomes of `larder_get_async` and `larder_set_async` were told.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_wait(cache: *const larder_cache) -> larder_status {
    // SAFETY: the caller says so.
    match unsafe { opened(cache) } {
        Err(status) => status,
        Ok(cache) if cache.is_answering() => {
            refuse(LARDER_INVALID, "larder_wait in a callback would wait for itself")
        }
        Ok(cache) => {
            cache.wait();
            LARDER_OK
        }
    }
}

/// Writes what only memory holds to the file, and frees the cache, whatever is returned. No other thread may use it any
/// more. Waits for all outcomes that were not told yet. NULL is `LARDER_OK`.
///
/// A callback must not call it. In one of the library's thread it is refused with `LARDER_INVALID`, and the cache stays
/// open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_close(cache: *mut larder_cache) -> larder_status {
    if cache.is_null() {
        return LARDER_OK;
    }
    // SAFETY: it is not NULL, and the caller says that it is an open cache.
    if unsafe { &*cache }.is_answering() {
        return refuse(LARDER_INVALID, "larder_close in a callback would wait for itself");
    }
    // SAFETY: `larder_open` has made it with a box, and the caller does not use it any more.
    let closed = unsafe { Box::from_raw(cache) }.close();
    closed.map_or_else(|error| failed(&error), |()| LARDER_OK)
}

/// The bytes of a value, valid until it is freed. NULL for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_value_data(value: *const larder_value) -> *const c_void {
    // SAFETY: the caller says that it is NULL or a value.
    unsafe { value.as_ref() }.map_or(null(), |value| value.0.as_ptr().cast())
}

/// The length of a value in bytes. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_value_length(value: *const larder_value) -> usize {
    // SAFETY: the caller says that it is NULL or a value.
    unsafe { value.as_ref() }.map_or(0, |value| value.0.len())
}

/// Frees a value. Values pin memory of the cache: free them soon. A value may be freed after the cache was closed. NULL
/// is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_value_free(value: *mut larder_value) {
    if !value.is_null() {
        // SAFETY: this library has made it with a box, and the caller does not use it any more.
        drop(unsafe { Box::from_raw(value) });
    }
}

/// What went wrong in the last call of this thread that failed: valid until the next such call. Never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn larder_error_text() -> *const c_char {
    text()
}

/// The version of the library.
#[unsafe(no_mangle)]
pub extern "C" fn larder_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(text) => text,
            Err(_) => c"",
        };
    VERSION.as_ptr()
}
