//! The content of the front of a cache device.

use std::sync::Arc;

use larder_device::label::{self, FRONT_BYTES, Found, Kind, Uuid};
use larder_device::{Device, Io, IoBuffer};

use super::stored::StoredCache;
use crate::{Error, ErrorKind};

/// A block cache, as described by its label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheLabel {
    /// The UUID of the cache.
    pub uuid: Uuid,
    /// The generation of its latest label.
    pub generation: u64,
    /// The content of its label.
    pub stored: StoredCache,
}

pub(super) async fn found(device: &Arc<dyn Device>) -> Result<Found, Error> {
    let info = device.info();
    let bytes = FRONT_BYTES.min(info.capacity_bytes);
    let buffer = IoBuffer::zeroed(usize::try_from(bytes).expect("128 KiB at most"));
    let front = device.submit(Io::Read { offset: 0, buffer }).await;
    let front = front.map_err(|failure| Error::of_device("reading the label", &failure.error))?;
    Ok(label::find(front.as_slice()))
}

/// Looks for a block cache on a device. Writes nothing.
///
/// # Errors
/// [`ErrorKind::Format`] if there is none, or one that this version cannot read; [`ErrorKind::Device`].
pub async fn look(device: &Arc<dyn Device>) -> Result<CacheLabel, Error> {
    let found = found(device).await?;
    let (name, capacity) = (&device.info().name, device.info().capacity_bytes);
    match found {
        Found::Label(label) if label.kind == Kind::BlockCache => {
            let stored = StoredCache::parse(&label.content, capacity)
                .map_err(|error| Error::new(error.kind(), format!("{name}: {error}")))?;
            Ok(CacheLabel { uuid: label.uuid, generation: label.generation, stored })
        }
        other => {
            let what = describe(&other);
            Err(Error::new(ErrorKind::Format, format!("{name}: no block cache: it has {what}")))
        }
    }
}

/// Describes for people what was found.
pub(super) fn describe(found: &Found) -> String {
    match found {
        Found::Blank => "nothing; create a cache on it first".to_owned(),
        Found::Label(label) => match label.kind {
            Kind::BlockCache => format!("the block cache {}", label.uuid),
            Kind::Cache => format!("a cache of objects, {}", label.uuid),
            Kind::Parts => format!("parts of tenants or shards, {}", label.uuid),
            _ => format!("a content of Larder's, {}", label.uuid),
        },
        Found::Damaged => "a label of Larder's of which no copy is whole".to_owned(),
        Found::Later(version) => {
            format!("a label in version {version} of the formats, which is newer than this program")
        }
        Found::Old(_) => "what an old version of Larder has left".to_owned(),
        _ => "something that is not Larder's, perhaps a file system".to_owned(),
    }
}
