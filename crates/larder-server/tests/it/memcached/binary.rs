//! The binary protocol.

use std::io::Read;

use crate::serving::{Client, in_memory};

/// A big-endian number of `bytes` bytes.
fn big_endian(number: u64, bytes: u32) -> Vec<u8> {
    (0..bytes).rev().map(|at| u8::try_from(number >> (8 * at) & 0xff).unwrap()).collect()
}

/// A request; `extras`, `key` and `value` follow its header.
pub(super) fn packet(opcode: u8, extras: &[u8], key: &[u8], value: &[u8], cas: u64) -> Vec<u8> {
    let body = (extras.len() + key.len() + value.len()) as u64;
    let mut bytes = vec![0x80, opcode];
    bytes.extend_from_slice(&big_endian(key.len() as u64, 2));
    bytes.extend_from_slice(&[u8::try_from(extras.len()).unwrap(), 0, 0, 0]);
    bytes.extend_from_slice(&big_endian(body, 4));
    bytes.extend_from_slice(b"tags");
    bytes.extend_from_slice(&big_endian(cas, 8));
    [bytes.as_slice(), extras, key, value].concat()
}

/// Status, cas and body of the next answer, which must be to a request with this opcode.
#[track_caller]
pub(super) fn hears(client: &mut Client, opcode: u8) -> (u16, u64, Vec<u8>) {
    let mut header = [0; 24];
    client.0.read_exact(&mut header).unwrap();
    assert_eq!((header[0], header[1], &header[12..16]), (0x81, opcode, &b"tags"[..]));
    let number = |at: usize, bytes: usize| {
        header[at..at + bytes].iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
    };
    let mut body = vec![0; usize::try_from(number(8, 4)).unwrap()];
    client.0.read_exact(&mut body).unwrap();
    (u16::try_from(number(6, 2)).unwrap(), number(16, 8), body)
}

const SET: [u8; 8] = [0, 0, 0, 7, 0, 0, 0, 0];

#[test]
fn values_are_stored_found_and_deleted() {
    let server = in_memory();
    let mut client = Client::memcached(&server);
    client.send(packet(0x00, b"", b"a", b"", 0));
    assert_eq!(hears(&mut client, 0x00), (1, 0, b"Not found".to_vec()));
    client.send(packet(0x01, &SET, b"a", b"value", 0));
    let (status, cas, body) = hears(&mut client, 0x01);
    assert_eq!((status, body), (0, Vec::new()));
    client.send(packet(0x0c, b"", b"a", b"", 0));
    assert_eq!(hears(&mut client, 0x0c), (0, cas, b"\0\0\0\x07avalue".to_vec()));
    client.send(packet(0x01, &SET, b"a", b"other", cas + 1));
    assert_eq!(hears(&mut client, 0x01).0, 2);
    client.send(packet(0x04, b"", b"a", b"", cas));
    assert_eq!(hears(&mut client, 0x04).0, 0);
    client.send(packet(0x04, b"", b"a", b"", 0));
    assert_eq!(hears(&mut client, 0x04).0, 1);
}

#[test]
fn quiet_requests_are_answered_only_if_there_is_something_to_say() {
    let server = in_memory();
    let mut client = Client::memcached(&server);
    client.send(packet(0x11, &SET, b"a", b"value", 0));
    client.send(packet(0x09, b"", b"nothing", b"", 0));
    client.send(packet(0x09, b"", b"a", b"", 0));
    client.send(packet(0x12, &SET, b"a", b"value", 0));
    client.send(packet(0x0a, b"", b"", b"", 0));
    assert_eq!(hears(&mut client, 0x09).2, b"\0\0\0\x07value");
    assert_eq!(hears(&mut client, 0x12).0, 2, "it is there");
    assert_eq!(hears(&mut client, 0x0a).0, 0);
    client.send(packet(0x17, b"", b"", b"", 0));
    client.is_closed();
}

#[test]
fn numbers_are_made_and_counted() {
    let server = in_memory();
    let mut client = Client::memcached(&server);
    let extras = |delta: u64, initial: u64, exptime: u32| {
        [big_endian(delta, 8), big_endian(initial, 8), big_endian(exptime.into(), 4)].concat()
    };
    client.send(packet(0x05, &extras(1, 5, u32::MAX), b"n", b"", 0));
    assert_eq!(hears(&mut client, 0x05).0, 1);
    client.send(packet(0x05, &extras(1, 5, 0), b"n", b"", 0));
    let (status, _, body) = hears(&mut client, 0x05);
    assert_eq!((status, body), (0, big_endian(5, 8)));
    client.send(packet(0x06, &extras(7, 5, 0), b"n", b"", 0));
    let (status, cas, body) = hears(&mut client, 0x06);
    assert_eq!((status, body), (0, big_endian(0, 8)));
    client.send(packet(0x00, b"", b"n", b"", 0));
    assert_eq!(hears(&mut client, 0x00), (0, cas, b"\0\0\0\x000".to_vec()));
}

#[test]
fn what_is_wrong_is_named() {
    let server = in_memory();
    let mut client = Client::memcached(&server);
    client.send(packet(0x01, b"", b"a", b"value", 0));
    assert_eq!(hears(&mut client, 0x01), (4, 0, b"Invalid arguments".to_vec()));
    client.send(packet(0x70, b"", b"a", b"", 0));
    assert_eq!(hears(&mut client, 0x70).0, 0x81);
    client.send(packet(0x01, &SET, b"a", b"v", 0));
    assert_eq!(hears(&mut client, 0x01).0, 0);
    client.send(packet(0x01, &SET, b"a", &vec![b'x'; (1 << 20) + 1], 0));
    assert_eq!(hears(&mut client, 0x01).0, 3);
    client.send(packet(0x00, b"", b"a", b"", 0));
    assert_eq!(hears(&mut client, 0x00).0, 1, "the old one is gone");
    client.send(packet(0x00, b"", &[b'k'; 251], b"", 0));
    assert_eq!(hears(&mut client, 0x00).0, 4);
    client.is_closed();
    let mut client = Client::memcached(&server);
    let mut contradiction = packet(0x00, b"", b"a", b"", 0);
    contradiction[11] = 0;
    client.send(contradiction);
    client.is_closed();
}

/// A conditional request may not have meant the existing value.
#[test]
fn a_refused_value_with_a_condition_leaves_the_old_one() {
    let server = in_memory();
    let mut client = Client::memcached(&server);
    let long = vec![b'x'; (1 << 20) + 1];
    for (opcode, cas, stays) in
        [(1, 0, false), (1, 7, true), (2, 0, true), (3, 0, true), (14, 0, true), (15, 0, true)]
    {
        client.send(packet(0x01, &SET, b"a", b"old", 0));
        assert_eq!(hears(&mut client, 0x01).0, 0);
        let extras = if opcode < 4 { &SET[..] } else { &[] };
        client.send(packet(opcode, extras, b"a", &long, cas));
        assert_eq!(hears(&mut client, opcode).0, 3, "{opcode}");
        client.send(packet(0x00, b"", b"a", b"", 0));
        assert_eq!(hears(&mut client, 0x00).0 == 0, stays, "{opcode} {cas}");
    }
}

/// The binary protocol has no negative lifetimes: 0xffffffff is a second in 2106.
#[test]
fn lifetimes_are_not_negative() {
    let server = in_memory();
    let mut client = Client::memcached(&server);
    let lives = |client: &mut Client| {
        client.send(packet(0x00, b"", b"a", b"", 0));
        hears(client, 0x00).0 == 0
    };
    let set = |client: &mut Client, exptime: u32| {
        let extras = [big_endian(0, 4), big_endian(exptime.into(), 4)].concat();
        client.send(packet(0x01, &extras, b"a", b"old", 0));
        assert_eq!(hears(client, 0x01).0, 0);
    };
    for exptime in [u32::MAX, 1 << 31, 2_592_000] {
        set(&mut client, exptime);
        assert!(lives(&mut client), "{exptime}");
        client.send(packet(0x1c, &big_endian(exptime.into(), 4), b"a", b"", 0));
        let (status, _, flags) = hears(&mut client, 0x1c);
        assert_eq!((status, &flags[..]), (0, &[0; 4][..]));
        assert!(lives(&mut client), "{exptime}");
    }
    set(&mut client, 2_592_001);
    assert!(!lives(&mut client), "in 1970");
}
