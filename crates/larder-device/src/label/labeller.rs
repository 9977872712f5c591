//! Writing labels.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_lock::Mutex;

use super::{COPIES, COPY_BYTES, Found, Kind, Label, Uuid, copy};
use crate::{Device, Error, ErrorKind, Io, IoBuffer, PlacementHandle};

/// Writes the labels of one content of one device, each with a higher generation than the last. Clones share the
/// counter.
#[derive(Clone)]
pub struct Labeller {
    device: Arc<dyn Device>,
    kind: Kind,
    uuid: Uuid,
    /// Generation of the label that was begun last.
    generation: Arc<AtomicU64>,
    /// Held while a label is being written.
    written: Arc<Mutex<WrittenLabel>>,
}

/// What this labeller has written to the device.
#[derive(Clone, Copy, Debug, Default)]
struct WrittenLabel {
    /// Generation of the latest label that this labeller has written completely.
    generation: u64,
    /// Whether both copies are the label that was written last.
    is_even: bool,
}

impl std::fmt::Debug for Labeller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Labeller")
            .field("kind", &self.kind)
            .field("uuid", &self.uuid)
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}

impl Labeller {
    /// A labeller for a content whose latest label on the device, if there is one, has this generation.
    pub fn new(device: Arc<dyn Device>, kind: Kind, uuid: Uuid, generation: u64) -> Self {
        let generation = Arc::new(AtomicU64::new(generation));
        Self { device, kind, uuid, generation, written: Arc::default() }
    }

    /// The UUID of the content.
    pub fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// Writes both copies, one after the other, with a flush after each. The copy without which a whole label remains
    /// comes first. The label's generation is fixed when this is called, not when the future is awaited. The future
    /// waits until a write that is in progress has ended, and does not write if a newer label was written since. If it
    /// fails or is dropped, the device has the old label or the new one, never something else.
    ///
    /// # Errors
    /// Those of the device; [`ErrorKind::Busy`] if a newer label was written.
    ///
    /// # Panics
    /// If there are more than [`CONTENT_BYTES_MAX`](super::CONTENT_BYTES_MAX) bytes of content.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use larder_device::label::{Kind, Labeller, Uuid};
    /// use larder_device::{Device, MemoryDevice, block_on};
    ///
    /// let device: Arc<dyn Device> = Arc::new(MemoryDevice::holding(vec![0; 1 << 20]));
    /// let labeller = Labeller::new(device, Kind::Cache, Uuid::draw(), 0);
    /// block_on(labeller.write(b"what the cache says of itself".to_vec()))?;
    /// # Ok::<(), larder_device::Error>(())
    /// ```
    pub fn write(
        &self,
        content: Vec<u8>,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let generation = self.generation.fetch_add(1, Ordering::SeqCst) + 1;
        let label = Label { kind: self.kind, uuid: self.uuid, generation, content };
        let (device, written) = (Arc::clone(&self.device), Arc::clone(&self.written));
        async move {
            let mut written = written.lock().await;
            if written.generation > generation {
                let newer = written.generation;
                let context =
                    format!("writing label {generation}: the newer {newer} was written first");
                return Err(Error::new(ErrorKind::Busy, context));
            }
            let is_even = std::mem::take(&mut written.is_even);
            let order = if is_even { COPIES } else { order(&device).await };
            for offset in order {
                let bytes = copy::encode(&label, offset);
                let mut buffer = IoBuffer::zeroed(bytes.len());
                buffer.as_mut_slice().copy_from_slice(&bytes);
                let write = Io::write(offset, buffer, PlacementHandle::DEFAULT);
                device.submit(write).await.map_err(|failure| failure.error)?;
                // Do not touch the second copy before the first one is safe.
                device.submit(Io::Flush).await.map_err(|failure| failure.error)?;
            }
            *written = WrittenLabel { generation, is_even: true };
            Ok(())
        }
    }

    /// Bytes that a label with `content_bytes` of content takes on the device, both copies together.
    pub fn written_bytes(content_bytes: usize) -> u64 {
        let copy = (copy::HEADER_BYTES + content_bytes).next_multiple_of(4096);
        (COPIES.len() * copy) as u64
    }
}

/// Offsets of the copies in the order in which to write them: the latest whole copy last. A crash may have torn the
/// other one, and a crash during the next label would then leave none. A copy that cannot be read counts as missing.
async fn order(device: &Arc<dyn Device>) -> [u64; 2] {
    let [first, second] = COPIES;
    let (first_has, second_has) =
        (generation(device, first).await, generation(device, second).await);
    if first_has > second_has { [second, first] } else { COPIES }
}

async fn generation(device: &Arc<dyn Device>, offset: u64) -> Option<u64> {
    let room = device.info().capacity_bytes.saturating_sub(offset);
    let bytes = usize::try_from(room).map_or(COPY_BYTES, |room| room.min(COPY_BYTES));
    let read = device.submit(Io::Read { offset, buffer: IoBuffer::zeroed(bytes) }).await.ok()?;
    match copy::parse(read.as_slice(), offset)? {
        Found::Label(label) => Some(label.generation),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;
    use crate::{Fault, FaultDevice, FaultPlan, FaultRule, MemoryDevice, block_on};

    /// A crash has torn one copy while a label was written. Whichever copy it was, a crash during the next label leaves
    /// the other one whole.
    #[test]
    fn the_only_whole_copy_is_written_last() {
        for torn in COPIES {
            let memory = MemoryDevice::holding(vec![0; 1 << 16]);
            let failing = Arc::new(FaultDevice::new(memory, &FaultPlan::new(1)));
            let device: Arc<dyn Device> = Arc::clone(&failing) as _;
            let labeller = |generation| {
                Labeller::new(Arc::clone(&device), Kind::Cache, Uuid::draw(), generation)
            };
            block_on(labeller(0).write(b"old".to_vec())).unwrap();
            let tear = Io::write(torn, IoBuffer::zeroed(4096), PlacementHandle::DEFAULT);
            block_on(device.submit(tear)).unwrap();
            // Two reads, a write, and the flush.
            let rule = FaultRule::new(Fault::Error).at_io(failing.submissions() + 3);
            failing.set_plan(&FaultPlan::new(1).with(rule));
            block_on(labeller(1).write(b"new".to_vec())).unwrap_err();
            failing.set_plan(&FaultPlan::new(1));
            let has = COPIES.map(|offset| block_on(generation(&device, offset)));
            let new_at = |offset| if offset == torn { Some(2) } else { Some(1) };
            assert_eq!(has, COPIES.map(new_at), "the copy at {torn} was torn");
        }
    }

    /// The later label is begun while any request of the earlier one is in flight, or none is.
    #[test]
    fn of_two_labels_at_a_time_the_later_one_stays() {
        for stalled in 0..5 {
            let memory = MemoryDevice::holding(vec![0; 1 << 16]);
            // Two reads come first; then a write and a flush for each copy.
            let rule = FaultRule::new(Fault::Stall).at_io(2 + stalled);
            let failing = Arc::new(FaultDevice::new(memory, &FaultPlan::new(1).with(rule)));
            let device: Arc<dyn Device> = Arc::clone(&failing) as _;
            let labeller = Labeller::new(Arc::clone(&device), Kind::Cache, Uuid::draw(), 0);
            let mut earlier = pin!(labeller.write(b"earlier".to_vec()));
            let mut later = pin!(labeller.write(b"later".to_vec()));
            let mut context = Context::from_waker(Waker::noop());
            if stalled < 4 {
                assert!(earlier.as_mut().poll(&mut context).is_pending(), "I/O {stalled}");
                assert!(later.as_mut().poll(&mut context).is_pending(), "it waits, I/O {stalled}");
                failing.release_delayed();
                block_on(earlier).unwrap();
                block_on(later).unwrap();
            } else {
                failing.set_plan(&FaultPlan::new(1));
                block_on(later).unwrap();
                assert_eq!(block_on(earlier).unwrap_err().kind(), ErrorKind::Busy);
            }
            let has = COPIES.map(|offset| block_on(generation(&device, offset)));
            assert_eq!(has, [Some(2); 2], "I/O {stalled}");
        }
    }
}
