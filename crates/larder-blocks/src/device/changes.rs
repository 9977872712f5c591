//! Changes of pages, and the writer that stores them while there are any.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder_device::{IoBuffer, IoFuture, steps};

use super::area::Area;
use super::queue::PendingChange;
use super::shape::PAGE_BYTES;
use super::writer::Writer;

/// Takes changes of pages, and has the writer store them.
pub(super) struct Changes {
    area: Arc<Area>,
    /// Taken while batches are being written. Locked before the area's state: a change is queued, and the queue is
    /// found empty, under this lock.
    writer: Mutex<Option<Writer>>,
}

impl Changes {
    pub(super) fn new(area: &Arc<Area>) -> Self {
        Self { area: Arc::clone(area), writer: Mutex::new(None) }
    }

    /// Puts the writer at rest. The next change takes it.
    pub(super) fn rest(&self, writer: Writer) {
        *self.lock() = Some(writer);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Writer>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes whole pages; with the default handle if the device has no handle of this number.
    pub(super) fn write(self: &Arc<Self>, first: u32, buffer: IoBuffer, handle: u16) -> IoFuture {
        let count = u32::try_from(buffer.len() / PAGE_BYTES).expect("it was checked");
        let handle = if handle < self.area.shape.options.handles { handle } else { 0 };
        self.change((first, count), Some(buffer), handle)
    }

    /// Zeroes pages permanently.
    pub(super) fn clear(self: &Arc<Self>, first: u32, count: u32) -> IoFuture {
        self.change((first, count), None, 0)
    }

    fn change(
        self: &Arc<Self>,
        (first, count): (u32, u32),
        content: Option<IoBuffer>,
        handle: u16,
    ) -> IoFuture {
        debug_assert!(
            count > 0 && first + count <= self.area.shape.pages,
            "{count} from {first} on"
        );
        let (future, completer) = IoFuture::pending();
        let mut writer = self.lock();
        self.area.lock().queue.push(PendingChange {
            first,
            count,
            taken: 0,
            content,
            handle,
            completer,
        });
        let Some(taken) = writer.take() else { return future };
        drop(writer);
        steps::carry_on(Arc::clone(self).write_all(taken));
        future
    }

    /// Writes everything that waits, a batch at a time.
    async fn write_all(self: Arc<Self>, mut writer: Writer) {
        loop {
            {
                let mut at_rest = self.lock();
                if self.area.lock().queue.is_empty() && writer.is_at_rest() {
                    *at_rest = Some(writer);
                    return;
                }
            }
            writer.write_next(&self.area).await;
        }
    }
}
