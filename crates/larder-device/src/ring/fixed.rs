//! Buffers that a ring knows beforehand: the kernel has their pages at hand and need not look them up
//! and hold them with every request.
//!
//! A buffer is registered when the ring first sees it. From then on its index, which it has for life,
//! finds it in the ring's table. Where the kernel grants no table or takes no more memory
//! (`RLIMIT_MEMLOCK`), requests travel with their address, as they would otherwise. Rings count against
//! that limit too: we leave them most of it.
//!
//! Invariant: a request names an entry of the table only if the entry was made for the tag that its
//! buffer has. The buffer has it for as long as its memory lives, and nothing else ever has it: so
//! what the kernel reaches through the entry is the memory that the request owns. An entry for memory
//! that was freed only holds pages; nobody names it, and it is cleared when the next one is made.
#![allow(unsafe_code)]

#[cfg(test)]
mod tests;

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use io_uring::Submitter;
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

use crate::file::sys;
use crate::file::transfer::Piece;
use crate::fixed_index::{ENTRIES, Registrable, Tag, given_back};

/// A ring's table of registered buffers, as we know it.
#[derive(Debug, Default)]
pub(crate) struct FixedBuffers {
    /// What the kernel has; no entries: it gave us no table.
    known: Box<[Option<Tag>]>,
    /// Bytes that the kernel holds by each entry.
    bytes: Box<[u32]>,
    allowance: Allowance,
    /// The kernel has refused one: it gets no more.
    full: bool,
    /// The allowance was not enough for one.
    short: bool,
    /// How many buffers had gone when we last looked for those among ours.
    swept: u64,
    /// Pieces that named an entry.
    named: u64,
}

/// What there is to report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Granted {
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

    /// The entry by which the kernel is to be told of the piece's buffer. `None`: by its address.
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

    /// Puts `buffer` into an entry, or clears the entry. `false`: it is as it was.
    fn put(&mut self, submitter: &Submitter<'_>, at: usize, buffer: Option<&Registrable>) -> bool {
        let Ok(bytes) = u32::try_from(buffer.map_or(0, |it| it.bytes)) else { return false };
        if !self.allowance.take(bytes) {
            // A shorter one may still have room.
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

    /// Lets the kernel let go of memory that is not ours any more.
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

    /// Whether the kernel ended the piece because of its registered buffer, as far as can be told:
    /// Linux before 6.1 does not know them in commands to a drive. The piece, and all that come, must
    /// then go with their addresses.
    pub(crate) fn is_refused(&mut self, piece: &Piece, result: i32) -> bool {
        let refused = is_refusal(piece, result);
        if refused {
            // The kernel's goes with the ring.
            self.known = Box::default();
        }
        refused
    }

    pub(crate) fn granted(&self) -> Granted {
        Granted { all: !self.known.is_empty() && !self.full && !self.short, pieces: self.named }
    }

    /// Takes the table back. Called when nothing is pending.
    pub(crate) fn close(&mut self, submitter: &Submitter<'_>) {
        if !self.known.is_empty() {
            // Otherwise the kernel would hold the memory until it has taken the ring apart.
            let _ = submitter.unregister_buffers();
            self.known = Box::default();
            self.allowance = Allowance::default();
        }
    }
}

/// As [`FixedBuffers::is_refused`], for those who share the table with others.
pub(crate) fn is_refusal(piece: &Piece, result: i32) -> bool {
    result < 0
        && piece.by_entry
        && sys::is_misunderstood(&io::Error::from_raw_os_error(result.wrapping_neg()))
}

/// Bytes that the rings of this process hold where they are limited.
static HELD: AtomicUsize = AtomicUsize::new(0);

/// Of what the kernel lets a user hold, the part that we take for buffers: rings need the rest, and so
/// may other processes of the user.
const PART_OF_LIMIT: usize = 4;

/// Longer buffers leave half of that to the others: a block is read far more often than a part of a
/// region is written, and its pages are a larger part of what a request costs.
const SHORT_BYTES_MAX: usize = 64 << 10;

/// What a ring may hold, and holds. Dropping it gives that back.
#[derive(Debug, Default)]
struct Allowance {
    /// For all rings together. `None`: as much as they like.
    most: Option<usize>,
    held: usize,
}

impl Allowance {
    /// For a ring that this thread makes: the kernel looks at the rights that its maker has.
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
        // Two may look at once; the kernel has the last word.
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

/// Tells the kernel of `buffer`, or to forget what the entry has.
fn update(submitter: &Submitter<'_>, at: usize, buffer: Option<&Registrable>) -> io::Result<()> {
    let (start, bytes) = buffer.map_or((std::ptr::null_mut(), 0), |it| (it.start, it.bytes));
    let vectors = [libc::iovec { iov_base: start.cast(), iov_len: bytes }];
    let entry = u32::try_from(at).unwrap_or(u32::MAX);
    // SAFETY: the memory is there now, for the caller holds a piece of its request. The kernel holds
    // its pages and reaches them for requests that name the entry alone, and these own the memory
    // (the invariant above): that it may be freed while the entry is there does no harm.
    unsafe { submitter.register_buffers_update(entry, &vectors, None) }
}
