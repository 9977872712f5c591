//! To other clients a script and a transaction are one step.

use std::thread;
use std::time::Duration;

use super::{eval_of, everywhere};
use crate::admin::{admin_config, get};
use crate::resp::{array, client};
use crate::serving::{Client, in_memory_with};

/// Writes both keys, with a long pause between the two, and reads no other.
const SLOW: &str = "redis.call('SET', KEYS[1], 'half') \
                    local till = os.clock() + 0.3 while os.clock() < till do end \
                    redis.call('SET', KEYS[1], 'whole') redis.call('SET', 'undeclared', 'whole') return 1";

#[test]
fn requests_for_the_keys_of_a_script_wait_and_others_do_not() {
    everywhere(|server| {
        let mut it = client(server);
        it.tells("MSET k old other 1 undeclared old", "OK");
        thread::scope(|scope| {
            let script = scope.spawn(|| client(server).asks(eval_of(SLOW, &["k"], &[]), ":1\r\n"));
            // Until it has begun: a request that came before it saw the old value.
            while it.asked("GET k") == "old" {
                thread::sleep(Duration::from_millis(1));
            }
            assert!(script.is_finished() || it.asked("GET k") == "whole");
            it.tells("GET undeclared", "whole");
            script.join().unwrap();
        });
        it.tells("SET k old", "OK");
        thread::scope(|scope| {
            let script = scope.spawn(|| client(server).asks(eval_of(SLOW, &["k"], &[]), ":1\r\n"));
            thread::sleep(Duration::from_millis(100));
            // Requests for other keys and other stripes have their answers long before the script ends.
            it.tells("INCR other", ":2");
            it.tells("GET other", "2");
            Client::memcached(server).asks("get other\r\n", "VALUE other 0 1\r\n2\r\nEND\r\n");
            assert!(!script.is_finished(), "they did not wait");
            Client::memcached(server).asks("get k\r\n", "VALUE k 0 5\r\nwhole\r\nEND\r\n");
            script.join().unwrap();
        });
    });
}

#[test]
fn requests_that_wait_for_a_step_are_counted() {
    let server = in_memory_with(admin_config());
    let waited = || {
        let page = get(&server, "/metrics", "");
        let lines =
            page.lines().find_map(|it| it.strip_prefix("larder_server_waited_for_steps_total "));
        lines.unwrap().parse::<u64>().unwrap()
    };
    thread::scope(|scope| {
        let script = scope.spawn(|| client(&server).asks(eval_of(SLOW, &["k"], &[]), ":1\r\n"));
        thread::sleep(Duration::from_millis(100));
        client(&server).tells("SET other 1", "OK");
        assert_eq!(waited(), 0);
        client(&server).tells("GET k", "whole");
        script.join().unwrap();
    });
    assert_eq!(waited(), 1);
}

/// Scripts and transactions that read and write in two calls, beside requests, scripts and memcached's clients that
/// change the same key in one.
#[test]
fn no_change_of_a_key_is_lost() {
    const EACH: usize = 150;
    const SCRIPT: &str =
        "local n = redis.call('GET', KEYS[1]) or 0 return redis.call('SET', KEYS[1], n + 1)";
    everywhere(|server| {
        client(server).tells("SET n 0", "OK");
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut it = client(server);
                    (0..EACH).for_each(|_| it.asks(eval_of(SCRIPT, &["n"], &[]), "+OK\r\n"));
                });
                scope.spawn(|| {
                    let mut it = client(server);
                    for _ in 0..EACH {
                        it.line_of("INCR n");
                    }
                });
                scope.spawn(|| {
                    let mut it = Client::memcached(server);
                    for _ in 0..EACH {
                        it.send("incr n 1\r\n");
                        it.line();
                    }
                });
                scope.spawn(|| {
                    let mut it = client(server);
                    for _ in 0..EACH {
                        let requests: [&[&[u8]]; 4] =
                            [&[b"MULTI"], &[b"INCR", b"n"], &[b"INCRBY", b"n", b"-1"], &[b"EXEC"]];
                        let bytes: Vec<u8> =
                            requests.iter().flat_map(|words| array(words)).collect();
                        it.send(bytes);
                        it.hears("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:");
                        let (one, other) = (it.line(), it.line());
                        let number = |text: &str| {
                            text.trim().trim_start_matches(':').parse::<i64>().unwrap()
                        };
                        assert_eq!(number(&one), number(&other) + 1, "nothing came between");
                    }
                });
            }
        });
        client(server).tells("GET n", &(6 * EACH).to_string());
    });
}

/// A pipeline in which reads are followed by requests of several keys, which wait for no request of their own
/// connection.
#[test]
fn a_step_does_not_wait_for_its_own_connection() {
    everywhere(|server| {
        let mut it = client(server);
        let words: [&[&[u8]]; 9] = [
            &[b"SADD", b"s", b"1"],
            &[b"GET", b"a"],
            &[b"SINTER", b"s", b"s"],
            &[b"GET", b"s2"],
            &[b"SORT_RO", b"s"],
            &[b"MGET", b"a", b"b"],
            &[b"EVAL_RO", b"return redis.call('EXISTS', KEYS[1])", b"1", b"s"],
            &[b"RENAME", b"s", b"t"],
            &[b"EXISTS", b"t"],
        ];
        let bytes: Vec<u8> = words.iter().flat_map(|words| array(words)).collect();
        let answers = ":1\r\n$-1\r\n*1\r\n$1\r\n1\r\n$-1\r\n*1\r\n$1\r\n1\r\n*2\r\n$-1\r\n$-1\r\n:1\r\n+OK\r\n:1\r\n";
        it.asks(bytes, answers);
    });
}
