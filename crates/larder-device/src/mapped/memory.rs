//! A mapped file: the mapping, and copies to and from it.
//!
//! The argument for the `unsafe` code here: a mapping is as long as its file was when it was made, lives as long as its
//! owner, and is accessed only as a slice of atomic words. So every access is within bounds and aligned, and no access
//! of another thread or process is a data race. Words are loaded as such. They are stored past the processor's caches
//! (`movnti`), each whole, which to other threads is a relaxed store. A fence ends each copy, before its end is
//! reported.
//!
//! No code can prevent this: if another program has shortened the file, access to a missing page ends the process with
//! `SIGBUS`.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::mm::{self, MapFlags, MsyncFlags, ProtFlags};
use rustix::param::page_size;

/// Unit of a store that is never torn.
pub(super) const WORD_BYTES: usize = size_of::<AtomicU64>();

/// The first bytes of a file, mapped.
#[derive(Debug)]
pub(super) struct Mapping {
    first: NonNull<AtomicU64>,
    bytes: usize,
    is_synchronous: bool,
}

// SAFETY: it is accessed only through shared references, as atomic words.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `bytes` bytes, which the file must have, with `MAP_SYNC` where the kernel allows that.
    pub(super) fn new(file: &File, bytes: usize) -> io::Result<Self> {
        let map = |flags: MapFlags| {
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: a new mapping, at an address that the kernel chooses.
            unsafe { mm::mmap(ptr::null_mut(), bytes, protection, flags, file, 0) }
        };
        let (mapped, is_synchronous) = match map(MapFlags::SHARED_VALIDATE | MapFlags::SYNC) {
            Ok(mapped) => (mapped, true),
            // The errors of a file system without DAX, of one that cannot map this way, and of a kernel that does not
            // know the flag.
            Err(Errno::OPNOTSUPP | Errno::INVAL) => (map(MapFlags::SHARED)?, false),
            Err(error) => return Err(error.into()),
        };
        let first = NonNull::new(mapped.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { first, bytes, is_synchronous })
    }

    /// Whether bytes that were stored and written back by the processor are durable, including the file's own metadata.
    pub(super) fn is_synchronous(&self) -> bool {
        self.is_synchronous
    }

    /// Length of the mapping in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn words(&self, at: usize, bytes: usize) -> &[AtomicU64] {
        debug_assert!(at.is_multiple_of(WORD_BYTES) && bytes.is_multiple_of(WORD_BYTES));
        // SAFETY: the mapping has this number of words, begins at a page, and lives as long as `self`.
        let all =
            unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.bytes / WORD_BYTES) };
        &all[at / WORD_BYTES..(at + bytes) / WORD_BYTES]
    }

    /// Copies from `at` on. Offset and length are whole words.
    pub(super) fn read(&self, at: usize, into: &mut [u8]) {
        let words = self.words(at, into.len());
        for (bytes, word) in into.chunks_exact_mut(WORD_BYTES).zip(words) {
            bytes.copy_from_slice(&u64::from_le(word.load(Ordering::Relaxed)).to_le_bytes());
        }
    }

    /// Copies to `at`, past the processor's caches. Offset and length are whole words. The caller must end the copy
    /// with [`fence`].
    pub(super) fn write(&self, at: usize, from: &[u8]) {
        let words = self.words(at, from.len());
        for (word, bytes) in words.iter().zip(from.as_chunks::<WORD_BYTES>().0) {
            store(word, u64::from_le_bytes(*bytes).to_le());
        }
    }

    /// Makes bytes durable that were copied and fenced.
    pub(super) fn persist(&self, at: usize, bytes: usize) -> io::Result<()> {
        if self.is_synchronous && STORES_PAST_CACHES {
            return Ok(());
        }
        let from = at - at % page_size();
        let words = self.words(from, at + bytes - from);
        // SAFETY: these words are mapped, and the first begins a page.
        Ok(unsafe {
            mm::msync(words.as_ptr().cast_mut().cast(), size_of_val(words), MsyncFlags::SYNC)
        }?)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this address and length, and no reference exists any more. This cannot fail.
        let _ = unsafe { mm::munmap(self.first.as_ptr().cast(), self.bytes) };
    }
}

/// Whether [`store`] leaves nothing in a cache that a loss of power clears.
const STORES_PAST_CACHES: bool = cfg!(target_arch = "x86_64");

#[cfg(target_arch = "x86_64")]
fn store(word: &AtomicU64, value: u64) {
    // SAFETY: a store of an aligned word that is borrowed for it, and nothing else.
    unsafe {
        std::arch::asm!("movnti qword ptr [{}], {}", in(reg) word.as_ptr(), in(reg) value,
            options(nostack, preserves_flags));
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn store(word: &AtomicU64, value: u64) {
    word.store(value, Ordering::Relaxed);
}

/// Earlier stores reach the memory before later ones do, and before this returns.
#[cfg(target_arch = "x86_64")]
pub(super) fn fence() {
    // SAFETY: it only waits.
    unsafe { std::arch::asm!("sfence", options(nostack, preserves_flags)) }
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn fence() {
    std::sync::atomic::fence(Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_copied_in_is_in_the_file_and_comes_out() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(5 * 4096).unwrap();
        let mapping = Mapping::new(&file, 5 * 4096).unwrap();
        let bytes: Vec<u8> = (0..=250).cycle().take(4096 + 64).collect();
        mapping.write(4096 - 8, &bytes);
        fence();
        mapping.persist(4096 - 8, bytes.len()).unwrap();
        let mut read = vec![7; bytes.len() + 16];
        mapping.read(4096 - 16, &mut read);
        let expected = [&[0; 8][..], &bytes, &[0; 8]].concat();
        assert_eq!(read, expected);
        let mut in_file = vec![7; bytes.len() + 16];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut in_file, 4096 - 16).unwrap();
        assert_eq!(in_file, expected);
    }

    #[test]
    #[should_panic(expected = "out of range")]
    fn nothing_is_reached_behind_the_end() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8192).unwrap();
        // The file is longer, so only the mapping's own bounds check can catch this.
        let mapping = Mapping::new(&file, 4096).unwrap();
        mapping.write(4096 - 8, &[0; 16]);
    }
}
