//! A value that a task brings, for callers that wait for it.

use std::sync::{Arc, Mutex, PoisonError};

use event_listener::Event;

/// A value that will come.
#[derive(Debug)]
pub(crate) struct Promise<T>(Arc<Shared<T>>);

/// The task's end of a promise. If it is dropped without a value, the promise is broken.
#[derive(Debug)]
pub(crate) struct Keeper<T>(Arc<Shared<T>>);

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    done: Event,
}

#[derive(Debug, Clone)]
enum State<T> {
    Open,
    Kept(T),
    Broken,
}

impl<T> Clone for Promise<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// A promise and its keeper.
pub(crate) fn promise<T>() -> (Keeper<T>, Promise<T>) {
    let shared = Arc::new(Shared { state: Mutex::new(State::Open), done: Event::new() });
    (Keeper(Arc::clone(&shared)), Promise(shared))
}

impl<T> Keeper<T> {
    pub(crate) fn keep(self, value: T) {
        self.0.end(State::Kept(value));
    }
}

impl<T> Drop for Keeper<T> {
    fn drop(&mut self) {
        self.0.end(State::Broken);
    }
}

impl<T> Shared<T> {
    /// Ends the wait, if it has not ended.
    fn end(&self, state: State<T>) {
        let mut current = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*current, State::Open) {
            *current = state;
        }
        drop(current);
        self.done.notify(usize::MAX);
    }
}

impl<T: Clone> Promise<T> {
    /// Waits for the value; `None` if the task was dropped.
    pub(crate) async fn wait(&self) -> Option<T> {
        loop {
            let listener = self.0.done.listen();
            match &*self.0.state.lock().unwrap_or_else(PoisonError::into_inner) {
                State::Open => {}
                State::Kept(value) => return Some(value.clone()),
                State::Broken => return None,
            }
            listener.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_wait_get_the_value_or_that_there_is_none() {
        let (keeper, waits) = promise();
        let other = waits.clone();
        let thread = std::thread::spawn(move || larder::block_on(other.wait()));
        keeper.keep(7);
        assert_eq!((thread.join().unwrap(), larder::block_on(waits.wait())), (Some(7), Some(7)));
        let (keeper, waits) = promise::<u8>();
        drop(keeper);
        assert_eq!(larder::block_on(waits.wait()), None);
    }
}
