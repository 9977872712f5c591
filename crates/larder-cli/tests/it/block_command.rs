//! `larder block export`: what it serves, how it ends, and what it refuses.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::place::Place;

/// A server that ends with the test.
struct Serving {
    child: Child,
    stdout: BufReader<ChildStdout>,
    /// What it said before it was ready.
    said: Vec<String>,
}

impl Serving {
    #[track_caller]
    fn start(place: &Place, arguments: &str) -> Self {
        let mut command = place.command(&format!("block export {arguments}"));
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut said = Vec::new();
        while !said.last().is_some_and(|line: &String| line.starts_with("ready")) {
            let mut line = String::new();
            assert_ne!(stdout.read_line(&mut line).unwrap(), 0, "it ended: {said:?}");
            said.push(line.trim_end().to_owned());
        }
        Self { child, stdout, said }
    }

    /// What it says behind a word.
    #[track_caller]
    fn line(&self, word: &str) -> &str {
        let line = self.said.iter().find_map(|line| line.strip_prefix(word));
        line.unwrap_or_else(|| panic!("no {word} in {:?}", self.said)).trim()
    }

    /// How it ended, told by a signal, and what it said meanwhile.
    fn end(mut self, signal: &str) -> (Option<i32>, String) {
        let kill = format!("kill -{signal} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Chooses an export of so many MiB by the oldest option. Returns its flags.
fn open(stream: &mut (impl Read + Write), name: &[u8], mebibytes: u8) -> u8 {
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).unwrap();
    assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
    let name_bytes = u8::try_from(name.len()).unwrap();
    stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0").unwrap();
    stream.write_all(&[&[name_bytes], name].concat()).unwrap();
    let mut about = [0; 10];
    stream.read_exact(&mut about).unwrap();
    assert_eq!(about[..8], [0, 0, 0, 0, 0, 16 * mebibytes, 0, 0]);
    about[9]
}

/// Writes or reads 5 bytes at 4094. Returns the error.
fn request(stream: &mut (impl Read + Write), kind: u8, data: &mut [u8; 5]) -> u8 {
    let head = [0x25, 0x60, 0x95, 0x13, 0, 0, 0, kind];
    let rest = [0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0x0f, 0xfe, 0, 0, 0, 5];
    stream.write_all(&[&head[..], &rest].concat()).unwrap();
    if kind == 1 {
        stream.write_all(data).unwrap();
    }
    let mut reply = [0; 16];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!((&reply[..4], reply[15]), (&[0x67, 0x44, 0x66, 0x98][..], 9));
    if kind == 0 && reply[7] == 0 {
        stream.read_exact(data).unwrap();
    }
    reply[7]
}

#[test]
fn a_file_is_written_by_one_way_and_read_by_the_other() {
    let place = Place::new();
    let disk = place.write("disk.img", vec![0; 1 << 20]);
    let serving = Serving::start(&place, "disk.img --unix s --tcp 127.0.0.1:0 --name pantry");
    assert_eq!(serving.line("export"), "1.00 MiB of disk.img, read and written");
    assert_eq!(serving.line("unix"), "nbd+unix:///pantry?socket=s");
    let uri = serving.line("tcp").to_owned();
    let address = uri.strip_prefix("nbd://").unwrap().strip_suffix("/pantry").unwrap();
    let mut unix = UnixStream::connect(place.path().join("s")).unwrap();
    open(&mut unix, b"pantry", 1);
    let mut bread = *b"bread";
    assert_eq!(request(&mut unix, 1, &mut bread), 0);
    let mut tcp = TcpStream::connect(address).unwrap();
    open(&mut tcp, b"", 1);
    let mut read = [0; 5];
    assert_eq!(request(&mut tcp, 0, &mut read), 0);
    assert_eq!(read, bread);
    let (status, said) = serving.end("TERM");
    assert_eq!(status, Some(0));
    assert!(said.contains("2 connections") && said.contains("flushed and closed"), "{said}");
    assert_eq!(unix.read(&mut [0; 1]).unwrap(), 0, "they are closed");
    let mut expected = vec![0; 1 << 20];
    expected[4094..4099].copy_from_slice(&bread);
    assert!(std::fs::read(disk).unwrap() == expected);
    assert!(!place.path().join("s").exists(), "its socket goes with it");
}

#[test]
fn a_read_only_export_changes_nothing_and_models_are_served() {
    let place = Place::new();
    let serving = Serving::start(&place, "memory:1M --unix s --read-only --sockets epoll");
    assert_eq!(serving.line("export"), "1.00 MiB of memory, read-only");
    assert!(serving.line("threads").ends_with("sockets by epoll"));
    let mut unix = UnixStream::connect(place.path().join("s")).unwrap();
    let read_only = 2;
    assert_eq!(open(&mut unix, b"", 1) & read_only, read_only);
    let mut data = *b"bread";
    assert_eq!(request(&mut unix, 1, &mut data), 1);
    assert_eq!(request(&mut unix, 0, &mut data), 0);
    assert_eq!(data, [0; 5]);
    let other = place.run("block export memory:1M --unix s");
    other.check_error(1, &["cannot listen on unix:s", "another program listens there"]);
    assert_eq!(serving.end("INT").0, Some(0));

    let serving = Serving::start(&place, "model:8M --unix s");
    let mut unix = UnixStream::connect(place.path().join("s")).unwrap();
    open(&mut unix, b"", 8);
    assert_eq!(request(&mut unix, 1, &mut data), 0);
    assert_eq!(serving.end("TERM").0, Some(0));
}

#[test]
fn what_cannot_be_exported_is_refused() {
    let place = Place::new();
    place.write("empty", "");
    place.write("disk.img", vec![0; 1 << 20]);
    place.refuse("block export none.img --unix s", 1, &["none.img", "truncate -s 1G none.img"]);
    place.refuse("block export empty --unix s", 1, &["empty", "0 bytes"]);
    place.refuse("block export memory:5 --unix s", 2, &["5 bytes", "multiple of 4096"]);
    place.refuse("block export disk.img --unix no/such/s", 1, &["cannot listen on unix:no/such/s"]);
    let long = format!("block export disk.img --unix s --name {}", "x".repeat(4097));
    place.refuse(&long, 2, &["name of an export: has 4097 bytes"]);
    let nowhere = place.run("block export disk.img");
    assert_eq!(nowhere.status, Some(2));
    assert!(nowhere.stderr.contains("--unix <PATH>|--tcp <ADDR>"), "{nowhere:?}");
}
