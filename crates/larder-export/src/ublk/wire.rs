//! The messages between a server and the kernel's driver, in their memory layout: `linux/ublk_cmd.h` as of Linux 6.5.
//! Later fields follow those that are named here, and the driver is told the number of valid bytes.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The queue of a command that is for no queue.
pub(super) const NO_QUEUE: u16 = u16::MAX;
/// The number of a device for which the driver chooses one.
pub(super) const ANY_ID: u32 = u32::MAX;
/// Highest device number that can be requested: the driver has this number of minor numbers.
pub(super) const ID_MAX: u32 = (1 << 20) - 1;
/// Most requests of a queue.
pub(super) const DEPTH_MAX: u16 = 4096;
/// Most queues of a device.
pub(super) const QUEUES_MAX: u16 = 4096;
/// Unit of all ranges.
pub(super) const SECTOR_BYTES: u64 = 512;

/// Operations of commands to the control device, and to the queues of a device.
pub(super) mod operation {
    /// `_IOC` of all processors except PowerPC, MIPS and SPARC, which Larder does not support.
    const fn encoded(direction: u32, number: u32, bytes: u32) -> u32 {
        direction << 30 | bytes << 16 | (b'u' as u32) << 8 | number
    }

    const READ: u32 = 2;
    const READ_WRITE: u32 = 3;
    /// Size of `struct ublksrv_ctrl_cmd`.
    const CONTROL_BYTES: u32 = 32;
    /// Size of `struct ublksrv_io_cmd`.
    const IO_BYTES: u32 = 16;

    pub(in super::super) const GET_DEV_INFO: u32 = encoded(READ, 0x02, CONTROL_BYTES);
    pub(in super::super) const ADD_DEV: u32 = encoded(READ_WRITE, 0x04, CONTROL_BYTES);
    pub(in super::super) const DEL_DEV: u32 = encoded(READ_WRITE, 0x05, CONTROL_BYTES);
    pub(in super::super) const START_DEV: u32 = encoded(READ_WRITE, 0x06, CONTROL_BYTES);
    pub(in super::super) const STOP_DEV: u32 = encoded(READ_WRITE, 0x07, CONTROL_BYTES);
    pub(in super::super) const SET_PARAMS: u32 = encoded(READ_WRITE, 0x08, CONTROL_BYTES);
    pub(in super::super) const GET_PARAMS: u32 = encoded(READ, 0x09, CONTROL_BYTES);
    pub(in super::super) const START_USER_RECOVERY: u32 = encoded(READ_WRITE, 0x10, CONTROL_BYTES);
    pub(in super::super) const END_USER_RECOVERY: u32 = encoded(READ_WRITE, 0x11, CONTROL_BYTES);
    pub(in super::super) const GET_FEATURES: u32 = encoded(READ, 0x13, CONTROL_BYTES);
    /// Since Linux 6.9.
    pub(in super::super) const DEL_DEV_ASYNC: u32 = encoded(READ, 0x14, CONTROL_BYTES);
    pub(in super::super) const FETCH_REQ: u32 = encoded(READ_WRITE, 0x20, IO_BYTES);
    pub(in super::super) const COMMIT_AND_FETCH_REQ: u32 = encoded(READ_WRITE, 0x21, IO_BYTES);
}

/// Features of a device.
pub(super) mod feature {
    /// The device stays when its server ends, and requests wait.
    pub(in super::super) const USER_RECOVERY: u64 = 1 << 3;
    /// Requests that the server had begun are issued to the next one again.
    pub(in super::super) const USER_RECOVERY_REISSUE: u64 = 1 << 4;
    /// Operations are encoded like those of `ioctl`.
    pub(in super::super) const CMD_IOCTL_ENCODE: u64 = 1 << 6;
    /// The server copies the bytes of requests by reads and writes of the character device.
    pub(in super::super) const USER_COPY: u64 = 1 << 7;
    /// The features required of a driver, and of a device that is taken over.
    pub(in super::super) const NEEDED: u64 =
        USER_RECOVERY | USER_RECOVERY_REISSUE | CMD_IOCTL_ENCODE | USER_COPY;
}

/// Attributes of [`BasicParams`].
pub(super) mod attribute {
    pub(in super::super) const READ_ONLY: u32 = 1;
    /// Written data is durable only after a flush.
    pub(in super::super) const VOLATILE_CACHE: u32 = 1 << 2;
    pub(in super::super) const FUA: u32 = 1 << 3;
}

/// Which parts of [`Params`] are valid.
pub(super) mod params_type {
    pub(in super::super) const BASIC: u32 = 1;
    pub(in super::super) const DISCARD: u32 = 1 << 1;
}

/// Values in [`IoDescriptor`].
pub(super) mod request {
    pub(in super::super) const READ: u8 = 0;
    pub(in super::super) const WRITE: u8 = 1;
    pub(in super::super) const FLUSH: u8 = 2;
    pub(in super::super) const DISCARD: u8 = 3;
    pub(in super::super) const WRITE_ZEROES: u8 = 5;
    /// The request must be durable when it is answered.
    pub(in super::super) const FUA: u32 = 1 << 13;
    /// Reserved space stays reserved.
    pub(in super::super) const NOUNMAP: u32 = 1 << 15;
}

/// `struct ublksrv_ctrl_cmd`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub(super) struct ControlCommand {
    pub(super) dev_id: u32,
    pub(super) queue_id: u16,
    /// Number of bytes at `addr`.
    pub(super) len: u16,
    pub(super) addr: u64,
    pub(super) data: u64,
    pub(super) dev_path_len: u16,
    pub(super) pad: u16,
    pub(super) reserved: u32,
}

/// `struct ublksrv_ctrl_dev_info`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub(super) struct DeviceInfo {
    pub(super) queues: u16,
    pub(super) queue_depth: u16,
    /// See [`State`].
    pub(super) state: u16,
    pub(super) pad: u16,
    /// Longest read or write.
    pub(super) io_bytes_max: u32,
    pub(super) dev_id: u32,
    /// The process of the server; not a valid process id if there is none.
    pub(super) server_pid: i32,
    pub(super) pad1: u32,
    pub(super) features: u64,
    /// Chosen by the server: the driver stores and returns it.
    pub(super) server_flags: u64,
    pub(super) owner_uid: u32,
    pub(super) owner_gid: u32,
    pub(super) reserved: [u64; 2],
}

/// The used part of `struct ublk_params`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub(super) struct Params {
    /// Bytes of this structure.
    pub(super) len: u32,
    pub(super) types: u32,
    pub(super) basic: BasicParams,
    pub(super) discard: DiscardParams,
    /// The driver's structure continues here.
    pub(super) rest: u32,
}

/// `struct ublk_param_basic`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub(super) struct BasicParams {
    pub(super) attributes: u32,
    pub(super) logical_block_shift: u8,
    pub(super) physical_block_shift: u8,
    pub(super) io_optimal_shift: u8,
    pub(super) io_min_shift: u8,
    /// Most sectors of a read or write.
    pub(super) sectors_max: u32,
    pub(super) chunk_sectors: u32,
    /// Length of the device in sectors.
    pub(super) sectors: u64,
    pub(super) virtual_boundary_mask: u64,
}

/// `struct ublk_param_discard`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub(super) struct DiscardParams {
    pub(super) alignment_bytes: u32,
    pub(super) granularity_bytes: u32,
    pub(super) discard_sectors_max: u32,
    pub(super) zeroes_sectors_max: u32,
    pub(super) segments_max: u16,
    pub(super) reserved: u16,
}

/// `struct ublksrv_io_cmd`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub(super) struct IoCommand {
    pub(super) queue: u16,
    pub(super) tag: u16,
    /// For a commit: the number of bytes, or a negative error number.
    pub(super) result: i32,
    /// Unused, because the server copies.
    pub(super) addr: u64,
}

/// `struct ublksrv_io_desc`: a request to the device.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub(super) struct IoDescriptor {
    /// The operation in the lowest byte, and flags.
    pub(super) what: u32,
    pub(super) sectors: u32,
    pub(super) first_sector: u64,
    pub(super) addr: u64,
}

/// The state of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The device was not started, or is stopped.
    Dead,
    /// The device has a server.
    Live,
    /// The server of the device is gone, and requests wait.
    Quiesced,
    /// Any other state. No device of Larder has it.
    Other(u16),
}

impl State {
    pub(super) fn of(number: u16) -> Self {
        match number {
            0 => Self::Dead,
            1 => Self::Live,
            2 => Self::Quiesced,
            other => Self::Other(other),
        }
    }
}

/// The offset in the character device of the bytes of a request: reads and writes there copy the data of the request.
pub(super) fn bytes_of(queue: u16, tag: u16) -> u64 {
    const FIRST: u64 = 0x8000_0000;
    FIRST + (u64::from(queue) << 41 | u64::from(tag) << 25)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lies_as_the_kernel_has_it() {
        assert_eq!(size_of::<ControlCommand>(), 32);
        assert_eq!(size_of::<DeviceInfo>(), 64);
        assert_eq!(size_of::<Params>(), 64);
        assert_eq!((size_of::<IoCommand>(), size_of::<IoDescriptor>()), (16, 24));
        assert_eq!(std::mem::offset_of!(DeviceInfo, server_flags), 32);
        assert_eq!(std::mem::offset_of!(Params, discard), 40);
        // As in `linux/ublk_cmd.h`: _IOWR('u', 0x04, …), _IOR('u', 0x02, …), _IOWR('u', 0x20, …).
        assert_eq!(operation::ADD_DEV, 0xc020_7504);
        assert_eq!(operation::GET_DEV_INFO, 0x8020_7502);
        assert_eq!(operation::DEL_DEV_ASYNC, 0x8020_7514);
        assert_eq!(operation::FETCH_REQ, 0xc010_7520);
        assert_eq!(bytes_of(0, 0), 0x8000_0000);
        assert_eq!(bytes_of(2, 3), 0x8000_0000 + (2 << 41) + (3 << 25));
    }
}
