//! Writing labels.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{COPIES, Kind, Label, Uuid, copy};
use crate::{Device, Error, Io, IoBuffer, PlacementHandle};

/// Writes the labels of one content of one device, each newer than the last. Clones count together.
#[derive(Clone)]
pub struct Labeller {
    device: Arc<dyn Device>,
    kind: Kind,
    uuid: Uuid,
    /// Of the label that was begun last.
    generation: Arc<AtomicU64>,
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
    /// Of a content whose latest label on the device, if there is one, has this generation.
    pub fn new(device: Arc<dyn Device>, kind: Kind, uuid: Uuid, generation: u64) -> Self {
        Self { device, kind, uuid, generation: Arc::new(AtomicU64::new(generation)) }
    }

    /// Which content it is.
    pub fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// Writes both copies, one after the other, a flush after each. One label at a time: whoever may have begun another
    /// has waited for its end. If it fails or is dropped, the label may be there or not, but no third thing is.
    ///
    /// # Errors
    /// Those of the device.
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
        let device = Arc::clone(&self.device);
        async move {
            for offset in COPIES {
                let bytes = copy::encode(&label, offset);
                let mut buffer = IoBuffer::zeroed(bytes.len());
                buffer.as_mut_slice().copy_from_slice(&bytes);
                let write = Io::write(offset, buffer, PlacementHandle::DEFAULT);
                device.submit(write).await.map_err(|failure| failure.error)?;
                // The second copy is touched only when the first one is safe.
                device.submit(Io::Flush).await.map_err(|failure| failure.error)?;
            }
            Ok(())
        }
    }

    /// Bytes that a label with so much content takes on the device, both copies.
    pub fn written_bytes(content_bytes: usize) -> u64 {
        let copy = (copy::HEADER_BYTES + content_bytes).next_multiple_of(4096);
        (COPIES.len() * copy) as u64
    }
}
