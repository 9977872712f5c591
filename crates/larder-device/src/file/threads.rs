//! The I/O engine for where there is no io_uring: a few threads that make blocking calls.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::engine::{Engine, join};
use super::sys;
use super::transfer::{Piece, Pieces, Step, Verb};

/// A pool of threads over one queue.
pub(super) struct ThreadPool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    file: Arc<File>,
    queue: Mutex<Queue>,
    work: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Piece>,
    /// The device is gone: finish what waits, then end.
    closed: bool,
}

impl ThreadPool {
    pub(super) fn new(file: &Arc<File>, threads: u16) -> io::Result<Self> {
        let file = Arc::clone(file);
        let shared = Arc::new(Shared { file, queue: Mutex::default(), work: Condvar::new() });
        let mut pool = Self { shared, threads: Vec::new() };
        for _ in 0..threads {
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
        let before = queue.waiting.len();
        queue.waiting.extend(pieces);
        let added = queue.waiting.len() - before;
        drop(queue);
        if added == 1 {
            self.shared.work.notify_one();
        } else {
            self.shared.work.notify_all();
        }
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.work.notify_all();
        self.threads.drain(..).for_each(join);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        while let Some(mut piece) = self.next() {
            loop {
                let outcome = carry_out(&self.file, &mut piece);
                if piece.settle(outcome) == Step::End {
                    break;
                }
            }
        }
    }

    /// The next piece; `None` when the device is gone and nothing waits.
    fn next(&self) -> Option<Piece> {
        let mut queue = self.lock();
        loop {
            if let Some(piece) = queue.waiting.pop_front() {
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
    match piece.verb() {
        Verb::Read => sys::read_at(file, piece.memory(), offset),
        Verb::Write => sys::write_at(file, piece.memory(), offset),
        Verb::Deallocate => sys::punch_hole(file, offset, bytes).map(|()| 0),
        Verb::Flush => file.sync_data().map(|()| 0),
    }
}
