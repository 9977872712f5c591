//! A thread that compares passwords, which takes long.

use std::future::poll_fn;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

use super::password::PasswordHash;

/// So many comparisons wait; further ones are refused, as if the password were wrong.
const WAITING_MAX: usize = 256;

/// See the module. The thread ends with it.
pub(super) struct Verifier(SyncSender<Comparison>);

struct Comparison {
    hash: PasswordHash,
    password: Vec<u8>,
    verdict: Verdict,
}

#[derive(Clone, Default)]
struct Verdict(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    is_right: Option<bool>,
    waker: Option<Waker>,
}

impl Verifier {
    pub(super) fn start() -> std::io::Result<Self> {
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let thread = std::thread::Builder::new().name("larder-login".to_owned());
        thread.spawn(move || compare_all(&receiver))?;
        Ok(Self(sender))
    }

    /// Whether `hash` is that of `password`.
    pub(super) async fn verify(&self, hash: &PasswordHash, password: &[u8]) -> bool {
        let verdict = Verdict::default();
        let (hash, password) = (hash.clone(), password.to_vec());
        if self.0.try_send(Comparison { hash, password, verdict: verdict.clone() }).is_err() {
            return false;
        }
        poll_fn(|cx| {
            let mut state = verdict.lock();
            match state.is_right {
                Some(is_right) => Poll::Ready(is_right),
                None => {
                    state.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

fn compare_all(comparisons: &Receiver<Comparison>) {
    for Comparison { hash, password, verdict } in comparisons {
        verdict.say(hash.is_of(&password));
    }
}

impl Verdict {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
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
