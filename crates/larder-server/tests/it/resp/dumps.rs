//! `DUMP` and `RESTORE`.

use super::client;
use crate::serving::{Client, in_memory};

/// A dump as a word of a line.
fn quoted(dump: &[u8]) -> String {
    let bytes: String = dump.iter().map(|byte| format!("\\x{byte:02x}")).collect();
    format!("\"{bytes}\"")
}

fn dump(it: &mut Client, key: &str) -> String {
    quoted(&it.bulk(&format!("DUMP {key}")))
}

#[test]
fn values_are_dumped_and_restored() {
    let server = in_memory();
    let mut it = client(&server);
    it.tells("SET s hello", "OK");
    it.tells("RPUSH l a b c", ":3");
    it.tells("SADD m x y", ":2");
    it.tells("HSET h f 1 g 2", ":2");
    it.tells("HEXPIRE h 100 FIELDS 1 f", "[:1]");
    it.tells("ZADD z 1.5 a -inf b", ":2");
    for key in ["s", "l", "m", "h", "z"] {
        let dump = dump(&mut it, key);
        it.tells(&format!("RESTORE {key} 0 {dump}"), "-BUSYKEY Target key name already exists.");
        it.tells(&format!("RESTORE {key}2 0 {dump}"), "OK");
        it.tells(&format!("TTL {key}2"), ":-1");
        it.tells(&format!("RESTORE {key}2 100000 {dump} REPLACE IDLETIME 5"), "OK");
        it.tells(&format!("TTL {key}2"), ":100");
    }
    it.tells("GET s2", "hello");
    it.tells("LRANGE l2 0 -1", "[a b c]");
    it.tells("SMEMBERS m2", "[x y]");
    it.tells("HGETALL h2", "[f 1 g 2]");
    it.tells("HTTL h2 FIELDS 2 f g", "[:100 :-1]");
    it.tells("ZRANGE z2 0 -1 WITHSCORES", "[b -inf a 1.5]");
    it.tells("DUMP nope", "nil");
}

#[test]
fn lifetimes_and_words_of_restore() {
    let server = in_memory();
    let mut it = client(&server);
    it.tells("SET s hello", "OK");
    let dump = dump(&mut it, "s");
    it.tells(&format!("RESTORE a 4000000000000 {dump} ABSTTL"), "OK");
    it.tells("PEXPIRETIME a", ":4000000000000");
    it.tells(&format!("RESTORE a 1 {dump} ABSTTL REPLACE"), "OK");
    it.tells("EXISTS a", ":0");
    for (words, said) in [
        ("-1 DUMP", "Invalid TTL value, must be >= 0"),
        ("x DUMP", "value is not an integer or out of range"),
        ("0 DUMP FREQ 256", "Invalid FREQ value, must be >= 0 and <= 255"),
        ("0 DUMP IDLETIME -1", "Invalid IDLETIME value, must be >= 0"),
        ("0 DUMP NOW", "syntax error"),
        ("0 hello", "DUMP payload version or checksum are wrong"),
    ] {
        let words = words.replace("DUMP", &dump);
        it.tells(&format!("RESTORE b {words}"), &format!("-ERR {said}"));
    }
    it.tells("EXISTS b", ":0");
}

/// A hash and a list as Valkey 8 dumps them.
#[test]
fn dumps_of_another_server_are_restored() {
    let server = in_memory();
    let mut it = client(&server);
    let bytes = b"\x04\x02\x01f\x01v\x01g\xc0\x11\x0b\x00\x1e\x9a\xdcju$\xa3]";
    it.tells(&format!("RESTORE h 0 {}", quoted(bytes)), "OK");
    it.tells("HGETALL h", "[f v g 17]");
}
