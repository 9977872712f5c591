//! Asking memory for what will be wanted soon.
#![allow(unsafe_code)]

/// Asks for the cache line at an address, and waits for nothing. A hint: where processors are not known
/// to take it, it is none. The address may be any.
#[inline]
pub(crate) fn prefetch<T>(at: *const T) {
    #[cfg(all(target_arch = "x86_64", not(shuttle)))]
    // SAFETY: a prefetch reads nothing that the program sees, and faults nowhere.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(shuttle))))]
    let _ = at;
}
