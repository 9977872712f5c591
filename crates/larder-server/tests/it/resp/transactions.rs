//! Transactions.

use std::thread;

use super::client;
use crate::serving::in_memory;

#[test]
fn what_is_queued_is_done_at_once() {
    let server = in_memory();
    let mut it = client(&server);
    it.says("EXEC", "-ERR EXEC without MULTI");
    it.says("DISCARD", "-ERR DISCARD without MULTI");
    it.says("MULTI", "+OK");
    it.says("MULTI", "-ERR MULTI calls can not be nested");
    it.says("WATCH a", "-ERR WATCH inside MULTI is not allowed");
    it.says("SET a 1", "+QUEUED");
    it.says("GET a", "+QUEUED");
    it.says("INCR a", "+QUEUED");
    it.says("MGET a b", "+QUEUED");
    it.says("INCRBYFLOAT a x", "+QUEUED");
    it.says(
        "EXEC",
        "*5\r\n+OK\r\n$1\r\n1\r\n:2\r\n*2\r\n$1\r\n2\r\n$-1\r\n-ERR value is not a valid float",
    );
    it.says("MULTI", "+OK");
    it.says("SET a 9", "+QUEUED");
    it.says("DISCARD", "+OK");
    it.gives("GET a", "2");
}

#[test]
fn a_request_that_is_refused_spoils_it() {
    let server = in_memory();
    let mut it = client(&server);
    it.says("MULTI", "+OK");
    it.says("SET a 1", "+QUEUED");
    it.says("GET", "-ERR wrong number of arguments for 'get' command");
    it.says("EXEC", "-EXECABORT Transaction discarded because of previous errors.");
    it.says("GET a", "$-1");
}

#[test]
fn what_is_watched_must_not_change() {
    let server = in_memory();
    let (mut it, mut other) = (client(&server), client(&server));
    for (before, between) in [
        ("SET a 1", "SET a 1"),
        ("DEL a", "SET a 1"),
        ("SET a 1", "DEL a"),
        ("SET a 1", "EXPIRE a 100"),
    ] {
        it.line_of(before);
        it.says("WATCH a", "+OK");
        other.line_of(between);
        it.says("MULTI", "+OK");
        it.says("SET b 1", "+QUEUED");
        it.says("EXEC", "*-1");
        it.says("GET b", "$-1");
    }
    it.says("WATCH a", "+OK");
    other.line_of("SET c 1");
    it.says("MULTI", "+OK");
    it.says("SET b 1", "+QUEUED");
    it.says("EXEC", "*1\r\n+OK");
    it.says("WATCH a", "+OK");
    other.line_of("SET a 1");
    it.says("UNWATCH", "+OK");
    it.says("MULTI", "+OK");
    it.says("EXEC", "*0");
}

#[test]
fn no_update_is_lost_under_watch() {
    const EACH: usize = 100;
    const READS: usize = 300;
    let server = in_memory();
    client(&server).says("SET n 0", "+OK");
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut it = client(&server);
                let mut done = 0;
                while done < EACH {
                    it.says("WATCH n", "+OK");
                    let number: u64 = String::from_utf8(it.bulk("GET n")).unwrap().parse().unwrap();
                    it.says("MULTI", "+OK");
                    // Reads first make it long enough for others to come in between.
                    it.asks("STRLEN n\r\n".repeat(READS), "+QUEUED\r\n".repeat(READS));
                    it.says(&format!("SET n {}", number + 1), "+QUEUED");
                    if it.line_of("EXEC") == (READS + 1).to_string() {
                        (0..READS).for_each(|_| drop(it.line_heard()));
                        it.hears("+OK\r\n");
                        done += 1;
                    }
                }
            });
        }
        // A client that does not use transactions.
        scope.spawn(|| {
            let mut it = client(&server);
            (0..20 * EACH).for_each(|_| drop(it.line_of("INCR n")));
        });
    });
    client(&server).gives("GET n", &(23 * EACH).to_string());
}

#[test]
fn transactions_are_not_mixed() {
    const LONG: usize = 500;
    let server = in_memory();
    thread::scope(|scope| {
        for name in ["x", "y", "z"] {
            let server = &server;
            scope.spawn(move || {
                let mut it = client(server);
                for _ in 0..50 {
                    it.says("MULTI", "+OK");
                    it.says("SET a ''", "+QUEUED");
                    it.asks(
                        format!("APPEND a {name}\r\n").repeat(LONG),
                        "+QUEUED\r\n".repeat(LONG),
                    );
                    it.says("GET a", "+QUEUED");
                    let lengths: String = (1..=LONG).map(|it| format!(":{it}\r\n")).collect();
                    let whole = name.repeat(LONG);
                    let head = format!("*{}\r\n+OK\r\n", LONG + 2);
                    it.says("EXEC", &format!("{head}{lengths}${LONG}\r\n{whole}"));
                }
            });
        }
    });
}
