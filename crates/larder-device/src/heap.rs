//! Returns unused memory of the allocator to the system.
//!
//! The allocator of glibc keeps freed pages that lie between pages in use for as long as the process lives.
#![allow(unsafe_code)]

/// Returns whole pages of freed memory to the system. The call takes about as long as handing over the free memory
/// does, and allocating threads wait for it. So use it after a peak, not regularly. Allocators other than glibc's do
/// this themselves. Returns the number of bytes by which the process became smaller, as the system counts them (0 if it
/// became larger, or the system does not say).
pub fn give_back_free_memory() -> usize {
    let before = resident_bytes();
    // SAFETY: `malloc_trim` may be called from any thread at any time. It takes the locks of the allocator and touches
    // only free memory. Its result says whether there was any, which does not matter here.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    unsafe {
        libc::malloc_trim(0);
    }
    before.saturating_sub(resident_bytes())
}

/// Resident memory of the process in bytes, or 0 where the system does not say.
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.unwrap_or(0) * rustix::param::page_size()
}

#[cfg(test)]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "asks the system")]
    fn freed_memory_between_used_memory_is_given_back() {
        let mut pieces: Vec<Option<Vec<u8>>> = (0..8192).map(|_| Some(vec![1; 8 << 10])).collect();
        // Every 64th piece stays, so that the top of the heap does.
        pieces
            .iter_mut()
            .enumerate()
            .filter(|(at, _)| at % 64 != 63)
            .for_each(|(_, it)| *it = None);
        let before = resident_bytes();
        let given_back = give_back_free_memory();
        let after = resident_bytes();
        assert!(after + (32 << 20) < before, "{before} -> {after}");
        assert!(given_back > 32 << 20, "{given_back}");
        assert_eq!(pieces.iter().flatten().count(), 128);
    }
}
