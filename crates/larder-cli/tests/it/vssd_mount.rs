//! `larder vssd mount`: files on a virtual SSD, and what is there after each kind of end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, UNIX_EPOCH};

use crate::place::{Place, Ran};

/// Nothing here takes longer than this.
const PATIENCE: Duration = Duration::from_secs(30);
const STEP: Duration = Duration::from_millis(10);

/// A place with an image of two vSSDs, and a directory to mount them at.
fn place() -> Option<Place> {
    if let Err(error) = fs::OpenOptions::new().read(true).write(true).open("/dev/fuse") {
        eprintln!("skipped: /dev/fuse is not to be had ({error})");
        return None;
    }
    let place = Place::new();
    place.succeed("vssd format --image m.img --channels 4 --dies 2 --blocks 64 --block-size 256K");
    for _ in 0..2 {
        place.succeed("vssd create --image m.img --isolation channel --capacity 8M");
    }
    fs::create_dir(place.path().join("d")).unwrap();
    Some(place)
}

/// A mount that is removed with the test in any case.
struct Running {
    child: Option<Child>,
    dir: PathBuf,
}

impl Running {
    #[track_caller]
    fn start(place: &Place, options: &str) -> Self {
        let dir = place.path().join("d");
        let mut command = place.command(&format!("vssd mount --image m.img 0 d {options}"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let running = Self { child: Some(command.spawn().unwrap()), dir };
        let name = format!("m.img:0 {} fuse", running.dir.canonicalize().unwrap().display());
        running.wait_until(|| fs::read_to_string("/proc/mounts").unwrap().contains(&name));
        running
    }

    fn wait_until(&self, mut done: impl FnMut() -> bool) {
        let begin = Instant::now();
        while !done() {
            assert!(begin.elapsed() < PATIENCE, "not so after {PATIENCE:?}");
            std::thread::sleep(STEP);
        }
    }

    fn id(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    /// Exit status and output. A remaining mount stays.
    fn ended(&mut self) -> Ran {
        let mut child = self.child.take().unwrap();
        self.wait_until(|| child.try_wait().unwrap().is_some());
        Ran::from(child.wait_with_output().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
        let quiet = |command: &mut Command| command.stderr(Stdio::null()).status();
        let _ = quiet(Command::new("umount").arg("-l").arg(&self.dir));
    }
}

#[track_caller]
fn succeeded(ran: &Ran, parts: &[&str]) {
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let said = format!("{}{}", ran.stderr, ran.stdout);
    parts.iter().for_each(|part| assert!(said.contains(part), "no {part:?} in {said}"));
}

fn umount(dir: &Path) {
    assert!(Command::new("umount").arg(dir).status().unwrap().success());
}

#[test]
fn files_outlive_the_mount() {
    let Some(place) = place() else { return };
    let mut running = Running::start(&place, "");
    let dir = running.dir.clone();
    fs::write(dir.join("recipe"), vec![7; 300_000]).unwrap();
    // A fraction of a second before 1970.
    let modified = UNIX_EPOCH - Duration::from_millis(1250);
    fs::File::open(dir.join("recipe")).unwrap().set_modified(modified).unwrap();
    assert_eq!(fs::metadata(dir.join("recipe")).unwrap().modified().unwrap(), modified);
    fs::create_dir(dir.join("shelf")).unwrap();
    fs::rename(dir.join("recipe"), dir.join("shelf/cake")).unwrap();
    running.signal("TERM");
    succeeded(&running.ended(), &["a new file system was made", "unmounted and durable"]);

    let checked = place.json("vssd fsck --image m.img");
    let of_files = checked["file_systems"].as_array().unwrap();
    assert_eq!(of_files.len(), 1, "the other vSSD has none: {checked}");
    assert_eq!(of_files[0]["inodes"], 3);
    assert!(of_files[0]["data_pages"].as_u64().unwrap() >= 74, "{checked}");

    let mut running = Running::start(&place, "--check");
    assert_eq!(fs::read(dir.join("shelf/cake")).unwrap(), vec![7; 300_000]);
    umount(&dir);
    let ran = running.ended();
    succeeded(&ran, &["pages of data", "unmounted and durable"]);
    assert!(!ran.stderr.contains("a new file system was made"), "{ran:?}");
}

/// After a kill it is as after a power loss: what was synced is there.
#[test]
fn what_was_synced_outlives_a_kill() {
    let Some(place) = place() else { return };
    let mut running = Running::start(&place, "");
    let path = running.dir.join("ledger");
    fs::write(&path, "flour 3\n").unwrap();
    fs::File::open(&path).unwrap().sync_all().unwrap();
    running.signal("KILL");
    assert_eq!(running.ended().status, None);
    // The remaining mount is no usable directory any more, and the error says how to remove it.
    place.run("vssd mount --image m.img 0 d").check_error(1, &["DIR d", "umount"]);
    umount(&place.path().join("d"));
    let mut running = Running::start(&place, "");
    assert_eq!(fs::read_to_string(&path).unwrap(), "flour 3\n");
    running.signal("INT");
    succeeded(&running.ended(), &[]);
    place.succeed("vssd fsck --image m.img");
}

/// An open file keeps it mounted until a second signal.
#[test]
fn a_mount_in_use_is_left_alone_once() {
    let Some(place) = place() else { return };
    let mut running = Running::start(&place, "");
    let file = fs::File::create(running.dir.join("open")).unwrap();
    running.signal("TERM");
    std::thread::sleep(Duration::from_millis(300));
    assert!(running.dir.join("open").exists(), "it is mounted as before");
    running.signal("TERM");
    succeeded(&running.ended(), &["is in use, and stays mounted", "unmounted and durable"]);
    drop(file);
    assert!(!place.path().join("d/open").exists());
    let mut running = Running::start(&place, "");
    assert!(place.path().join("d/open").exists(), "what was there is durable");
    umount(&place.path().join("d"));
    succeeded(&running.ended(), &[]);
}

/// After it was unmounted, something else may be mounted there at once, while the process still writes its data.
#[test]
fn what_is_mounted_there_next_is_left_alone() {
    let Some(place) = place() else { return };
    let mut running = Running::start(&place, "");
    let dir = running.dir.clone();
    fs::write(dir.join("much"), vec![7; 8 << 20]).unwrap();
    umount(&dir);
    let next = Command::new("mount").args(["-t", "tmpfs", "next"]).arg(&dir).status().unwrap();
    if !next.success() {
        eprintln!("skipped: this user may not mount a tmpfs");
        return;
    }
    succeeded(&running.ended(), &["unmounted and durable"]);
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    let name = format!("next {} tmpfs", dir.canonicalize().unwrap().display());
    assert!(mounts.contains(&name), "it was unmounted with the one before");
    umount(&dir);
}

#[test]
fn what_cannot_be_mounted_says_why() {
    let Some(place) = place() else { return };
    let mut running = Running::start(&place, "");
    let who = format!("process {}", running.id());
    let refused = |arguments: &str, status, parts: &[&str]| {
        place.run(arguments).check_error(status, parts);
    };
    fs::create_dir(place.path().join("e")).unwrap();
    refused(
        "vssd mount --image m.img 1 e",
        1,
        &["m.img", "in use", &who, "vssd mount", "end that"],
    );
    umount(&running.dir);
    succeeded(&running.ended(), &[]);

    refused("vssd mount --image m.img 1 nowhere", 1, &["DIR nowhere", "make the directory"]);
    refused("vssd mount --image m.img 1 m.img", 1, &["DIR m.img", "no directory"]);
    place.succeed("vssd create --image m.img --isolation none --capacity 1M");
    refused("vssd mount --image m.img 2 e", 1, &["vSSD 2", "blocks are too few", "--capacity"]);
    refused("vssd mount --image m.img 7 e", 2, &["vSSD 7", "there are 0, 1, 2"]);
    refused(
        "vssd mount --image m.img 1 e --read-only",
        1,
        &["vSSD 1", "no file system", "--format"],
    );
    place.succeed("vssd exercise --image m.img 1 --bytes 1M");
    refused("vssd mount --image m.img 1 e", 1, &["vSSD 1", "not of a file system", "--format"]);
}
