//! Sets.

use super::client;
use crate::serving::{Client, in_memory};

#[test]
fn members_are_added_found_and_removed() {
    let server = in_memory();
    let mut it = client(&server);
    it.tells("SADD e b a b c", ":3");
    it.tells("SADD e a d", ":1");
    it.tells("SADD e a", ":0");
    it.tells("SMEMBERS e", "[a b c d]");
    it.tells("SISMEMBER e a", ":1");
    it.tells("SMISMEMBER e a z d", "[:1 :0 :1]");
    it.tells("SMISMEMBER nope a", "[:0]");
    it.tells("SREM e a a z", ":1");
    it.tells("SCARD e", ":3");
    it.tells("SMOVE e f b", ":1");
    it.tells("SMOVE e f b", ":0");
    it.tells("SMOVE nope f b", ":0");
    it.tells("SMOVE f f b", ":1");
    it.tells("SMEMBERS f", "[b]");
    it.tells("SET s x", "OK");
    it.tells("SMOVE f s b", "-WRONGTYPE Operation against a key holding the wrong kind of value");
    it.tells("SMEMBERS f", "[b]");
    it.tells("SMOVE f e b", ":1");
    it.tells("EXISTS f", ":0");
}

#[test]
fn random_members_are_taken() {
    let server = in_memory();
    let mut it = client(&server);
    it.tells("SADD e a b c", ":3");
    assert!("abc".contains(&it.asked("SRANDMEMBER e")));
    it.tells("SRANDMEMBER nope", "nil");
    it.tells("SRANDMEMBER nope 3", "[]");
    assert_eq!(it.asked("SRANDMEMBER e 10").len(), "[a b c]".len());
    assert_eq!(it.asked("SRANDMEMBER e -10").split(' ').count(), 10);
    it.tells("SPOP e 0", "[]");
    it.tells("SPOP e -1", "-ERR value is out of range, must be positive");
    let popped = it.asked("SPOP e");
    it.tells(&format!("SISMEMBER e {popped}"), ":0");
    assert_eq!(it.asked("SPOP e 5").split(' ').count(), 2);
    it.tells("EXISTS e", ":0");
    it.tells("SPOP e", "nil");
}

#[test]
fn sets_are_computed_with() {
    let server = in_memory();
    let mut it = client(&server);
    it.tells("SADD a 1 2 3 4", ":4");
    it.tells("SADD b 3 4 5", ":3");
    it.tells("SADD c 4 6", ":2");
    it.tells("SINTER a b", "[3 4]");
    it.tells("SINTER a b c", "[4]");
    it.tells("SINTER a nope", "[]");
    it.tells("SUNION a b c nope", "[1 2 3 4 5 6]");
    it.tells("SDIFF a b c", "[1 2]");
    it.tells("SDIFF nope a", "[]");
    it.tells("SINTERSTORE d a b", ":2");
    it.tells("SMEMBERS d", "[3 4]");
    it.tells("SUNIONSTORE d d c", ":3");
    it.tells("SMEMBERS d", "[3 4 6]");
    it.tells("SDIFFSTORE d a a", ":0");
    it.tells("EXISTS d", ":0");
    it.tells("SET d x EX 100", "OK");
    it.tells("SINTERSTORE d a b", ":2");
    it.tells("TTL d", ":-1");
    it.tells("SINTERCARD 2 a b", ":2");
    it.tells("SINTERCARD 2 a b LIMIT 1", ":1");
    it.tells("SINTERCARD 2 a b LIMIT 0", ":2");
    it.tells("SINTERCARD 0 a", "-ERR numkeys should be greater than 0");
    it.tells("SINTERCARD 3 a b", "-ERR Number of keys can't be greater than number of args");
    it.tells("SINTERCARD 2 a b LIMIT -1", "-ERR LIMIT can't be negative");
    it.tells("SET s x", "OK");
    it.tells("SUNION a s", "-WRONGTYPE Operation against a key holding the wrong kind of value");
}

#[test]
fn version_3_has_sets() {
    let server = in_memory();
    let mut it = Client::resp3(&server);
    it.tells("SADD a 1 2", ":2");
    it.tells("SMEMBERS a", "~[1 2]");
    it.tells("SUNION a a", "~[1 2]");
    it.tells("SPOP a 2", "~[1 2]");
}

#[test]
fn a_set_is_walked_over() {
    let server = in_memory();
    let mut it = client(&server);
    it.tells("SADD e a b c", ":3");
    it.tells("SSCAN e 0", "[0 [a b c]]");
    it.tells("SSCAN e 0 MATCH b", "[0 [b]]");
    it.tells("SSCAN e 0 COUNT 0", "-ERR syntax error");
}
