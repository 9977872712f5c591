//! Options, sent by a client that uses each of them correctly and incorrectly.

use std::sync::Arc;

use larder_device::{Durability, IoBuffer, IoFuture};
use larder_export::nbd::Export;
use larder_export::volume::{BlockSizes, Context, DeviceVolume, Extent, Volume, VolumeInfo};
use larder_net::sockets::SocketBackend;

use super::{Served, export, memory};
use crate::client::{BLOCK_STATUS, Bytes, CACHE, Client, DISC, OPTION_MAGIC, READ, number};

const UNSUP: u32 = 1;
const INVALID: u32 = 3;
const UNKNOWN: u32 = 6;
const TOO_BIG: u32 = 9;

fn served() -> Served {
    let described = export("pantry", memory(1 << 20)).described("jam and flour").unwrap();
    let other = export("cellar", memory(1 << 16)).read_only();
    Served::start(vec![described, other], SocketBackend::IoUring)
}

fn greeted(served: &Served) -> Client {
    let mut client = Client::connect(&served.socket());
    client.flags(3);
    client
}

#[test]
fn the_oldest_way_has_124_zeros_unless_both_can_do_without() {
    let served = served();
    for (flags, zeros) in [(1, 124), (0, 124), (3, 0)] {
        let mut client = Client::connect(&served.socket());
        client.flags(flags);
        client.option(1, b"cellar");
        let reply = client.take(10 + zeros);
        assert_eq!(number(&reply[..8]), 1 << 16);
        let read_only = 1 << 1;
        assert_eq!(number(&reply[8..10]) & read_only, read_only);
        assert!(reply[10..].iter().all(|byte| *byte == 0));
        // The next bytes are the reply to a request, and not more zeros.
        assert_eq!(client.call(READ, 0, 0, 512).data, [0; 512]);
        client.ask(DISC, 0, 0, 0, &[]);
        client.expect_end();
    }
}

#[test]
fn exports_are_listed_and_described() {
    let served = served();
    let mut client = greeted(&served);
    client.option(3, &[]);
    let listed = client.replies(3).unwrap();
    let expected =
        |name: &str, text: &str| (2, Bytes::default().string(name).raw(text.as_bytes()).0);
    assert_eq!(listed, [expected("pantry", "jam and flour"), expected("cellar", "")]);

    let asked = Bytes::default().string("pantry").u16(3).u16(1).u16(2).u16(3).0;
    client.option(6, &asked);
    let told = client.replies(6).unwrap();
    let info = |kind: u16| &told.iter().find(|it| number(&it.1[..2]) == u64::from(kind)).unwrap().1;
    let flags = 1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 6 | 1 << 8 | 1 << 11;
    assert_eq!(*info(0), Bytes::default().u16(0).u64(1 << 20).u16(flags).0);
    assert_eq!(info(1)[2..], *b"pantry");
    assert_eq!(info(2)[2..], *b"jam and flour");
    assert_eq!(*info(3), Bytes::default().u16(3).u32(1).u32(4096).u32(32 << 20).0);
    // The DF flag is set only for clients with structured replies.
    client.structured();
    let told = client.go("").unwrap();
    assert_eq!(number(&told[0].1[10..]), u64::from(flags | 1 << 7));
}

#[test]
fn what_is_not_understood_is_refused_and_the_handshake_goes_on() {
    let served = served();
    let mut client = greeted(&served);
    let mut refused = |option: u32, content: &[u8]| {
        client.option(option, content);
        client.replies(option).unwrap_err()
    };
    assert_eq!(refused(77, b"what"), UNSUP);
    assert_eq!(refused(4, b""), UNSUP);
    assert_eq!(refused(5, b""), UNSUP);
    assert_eq!(refused(11, b""), UNSUP);
    assert_eq!(refused(3, b"x"), INVALID);
    assert_eq!(refused(8, b"x"), INVALID);
    let name = |text: &str| Bytes::default().string(text);
    for option in [6, 7] {
        assert_eq!(refused(option, &name("attic").u16(0).0), UNKNOWN);
        assert_eq!(refused(option, b""), INVALID);
        assert_eq!(refused(option, &name("pantry").0), INVALID);
        assert_eq!(refused(option, &name("pantry").u16(2).u16(1).0), INVALID);
        assert_eq!(refused(option, &name("pantry").u16(0).u16(1).0), INVALID);
        assert_eq!(refused(option, &Bytes::default().u32(u32::MAX).u16(0).0), TOO_BIG);
        assert_eq!(refused(option, &Bytes::default().u32(2).raw(&[0xff, 0xfe]).u16(0).0), INVALID);
    }
    assert_eq!(refused(6, &vec![0; 40_000]), TOO_BIG);
    assert_eq!(client.contexts(9, "", &[]), Err(INVALID), "without structured replies");
    client.structured();
    assert_eq!(client.contexts(10, "attic", &[]), Err(UNKNOWN));
    client.option(9, &Bytes::default().string("").u32(u32::MAX).0);
    assert_eq!(client.replies(9), Err(INVALID));
    client.go("pantry").unwrap();
    assert_eq!(client.call(READ, 0, 0, 512).data.len(), 512);
}

#[test]
fn where_there_is_no_way_to_refuse_the_connection_ends() {
    let served = served();
    let mut client = greeted(&served);
    client.option(1, b"attic");
    client.expect_end();
    let mut client = greeted(&served);
    client.send(&Bytes::default().u64(OPTION_MAGIC).u32(1).u32(u32::MAX).0);
    client.expect_end();
    let mut client = greeted(&served);
    client.send(&[0; 16]);
    client.expect_end();
    let mut client = Client::connect(&served.socket());
    client.flags(0x8000);
    client.expect_end();
    let mut client = greeted(&served);
    client.option(2, &[]);
    assert_eq!(client.replies(2), Ok(vec![]), "an abort is acknowledged");
    client.expect_end();
}

#[test]
fn options_may_come_in_pieces_and_together() {
    let served = served();
    let mut client = Client::connect(&served.socket());
    let go = Bytes::default().string("pantry").u16(0).0;
    let all = Bytes::default().u32(3).u64(OPTION_MAGIC).u32(8).u32(0);
    let len = u32::try_from(go.len()).unwrap();
    let all = all.u64(OPTION_MAGIC).u32(7).u32(len).raw(&go);
    let read = all.u32(0x2560_9513).u16(0).u16(READ).u64(5).u64(0).u32(100).0;
    for byte in &read {
        client.send(&[*byte]);
        std::thread::yield_now();
    }
    assert_eq!(client.replies(8), Ok(vec![]));
    client.is_structured = true;
    assert_eq!(client.replies(7).unwrap().len(), 2);
    assert_eq!(client.reply(|_| 0).data.len(), 100);

    let mut client = Client::connect(&served.socket());
    client.send(&read);
    client.replies(8).unwrap();
    client.is_structured = true;
    client.replies(7).unwrap();
    assert_eq!(client.reply(|_| 0).cookie, 5);
}

/// A volume that has a cache and knows its content.
struct Knows(DeviceVolume, VolumeInfo);

impl Knows {
    fn new() -> Arc<Self> {
        let volume = DeviceVolume::new(memory(1 << 20));
        let blocks = BlockSizes { min: 512, preferred: 4096, max: 1 << 20 };
        let contexts = vec![Context::Allocation, Context::Cached, Context::Dirty];
        let info = VolumeInfo { size_bytes: 1 << 20, blocks, contexts, caches: true };
        Arc::new(Self(volume, info))
    }
}

impl Volume for Knows {
    fn info(&self) -> &VolumeInfo {
        &self.1
    }
    fn read(&self, offset: u64, buffer: IoBuffer) -> IoFuture {
        self.0.read(offset, buffer)
    }
    fn write(&self, offset: u64, buffer: IoBuffer, durability: Durability) -> IoFuture {
        self.0.write(offset, buffer, durability)
    }
    fn flush(&self) -> IoFuture {
        self.0.flush()
    }
    fn trim(&self, range: std::ops::Range<u64>, durability: Durability) -> IoFuture {
        self.0.trim(range, durability)
    }
    fn write_zeroes(
        &self,
        range: std::ops::Range<u64>,
        keeps: bool,
        durability: Durability,
    ) -> IoFuture {
        self.0.write_zeroes(range, keeps, durability)
    }
    /// Every other 4 KiB is cached, and nothing is dirty.
    fn status(&self, context: Context, range: std::ops::Range<u64>, max: usize) -> Vec<Extent> {
        if context != Context::Cached {
            return vec![Extent { bytes: range.end - range.start, flags: 0 }];
        }
        let mut extents = Vec::new();
        let mut at = range.start;
        while at < range.end && extents.len() < max {
            let end = (at / 4096 + 1) * 4096;
            let flags = u32::try_from(at / 4096 % 2).unwrap();
            extents.push(Extent { bytes: end.min(range.end) - at, flags });
            at = end;
        }
        extents
    }
}

#[test]
fn block_status_tells_what_is_cached() {
    let exports = ["x", "z"].map(|name| Export::new(name, Knows::new()).unwrap());
    let served = Served::start(exports.into(), SocketBackend::IoUring);
    let mut client = greeted(&served);
    client.structured();
    let all = client.contexts(9, "", &[]).unwrap();
    let names: Vec<_> = all.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names, ["base:allocation", "x-larder:cached", "x-larder:dirty"]);
    let asked = ["x-larder:cached", "base:", "base:allocation", "other:thing"];
    let chosen = client.set_contexts("x", &asked);
    assert_eq!(chosen.len(), 2, "{chosen:?}");
    client.go("x").unwrap();
    let reply = client.call(BLOCK_STATUS, 0, 2048, 8192);
    assert_eq!(reply.status[0], (1, vec![(8192, 0)]));
    assert_eq!(reply.status[1], (2, vec![(2048, 0), (4096, 1), (2048, 0)]));
    let one = client.call(BLOCK_STATUS, 1 << 3, 2048, 8192);
    assert_eq!(one.status[1], (2, vec![(2048, 0)]));
    assert_eq!(client.call(CACHE, 0, 0, 4096).error, 0);
    assert_eq!(client.call(READ, 0, 100, 512).error, 22, "its smallest block is 512");

    // A choice of contexts for another export has no effect, and a failed choice undoes the previous one.
    let mut client = greeted(&served);
    client.structured();
    client.set_contexts("x", &["base:allocation"]);
    client.go("z").unwrap();
    assert_eq!(client.call(BLOCK_STATUS, 0, 0, 4096).error, 22);
    let mut client = greeted(&served);
    client.structured();
    client.set_contexts("x", &["base:allocation"]);
    assert!(client.contexts(10, "y", &["base:allocation"]).is_err());
    client.go("x").unwrap();
    assert_eq!(client.call(BLOCK_STATUS, 0, 0, 4096).error, 22);
}
