//! Threads that find again what an earlier run has left on flash, from the start on and beside the clients' requests.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::thread::JoinHandle;

use larder::block_on;

use crate::shared::Shared;

/// Threads that share the work: one reads while another sorts.
const THREADS: usize = 2;

/// See the module. Its threads end when all is found, or with this.
pub(crate) struct Finder {
    is_stopped: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Finder {
    pub(crate) fn begin(shared: &Arc<Shared>) -> io::Result<Self> {
        let mut finder = Self { is_stopped: Arc::default(), threads: Vec::new() };
        for _ in 0..THREADS.min(shared.config.workers) {
            let (shared, is_stopped) = (Arc::clone(shared), Arc::clone(&finder.is_stopped));
            let run = move || {
                let mut rebuild = pin!(shared.caches.rebuild());
                // It is never long without a poll: it gives way to others, and waits for a device for a while at most.
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
            // It has nothing to tell.
            let _ = thread.join();
        }
    }
}
