//! All protocols decode the same reply, and refuse the same invalid bytes.

use super::*;
use larder_workload::Op;

const ALL: [Protocol; 5] = [
    Protocol::Memcached,
    Protocol::MemcachedMeta,
    Protocol::MemcachedBinary,
    Protocol::Resp2,
    Protocol::Resp3,
];

fn ask(op: Op, key: u64) -> KeyRequest {
    KeyRequest { op, key, key_bytes: 20, value_bytes: 30, ttl_s: 0 }
}

/// The value of a key as in a reply.
fn value(values: &Values, key: u64) -> Vec<u8> {
    let mut value = Vec::new();
    values.put(key, 30, 1, &mut value);
    value
}

/// A reply to a request for keys 1 to 3, of which the second is missing.
fn three(protocol: Protocol, values: &Values) -> Vec<u8> {
    let (one, three) = (value(values, 1), value(values, 3));
    let text = |key: u64, value: &[u8]| {
        [format!("VALUE {key:020x} 0 30\r\n").as_bytes(), value, b"\r\n"].concat()
    };
    let bulk = |value: &[u8]| [b"$30\r\n", value, b"\r\n"].concat();
    match protocol {
        Protocol::Memcached => [text(1, &one), text(3, &three), b"END\r\n".to_vec()].concat(),
        Protocol::MemcachedMeta => {
            [&b"VA 30\r\n"[..], &one, b"\r\nEN\r\nVA 30\r\n", &three, b"\r\n"].concat()
        }
        Protocol::MemcachedBinary => [
            packet(0x0d, 0, 0, (1, &one)),
            packet(0x0d, 0, 2, (3, &three)),
            packet(0x0a, 0, 3, (0, b"")),
        ]
        .concat(),
        Protocol::Resp2 => {
            [b"*3\r\n".to_vec(), bulk(&one), b"$-1\r\n".to_vec(), bulk(&three)].concat()
        }
        Protocol::Resp3 => {
            [b"*3\r\n".to_vec(), bulk(&one), b"_\r\n".to_vec(), bulk(&three)].concat()
        }
    }
}

/// An answer of the binary protocol. With a value it has flags too, and the key unless that is 0.
fn packet(opcode: u8, status: u8, opaque: u8, (key, value): (u64, &[u8])) -> Vec<u8> {
    let key = if key == 0 { String::new() } else { format!("{key:020x}") };
    let extras: &[u8] = if value.is_empty() { b"" } else { b"flag" };
    let byte = |length: usize| u8::try_from(length).unwrap();
    let body = byte(extras.len() + key.len() + value.len());
    let mut bytes = vec![0x81, opcode, 0, byte(key.len()), byte(extras.len()), 0, 0, status];
    bytes.extend([0, 0, 0, body, 0, 0, 0, opaque, 0, 0, 0, 0, 0, 0, 0, 0]);
    [&bytes, extras, key.as_bytes(), value].concat()
}

fn read(
    protocol: Protocol,
    bytes: &[u8],
    asked: ExpectedReply,
    keys: &[u64],
) -> (Result<Step, ProtocolViolation>, Vec<bool>) {
    let values = Values::new(1);
    let mut hit = vec![false; keys.len()];
    let step = reply(protocol, bytes, asked, &mut Hits { keys, values: &values, hit: &mut hit });
    (step, hit)
}

#[test]
fn a_reply_is_read_when_it_has_come_whole() {
    let values = Values::new(1);
    for protocol in ALL {
        let bytes = three(protocol, &values);
        for end in 0..bytes.len() {
            let (step, _) = read(protocol, &bytes[..end], ExpectedReply::Get(3), &[1, 2, 3]);
            let Ok(Step::Needs(least)) = step else { panic!("{protocol:?} {end}: {step:?}") };
            assert!((end + 1..=bytes.len()).contains(&least), "{protocol:?} {end}: {least}");
        }
        let behind = [bytes.clone(), b"more".to_vec()].concat();
        let (step, hit) = read(protocol, &behind, ExpectedReply::Get(3), &[1, 2, 3]);
        let whole = Reply { bytes: bytes.len(), hits: 2, wrong: 0, refused: false };
        assert_eq!(step, Ok(Step::Whole(whole)), "{protocol:?}");
        assert_eq!(hit, [true, false, true], "{protocol:?}");
    }
}

#[test]
fn a_value_of_another_key_is_wrong() {
    let values = Values::new(1);
    for protocol in ALL {
        let mut bytes = three(protocol, &values);
        // In the last value; behind it there is little, or the answer of a noop.
        let behind = if protocol == Protocol::MemcachedBinary { 24 } else { 0 };
        let last = bytes.len() - 8 - behind;
        bytes[last] ^= 1;
        let (step, _) = read(protocol, &bytes, ExpectedReply::Get(3), &[1, 2, 3]);
        let Ok(Step::Whole(Reply { wrong, .. })) = step else { panic!("{step:?}") };
        assert_eq!(wrong, 1, "{protocol:?}");
    }
}

#[test]
fn refusals_are_counted_and_nonsense_is_not_read() {
    for (protocol, refusal, stored) in [
        (Protocol::Memcached, "SERVER_ERROR out of memory\r\n", "STORED\r\n"),
        (Protocol::MemcachedMeta, "SERVER_ERROR out of memory\r\n", "HD\r\n"),
        (Protocol::Resp2, "-OOM no\r\n", "+OK\r\n"),
        (Protocol::Resp3, "-OOM no\r\n", "+OK\r\n"),
    ] {
        let (step, _) = read(protocol, refusal.as_bytes(), ExpectedReply::Set, &[]);
        assert!(matches!(step, Ok(Step::Whole(Reply { refused: true, .. }))), "{step:?}");
        let (step, _) = read(protocol, stored.as_bytes(), ExpectedReply::Set, &[]);
        assert!(matches!(step, Ok(Step::Whole(Reply { refused: false, .. }))), "{step:?}");
        for nonsense in ["HTTP/1.1 400 Bad Request\r\n", "$99999999999999999999\r\n", "VALUE\r\n"] {
            assert!(read(protocol, nonsense.as_bytes(), ExpectedReply::Get(1), &[1]).0.is_err());
        }
        let length = format!("VALUE 1 0 {0}\r\n", usize::MAX - 20);
        assert!(
            read(protocol, length.as_bytes(), ExpectedReply::Get(1), &[1]).0.is_err(),
            "{length}"
        );
        assert!(
            read(protocol, &[b'x'; 10_000], ExpectedReply::Set, &[]).0.is_err(),
            "no end of a line"
        );
    }
}

#[test]
fn answers_of_the_binary_protocol_are_of_what_was_asked() {
    let values = Values::new(1);
    let (one, two) = (value(&values, 1), value(&values, 2));
    let read = |bytes: &[u8], asked| read(Protocol::MemcachedBinary, bytes, asked, &[1, 2]).0;
    let whole = |step: Result<Step, ProtocolViolation>| match step {
        Ok(Step::Whole(reply)) => (reply.hits, reply.wrong, reply.refused),
        other => panic!("{other:?}"),
    };
    let noop = packet(0x0a, 0, 2, (0, b""));
    // One key: found, wrong, not found, refused. The same for set and delete.
    assert_eq!(whole(read(&packet(0, 0, 0, (0, &one)), ExpectedReply::Get(1))), (1, 0, false));
    assert_eq!(whole(read(&packet(0, 0, 0, (0, &two)), ExpectedReply::Get(1))), (1, 1, false));
    assert_eq!(
        whole(read(&packet(0, 1, 0, (0, b"Not found")), ExpectedReply::Get(1))),
        (0, 0, false)
    );
    assert_eq!(whole(read(&packet(0, 0x82, 0, (0, b"no")), ExpectedReply::Get(1))), (0, 0, true));
    assert_eq!(whole(read(&packet(1, 0, 0, (0, b"")), ExpectedReply::Set)), (0, 0, false));
    assert_eq!(whole(read(&packet(1, 3, 0, (0, b"Too large.")), ExpectedReply::Set)), (0, 0, true));
    assert_eq!(whole(read(&packet(4, 1, 0, (0, b"")), ExpectedReply::Delete)), (0, 0, false));
    assert_eq!(whole(read(&packet(4, 0x20, 0, (0, b"")), ExpectedReply::Delete)), (0, 0, true));
    assert_eq!(whole(read(&packet(0x21, 0x20, 0, (0, b"")), ExpectedReply::Hello)), (0, 0, true));
    // Several keys: no answer is a miss, and another key's value is wrong.
    assert_eq!(whole(read(&noop, ExpectedReply::Get(2))), (0, 0, false));
    let other = [packet(0x0d, 0, 0, (2, &one)), noop.clone()].concat();
    assert_eq!(whole(read(&other, ExpectedReply::Get(2))), (1, 1, false));
    let refused = [packet(0x0d, 0x85, 1, (0, b"busy")), noop.clone()].concat();
    assert_eq!(whole(read(&refused, ExpectedReply::Get(2))), (0, 0, true));
    // Unrequested answers: the same twice, a third key, another command's, a noop of another request, an impossible
    // length, and a contradictory one.
    let hit = packet(0x0d, 0, 1, (2, &two));
    let (third, mut long) = (packet(0x0d, 0, 2, (2, &two)), hit.clone());
    long[8] = 0xff;
    let mut contradicts = hit.clone();
    contradicts[11] = 3;
    for bytes in [
        [&hit[..], &hit, &noop].concat(),
        [&third[..], &noop].concat(),
        packet(1, 0, 0, (0, b"")),
        packet(0x0a, 0, 3, (0, b"")),
        long,
        contradicts,
    ] {
        assert!(read(&bytes, ExpectedReply::Get(2)).is_err(), "{}", bytes.escape_ascii());
    }
}

#[test]
fn what_hello_answers_is_passed_over() {
    let map = b"%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nmodules\r\n*0\r\n";
    for end in 1..map.len() {
        assert!(matches!(
            read(Protocol::Resp3, &map[..end], ExpectedReply::Hello, &[]).0,
            Ok(Step::Needs(_))
        ));
    }
    let (step, _) = read(Protocol::Resp3, map, ExpectedReply::Hello, &[]);
    assert_eq!(step, Ok(Step::Whole(Reply { bytes: map.len(), ..Reply::default() })));
}

#[test]
fn requests_are_as_servers_read_them() {
    let values = Values::new(1);
    let mut out = Vec::new();
    get(Protocol::Resp2, &[ask(Op::Get, 0xabc)], &mut out);
    assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$20\r\n00000000000000000abc\r\n");
    out.clear();
    let long = KeyRequest { key_bytes: 2, ..ask(Op::Delete, 0x12345) };
    delete(Protocol::Resp2, &long, &mut out);
    assert_eq!(out, b"*2\r\n$3\r\nDEL\r\n$5\r\n12345\r\n", "as long as its digits");
    out.clear();
    set(
        Protocol::MemcachedBinary,
        &KeyRequest { ttl_s: 258, ..ask(Op::Set, 1) },
        (&values, 1),
        &mut out,
    );
    assert_eq!(out[..16], [0x80, 1, 0, 20, 8, 0, 0, 0, 0, 0, 0, 58, 0, 0, 0, 0]);
    assert_eq!(out[24..52], *b"\0\0\0\0\0\0\x01\x0200000000000000000001");
    assert_eq!(out[52..], value(&values, 1));
    out.clear();
    get(Protocol::MemcachedBinary, &[ask(Op::Get, 1), ask(Op::Get, 2)], &mut out);
    assert_eq!((out[1], out[45], out[89]), (0x0d, 0x0d, 0x0a), "quiet gets, and a noop");
    assert_eq!((out[15], out[59], out[103], out.len()), (0, 1, 2, 112), "numbered");
    out.clear();
    let login = ("me".to_owned(), "secret".to_owned());
    assert_eq!(open(Protocol::MemcachedBinary, Some(&login), &mut out), 1);
    assert_eq!((out[1], &out[24..]), (0x21, &b"PLAIN\0me\0secret"[..]));
    out.clear();
    set(Protocol::MemcachedMeta, &ask(Op::Set, 1), (&values, 1), &mut out);
    assert!(out.starts_with(b"ms 00000000000000000001 30 T0\r\n") && out.ends_with(b"\r\n"));
}
