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

use super::le::{put, u8_at, u16_at, u32_at, u64_at, u128_at};

const CONFIGURATIONS_HEADER_BYTES: usize = 16;
const DESCRIPTOR_BYTES: usize = 64;
const USAGE_HEADER_BYTES: usize = 8;
/// Bytes of the statistics log.
pub const STATISTICS_BYTES: usize = 64;

/// Reclaim unit handle type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandleType {
    /// 1: garbage collection may mix what it moves.
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

/// One way in which an endurance group can be divided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    /// Bits of a placement identifier that name the reclaim group, 0 to 15.
    pub rgif: u8,
    /// Whether the drive has a volatile write cache for FDP.
    pub volatile_write_cache: bool,
    /// Whether the configuration can be used.
    pub valid: bool,
    /// Reclaim groups.
    pub groups: u32,
    /// Most placement identifiers that one update can name.
    pub placement_ids_max: u32,
    /// Largest number of namespaces.
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
        let size = (DESCRIPTOR_BYTES + 4 * self.handles.len()).next_multiple_of(8);
        let mut bytes = vec![0; size];
        let attributes = (self.rgif & 0xf)
            | u8::from(self.volatile_write_cache) << 4
            | u8::from(self.valid) << 7;
        put(&mut bytes, 0, &u16::try_from(size).ok()?.to_le_bytes());
        put(&mut bytes, 2, &[attributes]);
        put(&mut bytes, 4, &self.groups.to_le_bytes());
        put(&mut bytes, 8, &u16::try_from(self.handles.len()).ok()?.to_le_bytes());
        let ids = u16::try_from(self.placement_ids_max.checked_sub(1)?).ok()?;
        put(&mut bytes, 10, &ids.to_le_bytes());
        put(&mut bytes, 12, &self.namespaces_max.to_le_bytes());
        put(&mut bytes, 16, &self.unit_bytes.to_le_bytes());
        put(&mut bytes, 24, &self.unit_time_limit_s.to_le_bytes());
        for (number, handle) in self.handles.iter().enumerate() {
            put(&mut bytes, DESCRIPTOR_BYTES + 4 * number, &[handle.to_byte()]);
        }
        Some(bytes)
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let attributes = u8_at(bytes, 2)?;
        let count = usize::from(u16_at(bytes, 8)?);
        let handles: Option<Vec<_>> = (0..count)
            .map(|n| u8_at(bytes, DESCRIPTOR_BYTES + 4 * n).map(HandleType::from_byte))
            .collect();
        Some(Self {
            rgif: attributes & 0xf,
            volatile_write_cache: attributes & 1 << 4 != 0,
            valid: attributes & 1 << 7 != 0,
            groups: u32_at(bytes, 4)?,
            placement_ids_max: u32::from(u16_at(bytes, 10)?) + 1,
            namespaces_max: u32_at(bytes, 12)?,
            unit_bytes: u64_at(bytes, 16)?,
            unit_time_limit_s: u32_at(bytes, 24)?,
            handles: handles?,
        })
    }
}

/// The configurations log. `None` if there is no configuration, or a count does not fit its field.
pub fn encode_configurations(configurations: &[Configuration]) -> Option<Vec<u8>> {
    let mut log = vec![0; CONFIGURATIONS_HEADER_BYTES];
    for configuration in configurations {
        log.extend(configuration.encode()?);
    }
    let count = u16::try_from(configurations.len().checked_sub(1)?).ok()?;
    let size = u32::try_from(log.len()).ok()?;
    put(&mut log, 0, &count.to_le_bytes());
    put(&mut log, 4, &size.to_le_bytes());
    Some(log)
}

/// How long the configurations log says it is, from its first 8 bytes.
pub fn configurations_bytes(header: &[u8]) -> Option<u32> {
    u32_at(header, 4)
}

/// Reads a configurations log. `None` if a descriptor's size is too small for what it holds or
/// reaches beyond the log: steps follow the sizes that the drive gives, so each is checked.
pub fn decode_configurations(log: &[u8]) -> Option<Vec<Configuration>> {
    let size = usize::try_from(u32_at(log, 4)?).ok()?;
    let log = log.get(..size)?;
    let count = usize::from(u16_at(log, 0)?) + 1;
    let mut rest = log.get(CONFIGURATIONS_HEADER_BYTES..)?;
    let mut configurations = Vec::new();
    for _ in 0..count {
        let size = usize::from(u16_at(rest, 0)?);
        let needed = DESCRIPTOR_BYTES + 4 * usize::from(u16_at(rest, 8)?);
        if size < needed {
            return None;
        }
        let (descriptor, behind) = rest.split_at_checked(size)?;
        configurations.push(Configuration::decode(descriptor)?);
        rest = behind;
    }
    Some(configurations)
}

/// What a reclaim unit handle is used for (RUHA).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandleUsage {
    /// 0: not used.
    Unused,
    /// 1: a host named it when it created a namespace.
    Host,
    /// 2: the controller gave it to a namespace for which none was named.
    Controller,
    /// Reserved.
    Other(u8),
}

/// The handle usage log. `None` if there are more handles than its field can count.
pub fn encode_usage(usage: &[HandleUsage]) -> Option<Vec<u8>> {
    let mut log = vec![0; USAGE_HEADER_BYTES + 8 * usage.len()];
    put(&mut log, 0, &u16::try_from(usage.len()).ok()?.to_le_bytes());
    for (number, usage) in usage.iter().enumerate() {
        let byte = match usage {
            HandleUsage::Unused => 0,
            HandleUsage::Host => 1,
            HandleUsage::Controller => 2,
            HandleUsage::Other(byte) => *byte,
        };
        put(&mut log, USAGE_HEADER_BYTES + 8 * number, &[byte]);
    }
    Some(log)
}

/// Reads a handle usage log.
pub fn decode_usage(log: &[u8]) -> Option<Vec<HandleUsage>> {
    let count = usize::from(u16_at(log, 0)?);
    let usage = (0..count).map(|number| {
        Some(match u8_at(log, USAGE_HEADER_BYTES + 8 * number)? {
            0 => HandleUsage::Unused,
            1 => HandleUsage::Host,
            2 => HandleUsage::Controller,
            other => HandleUsage::Other(other),
        })
    });
    usage.collect()
}

/// FDP statistics, in bytes since the endurance group was made.
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
    /// The log.
    pub fn encode(&self) -> [u8; STATISTICS_BYTES] {
        let mut log = [0; STATISTICS_BYTES];
        put(&mut log, 0, &self.host_bytes.to_le_bytes());
        put(&mut log, 16, &self.media_bytes.to_le_bytes());
        put(&mut log, 32, &self.erased_bytes.to_le_bytes());
        log
    }

    /// Reads the log.
    pub fn decode(log: &[u8]) -> Option<Self> {
        Some(Self {
            host_bytes: u128_at(log, 0)?,
            media_bytes: u128_at(log, 16)?,
            erased_bytes: u128_at(log, 32)?,
        })
    }
}

#[cfg(test)]
mod tests {
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
        /// A descriptor size of a hostile drive leads neither beyond the log nor round in circles.
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
