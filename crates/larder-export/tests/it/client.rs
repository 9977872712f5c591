//! An NBD client that does what it is told, right or wrong.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustls::ClientConnection;

pub(crate) const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
pub(crate) const ACK: u32 = 1;
pub(crate) const READ: u16 = 0;
pub(crate) const WRITE: u16 = 1;
pub(crate) const DISC: u16 = 2;
pub(crate) const FLUSH: u16 = 3;
pub(crate) const TRIM: u16 = 4;
pub(crate) const CACHE: u16 = 5;
pub(crate) const WRITE_ZEROES: u16 = 6;
pub(crate) const BLOCK_STATUS: u16 = 7;
pub(crate) const FUA: u16 = 1;

/// Numbers in the format of the protocol.
#[derive(Default)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

#[allow(clippy::big_endian_bytes, reason = "the protocol's order")]
impl Bytes {
    pub(crate) fn u16(mut self, number: u16) -> Self {
        self.0.extend(number.to_be_bytes());
        self
    }

    pub(crate) fn u32(mut self, number: u32) -> Self {
        self.0.extend(number.to_be_bytes());
        self
    }

    pub(crate) fn u64(mut self, number: u64) -> Self {
        self.0.extend(number.to_be_bytes());
        self
    }

    pub(crate) fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    pub(crate) fn string(self, text: &str) -> Self {
        self.u32(u32::try_from(text.len()).unwrap()).raw(text.as_bytes())
    }
}

#[allow(clippy::big_endian_bytes, reason = "the protocol's order")]
pub(crate) fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

trait Wire: Read + Write {}
impl<W: Read + Write> Wire for W {}

/// A connection.
pub(crate) struct Client {
    pub(crate) stream: UnixStream,
    pub(crate) is_structured: bool,
    /// If set, all traffic goes through it.
    tls: Option<Box<ClientConnection>>,
    cookie: u64,
}

/// The reply to a request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) cookie: u64,
    pub(crate) error: u32,
    pub(crate) data: Vec<u8>,
    /// Context, and extents with their flags.
    pub(crate) status: Vec<(u32, Vec<(u32, u32)>)>,
}

impl Client {
    /// A connection after the greeting.
    pub(crate) fn connect(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut client = Self { stream, is_structured: false, tls: None, cookie: 0 };
        let greeting = client.take(18);
        assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
        assert_eq!(greeting[16..], [0, 3]);
        client
    }

    /// A connection to the default export.
    pub(crate) fn open(socket: &Path) -> Self {
        let mut client = Self::connect(socket);
        client.flags(3);
        client.go("").unwrap();
        client
    }

    /// The same with structured replies and these contexts.
    pub(crate) fn open_structured(socket: &Path, contexts: &[&str]) -> Self {
        let mut client = Self::connect(socket);
        client.flags(3);
        client.structured();
        assert_eq!(client.set_contexts("", contexts).len(), contexts.len());
        client.go("").unwrap();
        client
    }

    /// Waits for `time`, in which nothing may arrive.
    ///
    /// # Panics
    /// With what arrived: a byte, the end of the stream, or an error.
    pub(crate) fn assert_quiet(&mut self, time: Duration) {
        let before = self.stream.read_timeout().unwrap();
        self.stream.set_read_timeout(Some(time)).unwrap();
        let mut byte = [0; 1];
        let heard = loop {
            match self.stream.read(&mut byte) {
                // A process that was stopped and goes on is told so where a time limit is set.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                heard => break heard,
            }
        };
        self.stream.set_read_timeout(before).unwrap();
        let is_quiet = heard.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        assert!(is_quiet, "within {time:?} the client heard {heard:?}, first byte {byte:?}");
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.wire().write_all(bytes).unwrap();
    }

    /// Performs the handshake of `tls`, and sends and receives everything after that through it.
    pub(crate) fn encrypt(&mut self, mut tls: ClientConnection) -> io::Result<()> {
        while tls.is_handshaking() {
            tls.complete_io(&mut self.stream)?;
        }
        (self.tls, self.is_structured) = (Some(Box::new(tls)), false);
        Ok(())
    }

    fn wire(&mut self) -> Box<dyn Wire + '_> {
        match &mut self.tls {
            Some(tls) => Box::new(rustls::Stream::new(&mut **tls, &mut self.stream)),
            None => Box::new(&mut self.stream),
        }
    }

    pub(crate) fn take(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.wire().read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Checks that nothing more arrives and the server has closed the connection.
    #[track_caller]
    pub(crate) fn expect_end(&mut self) {
        let mut rest = Vec::new();
        match self.wire().read_to_end(&mut rest) {
            Ok(_) => assert!(rest.is_empty(), "{} bytes before the end", rest.len()),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
        }
    }

    pub(crate) fn flags(&mut self, flags: u32) {
        self.send(&Bytes::default().u32(flags).0);
    }

    pub(crate) fn option(&mut self, option: u32, content: &[u8]) {
        let len = u32::try_from(content.len()).unwrap();
        let header = Bytes::default().u64(OPTION_MAGIC).u32(option).u32(len);
        self.send(&header.raw(content).0);
    }

    /// A reply to an option: its type and content.
    pub(crate) fn option_reply(&mut self, option: u32) -> (u32, Vec<u8>) {
        let header = self.take(20);
        assert_eq!(number(&header[..8]), 0x0003_e889_0455_65a9);
        assert_eq!(number(&header[8..12]), u64::from(option));
        let len = usize::try_from(number(&header[16..])).unwrap();
        (u32::try_from(number(&header[12..16])).unwrap(), self.take(len))
    }

    /// All replies to an option before the acknowledgement, or the error.
    pub(crate) fn replies(&mut self, option: u32) -> Result<Vec<(u32, Vec<u8>)>, u32> {
        let mut all = Vec::new();
        loop {
            match self.option_reply(option) {
                (ACK, content) => {
                    assert!(content.is_empty());
                    return Ok(all);
                }
                (error, _) if error >> 31 == 1 => return Err(error & 0xffff),
                reply => all.push(reply),
            }
        }
    }

    pub(crate) fn structured(&mut self) {
        self.option(8, &[]);
        assert_eq!(self.replies(8), Ok(vec![]));
        self.is_structured = true;
    }

    pub(crate) fn go(&mut self, name: &str) -> Result<Vec<(u32, Vec<u8>)>, u32> {
        self.option(7, &Bytes::default().string(name).u16(0).0);
        self.replies(7)
    }

    /// Selects contexts. Returns their numbers and names.
    pub(crate) fn set_contexts(&mut self, name: &str, queries: &[&str]) -> Vec<(u32, String)> {
        self.contexts(10, name, queries).unwrap()
    }

    pub(crate) fn contexts(
        &mut self,
        option: u32,
        name: &str,
        queries: &[&str],
    ) -> Result<Vec<(u32, String)>, u32> {
        let count = u32::try_from(queries.len()).unwrap();
        let content = Bytes::default().string(name).u32(count);
        let content = queries.iter().fold(content, |content, query| content.string(query));
        self.option(option, &content.0);
        let replies = self.replies(option)?.into_iter();
        Ok(replies
            .map(|(_, content)| {
                let number = u32::try_from(number(&content[..4])).unwrap();
                (number, String::from_utf8(content[4..].to_vec()).unwrap())
            })
            .collect())
    }

    /// Sends a request. Returns its cookie.
    pub(crate) fn ask(&mut self, kind: u16, flags: u16, at: u64, bytes: u32, data: &[u8]) -> u64 {
        self.cookie += 1;
        let cookie = self.cookie;
        let header = Bytes::default().u32(0x2560_9513).u16(flags).u16(kind);
        self.send(&header.u64(cookie).u64(at).u32(bytes).raw(data).0);
        cookie
    }

    pub(crate) fn write(&mut self, at: u64, data: &[u8]) -> u64 {
        self.ask(WRITE, 0, at, u32::try_from(data.len()).unwrap(), data)
    }

    /// Sends a request and waits for the reply. No other request may be in flight.
    #[track_caller]
    pub(crate) fn call(&mut self, kind: u16, flags: u16, at: u64, bytes: u32) -> Reply {
        let cookie = self.ask(kind, flags, at, bytes, &[]);
        let expected = if kind == READ { bytes as usize } else { 0 };
        let reply = self.reply(|_| expected);
        assert_eq!(reply.cookie, cookie);
        reply
    }

    /// The next reply; `expects` returns the number of bytes of a simple reply to a read.
    pub(crate) fn reply(&mut self, expects: impl Fn(u64) -> usize) -> Reply {
        let mut reply = Reply::default();
        loop {
            let magic = number(&self.take(4));
            if magic == 0x6744_6698 {
                let rest = self.take(12);
                reply.error = u32::try_from(number(&rest[..4])).unwrap();
                reply.cookie = number(&rest[4..]);
                let len = if reply.error == 0 { expects(reply.cookie) } else { 0 };
                assert!(len == 0 || !self.is_structured, "reads have structured replies");
                reply.data = self.take(len);
                return reply;
            }
            assert_eq!(magic, 0x668e_33ef);
            assert!(self.is_structured, "the client did not negotiate structured replies");
            let rest = self.take(16);
            reply.cookie = number(&rest[4..12]);
            let content = self.take(usize::try_from(number(&rest[12..])).unwrap());
            match number(&rest[2..4]) {
                1 => reply.data.extend(&content[8..]),
                5 => reply.status.push(status(&content)),
                32769 => reply.error = u32::try_from(number(&content[..4])).unwrap(),
                kind => panic!("a chunk of type {kind}"),
            }
            if number(&rest[..2]) == 1 {
                return reply;
            }
        }
    }
}

fn status(content: &[u8]) -> (u32, Vec<(u32, u32)>) {
    let small = |bytes: &[u8]| u32::try_from(number(bytes)).unwrap();
    let extents = content[4..].chunks(8).map(|it| (small(&it[..4]), small(&it[4..])));
    (small(&content[..4]), extents.collect())
}
