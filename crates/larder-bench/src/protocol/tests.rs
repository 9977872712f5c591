//! All protocols read the same reply, and refuse the same nonsense.

use super::*;
use larder_workload::Op;

const ALL: [Protocol; 4] =
    [Protocol::Memcached, Protocol::MemcachedMeta, Protocol::Resp2, Protocol::Resp3];

fn ask(op: Op, key: u64) -> Ask {
    Ask { op, key, key_bytes: 20, value_bytes: 30, ttl_s: 0 }
}

/// The value of a key as a reply carries it.
fn value(values: &Values, key: u64) -> Vec<u8> {
    let mut value = Vec::new();
    values.put(key, 30, 1, &mut value);
    value
}

/// A reply to a request for keys 1 to 3, of which the second is not there.
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
        Protocol::Resp2 => {
            [b"*3\r\n".to_vec(), bulk(&one), b"$-1\r\n".to_vec(), bulk(&three)].concat()
        }
        Protocol::Resp3 => {
            [b"*3\r\n".to_vec(), bulk(&one), b"_\r\n".to_vec(), bulk(&three)].concat()
        }
    }
}

fn read(
    protocol: Protocol,
    bytes: &[u8],
    asked: Asked,
    keys: &[u64],
) -> (Result<Step, Broken>, Vec<bool>) {
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
            let (step, _) = read(protocol, &bytes[..end], Asked::Get(3), &[1, 2, 3]);
            let Ok(Step::Needs(least)) = step else { panic!("{protocol:?} {end}: {step:?}") };
            assert!((end + 1..=bytes.len()).contains(&least), "{protocol:?} {end}: {least}");
        }
        let behind = [bytes.clone(), b"more".to_vec()].concat();
        let (step, hit) = read(protocol, &behind, Asked::Get(3), &[1, 2, 3]);
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
        let last = bytes.len() - 8;
        bytes[last] ^= 1;
        let (step, _) = read(protocol, &bytes, Asked::Get(3), &[1, 2, 3]);
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
        let (step, _) = read(protocol, refusal.as_bytes(), Asked::Set, &[]);
        assert!(matches!(step, Ok(Step::Whole(Reply { refused: true, .. }))), "{step:?}");
        let (step, _) = read(protocol, stored.as_bytes(), Asked::Set, &[]);
        assert!(matches!(step, Ok(Step::Whole(Reply { refused: false, .. }))), "{step:?}");
        for nonsense in ["HTTP/1.1 400 Bad Request\r\n", "$99999999999999999999\r\n", "VALUE\r\n"] {
            assert!(read(protocol, nonsense.as_bytes(), Asked::Get(1), &[1]).0.is_err());
        }
        assert!(read(protocol, &[b'x'; 10_000], Asked::Set, &[]).0.is_err(), "no end of a line");
    }
}

#[test]
fn what_hello_answers_is_passed_over() {
    let map = b"%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nmodules\r\n*0\r\n";
    for end in 1..map.len() {
        assert!(matches!(
            read(Protocol::Resp3, &map[..end], Asked::Hello, &[]).0,
            Ok(Step::Needs(_))
        ));
    }
    let (step, _) = read(Protocol::Resp3, map, Asked::Hello, &[]);
    assert_eq!(step, Ok(Step::Whole(Reply { bytes: map.len(), ..Reply::default() })));
}

#[test]
fn requests_are_as_servers_read_them() {
    let values = Values::new(1);
    let mut out = Vec::new();
    get(Protocol::Resp2, &[ask(Op::Get, 0xabc)], &mut out);
    assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$20\r\n00000000000000000abc\r\n");
    out.clear();
    let long = Ask { key_bytes: 2, ..ask(Op::Delete, 0x12345) };
    delete(Protocol::Resp2, &long, &mut out);
    assert_eq!(out, b"*2\r\n$3\r\nDEL\r\n$5\r\n12345\r\n", "as long as its digits");
    out.clear();
    set(Protocol::MemcachedMeta, &ask(Op::Set, 1), (&values, 1), &mut out);
    assert!(out.starts_with(b"ms 00000000000000000001 30 T0\r\n") && out.ends_with(b"\r\n"));
}
