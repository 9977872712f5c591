//! A thread that compares passwords, which takes long.
//!
//! Comparisons wait in two queues. Connections that have sent no wrong password come first, so that guessing, by
//! however many clients, does not keep out a client that knows its password. Each address has a limited number of
//! places. If none is free, the client is told to try again, and learns nothing about its password.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use super::password::PasswordHash;

/// Most comparisons that wait in each queue.
const WAITING_MAX: usize = 256;
/// Most of them from one address.
const OF_ADDRESS_MAX: usize = 64;

/// The thread's queues. The thread ends when this is dropped.
pub(super) struct Verifier(Arc<Queues>);

/// The origin of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asker {
    /// `None` for a Unix socket.
    pub(crate) address: Option<IpAddr>,
    /// Its connection has sent a wrong password before.
    pub(crate) was_wrong: bool,
}

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ComparisonResult {
    Right,
    Wrong,
    /// Not compared: too many wait.
    Busy,
}

#[derive(Default)]
struct Queues {
    waiting: Mutex<ComparisonQueue>,
    has_come: Condvar,
}

#[derive(Default)]
struct ComparisonQueue {
    /// First those of connections without a wrong password, then the others.
    queues: [VecDeque<Comparison>; 2],
    ends: bool,
}

struct Comparison {
    asker: Asker,
    hash: PasswordHash,
    password: Vec<u8>,
    verdict: Verdict,
}

#[derive(Clone, Default)]
struct Verdict(Arc<Mutex<ComparisonState>>);

#[derive(Default)]
struct ComparisonState {
    is_right: Option<bool>,
    waker: Option<Waker>,
}

impl Queues {
    fn lock(&self) -> MutexGuard<'_, ComparisonQueue> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a comparison. Returns whether there was a place for it.
    fn has_taken(&self, comparison: Comparison) -> bool {
        let mut waiting = self.lock();
        let Asker { address, was_wrong } = comparison.asker;
        let queue = &mut waiting.queues[usize::from(was_wrong)];
        let of_address = queue.iter().filter(|it| it.asker.address == address).count();
        let has_place = queue.len() < WAITING_MAX && of_address < OF_ADDRESS_MAX;
        if has_place {
            queue.push_back(comparison);
            self.has_come.notify_one();
        }
        has_place
    }

    /// Waits for the next comparison; `None` at the end.
    fn next(&self) -> Option<Comparison> {
        let mut waiting = self.lock();
        loop {
            if waiting.ends {
                return None;
            }
            if let Some(next) = waiting.queues.iter_mut().find_map(VecDeque::pop_front) {
                return Some(next);
            }
            waiting = self.has_come.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Verifier {
    pub(super) fn start() -> std::io::Result<Self> {
        let queues = Arc::new(Queues::default());
        let own = Arc::clone(&queues);
        let thread = std::thread::Builder::new().name("larder-login".to_owned());
        thread.spawn(move || {
            while let Some(Comparison { hash, password, verdict, .. }) = own.next() {
                verdict.say(hash.is_of(&password));
            }
        })?;
        Ok(Self(queues))
    }

    /// Compares `password` with that of `hash`.
    pub(super) async fn verify(
        &self,
        asker: Asker,
        hash: &PasswordHash,
        password: &[u8],
    ) -> ComparisonResult {
        let verdict = Verdict::default();
        let (hash, password) = (hash.clone(), password.to_vec());
        let comparison = Comparison { asker, hash, password, verdict: verdict.clone() };
        if !self.0.has_taken(comparison) {
            return ComparisonResult::Busy;
        }
        let is_right = poll_fn(|cx| {
            let mut state = verdict.lock();
            match state.is_right {
                Some(is_right) => Poll::Ready(is_right),
                None => {
                    state.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        });
        if is_right.await { ComparisonResult::Right } else { ComparisonResult::Wrong }
    }
}

impl Drop for Verifier {
    fn drop(&mut self) {
        self.0.lock().ends = true;
        self.0.has_come.notify_one();
    }
}

impl Verdict {
    fn lock(&self) -> MutexGuard<'_, ComparisonState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, is_right: bool) {
        let waker = {
            let mut state = self.lock();
            state.is_right = Some(is_right);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(address: u8, was_wrong: bool) -> Comparison {
        Comparison {
            asker: Asker { address: Some([10, 0, 0, address].into()), was_wrong },
            hash: PasswordHash::parse(
                "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$Nz7eYZ8ElxnkHGxPOkX3vm3cgoyLnPBVdGlnvX0fSBQ",
            )
            .unwrap(),
            password: Vec::new(),
            verdict: Verdict::default(),
        }
    }

    #[test]
    fn an_address_has_some_places_and_connections_that_have_not_guessed_come_first() {
        let queues = Queues::default();
        let taken = (0..100).filter(|_| queues.has_taken(comparison(1, true))).count();
        assert_eq!(taken, OF_ADDRESS_MAX);
        assert!(queues.has_taken(comparison(2, true)), "another address has its own");
        assert!(queues.has_taken(comparison(1, false)), "and so has a connection without a guess");
        let next = queues.next().unwrap().asker;
        assert_eq!(next, comparison(1, false).asker);
        let all = (0..250_u8).filter(|address| queues.has_taken(comparison(*address, true)));
        assert_eq!(all.count(), WAITING_MAX - OF_ADDRESS_MAX - 1);
        queues.lock().ends = true;
        assert!(queues.next().is_none());
    }
}
