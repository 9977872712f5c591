//! Namespaces: their creation with a list of reclaim unit handles, and the Identify structures of namespaces and of the
//! controller.
//!
//! ```text
//!  created with    0  8  NSZE: logical blocks      102  2  ENDGID: endurance group
//!                  8  8  NCAP: the same            392  2  NPHNDLS: placement handles
//!                 26  1  FLBAS: LBA format         512  *  2 each: reclaim unit handle
//!  Identify ns.   24  1  NSFEAT: bit 4 says that 64 to 73 are valid
//!                 25  1  NLBAF: LBA formats, 0's based
//!                 26  1  FLBAS: the one in use     64  10  NPWG, NPWA, NPDG, NPDA, NOWS: preferred
//!                 33  1  DLFEAT: 1: zeros are           2 bytes each, in logical blocks, 0's based
//!                        read where deallocated   128   4  LBA formats: log2 of the size in byte 2
//!  Identify ctrl  78  2  CNTLID     96  4  CTRATT    256  2  OACS    280 16  TNVMCAP
//!                296 16  UNVMCAP   340  2  ENDGIDMAX    520  2  ONCS
//! ```

#![deny(clippy::indexing_slicing)]

use zerocopy::little_endian::{U16, U32, U64, U128};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::status::Status;
use crate::managed;

/// Bytes of every structure here.
pub const PAGE_BYTES: usize = 4096;
/// Maximum number of placement handles of one namespace.
pub const PLACEMENT_HANDLES_MAX: usize = 128;

/// CTRATT: endurance groups (bit 4) and Flexible Data Placement (bit 19).
const CTRATT_FDP: u32 = 1 << 19 | 1 << 4;
/// OACS: namespace management (bit 3) and directives (bit 5).
const OACS_PLACEMENT: u16 = 1 << 5 | 1 << 3;
/// ONCS: dataset management (bit 2).
const ONCS_DATASET_MANAGEMENT: u16 = 1 << 2;
const ONCS_WRITE_ZEROES: u16 = 1 << 3;
/// NSFEAT: preferred sizes are reported.
const OPTPERF: u8 = 1 << 4;

/// The data of a namespace creation.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Creation {
    blocks: U64,
    capacity_blocks: U64,
    reserved: [u8; 10],
    flbas: u8,
    reserved_26: [u8; 75],
    endurance_group: U16,
    reserved_104: [u8; 288],
    handle_count: U16,
    reserved_394: [u8; 118],
    handles: [U16; PLACEMENT_HANDLES_MAX],
    reserved_768: [u8; 3328],
}
const _: () = assert!(size_of::<Creation>() == PAGE_BYTES);

/// The Identify structure of a namespace.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct IdentifiedNamespace {
    blocks: U64,
    capacity_blocks: U64,
    used_blocks: U64,
    nsfeat: u8,
    formats_last: u8,
    flbas: u8,
    reserved_27: [u8; 2],
    dps: u8,
    reserved_30: [u8; 3],
    dlfeat: u8,
    reserved_34: [u8; 30],
    preferred: [U16; 5],
    reserved_74: [u8; 28],
    endurance_group: U16,
    reserved_104: [u8; 24],
    formats: [DescribedFormat; 64],
    reserved_384: [u8; 3712],
}
const _: () = assert!(size_of::<IdentifiedNamespace>() == PAGE_BYTES);

/// An LBA format.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct DescribedFormat {
    metadata_bytes: U16,
    data_size: u8,
    relative_performance: u8,
}

/// The Identify structure of a controller.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct IdentifiedController {
    reserved: [u8; 78],
    controller: U16,
    reserved_80: [u8; 16],
    attributes: U32,
    reserved_100: [u8; 156],
    admin_commands: U16,
    reserved_258: [u8; 38],
    unallocated_bytes: U128,
    reserved_312: [u8; 28],
    endurance_groups_max: U16,
    reserved_342: [u8; 170],
    queue_entry_sizes: [u8; 2],
    reserved_514: U16,
    namespaces_max: U32,
    io_commands: U16,
    reserved_522: [u8; 3574],
}
const _: () = assert!(size_of::<IdentifiedController>() == PAGE_BYTES);

/// Structures that Identify can return.
pub mod cns {
    /// The namespace.
    pub const NAMESPACE: u8 = 0x00;
    /// The controller.
    pub const CONTROLLER: u8 = 0x01;
    /// Namespaces that are attached to the controller.
    pub const ACTIVE_NAMESPACES: u8 = 0x02;
    /// All namespaces of the drive.
    pub const ALLOCATED_NAMESPACES: u8 = 0x10;
    /// A namespace, attached or not.
    pub const ALLOCATED_NAMESPACE: u8 = 0x11;
}

/// The LBA formats of the model, in the order in which Identify lists them. The firmware maps pages of 4096 bytes: a
/// smaller write is a read-modify-write of the whole page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LbaFormat {
    /// Format 0: logical blocks of 4096 bytes, each a mapped page.
    #[default]
    Bytes4096,
    /// Format 1: logical blocks of 512 bytes, eight in a mapped page.
    Bytes512,
}

impl LbaFormat {
    /// All of them, by index.
    pub const ALL: [Self; 2] = [Self::Bytes4096, Self::Bytes512];

    /// The format with this index.
    pub fn from_index(index: u8) -> Option<Self> {
        Self::ALL.get(usize::from(index)).copied()
    }

    /// The index of the format.
    pub fn index(self) -> u8 {
        match self {
            Self::Bytes4096 => 0,
            Self::Bytes512 => 1,
        }
    }

    /// Bytes of a logical block.
    pub fn block_bytes(self) -> u64 {
        match self {
            Self::Bytes4096 => 4096,
            Self::Bytes512 => 512,
        }
    }

    /// Logical blocks of a mapped page.
    pub fn blocks_per_page(self) -> u64 {
        managed::PAGE_BYTES / self.block_bytes()
    }

    /// The Identify entry of the format: no metadata; smaller blocks are slower (relative performance: 0 is best, 2 is
    /// good).
    fn describe(self) -> DescribedFormat {
        let (data_size, relative_performance) = match self {
            Self::Bytes4096 => (12, 0),
            Self::Bytes512 => (9, 2),
        };
        DescribedFormat { metadata_bytes: 0.into(), data_size, relative_performance }
    }
}

impl DescribedFormat {
    /// Bytes of a block; `None` if the size is invalid.
    fn block_bytes(self) -> Option<u32> {
        1_u32.checked_shl(self.data_size.into()).filter(|bytes| *bytes >= 512)
    }
}

/// The parameters of a namespace creation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceRequest {
    /// Logical blocks.
    pub blocks: u64,
    /// Index of the LBA format among those that Identify lists, 0 to 63; the model's are
    /// [`LbaFormat::ALL`].
    pub format: u8,
    /// Endurance group.
    pub endurance_group: u16,
    /// The reclaim unit handle behind each placement handle; if empty, the controller chooses one.
    pub handles: Vec<u16>,
}

impl NamespaceRequest {
    /// Encodes the data of the command. `None` for more handles than [`PLACEMENT_HANDLES_MAX`] or an index above 63.
    pub fn encode(&self) -> Option<Vec<u8>> {
        if self.handles.len() > PLACEMENT_HANDLES_MAX || self.format > 63 {
            return None;
        }
        let mut data = Creation::new_zeroed();
        data.blocks = self.blocks.into();
        data.capacity_blocks = self.blocks.into();
        data.flbas = self.format & 0xf | (self.format >> 4) << 5;
        data.endurance_group = self.endurance_group.into();
        data.handle_count = u16::try_from(self.handles.len()).ok()?.into();
        for (room, handle) in data.handles.iter_mut().zip(&self.handles) {
            room.set(*handle);
        }
        Some(data.as_bytes().to_vec())
    }

    /// Decodes the data of the command.
    ///
    /// # Errors
    /// The status with which a drive refuses it: data too short; more handles than a namespace can have; a capacity
    /// that differs from the size (thin provisioning).
    pub fn decode(data: &[u8]) -> Result<Self, Status> {
        let (data, _) = Creation::ref_from_prefix(data).map_err(|_| Status::DataTransferError)?;
        if data.blocks != data.capacity_blocks {
            return Err(Status::InvalidField);
        }
        let handles = data.handles.get(..usize::from(data.handle_count.get()));
        let handles = handles.ok_or(Status::InvalidPlacementHandleList)?;
        Ok(Self {
            blocks: data.blocks.get(),
            format: format_index(data.flbas),
            endurance_group: data.endurance_group.get(),
            handles: handles.iter().map(|handle| handle.get()).collect(),
        })
    }
}

/// Index of the LBA format: bits 3:0 of FLBAS and, above them, bits 6:5.
fn format_index(flbas: u8) -> u8 {
    flbas & 0xf | (flbas >> 5 & 3) << 4
}

/// Encodes the Identify structure of a controller with FDP and at most `namespaces` namespaces, all in endurance group
/// 1.
pub fn encode_controller(namespaces: u32) -> Vec<u8> {
    let mut data = IdentifiedController::new_zeroed();
    data.attributes = CTRATT_FDP.into();
    data.admin_commands = OACS_PLACEMENT.into();
    data.endurance_groups_max = 1.into();
    // Entries of 2^6 and 2^4 bytes, as both the minimum and the maximum.
    data.queue_entry_sizes = [0x66, 0x44];
    data.namespaces_max = namespaces.into();
    data.io_commands = ONCS_DATASET_MANAGEMENT.into();
    data.as_bytes().to_vec()
}

/// Whether a controller supports Flexible Data Placement.
pub fn supports_fdp(controller: &[u8]) -> Option<bool> {
    ControllerFacts::decode(controller).map(|facts| facts.fdp)
}

/// The fields of a controller's Identify structure that matter for creating namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControllerFacts {
    /// Controller identifier, needed to attach namespaces (CNTLID).
    pub controller: u16,
    /// Whether the drive has Flexible Data Placement.
    pub fdp: bool,
    /// Whether namespaces can be created and deleted.
    pub manages_namespaces: bool,
    /// Whether the controller supports the command Write Zeroes (ONCS).
    pub writes_zeroes: bool,
    /// Highest number of an endurance group; 0 if there are none.
    pub endurance_groups_max: u16,
    /// Bytes that no namespace uses; 0 if not reported.
    pub unallocated_bytes: u128,
}

impl ControllerFacts {
    /// Decodes the controller's structure. `None` if it is too short.
    pub fn decode(data: &[u8]) -> Option<Self> {
        let (data, _) = IdentifiedController::ref_from_prefix(data).ok()?;
        Some(Self {
            controller: data.controller.get(),
            fdp: data.attributes.get() & 1 << 19 != 0,
            manages_namespaces: data.admin_commands.get() & 1 << 3 != 0,
            writes_zeroes: data.io_commands.get() & ONCS_WRITE_ZEROES != 0,
            endurance_groups_max: data.endurance_groups_max.get(),
            unallocated_bytes: data.unallocated_bytes.get(),
        })
    }
}

/// Encodes a list of namespaces: 1024 numbers, padded with zeros.
pub fn encode_namespace_list(namespaces: &[u32]) -> Vec<u8> {
    let mut list = [U32::ZERO; PAGE_BYTES / 4];
    for (room, nsid) in list.iter_mut().zip(namespaces) {
        room.set(*nsid);
    }
    list.as_bytes().to_vec()
}

/// Decodes a list of namespaces.
pub fn decode_namespace_list(data: &[u8]) -> Vec<u32> {
    let (numbers, _) = data.as_chunks::<4>();
    let numbers = numbers.iter().map(|number| u32::from_le_bytes(*number));
    numbers.take_while(|nsid| *nsid > 0).collect()
}

/// The LBA formats that Identify lists: index, bytes per block, bytes of metadata per block.
pub fn decode_formats(data: &[u8]) -> Option<Vec<(u8, u32, u16)>> {
    let (data, _) = IdentifiedNamespace::ref_from_prefix(data).ok()?;
    let listed = (0..=data.formats_last).zip(&data.formats);
    let formats = listed.filter_map(|(index, format)| {
        Some((index, format.block_bytes()?, format.metadata_bytes.get()))
    });
    Some(formats.collect())
}

/// Encodes the Identify structure of a namespace: its size, the LBA formats and the one in use, whole pages as the
/// preferred size of writes and deallocations, and its endurance group.
pub fn encode_namespace(blocks: u64, format: LbaFormat, endurance_group: u16) -> Vec<u8> {
    let mut data = IdentifiedNamespace::new_zeroed();
    data.blocks = blocks.into();
    data.capacity_blocks = blocks.into();
    data.used_blocks = blocks.into();
    data.nsfeat = OPTPERF;
    data.formats_last = u8::try_from(LbaFormat::ALL.len() - 1).unwrap_or(u8::MAX);
    data.flbas = format.index();
    data.dlfeat = 1;
    let whole_page = u16::try_from(format.blocks_per_page() - 1).unwrap_or(u16::MAX);
    data.preferred = [whole_page.into(); 5];
    data.endurance_group = endurance_group.into();
    for (room, format) in data.formats.iter_mut().zip(LbaFormat::ALL) {
        *room = format.describe();
    }
    data.as_bytes().to_vec()
}

/// Logical blocks of a namespace, bytes per block (0 if the size is invalid) and bytes of metadata per block.
pub fn decode_format_in_use(data: &[u8]) -> Option<(u64, u32, u16)> {
    let (data, _) = IdentifiedNamespace::ref_from_prefix(data).ok()?;
    let format = data.formats.get(usize::from(format_index(data.flbas)))?;
    let block_bytes = format.block_bytes().unwrap_or(0);
    Some((data.blocks.get(), block_bytes, format.metadata_bytes.get()))
}

/// The metadata format of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataInUse {
    /// Bytes of metadata per logical block (MS); 0: none.
    pub bytes: u16,
    /// Whether metadata follows each block in the same buffer (FLBAS bit 4); otherwise it has a separate buffer.
    pub is_extended: bool,
    /// Type of the protection information in the metadata (DPS), 1 to 3; 0: none.
    pub protection: u8,
}

/// Metadata format of a namespace, from its Identify structure.
pub fn decode_metadata_in_use(data: &[u8]) -> Option<MetadataInUse> {
    let (data, _) = IdentifiedNamespace::ref_from_prefix(data).ok()?;
    let format = data.formats.get(usize::from(format_index(data.flbas)))?;
    Some(MetadataInUse {
        bytes: format.metadata_bytes.get(),
        is_extended: data.flbas & 1 << 4 != 0,
        protection: data.dps & 7,
    })
}

/// Logical blocks, bytes per block, and endurance group of a namespace, from its Identify structure.
pub fn decode_namespace(data: &[u8]) -> Option<(u64, u32, u16)> {
    let (data, _) = IdentifiedNamespace::ref_from_prefix(data).ok()?;
    let format = data.formats.get(usize::from(format_index(data.flbas)))?;
    Some((data.blocks.get(), format.block_bytes()?, data.endurance_group.get()))
}

#[cfg(test)]
mod tests {
    use super::super::golden::put;
    use super::*;
    use proptest::prelude::*;

    fn request() -> NamespaceRequest {
        NamespaceRequest {
            blocks: 1 << 33,
            format: 1,
            endurance_group: 0x102,
            handles: vec![0, 3, 7],
        }
    }

    #[test]
    fn requests_have_their_bytes_in_place() {
        let data = request().encode().unwrap();
        let mut expected = [0; 4096];
        put(&mut expected, 4, &[2]);
        put(&mut expected, 12, &[2]);
        put(&mut expected, 26, &[1]);
        put(&mut expected, 102, &[2, 1]);
        put(&mut expected, 392, &[3, 0]);
        put(&mut expected, 512, &[0, 0, 3, 0, 7, 0]);
        assert_eq!(data, expected);
        assert_eq!(NamespaceRequest::decode(&data), Ok(request()));
        let high = NamespaceRequest { format: 0x3f, ..request() };
        let data = high.encode().unwrap();
        assert_eq!(data.get(26), Some(&0x6f), "bit 4 is about metadata");
        assert_eq!(NamespaceRequest::decode(&data), Ok(high));
    }

    #[test]
    fn requests_that_cannot_be_are_refused() {
        assert_eq!(NamespaceRequest { handles: vec![0; 129], ..request() }.encode(), None);
        assert_eq!(NamespaceRequest { format: 64, ..request() }.encode(), None);
        let data = request().encode().unwrap();
        let short = data.get(..4095).unwrap();
        assert_eq!(NamespaceRequest::decode(short), Err(Status::DataTransferError));
        let mut many = data.clone();
        put(&mut many, 392, &[129]);
        assert_eq!(NamespaceRequest::decode(&many), Err(Status::InvalidPlacementHandleList));
        let mut thin = data;
        put(&mut thin, 8, &[1]);
        assert_eq!(NamespaceRequest::decode(&thin), Err(Status::InvalidField));
    }

    #[test]
    fn identify_says_fdp_and_what_goes_with_it() {
        let controller = encode_controller(256);
        assert_eq!(controller.get(96..100).unwrap(), 0x80010_u32.to_le_bytes());
        assert_eq!(controller.get(256..258).unwrap(), [0x28, 0]);
        assert_eq!(controller.get(340..342).unwrap(), [1, 0]);
        assert_eq!(controller.get(512..522).unwrap(), [0x66, 0x44, 0, 0, 0, 1, 0, 0, 4, 0]);
        assert_eq!(supports_fdp(&controller), Some(true));
        assert_eq!(supports_fdp(&[0; 4096]), Some(false));
    }

    #[test]
    fn a_controller_says_what_it_can_do() {
        let mut data = encode_controller(256);
        put(&mut data, 78, &[7, 1]);
        put(&mut data, 296, &[0, 0, 0, 0, 9]);
        put(&mut data, 520, &[1 << 3]);
        let facts = ControllerFacts {
            controller: 0x107,
            fdp: true,
            manages_namespaces: true,
            writes_zeroes: true,
            endurance_groups_max: 1,
            unallocated_bytes: 9 << 32,
        };
        assert_eq!(ControllerFacts::decode(&data), Some(facts));
        assert_eq!(ControllerFacts::decode(data.get(..300).unwrap()), None);
    }

    #[test]
    fn lists_of_namespaces_come_back() {
        let list = encode_namespace_list(&[1, 7, 0x102]);
        assert_eq!(list.get(..16).unwrap(), [1, 0, 0, 0, 7, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(decode_namespace_list(&list), [1, 7, 0x102]);
        assert_eq!(decode_namespace_list(&encode_namespace_list(&[9; 2000])).len(), 1024);
    }

    #[test]
    fn formats_say_their_sizes() {
        let mut data = encode_namespace(1, LbaFormat::Bytes512, 1);
        assert_eq!(decode_formats(&data), Some(vec![(0, 4096, 0), (1, 512, 0)]));
        put(&mut data, 132, &[8, 0]);
        assert_eq!(decode_formats(&data), Some(vec![(0, 4096, 0), (1, 512, 8)]));
        put(&mut data, 130, &[99]);
        assert_eq!(decode_formats(&data), Some(vec![(1, 512, 8)]), "no such size");
    }

    #[test]
    fn identify_lists_both_formats_and_says_which() {
        for (format, flbas, preferred) in [
            (LbaFormat::Bytes4096, 0, [0; 10]),
            (LbaFormat::Bytes512, 1, [7, 0].repeat(5)[..].try_into().unwrap()),
        ] {
            let namespace = encode_namespace(1000, format, 1);
            assert_eq!(namespace.get(24..27).unwrap(), [1 << 4, 1, flbas]);
            assert_eq!(namespace.get(64..74).unwrap(), preferred);
            assert_eq!(namespace.get(128..136).unwrap(), [0, 0, 12, 0, 0, 0, 9, 2]);
            let bytes = u32::try_from(format.block_bytes()).unwrap();
            assert_eq!(decode_namespace(&namespace), Some((1000, bytes, 1)));
            assert_eq!(LbaFormat::from_index(format.index()), Some(format));
        }
        assert_eq!(LbaFormat::from_index(2), None);
        assert_eq!(decode_namespace(&vec![0; 4096]), None, "blocks of one byte");
    }

    proptest! {
        #[test]
        fn hostile_data_never_panics(data in prop::collection::vec(any::<u8>(), 0..600)) {
            let _ = NamespaceRequest::decode(&data);
            let _ = decode_namespace(&data);
            let _ = supports_fdp(&data);
            let _ = decode_formats(&data);
            let _ = decode_namespace_list(&data);
            let _ = ControllerFacts::decode(&data);
        }

        #[test]
        fn hostile_requests_never_panic(
            noise in prop::collection::vec((0..4096_usize, any::<u8>()), 0..50),
        ) {
            let mut data = request().encode().unwrap();
            noise.into_iter().for_each(|(at, byte)| put(&mut data, at, &[byte]));
            if let Ok(request) = NamespaceRequest::decode(&data) {
                prop_assert!(request.encode().is_some());
            }
        }
    }
}
