//! Writes: the head of what is written is void before the write and after it.
//!
//! Before, so that a reader that begins during the write asks the store. After, so that what such a reader was told,
//! which may be the old version, is not believed by the next one. A write whose future is dropped may have been made:
//! its end is noted too.

use std::sync::Arc;

use larder::Route;

use super::Store;
use crate::key::ListKind;
use crate::source::Failure;

/// A write that is under way.
pub(crate) struct Writing<R: Route + 'static, F: Failure> {
    store: Arc<Store<R, F>>,
    path: String,
    has_ended: bool,
}

impl<R: Route + 'static, F: Failure> Writing<R, F> {
    /// Before the store is asked to write.
    pub(crate) async fn begin(store: &Arc<Store<R, F>>, path: &str) -> Self {
        let writing = Self { store: Arc::clone(store), path: path.to_owned(), has_ended: false };
        store.invalidate(path).await;
        writing
    }

    /// After the store has answered, whatever it has said.
    pub(crate) async fn end(mut self) {
        self.store.invalidate(&self.path).await;
        self.has_ended = true;
    }
}

impl<R: Route + 'static, F: Failure> Drop for Writing<R, F> {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let keys = self.store.keys_of_write(&self.path);
        for key in &keys {
            self.store.epochs.doubt(key);
            self.store.epochs.advance(key);
        }
        let (store, path) = (Arc::clone(&self.store), std::mem::take(&mut self.path));
        let background = &self.store.background;
        background.spawn(Box::pin(async move {
            store.invalidate(&path).await;
            keys.iter().for_each(|key| store.epochs.settle(key));
        }));
    }
}

impl<R: Route + 'static, F: Failure> Store<R, F> {
    /// Voids the head of a path, and the listings that show it.
    pub(crate) async fn invalidate(&self, path: &str) {
        self.counters.invalidations.add(1);
        for key in self.keys_of_write(path) {
            self.void(&key).await;
        }
    }

    fn keys_of_write(&self, path: &str) -> Vec<Vec<u8>> {
        let mut keys = vec![self.keys.head(path)];
        if !self.options.list_ttl.is_zero() {
            let mut prefix = path;
            while !prefix.is_empty() {
                prefix = prefix.rsplit_once('/').map_or("", |(above, _)| above);
                keys.extend([ListKind::All, ListKind::Level].map(|it| self.keys.list(it, prefix)));
            }
        }
        keys
    }
}
