//! Address space from the kernel, with a request for huge pages. Only on Linux; elsewhere segments have their own
//! memory.
#![allow(unsafe_code)]

use std::ops::Range;
#[cfg(target_os = "linux")]
use std::ptr;
use std::ptr::NonNull;

#[cfg(target_os = "linux")]
use rustix::mm::{self, Advice, MapFlags, ProtFlags};

#[cfg(target_os = "linux")]
/// Size of a huge page on machines that have them.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Zeroed memory, aligned to [`HUGE_PAGE_BYTES`]. Untouched pages take no memory.
#[derive(Debug)]
pub(super) struct Mapping {
    #[cfg(target_os = "linux")]
    mapped: NonNull<u8>,
    #[cfg(target_os = "linux")]
    mapped_bytes: usize,
    #[cfg(target_os = "linux")]
    huge: bool,
    first: NonNull<u8>,
}

// SAFETY: a mapping is never read or written here, only given out in parts and unmapped.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps huge pages if possible, or normal ones. `None` if the kernel refuses.
    #[cfg(target_os = "linux")]
    pub(super) fn new(bytes: usize, huge: bool) -> Option<Self> {
        let mapped_bytes = bytes + HUGE_PAGE_BYTES;
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let mapped =
            unsafe { mm::mmap_anonymous(ptr::null_mut(), mapped_bytes, protection, flags).ok()? };
        let mapped = NonNull::new(mapped.cast::<u8>())?;
        let skipped = mapped.as_ptr().align_offset(HUGE_PAGE_BYTES);
        assert!(skipped < HUGE_PAGE_BYTES, "the mapping is longer by a huge page");
        // SAFETY: less than a huge page, and the mapping is longer by a huge page.
        let first = unsafe { mapped.add(skipped) };
        let advice = if huge { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage };
        // SAFETY: our own memory; the advice does not change its content.
        let _ = unsafe { mm::madvise(first.as_ptr().cast(), bytes, advice) };
        Some(Self { mapped, mapped_bytes, huge, first })
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn new(_: usize, _: bool) -> Option<Self> {
        None
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn forget(&self, _: Range<usize>) {}

    #[cfg(not(target_os = "linux"))]
    pub(super) fn want(&self, _: Range<usize>) {}

    /// The first byte.
    pub(super) fn first(&self) -> NonNull<u8> {
        self.first
    }

    /// Tells the kernel that these bytes, as far as they are whole pages, are not read again before
    /// [`Mapping::want`]. They are excluded from huge pages until then: the kernel merges pages into huge ones in the
    /// background, and would bring back the memory that was given up.
    #[cfg(target_os = "linux")]
    pub(super) fn forget(&self, range: Range<usize>) {
        self.advise(range.clone(), Advice::LinuxDontNeed);
        if self.huge {
            self.advise(range, Advice::LinuxNoHugepage);
        }
    }

    /// Takes these bytes into use again. They are zeros.
    #[cfg(target_os = "linux")]
    pub(super) fn want(&self, range: Range<usize>) {
        if self.huge {
            self.advise(range, Advice::LinuxHugepage);
        }
    }

    /// Gives advice for a part of the mapping. Each part has one owner, and only that may call this.
    #[cfg(target_os = "linux")]
    fn advise(&self, range: Range<usize>, advice: Advice) {
        let page = rustix::param::page_size();
        assert!(
            range.end <= self.mapped_bytes - HUGE_PAGE_BYTES,
            "advice is for a part of the mapping"
        );
        let start = range.start.next_multiple_of(page);
        let end = range.end / page * page;
        if start < end {
            // SAFETY: whole pages of the mapping. The only advice that changes their content comes from `forget`,
            // whose caller guarantees that the content is not needed.
            let _ = unsafe {
                let first = self.first.add(start);
                mm::madvise(first.as_ptr().cast(), end - start, advice)
            };
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length; every owner of a part keeps the mapping alive.
        #[cfg(target_os = "linux")]
        let _ = unsafe { mm::munmap(self.mapped.as_ptr().cast(), self.mapped_bytes) };
    }
}
