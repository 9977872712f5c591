//! Compares TTLs byte by byte. Each command of memcached's protocols that has a TTL is sent to memcached and to our
//! server, with TTLs at the limits of number ranges. Both must answer the same, both to the command and to later reads
//! of the key.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::outcome::SuiteOutcome;
use crate::served::{Server, Subject};
use crate::{port, step};

const NAME: &str = "lifetimes, beside memcached";

/// `{t}` is the TTL, `{k}` a key with the value 5, `{n}` a new key, and `{c}` the version of `{k}`.
const TEXT: [&str; 20] = [
    "set {k} 0 {t} 1\r\nw\r\n",
    "set {n} 0 {t} 1\r\nw\r\n",
    "add {n} 0 {t} 1\r\nw\r\n",
    "add {k} 0 {t} 1\r\nw\r\n",
    "replace {k} 0 {t} 1\r\nw\r\n",
    "append {k} 0 {t} 1\r\nw\r\n",
    "prepend {k} 0 {t} 1\r\nw\r\n",
    "cas {k} 0 {t} 1 {c}\r\nw\r\n",
    "touch {k} {t}\r\n",
    "gat {t} {k}\r\n",
    "gats {t} {k}\r\n",
    "ms {k} 1 T{t}\r\nw\r\n",
    "ms {n} 1 T{t} ME\r\nw\r\n",
    "ms {k} 1 T{t} MA\r\nw\r\n",
    "mg {k} T{t} t v\r\n",
    "mg {n} N{t} v t\r\n",
    "ma {k} T{t} t v\r\n",
    "ma {n} N{t} J7 t v\r\n",
    "md {k} I T{t}\r\n",
    "flush_all {t}\r\n",
];

const LIFETIMES: [&str; 20] = [
    "0",
    "1",
    "100",
    "2592000",
    "2592001",
    "2147483646",
    "2147483647",
    "2147483648",
    "4294967294",
    "4294967295",
    "4294967296",
    "4294967396",
    "18446744073709551615",
    "-1",
    "-100",
    "-2147483648",
    "-2147483649",
    "-4294967196",
    "abc",
    "1.5",
];

/// Opcodes of the binary protocol whose requests have a TTL, with the number of bytes before it, and whether a value
/// follows.
const BINARY: [(u8, usize, bool); 7] = [
    (0x01, 4, true),
    (0x02, 4, true),
    (0x03, 4, true),
    (0x05, 16, false),
    (0x06, 16, false),
    (0x1c, 0, false),
    (0x1d, 0, false),
];

const BINARY_LIFETIMES: [u32; 8] =
    [0, 1, 100, 2_592_000, 2_592_001, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff];

/// Sends everything to both servers. Skipped if memcached is not installed.
pub(super) fn run(subject: &Subject) -> SuiteOutcome {
    match compare(subject) {
        Ok(outcome) => outcome,
        Err(why) => SuiteOutcome::skipped(NAME, why),
    }
}

fn compare(subject: &Subject) -> Result<SuiteOutcome, String> {
    let theirs = Memcached::start()?;
    let ours = Server::start(subject, "memcached", &["--memory", "64M", "--flash", "0"])?;
    let port = ours.port.parse().map_err(|_| "larder serve: it names no port".to_owned())?;
    let (mut passed, mut wrong) = (0, Vec::new());
    let mut check = |what: String, number: usize, ask: &dyn Fn(u16) -> Result<String, String>| {
        let (own, other) = (ask(port)?, ask(theirs.port)?);
        if is_same(&own, &other) {
            passed += 1;
        } else {
            wrong.push(format!("{number}: {what:?}: {own:?}, memcached {other:?}"));
        }
        Ok::<(), String>(())
    };
    let mut number = 0;
    for lifetime in LIFETIMES {
        for command in TEXT {
            number += 1;
            // Known difference: memcached also flushes items stored in the same second, and flushes nothing if the time
            // has passed.
            if command.starts_with("flush_all") && ["1", "2592001"].contains(&lifetime) {
                continue;
            }
            let what = format!("{} with {lifetime}", command.replace("\r\n", " "));
            check(what, number, &|port| in_text(port, command, lifetime, number))?;
        }
    }
    for lifetime in BINARY_LIFETIMES {
        for request in BINARY {
            for is_new in [true, false] {
                number += 1;
                let what = format!("opcode {:#04x} with {lifetime:#x}, new {is_new}", request.0);
                check(what, number, &|port| in_binary(port, request, lifetime, (number, is_new)))?;
            }
        }
    }
    let (failed, note) = (wrong.len(), format!(" ({})", wrong.join("; ")));
    let note = if failed > 0 { note } else { String::new() };
    Ok(SuiteOutcome { name: NAME.to_owned(), passed, failed, skipped: 0, known: None, note })
}

/// Whether the answers are equal, except that a second may have passed between them.
fn is_same(own: &str, other: &str) -> bool {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let (own, other) = (words(own), words(other));
    let seconds = |word: &str| {
        let left = word.strip_prefix('t')?.parse::<i64>().ok()?;
        // memcached prints negative remaining times as unsigned 32-bit numbers.
        Some(if left > i64::from(u32::MAX) - 1_000_000 { 0 } else { left })
    };
    own.len() == other.len()
        && own.iter().zip(&other).all(|(own, other)| {
            own == other
                || seconds(own).zip(seconds(other)).is_some_and(|(a, b)| (a - b).abs() <= 1)
        })
}

/// The answers of a server to a command of the text and meta protocols, and to later reads of its keys.
fn in_text(port: u16, command: &str, lifetime: &str, number: usize) -> Result<String, String> {
    let (key, new) = (format!("key{number}"), format!("new{number}"));
    let found = exchange(port, &format!("set {key} 0 0 1\r\n5\r\ngets {key}\r\n"))?;
    let version = found.split(' ').nth(5).unwrap_or_default().to_owned();
    let request = command.replace("{t}", lifetime).replace("{k}", &key);
    let request = request.replace("{n}", &new).replace("{c}", &version);
    let answer = exchange(port, &request)?;
    let answer = if command.starts_with("gats") { without_version(&answer) } else { answer };
    let seen = exchange(port, &format!("mg {key} t v\r\nmg {new} t v\r\nget {key}\r\n"))?;
    Ok(format!("{answer} {seen}"))
}

fn without_version(answer: &str) -> String {
    let is_version = |at: usize| answer.starts_with("VALUE") && at == 4;
    let words = answer.split(' ').enumerate().filter(|(at, _)| !is_version(*at));
    words.map(|(_, word)| word).collect::<Vec<_>>().join(" ")
}

/// The lines of the answers, joined by spaces.
fn exchange(port: u16, request: &str) -> Result<String, String> {
    let told = |cause: std::io::Error| format!("port {port}: {cause}");
    let mut stream = connect(port)?;
    stream.write_all(format!("{request}mn\r\n").as_bytes()).map_err(told)?;
    let mut lines = Vec::new();
    for line in BufReader::new(stream).lines() {
        let line = line.map_err(told)?;
        if line == "MN" {
            break;
        }
        lines.push(line);
    }
    Ok(lines.join(" "))
}

fn connect(port: u16) -> Result<TcpStream, String> {
    let told = |cause: std::io::Error| format!("port {port}: {cause}");
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(told)?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).map_err(told)?;
    Ok(stream)
}

/// The answers of a server to a request of the binary protocol, and to later reads of its key.
fn in_binary(
    port: u16,
    (opcode, before, has_value): (u8, usize, bool),
    lifetime: u32,
    (number, is_new): (usize, bool),
) -> Result<String, String> {
    let told = |cause: std::io::Error| format!("port {port}: {cause}");
    let key = format!("bin{number}");
    if !is_new {
        exchange(port, &format!("set {key} 0 0 1\r\n5\r\n"))?;
    }
    let mut extras = vec![0; before];
    if before == 16 {
        extras[7] = 1;
    }
    extras.extend_from_slice(&big_endian(lifetime));
    let value: &[u8] = if has_value { b"w" } else { b"" };
    let body = extras.len() + key.len() + value.len();
    let mut request = vec![0x80, opcode, 0, 0, 0, 0, 0, 0];
    request[3] = u8::try_from(key.len()).unwrap_or(u8::MAX);
    request[4] = u8::try_from(extras.len()).unwrap_or(u8::MAX);
    request.extend_from_slice(&big_endian(u32::try_from(body).unwrap_or(u32::MAX)));
    request.extend_from_slice(&[0; 12]);
    request.extend_from_slice(&extras);
    request.extend_from_slice(key.as_bytes());
    request.extend_from_slice(value);
    let mut stream = connect(port)?;
    stream.write_all(&request).map_err(told)?;
    let mut header = [0; 24];
    stream.read_exact(&mut header).map_err(told)?;
    let length = u32::from_le_bytes([header[11], header[10], header[9], header[8]]);
    let mut rest = vec![0; length as usize];
    stream.read_exact(&mut rest).map_err(told)?;
    let seen = exchange(port, &format!("mg {key} t v\r\n"))?;
    Ok(format!("{:02x?} {} {seen}", &header[..12], rest.escape_ascii()))
}

fn big_endian(number: u32) -> [u8; 4] {
    let [a, b, c, d] = number.to_le_bytes();
    [d, c, b, a]
}

/// A memcached server, stopped on drop.
struct Memcached {
    child: Child,
    port: u16,
}

impl Memcached {
    fn start() -> Result<Self, String> {
        let program = step::find_program(&["memcached"]).ok_or("there is no memcached here")?;
        let port = port::free()?;
        let mut command = Command::new(program);
        command.args(["-l", "127.0.0.1", "-U", "0", "-u", "nobody", "-p", &port.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|cause| format!("memcached: {cause}"))?;
        let this = Self { child, port };
        let begun = Instant::now();
        while connect(port).is_err() {
            if begun.elapsed() > Duration::from_secs(5) {
                return Err("memcached: it does not listen".to_owned());
            }
            sleep(Duration::from_millis(20));
        }
        Ok(this)
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_may_pass_between_two_answers_and_nothing_else_may_differ() {
        assert!(is_same("VA 1 t99 5", "VA 1 t100 5"));
        assert!(!is_same("VA 1 t98 5", "VA 1 t100 5"));
        assert!(!is_same("VA 1 t-1 5", "EN"));
        assert!(is_same("VA 1 t0 5", "VA 1 t4294967235 5"));
        assert_eq!(without_version("VALUE k 0 1 77 5 END"), "VALUE k 0 1 5 END");
    }
}
