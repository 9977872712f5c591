//! Parses requests of a client, and checks whether they are allowed: bytes in, requests out.

use std::ops::Range;

use zerocopy::FromBytes;

use super::wire::{Errno, REQUEST_MAGIC, RequestHeader, command, command_flag};

/// The limits for requests of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(super) size_bytes: u64,
    /// Offsets and lengths must be multiples of it.
    pub(super) block_bytes: u32,
    /// Longest read or write.
    pub(super) payload_bytes_max: u32,
    pub(super) is_read_only: bool,
    pub(super) caches: bool,
    /// Structured replies were agreed on.
    pub(super) is_structured: bool,
    /// Contexts of block status were agreed on.
    pub(super) has_contexts: bool,
}

/// A command of a client. Ranges are not empty, lie within the export and consist of blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Read(Range<u64>),
    Write {
        range: Range<u64>,
        is_durable: bool,
    },
    Flush,
    Trim {
        range: Range<u64>,
        is_durable: bool,
    },
    Cache(Range<u64>),
    WriteZeroes {
        range: Range<u64>,
        is_durable: bool,
        keeps_room: bool,
        is_fast: bool,
    },
    BlockStatus {
        range: Range<u64>,
        only_one: bool,
    },
    /// Nothing more will follow.
    Disconnect,
}

/// A request, or what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Chosen by the client, and returned unchanged.
    pub(crate) cookie: u64,
    /// Bytes that follow it, even if it is refused.
    pub(crate) payload_bytes: u32,
    pub(crate) what: Result<Command, Refusal>,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(super) errno: Errno,
    pub(super) why: &'static str,
}

/// The input does not begin with a request: nothing after it can be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRequest;

impl Request {
    /// Length of the header of a request.
    pub(crate) const HEADER_BYTES: usize = RequestHeader::BYTES;

    /// Parses the request at the beginning of `input`, once its header is complete.
    pub(crate) fn parse(input: &[u8], limits: &Limits) -> Result<Option<Self>, NoRequest> {
        let Ok((header, _)) = RequestHeader::read_from_prefix(input) else { return Ok(None) };
        if header.magic.get() != REQUEST_MAGIC {
            return Err(NoRequest);
        }
        let kind = header.kind.get();
        let payload_bytes = if kind == command::WRITE { header.bytes.get() } else { 0 };
        Ok(Some(Self {
            cookie: header.cookie.get(),
            payload_bytes,
            what: command_of(&header, limits),
        }))
    }
}

fn refuse<T>(errno: Errno, why: &'static str) -> Result<T, Refusal> {
    Err(Refusal { errno, why })
}

fn command_of(header: &RequestHeader, limits: &Limits) -> Result<Command, Refusal> {
    let flags = header.flags.get();
    let kind = header.kind.get();
    check_flags(kind, flags, limits)?;
    let is_durable = flags & command_flag::FUA != 0;
    let changes = matches!(kind, command::WRITE | command::TRIM | command::WRITE_ZEROES);
    if changes && limits.is_read_only {
        return refuse(Errno::Permission, "the export is read-only");
    }
    match kind {
        command::DISC => return Ok(Command::Disconnect),
        command::FLUSH if header.offset.get() != 0 || header.bytes.get() != 0 => {
            return refuse(Errno::Invalid, "a flush has neither offset nor length");
        }
        command::FLUSH => return Ok(Command::Flush),
        _ => {}
    }
    // Clients understand "no space" for a write beyond the end.
    let grows = matches!(kind, command::WRITE | command::WRITE_ZEROES);
    let range = range_of(header, limits, if grows { Errno::NoSpace } else { Errno::Invalid })?;
    let is_payload = matches!(kind, command::READ | command::WRITE);
    if is_payload && header.bytes.get() > limits.payload_bytes_max {
        return refuse(Errno::Invalid, "longer than the export's longest read or write");
    }
    Ok(match kind {
        command::READ => Command::Read(range),
        command::WRITE => Command::Write { range, is_durable },
        command::TRIM => Command::Trim { range, is_durable },
        command::CACHE if limits.caches => Command::Cache(range),
        command::WRITE_ZEROES => Command::WriteZeroes {
            range,
            is_durable,
            keeps_room: flags & command_flag::NO_HOLE != 0,
            is_fast: flags & command_flag::FAST_ZERO != 0,
        },
        command::BLOCK_STATUS if limits.has_contexts => {
            Command::BlockStatus { range, only_one: flags & command_flag::REQ_ONE != 0 }
        }
        command::BLOCK_STATUS => return refuse(Errno::Invalid, "no context was agreed upon"),
        command::CACHE => return refuse(Errno::NotSupported, "nothing is cached here"),
        _ => return refuse(Errno::Invalid, "no such request"),
    })
}

/// Checks the flags of a request. FUA is allowed with any request, and only matters for changes.
fn check_flags(kind: u16, flags: u16, limits: &Limits) -> Result<(), Refusal> {
    let own = match kind {
        command::READ if limits.is_structured => command_flag::DF,
        command::WRITE_ZEROES => command_flag::NO_HOLE | command_flag::FAST_ZERO,
        command::BLOCK_STATUS => command_flag::REQ_ONE,
        _ => 0,
    };
    if flags & !(own | command_flag::FUA) != 0 {
        return refuse(Errno::Invalid, "a flag that this request does not have");
    }
    Ok(())
}

fn range_of(header: &RequestHeader, limits: &Limits, beyond: Errno) -> Result<Range<u64>, Refusal> {
    let (offset, bytes) = (header.offset.get(), u64::from(header.bytes.get()));
    if bytes == 0 {
        return refuse(Errno::Invalid, "the length is 0");
    }
    let Some(end) = offset.checked_add(bytes).filter(|end| *end <= limits.size_bytes) else {
        return refuse(beyond, "it ends behind the export's end");
    };
    let block = u64::from(limits.block_bytes);
    if !offset.is_multiple_of(block) || !bytes.is_multiple_of(block) {
        return refuse(Errno::Invalid, "no multiple of the export's smallest block");
    }
    Ok(offset..end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::IntoBytes;
    use zerocopy::big_endian::{U16, U32, U64};

    const LIMITS: Limits = Limits {
        size_bytes: 1 << 20,
        block_bytes: 512,
        payload_bytes_max: 65536,
        is_read_only: false,
        caches: true,
        is_structured: true,
        has_contexts: true,
    };

    fn ask_with(limits: &Limits, kind: u16, flags: u16, offset: u64, bytes: u32) -> Request {
        let header = RequestHeader {
            magic: U32::new(REQUEST_MAGIC),
            flags: U16::new(flags),
            kind: U16::new(kind),
            cookie: U64::new(77),
            offset: U64::new(offset),
            bytes: U32::new(bytes),
        };
        assert_eq!(Request::parse(&header.as_bytes()[..27], limits), Ok(None));
        let request = Request::parse(header.as_bytes(), limits).unwrap().unwrap();
        assert_eq!(request.cookie, 77);
        request
    }

    fn ask(kind: u16, flags: u16, offset: u64, bytes: u32) -> Result<Command, u32> {
        let what = ask_with(&LIMITS, kind, flags, offset, bytes).what;
        what.map_err(|refusal| refusal.errno.number())
    }

    #[test]
    fn requests_within_the_export_are_understood() {
        use command_flag as flag;
        assert_eq!(ask(0, flag::DF, 512, 1024), Ok(Command::Read(512..1536)));
        let write = Command::Write { range: 0..512, is_durable: true };
        assert_eq!(ask(1, flag::FUA, 0, 512), Ok(write));
        assert_eq!(ask(2, 0, 0, 0), Ok(Command::Disconnect));
        assert_eq!(ask(3, 0, 0, 0), Ok(Command::Flush));
        let trim = Command::Trim { range: 0..1 << 20, is_durable: false };
        assert_eq!(ask(4, 0, 0, 1 << 20), Ok(trim));
        assert_eq!(ask(5, 0, 0, 512), Ok(Command::Cache(0..512)));
        let zeroes = |is_durable, keeps_room, is_fast| {
            Ok(Command::WriteZeroes { range: 0..131072, is_durable, keeps_room, is_fast })
        };
        assert_eq!(ask(6, 0, 0, 131072), zeroes(false, false, false));
        let all = flag::FUA | flag::NO_HOLE | flag::FAST_ZERO;
        assert_eq!(ask(6, all, 0, 131072), zeroes(true, true, true));
        let status = Command::BlockStatus { range: 0..1 << 20, only_one: true };
        assert_eq!(ask(7, flag::REQ_ONE, 0, 1 << 20), Ok(status));
    }

    #[test]
    fn what_cannot_be_done_has_its_error() {
        const EINVAL: Result<Command, u32> = Err(22);
        const ENOSPC: Result<Command, u32> = Err(28);
        assert_eq!(ask(0, 0, 0, 0), EINVAL);
        assert_eq!(ask(0, 0, 1 << 20, 512), EINVAL);
        assert_eq!(ask(0, 0, u64::MAX - 511, 512), EINVAL);
        assert_eq!(ask(0, 0, 100, 512), EINVAL);
        assert_eq!(ask(0, 0, 0, 513), EINVAL);
        assert_eq!(ask(0, 0, 0, 65536 + 512), EINVAL);
        assert_eq!(ask(1, 0, 1 << 20, 512), ENOSPC);
        assert_eq!(ask(6, 0, (1 << 20) - 512, 1024), ENOSPC);
        assert_eq!(ask(4, 0, (1 << 20) - 512, 1024), EINVAL);
        assert_eq!(ask(3, 0, 0, 512), EINVAL);
        assert_eq!(ask(99, 0, 0, 512), EINVAL);
        for (kind, flag) in [(0, command_flag::NO_HOLE), (1, command_flag::DF), (4, 0x8000)] {
            assert_eq!(ask(kind, flag, 0, 512), EINVAL, "{kind} with {flag}");
        }
    }

    #[test]
    fn what_was_not_agreed_upon_is_refused() {
        let plain = Limits { is_structured: false, has_contexts: false, caches: false, ..LIMITS };
        let errno = |limits: &Limits, kind, flags| {
            ask_with(limits, kind, flags, 0, 512).what.map_err(|refusal| refusal.errno)
        };
        assert_eq!(errno(&plain, 0, command_flag::DF), Err(Errno::Invalid));
        assert_eq!(errno(&plain, 7, 0), Err(Errno::Invalid));
        assert_eq!(errno(&plain, 5, 0), Err(Errno::NotSupported));
        let read_only = Limits { is_read_only: true, ..LIMITS };
        for changes in [1, 4, 6] {
            assert_eq!(errno(&read_only, changes, 0), Err(Errno::Permission));
        }
        assert!(errno(&read_only, 0, 0).is_ok());
    }

    /// Its payload follows nevertheless.
    #[test]
    fn a_write_that_is_refused_still_has_its_payload() {
        let request = ask_with(&LIMITS, command::WRITE, 0, 0, u32::MAX);
        assert!(request.what.is_err());
        assert_eq!(request.payload_bytes, u32::MAX);
        assert_eq!(ask_with(&LIMITS, command::READ, 0, 0, 512).payload_bytes, 0);
    }

    #[test]
    fn what_begins_otherwise_is_no_request() {
        assert_eq!(Request::parse(&[0; 28], &LIMITS), Err(NoRequest));
        assert_eq!(Request::parse(&[], &LIMITS), Ok(None));
    }
}
