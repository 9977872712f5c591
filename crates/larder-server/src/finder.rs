//! Threads that rebuild the index of what an earlier run left on flash. They start with the server and run while
//! clients are served.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::thread::JoinHandle;

use larder::block_on;

use crate::shared::ServerState;

/// Threads that share the work: one reads while another sorts.
const THREADS: usize = 2;

/// The threads that rebuild. They end when the index is complete, or when this is dropped.
pub(crate) struct Finder {
    is_stopped: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Finder {
    pub(crate) fn begin(shared: &Arc<ServerState>) -> io::Result<Self> {
        let mut finder = Self { is_stopped: Arc::default(), threads: Vec::new() };
        for _ in 0..THREADS.min(shared.config.workers) {
            let (shared, is_stopped) = (Arc::clone(shared), Arc::clone(&finder.is_stopped));
            let run = move || {
                let mut rebuild = pin!(shared.caches.rebuild());
                // The rebuild polls often: it gives way to other work, and waits for a device only for a bounded time.
                block_on(poll_fn(|context| match is_stopped.load(Ordering::Relaxed) {
                    true => Poll::Ready(()),
                    false => rebuild.as_mut().poll(context).map(drop),
                }));
            };
            let thread = std::thread::Builder::new().name("larder-find".to_owned()).spawn(run)?;
            finder.threads.push(thread);
        }
        Ok(finder)
    }
}

impl Drop for Finder {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // The thread returns nothing.
            let _ = thread.join();
        }
    }
}
