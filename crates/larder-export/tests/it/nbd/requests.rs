//! Requests and their replies: compared with an array, several at a time, and on several connections.

use std::collections::HashMap;
use std::sync::Arc;

use larder_device::{Condition, DegradedDevice, Io, RealClock};
use larder_net::sockets::SocketBackend;
use proptest::prelude::*;

use super::{BACKENDS, Served, export, is_there, memory};
use crate::client::{Client, FLUSH, FUA, READ, TRIM, WRITE, WRITE_ZEROES};
use crate::held::{held_device, is_change, until};

const BYTES: usize = 256 << 10;
const EPERM: u32 = 1;
const EIO: u32 = 5;
const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;
const ENOTSUP: u32 = 95;

fn size(len: usize) -> u32 {
    u32::try_from(len).unwrap()
}

#[derive(Clone, Debug)]
enum Op {
    Read,
    Write(u8, u16),
    Zero(u16),
}

fn op() -> impl Strategy<Value = (Op, usize, usize)> {
    let kind = prop_oneof![
        Just(Op::Read),
        (any::<u8>(), 0..2_u16).prop_map(|(fill, flags)| Op::Write(fill, flags)),
        (0..4_u16).prop_map(Op::Zero),
    ];
    let len = prop_oneof![4 => 1..10_000_usize, 1 => 1..BYTES];
    let range = (0..BYTES, len).prop_map(|(at, len)| (at, len.min(BYTES - at)));
    (kind, range).prop_map(|(kind, (at, len))| (kind, at, len))
}

/// Sends a batch and takes all replies. The batch has no order, because no two of its requests overlap.
fn exchange(client: &mut Client, batch: &[(Op, usize, usize)], model: &mut [u8]) {
    let mut asked = HashMap::new();
    for (op, at, len) in batch {
        let offset = *at as u64;
        let cookie = match op {
            Op::Read => client.ask(READ, 0, offset, size(*len), &[]),
            Op::Write(fill, flags) => {
                model[*at..at + len].fill(*fill);
                client.ask(WRITE, *flags, offset, size(*len), &vec![*fill; *len])
            }
            Op::Zero(flags) => {
                model[*at..at + len].fill(0);
                client.ask(WRITE_ZEROES, *flags, offset, size(*len), &[])
            }
        };
        asked.insert(cookie, (op.clone(), *at, *len));
    }
    while !asked.is_empty() {
        let reply = client.reply(|cookie| match &asked[&cookie] {
            (Op::Read, _, len) => *len,
            _ => 0,
        });
        let (op, at, len) = asked.remove(&reply.cookie).expect("each is answered once");
        assert_eq!(reply.error, 0, "{op:?} of {len} at {at}");
        if matches!(op, Op::Read) {
            assert!(reply.data == model[at..at + len], "read of {len} at {at}");
        }
    }
}

/// Splits requests into runs in which no two overlap.
fn batches(ops: Vec<(Op, usize, usize)>) -> Vec<Vec<(Op, usize, usize)>> {
    let mut batches: Vec<Vec<(Op, usize, usize)>> = vec![Vec::new()];
    for op in ops {
        let overlaps =
            |other: &(Op, usize, usize)| op.1 < other.1 + other.2 && other.1 < op.1 + op.2;
        if batches.last().unwrap().iter().any(overlaps) {
            batches.push(Vec::new());
        }
        batches.last_mut().unwrap().push(op);
    }
    batches
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_clients_write_is_what_they_read(
        ops in prop::collection::vec(op(), 1..120),
        structured in any::<bool>(),
        backend in prop::sample::select(BACKENDS.to_vec()),
    ) {
        let device = memory(BYTES);
        let served = Served::device(Arc::clone(&device) as _, backend);
        let mut client = match structured {
            true => Client::open_structured(&served.socket(), &["base:allocation"]),
            false => Client::open(&served.socket()),
        };
        let mut model = vec![0; BYTES];
        for batch in batches(ops) {
            exchange(&mut client, &batch, &mut model);
        }
        prop_assert_eq!(client.call(FLUSH, 0, 0, 0).error, 0);
        prop_assert!(device.bytes() == model);
        served.end();
    }
}

#[test]
fn long_requests_pass_by_either_way_of_sockets() {
    for backend in BACKENDS {
        let device = memory(40 << 20);
        let served = Served::device(Arc::clone(&device) as _, backend);
        let mut client = Client::open(&served.socket());
        let mut long = vec![0; 32 << 20];
        fastrand::Rng::with_seed(1).fill(&mut long);
        let (first, second) = (client.write(4096, &long), client.ask(READ, 0, 8192, 4096, &[]));
        let mut read = Vec::new();
        for _ in 0..2 {
            let reply = client.reply(|cookie| if cookie == second { 4096 } else { 0 });
            assert!(reply.error == 0 && (reply.cookie == first || reply.cookie == second));
            read.extend(reply.data);
        }
        assert_eq!(client.call(READ, 0, 4096, 32 << 20).data, long);
        let tail = client.call(READ, 0, 4096 + (32 << 20) - 3, 3).data;
        assert_eq!(tail, long[(32 << 20) - 3..]);
    }
}

#[test]
fn what_cannot_be_done_is_refused_and_the_next_request_is_served() {
    let device = memory(1 << 20);
    let served = Served::start(
        vec![export("rw", Arc::clone(&device) as _), export("ro", device).read_only()],
        SocketBackend::IoUring,
    );
    for structured in [false, true] {
        let mut client = match structured {
            true => Client::open_structured(&served.socket(), &[]),
            false => Client::open(&served.socket()),
        };
        let end = 1 << 20;
        assert_eq!(client.call(READ, 0, end, 1).error, EINVAL);
        assert_eq!(client.call(READ, 0, u64::MAX, 1).error, EINVAL);
        assert_eq!(client.call(READ, 0, 0, 0).error, EINVAL);
        assert_eq!(client.call(READ, 0, 0, u32::MAX).error, EINVAL);
        assert_eq!(client.call(TRIM, 0, end - 1, 2).error, EINVAL);
        assert_eq!(client.call(WRITE_ZEROES, 0, end - 1, 2).error, ENOSPC);
        assert_eq!(client.call(WRITE_ZEROES, 1 << 4, 0, 4096).error, ENOTSUP);
        assert_eq!(client.call(FLUSH, 0, 5, 0).error, EINVAL);
        assert_eq!(client.call(7, 0, 0, 512).error, EINVAL, "no context was chosen");
        assert_eq!(client.call(99, 0, 0, 512).error, EINVAL);
        // The payload of a refused write is not taken for a request.
        for (at, error) in [(end - 1, ENOSPC), (end + 4096, ENOSPC)] {
            client.write(at, &[0x25; 5000]);
            assert_eq!(client.reply(|_| 0).error, error);
        }
        client.ask(WRITE, 0x4000, 0, 5000, &[0x25; 5000]);
        assert_eq!(client.reply(|_| 0).error, EINVAL);
        assert_eq!(client.call(READ, 0, 0, 8).data, [0; 8]);
    }
    let mut client = Client::connect(&served.socket());
    client.flags(3);
    client.go("ro").unwrap();
    client.write(0, &[1; 100]);
    assert_eq!(client.reply(|_| 0).error, EPERM);
    assert_eq!(client.call(TRIM, 0, 0, 4096).error, EPERM);
    assert_eq!(client.call(WRITE_ZEROES, 0, 0, 4096).error, EPERM);
    assert_eq!(client.call(FLUSH, 0, 0, 0).error, 0);
    assert_eq!(client.call(READ, 0, 0, 100).data, [0; 100]);
}

#[test]
fn errors_of_the_device_are_told_and_the_connection_goes_on() {
    let device = DegradedDevice::new(memory(1 << 20), Arc::new(RealClock));
    let device = Arc::new(device);
    let served = Served::device(Arc::clone(&device) as _, SocketBackend::IoUring);
    let mut client = Client::open(&served.socket());
    device.becomes(Condition::Failing);
    assert_eq!(client.call(READ, 0, 0, 4096).error, EIO);
    client.write(0, &[1; 4096]);
    assert_eq!(client.reply(|_| 0).error, EIO);
    assert_eq!(client.call(FLUSH, 0, 0, 0).error, EIO);
    device.becomes(Condition::Well);
    assert_eq!(client.call(READ, 0, 0, 4096).error, 0);
}

/// A write that was answered on one connection is durable when a flush on another connection is answered.
#[test]
fn a_flush_reaches_the_device_after_the_writes_of_all_connections() {
    let device = held_device(1 << 20);
    let served = Served::device(Arc::clone(&device) as _, SocketBackend::IoUring);
    let (mut one, mut other) = (Client::open(&served.socket()), Client::open(&served.socket()));
    one.write(0, &[5; 4096]);
    assert_eq!(one.reply(|_| 0).error, 0);
    device.hold(|io| matches!(io, Io::Flush));
    other.ask(FLUSH, 0, 0, 0, &[]);
    device.wait_for(1);
    // A flush in flight holds up neither reads nor writes.
    assert_eq!(one.call(READ, 0, 0, 4096).data, [5; 4096]);
    device.let_go();
    assert_eq!(other.reply(|_| 0).error, 0);
}

/// The device must accept non-durable writes for this test. FUA reaches it as a durable write.
#[test]
fn what_is_asked_to_be_durable_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let file = Arc::new(larder_device::FileDevice::create(&path, 1 << 20).unwrap());
    let served = Served::device(Arc::clone(&file) as _, SocketBackend::IoUring);
    let mut client = Client::open(&served.socket());
    client.write(0, &[1; 4096]);
    client.reply(|_| 0);
    let durable = || larder_device::Device::stats(&*file).durable_written_bytes;
    assert_eq!(durable(), 0);
    client.ask(WRITE, FUA, 4096, 4096, &[2; 4096]);
    assert_eq!(client.reply(|_| 0).error, 0);
    assert_eq!(durable(), 4096);
    assert_eq!(client.call(READ, 0, 4095, 2).data, [1, 2]);
}

#[test]
fn what_has_begun_is_answered_before_the_server_ends() {
    let device = held_device(1 << 20);
    let mut served = Served::device(Arc::clone(&device) as _, SocketBackend::IoUring);
    let mut client = Client::open(&served.socket());
    let mut idle = Client::connect(&served.socket());
    device.hold(is_change);
    client.write(0, &[9; 4096]);
    device.wait_for(1);
    let socket = served.socket();
    let server = served.server.take().unwrap();
    let ending = std::thread::spawn(move || server.end());
    until(|| !is_there(&socket));
    assert!(!ending.is_finished());
    device.let_go();
    assert_eq!(client.reply(|_| 0).error, 0);
    client.expect_end();
    idle.expect_end();
    ending.join().unwrap().unwrap();
    assert_eq!(device.inner().bytes()[..4096], [9; 4096]);
}
