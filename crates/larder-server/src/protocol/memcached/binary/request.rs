//! Requests of the binary protocol: decodes opcodes and extras.

use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::header::{Packet, Status};
use crate::protocol::memcached::items::Mode;

/// A decoded request. A `quiet` request is answered only if it fails; a quiet retrieval only if it finds something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BinaryRequest {
    Retrieve(BinaryRetrieval),
    Store { mode: Mode, flags: u32, exptime: i64, quiet: bool },
    Delete { quiet: bool },
    Count { up: bool, delta: u64, vivify: Option<(u64, i64)>, quiet: bool },
    Flush { delay: i64, quiet: bool },
    Quit { quiet: bool },
    NoOp,
    Version,
    Stats,
    LogIn(LogIn),
}

/// How an item is retrieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BinaryRetrieval {
    /// A new lifetime for it.
    pub(super) touch: Option<i64>,
    /// Whether the answer has its value.
    pub(super) value: bool,
    /// Whether the answer has its key.
    pub(super) key: bool,
    pub(super) quiet: bool,
}

/// The steps of a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogIn {
    Mechanisms,
    Begin,
    Continue,
}

/// The lifetime that means "do not create the number".
const NO_VIVIFY: u32 = u32::MAX;

impl BinaryRequest {
    pub(super) fn parse(packet: &Packet<'_>) -> Result<Self, Status> {
        let Packet { header, extras, key, value } = packet;
        let (has_key, has_value) = (!key.is_empty(), !value.is_empty());
        let parsed = match (header.opcode, *extras) {
            (0x00 | 0x09 | 0x0c | 0x0d, []) if has_key && !has_value => {
                retrieval(header.opcode, None)
            }
            (0x1c..=0x1e | 0x23 | 0x24, extras) if has_key && !has_value => {
                seconds(extras).and_then(|exptime| retrieval(header.opcode, Some(exptime)))
            }
            (0x01..=0x03 | 0x11..=0x13, extras) if has_key => stored(header.opcode, extras),
            (0x0e | 0x19, []) if has_key => Some(joined(Mode::Append, header.opcode == 0x19)),
            (0x0f | 0x1a, []) if has_key => Some(joined(Mode::Prepend, header.opcode == 0x1a)),
            (0x04 | 0x14, []) if has_key && !has_value => {
                Some(Self::Delete { quiet: header.opcode == 0x14 })
            }
            (0x05 | 0x06 | 0x15 | 0x16, extras) if has_key && !has_value => {
                counted(header.opcode, extras)
            }
            (0x07 | 0x17, []) if !has_key && !has_value => {
                Some(Self::Quit { quiet: header.opcode == 0x17 })
            }
            (0x08 | 0x18, extras) if !has_key && !has_value => {
                let delay = if extras.is_empty() { Some(0) } else { seconds(extras) };
                delay.map(|delay| Self::Flush { delay, quiet: header.opcode == 0x18 })
            }
            (0x0a, []) if !has_key && !has_value => Some(Self::NoOp),
            (0x0b, []) if !has_key && !has_value => Some(Self::Version),
            (0x10, []) if !has_value => Some(Self::Stats),
            (0x20, []) if !has_key && !has_value => Some(Self::LogIn(LogIn::Mechanisms)),
            (0x21, []) if has_key => Some(Self::LogIn(LogIn::Begin)),
            (0x22, []) if has_key => Some(Self::LogIn(LogIn::Continue)),
            (0x00..=0x1a | 0x1c..=0x1e | 0x20..=0x24, _) => None,
            _ => return Err(Status::UnknownCommand),
        };
        parsed.ok_or(Status::InvalidArguments)
    }

    /// Whether it is answered before the client has logged in.
    pub(super) fn may_come_first(&self) -> bool {
        matches!(self, Self::LogIn(_) | Self::Version | Self::Quit { .. })
    }
}

fn retrieval(opcode: u8, touch: Option<i64>) -> Option<BinaryRequest> {
    let key = matches!(opcode, 0x0c | 0x0d | 0x23 | 0x24);
    let quiet = matches!(opcode, 0x09 | 0x0d | 0x1e | 0x24);
    Some(BinaryRequest::Retrieve(BinaryRetrieval { touch, value: opcode != 0x1c, key, quiet }))
}

/// The extras of an increment or decrement.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct CountExtras {
    delta: U64,
    initial: U64,
    exptime: U32,
}

/// The extras of a store.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct StoreExtras {
    flags: U32,
    exptime: U32,
}

/// Extras that are just a lifetime. The binary protocol has no negative lifetimes: 0xffffffff is in the year 2106.
fn seconds(extras: &[u8]) -> Option<i64> {
    U32::ref_from_bytes(extras).ok().map(|seconds| seconds.get().into())
}

fn stored(opcode: u8, extras: &[u8]) -> Option<BinaryRequest> {
    let StoreExtras { flags, exptime } = StoreExtras::ref_from_bytes(extras).ok()?;
    let mode = match opcode & 0x0f {
        0x01 => Mode::Set,
        0x02 => Mode::Add,
        _ => Mode::Replace,
    };
    let (flags, exptime) = (flags.get(), exptime.get().into());
    Some(BinaryRequest::Store { mode, flags, exptime, quiet: opcode >= 0x11 })
}

fn joined(mode: Mode, quiet: bool) -> BinaryRequest {
    BinaryRequest::Store { mode, flags: 0, exptime: 0, quiet }
}

fn counted(opcode: u8, extras: &[u8]) -> Option<BinaryRequest> {
    let CountExtras { delta, initial, exptime } = CountExtras::ref_from_bytes(extras).ok()?;
    let exptime = exptime.get();
    let vivify = (exptime != NO_VIVIFY).then(|| (initial.get(), exptime.into()));
    let quiet = opcode >= 0x15;
    Some(BinaryRequest::Count { up: opcode & 1 == 1, delta: delta.get(), vivify, quiet })
}
