//! Which bytes of segments may be touched, for AddressSanitizer, which knows by itself only what the kernel gave: with
//! `--cfg larder_asan` (`cargo xtask sanitize`). Otherwise all of this is nothing.
#![allow(unsafe_code)]

use std::ptr::NonNull;

#[cfg(larder_asan)]
unsafe extern "C" {
    fn __asan_poison_memory_region(start: *const std::ffi::c_void, bytes: usize);
    fn __asan_unpoison_memory_region(start: *const std::ffi::c_void, bytes: usize);
    #[cfg(test)]
    fn __asan_address_is_poisoned(at: *const std::ffi::c_void) -> std::ffi::c_int;
}

/// From now on whoever touches these bytes is wrong.
#[inline]
pub(super) fn forbid(_start: NonNull<u8>, _bytes: usize) {
    // SAFETY: the sanitizer changes what it knows of these bytes, and none of them.
    #[cfg(larder_asan)]
    unsafe {
        __asan_poison_memory_region(_start.as_ptr().cast(), _bytes);
    }
}

/// They may be touched again.
#[inline]
pub(super) fn allow(_start: NonNull<u8>, _bytes: usize) {
    // SAFETY: as above.
    #[cfg(larder_asan)]
    unsafe {
        __asan_unpoison_memory_region(_start.as_ptr().cast(), _bytes);
    }
}

/// Whether a byte may be touched.
#[cfg(all(test, larder_asan))]
pub(super) fn is_allowed(at: *const u8) -> bool {
    // SAFETY: it looks up what the sanitizer knows of an address.
    unsafe { __asan_address_is_poisoned(at.cast()) == 0 }
}
