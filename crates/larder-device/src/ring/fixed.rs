//! Buffers that are registered with a ring: the kernel holds their pages and need not look them up and pin them with
//! every request.
//!
//! A buffer is registered when the ring first sees it. From then on its index, which it keeps for life, finds it in the
//! ring's table. Where the kernel grants no table or takes no more memory (`RLIMIT_MEMLOCK`), requests travel with
//! their address, as they would otherwise. Rings count against that limit too, so we leave most of it to them.
//!
//! Invariant: a request names an entry of the table only if the entry was made for the tag of its buffer. The buffer
//! keeps its tag for as long as its memory lives, and no other buffer ever gets that tag. So the kernel reaches,
//! through the entry, the memory that the request owns. An entry for freed memory only holds pages; no request names
//! it, and it is cleared when the next one is made.
#![allow(unsafe_code)]

#[cfg(test)]
mod tests;

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use io_uring::Submitter;
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

use crate::fixed_index::{ENTRIES, Registrable, Tag, given_back};
use crate::sys;
use crate::transfer::Piece;

/// A ring's table of registered buffers, as we know it.
#[derive(Debug, Default)]
pub(crate) struct FixedBuffers {
    /// The tag of each entry that the kernel has. Without entries if the kernel granted no table.
    known: Box<[Option<Tag>]>,
    /// Bytes that the kernel holds through each entry.
    bytes: Box<[u32]>,
    allowance: Allowance,
    /// The kernel has refused a buffer: no more are offered.
    full: bool,
    /// The allowance was too small for a buffer.
    short: bool,
    /// Value of [`given_back`] at the last sweep.
    swept: u64,
    /// Pieces that named an entry.
    named: u64,
}

/// What a device reports of registered buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BufferGrant {
    /// There is a table, and neither the kernel nor the allowance has refused one of our buffers.
    pub(crate) all: bool,
    /// Pieces that went to the kernel with a registered buffer.
    pub(crate) pieces: u64,
}

impl FixedBuffers {
    /// An empty table, if it is `wanted` and the kernel grants one (Linux 5.19).
    pub(crate) fn new(submitter: &Submitter<'_>, wanted: bool) -> Self {
        let entries = u32::try_from(ENTRIES).unwrap_or(0);
        if !wanted || submitter.register_buffers_sparse(entries).is_err() {
            return Self::default();
        }
        let (known, bytes) = (vec![None; ENTRIES].into(), vec![0; ENTRIES].into());
        Self { known, bytes, allowance: Allowance::here(), ..Self::default() }
    }

    /// The entry for the piece's buffer, to name to the kernel. `None`: use its address.
    pub(crate) fn entry(&mut self, submitter: &Submitter<'_>, piece: &mut Piece) -> Option<u16> {
        let entry = self.find(submitter, piece);
        piece.by_entry = entry.is_some();
        self.named += u64::from(entry.is_some());
        entry
    }

    fn find(&mut self, submitter: &Submitter<'_>, piece: &Piece) -> Option<u16> {
        if self.known.is_empty() {
            return None;
        }
        let buffer = piece.registrable()?;
        let index = buffer.tag.index();
        let known = self.known[index] == Some(buffer.tag)
            || (!self.full && self.register(submitter, &buffer));
        if known { u16::try_from(index).ok() } else { None }
    }

    fn register(&mut self, submitter: &Submitter<'_>, buffer: &Registrable) -> bool {
        self.sweep(submitter);
        self.put(submitter, buffer.tag.index(), Some(buffer))
    }

    /// Puts `buffer` into an entry, or clears the entry. Returns `false` if the entry is unchanged.
    fn put(&mut self, submitter: &Submitter<'_>, at: usize, buffer: Option<&Registrable>) -> bool {
        let Ok(bytes) = u32::try_from(buffer.map_or(0, |it| it.bytes)) else { return false };
        if !self.allowance.take(bytes) {
            // A shorter buffer may still fit.
            self.short = true;
            return false;
        }
        if update(submitter, at, buffer).is_err() {
            self.allowance.give_back(bytes);
            self.full |= buffer.is_some();
            return false;
        }
        self.allowance.give_back(std::mem::replace(&mut self.bytes[at], bytes));
        self.known[at] = buffer.map(|it| it.tag);
        true
    }

    /// Clears the entries whose memory was freed, so that the kernel releases it.
    fn sweep(&mut self, submitter: &Submitter<'_>) {
        let now = given_back();
        if now == self.swept {
            return;
        }
        self.swept = now;
        for at in 0..self.known.len() {
            if self.known[at].is_some_and(|tag| !tag.is_held()) {
                self.put(submitter, at, None);
            }
        }
    }

    /// Whether the kernel failed the piece because of its registered buffer, as far as can be told: Linux before 6.1
    /// does not support them in commands to a drive. This piece and all later ones must then use addresses.
    pub(crate) fn is_refused(&mut self, piece: &Piece, result: i32) -> bool {
        let refused = is_refusal(piece, result);
        if refused {
            // The kernel's own table goes with the ring.
            self.known = Box::default();
        }
        refused
    }

    pub(crate) fn granted(&self) -> BufferGrant {
        BufferGrant { all: !self.known.is_empty() && !self.full && !self.short, pieces: self.named }
    }

    /// Unregisters the table. Called when nothing is pending.
    pub(crate) fn close(&mut self, submitter: &Submitter<'_>) {
        if !self.known.is_empty() {
            // Otherwise the kernel would hold the memory until it has torn the ring down.
            let _ = submitter.unregister_buffers();
            self.known = Box::default();
            self.allowance = Allowance::default();
        }
    }
}

/// Like [`FixedBuffers::is_refused`], for devices that share the table with others.
pub(crate) fn is_refusal(piece: &Piece, result: i32) -> bool {
    result < 0
        && piece.by_entry
        && sys::is_misunderstood(&io::Error::from_raw_os_error(result.wrapping_neg()))
}

/// Bytes that the rings of this process hold where there is a limit.
static HELD: AtomicUsize = AtomicUsize::new(0);

/// We use one part in this number of the memory that the kernel lets a user lock: rings need the rest, and other
/// processes of the user may too.
const PART_OF_LIMIT: usize = 4;

/// Buffers longer than this may use only half of our part. A block is read far more often than a part of a region is
/// written, and the look-up of its pages is a larger part of the cost of a request.
const SHORT_BYTES_MAX: usize = 64 << 10;

/// What one ring may hold, and what it holds. Dropping it releases that.
#[derive(Debug, Default)]
struct Allowance {
    /// Limit in bytes for all rings together; `None` if there is none.
    most: Option<usize>,
    held: usize,
}

impl Allowance {
    /// The allowance of a ring that this thread makes: the kernel checks the capabilities of the ring's creator.
    fn here() -> Self {
        let free =
            capabilities(None).is_ok_and(|it| it.effective.contains(CapabilitySet::IPC_LOCK));
        let limit = getrlimit(Resource::Memlock).current.filter(|_| !free);
        let part = |limit| usize::try_from(limit).unwrap_or(usize::MAX) / PART_OF_LIMIT;
        Self { most: limit.map(part), held: 0 }
    }

    fn take(&mut self, bytes: u32) -> bool {
        let (Some(most), bytes) = (self.most, bytes as usize) else { return true };
        let most = if bytes > SHORT_BYTES_MAX { most / 2 } else { most };
        // Two threads may check at the same time; the kernel enforces the limit.
        if bytes > 0 && HELD.load(Ordering::Relaxed).saturating_add(bytes) > most {
            return false;
        }
        HELD.fetch_add(bytes, Ordering::Relaxed);
        self.held += bytes;
        true
    }

    fn give_back(&mut self, bytes: u32) {
        if self.most.is_some() {
            HELD.fetch_sub(bytes as usize, Ordering::Relaxed);
            self.held -= bytes as usize;
        }
    }
}

impl Drop for Allowance {
    fn drop(&mut self) {
        HELD.fetch_sub(self.held, Ordering::Relaxed);
    }
}

/// Registers `buffer` in the entry, or clears the entry.
fn update(submitter: &Submitter<'_>, at: usize, buffer: Option<&Registrable>) -> io::Result<()> {
    let (start, bytes) = buffer.map_or((std::ptr::null_mut(), 0), |it| (it.start, it.bytes));
    let vectors = [libc::iovec { iov_base: start.cast(), iov_len: bytes }];
    let entry = u32::try_from(at).unwrap_or(u32::MAX);
    // SAFETY: the memory exists now, because the caller holds a piece of its request. The kernel holds the pages and
    // accesses them only for requests that name the entry, and these own the memory (see the invariant above). So the
    // memory may be freed while the entry exists.
    unsafe { submitter.register_buffers_update(entry, &vectors, None) }
}
