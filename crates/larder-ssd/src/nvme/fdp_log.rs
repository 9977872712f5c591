//! Log pages 20h (FDP configurations), 21h (reclaim unit handle usage) and 22h (FDP statistics).
//!
//! ```text
//!  20h   0   2  number of configurations, 0's based      21h  0  2  number of handles
//!        2   1  version (0)                                   8  8n  1 usage, 7 reserved
//!        4   4  size of the log in bytes                 22h  0 16  HBMW: bytes the host wrote
//!       16   *  descriptors                                  16 16  MBMW: bytes the media took
//!  descriptor                                                32 16  MBE: bytes of media erased
//!        0   2  DSZE: its size      8   2  NRUH: handles        16   8  RUNS: bytes of a unit
//!        2   1  attributes         10   2  MAXPIDS, 0's based   24   4  ERUTL: time limit in s
//!        3   1  vendor bytes       12   4  NNSS: namespaces     64  4n  1 handle type, 3 reserved
//!        4   4  NRG: groups
//!  attributes: bits 3:0 RGIF, bit 4 volatile write cache, bit 7 valid
//! ```

#![deny(clippy::indexing_slicing)]

use zerocopy::little_endian::{U16, U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute};

/// Bytes before the first descriptor.
const CONFIGURATIONS_HEADER_BYTES: usize = 16;
/// Bytes of the statistics log.
pub const STATISTICS_BYTES: usize = size_of::<StatisticsLog>();
const _: () = assert!(STATISTICS_BYTES == 64);

/// The first half of the configurations log's header; the second half is reserved.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct ConfigurationsHeader {
    last: U16,
    version: u8,
    reserved: u8,
    bytes: U32,
}

/// A descriptor, without its handles.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Descriptor {
    bytes: U16,
    attributes: u8,
    vendor_bytes: u8,
    groups: U32,
    handles: U16,
    placement_ids_last: U16,
    namespaces_max: U32,
    unit_bytes: U64,
    unit_time_limit_s: U32,
    reserved: [u8; 36],
}
const _: () = assert!(size_of::<Descriptor>() == 64);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct DescribedHandle {
    kind: u8,
    reserved: [u8; 3],
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct UsageHeader {
    handles: U16,
    reserved: [u8; 6],
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct UsedHandle {
    usage: u8,
    reserved: [u8; 7],
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct StatisticsLog {
    host_bytes: U128,
    media_bytes: U128,
    erased_bytes: U128,
    reserved: U128,
}

/// Reclaim unit handle type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandleType {
    /// 1: garbage collection may mix the data that it moves.
    InitiallyIsolated,
    /// 2: moved data stays with data of the same handle.
    PersistentlyIsolated,
    /// Reserved or vendor specific.
    Other(u8),
}

impl HandleType {
    fn to_byte(self) -> u8 {
        match self {
            Self::InitiallyIsolated => 1,
            Self::PersistentlyIsolated => 2,
            Self::Other(byte) => byte,
        }
    }

    fn from_byte(byte: u8) -> Self {
        match byte {
            1 => Self::InitiallyIsolated,
            2 => Self::PersistentlyIsolated,
            other => Self::Other(other),
        }
    }
}

/// One possible configuration of an endurance group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    /// Bits of a placement identifier for the reclaim group, 0 to 15.
    pub rgif: u8,
    /// Whether the drive has a volatile write cache for FDP.
    pub volatile_write_cache: bool,
    /// Whether the configuration can be used.
    pub valid: bool,
    /// Reclaim groups.
    pub groups: u32,
    /// Maximum number of placement identifiers in one update.
    pub placement_ids_max: u32,
    /// Maximum number of namespaces.
    pub namespaces_max: u32,
    /// Nominal bytes of a reclaim unit.
    pub unit_bytes: u64,
    /// Seconds that a reclaim unit may stay open; 0 if not reported.
    pub unit_time_limit_s: u32,
    /// The reclaim unit handles.
    pub handles: Vec<HandleType>,
}

impl Configuration {
    fn encode(&self) -> Option<Vec<u8>> {
        let handles: Vec<DescribedHandle> = self.handles.iter().map(Self::describe).collect();
        let bytes = (size_of::<Descriptor>() + size_of_val(&*handles)).next_multiple_of(8);
        let last = self.placement_ids_max.checked_sub(1)?;
        let descriptor = Descriptor {
            bytes: u16::try_from(bytes).ok()?.into(),
            attributes: (self.rgif & 0xf)
                | u8::from(self.volatile_write_cache) << 4
                | u8::from(self.valid) << 7,
            vendor_bytes: 0,
            groups: self.groups.into(),
            handles: u16::try_from(handles.len()).ok()?.into(),
            placement_ids_last: u16::try_from(last).ok()?.into(),
            namespaces_max: self.namespaces_max.into(),
            unit_bytes: self.unit_bytes.into(),
            unit_time_limit_s: self.unit_time_limit_s.into(),
            reserved: [0; 36],
        };
        let mut described = [descriptor.as_bytes(), handles.as_bytes()].concat();
        described.resize(bytes, 0);
        Some(described)
    }

    fn describe(handle: &HandleType) -> DescribedHandle {
        DescribedHandle { kind: handle.to_byte(), reserved: [0; 3] }
    }

    /// Decodes a descriptor with the bytes after it. `None` if these are too few for its handles.
    fn decode(descriptor: &Descriptor, behind: &[u8]) -> Option<Self> {
        let count = usize::from(descriptor.handles.get());
        let (handles, _) = <[DescribedHandle]>::ref_from_prefix_with_elems(behind, count).ok()?;
        Some(Self {
            rgif: descriptor.attributes & 0xf,
            volatile_write_cache: descriptor.attributes & 1 << 4 != 0,
            valid: descriptor.attributes & 1 << 7 != 0,
            groups: descriptor.groups.get(),
            placement_ids_max: u32::from(descriptor.placement_ids_last.get()) + 1,
            namespaces_max: descriptor.namespaces_max.get(),
            unit_bytes: descriptor.unit_bytes.get(),
            unit_time_limit_s: descriptor.unit_time_limit_s.get(),
            handles: handles.iter().map(|handle| HandleType::from_byte(handle.kind)).collect(),
        })
    }
}

/// Encodes the configurations log. `None` if there is no configuration, or a count does not fit its field.
pub fn encode_configurations(configurations: &[Configuration]) -> Option<Vec<u8>> {
    let mut log = vec![0; CONFIGURATIONS_HEADER_BYTES];
    for configuration in configurations {
        log.extend(configuration.encode()?);
    }
    let header = ConfigurationsHeader {
        last: u16::try_from(configurations.len().checked_sub(1)?).ok()?.into(),
        version: 0,
        reserved: 0,
        bytes: u32::try_from(log.len()).ok()?.into(),
    };
    header.write_to_prefix(&mut log).ok()?;
    Some(log)
}

/// The length that the configurations log states in its first 8 bytes.
pub fn configurations_bytes(header: &[u8]) -> Option<u32> {
    let (header, _) = ConfigurationsHeader::ref_from_prefix(header).ok()?;
    Some(header.bytes.get())
}

/// Decodes a configurations log. `None` if a descriptor's size is too small for its content or reaches beyond the log:
/// the sizes come from the drive, so each is checked.
pub fn decode_configurations(log: &[u8]) -> Option<Vec<Configuration>> {
    let log = log.get(..usize::try_from(configurations_bytes(log)?).ok()?)?;
    let (header, _) = ConfigurationsHeader::ref_from_prefix(log).ok()?;
    let mut rest = log.get(CONFIGURATIONS_HEADER_BYTES..)?;
    let mut configurations = Vec::new();
    for _ in 0..=header.last.get() {
        let (descriptor, _) = Descriptor::ref_from_prefix(rest).ok()?;
        let (described, behind) = rest.split_at_checked(usize::from(descriptor.bytes.get()))?;
        let handles = described.get(size_of::<Descriptor>()..)?;
        configurations.push(Configuration::decode(descriptor, handles)?);
        rest = behind;
    }
    Some(configurations)
}

/// The usage of a reclaim unit handle (RUHA).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandleUsage {
    /// 0: not used.
    Unused,
    /// 1: a host listed it when it created a namespace.
    Host,
    /// 2: the controller assigned it to a namespace that was created without a list.
    Controller,
    /// Reserved.
    Other(u8),
}

/// Encodes the handle usage log. `None` if there are more handles than its field can count.
pub fn encode_usage(usage: &[HandleUsage]) -> Option<Vec<u8>> {
    let handles = u16::try_from(usage.len()).ok()?.into();
    let used = |usage: &HandleUsage| UsedHandle {
        usage: match usage {
            HandleUsage::Unused => 0,
            HandleUsage::Host => 1,
            HandleUsage::Controller => 2,
            HandleUsage::Other(byte) => *byte,
        },
        reserved: [0; 7],
    };
    let usage: Vec<UsedHandle> = usage.iter().map(used).collect();
    let header = UsageHeader { handles, reserved: [0; 6] };
    Some([header.as_bytes(), usage.as_bytes()].concat())
}

/// Decodes a handle usage log.
pub fn decode_usage(log: &[u8]) -> Option<Vec<HandleUsage>> {
    let (header, rest) = UsageHeader::ref_from_prefix(log).ok()?;
    let count = usize::from(header.handles.get());
    let (used, _) = <[UsedHandle]>::ref_from_prefix_with_elems(rest, count).ok()?;
    let usage = used.iter().map(|used| match used.usage {
        0 => HandleUsage::Unused,
        1 => HandleUsage::Host,
        2 => HandleUsage::Controller,
        other => HandleUsage::Other(other),
    });
    Some(usage.collect())
}

/// FDP statistics, in bytes since the endurance group was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// HBMW: host bytes with metadata written.
    pub host_bytes: u128,
    /// MBMW: media bytes with metadata written.
    pub media_bytes: u128,
    /// MBE: media bytes erased.
    pub erased_bytes: u128,
}

impl Statistics {
    /// Encodes the log.
    pub fn encode(&self) -> [u8; STATISTICS_BYTES] {
        transmute!(StatisticsLog {
            host_bytes: self.host_bytes.into(),
            media_bytes: self.media_bytes.into(),
            erased_bytes: self.erased_bytes.into(),
            reserved: 0.into(),
        })
    }

    /// Decodes the log.
    pub fn decode(log: &[u8]) -> Option<Self> {
        let (log, _) = StatisticsLog::ref_from_prefix(log).ok()?;
        Some(Self {
            host_bytes: log.host_bytes.get(),
            media_bytes: log.media_bytes.get(),
            erased_bytes: log.erased_bytes.get(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::golden::put;
    use super::*;
    use proptest::prelude::*;

    fn configuration() -> Configuration {
        Configuration {
            rgif: 0,
            volatile_write_cache: false,
            valid: true,
            groups: 1,
            placement_ids_max: 128,
            namespaces_max: 256,
            unit_bytes: 96 << 20,
            unit_time_limit_s: 0,
            handles: vec![HandleType::InitiallyIsolated; 4],
        }
    }

    /// One configuration, four initially isolated handles, units of 96 MiB.
    #[test]
    fn the_configurations_log_has_its_bytes_in_place() {
        let log = encode_configurations(&[configuration()]).unwrap();
        let mut expected = [0; 96];
        put(&mut expected, 4, &[0x60]);
        put(&mut expected, 16, &[0x50, 0, 0x80, 0, 1, 0, 0, 0, 4, 0, 0x7f, 0, 0, 1, 0, 0]);
        put(&mut expected, 32, &[0, 0, 0, 6]);
        put(&mut expected, 80, &[1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(log, expected);
        assert_eq!(configurations_bytes(&log), Some(96));
        assert_eq!(decode_configurations(&log), Some(vec![configuration()]));
    }

    #[test]
    fn several_configurations_come_back() {
        let other = Configuration {
            rgif: 2,
            volatile_write_cache: true,
            valid: false,
            groups: 4,
            handles: vec![HandleType::PersistentlyIsolated, HandleType::Other(0xc3)],
            ..configuration()
        };
        let all = vec![configuration(), other];
        assert_eq!(decode_configurations(&encode_configurations(&all).unwrap()), Some(all));
        assert_eq!(encode_configurations(&[]), None);
    }

    #[test]
    fn usage_and_statistics_come_back() {
        let usage = vec![HandleUsage::Host, HandleUsage::Unused, HandleUsage::Controller];
        let log = encode_usage(&usage).unwrap();
        let mut expected = [0; 8 + 3 * 8];
        put(&mut expected, 0, &[3]);
        put(&mut expected, 8, &[1]);
        put(&mut expected, 24, &[2]);
        assert_eq!(log, expected);
        assert_eq!(decode_usage(&log), Some(usage));
        let statistics =
            Statistics { host_bytes: 1 << 100, media_bytes: u128::MAX, erased_bytes: 7 };
        let mut expected = [0; STATISTICS_BYTES];
        put(&mut expected, 12, &[0x10]);
        put(&mut expected, 16, &[0xff; 16]);
        put(&mut expected, 32, &[7]);
        assert_eq!(statistics.encode(), expected);
        assert_eq!(Statistics::decode(&statistics.encode()), Some(statistics));
    }

    proptest! {
        /// A descriptor size from a hostile drive must neither lead beyond the log nor into an endless loop.
        #[test]
        fn hostile_logs_never_panic(
            mut log in prop::collection::vec(any::<u8>(), 0..400),
            at in 0..60_usize,
            byte in any::<u8>(),
        ) {
            let _ = decode_configurations(&log);
            let _ = decode_usage(&log);
            let _ = Statistics::decode(&log);
            log = encode_configurations(&[configuration(), configuration()]).unwrap();
            if let Some(target) = log.get_mut(at) {
                *target = byte;
            }
            let _ = decode_configurations(&log);
        }
    }
}
