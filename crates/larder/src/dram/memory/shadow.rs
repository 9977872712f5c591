//! Marks the bytes of segments that may be accessed, for AddressSanitizer, which by itself knows only the memory from
//! the kernel: with `--cfg larder_asan` (`cargo xtask sanitize`). Otherwise all of this does nothing.
#![allow(unsafe_code)]

use std::ptr::NonNull;

#[cfg(larder_asan)]
unsafe extern "C" {
    fn __asan_poison_memory_region(start: *const std::ffi::c_void, bytes: usize);
    fn __asan_unpoison_memory_region(start: *const std::ffi::c_void, bytes: usize);
    #[cfg(test)]
    fn __asan_address_is_poisoned(at: *const std::ffi::c_void) -> std::ffi::c_int;
}

/// From now on any access to these bytes is an error.
#[inline]
pub(super) fn forbid(_start: NonNull<u8>, _bytes: usize) {
    // SAFETY: the sanitizer changes its record of these bytes, not the bytes.
    #[cfg(larder_asan)]
    unsafe {
        __asan_poison_memory_region(_start.as_ptr().cast(), _bytes);
    }
}

/// Access is allowed again.
#[inline]
pub(super) fn allow(_start: NonNull<u8>, _bytes: usize) {
    // SAFETY: as above.
    #[cfg(larder_asan)]
    unsafe {
        __asan_unpoison_memory_region(_start.as_ptr().cast(), _bytes);
    }
}

/// Whether access to a byte is allowed.
#[cfg(all(test, larder_asan))]
pub(super) fn is_allowed(at: *const u8) -> bool {
    // SAFETY: it looks up the sanitizer's record of an address.
    unsafe { __asan_address_is_poisoned(at.cast()) == 0 }
}
