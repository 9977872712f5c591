//! How many requests of operators are under way at a time: heads that are read, and answers that are worked out and
//! sent.
//!
//! A head takes no place among the answers before it is there whole, and a check of health takes none at all. A client
//! that sends its head slowly loses to those that come after it: when all that may be read are, the longest ends.

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Answers at a time. A client that comes when 8 are under way is told so.
const ANSWERS_MAX: usize = 8;
/// Heads that are read at a time.
const HEADS_MAX: usize = 64;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Places(Arc<Inside>);

#[derive(Debug, Default)]
struct Inside {
    answers: AtomicUsize,
    heads: Mutex<VecDeque<(u64, TcpStream)>>,
    next: AtomicUsize,
}

/// One of the answers, until it is dropped.
#[derive(Debug)]
pub(super) struct Place(Arc<Inside>);

/// A head that is read, until it is dropped.
#[derive(Debug)]
pub(super) struct Reading(Arc<Inside>, u64);

impl Places {
    /// A place for an answer, if one is free.
    pub(super) fn take(&self) -> Option<Place> {
        let before = self.0.answers.fetch_add(1, Ordering::Relaxed);
        let place = Place(Arc::clone(&self.0));
        (before < ANSWERS_MAX).then_some(place)
    }

    /// A head is read from `stream` from now on. If too many are, the one that takes longest ends.
    pub(super) fn read(&self, stream: &TcpStream) -> io::Result<Reading> {
        let number = self.0.next.fetch_add(1, Ordering::Relaxed) as u64;
        let stream = stream.try_clone()?;
        let mut heads = self.0.lock();
        heads.push_back((number, stream));
        if heads.len() > HEADS_MAX
            && let Some((_, slowest)) = heads.pop_front()
        {
            // Its thread finds that nothing more comes.
            let _ = slowest.shutdown(Shutdown::Both);
        }
        Ok(Reading(Arc::clone(&self.0), number))
    }
}

impl Inside {
    fn lock(&self) -> MutexGuard<'_, VecDeque<(u64, TcpStream)>> {
        self.heads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.answers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.lock().retain(|(number, _)| *number != self.1);
    }
}
