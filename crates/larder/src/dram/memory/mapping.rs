//! Address space from the kernel, with the wish for huge pages. Elsewhere than on Linux there is none,
//! and segments have memory of their own.
#![allow(unsafe_code)]

use std::ops::Range;
#[cfg(target_os = "linux")]
use std::ptr;
use std::ptr::NonNull;

#[cfg(target_os = "linux")]
use rustix::mm::{self, Advice, MapFlags, ProtFlags};

#[cfg(target_os = "linux")]
/// What a huge page is on the machines that have them.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Zeroed memory from a multiple of [`HUGE_PAGE_BYTES`] on. What was never written takes none.
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
    /// Of huge pages, if possible, or of usual ones. `None` if the kernel gives none.
    #[cfg(target_os = "linux")]
    pub(super) fn new(bytes: usize, huge: bool) -> Option<Self> {
        let mapped_bytes = bytes + HUGE_PAGE_BYTES;
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping, at a place that the kernel chooses.
        let mapped =
            unsafe { mm::mmap_anonymous(ptr::null_mut(), mapped_bytes, protection, flags).ok()? };
        let mapped = NonNull::new(mapped.cast::<u8>())?;
        let skipped = mapped.as_ptr().align_offset(HUGE_PAGE_BYTES);
        assert!(skipped < HUGE_PAGE_BYTES, "the mapping is longer by a huge page");
        // SAFETY: less than a huge page, and by so much the mapping is longer.
        let first = unsafe { mapped.add(skipped) };
        let advice = if huge { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage };
        // SAFETY: our own memory; the advice changes nothing that is in it.
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

    /// Tells the kernel that nobody will read these bytes again before [`Mapping::want`], as far as
    /// they are whole pages. They get no huge page meanwhile: the kernel joins pages to huge ones in
    /// the background, and would bring back what was given up.
    #[cfg(target_os = "linux")]
    pub(super) fn forget(&self, range: Range<usize>) {
        self.advise(range.clone(), Advice::LinuxDontNeed);
        if self.huge {
            self.advise(range, Advice::LinuxNoHugepage);
        }
    }

    /// These bytes will be used again. They are zeros.
    #[cfg(target_os = "linux")]
    pub(super) fn want(&self, range: Range<usize>) {
        if self.huge {
            self.advise(range, Advice::LinuxHugepage);
        }
    }

    /// Of the parts of a mapping each has one owner, and it alone may give advice on its own.
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
            // SAFETY: whole pages of the mapping. The one advice that changes their content is given by
            // `forget`, whose caller says that it is of no use.
            let _ = unsafe {
                let first = self.first.add(start);
                mm::madvise(first.as_ptr().cast(), end - start, advice)
            };
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length; whoever was given a part keeps the mapping alive.
        #[cfg(target_os = "linux")]
        let _ = unsafe { mm::munmap(self.mapped.as_ptr().cast(), self.mapped_bytes) };
    }
}
