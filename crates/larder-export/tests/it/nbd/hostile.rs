//! Clients that break the protocol: they get errors, change nothing, and do not stop other clients.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use larder_export::nbd::fuzzing;
use larder_export::volume::{DeviceVolume, Volume};
use larder_net::sockets::SocketBackend;
use proptest::prelude::*;

use super::{BACKENDS, Served, memory};
use crate::client::{Bytes, Client, OPTION_MAGIC, READ};
use crate::held::until;

const BYTES: usize = 1 << 20;

#[test]
fn noise_ends_its_connection_and_no_other() {
    let device = memory(BYTES);
    for backend in BACKENDS {
        let served = Served::device(Arc::clone(&device) as _, backend);
        let mut good = Client::open(&served.socket());
        let mut chance = fastrand::Rng::with_seed(7);
        for round in 0..60 {
            let mut client = match round % 2 {
                0 => Client::connect(&served.socket()),
                _ => Client::open(&served.socket()),
            };
            let mut noise = vec![0; chance.usize(1..5000)];
            chance.fill(&mut noise);
            // The server may close the connection before all bytes are sent.
            let _ = client.stream.write_all(&noise);
            assert_eq!(good.call(READ, 0, 0, 512).error, 0);
        }
        drop(good);
        served.end();
    }
    assert!(device.bytes().iter().all(|byte| *byte == 0));
}

/// The client requests much more data than a connection may hold, and reads no replies. Other clients are still
/// served. When the client reads, it gets all its replies.
#[test]
fn a_client_that_reads_no_replies_stops_only_itself() {
    for backend in BACKENDS {
        let served = Served::device(memory(BYTES) as _, backend);
        let mut greedy = Client::open(&served.socket());
        greedy.stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
        let mut asked = 0;
        let header = |cookie| {
            let header = Bytes::default().u32(0x2560_9513).u16(0).u16(READ);
            header.u64(cookie).u64(0).u32(1 << 20).0
        };
        // Replies of 300 MiB in total.
        while asked < 300 && greedy.stream.write_all(&header(asked)).is_ok() {
            asked += 1;
        }
        let mut good = Client::open(&served.socket());
        for _ in 0..50 {
            assert_eq!(good.call(READ, 0, 4096, 4096).error, 0);
        }
        for _ in 0..asked {
            assert_eq!(greedy.reply(|_| 1 << 20).data.len(), 1 << 20);
        }
    }
}

#[test]
fn a_long_option_is_skipped_and_takes_no_memory() {
    let served = Served::device(memory(BYTES) as _, SocketBackend::IoUring);
    let mut client = Client::connect(&served.socket());
    client.flags(3);
    client.send(&Bytes::default().u64(OPTION_MAGIC).u32(6).u32(20 << 20).0);
    for _ in 0..20 {
        client.send(&vec![0x41; 1 << 20]);
    }
    assert_eq!(client.replies(6), Err(9));
    client.go("").unwrap();
    assert_eq!(client.call(READ, 0, 0, 512).error, 0);
}

#[test]
fn a_refused_payload_is_skipped_and_takes_no_memory() {
    let device = memory(BYTES);
    let served = Served::device(Arc::clone(&device) as _, SocketBackend::IoUring);
    let mut client = Client::open(&served.socket());
    client.ask(1, 0, 0, 64 << 20, &[]);
    for megabyte in 0..64 {
        if megabyte == 63 {
            // The reply comes behind all of it.
            client.assert_quiet(Duration::from_millis(100));
        }
        client.send(&vec![0x41; 1 << 20]);
    }
    assert_eq!(client.reply(|_| 0).error, 28, "behind the end");
    assert_eq!(client.call(READ, 0, 0, 512).data, [0; 512]);
    assert!(device.bytes().iter().all(|byte| *byte == 0));
}

#[test]
fn too_many_connections_are_closed_and_one_that_goes_makes_room() {
    let export = super::export("x", memory(BYTES));
    let served = Served::start_with(vec![export], |config| config.connections_max = 2);
    let one = Client::open(&served.socket());
    let _other = Client::open(&served.socket());
    let mut third = std::os::unix::net::UnixStream::connect(served.socket()).unwrap();
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut third, &mut rest).unwrap();
    assert!(rest.is_empty());
    drop(one);
    until(|| served.server.as_ref().unwrap().connections() == 1);
    Client::open(&served.socket());
}

/// Options and requests, some of them valid, with bytes changed at random.
fn conversation() -> impl Strategy<Value = Vec<u8>> {
    let string = prop_oneof![Just("one"), Just("two"), Just(""), Just("base:allocation")];
    let option = (0..13_u32, prop::collection::vec((string, 0..3_u32), 0..4)).prop_map(
        |(option, strings)| {
            let content = strings.iter().fold(Bytes::default(), |content, (text, number)| {
                content.string(text).u32(*number)
            });
            let len = u32::try_from(content.0.len()).unwrap();
            Bytes::default().u64(OPTION_MAGIC).u32(option).u32(len).raw(&content.0).0
        },
    );
    let go = Just(Bytes::default().u64(OPTION_MAGIC).u32(7).u32(6).string("").u16(0).0);
    let request =
        (0..9_u16, 0..32_u16, 0..3_u64 << 19, 0..5000_u32).prop_map(|(kind, flags, at, bytes)| {
            let header = Bytes::default().u32(0x2560_9513).u16(flags).u16(kind).u64(1);
            let payload = vec![7; if kind == 1 { bytes as usize } else { 0 }];
            header.u64(at).u32(bytes).raw(&payload).0
        });
    let part = prop_oneof![4 => option, 1 => go, 4 => request];
    let change = (any::<prop::sample::Index>(), any::<u8>());
    let parts = (prop::collection::vec(part, 0..12), prop::collection::vec(change, 0..4));
    parts.prop_map(|(parts, changes)| {
        let mut bytes = Bytes::default().u32(3).raw(&parts.concat()).0;
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_bytes_are_understood_the_same_whole_and_in_pieces(bytes in conversation()) {
        let volume: Arc<dyn Volume> = Arc::new(DeviceVolume::new(memory(BYTES)));
        fuzzing::connection(&volume, &bytes);
    }
}
