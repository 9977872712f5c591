//! The content of the label of a block cache. Little-endian.
//!
//! ```text
//!  offset  bytes  field
//!       0      1  state: 1 it was stopped; + 2 nothing on the device must be believed
//!       1      1  mode: 0 write-through, 1 write-back, 2 write-around, 3 write-invalidate, 4 write-only,
//!                 5 pass-through
//!       2      2  n: number of cores, at least 1
//!       4      4  bytes of the layout's part
//!       8      4  bytes of the calibration; 0: there is none
//!      12      2  the lowest number that a core may have that is added; 0: none was taken away
//!      14      2  p: places for fingerprints of cores; they lie behind the label, 8192 bytes each
//!      16      2  m: number of cores of which something was dirty when it was stopped in order; 0 before that
//!      18      6  reserved, 0
//!      24         n cores
//!                 m times what was dirty of a core
//!                 the layout's part: its superblock
//!                 the calibration ([`Profile`])
//!
//!  core
//!       0      2  number, below 4096; they ascend
//!       2      2  bytes of its name
//!       4      2  place of its fingerprint, below p; 65535: it has none
//!       6      2  reserved, 0
//!       8      8  bytes of the core
//!      16         its name, UTF-8
//!
//!  what was dirty of a core
//!       0      2  its number; they ascend
//!       2      6  reserved, 0
//!       8      8  sectors
//! ```
//!
//! The label also has the version, the checksum and the UUID ([`larder_device::label`]).

#![deny(clippy::indexing_slicing)]

use larder_device::label::{AREA_BYTES, CONTENT_BYTES_MAX};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::cache::Mode;
use crate::calibration::Profile;
use crate::fingerprint;
use crate::layout::log::LogSuperblock;
use crate::layout::ocf::OcfSuperblock;
use crate::layout::{CORES_MAX, CoreId, ShutdownState};
use crate::{Error, ErrorKind};

const STOPPED: u8 = 1;
const DISTRUSTED: u8 = 2;
const NO_PLACE: u16 = u16::MAX;
const MODES: [Mode; 6] = [
    Mode::WriteThrough,
    Mode::WriteBack,
    Mode::WriteAround,
    Mode::WriteInvalidate,
    Mode::WriteOnly,
    Mode::PassThrough,
];

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Fixed {
    state: u8,
    mode: u8,
    cores: U16,
    layout_bytes: U32,
    profile_bytes: U32,
    next_core: U16,
    places: U16,
    dirty_cores: U16,
    reserved: [u8; 6],
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct FixedCore {
    number: U16,
    name_bytes: U16,
    place: U16,
    reserved: U16,
    bytes: U64,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct FixedDirty {
    number: U16,
    reserved: [u8; 6],
    sectors: U64,
}

const _: () = assert!(size_of::<FixedDirty>() == 16);
const _: () = assert!(size_of::<Fixed>() == 24 && size_of::<FixedCore>() == 16);

/// A core in the label of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredCore {
    /// The number of the core.
    pub id: CoreId,
    /// Its name, usually its path.
    pub name: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// The index of its fingerprint's place; `None` if there was no room.
    pub place: Option<u16>,
}

/// The layout that was chosen when the cache was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredLayout {
    /// A log of segments.
    Log(LogSuperblock),
    /// Lines, as in Open CAS.
    Ocf(OcfSuperblock),
}

impl StoredLayout {
    /// Block size of the device for which it was made.
    pub(super) fn block_bytes(&self) -> u32 {
        match self {
            Self::Log(superblock) => superblock.geometry.block_bytes,
            Self::Ocf(superblock) => superblock.geometry.block_bytes,
        }
    }

    /// Offset of the layout on the device.
    fn offset(&self) -> u64 {
        match self {
            Self::Log(superblock) => superblock.geometry.offset,
            Self::Ocf(superblock) => superblock.geometry.offset,
        }
    }

    /// Bytes of a line.
    pub(super) fn line_bytes(&self) -> u32 {
        match self {
            Self::Log(superblock) => superblock.geometry.line_bytes,
            Self::Ocf(superblock) => superblock.geometry.line_bytes,
        }
    }

    /// Bytes of metadata per block that hold its records; 0: the records are stored between the data.
    pub fn metadata_bytes(&self) -> u16 {
        match self {
            Self::Log(superblock) => superblock.geometry.metadata_bytes,
            Self::Ocf(_) => 0,
        }
    }

    /// Whether it was not used since its format.
    pub(super) fn is_blank(&self) -> bool {
        match self {
            Self::Log(log) => *log == LogSuperblock::blank(log.geometry),
            Self::Ocf(lines) => *lines == OcfSuperblock::blank(lines.geometry),
        }
    }

    /// Whether an orderly stop recorded the state of the layout.
    pub(super) fn is_left(&self) -> bool {
        match self {
            Self::Log(superblock) => superblock.left.is_some(),
            Self::Ocf(superblock) => superblock.is_left,
        }
    }

    /// Sets the state in which an orderly stop has left it, or that it was not left so (`None`).
    pub(super) fn set_left(&mut self, left: Option<ShutdownState>) {
        match self {
            Self::Log(superblock) => superblock.left = left,
            Self::Ocf(superblock) => {
                superblock.is_left = left.is_some();
                superblock.told_up_to = left.map_or(superblock.told_up_to, |left| left.last);
            }
        }
    }

    /// Resets it to the formatted state: nothing was written under its new UUID.
    pub(super) fn forget(&mut self) {
        match self {
            Self::Log(log) => {
                let epoch = log.epoch;
                *log = LogSuperblock { epoch, ..LogSuperblock::blank(log.geometry) };
            }
            Self::Ocf(lines) => *lines = OcfSuperblock::blank(lines.geometry),
        }
    }

    fn encode(&self) -> Vec<u8> {
        match self {
            Self::Log(superblock) => superblock.encode(),
            Self::Ocf(superblock) => superblock.encode(),
        }
    }

    fn parse(content: &[u8], capacity_bytes: u64) -> Result<Self, Error> {
        if content.starts_with(b"OC") {
            return OcfSuperblock::parse(content, capacity_bytes).map(Self::Ocf);
        }
        LogSuperblock::parse(content, capacity_bytes).map(Self::Log)
    }
}

/// Bytes of the label and the fingerprints, in front of the layout, of a cache made with `cores` cores.
pub fn front_bytes(cores: usize) -> u64 {
    data_offset(fingerprint::places_for(cores))
}

/// Where the layout begins in a cache with `places` places for fingerprints.
pub(super) fn data_offset(places: u16) -> u64 {
    AREA_BYTES + fingerprint::area_bytes(places)
}

/// The content of the label of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredCache {
    /// Whether the cache was stopped in order and has not been started since.
    pub was_stopped: bool,
    /// If its layout was left in order too: the dirty sectors of each core that had any. A start clears this before it
    /// writes anything else.
    pub left: Option<Vec<(CoreId, u64)>>,
    /// Whether cores were written past the cache, when it had no dirty data: then its content is void.
    pub is_distrusted: bool,
    /// Its last mode.
    pub mode: Mode,
    /// The cores, ordered by number.
    pub cores: Vec<StoredCore>,
    /// Cached data of an unlisted core with a lower number than this belongs to a removed core.
    pub next_core: u16,
    /// Number of places for fingerprints.
    pub places: u16,
    /// The layout of its data.
    pub layout: StoredLayout,
    /// The measured performance of its devices, if there is any.
    pub profile: Option<Profile>,
}

impl StoredCache {
    /// Clears what an orderly stop has recorded.
    pub(super) fn is_started(&mut self) {
        (self.was_stopped, self.left) = (false, None);
        self.layout.set_left(None);
    }

    /// A free place for the fingerprint of a new core.
    pub(super) fn free_place(&self) -> Option<u16> {
        (0..self.places).find(|place| self.cores.iter().all(|core| core.place != Some(*place)))
    }

    /// Encodes the content of a label.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if the label has no room for the cores.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        let layout = self.layout.encode();
        let profile = self.profile.as_ref().map(Profile::encode).unwrap_or_default();
        let left = self.left.as_deref().unwrap_or_default();
        let flag = |is: bool, bit: u8| if is { bit } else { 0 };
        let mode = MODES.iter().position(|mode| *mode == self.mode).unwrap_or_default();
        let fixed = Fixed {
            state: flag(self.was_stopped, STOPPED) | flag(self.is_distrusted, DISTRUSTED),
            mode: u8::try_from(mode).unwrap_or_default(),
            cores: u16::try_from(self.cores.len()).unwrap_or(u16::MAX).into(),
            layout_bytes: u32::try_from(layout.len()).unwrap_or(u32::MAX).into(),
            profile_bytes: u32::try_from(profile.len()).unwrap_or(u32::MAX).into(),
            next_core: self.next_core.into(),
            places: self.places.into(),
            dirty_cores: u16::try_from(left.len()).unwrap_or(u16::MAX).into(),
            reserved: [0; 6],
        };
        let mut content = fixed.as_bytes().to_vec();
        for StoredCore { id, name, bytes, place } in &self.cores {
            let core = FixedCore {
                number: id.get().into(),
                name_bytes: u16::try_from(name.len()).unwrap_or(u16::MAX).into(),
                place: place.unwrap_or(NO_PLACE).into(),
                reserved: 0.into(),
                bytes: (*bytes).into(),
            };
            content.extend_from_slice(core.as_bytes());
            content.extend_from_slice(name.as_bytes());
        }
        for (core, sectors) in left {
            let number = core.get().into();
            let dirty = FixedDirty { number, reserved: [0; 6], sectors: (*sectors).into() };
            content.extend_from_slice(dirty.as_bytes());
        }
        content.extend_from_slice(&layout);
        content.extend_from_slice(&profile);
        if content.len() > CONTENT_BYTES_MAX {
            let message = format!(
                "{} cores with their names and calibration take {} bytes and the label has room for \
                 {CONTENT_BYTES_MAX}: give them shorter names",
                self.cores.len(),
                content.len()
            );
            return Err(Error::new(ErrorKind::Setup, message));
        }
        Ok(content)
    }

    /// Parses the content of the label of a device of `capacity_bytes`.
    ///
    /// # Errors
    /// [`ErrorKind::Format`], naming the field, if the content is invalid.
    pub fn parse(content: &[u8], capacity_bytes: u64) -> Result<Self, Error> {
        let (fixed, rest) = Fixed::ref_from_prefix(content).map_err(|_| cut())?;
        if fixed.reserved != [0; 6] {
            return Err(wrong("its reserved bytes are not 0".to_owned()));
        }
        if fixed.state & !(STOPPED | DISTRUSTED) != 0 {
            return Err(wrong(format!("state {:#x}: unknown bits", fixed.state)));
        }
        let next_core = fixed.next_core.get();
        if next_core > CORES_MAX {
            return Err(wrong(format!("next core {next_core}: too high")));
        }
        let mode = MODES.get(usize::from(fixed.mode)).copied();
        let mode = mode.ok_or_else(|| wrong(format!("mode {}: unknown", fixed.mode)))?;
        let (cores, rest) = parse_cores(fixed, rest)?;
        let (left, rest) = parse_left(fixed, rest)?;
        let parts = [fixed.layout_bytes, fixed.profile_bytes].map(|bytes| bytes.get() as usize);
        let [layout, profile] = parts;
        let split = rest.split_at_checked(layout).filter(|(_, behind)| behind.len() == profile);
        let Some((layout, profile)) = split.filter(|_| !cores.is_empty()) else {
            return Err(wrong(format!(
                "{} cores, and {} bytes for a layout of {layout} and a calibration of {profile}",
                cores.len(),
                rest.len()
            )));
        };
        let profile = (!profile.is_empty()).then(|| Profile::parse(profile)).transpose()?;
        let places = fixed.places.get();
        let layout = StoredLayout::parse(layout, capacity_bytes)?;
        if layout.offset() < data_offset(places) {
            return Err(wrong(format!("{places} places for fingerprints reach into the layout")));
        }
        let was_stopped = fixed.state & STOPPED != 0;
        let is_left = was_stopped && layout.is_left();
        if !is_left && !left.is_empty() {
            return Err(wrong("something was dirty at a stop that there was not".to_owned()));
        }
        Ok(Self {
            was_stopped,
            left: is_left.then_some(left),
            is_distrusted: fixed.state & DISTRUSTED != 0,
            mode,
            cores,
            next_core,
            places,
            layout,
            profile,
        })
    }
}

fn wrong(what: String) -> Error {
    Error::new(ErrorKind::Format, format!("label of a block cache: {what}"))
}

fn cut() -> Error {
    wrong("it ends too early".to_owned())
}

/// Parses the cores of a label. Returns them and the remaining bytes.
fn parse_cores<'a>(
    fixed: &Fixed,
    mut rest: &'a [u8],
) -> Result<(Vec<StoredCore>, &'a [u8]), Error> {
    let mut cores: Vec<StoredCore> = Vec::new();
    for _ in 0..fixed.cores.get() {
        let (core, behind) = FixedCore::ref_from_prefix(rest).map_err(|_| cut())?;
        let named = behind.split_at_checked(usize::from(core.name_bytes.get()));
        let (name, behind) = named.ok_or_else(cut)?;
        let name = std::str::from_utf8(name)
            .map_err(|_| wrong("the name of a core is no UTF-8".to_owned()))?;
        let number = core.number.get();
        if core.reserved.get() != 0 {
            return Err(wrong(format!("core {number}: its reserved bytes are not 0")));
        }
        let id = CoreId::new(number).filter(|id| cores.last().is_none_or(|last| last.id < *id));
        let id = id.ok_or_else(|| wrong(format!("core number {number}: too high, or twice")))?;
        let place = Some(core.place.get()).filter(|place| *place != NO_PLACE);
        let is_taken = cores.iter().any(|other| place.is_some() && other.place == place);
        if is_taken || place.is_some_and(|place| place >= fixed.places.get()) {
            return Err(wrong(format!("core {number}: its fingerprint has no place of its own")));
        }
        let bytes = core.bytes.get();
        cores.push(StoredCore { id, name: name.to_owned(), bytes, place });
        rest = behind;
    }
    Ok((cores, rest))
}

/// Dirty sectors of each core at a stop.
type DirtyCores = Vec<(CoreId, u64)>;

/// Parses them from a label. Returns them and the remaining bytes.
fn parse_left<'a>(fixed: &Fixed, mut rest: &'a [u8]) -> Result<(DirtyCores, &'a [u8]), Error> {
    let mut left = DirtyCores::new();
    for _ in 0..fixed.dirty_cores.get() {
        let (dirty, behind) = FixedDirty::ref_from_prefix(rest).map_err(|_| cut())?;
        let id = CoreId::new(dirty.number.get());
        let id = id.filter(|id| left.last().is_none_or(|(last, _)| last < id));
        let id = id.filter(|_| dirty.reserved == [0; 6]);
        let id = id.ok_or_else(|| wrong("what is dirty of cores cannot be so".to_owned()))?;
        left.push((id, dirty.sectors.get()));
        rest = behind;
    }
    Ok((left, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibration::{CoreProfile, DeviceProfile, Point};
    use crate::layout::log::Geometry;
    use crate::policy::Direction;
    use std::time::Duration;

    const CAPACITY: u64 = 17 << 20;

    fn stored() -> StoredCache {
        let geometry = Geometry {
            offset: 98304,
            segments: 16,
            segment_bytes: 1 << 20,
            block_bytes: 512,
            line_bytes: 4096,
            metadata_bytes: 0,
        };
        let core = |number: u16, name: &str| StoredCore {
            id: CoreId::new(number).unwrap(),
            name: name.to_owned(),
            bytes: 1 << 40,
            place: (number > 0).then_some(number),
        };
        StoredCache {
            was_stopped: true,
            left: None,
            is_distrusted: false,
            mode: Mode::WriteOnly,
            cores: vec![core(0, "/dev/sda"), core(7, "")],
            next_core: 7,
            places: 8,
            layout: StoredLayout::Log(LogSuperblock {
                epoch: 3,
                clean_up_to: 1,
                ..LogSuperblock::blank(geometry)
            }),
            profile: None,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for (number, mode) in MODES.into_iter().enumerate() {
            let (was_stopped, is_distrusted) = (number % 2 == 0, number % 3 == 0);
            let profile = (number % 2 == 1).then(profile);
            let written = StoredCache { mode, was_stopped, is_distrusted, profile, ..stored() };
            assert_eq!(StoredCache::parse(&written.encode().unwrap(), CAPACITY), Ok(written));
        }
        let mut left = stored();
        left.layout.set_left(Some(ShutdownState { last: 8, lowest: 2, checksum: 9 }));
        let core = |number| CoreId::new(number).unwrap();
        for dirty in [vec![], vec![(core(0), 3), (core(7), 1 << 40)]] {
            left.left = Some(dirty);
            assert_eq!(StoredCache::parse(&left.encode().unwrap(), CAPACITY).as_ref(), Ok(&left));
        }
        assert_eq!(MODES.len(), Mode::all().len());
    }

    fn profile() -> Profile {
        let point = |direction, depth| Point {
            direction,
            bytes: 4096,
            depth,
            bytes_per_second: 1 << 33,
            latency: Duration::from_micros(77),
        };
        let points = vec![point(Direction::Read, 1), point(Direction::Read, 32)];
        let cache =
            DeviceProfile { points: [points.clone(), vec![point(Direction::Write, 1)]].concat() };
        let core = |number: u16| CoreProfile {
            core: CoreId::new(number).unwrap(),
            device: DeviceProfile { points: points.clone() },
        };
        Profile { cache, cores: vec![core(0), core(7)] }
    }

    #[test]
    fn no_cut_passes_and_no_byte_panics() {
        let content = StoredCache { profile: Some(profile()), ..stored() }.encode().unwrap();
        for length in 0..content.len() {
            assert!(StoredCache::parse(content.get(..length).unwrap(), CAPACITY).is_err());
        }
        for at in 0..content.len() {
            for byte in [0, 1, 0x7f, 0xff] {
                let mut changed = content.clone();
                changed.splice(at..=at, [byte]);
                let _ = StoredCache::parse(&changed, CAPACITY);
            }
        }
    }

    #[test]
    fn names_beyond_the_label_are_refused() {
        let mut stored = stored();
        stored.cores.first_mut().unwrap().name = "x".repeat(CONTENT_BYTES_MAX);
        assert!(stored.encode().unwrap_err().to_string().contains("shorter names"));
    }
}
