//! The exports of a server, by name.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use larder_device::{Error, ErrorKind};

use super::presence::Presences;
use super::request::Limits;
use super::wire::{STRING_BYTES_MAX, transmission};
use super::withdrawal::{Withdrawal, Withdrawn};
use crate::volume::{Volume, VolumeInfo};

/// Longest accepted read or write in bytes, whatever a volume would accept: the length that every client may assume.
pub(super) const PAYLOAD_BYTES_MAX: u32 = 32 << 20;

/// A volume that is offered under a name.
pub struct Export {
    name: String,
    description: String,
    volume: Arc<dyn Volume>,
    is_read_only: bool,
    /// The connections to it.
    pub(super) presences: Presences,
    /// Whether it was withdrawn.
    pub(super) withdrawal: Withdrawal,
}

impl Export {
    /// Exports `volume` under `name`, which may be empty.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if the name is longer than 4096 bytes, or if the block sizes of the volume are invalid.
    pub fn new(name: impl Into<String>, volume: Arc<dyn Volume>) -> Result<Self, Error> {
        let name = name.into();
        check_string("name", &name)?;
        check(volume.info()).map_err(|why| {
            Error::new(ErrorKind::Setup, format!("the volume of export {name:?}: {why}"))
        })?;
        let (description, is_read_only, presences, withdrawal) = Default::default();
        Ok(Self { name, description, volume, is_read_only, presences, withdrawal })
    }

    /// Sets a description for people who list exports.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if the description is longer than 4096 bytes.
    pub fn described(mut self, description: impl Into<String>) -> Result<Self, Error> {
        self.description = description.into();
        check_string("description", &self.description)?;
        Ok(self)
    }

    /// Makes it read-only.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.is_read_only = true;
        self
    }

    /// The name of the export.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is read-only.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    pub(super) fn description(&self) -> &str {
        &self.description
    }

    pub(super) fn volume(&self) -> &Arc<dyn Volume> {
        &self.volume
    }

    /// The limits for the requests of its clients.
    pub(super) fn limits(&self, is_structured: bool, has_contexts: bool) -> Limits {
        let VolumeInfo { size_bytes, blocks, caches, .. } = self.volume.info();
        Limits {
            size_bytes: *size_bytes,
            block_bytes: blocks.min,
            payload_bytes_max: blocks.max.min(PAYLOAD_BYTES_MAX),
            is_read_only: self.is_read_only,
            caches: *caches,
            is_structured,
            has_contexts,
        }
    }

    /// The transmission flags.
    pub(super) fn flags(&self, is_structured: bool) -> u16 {
        use transmission as flag;
        // A flush covers what has ended on any connection: all of them use the same volume.
        let mut flags = flag::HAS_FLAGS | flag::SEND_FLUSH | flag::SEND_FUA | flag::CAN_MULTI_CONN;
        if self.is_read_only {
            flags |= flag::READ_ONLY;
        } else {
            flags |= flag::SEND_TRIM | flag::SEND_WRITE_ZEROES | flag::SEND_FAST_ZERO;
        }
        if is_structured {
            flags |= flag::SEND_DF;
        }
        if self.volume.info().caches {
            flags |= flag::SEND_CACHE;
        }
        flags
    }
}

impl fmt::Debug for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Export");
        shown.field("name", &self.name).field("is_read_only", &self.is_read_only);
        shown.finish_non_exhaustive()
    }
}

/// All exports of a server. They may be added and removed while it runs. The first one is the default, for clients
/// that give no name. Clones share the same exports.
#[derive(Debug, Clone)]
pub struct Exports(Arc<RwLock<Vec<Arc<Export>>>>);

impl Exports {
    pub(crate) fn new(exports: Vec<Export>) -> Result<Self, Error> {
        if exports.is_empty() {
            let why = "exports: there is none; name at least one";
            return Err(Error::new(ErrorKind::Setup, why));
        }
        let all = Self(Arc::default());
        exports.into_iter().try_for_each(|export| all.add(export))?;
        Ok(all)
    }

    /// Adds an export after the others. Clients find it from now on.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if there is one with the same name.
    pub fn add(&self, export: Export) -> Result<(), Error> {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if all.iter().any(|other| other.name == export.name) {
            let name = &export.name;
            let why = format!("exports: {name:?} is there twice; name it otherwise");
            return Err(Error::new(ErrorKind::Setup, why));
        }
        all.push(Arc::new(export));
        Ok(())
    }

    /// Removes an export: clients no longer find it. Its connections begin no more requests, complete and answer those
    /// that they have begun, and close. If it was the first one, the next one becomes the default. `None` if there is
    /// none of this name.
    pub fn remove(&self, name: &str) -> Option<Withdrawn> {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let at = all.iter().position(|export| export.name == name)?;
        Some(all.remove(at).withdrawal.withdraw())
    }

    pub(super) fn find(&self, name: &str) -> Option<Arc<Export>> {
        let all = self.all();
        let named = all.iter().find(|export| export.name == name);
        named.or_else(|| all.first().filter(|_| name.is_empty())).cloned()
    }

    pub(super) fn all(&self) -> Vec<Arc<Export>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn check_string(field: &str, text: &str) -> Result<(), Error> {
    let why = match text.len() {
        bytes if bytes > STRING_BYTES_MAX => format!("has {bytes} bytes; it may have 4096"),
        _ if text.contains('\0') => "has a NUL in it; leave it out".to_owned(),
        _ => return Ok(()),
    };
    Err(Error::new(ErrorKind::Setup, format!("{field} of an export: {why}")))
}

/// What is wrong with the properties of a volume.
fn check(info: &VolumeInfo) -> Result<(), String> {
    let VolumeInfo { size_bytes, blocks, .. } = info;
    let min = blocks.min;
    if !min.is_power_of_two() || min > 1 << 16 {
        return Err(format!("blocks.min of {min}: must be a power of two up to 65536"));
    }
    let preferred = blocks.preferred;
    if !preferred.is_power_of_two() || preferred < min.max(512) || preferred > 32 << 20 {
        return Err(format!(
            "blocks.preferred of {preferred}: must be a power of two from {} to 33554432",
            min.max(512)
        ));
    }
    let max = blocks.max;
    if max < preferred || !max.is_multiple_of(min) {
        return Err(format!(
            "blocks.max of {max}: must be a multiple of {min} of at least {preferred}"
        ));
    }
    if !size_bytes.is_multiple_of(u64::from(min)) || i64::try_from(*size_bytes).is_err() {
        return Err(format!("size_bytes of {size_bytes}: must be a multiple of {min} below 2^63"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::{BlockSizes, DeviceVolume};
    use larder_device::MemoryDevice;
    use std::time::Duration;

    fn export(name: &str) -> Export {
        let device = MemoryDevice::holding(vec![0; 8192]);
        Export::new(name, Arc::new(DeviceVolume::new(Arc::new(device)))).unwrap()
    }

    #[test]
    fn an_empty_name_means_the_first_export() {
        let exports = Exports::new(vec![export("one"), export("two")]).unwrap();
        let found = |name: &str| exports.find(name).map(|export| export.name().to_owned());
        assert_eq!(found(""), Some("one".to_owned()));
        assert_eq!(found("two"), Some("two".to_owned()));
        assert_eq!(found("three"), None);
    }

    #[test]
    fn exports_come_and_go_and_each_name_is_there_once() {
        let exports = Exports::new(vec![export("one")]).unwrap();
        assert!(exports.add(export("one")).unwrap_err().to_string().contains("twice"));
        exports.add(export("two")).unwrap();
        assert!(exports.remove("three").is_none());
        let of_client = exports.find("one").unwrap();
        let withdrawn = exports.remove("one").unwrap();
        assert!(of_client.withdrawal.is_withdrawn() && exports.find("one").is_none());
        assert_eq!(exports.find("").map(|export| export.name().to_owned()), Some("two".to_owned()));
        assert!(!withdrawn.wait(Duration::ZERO), "a client has it");
        drop(of_client);
        assert!(withdrawn.wait(Duration::MAX));
        exports.add(export("one")).unwrap();
    }

    #[test]
    fn what_cannot_be_exported_is_named() {
        let why = |exports| Exports::new(exports).unwrap_err().to_string();
        assert!(why(vec![]).contains("at least one"));
        assert!(why(vec![export("a"), export("a")]).contains("\"a\" is there twice"));
        let long = export("a").described("x".repeat(4097)).unwrap_err().to_string();
        assert!(long.contains("description of an export: has 4097 bytes"), "{long}");
        let blocks = BlockSizes { min: 512, preferred: 4096, max: 1 << 20 };
        let info = VolumeInfo { size_bytes: 1 << 20, blocks, contexts: vec![], caches: false };
        assert_eq!(check(&info), Ok(()));
        let wrong = |change: fn(&mut VolumeInfo)| {
            let mut info = info.clone();
            change(&mut info);
            check(&info).unwrap_err()
        };
        assert!(wrong(|info| info.blocks.min = 3).contains("blocks.min of 3"));
        assert!(wrong(|info| info.blocks.preferred = 256).contains("from 512"));
        assert!(wrong(|info| info.blocks.max = 5000).contains("blocks.max of 5000"));
        assert!(wrong(|info| info.size_bytes = 1000).contains("size_bytes of 1000"));
    }
}
