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
    pub async fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>, Error> {
        let gets = keys.iter().map(|key| Get::Running(Box::pin(self.get(key.as_ref()))));
        Together(gets.collect()).await.into_iter().collect()
    }
}

type Answer = Result<Option<Value>, Error>;

enum Get<F> {
    Running(Pin<Box<F>>),
    Done(Option<Answer>),
}

/// Polls all until all are done.
struct Together<F>(Vec<Get<F>>);

impl<F: Future<Output = Answer>> Future for Together<F> {
    type Output = Vec<Answer>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Vec<Answer>> {
        let mut running = false;
        for get in &mut self.0 {
            if let Get::Running(future) = get {
                match future.as_mut().poll(context) {
                    Poll::Ready(answer) => *get = Get::Done(Some(answer)),
                    Poll::Pending => running = true,
                }
            }
        }
        if running {
            return Poll::Pending;
        }
        Poll::Ready(
            self.0
                .iter_mut()
                .filter_map(|get| match get {
                    Get::Done(answer) => answer.take(),
                    Get::Running(_) => None,
                })
                .collect(),
        )
    }
}
