//! Clients that disconnect while their requests are in flight, and connect again.

use std::sync::Arc;

use super::{BACKENDS, Served, export};
use crate::client::{Client, DISC, READ};
use crate::held::{held_device, is_change, until};

const BYTES: usize = 1 << 20;

/// The device holds a write of a connection that is closed. A write that the client sends on its next connection takes
/// effect after the held one, at any offset.
#[test]
fn a_write_of_a_dead_connection_lands_before_those_of_the_next() {
    for backend in BACKENDS {
        let device = held_device(BYTES);
        let served = Served::device(Arc::clone(&device) as _, backend);
        let mut dying = Client::open(&served.socket());
        device.hold(is_change);
        dying.write(0, &[1; 4096]);
        device.wait_for(1);
        drop(dying);

        let mut back = Client::open(&served.socket());
        let read = back.call(READ, 0, 0, 4096);
        assert_eq!(read.data, [0; 4096], "reads do not wait");
        // At another offset than the old write: the volume alone would not hold it back.
        back.write(65536, &[2; 4096]);
        back.write(0, &[3; 4096]);
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(device.waiting(), 1, "the old write is under way");
        device.let_go();
        device.wait_for(2);
        device.let_go();
        device.let_go();
        for _ in 0..2 {
            assert_eq!(back.reply(|_| 0).error, 0);
        }
        assert_eq!(device.inner().bytes()[..4096], [3; 4096]);
        served.end();
    }
}

/// The client sent more than a connection may have in flight before it disconnected. Requests that had not begun never
/// begin.
#[test]
fn what_was_not_begun_when_a_client_went_never_is() {
    for backend in BACKENDS {
        let device = held_device(64 << 20);
        let served = Served::device(Arc::clone(&device) as _, backend);
        let mut dying = Client::open(&served.socket());
        device.hold(is_change);
        // The held write has the largest size, so the next request waits in the connection or in its socket.
        dying.write(0, &vec![1; 32 << 20]);
        dying.write(32 << 20, &[1; 4096]);
        device.wait_for(1);
        drop(dying);
        let mut back = Client::open(&served.socket());
        back.write(32 << 20, &[2; 4096]);
        device.hold(|_| false);
        device.let_go();
        assert_eq!(back.reply(|_| 0).error, 0);
        until(|| served.server.as_ref().unwrap().connections() == 1);
        let bytes = device.inner().bytes();
        assert_eq!(bytes[..4096], [1; 4096]);
        assert_eq!(bytes[32 << 20..][..4096], [2; 4096]);
        served.end();
    }
}

/// A write whose payload is incomplete is not carried out.
#[test]
fn a_write_that_came_in_part_is_not_done() {
    for backend in BACKENDS {
        let device = held_device(BYTES);
        let served = Served::device(Arc::clone(&device) as _, backend);
        let mut client = Client::open(&served.socket());
        client.ask(1, 0, 0, 8192, &[7; 8191]);
        drop(client);
        until(|| served.server.as_ref().unwrap().connections() == 0);
        assert!(device.inner().bytes().iter().all(|byte| *byte == 0));
        served.end();
    }
}

#[test]
fn a_connection_counts_until_what_it_began_has_ended() {
    let device = held_device(BYTES);
    let served = Served::device(Arc::clone(&device) as _, BACKENDS[0]);
    let mut client = Client::open(&served.socket());
    device.hold(is_change);
    client.write(0, &[1; 4096]);
    client.ask(DISC, 0, 0, 0, &[]);
    device.wait_for(1);
    assert_eq!(served.server.as_ref().unwrap().connections(), 1);
    device.let_go();
    assert_eq!(client.reply(|_| 0).error, 0, "a client that disconnects still gets its answer");
    client.expect_end();
    until(|| served.server.as_ref().unwrap().connections() == 0);
}

/// Connected clients keep the order of their own requests.
#[test]
fn a_stalled_write_of_one_that_is_there_holds_up_no_other() {
    let device = held_device(BYTES);
    let served = Served::device(Arc::clone(&device) as _, BACKENDS[0]);
    let mut one = Client::open(&served.socket());
    device.hold(is_change);
    one.write(0, &[1; 4096]);
    device.wait_for(1);
    device.hold(|_| false);
    let mut other = Client::open(&served.socket());
    other.write(8192, &[2; 4096]);
    assert_eq!(other.reply(|_| 0).error, 0);
    device.let_go();
    assert_eq!(one.reply(|_| 0).error, 0);
}

/// An export is removed. Requests that have begun end and are answered, and no further ones begin. Other exports stay
/// available.
#[test]
fn a_client_of_a_removed_export_gets_replies_to_what_has_begun_and_no_more() {
    for backend in BACKENDS {
        let (held, other) = (held_device(BYTES), held_device(BYTES));
        let both = vec![export("pantry", Arc::clone(&held) as _), export("larder", other as _)];
        let served = Served::start(both, backend);
        let exports = served.server.as_ref().unwrap().exports();
        let mut client = Client::open(&served.socket());
        let mut idle = Client::open(&served.socket());
        let mut of_other = Client::connect(&served.socket());
        of_other.flags(3);
        of_other.go("larder").unwrap();
        held.hold(is_change);
        let cookie = client.write(0, &[1; 4096]);
        held.wait_for(1);

        let withdrawn = exports.remove("pantry").unwrap();
        idle.expect_end();
        let mut late = Client::connect(&served.socket());
        late.flags(3);
        assert!(late.go("pantry").is_err(), "none has this name");
        client.write(65536, &[2; 4096]);
        assert!(!withdrawn.wait(std::time::Duration::from_millis(20)), "a write is under way");
        held.let_go();
        assert_eq!(client.reply(|_| 0).cookie, cookie);
        client.expect_end();
        assert!(withdrawn.wait(std::time::Duration::from_secs(10)));
        assert_eq!(Arc::strong_count(&held), 1, "it was let go of");
        assert_eq!(
            (held.inner().bytes()[0], held.inner().bytes()[65536], held.waiting()),
            (1, 0, 0)
        );
        assert_eq!(of_other.call(READ, 0, 0, 4096).data, [0; 4096]);

        exports.add(export("pantry", Arc::clone(&held) as _)).unwrap();
        late.go("pantry").unwrap();
        assert_eq!(late.call(READ, 0, 0, 4096).data, [1; 4096]);
        served.end();
    }
}
