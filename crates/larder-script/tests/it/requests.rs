//! Requests of scripts, and their replies.

use std::time::Duration;

use larder_script::Outcome;

use crate::{Account, answer, echo, machine, machine_of, start, within};

/// The answer of a script whose requests are all answered with `reply`.
#[track_caller]
fn with_reply(source: &str, reply: &str) -> String {
    let running = start(machine(), source.as_bytes(), &[], &[]);
    let ended = within(Duration::from_secs(10), running, |_, to| to.extend(reply.bytes()));
    ended.expect("it ends").0
}

#[test]
fn numbers_are_written_in_full() {
    assert_eq!(
        answer("return redis.call('x', 1, 0.1, 1e17, -5, 1e300)"),
        "*6\r\n$1\r\nx\r\n$1\r\n1\r\n$3\r\n0.1\r\n$18\r\n100000000000000000\r\n$2\r\n-5\r\n$6\r\n1e+300\r\n"
    );
}

#[test]
fn replies_become_values() {
    for (reply, show, wanted) in [
        (":5\r\n", "return type(r)..r", "$7\r\nnumber5\r\n"),
        ("+OK\r\n", "return r.ok", "$2\r\nOK\r\n"),
        ("$-1\r\n", "return tostring(r)", "$5\r\nfalse\r\n"),
        ("*-1\r\n", "return tostring(r)", "$5\r\nfalse\r\n"),
        ("_\r\n", "return tostring(r)", "$3\r\nnil\r\n"),
        ("*2\r\n$1\r\na\r\n*1\r\n:2\r\n", "return r[1]..r[2][1]", "$2\r\na2\r\n"),
        ("%1\r\n$1\r\na\r\n:1\r\n", "return r.map.a", ":1\r\n"),
        ("~1\r\n$1\r\na\r\n", "return tostring(r.set.a)", "$4\r\ntrue\r\n"),
        (",1.5\r\n", "return tostring(r.double)", "$3\r\n1.5\r\n"),
        ("#t\r\n", "return tostring(r)", "$4\r\ntrue\r\n"),
        ("(123\r\n", "return r.big_number", "$3\r\n123\r\n"),
        (
            "=5\r\ntxt:x\r\n",
            "return r.verbatim_string.format..r.verbatim_string.string",
            "$4\r\ntxtx\r\n",
        ),
    ] {
        let source = format!("local r = redis.call('x') {show}");
        assert_eq!(with_reply(&source, reply), wanted, "{reply:?}");
    }
}

#[test]
fn an_error_is_raised_or_returned() {
    let reply = "-WRONG x\r\n";
    let raised = with_reply("return redis.call('x')", reply);
    assert!(
        raised.starts_with("-WRONG x script: ") && raised.ends_with(", on @user_script:1.\r\n"),
        "{raised}"
    );
    assert_eq!(with_reply("return redis.pcall('x')", reply), "-WRONG x\r\n");
    assert_eq!(with_reply("return redis.pcall('x').err", reply), "$7\r\nWRONG x\r\n");
    assert_eq!(
        with_reply("local _, e = pcall(redis.call, 'x') return e", reply),
        "$7\r\nWRONG x\r\n"
    );
}

#[test]
fn requests_can_be_made_anywhere() {
    for source in [
        "return coroutine.wrap(function() return redis.call('x')[1] end)()",
        "local r = ('a'):gsub('a', function() return redis.call('x')[1] end) return r",
        "local r table.sort({1,2}, function() r = redis.call('x')[1] return false end) return r",
        "return setmetatable({}, {__index = function() return redis.call('x')[1] end}).y",
        "local _, r = pcall(function() return redis.call('x')[1] end) return r",
        "return loadstring('return redis.call(\"x\")[1]')()",
    ] {
        assert_eq!(answer(source), "$1\r\nx\r\n", "{source}");
    }
}

/// A connection that ends in the middle of a script drops it, wherever it is.
#[test]
fn a_script_may_be_dropped_at_any_step() {
    const SOURCE: &[u8] =
        b"local f = coroutine.wrap(function() for i = 1, 3000 do local s = ('x'):rep(i)
        pcall(function() s:gsub('x', function() redis.call('x', s) coroutine.yield(1) end) end) end
        return cjson.encode({1}) end) f() f()";
    let account = Account::of(64 << 20);
    for steps in 0..200 {
        let mut running = start(machine_of(&account), SOURCE, &["k"], &[b"x"]);
        for _ in 0..steps {
            match running.resume() {
                larder_script::Step::Calls => {
                    let (request, mut reply) = running.take_request();
                    echo(&[b"x"], &mut reply);
                    running.replies(request, reply);
                }
                larder_script::Step::Rests => {}
                larder_script::Step::Ends => break,
            }
        }
        drop(running);
        assert_eq!(account.used(), 0, "after {steps} steps");
    }
}

#[test]
fn what_the_server_keeps_for_a_script_is_counted_until_it_ends() {
    const KEPT: usize = 10 << 20;
    let account = Account::of(64 << 20);
    let mut it = machine_of(&account);
    for _ in 0..3 {
        let running = start(it, b"return 1", &[], &[]);
        assert!(running.take_bytes(KEPT) && !running.take_bytes(KEPT));
        assert!(account.used() >= KEPT);
        it = within(Duration::from_secs(10), running, echo).unwrap().2.unwrap();
        assert!(account.used() < KEPT, "{}", account.used());
    }
}

#[test]
fn a_reply_that_does_not_fit_is_no_reply() {
    let running = start(machine(), b"return redis.pcall('x')", &[], &[]);
    let ended = within(Duration::from_secs(10), running, |_, reply| {
        reply.extend(b"$33554432\r\n");
        reply.resize(reply.len() + (32 << 20), b'x');
        reply.extend(b"\r\n");
    });
    assert_eq!(ended.unwrap().1, Outcome::WithoutMemory);
}
