//! Many keys at once: what has to be read from flash is read side by side.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::Larder;
use crate::error::Error;
use crate::value::Value;

impl Larder {
    /// Looks all `keys` up; the answers are in their order. Reads of flash run side by side.
    ///
    /// # Errors
    /// As [`Larder::get`], for the first key that has one.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set(b"rye", b"1", None))?;
    /// let found = block_on(cache.get_many(&["rye", "oat"]))?;
    /// assert_eq!(found[0].as_deref(), Some(&b"1"[..]));
    /// assert!(found[1].is_none());
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>, Error> {
        together(keys.iter().map(|key| self.get(key.as_ref()))).await.into_iter().collect()
    }
}

/// Waits for all of them; they run side by side, in one task.
pub(crate) async fn together<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output>
where
    F::Output: Unpin,
{
    let running = futures.into_iter().map(|future| Step::Running(Box::pin(future)));
    Together(running.collect()).await
}

enum Step<F: Future> {
    Running(Pin<Box<F>>),
    Done(Option<F::Output>),
}

/// Polls all until all are done.
struct Together<F: Future>(Vec<Step<F>>);

impl<F: Future> Future for Together<F>
where
    F::Output: Unpin,
{
    type Output = Vec<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut running = false;
        for step in &mut self.0 {
            if let Step::Running(future) = step {
                match future.as_mut().poll(context) {
                    Poll::Ready(output) => *step = Step::Done(Some(output)),
                    Poll::Pending => running = true,
                }
            }
        }
        if running {
            return Poll::Pending;
        }
        let outputs = self.0.iter_mut().filter_map(|step| match step {
            Step::Done(output) => output.take(),
            Step::Running(_) => None,
        });
        Poll::Ready(outputs.collect())
    }
}
