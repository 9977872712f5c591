//! Encodes replies to requests, simple and structured, and appends them to the output.

use larder_device::IoBuffer;
use zerocopy::IntoBytes;
use zerocopy::big_endian::{U16, U32, U64};

use super::request::Refusal;
use super::wire::{
    CHUNK_MAGIC, Chunk, ChunkError, Errno, SIMPLE_REPLY_MAGIC, SimpleReply, StatusExtent, chunk,
    len32,
};
use crate::volume::Extent;

/// The format of the replies of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Replies {
    pub(super) is_structured: bool,
}

impl Replies {
    /// Success without data.
    pub(crate) fn done(output: &mut Vec<u8>, cookie: u64) {
        simple(output, 0, cookie);
    }

    /// The data that was read from `offset` on.
    pub(crate) fn data(self, output: &mut Vec<u8>, cookie: u64, offset: u64, content: &IoBuffer) {
        if self.is_structured {
            let offset = U64::new(offset);
            let bytes = size_of::<U64>() + content.len();
            chunk(output, chunk::DONE, chunk::OFFSET_DATA, cookie, bytes);
            output.extend_from_slice(offset.as_bytes());
        } else {
            simple(output, 0, cookie);
        }
        content.runs().for_each(|run| output.extend_from_slice(run));
    }

    /// Failure.
    pub(crate) fn refused(self, output: &mut Vec<u8>, cookie: u64, refusal: Refusal) {
        let Refusal { errno, why } = refusal;
        if !self.is_structured {
            return simple(output, errno.number(), cookie);
        }
        let message_bytes = U16::new(u16::try_from(why.len()).expect("messages are short"));
        let error = ChunkError { error: U32::new(errno.number()), message_bytes };
        chunk(output, chunk::DONE, chunk::ERROR, cookie, ChunkError::BYTES + why.len());
        output.extend_from_slice(error.as_bytes());
        output.extend_from_slice(why.as_bytes());
    }

    /// The status of a range for one context. `is_last`: no other context follows.
    pub(crate) fn status(
        output: &mut Vec<u8>,
        cookie: u64,
        (context, is_last): (u32, bool),
        extents: &[Extent],
    ) {
        let flags = if is_last { chunk::DONE } else { 0 };
        let bytes = size_of::<U32>() + extents.len() * StatusExtent::BYTES;
        chunk(output, flags, chunk::BLOCK_STATUS, cookie, bytes);
        output.extend_from_slice(U32::new(context).as_bytes());
        for extent in extents {
            let bytes = u32::try_from(extent.bytes).expect("a request is shorter than 4 GiB");
            let extent = StatusExtent { bytes: U32::new(bytes), flags: U32::new(extent.flags) };
            output.extend_from_slice(extent.as_bytes());
        }
    }
}

fn simple(output: &mut Vec<u8>, error: u32, cookie: u64) {
    let reply = SimpleReply {
        magic: U32::new(SIMPLE_REPLY_MAGIC),
        error: U32::new(error),
        cookie: U64::new(cookie),
    };
    output.extend_from_slice(reply.as_bytes());
}

fn chunk(output: &mut Vec<u8>, flags: u16, kind: u16, cookie: u64, bytes: usize) {
    let chunk = Chunk {
        magic: U32::new(CHUNK_MAGIC),
        flags: U16::new(flags),
        kind: U16::new(kind),
        cookie: U64::new(cookie),
        bytes: len32(bytes),
    };
    output.extend_from_slice(chunk.as_bytes());
}

/// The reply to a request that failed in the volume.
pub(super) fn refusal_of(error: &larder_device::Error) -> Refusal {
    use larder_device::ErrorKind as Kind;
    let (errno, why) = match error.kind() {
        Kind::NoSpace => (Errno::NoSpace, "the device is full"),
        Kind::InvalidRequest => (Errno::Invalid, "the device refuses the request"),
        Kind::Gone => (Errno::Io, "the device is gone"),
        Kind::Busy => (Errno::Io, "the device is too busy"),
        Kind::TimedOut => (Errno::Io, "the device does not answer"),
        _ => (Errno::Io, "the device reports an error"),
    };
    Refusal { errno, why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_lie_as_the_protocol_says() {
        let mut output = Vec::new();
        Replies::done(&mut output, 0x0102);
        assert_eq!(output, [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
        output.clear();
        let content = IoBuffer::zeroed(3);
        Replies { is_structured: true }.data(&mut output, 9, 4096, &content);
        let head = [0x66, 0x8e, 0x33, 0xef, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 11];
        assert_eq!(output[..20], head);
        assert_eq!(output[20..], [0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0]);
        output.clear();
        Replies { is_structured: false }.data(&mut output, 9, 4096, &content);
        assert_eq!(output.len(), 16 + 3);
        output.clear();
        let extents = [Extent { bytes: 512, flags: 3 }];
        Replies::status(&mut output, 9, (7, false), &extents);
        assert_eq!(output[4..8], [0, 0, 0, 5]);
        assert_eq!(output[16..], [0, 0, 0, 12, 0, 0, 0, 7, 0, 0, 2, 0, 0, 0, 0, 3]);
    }

    #[test]
    fn errors_have_the_form_that_was_agreed_upon() {
        let refusal = Refusal { errno: Errno::NoSpace, why: "full" };
        let mut output = Vec::new();
        Replies { is_structured: false }.refused(&mut output, 1, refusal);
        assert_eq!((output.len(), output[7]), (16, 28));
        output.clear();
        Replies { is_structured: true }.refused(&mut output, 1, refusal);
        assert_eq!(output[4..8], [0, 1, 0x80, 1]);
        assert_eq!(output[16..], [0, 0, 0, 10, 0, 0, 0, 28, 0, 4, b'f', b'u', b'l', b'l']);
    }
}
