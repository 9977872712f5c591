//! Who may change something: whoever has the token of which the configuration has the hash.
//!
//! A token is a password, and is compared as one: the hash takes long to compute, and the comparison tells nothing by
//! its time. One is compared at a time, and a wrong one is answered late, so that guessing is slow however many guess.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::users::PasswordHash;

/// A wrong one is answered after so long.
const WRONG_DELAY: Duration = Duration::from_millis(500);
/// Requests that wait for the comparison of their token, each on a thread of its own.
const WAITING_MAX: usize = 8;
/// No token is longer.
const TOKEN_BYTES_MAX: usize = 1024;

/// See the module.
pub(super) struct Gate {
    hash: Option<PasswordHash>,
    turn: Mutex<()>,
    /// Tokens that wait for the turn, with the one that has it.
    waiting: AtomicUsize,
}

/// One of those that wait, until it is dropped.
struct Waits<'a>(&'a AtomicUsize);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Why somebody may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// Nobody may.
    ReadOnly,
    /// It shows no token, or a wrong one.
    Stranger,
    /// Too many tokens wait to be compared: this one was not.
    Busy,
}

impl Gate {
    pub(super) fn new(hash: Option<PasswordHash>) -> Self {
        Self { hash, turn: Mutex::default(), waiting: AtomicUsize::new(0) }
    }

    /// Whether anybody may change something.
    pub(super) fn is_there(&self) -> bool {
        self.hash.is_some()
    }

    /// Whether whoever shows `token` may.
    pub(super) fn admit(&self, token: Option<&str>) -> Result<(), Refused> {
        let hash = self.hash.as_ref().ok_or(Refused::ReadOnly)?;
        let token = token.filter(|token| token.len() <= TOKEN_BYTES_MAX);
        let token = token.ok_or(Refused::Stranger)?;
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waits = Waits(&self.waiting);
        if before >= WAITING_MAX {
            return Err(Refused::Busy);
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if hash.is_of(token.as_bytes()) {
            return Ok(());
        }
        std::thread::sleep(WRONG_DELAY);
        Err(Refused::Stranger)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn only_the_token_opens_and_without_one_nothing_does() {
        let gate = Gate::new(Some(PasswordHash::of(b"rye").unwrap()));
        assert!(gate.is_there() && gate.admit(Some("rye")).is_ok());
        let begun = Instant::now();
        assert_eq!(gate.admit(Some("oat")), Err(Refused::Stranger));
        assert!(begun.elapsed() >= WRONG_DELAY, "guessing is slow");
        assert_eq!(gate.admit(None), Err(Refused::Stranger));
        assert_eq!(gate.admit(Some(&"x".repeat(5000))), Err(Refused::Stranger));
        let closed = Gate::new(None);
        assert!(!closed.is_there());
        assert_eq!(closed.admit(Some("rye")), Err(Refused::ReadOnly));
    }
}
