//! `larder block export`: serving, ending, and refusals.

use std::io::Read;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use crate::place::Place;
use crate::served_block::{Serving, open, request};

#[test]
fn a_file_is_written_by_one_way_and_read_by_the_other() {
    let place = Place::new();
    let disk = place.write("disk.img", vec![0; 1 << 20]);
    let serving =
        Serving::start(&place, "export disk.img --unix s --tcp 127.0.0.1:0 --name pantry");
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
    let serving = Serving::start(&place, "export memory:1M --unix s --read-only --sockets epoll");
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

    let serving = Serving::start(&place, "export model:8M --unix s");
    let mut unix = UnixStream::connect(place.path().join("s")).unwrap();
    open(&mut unix, b"", 8);
    assert_eq!(request(&mut unix, 1, &mut data), 0);
    assert_eq!(serving.end("TERM").0, Some(0));
}

/// A read-only export opens its file for reading, so that the file may be on a file system that is mounted read-only.
#[test]
fn a_read_only_export_does_not_open_its_file_for_writing() {
    let place = Place::new();
    let disk = place.write("disk.img", vec![3; 1 << 20]);
    for (words, writes) in
        [("export disk.img --unix s --read-only", false), ("export disk.img --unix s", true)]
    {
        let serving = Serving::start(&place, words);
        assert_eq!(serving.opens_for_writing(&disk), writes, "{words}");
        let mut unix = UnixStream::connect(place.path().join("s")).unwrap();
        open(&mut unix, b"", 1);
        let mut data = [0; 5];
        assert_eq!(request(&mut unix, 0, &mut data), 0);
        assert_eq!(data, [3; 5]);
        assert_eq!(serving.end("TERM").0, Some(0));
    }
}

/// Clients get an error, and the operator a log line.
#[test]
fn a_request_that_fails_is_told_unless_errors_alone_are_asked_for() {
    for (words, is_told) in [("", true), ("--log error", false)] {
        let place = Place::new();
        let disk = place.write("disk.img", vec![3; 1 << 20]);
        let told = place.path().join("told");
        let mut command = place.command(&format!("block export disk.img --unix s {words}"));
        command.stderr(std::fs::File::create(&told).unwrap());
        let serving = Serving::run(command);
        let mut unix = UnixStream::connect(place.path().join("s")).unwrap();
        open(&mut unix, b"", 1);
        std::fs::File::options().write(true).open(disk).unwrap().set_len(0).unwrap();
        assert_ne!(request(&mut unix, 0, &mut [0; 5]), 0, "there is nothing to be read");
        serving.end("TERM");
        let told = std::fs::read_to_string(told).unwrap();
        assert_eq!(
            told.contains("WARN") && told.contains("a request has failed"),
            is_told,
            "{told}"
        );
    }
}

#[test]
fn what_cannot_be_exported_is_refused() {
    let place = Place::new();
    place.write("empty", "");
    place.write("disk.img", vec![0; 1 << 20]);
    place.refuse("block export none.img --unix s", 1, &["none.img", "nothing at that path"]);
    place.refuse("block export empty --unix s", 1, &["empty", "0 bytes"]);
    place.refuse("block export memory:5 --unix s", 2, &["5 bytes", "multiple of 4096"]);
    place.refuse("block export disk.img --unix no/such/s", 1, &["cannot listen on unix:no/such/s"]);
    let long = format!("block export disk.img --unix s --name {}", "x".repeat(4097));
    place.refuse(&long, 2, &["name of an export: has 4097 bytes"]);
    let nowhere = place.run("block export disk.img");
    assert_eq!(nowhere.status, Some(2));
    assert!(nowhere.stderr.contains("--unix <PATH>|--tcp <ADDR>"), "{nowhere:?}");
}

#[test]
fn disks_of_the_kernels_need_its_driver_and_a_number() {
    let place = Place::new();
    place.write("disk.img", vec![0; 1 << 20]);
    for (wrong, why) in [
        ("export disk.img --ublk 1048576", "0 to 1048575"),
        ("export --ublk disk.img", "give auto, or the N of /dev/ublkbN"),
        ("export disk.img --ublk --ublk-depth 0", "1..=4096"),
        ("export disk.img --ublk --ublk-depth 4097", "1..=4096"),
        ("ublk --remove auto", "give auto, or the N"),
    ] {
        place.refuse(&format!("block {wrong}"), 2, &[why]);
    }
    if std::path::Path::new("/dev/ublk-control").exists() {
        return println!("skipped: this machine has the driver, and no test makes disks of it");
    }
    for command in ["export disk.img --ublk", "start disk.img --ublk 3", "ublk", "ublk --remove 0"]
    {
        place.refuse(
            &format!("block {command}"),
            2,
            &["/dev/ublk-control is missing", "modprobe ublk_drv"],
        );
    }
}
