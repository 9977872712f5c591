//! Full disks: a tiny file system in memory, if mounting is allowed here, and the device that is always full.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::place::{Place, Ran, trace_of_gets};

/// A file system of 1 MiB.
struct Tiny(PathBuf);

impl Tiny {
    /// Prints a line and returns `None` if mounting is not allowed.
    fn mount(path: &Path) -> Option<Self> {
        fs::create_dir(path).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=1M", "tmpfs"]).arg(path);
        if mount.output().is_ok_and(|output| output.status.success()) {
            return Some(Self(path.to_owned()));
        }
        println!("skipped: no file system can be mounted here");
        None
    }

    /// Takes all its space.
    fn fill(&self) {
        let mut file = fs::File::create(self.0.join("filler")).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        // If it cannot be unmounted now, it is left to the operator of this machine.
        let _ = Command::new("umount").arg(&self.0).output();
    }
}

#[test]
fn no_space_for_the_file_of_a_device() {
    let place = Place::new();
    place.write("trace.csv", trace_of_gets(1000));
    let Some(tiny) = Tiny::mount(&place.path().join("tiny")) else { return };
    let parts = ["tiny/drive", "8388608", "free space"];
    place.refuse("replay trace.csv --flash 8M --device file:tiny/drive", 1, &parts);
    assert!(tiny.names().is_empty(), "{:?}", tiny.names());
}

/// An empty file fits even there, so this error comes only at the end.
#[test]
fn no_space_for_the_results() {
    let place = Place::new();
    place.write("trace.csv", trace_of_gets(1000));
    let Some(tiny) = Tiny::mount(&place.path().join("tiny")) else { return };
    tiny.fill();
    for (option, name) in
        [("--json tiny/result.json", "result.json"), ("--report tiny", "index.html")]
    {
        let ran = place.run(&format!("replay trace.csv --flash 8M {option}"));
        ran.check_error(1, &[name, "No space left"]);
        assert_eq!(tiny.names(), ["filler"]);
    }
}

#[test]
fn no_space_for_standard_output() {
    let Ok(full) = OpenOptions::new().write(true).open("/dev/full") else {
        println!("skipped: there is no /dev/full");
        return;
    };
    let place = Place::new();
    let commands = [
        "workload list",
        "workload stats uniform --requests 1000",
        "replay --workload uniform --requests 1000 --flash 8M",
    ];
    for command in commands {
        let stdout = full.try_clone().unwrap();
        let output = place.command(command).stdout(stdout).output().unwrap();
        Ran::from(output).check_error(1, &["standard output", "No space left"]);
    }
    assert!(place.files().is_empty());
}

/// One of two cores is a sparse file, for whose blocks there is no room.
#[cfg(target_os = "linux")]
#[test]
fn no_space_for_one_core_of_a_block_cache() {
    use crate::served_block::{Serving, open, request};

    let place = Place::new();
    let Some(tiny) = Tiny::mount(&place.path().join("tiny")) else { return };
    fs::File::create(place.path().join("tiny/full.img")).unwrap().set_len(1 << 20).unwrap();
    tiny.fill();
    place.write("well.img", vec![0; 1 << 20]);
    place.write("fast.img", vec![0; 4 << 20]);
    place.succeed("block create fast.img --core tiny/full.img --core well.img --mode wb");
    let serving = Serving::start(&place, "start fast.img --unix s --cleaning nop");
    let of_core = |name: &str| fs::read(place.path().join(name)).unwrap()[4094..4099].to_vec();
    let write = |core: &[u8], mut data: [u8; 5]| {
        let path = place.path().join("s");
        let mut client = std::os::unix::net::UnixStream::connect(path).unwrap();
        open(&mut client, core, 1);
        assert_eq!(request(&mut client, 1, &mut data), 0);
    };
    let refused = |command: &str, data| {
        write(b"0", data);
        write(b"1", data);
        let ran = place.run(&format!("block {command} --unix s"));
        assert_eq!(ran.status, Some(1), "{command}: {ran:?}");
        for part in ["core 0", "dirty"] {
            assert!(ran.stderr.contains(part), "{command}: {ran:?}");
        }
        assert_eq!(of_core("well.img"), data, "{command}: {ran:?}");
    };
    for (command, data) in [("flush", *b"bread"), ("detach", *b"toast")] {
        refused(command, data);
        let dirty = place.json("block dirty --unix s");
        let ranges = |core: usize| dirty[core]["ranges"].as_array().map(Vec::len);
        assert_eq!((ranges(0).map(|count| count > 0), ranges(1)), (Some(true), Some(0)), "{dirty}");
    }
    refused("stop --flush", *b"rolls");
    assert_eq!(serving.end("CONT").0, Some(1), "something is dirty still");
    place.run("block recover fast.img").check_error(1, &["core 0", "dirty"]);
    fs::remove_file(place.path().join("tiny/filler")).unwrap();
    place.succeed("block recover fast.img");
    assert_eq!(of_core("tiny/full.img"), b"rolls");
}
