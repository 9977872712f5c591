//! The format of NBD's messages: numbers of the protocol document (`doc/proto.md` of NetworkBlockDevice/nbd),
//! big-endian.

use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Begins the server's greeting: "NBDMAGIC".
pub(super) const GREETING_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Begins each option: "IHAVEOPT".
pub(super) const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Begins each reply to an option.
pub(super) const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Begins each request.
pub(super) const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Begins each simple reply.
pub(super) const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Begins each chunk of a structured reply.
pub(super) const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Zeros after the reply to `NBD_OPT_EXPORT_NAME`, unless both sides have agreed to omit them.
pub(super) const EXPORT_NAME_ZEROES: usize = 124;
/// Longest name or other string, in bytes.
pub(super) const STRING_BYTES_MAX: usize = 4096;

/// Flags of the handshake, for both sides.
pub(super) mod handshake {
    pub(in super::super) const FIXED_NEWSTYLE: u16 = 1;
    pub(in super::super) const NO_ZEROES: u16 = 2;
}

/// Options of the handshake.
pub(super) mod option {
    pub(in super::super) const EXPORT_NAME: u32 = 1;
    pub(in super::super) const ABORT: u32 = 2;
    pub(in super::super) const LIST: u32 = 3;
    pub(in super::super) const STARTTLS: u32 = 5;
    pub(in super::super) const INFO: u32 = 6;
    pub(in super::super) const GO: u32 = 7;
    pub(in super::super) const STRUCTURED_REPLY: u32 = 8;
    pub(in super::super) const LIST_META_CONTEXT: u32 = 9;
    pub(in super::super) const SET_META_CONTEXT: u32 = 10;
}

/// Replies to options.
pub(super) mod option_reply {
    pub(in super::super) const ACK: u32 = 1;
    pub(in super::super) const SERVER: u32 = 2;
    pub(in super::super) const INFO: u32 = 3;
    pub(in super::super) const META_CONTEXT: u32 = 4;
    pub(in super::super) const ERR_UNSUP: u32 = 1 << 31 | 1;
    pub(in super::super) const ERR_INVALID: u32 = 1 << 31 | 3;
    pub(in super::super) const ERR_TLS_REQD: u32 = 1 << 31 | 5;
    pub(in super::super) const ERR_UNKNOWN: u32 = 1 << 31 | 6;
    pub(in super::super) const ERR_TOO_BIG: u32 = 1 << 31 | 9;
}

/// Information about an export.
pub(super) mod info {
    pub(in super::super) const EXPORT: u16 = 0;
    pub(in super::super) const NAME: u16 = 1;
    pub(in super::super) const DESCRIPTION: u16 = 2;
    pub(in super::super) const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags: the requests that an export accepts.
pub(super) mod transmission {
    pub(in super::super) const HAS_FLAGS: u16 = 1;
    pub(in super::super) const READ_ONLY: u16 = 1 << 1;
    pub(in super::super) const SEND_FLUSH: u16 = 1 << 2;
    pub(in super::super) const SEND_FUA: u16 = 1 << 3;
    pub(in super::super) const SEND_TRIM: u16 = 1 << 5;
    pub(in super::super) const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub(in super::super) const SEND_DF: u16 = 1 << 7;
    pub(in super::super) const CAN_MULTI_CONN: u16 = 1 << 8;
    pub(in super::super) const SEND_CACHE: u16 = 1 << 10;
    pub(in super::super) const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Types of requests.
pub(super) mod command {
    pub(in super::super) const READ: u16 = 0;
    pub(in super::super) const WRITE: u16 = 1;
    pub(in super::super) const DISC: u16 = 2;
    pub(in super::super) const FLUSH: u16 = 3;
    pub(in super::super) const TRIM: u16 = 4;
    pub(in super::super) const CACHE: u16 = 5;
    pub(in super::super) const WRITE_ZEROES: u16 = 6;
    pub(in super::super) const BLOCK_STATUS: u16 = 7;
}

/// Flags of requests.
pub(super) mod command_flag {
    pub(in super::super) const FUA: u16 = 1;
    pub(in super::super) const NO_HOLE: u16 = 1 << 1;
    pub(in super::super) const DF: u16 = 1 << 2;
    pub(in super::super) const REQ_ONE: u16 = 1 << 3;
    pub(in super::super) const FAST_ZERO: u16 = 1 << 4;
}

/// Chunks of structured replies.
pub(super) mod chunk {
    /// The flag of the last chunk.
    pub(in super::super) const DONE: u16 = 1;
    pub(in super::super) const OFFSET_DATA: u16 = 1;
    pub(in super::super) const BLOCK_STATUS: u16 = 5;
    pub(in super::super) const ERROR: u16 = 1 << 15 | 1;
}

/// Why a request was refused or failed, with NBD's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Errno {
    Permission,
    Io,
    Invalid,
    NoSpace,
    NotSupported,
}

impl Errno {
    pub(super) fn number(self) -> u32 {
        match self {
            Self::Permission => 1,
            Self::Io => 5,
            Self::Invalid => 22,
            Self::NoSpace => 28,
            Self::NotSupported => 95,
        }
    }
}

macro_rules! message {
    ($(#[$meta:meta])* $name:ident { $($field:ident: $kind:ty),* $(,)? }) => {
        $(#[$meta])*
        #[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug)]
        #[repr(C)]
        pub(super) struct $name {
            $(pub(super) $field: $kind),*
        }

        impl $name {
            pub(super) const BYTES: usize = size_of::<Self>();
        }
    };
}

message! {
    /// The server's greeting. The client answers with four bytes of flags.
    Greeting { magic: U64, option_magic: U64, flags: U16 }
}
message! {
    /// The header of an option.
    OptionHeader { magic: U64, option: U32, bytes: U32 }
}
message! {
    /// The header of a reply to an option.
    OptionReply { magic: U64, option: U32, reply: U32, bytes: U32 }
}
message! {
    /// The reply to `NBD_OPT_EXPORT_NAME`.
    ExportNameReply { size: U64, flags: U16 }
}
message! {
    InfoExport { kind: U16, size: U64, flags: U16 }
}
message! {
    InfoBlockSize { kind: U16, min: U32, preferred: U32, max: U32 }
}
message! {
    /// The header of a request: 28 bytes.
    RequestHeader { magic: U32, flags: U16, kind: U16, cookie: U64, offset: U64, bytes: U32 }
}
message! {
    SimpleReply { magic: U32, error: U32, cookie: U64 }
}
message! {
    /// The header of a chunk of a structured reply.
    Chunk { magic: U32, flags: U16, kind: U16, cookie: U64, bytes: U32 }
}
message! {
    /// Precedes the message of an error.
    ChunkError { error: U32, message_bytes: U16 }
}
message! {
    /// An extent of a block status.
    StatusExtent { bytes: U32, flags: U32 }
}

const _: () = assert!(RequestHeader::BYTES == 28 && SimpleReply::BYTES == 16 && Chunk::BYTES == 20);
const _: () =
    assert!(OptionHeader::BYTES == 16 && OptionReply::BYTES == 20 && Greeting::BYTES == 18);
const _: () = assert!(ExportNameReply::BYTES == 10 && InfoExport::BYTES == 12);
const _: () = assert!(InfoBlockSize::BYTES == 14);

/// The length of a string, or of another part that is known to be short.
pub(super) fn len32(len: usize) -> U32 {
    U32::new(u32::try_from(len).expect("what is sent was bounded"))
}
