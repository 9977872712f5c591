//! The page of errors (`docs/errors.md`): what it quotes is what the programs print.
//!
//! A row is named by its anchor, `<a id="port"></a>`, and quotes the parts of a message that do not change, with `…`
//! between them. Some rows are provoked with the real command; all are looked for in the source. Metrics that the page
//! names are in `/metrics`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::documented::document;
use crate::place::{Place, larder};
use crate::serve_command::{ANYWHERE, Serving, command};

/// The quoted messages of the page, by the names of their rows.
fn rows(page: &str) -> BTreeMap<String, String> {
    let mut rows = BTreeMap::new();
    for anchored in page.split("<a id=\"").skip(1) {
        let (name, rest) = anchored.split_once("\"></a>").unwrap();
        let ticks = rest.chars().take_while(|it| *it == '`').count();
        assert!(ticks > 0, "{name}: no message behind the anchor");
        let message = rest[ticks..].split("`".repeat(ticks).as_str()).next().unwrap().trim();
        assert!(rows.insert(name.to_owned(), message.to_owned()).is_none(), "{name} twice");
    }
    rows
}

/// The first part of a message that does not come in its place in this text.
fn lacking<'a>(message: &'a str, mut said: &str) -> Option<&'a str> {
    for part in message.split('…').map(str::trim).filter(|part| !part.is_empty()) {
        let Some(at) = said.find(part) else { return Some(part) };
        said = &said[at + part.len()..];
    }
    None
}

/// Checks that a text has the message of a row.
#[track_caller]
fn told(row: &str, said: &str) {
    let rows = rows(&document("errors.md"));
    let message = rows.get(row).unwrap_or_else(|| panic!("docs/errors.md has no row {row}"));
    if let Some(part) = lacking(message, said) {
        panic!("docs/errors.md, row {row}: {message:?} is not what is printed ({part:?}):\n{said}");
    }
}

/// Runs a command that must fail, and checks its message.
#[track_caller]
fn fails(row: &str, mut command: Command) {
    let ended = command.output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(!ended.status.success(), "{row}: it did not fail");
    assert!(said.lines().any(|line| line.starts_with("error: ")), "{row}: {said}");
    told(row, &said);
}

/// The same for `larder` with these words.
#[track_caller]
fn refuses(row: &str, place: &Place, words: &str) {
    fails(row, place.command(words));
}

const SERVE: &str = "serve --memcached none --resp 127.0.0.1:0 --admin none --memory 64M";
const STARVED: &str = "serve --memcached none --resp 127.0.0.1:0 --admin none --memory 1M";

#[test]
fn a_server_with_wrong_settings() {
    let place = Place::new();
    refuses("option", &place, "serve --memory 64X");
    place.write("larder.toml", "conections = 100\n");
    refuses("unknown-key", &place, "check larder.toml");
    let tenant = |name: &str| format!("[[tenant]]\nname = \"{name}\"\nshare = 60\n");
    place.write("larder.toml", tenant("a") + &tenant("b"));
    refuses("shares", &place, "check larder.toml");
    place.write("larder.toml", "memcached = \"127.0.0.1:7000\"\nresp = \"127.0.0.1:7000\"\n");
    refuses("twice", &place, "check larder.toml");
    place.write("larder.toml", "resp_tls = \"127.0.0.1:7000\"\n");
    refuses("no-certificate", &place, "check larder.toml");
    refuses(
        "open-address",
        &place,
        "serve --resp 0.0.0.0:0 --memcached none --admin none --flash 0",
    );
    refuses("no-interface", &place, "serve --resp 192.0.2.1:7000 --allow-unprotected --flash 0");
}

#[test]
fn a_server_whose_flash_does_not_serve() {
    let place = Place::new();
    refuses("small-flash", &place, &format!("{SERVE} --data-dir small --flash 64K"));
    refuses("small-memory", &place, &format!("{STARVED} --data-dir large --flash 900M"));
    refuses("space", &place, &format!("{SERVE} --data-dir large --flash 900T"));
    place.write("file", "text");
    refuses("directory", &place, &format!("{SERVE} --data-dir file --flash 64M"));
    place.write("other", vec![7; 8192]);
    refuses("foreign-file", &place, &format!("{SERVE} --file other --flash 64M"));
    place.write("other", vec![7; 64 << 20]);
    refuses("foreign", &place, &format!("{SERVE} --file other"));
    let served = format!("{SERVE} --data-dir data --flash 64M");
    drop(Serving::run(piped(place.command(&served))));
    refuses("emptied", &place, &format!("{served} --soc 50"));
}

/// The command with its output where the test reads it.
fn piped(mut command: Command) -> Command {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn a_server_beside_another_program() {
    let directory = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    fails("port", command(directory.path(), &["--memcached", &address, "--admin", "none"]));
    let mut serving = Serving::run(command(directory.path(), &ANYWHERE));
    fails("in-use", command(directory.path(), &ANYWHERE));
    // The file of settings is read again, with a mistake.
    let file = directory.path().join("larder.toml");
    fs::write(&file, "connections = 100\n").unwrap();
    serving.signal("TERM");
    serving.child.wait().unwrap();
    let mut configured = command(directory.path(), &ANYWHERE);
    configured.args(["--log", "warn", "--config", file.to_str().unwrap()]);
    serving = Serving::run(configured);
    fs::write(&file, "conections = 100\n").unwrap();
    serving.signal("HUP");
    let mut line = String::new();
    let mut errors = BufReader::new(serving.child.stderr.take().unwrap());
    errors.read_line(&mut line).unwrap();
    told("hangup", &line);
}

/// Sends a request, and reads the first line of the answer.
fn asked(stream: &mut TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(&*stream).read_line(&mut line).unwrap();
    line
}

#[test]
fn clients_of_redis_and_memcached() {
    let directory = tempfile::tempdir().unwrap();
    let limits = ["--value-max", "64K", "--collection-max", "100", "--script-time-limit", "20"];
    let serving = Serving::run(command(directory.path(), &[&ANYWHERE[..], &limits].concat()));
    let mut resp = serving.connect("resp");
    let long = "x".repeat(200);
    let wide = "x".repeat(60_000);
    for (row, request) in [
        ("unknown-command", "XADD stream * a b\r\n".to_owned()),
        ("collection", format!("HSET h field {long}\r\n")),
        ("noscript", "EVALSHA 0123456789012345678901234567890123456789 0\r\n".to_owned()),
        ("script-time", "EVAL \"while true do end\" 0\r\n".to_owned()),
        ("db-index", "SELECT 16\r\n".to_owned()),
    ] {
        told(row, &asked(&mut resp, &request));
    }
    assert_eq!(asked(&mut resp, "RPUSH list a\r\n"), ":1\r\n");
    told("wrongtype", &asked(&mut resp, "GET list\r\n"));
    let bulk = |words: &[&str]| {
        words.iter().fold(format!("*{}\r\n", words.len()), |mut request, word| {
            write!(request, "${}\r\n{word}\r\n", word.len()).unwrap();
            request
        })
    };
    assert_eq!(asked(&mut resp, &bulk(&["SET", "wide", &wide])), "+OK\r\n");
    told("too-long", &asked(&mut resp, &bulk(&["APPEND", "wide", &wide])));
    told("too-long", &asked(&mut resp, &bulk(&["SET", "wider", &"x".repeat(99_999)])));
    let mut memcached = serving.connect("memcached");
    told("error", &asked(&mut memcached, "nonsense\r\n"));
    let value = "x".repeat(99_999);
    told("too-large", &asked(&mut memcached, &format!("set k 0 0 99999\r\n{value}\r\n")));
}

#[test]
fn clients_that_must_log_in() {
    let directory = tempfile::tempdir().unwrap();
    let mut hash = larder();
    hash.arg("password").stdout(Stdio::piped());
    let mut hash = hash.stdin(Stdio::piped()).spawn().unwrap();
    hash.stdin.take().unwrap().write_all(b"rye bread\n").unwrap();
    let hash = String::from_utf8(hash.wait_with_output().unwrap().stdout).unwrap();
    let file = directory.path().join("larder.toml");
    let tenants =
        "[[tenant]]\nname = \"a\"\nshare = 100\nrequests_per_second = 1\nover_limit = \"error\"\n";
    let user =
        format!("[[user]]\nname = \"ann\"\ntenant = \"a\"\npassword = \"{}\"\n", hash.trim());
    fs::write(&file, format!("connections = 4\n{tenants}{user}")).unwrap();
    let mut configured = command(directory.path(), &ANYWHERE);
    configured.args(["--config", file.to_str().unwrap()]);
    let serving = Serving::run(configured);
    let mut resp = serving.connect("resp");
    told("noauth", &asked(&mut resp, "GET k\r\n"));
    told("wrongpass", &asked(&mut resp, "AUTH ann oats\r\n"));
    assert_eq!(asked(&mut resp, "AUTH ann \"rye bread\"\r\n"), "+OK\r\n");
    told("noperm", &asked(&mut resp, "CONFIG SET maxmemory 1\r\n"));
    let late: Vec<String> = (0..40).map(|_| asked(&mut resp, "GET k\r\n")).collect();
    told("over-limit", late.last().unwrap());
    let mut memcached = serving.connect("memcached");
    told("unauthenticated", &asked(&mut memcached, "get k\r\n"));
    // An answer shows that the server has taken the connection.
    let mut others = [serving.connect("resp"), serving.connect("resp")];
    others.iter_mut().for_each(|other| told("noauth", &asked(other, "GET k\r\n")));
    let mut line = String::new();
    BufReader::new(serving.connect("resp")).read_line(&mut line).unwrap();
    told("too-many", &line);
}

#[test]
fn commands_that_ask_where_no_server_is() {
    let place = Place::new();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    refuses("no-admin", &place, &format!("advise --server {closed}"));
    refuses("refused", &place, &format!("bench --seconds 1 memcached://{closed}"));
    place.write("trace.csv", "");
    refuses("trace-empty", &place, "replay trace.csv");
    refuses("small-model", &place, "replay --requests 1000 --flash 1M");
}

#[test]
fn block_caches_and_devices() {
    let place = Place::new();
    place.write("cache.img", vec![0; 4 << 20]);
    place.write("slow.img", vec![0; 1 << 20]);
    place.write("empty", "");
    place.write("other.img", vec![7; 4 << 20]);
    refuses("no-path", &place, "block export none.img --unix s");
    refuses("no-block", &place, "block export empty --unix s");
    refuses("not-running", &place, "block status --unix s");
    refuses("no-block-cache", &place, "block status cache.img");
    refuses("over-other", &place, "block create other.img --core slow.img");
    place.succeed("block create cache.img --core slow.img");
    refuses("over-cache", &place, "block create cache.img --core slow.img");
    refuses(
        "no-placement",
        &place,
        &format!("{SERVE} --file new --flash 64M --placement required"),
    );
    if !Path::new("/dev/ublk-control").exists() {
        refuses("no-ublk", &place, "block ublk");
    }
}

/// The text of all source files below a directory, with texts that go over lines in one.
fn source(directory: &Path, all: &mut String) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let ends = |ends: &[&str]| path.extension().is_some_and(|it| ends.iter().any(|e| it == *e));
        if path.is_dir() && !path.ends_with("target") && !path.ends_with("tests") {
            source(&path, all);
        } else if ends(&["rs", "py"]) {
            *all += &fs::read_to_string(&path).unwrap();
        }
    }
}

#[test]
fn every_message_of_the_page_is_in_the_source() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut all = String::new();
    for directory in ["crates", "python/src", "python/lib"] {
        source(&root.join(directory), &mut all);
    }
    let mut joined = String::with_capacity(all.len());
    for line in all.lines() {
        match line.strip_suffix('\\') {
            Some(begun) => joined += begun.trim_start(),
            None => {
                joined += line.trim_start();
                joined.push('\n');
            }
        }
    }
    let joined = joined.replace("\\\"", "\"");
    // Texts of other libraries, and one that is put together of parts. Other tests provoke them.
    let theirs = ["option", "refused", "foreign"];
    let mut missing = Vec::new();
    for (row, message) in rows(&document("errors.md")) {
        let parts = message.split('…').map(|part| part.trim_matches([' ', '(', ')']));
        let parts = parts.filter(|part| part.len() > 4);
        let parts = parts.filter(|part| !theirs.contains(&&*row) && !joined.contains(part));
        missing.extend(parts.map(|part| format!("row {row}: {part}")));
    }
    assert!(
        missing.is_empty(),
        "docs/errors.md quotes what is in no source:\n{}",
        missing.join("\n")
    );
}

#[test]
fn every_metric_of_the_page_is_in_metrics() {
    let directory = tempfile::tempdir().unwrap();
    let serving = Serving::run(command(directory.path(), &ANYWHERE));
    let address = serving.place("admin").trim_start_matches("http://").trim_end_matches('/');
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .write_all(format!("GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes())
        .unwrap();
    let mut metrics = String::new();
    stream.read_to_string(&mut metrics).unwrap();
    let page = document("errors.md");
    let is_of_name = |it: char| it.is_ascii_lowercase() || it == '_';
    let names: Vec<&str> = page
        .split('`')
        .filter(|word| word.starts_with("larder_") && word.chars().all(is_of_name))
        .filter(|word| !["larder_status", "larder_error_text"].contains(word))
        .collect();
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        assert!(metrics.contains(name), "docs/errors.md names {name}, which /metrics has not");
    }
}

#[test]
fn a_row_that_does_not_fit_is_found() {
    let rows = rows("| <a id=\"one\"></a>`a … b` | x |\n| <a id=\"two\"></a>``run `c` `` |\n");
    assert_eq!((&*rows["one"], &*rows["two"]), ("a … b", "run `c`"));
    assert_eq!(lacking("a … b", "xa 1 b"), None);
    assert_eq!(lacking("a … b", "b a"), Some("b"));
}
