//! Malformed files: each gives one clear error.

use larder_workload::Error;
use larder_workload::trace::{self, TraceFormat, TraceOptions};

use crate::trace_support::{file, message, options};

fn opening_fails(path: &std::path::Path) -> String {
    match trace::open(path, &options(None)) {
        Ok(_) => panic!("opened {}", path.display()),
        Err(error) => error.to_string(),
    }
}

#[track_caller]
fn contains(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "no {part:?} in: {message}");
    }
    assert!(message.len() < 500 && !message.contains(char::is_control), "{message:?}");
}

#[test]
fn no_file_a_directory_an_empty_file() {
    let folder = tempfile::tempdir().unwrap();
    contains(&opening_fails(&folder.path().join("absent.csv")), &["absent.csv", "No such file"]);
    contains(&opening_fails(folder.path()), &["directory"]);
    contains(&opening_fails(file(b"").path()), &["empty"]);
    let empty = zstd::encode_all(&b""[..], 1).unwrap();
    contains(&opening_fails(file(&empty).path()), &["empty"]);
}

#[test]
fn options_that_make_no_sense() {
    let options = TraceOptions { object_bytes: 0, ..TraceOptions::default() };
    assert!(matches!(trace::open(file(b"1\n").path(), &options), Err(Error::Usage(_))));
}

#[test]
fn wrong_column_counts() {
    let head = "time,object,size\n1,2,3\n\n";
    let few = message(format!("{head}4,5\n").as_bytes(), None);
    contains(&few, &["line 4", "2 columns", "\"4,5\"", "expected 3 columns"]);
    let many = message(format!("{head}4,5,6,7\n").as_bytes(), None);
    contains(&many, &["line 4", "4 columns", "expected 3 columns"]);
    let cut = message(b"0,k,1,2,3,get,0\n0,k,1,2,3,ge", None);
    contains(&cut, &["line 2", "6 columns", "expected 7"]);
}

#[test]
fn sizes_that_are_none() {
    for size in ["", "-5", "12x", "4294967296", "99999999999999999999999", "1.5", "\x1b[31m"] {
        let found = message(format!("time,object,size\n1,2,{size}\n").as_bytes(), TraceFormat::Csv);
        contains(&found, &["line 2", "size of an object", "0 to 4294967295"]);
    }
    contains(&message(b"0,k,-1,2,3,get,0\n", None), &["line 1", "\"-1\"", "size of a key"]);
    contains(&message(b"x\n1,2,3\n", TraceFormat::Csv), &["line 1", "\"x\"", "header"]);
    for alone in [&b"time,obj_id,size,op\n"[..], b"time,obj_id,size,op\r\n\n\n"] {
        let said = message(alone, TraceFormat::Csv);
        contains(&said, &["line 1", "a header and no line behind it", "requests"]);
    }
}

#[test]
fn unknown_operations_and_missing_keys() {
    let found = message(b"time,object,size,op\n1,2,3,frobnicate\n", None);
    contains(&found, &["line 2", "\"frobnicate\"", "gets", "set_lease", "delete"]);
    contains(&message(b"time,object,size\n1,,3\n", None), &["line 2", "expected a key"]);
    contains(&message(b"time,object,size\nnoon,2,3\n", None), &["line 2", "\"noon\"", "time"]);
}

#[test]
fn streams_that_are_cut_short_or_damaged() {
    let rows: String = (0..9999).map(|i| format!("{i},{},100\n", i * 7 % 1000)).collect();
    let zstd = zstd::encode_all(rows.as_bytes(), 1).unwrap();
    contains(&message(&zstd[..zstd.len() - 9], None), &["zstd", "cut short"]);
    let mut gzip = flate2::read::GzEncoder::new(rows.as_bytes(), flate2::Compression::fast());
    let mut bytes = Vec::new();
    std::io::copy(&mut gzip, &mut bytes).unwrap();
    contains(&message(&bytes[..bytes.len() / 2], None), &["gzip", "cut short"]);
    let mut xz = Vec::new();
    std::io::copy(&mut liblzma::read::XzEncoder::new(rows.as_bytes(), 1), &mut xz).unwrap();
    contains(&message(&xz[..xz.len() / 2], None), &["xz", "cut short"]);
    let middle = xz.len() / 2;
    xz[middle] ^= 0x55;
    contains(&message(&xz, None), &["xz", "cannot decompress"]);
    contains(&message(&[zstd, b"junk".to_vec()].concat(), None), &["zstd", "cannot decompress"]);
}

#[test]
fn binary_records_that_are_cut_short() {
    let oracle = message(&[0; 24 * 2 + 7], TraceFormat::OracleGeneral);
    contains(&oracle, &["record 3 at byte 48", "7 bytes", "24 bytes"]);
    contains(&message(&[9; 4 * 3 + 1], TraceFormat::KeysU32), &["byte 12", "4 bytes"]);
}

#[test]
fn garbage_is_not_dumped() {
    let mut rng = fastrand::Rng::with_seed(5);
    let noise: Vec<u8> = (0..100_000).map(|_| rng.u8(..)).collect();
    contains(&message(&noise, None), &["start of the file", "formats: csv, twitter"]);
    contains(&message(&noise, TraceFormat::Csv), &["expected"]);
    contains(&message(&noise, TraceFormat::Keys), &["line 1", "key"]);
    contains(&message(b"a page of text, but no trace\nat all\n", None), &["start of the file"]);
}

#[test]
fn programs_and_padding_are_no_traces() {
    let program = std::env::current_exe().unwrap();
    contains(&opening_fails(&program), &["start of the file"]);
    contains(&message(&[0; 100_000], None), &["start of the file"]);
}

#[test]
fn lines_without_end() {
    let long = [b"1,".repeat(40_000), b"\n".to_vec()].concat();
    let found = message(&[b"time,object,size\n", &long[..]].concat(), None);
    contains(&found, &["line 2", "65536 bytes"]);
    contains(&message(&b"x".repeat(70_000), TraceFormat::Keys), &["line 1", "65536 bytes"]);
}
