//! Valid and invalid bytes.

use larder_server::ServerConfig;

use super::{array, client};
use crate::serving::{config, in_memory, in_memory_with};

#[test]
fn what_is_no_protocol_is_answered_and_closed() {
    let server = in_memory();
    for (sent, answer) in [
        ("*1\r\n$x\r\n", "invalid bulk length"),
        ("*3\r\n$3\r\nSET\r\n$1\r\na\r\n:1\r\n", "expected '$', got ':'"),
        ("set \"a\r\n", "unbalanced quotes in request"),
        ("*x\r\n", "invalid multibulk length"),
    ] {
        let mut client = client(&server);
        client.asks(sent, format!("-ERR Protocol error: {answer}\r\n"));
        client.is_closed();
    }
}

#[test]
fn http_is_closed_without_an_answer() {
    let server = in_memory();
    for sent in ["POST / HTTP/1.1\r\n", "Host: a.example\r\n"] {
        let mut client = client(&server);
        client.send(sent);
        client.is_closed();
    }
}

#[test]
fn what_asks_nothing_is_skipped() {
    let server = in_memory();
    client(&server).asks("*-5\r\n\r\n*0\r\n  \r\nPING\r\n", "+PONG\r\n");
}

#[test]
fn errors_that_clients_know() {
    let server = in_memory();
    let mut client = client(&server);
    client.says("FOO a", "-ERR unknown command 'FOO', with args beginning with: 'a' ");
    client.says("GET", "-ERR wrong number of arguments for 'get' command");
    client.says("SET a b NX XX", "-ERR syntax error");
    client.says("SET a b EX 0", "-ERR invalid expire time in 'set' command");
    client.says("SETEX a 0 b", "-ERR invalid expire time in 'setex' command");
    client.says("INCRBY a x", "-ERR value is not an integer or out of range");
    client.says("SELECT 16", "-ERR DB index is out of range");
    client.says("HELLO 4", "-NOPROTO unsupported protocol version");
    client.says("AUTH nobody x", "-WRONGPASS invalid username-password pair or user is disabled.");
    client.says(
        "AUTH x",
        "-ERR AUTH <password> called without any password configured for the default user. Are you sure your \
         configuration is correct?",
    );
    client.says("SCAN x", "-ERR invalid cursor");
    client.says(
        "SETRANGE a 100000000 x",
        "-ERR string exceeds maximum allowed size (proto-max-bulk-len)",
    );
    client.says("CLIENT NOPE", "-ERR unknown subcommand 'NOPE'. Try CLIENT HELP.");
    client.says("CLUSTER INFO", "-ERR This instance has cluster support disabled");
    client.says(
        "CONFIG SET nope x",
        "-ERR Unknown option or number of arguments for CONFIG SET - 'nope'",
    );
    client.asks(
        array(&[b"a\r\n+OK", b"\n"]),
        "-ERR unknown command 'a  +OK', with args beginning with: ' ' \r\n",
    );
    client.says("PING", "+PONG");
}

#[test]
fn a_value_that_is_too_long_is_swallowed() {
    let server = in_memory_with(ServerConfig { value_bytes_max: 1024, ..config() });
    let mut client = client(&server);
    client.says("SET a old", "+OK");
    let long = vec![b'x'; 3 << 20];
    client.send(array(&[b"SET", b"a", &long]));
    client.hears("-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n");
    client.gives("GET a", "old");
}

#[test]
fn what_there_is_no_room_for_is_swallowed() {
    let few = ServerConfig {
        value_bytes_max: 1 << 20,
        client_bytes_max: 4 << 20,
        workers: 1,
        ..config()
    };
    let server = in_memory_with(few);
    let mut client = client(&server);
    let key = vec![b'k'; 1 << 20];
    client.send(array(&[&b"DEL"[..], &key, &key, &key, &key, &key, &key]));
    client.hears("-OOM command not allowed when used memory > 'maxmemory'.\r\n");
    client.says("PING", "+PONG");
}

#[test]
fn a_stream_in_pieces_is_answered_as_one() {
    let server = in_memory();
    let mut stream = array(&[b"SET", b"a", b"1\r\n2"]);
    stream.extend(b"INCR n\r\n");
    stream.extend(array(&[b"MGET", b"a", b"n", b"b"]));
    stream.extend(b"*-1\r\nEXISTS a b\r\n");
    let answer = "+OK\r\n:1\r\n*3\r\n$4\r\n1\r\n2\r\n$1\r\n1\r\n$-1\r\n:1\r\n";
    client(&server).asks(&stream, answer);
    let mut slow = client(&server);
    slow.says("DEL n", ":1");
    for byte in &stream {
        slow.send([*byte]);
    }
    slow.hears(answer);
}

#[test]
fn a_million_keys_at_once() {
    let server = in_memory();
    let mut client = client(&server);
    client.says("SET key:7 seven", "+OK");
    let count = 1_000_000;
    let mut request = format!("*{}\r\n$4\r\nMGET\r\n", count + 1).into_bytes();
    for number in 0..count {
        let key = format!("key:{number}");
        request.extend(format!("${}\r\n{key}\r\n", key.len()).bytes());
    }
    let mut writer = client.0.try_clone().unwrap();
    let sender =
        std::thread::spawn(move || std::io::Write::write_all(&mut writer, &request).unwrap());
    let mut answer = format!("*{count}\r\n");
    for number in 0..count {
        answer += if number == 7 { "$5\r\nseven\r\n" } else { "$-1\r\n" };
    }
    client.hears(answer);
    sender.join().unwrap();
    client.says("PING", "+PONG");
}
