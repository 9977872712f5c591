//! Each format: what its requests look like, and how format and compression are recognised.

use std::io::Write;

use larder_workload::trace::{self, TraceFormat, TraceOptions};
use larder_workload::{Op, Request};
use xxhash_rust::xxh3::xxh3_64;

use crate::trace_support::{file, options, read};

fn request(
    time_s: u32,
    key: u64,
    (key_bytes, value_bytes): (u32, u32),
    op: Op,
    ttl_s: u32,
) -> Request {
    Request { time_s, key, key_bytes, value_bytes, op, ttl_s }
}

#[expect(clippy::big_endian_bytes, reason = "a format that others defined")]
fn big_endian(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// Reads with detection, and checks which format was detected.
fn detected(content: &[u8], format: TraceFormat) -> Vec<Request> {
    assert_eq!(trace::format_of(file(content).path()).unwrap(), format);
    let requests = read(content, &options(None)).unwrap();
    assert_eq!(requests, read(content, &options(format)).unwrap());
    requests
}

#[test]
fn csv_with_a_header_finds_columns_by_name() {
    let plain = detected(b"time,object,size\n7,123,108\r\n\n9,abc,3\n9,5,0", TraceFormat::Csv);
    let expected = [
        request(0, 123, (8, 100), Op::Get, 0),
        request(2, xxh3_64(b"abc"), (8, 1), Op::Get, 0),
        request(2, 5, (8, 0), Op::Get, 0),
    ];
    assert_eq!(plain, expected);
    let other = b"Op, TTL, Size, who, Key, Timestamp\nset,60,108,x,123,7.5\ndelete,0,0,y,1,6\n";
    let expected = [request(0, 123, (8, 100), Op::Set, 60), request(0, 1, (8, 0), Op::Delete, 0)];
    assert_eq!(detected(other, TraceFormat::Csv), expected);
    let both = b"key,size,key_size,value_size\n7,999,20,30\n";
    assert_eq!(detected(both, TraceFormat::Csv), [request(0, 7, (20, 30), Op::Get, 0)]);
    let object = b"key,key_size,size\n7,20,108\n";
    assert_eq!(detected(object, TraceFormat::Csv), [request(0, 7, (8, 100), Op::Get, 0)]);
}

#[test]
fn csv_without_a_header() {
    let bare = detected(b"7,123,108\n8,1,9\n", TraceFormat::Csv);
    assert_eq!(bare[1], request(1, 1, (8, 1), Op::Get, 0));
    assert_eq!(detected(b"7,123,108,cas\n", TraceFormat::Csv)[0].op, Op::Set);
    assert_eq!(detected(b"7,123,108,set,33\n", TraceFormat::Csv)[0].ttl_s, 33);
}

#[test]
fn twitter_in_its_full_and_short_forms() {
    let full = b"0,nz:u:eeW5,11,200,4,get,0\n1,q,1,0,4,add,300\n1,q,1,0,4,delete,0\n";
    let expected = [
        request(0, xxh3_64(b"nz:u:eeW5"), (11, 200), Op::Get, 0),
        request(1, xxh3_64(b"q"), (1, 0), Op::Set, 300),
        request(1, xxh3_64(b"q"), (1, 0), Op::Delete, 0),
    ];
    assert_eq!(detected(full, TraceFormat::Twitter), expected);
    for (short, op, ttl_s) in [
        (&b"0,k,11,200,set,300\n"[..], Op::Set, 300),
        (b"0,k,11,200,incr\n", Op::Set, 0),
        (b"0,k,11,200\n", Op::Get, 0),
    ] {
        let expected = [request(0, xxh3_64(b"k"), (11, 200), op, ttl_s)];
        assert_eq!(detected(short, TraceFormat::Twitter), expected);
    }
    let three = read(b"0,k,211\n", &options(TraceFormat::Twitter)).unwrap();
    assert_eq!(three, [request(0, xxh3_64(b"k"), (8, 203), Op::Get, 0)]);
}

#[test]
fn meta_rows_repeat() {
    let content = b"op_time,key,key_size,op,op_count,size,cache_hits,ttl,usecase\n\
        100,8ab,20,GET,3,50,3,0,1\n\
        101,8ab,20,GET,0,50,0,0,1\n\
        102,9cd,30,GET_LEASE,1,0,0,0,1\n\
        103,9cd,30,SET_LEASE,1,70,0,7200,1\n";
    let hit = request(0, xxh3_64(b"8ab"), (20, 50), Op::Get, 0);
    let expected = [
        hit,
        hit,
        hit,
        request(2, xxh3_64(b"9cd"), (30, 0), Op::Get, 0),
        request(3, xxh3_64(b"9cd"), (30, 70), Op::Set, 7200),
    ];
    assert_eq!(detected(content, TraceFormat::MetaKv), expected);
    // The trace of 2022 has other columns, and no times.
    let older = b"key,op,size,op_count,key_size\n17,SET,40,2,9\n";
    assert_eq!(detected(older, TraceFormat::MetaKv), [request(0, 17, (9, 40), Op::Set, 0); 2]);
}

#[test]
fn oracle_general_records() {
    let record = |time: u32, object: u64, size: u32, next: i64| {
        let (time, size) = (time.to_le_bytes(), size.to_le_bytes());
        [&time[..], &object.to_le_bytes(), &size, &next.to_le_bytes()].concat()
    };
    let content = [record(50, 7, 4096, 3), record(50, u64::MAX, 0, -1), record(55, 7, 9, -1)];
    let expected = [
        request(0, 7, (8, 4088), Op::Get, 0),
        request(0, u64::MAX, (8, 0), Op::Get, 0),
        request(5, 7, (8, 1), Op::Get, 0),
    ];
    assert_eq!(detected(&content.concat(), TraceFormat::OracleGeneral), expected);
}

#[test]
fn key_lists() {
    let text = detected(b"42\nuser:7\n\n42\n", TraceFormat::Keys);
    let sizes = (8, 1016);
    let expected = [42, xxh3_64(b"user:7"), 42].map(|key| request(0, key, sizes, Op::Get, 0));
    assert_eq!(text, expected);
    // Keys 0, 1, 2, ..., each of them twice within the bytes that detection reads.
    let list: Vec<u8> = (0..4000_u32).flat_map(|i| big_endian(i / 7 * 3 % 1000)).collect();
    let binary = detected(&list, TraceFormat::KeysU32);
    assert_eq!((binary.len(), binary[7]), (4000, request(0, 3, sizes, Op::Get, 0)));
    let small = TraceOptions { object_bytes: 8, ..options(TraceFormat::KeysU32) };
    assert_eq!(read(&list, &small).unwrap()[0].object_bytes(), 9);
}

#[test]
fn compressed_traces_of_several_parts() {
    let (first, second) = (&b"time,object,size\n1,2,3"[..], &b"33\n4,5,6\n"[..]);
    let plain = read(&[first, second].concat(), &options(None)).unwrap();
    assert_eq!(plain.len(), 2);
    let gzip = |part: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(part).unwrap();
        encoder.finish().unwrap()
    };
    let xz = |part: &[u8]| {
        let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
        encoder.write_all(part).unwrap();
        encoder.finish().unwrap()
    };
    let zstd = |part: &[u8]| zstd::encode_all(part, 1).unwrap();
    let skippable = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
    for parts in [
        [zstd(first), zstd(second)].concat(),
        [&skippable[..], &zstd(first), &skippable, &zstd(second)].concat(),
        [gzip(first), gzip(second)].concat(),
        [xz(first), xz(second)].concat(),
    ] {
        assert_eq!(read(&parts, &options(None)).unwrap(), plain);
    }
}

#[test]
fn progress_goes_from_start_to_end() {
    let rows: String = (0..200_000).map(|i| format!("{i},{i},100\n")).collect();
    let trace = file(rows.as_bytes());
    let mut source = trace::open(trace.path(), &TraceOptions::default()).unwrap();
    let mut last = source.progress().unwrap();
    assert!(last < 0.5, "{last}");
    while source.next_request().unwrap().is_some() {
        let now = source.progress().unwrap();
        assert!(now >= last && now <= 1.0);
        last = now;
    }
    assert_eq!(last, 1.0);
}
