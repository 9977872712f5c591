//! Keys: renaming, copying, walking.

use super::client;
use crate::serving::in_memory;

#[test]
fn renaming_and_copying_keep_the_lifetime() {
    let server = in_memory();
    let mut it = client(&server);
    it.says("SET a 1 PXAT 3317711742012", "+OK");
    it.says("RENAME nope b", "-ERR no such key");
    it.says("RENAME a b", "+OK");
    it.says("EXISTS a", ":0");
    it.says("PEXPIRETIME b", ":3317711742012");
    it.says("COPY b c", ":1");
    it.says("COPY b c", ":0");
    it.says("COPY b c REPLACE", ":1");
    it.says("PEXPIRETIME c", ":3317711742012");
    it.says("RENAMENX b c", ":0");
    it.says("RENAMENX b d", ":1");
    it.says("DEL c d nope", ":2");
    it.says("DBSIZE", ":0");
    it.says("RANDOMKEY", "$-1");
}

#[test]
fn everything_is_walked_over() {
    let server = in_memory();
    let mut it = client(&server);
    for number in 0..500 {
        it.says(&format!("SET key:{number} x"), "+OK");
    }
    it.says("DBSIZE", ":500");
    let mut found = std::collections::BTreeSet::new();
    let mut cursor = "0".to_owned();
    loop {
        assert_eq!(it.line_of(&format!("SCAN {cursor} MATCH key:* COUNT 50 TYPE string")), "2");
        cursor = String::from_utf8(it.bulk("")).unwrap();
        let count: usize = it.line_of("").parse().unwrap();
        for _ in 0..count {
            assert!(found.insert(it.bulk("")), "each once, as nothing changes");
        }
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(found.len(), 500);
    assert!(found.contains(&it.bulk("RANDOMKEY")));
    assert_eq!(it.line_of("KEYS key:1??"), "100");
    (0..100).for_each(|_| assert!(it.bulk("").starts_with(b"key:1")));
    it.says("SCAN 0 TYPE hash COUNT 1000", "*2\r\n$1\r\n0\r\n*0");
    it.says("FLUSHALL ASYNC", "+OK");
    it.says("KEYS *", "*0");
    it.says("TYPE key:1", "+none");
}

#[test]
fn what_is_known_of_a_value() {
    let server = in_memory();
    let mut it = client(&server);
    it.says("MSET a 1 b x", "+OK");
    it.says("TYPE a", "+string");
    it.gives("OBJECT ENCODING a", "int");
    it.gives("OBJECT ENCODING b", "embstr");
    it.says("OBJECT REFCOUNT nope", "$-1");
    it.says("TOUCH a b c", ":2");
    assert!(it.line_of("MEMORY USAGE a").parse::<u64>().unwrap() > 2);
}
