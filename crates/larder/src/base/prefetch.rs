//! Prefetches memory.
#![allow(unsafe_code)]

/// Prefetches the cache line at an address, without waiting. Only a hint: on processors that are not known to support
/// it, it does nothing. Any address is allowed.
#[inline]
pub(crate) fn prefetch<T>(at: *const T) {
    #[cfg(all(target_arch = "x86_64", not(shuttle)))]
    // SAFETY: a prefetch reads nothing that the program sees, and never faults.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(shuttle))))]
    let _ = at;
}
