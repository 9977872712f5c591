//! What the process's allocator keeps of memory that was given back to it: tables of the index, the
//! ghost, long items. After a tier has become much smaller that may be more than all that is left of it.
#![allow(unsafe_code)]

/// Gives it to the kernel, where the allocator has to be asked for that: glibc's keeps what is not at the
/// end of its heap. Others, and this one beside another that the program has chosen, lose nothing.
#[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
pub(in super::super) fn trim() {
    unsafe extern "C" {
        /// `int malloc_trim(size_t pad)` of `malloc.h`.
        safe fn malloc_trim(pad: usize) -> i32;
    }
    let _ = malloc_trim(0); // whether there was something
}

#[cfg(not(all(target_os = "linux", target_env = "gnu", not(miri))))]
pub(in super::super) fn trim() {}
