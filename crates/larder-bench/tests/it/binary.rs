//! memcached's binary protocol: the test server's answers, and tests of the client.

use std::io::Read;
use std::sync::Mutex;

use larder_bench::run::{Progress, fill, measure};
use larder_bench::{Load, Workload};

use crate::load;
use crate::server::{Behaviour, Server};

/// The first byte of a request.
pub(crate) const REQUEST: u8 = 0x80;

/// Reads one request of `get`, `set`, quiet `get` with key, or `noop`, and answers it as memcached does.
pub(crate) fn answer(from: &mut impl Read, behaviour: &Mutex<Behaviour>) -> Option<Vec<u8>> {
    let mut header = [0; 24];
    from.read_exact(&mut header).ok()?;
    let key_bytes = usize::from(header[2]) << 8 | usize::from(header[3]);
    let body_bytes = header[8..12].iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    let mut body = vec![0; body_bytes];
    from.read_exact(&mut body).ok()?;
    let (front, value) = body.split_at(usize::from(header[4]) + key_bytes);
    let key = String::from_utf8(front[usize::from(header[4])..].to_vec()).ok()?;
    let mut behaviour = behaviour.lock().unwrap();
    let (status, extras, key, value): (u8, &[u8], &str, &[u8]) = match header[1] {
        0x00 => match behaviour.values.get(&key) {
            Some(value) => (0, b"flag", "", value),
            None => (1, b"", "", b"Not found"),
        },
        0x01 => {
            behaviour.values.insert(key, value.to_vec());
            (0, b"", "", b"")
        }
        0x0d => match behaviour.values.get(&key) {
            Some(value) => (0, b"flag", &key, value),
            // A quiet get sends no answer for a miss.
            None => return Some(Vec::new()),
        },
        0x0a => (0, b"", "", b""),
        _ => (0x81, b"", "", b"Unknown command"),
    };
    let body = u32::try_from(extras.len() + key.len() + value.len()).unwrap();
    let (key_bytes, extras_bytes) =
        (u8::try_from(key.len()).unwrap(), u8::try_from(extras.len()).unwrap());
    let mut answer = vec![0x81, header[1], 0, key_bytes, extras_bytes, 0, 0, status];
    answer.extend((0..4).rev().map(|byte| u8::try_from(body >> (8 * byte) & 0xff).unwrap()));
    answer.extend_from_slice(&header[12..16]);
    answer.extend_from_slice(&[0; 8]);
    Some([&answer, extras, key.as_bytes(), value].concat())
}

#[test]
fn what_was_stored_is_hit_one_key_at_a_time_and_in_quiet_gets() {
    let server = Server::start();
    let target = server.target_by("binary");
    fill(&target, &load(), &Progress::default()).unwrap();
    assert_eq!(server.stored(), 1000);
    for multiget in [1, 10] {
        let workload = Workload { multiget, sets_percent: 5.0, ..load().workload };
        let load = Load { workload, pipeline: 4, ..load() };
        let measured = measure(&target, &load, &Progress::default()).unwrap();
        assert!(measured.keys > 100 && measured.sets > 0, "{measured:?}");
        // Every key is found; answers that come after the end of the time are not counted.
        assert_eq!((measured.hits, measured.wrong, measured.refused), (measured.keys, 0, 0));
    }
    server.corrupt();
    let measured = measure(&target, &load(), &Progress::default()).unwrap();
    assert!(measured.wrong > 0 && measured.wrong >= measured.hits, "{measured:?}");
}

#[test]
fn what_quiet_gets_do_not_find_is_set() {
    let server = Server::start();
    let drawn = Workload { keys: Some(1_000_000), ..load().workload };
    let workload = Workload { multiget: 10, look_aside: true, ..drawn };
    let load = Load { workload, ..load() };
    let measured = measure(&server.target_by("binary"), &load, &Progress::default()).unwrap();
    assert!(measured.hits > 0 && measured.hits < measured.keys, "{measured:?}");
    assert!(server.stored() > 0 && measured.sets > 0 && measured.wrong == 0, "{measured:?}");
}
