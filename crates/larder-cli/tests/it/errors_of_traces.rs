//! Invalid traces: the message names the file, the line, what was found and what was expected.

use std::fs;

use crate::place::{Place, trace_of_gets};

/// Requests every output, to check that none exists after an error.
const OUTPUTS: &str = "--flash 8M --json result.json --report page";

#[track_caller]
fn refused(content: impl AsRef<[u8]>, parts: &[&str]) {
    let place = Place::new();
    place.write("bad.csv", content);
    place.refuse(&format!("replay bad.csv {OUTPUTS}"), 1, &[&["bad.csv: "], parts].concat());
    let file = "--flash 8M --device file:drive --json result.json";
    place.refuse(&format!("replay bad.csv {file}"), 1, parts);
    place.refuse("workload stats bad.csv --json result.json", 1, parts);
}

#[test]
fn no_trace() {
    let place = Place::new();
    let parts = ["absent.csv", "No such file"];
    place.refuse(&format!("replay absent.csv {OUTPUTS}"), 1, &parts);
    let parts = ["absent.csv", "neither a file nor a built-in workload", "meta-kv, "];
    place.refuse("workload stats absent.csv", 2, &parts);
}

#[test]
fn a_directory() {
    let place = Place::new();
    fs::create_dir(place.path().join("folder")).unwrap();
    let parts = ["folder: is a directory, expected a trace file"];
    place.refuse(&format!("replay folder {OUTPUTS}"), 1, &parts);
    place.refuse("workload stats folder", 1, &parts);
}

#[test]
fn an_empty_file() {
    refused("", &["is empty, expected a trace"]);
    refused(zstd::encode_all(&b""[..], 1).unwrap(), &["is empty, expected a trace"]);
}

#[test]
fn wrong_columns() {
    let header = "time,object,size\n";
    refused(format!("{header}0,1,100\n0,2\n"), &["line 3", "2 columns", "\"0,2\"", "expected 3"]);
    refused(format!("{header}0,1,100,get,0,9\n"), &["line 2", "6 columns", "expected 3"]);
    refused("0,1,100\n0,2,100\n0,3,100,9\n", &["line 3", "4 columns", "expected 3"]);
    refused("name,colour\na,red\n", &["name,colour", "expected"]);
    // A table with an unsupported separator is not taken for a list of keys.
    refused("hello;world\n", &["hello;world", "expected the start of a trace"]);
    refused("time|key|size\n0|1|100\n", &["time|key|size", "expected the start of a trace"]);
}

#[test]
fn wrong_sizes() {
    let good = trace_of_gets(5000);
    let expected = "a whole number from 0 to 4294967295";
    refused(format!("{good}60,1,-5\n"), &["line 5002", "\"-5\"", "size", expected]);
    refused(format!("{good}60,1,4294967296\n"), &["line 5002", "\"4294967296\"", expected]);
    let huge = "99999999999999999999999999";
    refused(format!("{good}60,1,{huge}\n"), &["line 5002", huge, expected]);
    refused(format!("{good}60,1,big\n"), &["line 5002", "\"big\"", expected]);
    refused(format!("{good}noon,1,10\n"), &["line 5002", "\"noon\"", "a time in seconds"]);
}

#[test]
fn binary_garbage() {
    let mut state = 1_u64;
    let mut byte = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u8::try_from(state >> 56).unwrap()
    };
    let garbage: Vec<u8> = (0..50_000).map(|_| byte()).collect();
    refused(garbage, &["start of the file", "expected the start of a trace", "oracle-general"]);
    refused([0; 4096], &["start of the file", "expected the start of a trace"]);
}

#[test]
fn a_truncated_zstd_file() {
    let whole = zstd::encode_all(trace_of_gets(200_000).as_bytes(), 1).unwrap();
    let cut = "the stream is cut short";
    refused(&whole[..whole.len() / 2], &["cannot decompress (zstd) after byte ", cut]);
    refused(&whole[..100], &["cannot decompress (zstd) after byte ", cut]);
}
