//! Limits how many admin requests are in flight: heads that are being read, and answers that are computed and sent.
//!
//! A request takes no place among the answers before its head is complete, and a health check takes none at all. A
//! client that sends its head slowly gives way to later ones: when all places for heads are taken, the oldest is ended.

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Answers at a time. A client that comes while this number are in flight gets an error.
const ANSWERS_MAX: usize = 8;
/// Heads that are read at a time.
const HEADS_MAX: usize = 64;

/// The places for heads and answers; see the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Places(Arc<Inside>);

#[derive(Debug, Default)]
struct Inside {
    answers: AtomicUsize,
    heads: Mutex<VecDeque<(u64, TcpStream)>>,
    next: AtomicUsize,
}

/// A place for an answer, until it is dropped.
#[derive(Debug)]
pub(super) struct Place(Arc<Inside>);

/// A place for a head that is read, until it is dropped.
#[derive(Debug)]
pub(super) struct Reading(Arc<Inside>, u64);

impl Places {
    /// Takes a place for an answer, if one is free.
    pub(super) fn take(&self) -> Option<Place> {
        let before = self.0.answers.fetch_add(1, Ordering::Relaxed);
        let place = Place(Arc::clone(&self.0));
        (before < ANSWERS_MAX).then_some(place)
    }

    /// Registers a head that is read from `stream`. If there are too many, ends the one that was begun first.
    pub(super) fn read(&self, stream: &TcpStream) -> io::Result<Reading> {
        let number = self.0.next.fetch_add(1, Ordering::Relaxed) as u64;
        let stream = stream.try_clone()?;
        let mut heads = self.0.lock();
        heads.push_back((number, stream));
        if heads.len() > HEADS_MAX
            && let Some((_, slowest)) = heads.pop_front()
        {
            // Its thread sees the end of the stream.
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
