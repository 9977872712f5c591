//! Every reader gets arbitrary bytes: it does not panic, and it comes to an end.

use std::path::Path;

use larder_workload::trace::{self, TraceFormat};
use proptest::prelude::*;

use crate::trace_support::{drain, file, options};

/// Requests after which the test stops reading a hostile file: a row of a Meta trace can stand for billions.
const REQUESTS_MAX: usize = 20_000;

/// Reads a file in every format and by detection; errors are allowed. The test may ask a source again after it failed.
fn survive(path: &Path) {
    for format in TraceFormat::ALL.map(Some).into_iter().chain([None]) {
        let Ok(mut source) = trace::open(path, &options(format)) else { continue };
        for _ in 0..3 {
            if drain(&mut *source, REQUESTS_MAX).is_ok() {
                break;
            }
        }
        if let Some(progress) = source.progress() {
            assert!((0.0..=1.0).contains(&progress));
        }
    }
}

const CSV: &[u8] = b"time,object,size,op,ttl\n0,1,100,get,0\n1,abc,200,set,60\n2,1,0,delete,0\n";
const TWITTER: &[u8] = b"0,nz:u:ee,9,200,4,get,0\n1,q,1,0,4,add,300\n1,q,1,0,4,delete,0\n";
const META: &[u8] = b"op_time,key,key_size,op,op_count,size,ttl\n\
    100,8ab,20,GET,3,50,0\n102,9cd,30,GET_LEASE,1,0,0\n103,9cd,30,SET_LEASE,1,70,7200\n";
const ORACLE: &[u8] = &[0; 24 * 4];
const KEYS: &[u8] = b"1\n2\nkey:3\n";

/// A valid trace, compressed or not.
fn valid() -> impl Strategy<Value = Vec<u8>> {
    let content = prop::sample::select(vec![CSV, TWITTER, META, ORACLE, KEYS]);
    (content, 0..4_u8).prop_map(|(content, compression)| {
        let mut bytes = Vec::new();
        let level = flate2::Compression::fast();
        match compression {
            0 => return content.to_vec(),
            1 => return zstd::encode_all(content, 1).unwrap(),
            2 => std::io::copy(&mut flate2::read::GzEncoder::new(content, level), &mut bytes),
            _ => std::io::copy(&mut liblzma::read::XzEncoder::new(content, 0), &mut bytes),
        }
        .unwrap();
        bytes
    })
}

/// One change to a file.
#[derive(Clone, Debug)]
enum Change {
    Replace(prop::sample::Index, u8),
    Insert(prop::sample::Index, u8),
    Repeat(prop::sample::Index, u16),
    Cut(prop::sample::Index),
}

fn change() -> impl Strategy<Value = Change> {
    // Bytes that have a meaning in a trace are tried more often than others.
    let byte = || prop_oneof![any::<u8>(), prop::sample::select(b"\n\r,.-09\0\xff".to_vec())];
    prop_oneof![
        (any::<prop::sample::Index>(), byte()).prop_map(|(at, b)| Change::Replace(at, b)),
        (any::<prop::sample::Index>(), byte()).prop_map(|(at, b)| Change::Insert(at, b)),
        (any::<prop::sample::Index>(), any::<u16>()).prop_map(|(at, n)| Change::Repeat(at, n)),
        any::<prop::sample::Index>().prop_map(Change::Cut),
    ]
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    if bytes.is_empty() {
        return;
    }
    match change {
        Change::Replace(at, byte) => *at.get_mut(bytes) = *byte,
        Change::Insert(at, byte) => bytes.insert(at.index(bytes.len()), *byte),
        Change::Repeat(at, count) => {
            let at = at.index(bytes.len());
            let run = vec![bytes[at]; usize::from(*count)];
            bytes.splice(at..at, run);
        }
        Change::Cut(at) => bytes.truncate(at.index(bytes.len())),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
        survive(file(&bytes).path());
    }

    #[test]
    fn arbitrary_text(text in "[0-9a-z,.\n\r-]{0,2000}") {
        survive(file(text.as_bytes()).path());
    }

    #[test]
    fn damaged_traces(
        bytes in valid(),
        changes in prop::collection::vec(change(), 1..6),
    ) {
        let mut bytes = bytes;
        changes.iter().for_each(|change| apply(&mut bytes, change));
        survive(file(&bytes).path());
    }
}
