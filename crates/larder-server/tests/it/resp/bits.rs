//! Bits of strings, and sketches.

use super::client;
use crate::serving::in_memory;

#[test]
fn bits_are_set_counted_and_found() {
    let server = in_memory();
    let mut it = client(&server);
    it.tells("SETBIT b 7 1", ":0");
    it.tells("SETBIT b 7 1", ":1");
    it.tells("GETBIT b 7", ":1");
    it.tells("GETBIT b 100", ":0");
    it.tells("STRLEN b", ":1");
    it.tells("SETBIT b 23 1", ":0");
    it.tells("BITCOUNT b", ":2");
    it.tells("BITCOUNT b 1 -1", ":1");
    it.tells("BITCOUNT b 8 23 BIT", ":1");
    it.tells("BITCOUNT nope", ":0");
    it.tells("BITPOS b 1", ":7");
    it.tells("BITPOS b 1 1", ":23");
    it.tells("BITPOS b 0", ":0");
    it.tells("BITPOS b 1 8 -1 BIT", ":23");
    it.tells("BITPOS nope 0", ":0");
    it.tells("BITPOS nope 1", ":-1");
    it.tells("SETBIT b 0 2", "-ERR bit is not an integer or out of range");
    it.tells("SETBIT b -1 1", "-ERR bit offset is not an integer or out of range");
    it.tells("SETBIT b 99999999999 1", "-ERR bit offset is not an integer or out of range");
    it.tells("BITPOS b 2", "-ERR The bit argument must be 1 or 0.");
    it.tells("SADD e a", ":1");
    it.tells("SETBIT e 1 1", "-WRONGTYPE Operation against a key holding the wrong kind of value");
}

#[test]
fn strings_are_combined() {
    let server = in_memory();
    let mut it = client(&server);
    it.tells("MSET a abc b ab", "OK");
    it.tells("BITOP AND d a b", ":3");
    it.tells("GET d", "ab\0");
    it.tells("BITOP OR d a b nope", ":3");
    it.tells("GET d", "abc");
    it.tells("BITOP XOR d a b", ":3");
    it.tells("GET d", "\0\0c");
    it.tells("BITOP NOT d d", ":3");
    it.tells("BITCOUNT d 0 1", ":16");
    it.tells("BITOP NOT d a b", "-ERR BITOP NOT must be called with a single source key.");
    it.tells("BITOP AND d nope", ":0");
    it.tells("EXISTS d", ":0");
}

#[test]
fn fields_of_bits() {
    let server = in_memory();
    let mut it = client(&server);
    it.tells("BITFIELD f SET u8 0 255 GET u8 0 INCRBY u8 0 10", "[:0 :255 :9]");
    it.tells("BITFIELD f OVERFLOW SAT INCRBY u8 0 300", "[:255]");
    it.tells("BITFIELD f OVERFLOW FAIL INCRBY u8 0 1", "[nil]");
    it.tells("BITFIELD f SET i5 #1 -3 GET i5 5 GET u5 5", "[:-4 :-3 :29]");
    it.tells("BITFIELD_RO f GET i64 0", "[:-54043195528445952]");
    it.tells("BITFIELD_RO f SET i5 0 1", "-ERR BITFIELD_RO only supports the GET subcommand");
    it.tells("BITFIELD nope GET u8 0", "[:0]");
    it.tells("EXISTS nope", ":0");
    assert!(it.asked("BITFIELD f GET u64 0").starts_with("-ERR Invalid bitfield type."));
    it.tells("BITFIELD f OVERFLOW x", "-ERR Invalid OVERFLOW type specified");
}

#[test]
fn sketches_count_about() {
    let server = in_memory();
    let mut it = client(&server);
    it.tells("PFADD a 1 2 3", ":1");
    it.tells("PFADD a 1", ":0");
    it.tells("PFADD e", ":1");
    it.tells("PFADD e", ":0");
    it.tells("PFCOUNT a", ":3");
    it.tells("PFADD b 3 4", ":1");
    it.tells("PFCOUNT a b nope", ":4");
    it.tells("PFMERGE c a b", "OK");
    it.tells("PFCOUNT c", ":4");
    it.tells("TYPE c", "string");
    it.tells("SET s x", "OK");
    it.tells("PFADD s 1", "-WRONGTYPE Key is not a valid HyperLogLog string value.");
    it.tells("PFCOUNT s", "-WRONGTYPE Key is not a valid HyperLogLog string value.");
    it.tells("PFCOUNT nope", ":0");
}
