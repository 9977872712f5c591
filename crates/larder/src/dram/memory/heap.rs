//! Freed memory that the process's allocator keeps: tables of the index, the ghost, long items. After a tier has
//! become much smaller, that may be more than all the rest of the tier.
#![allow(unsafe_code)]

/// Returns freed memory to the kernel, if the allocator must be asked for that. glibc's allocator keeps memory that
/// is not at the end of its heap. It is harmless with other allocators, or if the program has chosen another one.
#[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
pub(in super::super) fn trim() {
    unsafe extern "C" {
        /// `int malloc_trim(size_t pad)` of `malloc.h`.
        safe fn malloc_trim(pad: usize) -> i32;
    }
    let _ = malloc_trim(0); // the result says whether memory was released
}

#[cfg(not(all(target_os = "linux", target_env = "gnu", not(miri))))]
pub(in super::super) fn trim() {}
