//! `SORT`.

use super::client;
use crate::serving::in_memory;

#[test]
fn members_are_sorted_by_themselves_and_by_others() {
    let server = in_memory();
    let mut it = client(&server);
    it.tells("RPUSH l 3 10 1 2", ":4");
    it.tells("SORT l", "[1 2 3 10]");
    it.tells("SORT l DESC LIMIT 1 2", "[3 2]");
    it.tells("SORT l ALPHA", "[1 10 2 3]");
    it.tells("SORT l BY nosort", "[3 10 1 2]");
    it.tells("MSET w1 5 w2 4 w3 3 w10 x", "OK");
    it.tells("SORT l BY w*", "-ERR One or more scores can't be converted into double");
    it.tells("SET w10 -1", "OK");
    it.tells("SORT l BY w*", "[10 3 2 1]");
    it.tells("HSET o1 f 9 g a", ":2");
    it.tells("HSET o2 f 8 g b", ":2");
    it.tells("SORT l BY o*->f GET # GET o*->g GET w*", "[10 nil -1 3 nil 3 2 b 4 1 a 5]");
    it.tells("SORT l STORE s GET o*->g", ":4");
    it.tells("LRANGE s 0 -1", "[a b  ]");
    it.tells("SORT nope STORE s", ":0");
    it.tells("EXISTS s", ":0");
    it.tells("SADD e 2 1 3", ":3");
    it.tells("SORT_RO e DESC", "[3 2 1]");
    it.tells("SORT_RO e STORE s", "-ERR syntax error");
    it.tells("ZADD z 1 c 2 b 3 a", ":3");
    it.tells("SORT z BY x DESC", "[a b c]");
    it.tells("SORT z ALPHA", "[a b c]");
    it.tells("SORT z", "-ERR One or more scores can't be converted into double");
    it.tells("SORT w1", "-WRONGTYPE Operation against a key holding the wrong kind of value");
    it.tells("MULTI", "OK");
    it.tells("SORT l STORE s", "QUEUED");
    it.tells("EXEC", "[:4]");
}
