//! `DUMP` and `RESTORE`.

use larder_server::ServerConfig;

use super::client;
use crate::serving::{Client, config, in_memory, in_memory_with};

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

/// Long strings, compressed: what they may become is a matter of strings.
#[test]
fn strings_longer_than_a_collection_may_be_are_restored() {
    let server = in_memory_with(ServerConfig { collection_bytes_max: 4 << 10, ..config() });
    let mut it = client(&server);
    // Zero bytes: one, then 264 at a time, each from the byte before.
    let zeros = |of: u32| {
        let length = 1 + 264 * of;
        let packed = 2 + 3 * of;
        let body = [
            &[0, 0xc3, 0x80][..],
            &packed.swap_bytes().to_le_bytes(),
            &[0x80],
            &length.swap_bytes().to_le_bytes(),
            &[0, 0],
        ];
        [&body.concat()[..], &[0xe0, 0xff, 0].repeat(of as usize), &[9, 0], &[0; 8]].concat()
    };
    it.tells(&format!("RESTORE s 0 {}", quoted(&zeros(1000))), "OK");
    it.tells("STRLEN s", ":264001");
    let longer = format!("RESTORE s 0 {} REPLACE", quoted(&zeros(4000)));
    it.tells(&longer, "-ERR the value would be longer than value_max (1048576 bytes)");
}
