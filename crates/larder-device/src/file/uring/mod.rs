//! The I/O engine over io_uring: a ring for each core that submits.
//!
//! A thread that waits submits through "its" ring and fetches the completions itself: a lone read needs no other
//! thread. Threads share a ring when there are more of them than cores. A submitter that does not wait, such as a task
//! of another executor, leaves its request to the thread that fetches completions anyway, which hands the kernel many
//! at a time. With few requests in flight it does not wake that thread, but submits to the kernel itself.
//!
//! A thread that hosts a ring ([`crate::ring`]) bypasses all this.
//!
//! The kernel finishes a request on the thread that submitted it. If that thread sleeps elsewhere, for example in
//! `epoll_wait`, the kernel interrupts it for that (`EINTR`, which executors handle).

pub(crate) mod lead;
mod port;
pub(crate) mod submit_mode;
#[cfg(test)]
mod tests;
mod wake_event;

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use super::engine::Engine;
use crate::file_options::FileOptions;
use crate::ring::member::Member;
use crate::ring::wire::{AnyWire, Wire};
use crate::transfer::Pieces;
use lead::Ring;
use submit_mode::SubmitMode;

/// Number of cores that share a ring for threads that leave completions to a reaper. Sharing submits more requests per
/// call, and one reaper keeps up with that many cores.
const CORES_PER_REAPER: usize = 4;

/// The rings, created on first use.
pub(crate) struct Uring<W: Wire> {
    rings: Box<[OnceLock<Arc<Ring<W>>>]>,
    wire: Arc<W>,
    file: Arc<File>,
    options: FileOptions,
    /// Connection to the rings that threads host themselves.
    member: Member,
}

thread_local! {
    /// Number of this thread. Threads are assigned to the rings in turn, in the order in which they first submit.
    static THREAD: Cell<usize> = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Cell::new(NEXT.fetch_add(1, Ordering::Relaxed))
    };
}

impl<W: Wire> Uring<W> {
    /// Sets up the first ring, to find out whether the kernel allows it.
    pub(crate) fn new(wire: W, file: &Arc<File>, options: &FileOptions) -> io::Result<Self> {
        let wire = Arc::new(wire);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let first = Ring::new(&wire, file, options)?;
        let rings: Box<[_]> = (0..cores).map(|_| OnceLock::new()).collect();
        let _ = rings[0].set(first);
        let member = Member::new(Arc::clone(&wire) as Arc<dyn AnyWire>, file, options);
        Ok(Self { rings, wire, file: Arc::clone(file), options: options.clone(), member })
    }

    fn ring(&self, submit_mode: SubmitMode) -> Option<&Arc<Ring<W>>> {
        // A thread that is exiting has lost its number.
        let thread = THREAD.try_with(Cell::get).unwrap_or(0);
        let rings = match submit_mode {
            SubmitMode::Caller | SubmitMode::Unplugged => self.rings.len(),
            SubmitMode::Leader => self.rings.len().div_ceil(CORES_PER_REAPER),
        };
        debug_assert!(0 < rings && rings <= self.rings.len(), "{rings} of {}", self.rings.len());
        let ours = &self.rings[thread % rings];
        if ours.get().is_none()
            && let Ok(ring) = Ring::new(&self.wire, &self.file, &self.options)
            && let Err(late) = ours.set(ring)
        {
            late.close();
        }
        // If the kernel grants no further ring, use the first one.
        ours.get().or_else(|| self.rings[0].get())
    }
}

impl<W: Wire> Engine for Uring<W> {
    fn submit(&self, pieces: Pieces) {
        let Err(pieces) = self.member.submit(pieces) else { return };
        let submit_mode = SubmitMode::here();
        match self.ring(submit_mode) {
            Some(ring) => ring.submit(pieces, submit_mode),
            // Dropping unsettled pieces fails their request.
            None => pieces.for_each(drop),
        }
    }

    fn registered_file(&self) -> bool {
        self.rings.iter().filter_map(OnceLock::get).all(|ring| ring.registered_file())
            && self.member.registered_file()
    }

    fn registered_buffers(&self) -> bool {
        self.rings.iter().filter_map(OnceLock::get).all(|ring| ring.fixed_buffers().all)
            && self.member.registered_buffers()
    }

    fn fixed_pieces(&self) -> u64 {
        let rings = self.rings.iter().filter_map(OnceLock::get);
        rings.map(|ring| ring.fixed_buffers().pieces).sum::<u64>() + self.member.fixed_pieces()
    }
}

impl<W: Wire> Drop for Uring<W> {
    fn drop(&mut self) {
        let rings = self.rings.iter().filter_map(OnceLock::get);
        let broken = rings.filter(|ring| !ring.close()).count();
        if self.member.leave() && broken == 0 {
            // The kernel may hold the file a little longer than we do, and the lock with it.
            let _ = self.file.unlock();
        }
    }
}
