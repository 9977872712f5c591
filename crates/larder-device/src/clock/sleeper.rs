//! A future that sleeps until a time on an agenda.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use super::Sleep;
use super::agenda::{Agenda, Number};

/// Ends when the time of `agenda` has reached `due_ns`. Dropped before, it removes its event.
pub(super) fn sleep_until(agenda: &Arc<Agenda>, due_ns: u64) -> Sleep {
    let sleeper = Arc::new(Sleeper::default());
    let noted = Arc::clone(&sleeper);
    let number = agenda.note(due_ns, Box::new(move || noted.wake()));
    Box::pin(Sleeping { sleeper, agenda: Arc::clone(agenda), number })
}

#[derive(Debug, Default)]
struct Sleeper {
    is_due: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Sleeper {
    fn wake(&self) {
        self.is_due.store(true, Ordering::SeqCst);
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

struct Sleeping {
    sleeper: Arc<Sleeper>,
    agenda: Arc<Agenda>,
    number: Option<Number>,
}

impl Future for Sleeping {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut waker = self.sleeper.waker.lock().unwrap_or_else(PoisonError::into_inner);
        // Checked under the lock of the waker: `wake` sets the flag first and takes the waker after that.
        if self.sleeper.is_due.load(Ordering::SeqCst) {
            return Poll::Ready(());
        }
        *waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleeping {
    fn drop(&mut self) {
        if let Some(number) = self.number.filter(|_| !self.sleeper.is_due.load(Ordering::SeqCst)) {
            self.agenda.strike(number);
        }
    }
}
