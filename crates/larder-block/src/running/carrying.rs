//! Carries out the I/Os that the cache has decided on.

use std::sync::Arc;

use larder_device::{Durability, Io, IoBuffer, steps};

use super::{Front, Handles, SharedCache};
use crate::fingerprint::{Change, ChangeKind};
use crate::layout::{Data, DeviceIo, IoId, Outcome, PlacementClass, RequestId, Target};

/// Where the data of an I/O goes.
enum DataDestination {
    /// To the buffer of a client: all of it (`is_whole`), or the bytes from `at` on.
    User { request: RequestId, at: usize, is_whole: bool },
    /// To the layout.
    Layout,
    /// The I/O reads nothing.
    Nothing,
}

impl SharedCache {
    pub(super) fn carry_out(self: &Arc<Self>, id: IoId, io: DeviceIo) {
        let Some(Front { device, handles }) = self.device_of(io.target()) else {
            return self.completed(id, Outcome::Failed);
        };
        let change = self.change_by(&io);
        let (io, into) = self.prepare(io, handles);
        let shared = Arc::clone(self);
        // The I/O runs to its end even though the future is dropped.
        drop(steps::request(async move {
            if let Some(change) = &change {
                change.voided().await;
            }
            let result = device.submit(io).await;
            drop(change);
            let is_well = result.is_ok();
            let buffer = result.unwrap_or_else(|failure| failure.buffer);
            let outcome = shared.outcome(buffer, is_well, &into);
            shared.completed(id, outcome);
            Ok(IoBuffer::empty())
        }));
    }

    /// Registers the I/O as a change if its target is a core with a fingerprint.
    fn change_by(&self, io: &DeviceIo) -> Option<Change> {
        let Target::Core(core) = io.target() else { return None };
        let (bytes, kind) = match io {
            DeviceIo::Write { offset, parts, class, .. } => {
                let bytes = parts.iter().map(|part| part.len() as u64).sum::<u64>();
                let kind = if *class == PlacementClass::Dirty {
                    ChangeKind::Destage
                } else {
                    ChangeKind::Write
                };
                (*offset..offset + bytes, kind)
            }
            DeviceIo::Deallocate { offset, bytes, .. } => {
                (*offset..offset + bytes, ChangeKind::Trim)
            }
            DeviceIo::Read { .. } | DeviceIo::Flush { .. } => return None,
        };
        Some(self.cores.get(core)?.watch?.begin(bytes, kind))
    }

    /// The device of a target. All writes to a core use the default placement handle.
    fn device_of(&self, target: Target) -> Option<Front> {
        match target {
            Target::Cache => self.front(),
            Target::Core(core) => {
                let device = self.cores.get(core)?.device;
                Some(Front { device, handles: Handles::default() })
            }
        }
    }

    fn prepare(&self, io: DeviceIo, handles: Handles) -> (Io, DataDestination) {
        match io {
            DeviceIo::Read { target, offset, bytes, reader: Some((request, at)) } => {
                let whole = self.begin_read(target, request, (at, bytes));
                let is_whole = whole.is_some();
                let buffer = whole.unwrap_or_else(|| self.pool.take(bytes));
                (Io::Read { offset, buffer }, DataDestination::User { request, at, is_whole })
            }
            DeviceIo::Read { offset, bytes, reader: None, .. } => {
                (Io::Read { offset, buffer: self.pool.take(bytes) }, DataDestination::Layout)
            }
            DeviceIo::Write { offset, parts, beside, class, durable, .. } => {
                let mut buffer = self.pool.take(parts.iter().map(Data::len).sum());
                let mut at = 0;
                for part in &parts {
                    buffer.copy_in(at, part.bytes());
                    at += part.len();
                }
                if let Some(beside) = beside {
                    let mut metadata = self.pool.take(beside.len());
                    metadata.copy_in(0, beside.bytes());
                    buffer = buffer.with_metadata(metadata);
                }
                let handle = handles.of(class);
                let durability = if durable { Durability::Power } else { Durability::Device };
                (Io::Write { offset, buffer, handle, durability }, DataDestination::Nothing)
            }
            DeviceIo::Flush { .. } => (Io::Flush, DataDestination::Nothing),
            DeviceIo::Deallocate { offset, bytes, .. } => {
                (Io::Deallocate { offset, bytes }, DataDestination::Nothing)
            }
        }
    }

    /// Notes that the read needs `target`. Returns the buffer of the client if this I/O fills all of it; otherwise the
    /// caller takes one from the pool.
    fn begin_read(
        &self,
        target: Target,
        RequestId(request): RequestId,
        (at, bytes): (usize, usize),
    ) -> Option<IoBuffer> {
        let mut state = self.lock();
        let user = &mut state.users[usize::try_from(request).expect("a key")];
        user.needs_core |= target != Target::Cache;
        let fits = |buffer: &mut IoBuffer| at == 0 && buffer.len() == bytes;
        user.buffer.take_if(fits)
    }

    fn outcome(&self, buffer: IoBuffer, is_well: bool, into: &DataDestination) -> Outcome {
        if let DataDestination::User { request: RequestId(request), at, is_whole } = into {
            let mut state = self.lock();
            let user = &mut state.users[usize::try_from(*request).expect("a key")];
            if *is_whole {
                user.buffer = Some(buffer);
            } else if let (true, Some(into)) = (is_well, &mut user.buffer) {
                into.copy_buffer_in(*at, &buffer);
            }
            return if is_well { Outcome::Done } else { Outcome::Failed };
        }
        match into {
            _ if !is_well => Outcome::Failed,
            DataDestination::Layout => Outcome::Read(Data::new(buffer)),
            _ => Outcome::Done,
        }
    }
}
