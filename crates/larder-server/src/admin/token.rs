//! Checks the admin token. A client may change something only if its token matches the hash in the configuration.
//!
//! A token is handled like a password: the hash takes long to compute, and the comparison takes constant time. One
//! token is compared at a time, and a wrong one is answered late, so that guessing stays slow however many clients
//! guess.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::users::PasswordHash;

/// Delay before the answer to a wrong token.
const WRONG_DELAY: Duration = Duration::from_millis(500);
/// Requests that wait for the comparison of their token, each on its own thread.
const WAITING_MAX: usize = 8;
/// Longest token.
const TOKEN_BYTES_MAX: usize = 1024;

/// Admits requests with the right token; see the module.
pub(super) struct Gate {
    hash: Option<PasswordHash>,
    turn: Mutex<()>,
    /// Tokens that wait for the turn, including the one that has it.
    waiting: AtomicUsize,
}

/// A token that waits, until it is dropped.
struct WaitingToken<'a>(&'a AtomicUsize);

impl Drop for WaitingToken<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Why a request may not change anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GateRefusal {
    /// No token is configured: no request may.
    ReadOnly,
    /// It has no token, or a wrong one.
    Stranger,
    /// Too many tokens wait to be compared: this one was not.
    Busy,
}

impl Gate {
    pub(super) fn new(hash: Option<PasswordHash>) -> Self {
        Self { hash, turn: Mutex::default(), waiting: AtomicUsize::new(0) }
    }

    /// Whether a token is configured.
    pub(super) fn is_there(&self) -> bool {
        self.hash.is_some()
    }

    /// Checks the token of a request.
    pub(super) fn admit(&self, token: Option<&str>) -> Result<(), GateRefusal> {
        let hash = self.hash.as_ref().ok_or(GateRefusal::ReadOnly)?;
        let token = token.filter(|token| token.len() <= TOKEN_BYTES_MAX);
        let token = token.ok_or(GateRefusal::Stranger)?;
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waits = WaitingToken(&self.waiting);
        if before >= WAITING_MAX {
            return Err(GateRefusal::Busy);
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if hash.is_of(token.as_bytes()) {
            return Ok(());
        }
        std::thread::sleep(WRONG_DELAY);
        Err(GateRefusal::Stranger)
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
        assert_eq!(gate.admit(Some("oat")), Err(GateRefusal::Stranger));
        assert!(begun.elapsed() >= WRONG_DELAY, "guessing is slow");
        assert_eq!(gate.admit(None), Err(GateRefusal::Stranger));
        assert_eq!(gate.admit(Some(&"x".repeat(5000))), Err(GateRefusal::Stranger));
        let closed = Gate::new(None);
        assert!(!closed.is_there());
        assert_eq!(closed.admit(Some("rye")), Err(GateRefusal::ReadOnly));
    }
}
