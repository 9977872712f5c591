//! The I/O engine where io_uring is missing: a few threads that make blocking calls.

use std::fs::File;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use super::engine::Engine;
use super::join::join;
use crate::file_options::FileOptions;
use crate::sys;
use crate::transfer::waiting::WaitingPieces;
use crate::transfer::{Piece, PieceStep, Pieces, Verb};

/// A pool of threads with one queue.
pub(super) struct ThreadPool {
    shared: Arc<JobQueue>,
    threads: Vec<JoinHandle<()>>,
}

struct JobQueue {
    file: Arc<File>,
    queue: Mutex<Queue>,
    work: Condvar,
}

struct Queue {
    waiting: WaitingPieces,
    /// The device was dropped: finish the waiting pieces, then end.
    closed: bool,
}

impl ThreadPool {
    pub(super) fn new(file: &Arc<File>, options: &FileOptions) -> io::Result<Self> {
        let file = Arc::clone(file);
        let queue = Mutex::new(Queue { waiting: WaitingPieces::new(options), closed: false });
        let shared = Arc::new(JobQueue { file, queue, work: Condvar::new() });
        let mut pool = Self { shared, threads: Vec::new() };
        for _ in 0..options.threads {
            let shared = Arc::clone(&pool.shared);
            let builder = std::thread::Builder::new().name("larder-io".to_owned());
            pool.threads.push(builder.spawn(move || shared.serve())?);
        }
        Ok(pool)
    }
}

impl Engine for ThreadPool {
    fn submit(&self, pieces: Pieces) {
        let mut queue = self.shared.lock();
        debug_assert!(!queue.closed, "a caller that submits has the device open");
        let aged = queue.waiting.take_aged();
        let (before, now) = (queue.waiting.len(), Instant::now());
        let refused = match queue.waiting.admit(pieces) {
            Ok(pieces) => {
                pieces.for_each(|piece| queue.waiting.push(now, piece));
                None
            }
            Err(refused) => Some(refused),
        };
        let added = queue.waiting.len() - before;
        drop(queue);
        drop((aged, refused));
        if added == 1 {
            self.shared.work.notify_one();
        } else {
            self.shared.work.notify_all();
        }
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        let was_closed = std::mem::replace(&mut self.shared.lock().closed, true);
        debug_assert!(!was_closed, "a pool is dropped once");
        self.shared.work.notify_all();
        self.threads.drain(..).for_each(join);
    }
}

impl JobQueue {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        while let Some(mut piece) = self.next() {
            loop {
                let outcome = carry_out(&self.file, &mut piece);
                if piece.settle(outcome) == PieceStep::End {
                    break;
                }
            }
        }
    }

    /// The next piece; `None` when the device was dropped and nothing waits.
    fn next(&self) -> Option<Piece> {
        let mut queue = self.lock();
        loop {
            let aged = queue.waiting.take_aged();
            if !aged.is_empty() {
                drop(queue);
                drop(aged);
                queue = self.lock();
                continue;
            }
            if let Some(piece) = queue.waiting.pop() {
                return Some(piece);
            }
            if queue.closed {
                return None;
            }
            queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn carry_out(file: &File, piece: &mut Piece) -> io::Result<usize> {
    let (offset, bytes) = (piece.offset(), piece.remaining());
    #[cfg(target_os = "linux")]
    if piece.is_of_several_buffers() {
        let (verb, durable) = (piece.verb(), piece.is_durable());
        return match verb {
            Verb::Read => sys::read_list_at(file, piece.slices(), offset),
            _ => sys::write_list_at(file, piece.slices(), offset, durable),
        };
    }
    match piece.verb() {
        Verb::Read => sys::read_at(file, piece.memory(), offset),
        Verb::Write if piece.is_durable() => sys::write_durably_at(file, piece.memory(), offset),
        Verb::Write => sys::write_at(file, piece.memory(), offset),
        Verb::Deallocate => sys::punch_hole(file, offset, bytes).map(|()| 0),
        Verb::Zero => sys::zero_range(file, offset, bytes).map(|()| 0),
        Verb::Flush => file.sync_data().map(|()| 0),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use super::*;
    use crate::buffer::IoBuffer;
    use crate::error::ErrorKind;
    use crate::io::{Io, IoFuture};
    use crate::transfer::ledger::Ledger;

    /// Three requests to a pool without threads, with a pause after each.
    fn three_requests(options: &FileOptions) -> (ThreadPool, Vec<IoFuture>, Arc<Ledger>) {
        let file = Arc::new(tempfile::tempfile().unwrap());
        let pool = ThreadPool::new(&file, &FileOptions { threads: 0, ..options.clone() }).unwrap();
        let ledger = Arc::new(Ledger::default());
        let submit = |_| {
            let (future, completer) = IoFuture::pending();
            let io = Io::Read { offset: 0, buffer: IoBuffer::zeroed(4096) };
            pool.submit(Pieces::new(io, completer, 4096, &ledger));
            std::thread::sleep(Duration::from_millis(5));
            future
        };
        let futures = (0..3).map(submit).collect();
        (pool, futures, ledger)
    }

    #[test]
    fn requests_fail_at_once_when_too_many_wait() {
        let options = FileOptions { waiting_max: 2, ..FileOptions::default() };
        let (pool, mut futures, ledger) = three_requests(&options);
        let failure = futures.remove(2).wait().unwrap_err();
        assert_eq!((failure.error.kind(), failure.buffer.len()), (ErrorKind::Busy, 4096));
        assert_eq!(ledger.shed_requests.load(Ordering::Relaxed), 1);
        assert_eq!(pool.shared.lock().waiting.len(), 2);
        drop(pool);
        for future in futures {
            assert_eq!(future.wait().unwrap_err().error.kind(), ErrorKind::Gone);
        }
        assert_eq!(ledger.shed_requests.load(Ordering::Relaxed), 1);
        assert_eq!(ledger.failed_requests.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn requests_that_have_waited_for_too_long_fail() {
        let waiting_age_max = Duration::from_millis(1);
        let options = FileOptions { waiting_age_max, ..FileOptions::default() };
        let (pool, futures, ledger) = three_requests(&options);
        // The second and third request each found the one before too old. The third has no successor.
        assert_eq!(ledger.shed_requests.load(Ordering::Relaxed), 2);
        assert_eq!(pool.shared.lock().waiting.len(), 1);
        for future in futures.into_iter().take(2) {
            let failure = future.wait().unwrap_err();
            assert_eq!((failure.error.kind(), failure.buffer.len()), (ErrorKind::Busy, 4096));
            assert!(failure.error.to_string().contains("for its turn"), "{failure}");
        }
    }
}
