//! Lists.

use super::client;
use crate::serving::in_memory;

#[test]
fn elements_are_put_and_taken_at_both_ends() {
    let server = in_memory();
    let mut it = client(&server);
    it.tells("RPUSH l b c", ":2");
    it.tells("LPUSH l a z", ":4");
    it.tells("LRANGE l 0 -1", "[z a b c]");
    it.tells("LPUSHX nope a", ":0");
    it.tells("RPUSHX l d", ":5");
    it.tells("LLEN l", ":5");
    it.tells("LPOP l", "z");
    it.tells("RPOP l 2", "[d c]");
    it.tells("LPOP l 0", "[]");
    it.tells("LPOP nope", "nil");
    it.tells("LPOP nope 2", "nil");
    it.tells("LPOP l -1", "-ERR value is out of range, must be positive");
    it.tells("LPOP l 10", "[a b]");
    it.tells("EXISTS l", ":0");
}

#[test]
fn elements_are_found_and_changed() {
    let server = in_memory();
    let mut it = client(&server);
    it.tells("RPUSH l a b c b a", ":5");
    it.tells("LINDEX l 1", "b");
    it.tells("LINDEX l -1", "a");
    it.tells("LINDEX l 5", "nil");
    it.tells("LSET l -1 z", "OK");
    it.tells("LSET l 5 z", "-ERR index out of range");
    it.tells("LSET nope 0 z", "-ERR no such key");
    it.tells("LINSERT l BEFORE c x", ":6");
    it.tells("LINSERT l AFTER c y", ":7");
    it.tells("LINSERT l AFTER nope y", ":-1");
    it.tells("LINSERT nope AFTER c y", ":0");
    it.tells("LRANGE l 0 -1", "[a b x c y b z]");
    it.tells("LPOS l b", ":1");
    it.tells("LPOS l b RANK -1", ":5");
    it.tells("LPOS l b RANK 2", ":5");
    it.tells("LPOS l b COUNT 0", "[:1 :5]");
    it.tells("LPOS l b COUNT 0 MAXLEN 3", "[:1]");
    it.tells("LPOS l nope", "nil");
    it.tells("LPOS l nope COUNT 1", "[]");
    it.tells("LREM l -1 b", ":1");
    it.tells("LREM l 0 nope", ":0");
    it.tells("LRANGE l -3 -1", "[c y z]");
    it.tells("LTRIM l 1 -2", "OK");
    it.tells("LRANGE l 0 -1", "[b x c y]");
    it.tells("LTRIM l 9 10", "OK");
    it.tells("EXISTS l", ":0");
}

#[test]
fn elements_move_between_lists() {
    let server = in_memory();
    let mut it = client(&server);
    it.tells("RPUSH a 1 2 3", ":3");
    it.tells("RPOPLPUSH a b", "3");
    it.tells("LMOVE a b LEFT RIGHT", "1");
    it.tells("LRANGE b 0 -1", "[3 1]");
    it.tells("LMOVE b b LEFT RIGHT", "3");
    it.tells("LRANGE b 0 -1", "[1 3]");
    it.tells("LMOVE b b RIGHT LEFT", "3");
    it.tells("LRANGE b 0 -1", "[3 1]");
    it.tells("LMOVE nope b LEFT LEFT", "nil");
    it.tells("SET s x", "OK");
    it.tells(
        "LMOVE a s LEFT LEFT",
        "-WRONGTYPE Operation against a key holding the wrong kind of value",
    );
    it.tells("LRANGE a 0 -1", "[2]");
    it.tells("LMPOP 2 nope b RIGHT COUNT 9", "[b [1 3]]");
    it.tells("LMPOP 1 b LEFT", "nil");
    it.tells("LMOVE a b LEFT LEFT", "2");
    it.tells("EXISTS a", ":0");
}
