//! Namespaces: their creation with a list of reclaim unit handles, and what Identify says of them
//! and of the controller.

#![deny(clippy::indexing_slicing)]

use super::le::{put, u8_at, u16_at, u64_at};

/// Bytes of every structure here.
pub const PAGE_BYTES: usize = 4096;
/// Most placement handles of one namespace.
pub const PLACEMENT_HANDLES_MAX: usize = 128;

const CTRATT_AT: usize = 96;
const ENDGIDMAX_AT: usize = 340;
/// CTRATT: endurance groups (bit 4) and Flexible Data Placement (bit 19).
const CTRATT_FDP: u32 = 1 << 19 | 1 << 4;

const ENDURANCE_GROUP_AT: usize = 102;
const HANDLE_COUNT_AT: usize = 392;
const HANDLES_AT: usize = 512;
const FLBAS_AT: usize = 26;
const LBA_FORMATS_AT: usize = 128;

/// Which structure Identify returns.
pub mod cns {
    /// The namespace.
    pub const NAMESPACE: u8 = 0x00;
    /// The controller.
    pub const CONTROLLER: u8 = 0x01;
}

/// What a host asks for when it creates a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceRequest {
    /// Logical blocks.
    pub blocks: u64,
    /// Endurance group.
    pub endurance_group: u16,
    /// The reclaim unit handle behind each placement handle; if empty, the controller chooses one.
    pub handles: Vec<u16>,
}

impl NamespaceRequest {
    /// The data of the command. `None` for more handles than it has room for.
    pub fn encode(&self) -> Option<Vec<u8>> {
        if self.handles.len() > PLACEMENT_HANDLES_MAX {
            return None;
        }
        let mut data = vec![0; PAGE_BYTES];
        put(&mut data, 0, &self.blocks.to_le_bytes());
        put(&mut data, 8, &self.blocks.to_le_bytes());
        put(&mut data, ENDURANCE_GROUP_AT, &self.endurance_group.to_le_bytes());
        let count = u16::try_from(self.handles.len()).ok()?;
        put(&mut data, HANDLE_COUNT_AT, &count.to_le_bytes());
        for (number, handle) in self.handles.iter().enumerate() {
            put(&mut data, HANDLES_AT + 2 * number, &handle.to_le_bytes());
        }
        Some(data)
    }

    /// Reads the data of the command. `None` if it is too short, announces too many handles, or
    /// asks for a capacity other than its size (thin provisioning).
    pub fn decode(data: &[u8]) -> Option<Self> {
        let data = data.get(..PAGE_BYTES)?;
        let count = usize::from(u16_at(data, HANDLE_COUNT_AT)?);
        if count > PLACEMENT_HANDLES_MAX || u64_at(data, 0)? != u64_at(data, 8)? {
            return None;
        }
        let handles: Option<Vec<_>> =
            (0..count).map(|number| u16_at(data, HANDLES_AT + 2 * number)).collect();
        Some(Self {
            blocks: u64_at(data, 0)?,
            endurance_group: u16_at(data, ENDURANCE_GROUP_AT)?,
            handles: handles?,
        })
    }
}

/// What Identify says of a controller with FDP: its attributes and its highest endurance group.
pub fn encode_controller() -> Vec<u8> {
    let mut data = vec![0; PAGE_BYTES];
    put(&mut data, CTRATT_AT, &CTRATT_FDP.to_le_bytes());
    put(&mut data, ENDGIDMAX_AT, &1_u16.to_le_bytes());
    data
}

/// Whether a controller supports Flexible Data Placement.
pub fn supports_fdp(controller: &[u8]) -> Option<bool> {
    super::le::u32_at(controller, CTRATT_AT).map(|attributes| attributes & 1 << 19 != 0)
}

/// What Identify says of a namespace: its size, its one LBA format, its endurance group.
pub fn encode_namespace(blocks: u64, block_bytes: u32, endurance_group: u16) -> Vec<u8> {
    let mut data = vec![0; PAGE_BYTES];
    for at in [0, 8, 16] {
        put(&mut data, at, &blocks.to_le_bytes());
    }
    put(&mut data, ENDURANCE_GROUP_AT, &endurance_group.to_le_bytes());
    let data_size = u8::try_from(block_bytes.ilog2()).unwrap_or(0);
    put(&mut data, LBA_FORMATS_AT + 2, &[data_size]);
    data
}

/// Logical blocks, bytes of a block, and endurance group of a namespace, from what Identify says of
/// it.
pub fn decode_namespace(data: &[u8]) -> Option<(u64, u32, u16)> {
    let format = usize::from(u8_at(data, FLBAS_AT)? & 0xf);
    let data_size = u32::from(u8_at(data, LBA_FORMATS_AT + 4 * format + 2)?);
    let block_bytes = 1_u32.checked_shl(data_size).filter(|bytes| *bytes >= 512)?;
    Some((u64_at(data, 0)?, block_bytes, u16_at(data, ENDURANCE_GROUP_AT)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn requests_come_back() {
        let request =
            NamespaceRequest { blocks: 1 << 33, endurance_group: 1, handles: vec![0, 3, 7] };
        let data = request.encode().unwrap();
        assert_eq!(data.get(392..394).unwrap(), [3, 0]);
        assert_eq!(data.get(512..518).unwrap(), [0, 0, 3, 0, 7, 0]);
        assert_eq!(NamespaceRequest::decode(&data), Some(request.clone()));
        let many = NamespaceRequest { handles: vec![0; 129], ..request };
        assert_eq!(many.encode(), None);
    }

    #[test]
    fn identify_says_fdp_and_the_format() {
        let controller = encode_controller();
        assert_eq!(controller.get(96..100).unwrap(), 0x80010_u32.to_le_bytes());
        assert_eq!(supports_fdp(&controller), Some(true));
        let namespace = encode_namespace(1000, 4096, 1);
        assert_eq!(decode_namespace(&namespace), Some((1000, 4096, 1)));
        assert_eq!(decode_namespace(&vec![0; 4096]), None, "blocks of one byte");
    }

    proptest! {
        #[test]
        fn hostile_data_never_panics(data in prop::collection::vec(any::<u8>(), 0..600)) {
            let _ = NamespaceRequest::decode(&data);
            let _ = decode_namespace(&data);
            let _ = supports_fdp(&data);
        }
    }
}
