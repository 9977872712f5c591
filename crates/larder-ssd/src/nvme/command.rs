//! Submission queue entries, 64 bytes per command, and builders for the commands that Larder sends.
//!
//! ```text
//!  offset  bytes  field
//!       0      1  opcode
//!       1      1  flags
//!       2      2  command identifier
//!       4      4  namespace
//!       8     16  command dwords 2, 3 and the metadata pointer
//!      24     16  data pointer
//!      40     24  command dwords 10 to 15
//! ```

#![deny(clippy::indexing_slicing)]

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute, transmute_ref};

/// Opcodes of the I/O commands.
pub mod io {
    /// Flush.
    pub const FLUSH: u8 = 0x00;
    /// Write.
    pub const WRITE: u8 = 0x01;
    /// Read.
    pub const READ: u8 = 0x02;
    /// Write zeroes.
    pub const WRITE_ZEROES: u8 = 0x08;
    /// Dataset management: deallocate.
    pub const DATASET_MANAGEMENT: u8 = 0x09;
    /// I/O management receive: reclaim unit handle status.
    pub const MANAGEMENT_RECEIVE: u8 = 0x12;
    /// I/O management send: reclaim unit handle update.
    pub const MANAGEMENT_SEND: u8 = 0x1d;
}

/// Opcodes of the admin commands.
pub mod admin {
    /// Get log page.
    pub const GET_LOG_PAGE: u8 = 0x02;
    /// Identify.
    pub const IDENTIFY: u8 = 0x06;
    /// Set features.
    pub const SET_FEATURES: u8 = 0x09;
    /// Get features.
    pub const GET_FEATURES: u8 = 0x0a;
    /// Namespace management: create and delete.
    pub const NAMESPACE_MANAGEMENT: u8 = 0x0d;
    /// Namespace attachment: attach and detach.
    pub const NAMESPACE_ATTACHMENT: u8 = 0x15;
    /// Directive receive.
    pub const DIRECTIVE_RECEIVE: u8 = 0x1a;
}

/// Bit of dword 12 of a write: force unit access.
const FORCE_UNIT_ACCESS: u32 = 1 << 30;

/// Directive type "data placement".
pub const DIRECTIVE_DATA_PLACEMENT: u8 = 2;
/// Feature identifier "Flexible Data Placement".
pub const FEATURE_FDP: u8 = 0x1d;
/// Feature identifier "FDP events".
pub const FEATURE_FDP_EVENTS: u8 = 0x1e;
/// Set features: the value survives a reset.
const SAVE: u32 = 1 << 31;

/// Log page identifiers.
pub mod log {
    /// SMART and health.
    pub const SMART: u8 = 0x02;
    /// Commands supported and effects.
    pub const EFFECTS: u8 = 0x05;
    /// Endurance group information.
    pub const ENDURANCE_GROUP: u8 = 0x09;
    /// FDP configurations.
    pub const FDP_CONFIGURATIONS: u8 = 0x20;
    /// Reclaim unit handle usage.
    pub const HANDLE_USAGE: u8 = 0x21;
    /// FDP statistics.
    pub const FDP_STATISTICS: u8 = 0x22;
    /// FDP events.
    pub const FDP_EVENTS: u8 = 0x23;
}

/// Namespace identifier for all namespaces, or for none in particular.
pub const EVERY_NAMESPACE: u32 = u32::MAX;

/// A command without its data pointer: the data is passed separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Command {
    /// The opcode; the same number means different commands in admin and I/O queues.
    pub opcode: u8,
    /// Namespace; 0 if the command has none.
    pub nsid: u32,
    /// Command dwords 10 to 15.
    pub cdw: [u32; 6],
}

const ENTRY_BYTES: usize = size_of::<Entry>();
const _: () = assert!(ENTRY_BYTES == 64);

/// An entry in its queue format.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Entry {
    opcode: u8,
    flags: u8,
    command_id: U16,
    nsid: U32,
    cdw2: [U32; 2],
    metadata: U64,
    data: [U64; 2],
    cdw10: [U32; 6],
}

impl Command {
    /// Encodes the entry in its queue format.
    pub fn encode(&self, command_id: u16) -> [u8; ENTRY_BYTES] {
        let entry = Entry {
            opcode: self.opcode,
            flags: 0,
            command_id: command_id.into(),
            nsid: self.nsid.into(),
            cdw2: [0.into(); 2],
            metadata: 0.into(),
            data: [0.into(); 2],
            cdw10: self.cdw.map(U32::new),
        };
        transmute!(entry)
    }

    /// Decodes an entry; also returns the command identifier.
    pub fn decode(entry: &[u8; ENTRY_BYTES]) -> (u16, Self) {
        let entry: &Entry = transmute_ref!(entry);
        let (opcode, nsid, cdw) = (entry.opcode, entry.nsid.get(), entry.cdw10.map(U32::get));
        (entry.command_id.get(), Self { opcode, nsid, cdw })
    }

    /// Command dword 10.
    pub fn cdw10(&self) -> u32 {
        self.dword(0)
    }

    /// Command dword 11.
    pub fn cdw11(&self) -> u32 {
        self.dword(1)
    }

    /// Command dword 12.
    pub fn cdw12(&self) -> u32 {
        self.dword(2)
    }

    /// Command dword 13.
    pub fn cdw13(&self) -> u32 {
        self.dword(3)
    }

    /// First logical block of a read or write.
    pub fn slba(&self) -> u64 {
        u64::from(self.cdw11()) << 32 | u64::from(self.cdw10())
    }

    /// Logical blocks of a read or write: 0's based on the wire, a count here.
    pub fn blocks(&self) -> u32 {
        (self.cdw12() & 0xffff) + 1
    }

    /// The directive of a write: its type and its type-specific value.
    pub fn directive(&self) -> (u8, u16) {
        let [_, _, upper, _] = self.cdw12().to_le_bytes();
        (upper >> 4, high(self.cdw13()))
    }

    /// A write of `blocks` logical blocks (1 to 65,536) from `slba` on, with or without a placement identifier.
    pub fn write(nsid: u32, slba: u64, blocks: u32, pid: Option<u16>) -> Self {
        let mut command = Self::transfer(io::WRITE, nsid, slba, blocks);
        if let Some(pid) = pid {
            command.set(2, command.cdw12() | u32::from(DIRECTIVE_DATA_PLACEMENT) << 20);
            command.set(3, u32::from(pid) << 16);
        }
        command
    }

    /// The same write, completed only when the data is on non-volatile media (FUA, bit 30 of dword 12; NVM Command Set
    /// specification, "Write command").
    #[must_use]
    pub fn forcing_unit_access(mut self) -> Self {
        self.set(2, self.cdw12() | FORCE_UNIT_ACCESS);
        self
    }

    /// A read of `blocks` logical blocks (1 to 65,536) from `slba` on.
    pub fn read(nsid: u32, slba: u64, blocks: u32) -> Self {
        Self::transfer(io::READ, nsid, slba, blocks)
    }

    /// Makes `blocks` logical blocks (1 to 65,536) from `slba` on read as zeros, without a transfer (NVM Command Set
    /// specification, "Write Zeroes command").
    pub fn write_zeroes(nsid: u32, slba: u64, blocks: u32) -> Self {
        Self::transfer(io::WRITE_ZEROES, nsid, slba, blocks)
    }

    /// A flush of a namespace.
    pub fn flush(nsid: u32) -> Self {
        Self { opcode: io::FLUSH, nsid, ..Self::default() }
    }

    /// A deallocation of the `ranges` ranges (1 to 256) in the data; see [`encode_range`].
    pub fn deallocate(nsid: u32, ranges: u8) -> Self {
        let cdw10 = u32::from(ranges.saturating_sub(1));
        Self { opcode: io::DATASET_MANAGEMENT, nsid, cdw: [cdw10, 1 << 2, 0, 0, 0, 0] }
    }

    /// Requests the status of the namespace's reclaim unit handles, as `bytes` of data.
    pub fn handle_status(nsid: u32, bytes: u32) -> Self {
        let dwords = (bytes / 4).saturating_sub(1);
        Self { opcode: io::MANAGEMENT_RECEIVE, nsid, cdw: [1, dwords, 0, 0, 0, 0] }
    }

    /// Moves the handles of the `pids` placement identifiers (1 or more) in the data to empty reclaim units.
    pub fn handle_update(nsid: u32, pids: u16) -> Self {
        let cdw10 = 1 | u32::from(pids.saturating_sub(1)) << 16;
        Self { opcode: io::MANAGEMENT_SEND, nsid, cdw: [cdw10, 0, 0, 0, 0, 0] }
    }

    /// Requests `bytes` of a log page of endurance group `group`, from `offset` on.
    pub fn get_log(page: u8, group: u16, offset: u64, bytes: u32) -> Self {
        let dwords = (bytes / 4).saturating_sub(1);
        let cdw10 = u32::from(page) | (dwords & 0xffff) << 16;
        let cdw11 = dwords >> 16 | u32::from(group) << 16;
        let cdw = [cdw10, cdw11, low32(offset), low32(offset >> 32), 0, 0];
        Self { opcode: admin::GET_LOG_PAGE, nsid: 0, cdw }
    }

    /// Requests `bytes` of the SMART log of the whole drive.
    pub fn get_smart(bytes: u32) -> Self {
        Self { nsid: EVERY_NAMESPACE, ..Self::get_log(log::SMART, 0, 0, bytes) }
    }

    /// Requests FDP events: those of the host or those of the controller.
    pub fn get_events(group: u16, host: bool, bytes: u32) -> Self {
        let mut command = Self::get_log(log::FDP_EVENTS, group, 0, bytes);
        command.set(0, command.cdw10() | u32::from(host) << 8);
        command
    }

    /// Switches Flexible Data Placement of an endurance group on or off, as a saved value: drives with saveable
    /// features refuse to change this one otherwise.
    pub fn set_fdp(group: u16, enabled: bool, configuration: u8) -> Self {
        let cdw10 = u32::from(FEATURE_FDP) | SAVE;
        let cdw12 = u32::from(enabled) | u32::from(configuration) << 8;
        let cdw = [cdw10, u32::from(group), cdw12, 0, 0, 0];
        Self { opcode: admin::SET_FEATURES, nsid: 0, cdw }
    }

    /// Requests whether Flexible Data Placement of an endurance group is on.
    pub fn get_fdp(group: u16) -> Self {
        let cdw = [u32::from(FEATURE_FDP), u32::from(group), 0, 0, 0, 0];
        Self { opcode: admin::GET_FEATURES, nsid: 0, cdw }
    }

    /// Enables or disables the `types` event types in the data for a placement handle.
    pub fn set_events(nsid: u32, handle: u16, types: u8, enabled: bool) -> Self {
        let cdw11 = u32::from(handle) | u32::from(types) << 16;
        let cdw = [u32::from(FEATURE_FDP_EVENTS), cdw11, u32::from(enabled), 0, 0, 0];
        Self { opcode: admin::SET_FEATURES, nsid, cdw }
    }

    /// Requests which of `types` event types a placement handle supports and has enabled.
    pub fn get_events_enabled(nsid: u32, handle: u16, types: u8) -> Self {
        let cdw11 = u32::from(handle) | u32::from(types) << 16;
        let cdw = [u32::from(FEATURE_FDP_EVENTS), cdw11, 0, 0, 0, 0];
        Self { opcode: admin::GET_FEATURES, nsid, cdw }
    }

    /// Requests the Identify structure `cns`.
    pub fn identify(nsid: u32, cns: u8) -> Self {
        Self { opcode: admin::IDENTIFY, nsid, cdw: [u32::from(cns), 0, 0, 0, 0, 0] }
    }

    /// Creates a namespace as described in the data.
    pub fn create_namespace() -> Self {
        Self { opcode: admin::NAMESPACE_MANAGEMENT, ..Self::default() }
    }

    /// Deletes a namespace.
    pub fn delete_namespace(nsid: u32) -> Self {
        Self { opcode: admin::NAMESPACE_MANAGEMENT, nsid, cdw: [1, 0, 0, 0, 0, 0] }
    }

    /// Attaches a namespace to the controllers in the data; see [`encode_controllers`].
    pub fn attach_namespace(nsid: u32) -> Self {
        Self { opcode: admin::NAMESPACE_ATTACHMENT, nsid, ..Self::default() }
    }

    /// Requests which directives are supported and enabled.
    pub fn identify_directives(nsid: u32, bytes: u32) -> Self {
        let dwords = (bytes / 4).saturating_sub(1);
        Self { opcode: admin::DIRECTIVE_RECEIVE, nsid, cdw: [dwords, 1, 0, 0, 0, 0] }
    }

    fn transfer(opcode: u8, nsid: u32, slba: u64, blocks: u32) -> Self {
        debug_assert!((1..=1 << 16).contains(&blocks));
        let blocks = blocks.saturating_sub(1) & 0xffff;
        Self { opcode, nsid, cdw: [low32(slba), low32(slba >> 32), blocks, 0, 0, 0] }
    }

    fn dword(&self, number: usize) -> u32 {
        self.cdw.get(number).copied().unwrap_or(0)
    }

    fn set(&mut self, number: usize, value: u32) {
        if let Some(dword) = self.cdw.get_mut(number) {
            *dword = value;
        }
    }
}

/// The data of an attachment: 4096 bytes with a list of up to 2047 controllers; further ones are left out.
pub fn encode_controllers(controllers: &[u16]) -> Vec<u8> {
    const LISTED_MAX: usize = 2047;
    let numbers = controllers.get(..LISTED_MAX).unwrap_or(controllers);
    let count = u16::try_from(numbers.len()).unwrap_or(u16::MAX);
    let mut list = [U16::ZERO; 1 + LISTED_MAX];
    for (room, number) in list.iter_mut().zip(std::iter::once(&count).chain(numbers)) {
        room.set(*number);
    }
    list.as_bytes().to_vec()
}

/// Bytes of one range of a deallocation.
pub const RANGE_BYTES: usize = size_of::<Range>();
const _: () = assert!(RANGE_BYTES == 16);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Range {
    attributes: U32,
    blocks: U32,
    slba: U64,
}

/// One range of a deallocation: attributes (0), logical blocks (a count), first logical block.
pub fn encode_range(slba: u64, blocks: u32) -> [u8; RANGE_BYTES] {
    transmute!(Range { attributes: 0.into(), blocks: blocks.into(), slba: slba.into() })
}

/// Decodes `count` ranges of a deallocation: first logical block and number of blocks. `None` if `data` is too short.
pub(super) fn decode_ranges(data: &[u8], count: usize) -> Option<Vec<(u64, u32)>> {
    let (ranges, _) = <[Range]>::ref_from_prefix_with_elems(data, count).ok()?;
    Some(ranges.iter().map(|range| (range.slba.get(), range.blocks.get())).collect())
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct UringCommand {
    opcode: u8,
    flags: u8,
    reserved: U16,
    nsid: U32,
    cdw2: [U32; 2],
    metadata: U64,
    address: U64,
    metadata_bytes: U32,
    bytes: U32,
    cdw10: [U32; 6],
    timeout_ms: U32,
    reserved_too: U32,
}

/// `struct nvme_uring_cmd` of Linux (72 bytes): the command in the format of `IORING_OP_URING_CMD`, with the address
/// and length of its data.
pub fn encode_uring(command: &Command, address: u64, bytes: u32) -> [u8; 72] {
    encode_uring_with_metadata(command, (address, bytes), (0, 0))
}

/// The same, with the address and length of a separate buffer for the metadata of the blocks.
pub fn encode_uring_with_metadata(
    command: &Command,
    (address, bytes): (u64, u32),
    (metadata, metadata_bytes): (u64, u32),
) -> [u8; 72] {
    transmute!(UringCommand {
        opcode: command.opcode,
        flags: 0,
        reserved: 0.into(),
        nsid: command.nsid.into(),
        cdw2: [0.into(); 2],
        metadata: metadata.into(),
        address: address.into(),
        metadata_bytes: metadata_bytes.into(),
        bytes: bytes.into(),
        cdw10: command.cdw.map(U32::new),
        timeout_ms: 0.into(),
        reserved_too: 0.into(),
    })
}

#[allow(clippy::cast_possible_truncation)] // only the lower half is needed
fn low32(value: u64) -> u32 {
    value as u32
}

/// Upper half of a dword.
#[allow(clippy::cast_possible_truncation)] // sixteen bits remain
pub(super) fn high(dword: u32) -> u16 {
    (dword >> 16) as u16
}

/// Lower half of a dword.
#[allow(clippy::cast_possible_truncation)] // only the lower half is needed
pub(super) fn low(dword: u32) -> u16 {
    dword as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placed_write_has_its_directive_in_two_dwords() {
        let command = Command::write(1, 0x1234_5678, 32, Some(3));
        let entry = encode_uring(&command, 0x7f00_1122_3000, 0x2_0000);
        let expected = "01000000 01000000 0000000000000000 \
                        0000000000000000 0030221100 7f0000 \
                        00000000 00000200 78563412 00000000 \
                        1f002000 00000300 00000000 00000000 0000000000000000";
        let hex: String = expected.chars().filter(|c| !c.is_whitespace()).collect();
        let printed: String = entry.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(printed, hex);
        assert_eq!(command.directive(), (DIRECTIVE_DATA_PLACEMENT, 3));
        assert_eq!((command.slba(), command.blocks()), (0x1234_5678, 32));
    }

    #[test]
    fn zeroes_are_written_without_data() {
        let command = Command::write_zeroes(3, 0x1_0000_0002, 16);
        assert_eq!((command.opcode, command.nsid, command.cdw), (0x08, 3, [2, 1, 15, 0, 0, 0]));
    }

    #[test]
    fn controllers_are_counted_and_listed() {
        let list = encode_controllers(&[3, 0x102]);
        assert_eq!(list.len(), 4096);
        assert_eq!(list.get(..8).unwrap(), [2, 0, 3, 0, 2, 1, 0, 0]);
        assert_eq!(encode_controllers(&[1; 5000]).get(..2).unwrap(), 2047_u16.to_le_bytes());
        let attach = Command::attach_namespace(5);
        assert_eq!((attach.opcode, attach.nsid, attach.cdw), (0x15, 5, [0; 6]));
        let smart = Command::get_smart(512);
        assert_eq!((smart.nsid, smart.cdw10()), (u32::MAX, 0x007f_0002));
    }

    #[test]
    fn entries_come_back() {
        let command = Command { opcode: 7, nsid: 9, cdw: [1, 2, 3, 4, 5, u32::MAX] };
        assert_eq!(Command::decode(&command.encode(77)), (77, command));
    }

    #[test]
    fn the_status_of_four_handles_takes_36_dwords() {
        let command = Command::handle_status(1, 16 + 4 * 32);
        assert_eq!((command.opcode, command.cdw10(), command.cdw11()), (0x12, 1, 0x23));
    }

    #[test]
    fn features_have_their_fields_in_place() {
        let enable = Command::set_fdp(2, true, 1);
        assert_eq!(
            (enable.opcode, enable.cdw10(), enable.cdw11(), enable.cdw12()),
            (0x09, 0x8000_001d, 2, 0x0101)
        );
        let get = Command::get_fdp(2);
        assert_eq!((get.opcode, get.cdw10(), get.cdw11(), get.cdw12()), (0x0a, 0x1d, 2, 0));
        let events = Command::set_events(7, 1, 3, true);
        assert_eq!(
            (events.opcode, events.nsid, events.cdw10(), events.cdw11(), events.cdw12()),
            (0x09, 7, 0x1e, 0x0003_0001, 1)
        );
        let enabled = Command::get_events_enabled(7, 1, 3);
        assert_eq!((enabled.opcode, enabled.cdw11()), (0x0a, 0x0003_0001));
    }

    #[test]
    fn updates_and_deallocations_count_from_zero() {
        let update = Command::handle_update(1, 2);
        assert_eq!((update.opcode, update.cdw10()), (0x1d, 0x0001_0001));
        let deallocate = Command::deallocate(1, 2);
        assert_eq!((deallocate.opcode, deallocate.cdw10(), deallocate.cdw11()), (0x09, 1, 1 << 2));
        let range = [0, 0, 0, 0, 5, 0, 0, 0, 0x78, 0x56, 0x34, 0x12, 1, 0, 0, 0];
        assert_eq!(encode_range(0x1_1234_5678, 5), range);
    }

    #[test]
    fn logs_name_their_endurance_group_and_events_their_origin() {
        let statistics = Command::get_log(log::FDP_STATISTICS, 1, 0, 64);
        assert_eq!(
            (statistics.opcode, statistics.nsid, statistics.cdw10(), statistics.cdw11()),
            (0x02, 0, 15 << 16 | 0x22, 1 << 16)
        );
        assert_eq!(Command::get_events(1, true, 64).cdw10(), 15 << 16 | 1 << 8 | 0x23);
        assert_eq!(Command::get_events(1, false, 64).cdw10(), 15 << 16 | 0x23);
    }

    #[test]
    fn long_logs_use_both_halves_of_the_dword_count() {
        let command = Command::get_log(log::FDP_CONFIGURATIONS, 2, 0x1_0000_0004, 1 << 20);
        assert_eq!(command.cdw10() >> 16 | (command.cdw11() & 0xffff) << 16, (1 << 18) - 1);
        assert_eq!(command.cdw11() >> 16, 2);
        assert_eq!((command.cdw12(), command.cdw13()), (4, 1));
    }
}
