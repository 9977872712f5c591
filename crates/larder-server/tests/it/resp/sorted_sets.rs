//! Sorted sets.

use super::client;
use crate::serving::{Client, in_memory};

#[test]
fn scores_are_set_under_conditions() {
    let server = in_memory();
    let mut it = client(&server);
    it.tells("ZADD z 1 a 2 b 1.5 c", ":3");
    it.tells("ZADD z 5 a 6 d", ":1");
    it.tells("ZADD z CH 7 a 6 d 9 e", ":2");
    it.tells("ZADD z NX 1 a 1 f", ":1");
    it.tells("ZSCORE z a", "7");
    it.tells("ZADD z XX 8 a 8 g", ":0");
    it.tells("ZSCORE z g", "nil");
    it.tells("ZADD z GT CH 7 a 10 d", ":1");
    it.tells("ZADD z LT CH 7 a 11 d", ":1");
    it.tells("ZMSCORE z a d nope", "[7 10 nil]");
    it.tells("ZADD z INCR 2 a", "9");
    it.tells("ZADD z NX INCR 2 a", "nil");
    it.tells("ZINCRBY z -0.5 a", "8.5");
    it.tells("ZADD z inf i", ":1");
    it.tells("ZINCRBY z -inf i", "-ERR resulting score is not a number (NaN)");
    it.tells("ZADD z NX XX 1 a", "-ERR XX and NX options at the same time are not compatible");
    it.tells(
        "ZADD z GT LT 1 a",
        "-ERR GT, LT, and/or NX options at the same time are not compatible",
    );
    it.tells("ZADD z x a", "-ERR value is not a valid float");
    it.tells("ZADD z 1 a 2", "-ERR syntax error");
    it.tells("ZADD z INCR 1 a 2 b", "-ERR INCR option supports a single increment-element pair");
    it.tells("ZREM z a nope i", ":2");
    it.tells("ZCARD z", ":5");
    it.tells("ZADD z 1 m 2 m 3 m", ":1");
    it.tells("ZSCORE z m", "3");
}

#[test]
fn ranges_of_ranks_scores_and_members() {
    let server = in_memory();
    let mut it = client(&server);
    it.tells("ZADD z 1 a 2 b 3 c 4 d 5 e", ":5");
    it.tells("ZRANGE z 0 -1", "[a b c d e]");
    it.tells("ZRANGE z 1 2 WITHSCORES", "[b 2 c 3]");
    it.tells("ZRANGE z 0 1 REV", "[e d]");
    it.tells("ZREVRANGE z -2 -1", "[b a]");
    it.tells("ZRANGE z 5 3", "[]");
    it.tells("ZRANGE z (1 3 BYSCORE", "[b c]");
    it.tells("ZRANGE z +inf (3 BYSCORE REV LIMIT 1 5", "[d]");
    it.tells("ZRANGEBYSCORE z -inf +inf LIMIT 1 2", "[b c]");
    it.tells("ZRANGEBYSCORE z 2 3 WITHSCORES", "[b 2 c 3]");
    it.tells("ZREVRANGEBYSCORE z 3 2", "[c b]");
    it.tells("ZRANGEBYSCORE z 0 9 LIMIT -1 2", "[]");
    it.tells("ZCOUNT z (1 4", ":3");
    it.tells("ZCOUNT z 5 1", ":0");
    it.tells("ZRANK z c", ":2");
    it.tells("ZREVRANK z c", ":2");
    it.tells("ZRANK z e WITHSCORE", "[:4 5]");
    it.tells("ZRANK z nope", "nil");
    it.tells("ZRANGESTORE y z 1 2", ":2");
    it.tells("ZRANGE y 0 -1 WITHSCORES", "[b 2 c 3]");
    it.tells("ZRANGESTORE y z 9 10", ":0");
    it.tells("EXISTS y", ":0");
    it.tells("ZADD l 0 a 0 b 0 c 0 d", ":4");
    it.tells("ZRANGEBYLEX l - [c", "[a b c]");
    it.tells("ZRANGE l (a + BYLEX LIMIT 0 2", "[b c]");
    it.tells("ZREVRANGEBYLEX l + (b", "[d c]");
    it.tells("ZLEXCOUNT l [b (d", ":2");
    it.tells("ZRANGEBYLEX l a b", "-ERR min or max not valid string range item");
    it.tells("ZCOUNT z a 1", "-ERR min or max is not a float");
    it.tells(
        "ZRANGE z 0 1 LIMIT 1 2",
        "-ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
    );
    it.tells("ZREMRANGEBYLEX l [b [c", ":2");
    it.tells("ZREMRANGEBYRANK z 0 1", ":2");
    it.tells("ZREMRANGEBYSCORE z (3 4", ":1");
    it.tells("ZRANGE z 0 -1", "[c e]");
    it.tells("ZREMRANGEBYRANK z 0 -1", ":2");
    it.tells("EXISTS z", ":0");
}

#[test]
fn members_are_taken_from_the_ends() {
    let server = in_memory();
    let mut it = client(&server);
    it.tells("ZADD z 1 a 2 b 3 c 4 d", ":4");
    it.tells("ZPOPMIN z", "[a 1]");
    it.tells("ZPOPMAX z 2", "[d 4 c 3]");
    it.tells("ZPOPMIN nope", "[]");
    it.tells("ZPOPMIN z -1", "-ERR value is out of range, must be positive");
    it.tells("ZMPOP 2 nope z MIN COUNT 5", "[z [[b 2]]]");
    it.tells("ZMPOP 1 z MAX", "nil");
    it.tells("ZMPOP 1 z MAX COUNT 0", "-ERR count should be greater than 0");
    it.tells("ZADD z 1 a 2 b", ":2");
    assert!(["a", "b"].contains(&&*it.asked("ZRANDMEMBER z")));
    assert_eq!(it.asked("ZRANDMEMBER z -3 WITHSCORES").split(' ').count(), 6);
    it.tells("ZSCAN z 0 MATCH b", "[0 [b 2]]");
}

#[test]
fn sorted_sets_are_computed_with() {
    let server = in_memory();
    let mut it = client(&server);
    it.tells("ZADD a 1 x 2 y", ":2");
    it.tells("ZADD b 10 y 20 z", ":2");
    it.tells("SADD s y", ":1");
    it.tells("ZUNION 2 a b WITHSCORES", "[x 1 y 12 z 20]");
    it.tells("ZUNION 2 a b WEIGHTS 2 0.5 AGGREGATE MAX WITHSCORES", "[x 2 y 5 z 10]");
    it.tells("ZINTER 3 a b s WITHSCORES", "[y 13]");
    it.tells("ZINTER 2 a b AGGREGATE MIN WITHSCORES", "[y 2]");
    it.tells("ZDIFF 2 a b WITHSCORES", "[x 1]");
    it.tells("ZUNIONSTORE d 2 a b", ":3");
    it.tells("ZINTERSTORE d 2 d b", ":2");
    it.tells("ZRANGE d 0 -1 WITHSCORES", "[y 22 z 40]");
    it.tells("ZDIFFSTORE d 2 a a", ":0");
    it.tells("EXISTS d", ":0");
    it.tells("ZINTERCARD 2 a b", ":1");
    it.tells("ZUNIONSTORE d 0 a", "-ERR at least 1 input key is needed for 'zunionstore' command");
    it.tells("ZUNION 2 a b WEIGHTS 1 x", "-ERR weight value is not a float");
    it.tells("ZUNION 3 a b", "-ERR syntax error");
}

#[test]
fn version_3_has_doubles_and_pairs() {
    let server = in_memory();
    let mut it = Client::resp3(&server);
    it.tells("ZADD z 1.5 a 2 b", ":2");
    it.tells("ZSCORE z a", ",1.5");
    it.tells("ZRANGE z 0 -1 WITHSCORES", "[[a ,1.5] [b ,2]]");
    it.tells("ZINCRBY z 1 a", ",2.5");
    it.tells("ZPOPMIN z", "[b ,2]");
    it.tells("ZPOPMIN z 1", "[[a ,2.5]]");
}
