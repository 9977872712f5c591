//! A connection to an export, according to the NBD protocol (`doc/proto.md` of NetworkBlockDevice/nbd): the oldest
//! option, simple replies, many requests in flight.
#![allow(clippy::big_endian_bytes, reason = "the protocol's order")]

use std::collections::HashMap;
use std::io::{self, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::content;
use super::draw::{Request, Verb};
use super::shadow::Known;

const GREETING: &[u8] = b"NBDMAGICIHAVEOPT";
const OPTION_EXPORT_NAME: u32 = 1;
/// Both sides omit the zeros after the reply to the option.
const FLAGS: u32 = 3;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;
const FUA: u16 = 1;
const NO_HOLE: u16 = 2;
/// A server that takes longer than this to reply is considered hung.
const PATIENCE: Duration = Duration::from_secs(120);
const BUFFER_BYTES: usize = 256 << 10;

/// See the module.
pub(super) struct Connection {
    stream: BufReader<UnixStream>,
    /// First sector of the export, over all cores.
    begin: u64,
    seed: u64,
    under_way: HashMap<u64, Known>,
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
}

impl Connection {
    /// Connects to the export with this number, for this file of `core_sectors` sectors.
    pub(super) fn open(
        socket: &Path,
        seed: u64,
        (file, number): (u64, u64),
        core_sectors: u64,
    ) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let stream = BufReader::with_capacity(BUFFER_BYTES, stream);
        let begin = file * core_sectors;
        let (under_way, outgoing, incoming) = (HashMap::new(), Vec::new(), Vec::new());
        let mut own = Self { stream, begin, seed, under_way, outgoing, incoming };
        let greeting = own.take::<18>()?;
        if &greeting[..16] != GREETING {
            return Err(nonsense(&format!("it greets with {greeting:02x?}")));
        }
        let name = number.to_string();
        let mut said = FLAGS.to_be_bytes().to_vec();
        said.extend(&GREETING[8..]);
        said.extend(OPTION_EXPORT_NAME.to_be_bytes());
        said.extend(u32::try_from(name.len()).unwrap_or(u32::MAX).to_be_bytes());
        said.extend(name.as_bytes());
        own.stream.get_mut().write_all(&said)?;
        let about = own.take::<10>()?;
        let bytes = about[..8].iter().fold(0, |number: u64, byte| number << 8 | u64::from(*byte));
        if bytes / content::SECTOR_BYTES as u64 != core_sectors {
            return Err(nonsense(&format!("the export {number} has {bytes} bytes")));
        }
        Ok(own)
    }

    /// Number of requests in flight.
    pub(super) fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// Sends a request.
    pub(super) fn ask(&mut self, known: Known) -> io::Result<()> {
        let Request { verb, first, fua, no_hole, .. } = known.request;
        let kind: u16 = match verb {
            Verb::Read => 0,
            Verb::Write => 1,
            Verb::Flush => 3,
            Verb::Trim => 4,
            Verb::WriteZeroes => 6,
        };
        let flags = if fua { FUA } else { 0 } | if no_hole { NO_HOLE } else { 0 };
        let at = (first - self.begin) * content::SECTOR_BYTES as u64;
        let bytes = known.request.bytes();
        let out = &mut self.outgoing;
        out.clear();
        out.extend(REQUEST_MAGIC.to_be_bytes());
        out.extend(flags.to_be_bytes());
        out.extend(kind.to_be_bytes());
        out.extend(known.version.to_be_bytes());
        out.extend(if verb == Verb::Flush { 0 } else { at }.to_be_bytes());
        out.extend(u32::try_from(bytes).unwrap_or(u32::MAX).to_be_bytes());
        if verb == Verb::Write {
            let head = out.len();
            out.resize(head + bytes, 0);
            content::fill(self.seed, first, known.version, &mut out[head..]);
        }
        self.under_way.insert(known.version, known);
        self.stream.get_mut().write_all(&self.outgoing)
    }

    /// Receives the next reply: its request, and the data of a read or the error of the device.
    pub(super) fn answer(&mut self) -> io::Result<(Known, Result<&[u8], u64>)> {
        let head = self.take::<16>()?;
        let number =
            |bytes: &[u8]| bytes.iter().fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte));
        let (magic, error, cookie) = (number(&head[..4]), number(&head[4..8]), number(&head[8..]));
        if magic != u64::from(REPLY_MAGIC) {
            return Err(nonsense(&format!("it answers with {head:02x?}")));
        }
        let Some(known) = self.under_way.remove(&cookie) else {
            return Err(nonsense(&format!("it answers request {cookie}, which was not sent")));
        };
        if error != 0 {
            return Ok((known, Err(error)));
        }
        let bytes = if known.request.verb == Verb::Read { known.request.bytes() } else { 0 };
        self.incoming.resize(bytes, 0);
        self.stream.read_exact(&mut self.incoming)?;
        Ok((known, Ok(&self.incoming)))
    }

    fn take<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

/// The server lives, but its reply is invalid or an error.
pub(super) fn nonsense(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
