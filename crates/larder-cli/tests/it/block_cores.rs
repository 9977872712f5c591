//! `larder block`: recognises its cores, and handles missing ones.

use std::os::unix::net::UnixStream;
use std::process::Command;

use crate::place::Place;
use crate::served_block::{Serving, open, request};

const MIB: usize = 1 << 20;

/// A cache in front of two cores of 1 MiB with different contents.
fn made() -> Place {
    let place = Place::new();
    place.write("fast.img", vec![0; 4 * MIB]);
    for (name, seed) in [("a.img", 1_u32), ("b.img", 2)] {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            u8::try_from(state >> 24).unwrap()
        };
        place.write(name, (0..MIB).map(|_| next()).collect::<Vec<u8>>());
    }
    place.succeed("block create fast.img --core a.img --core b.img --mode wb");
    place
}

/// Makes data of a core dirty, and stops.
fn dirty(place: &Place, core: &str) {
    let serving = Serving::start(place, "start fast.img --unix s --cleaning nop");
    let mut client = UnixStream::connect(place.path().join("s")).unwrap();
    open(&mut client, core.as_bytes(), 1);
    assert_eq!(request(&mut client, 1, &mut b"bread".clone()), 0);
    drop(client);
    assert_eq!(serving.end("TERM").0, Some(0));
}

/// The bytes of the file at the place where the clients write.
fn found(place: &Place, name: &str) -> [u8; 5] {
    std::fs::read(place.path().join(name)).unwrap()[4094..4099].try_into().unwrap()
}

fn rename(place: &Place, from: &str, to: &str) {
    std::fs::rename(place.path().join(from), place.path().join(to)).unwrap();
}

#[test]
fn cores_whose_names_were_exchanged_are_refused_and_reassigned() {
    let place = made();
    dirty(&place, "0");
    let before = found(&place, "b.img");
    rename(&place, "a.img", "c.img");
    rename(&place, "b.img", "a.img");
    rename(&place, "c.img", "b.img");
    for command in ["recover fast.img", "start fast.img --unix s", "cores fast.img --remove 1"] {
        let parts = ["core 0 (", "core 1 had", "they are 0=", "--core N=PATH", "--force-core N"];
        place.refuse(&format!("block {command}"), 1, &parts);
    }
    assert_eq!(found(&place, "a.img"), before, "it was not written");
    let recovered = place.run("block recover fast.img --core 0=b.img --core 1=a.img");
    assert_eq!(recovered.status, Some(0), "{recovered:?}");
    assert_eq!(found(&place, "b.img"), *b"bread");
    // The label has the new place of the core now.
    place.succeed("block recover fast.img");
}

#[test]
fn a_core_that_was_replaced_is_taken_only_if_it_is_forced() {
    let place = made();
    dirty(&place, "0");
    place.write("a.img", vec![7; MIB]);
    place.refuse("block recover fast.img", 1, &["core 0 (", "differ", "--force-core N"]);
    place.refuse("block recover fast.img --force-core 1", 1, &["core 0 ("]);
    assert_eq!(found(&place, "a.img"), [7; 5]);
    place.succeed("block recover fast.img --force-core 0");
    assert_eq!(found(&place, "a.img"), *b"bread");
}

#[test]
fn an_old_copy_of_the_cache_is_refused() {
    let place = made();
    dirty(&place, "0");
    let old = std::fs::read(place.path().join("fast.img")).unwrap();
    place.succeed("block recover fast.img");
    place.write("fast.img", old);
    place.refuse("block recover fast.img", 1, &["core 0 (", "old copy of the cache"]);
}

#[test]
fn the_others_are_served_while_one_is_missing_and_it_comes_back() {
    let place = made();
    dirty(&place, "0");
    dirty(&place, "1");
    rename(&place, "b.img", "away.img");
    let recovered = place.run("block recover fast.img");
    assert_eq!(recovered.status, Some(1), "{recovered:?}");
    for part in ["core 1: ", "It is MISSING", "is missing, and ", "stay dirty"] {
        assert!(recovered.stderr.contains(part), "no {part}: {recovered:?}");
    }
    assert!(recovered.stdout.contains("the cores that are there have everything"), "{recovered:?}");
    assert!(!recovered.stderr.contains("truncate"), "{recovered:?}");
    assert_eq!(found(&place, "a.img"), *b"bread");
    place.refuse("block start fast.img --unix s --core 1=typo.img", 1, &["typo.img"]);

    let serving = Serving::start(&place, "start fast.img --unix s --metrics 127.0.0.1:0");
    let status = place.json("block status --unix s");
    let missing = |number: usize| status["cores"][number]["missing"].as_bool();
    assert_eq!((missing(0), missing(1)), (Some(false), Some(true)), "{status}");
    assert!(status["cores"][1]["dirty_bytes"].as_u64() > Some(0), "{status}");
    assert!(status["cores"][0]["compared"]["distinguishing"].as_u64() > Some(10), "{status}");
    place.run("block flush --unix s").check_error(1, &["flushed", "core 1 ("]);
    place.run("block cores --remove 1 --unix s").check_error(1, &["core 1 (", "attach it first"]);
    place.run("block cores --attach 1=a.img --unix s").check_error(1, &["core 0 and core 1"]);
    place.run("block cores --attach 1=typo.img --unix s").check_error(1, &["typo.img"]);
    let status = place.json("block cores --attach 1=away.img --unix s");
    assert_eq!(status["cores"][1]["missing"], false, "{status}");
    place.succeed("block flush 1 --unix s");
    assert_eq!(found(&place, "away.img"), *b"bread");
    assert_eq!(serving.end("TERM").0, Some(0));
}

#[test]
fn a_missing_core_is_given_up_by_its_number() {
    let place = made();
    dirty(&place, "1");
    place.refuse("block cores fast.img --give-up 1", 2, &["core 1 is there", "--remove 1"]);
    rename(&place, "b.img", "away.img");
    let label = place.json("block cores fast.img --give-up 1");
    assert_eq!(label["cores"].as_array().unwrap().len(), 1, "{label}");
    place.succeed("block recover fast.img");
    assert_ne!(found(&place, "away.img"), *b"bread");

    let place = made();
    dirty(&place, "1");
    rename(&place, "b.img", "away.img");
    let serving = Serving::start(&place, "start fast.img --unix s");
    let status = place.json("block cores --give-up 1 --unix s");
    assert_eq!(status["cores"].as_array().unwrap().len(), 1, "{status}");
    place.succeed("block stop --flush --unix s");
    assert_eq!(serving.end("TERM").0, Some(0));
}

/// The warnings of `create` about cores that another cache has.
#[track_caller]
fn warnings(place: &Place, arguments: &str) -> Vec<String> {
    let ran = place.succeed(&format!("block create {arguments}"));
    let lines = ran.stderr.lines().filter_map(|line| line.strip_prefix("warning: "));
    lines.map(str::to_owned).collect()
}

#[track_caller]
fn check_one(warnings: &[String], parts: &[&str]) {
    let [warning] = warnings else { panic!("not one warning: {warnings:?}") };
    parts.iter().for_each(|part| assert!(warning.contains(part), "no {part:?} in {warning}"));
}

#[test]
fn create_warns_of_a_core_for_which_another_cache_has_dirty_data() {
    let place = made();
    place.write("other.img", vec![0; 4 * MIB]);
    let uuid = place.json("block status fast.img")["uuid"].as_str().unwrap().to_owned();
    let again = "other.img --over-other --core b.img --core 3=a.img";
    let found = warnings(&place, "other.img --core 3=a.img");
    check_one(&found, &["core 3 (", "a.img) is core 0 of the cache", &uuid, "no dirty data"]);

    dirty(&place, "0");
    rename(&place, "a.img", "moved.img");
    place.write("other.img", vec![0; 4 * MIB]);
    let found = warnings(&place, "other.img --core 3=moved.img");
    check_one(
        &found,
        &["moved.img) is core 0 of", "1.00 KiB of dirty data", "block recover", "fast.img"],
    );

    // After a kill, the label does not say what is dirty.
    let serving =
        Serving::start(&place, "start fast.img --unix s --core 0=moved.img --cleaning nop");
    assert_eq!(serving.end("KILL").0, None);
    place.write("other.img", vec![0; 4 * MIB]);
    let found = warnings(&place, "other.img --core 3=moved.img");
    check_one(&found, &["was not stopped in order, and may have dirty data"]);

    // The cache runs, and a core with dirty data is missing, so nothing locks that file.
    let serving = Serving::start(&place, "start fast.img --unix s --without-core 0 --cleaning nop");
    place.write("other.img", vec![0; 4 * MIB]);
    let found = warnings(&place, "other.img --core moved.img");
    check_one(&found, &["core 0 (", "is core 0 of", "which runs or"]);
    assert_eq!(serving.end("TERM").0, Some(0));

    place.succeed("block recover fast.img");
    place.write("other.img", vec![0; 4 * MIB]);
    let found = warnings(&place, again.replace("a.img", "moved.img").as_str());
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().all(|warning| warning.contains("no dirty data")), "{found:?}");
}

#[test]
fn create_is_silent_of_files_that_no_other_cache_has() {
    let place = made();
    dirty(&place, "0");
    // The copy has the blocks of the core, and is not the core.
    std::fs::copy(place.path().join("a.img"), place.path().join("copy.img")).unwrap();
    place.write("other.img", vec![0; 4 * MIB]);
    place.write("new.img", vec![5; MIB]);
    assert_eq!(warnings(&place, "other.img --core copy.img --core new.img"), [""; 0]);
    // Another file may have the inode that was a core's.
    place.write("a.img", vec![5; MIB]);
    place.write("other.img", vec![0; 4 * MIB]);
    assert_eq!(warnings(&place, "other.img --core a.img"), [""; 0]);
    // The other cache is gone.
    place.write("fast.img", vec![0; 4 * MIB]);
    place.write("other.img", vec![0; 4 * MIB]);
    assert_eq!(warnings(&place, "other.img --core b.img"), [""; 0]);
}

/// Makes a file system on a file. Returns its UUID as `blkid` prints it; `None` if the tools are not installed.
fn mkfs(place: &Place, name: &str) -> Option<String> {
    let run = |program: &str, arguments: &[&str]| {
        let path = place.path().join(name);
        let ran = Command::new(program).args(arguments).arg(path).output().ok()?;
        ran.status.success().then(|| String::from_utf8(ran.stdout).unwrap().trim().to_owned())
    };
    run("/sbin/mkfs.ext4", &["-q", "-F"])?;
    run("/sbin/blkid", &["-p", "-o", "value", "-s", "UUID"])
}

#[test]
fn the_file_system_of_a_core_is_told_as_blkid_tells_it() {
    let place = Place::new();
    place.write("fast.img", vec![0; 4 * MIB]);
    place.write("a.img", vec![0; MIB]);
    place.write("b.img", vec![0; MIB]);
    let Some(uuid) = mkfs(&place, "a.img") else {
        return println!("skipped: there is no mkfs.ext4 or no blkid");
    };
    let json = place.json("block create fast.img --core a.img --core b.img --mode wb");
    let of = |json: &serde_json::Value, core: usize| {
        json["cores"][core]["known_by"]["file-system UUID"].as_str().map(str::to_owned)
    };
    assert_eq!((of(&json, 0), of(&json, 1)), (Some(uuid.clone()), None), "{json}");
    let shown = format!("a.img, 1.00 MiB, file-system UUID {uuid}, inode ");
    let stopped = place.succeed("block status fast.img").stdout;
    assert!(stopped.contains(&shown), "{stopped}");
    let serving = Serving::start(&place, "start fast.img --unix s --cleaning nop");
    assert_eq!(of(&place.json("block status --unix s"), 0), Some(uuid.clone()));
    let mut client = UnixStream::connect(place.path().join("s")).unwrap();
    open(&mut client, b"0", 1);
    assert_eq!(request(&mut client, 1, &mut b"bread".clone()), 0);
    drop(client);
    assert_eq!(serving.end("TERM").0, Some(0));

    let other = mkfs(&place, "a.img").unwrap();
    assert_ne!(other, uuid);
    let said = format!("it had file-system UUID {uuid} and has {other}");
    place.refuse("block recover fast.img", 1, &["core 0 (", "a.img", "differ", &said]);
}

/// Offsets of the two slots of the fingerprint of core 0.
const SLOTS: [usize; 2] = [32 << 10, 36 << 10];

/// Sequence number of the slot that was written last.
fn last_slot(place: &Place) -> u64 {
    let device = std::fs::read(place.path().join("fast.img")).unwrap();
    let sequence = |at: usize| u64::from_le_bytes(device[at + 32..at + 40].try_into().unwrap());
    SLOTS.map(sequence).into_iter().max().unwrap()
}

/// Blocks of core 0 that the start has compared.
fn compared(place: &Place) -> u64 {
    let status = place.json("block status --unix s");
    status["cores"][0]["compared"]["blocks"].as_u64().unwrap()
}

fn write_bread(place: &Place) {
    let mut client = UnixStream::connect(place.path().join("s")).unwrap();
    open(&mut client, b"0", 1);
    assert_eq!(request(&mut client, 1, &mut b"bread".clone()), 0);
}

#[test]
fn a_flush_and_an_idle_time_bring_fingerprints_up_to_date_before_a_crash() {
    let place = made();
    let start = || Serving::start(&place, "start fast.img --unix s --cleaning nop");
    let serving = start();
    let before = compared(&place);
    write_bread(&place);
    place.succeed("block flush --unix s");
    assert_eq!(serving.end("KILL").0, None);
    let serving = start();
    assert!(compared(&place) >= before, "after a flush");
    // The write goes to the core; its block has no checksum until the cache was idle for a while.
    place.succeed("block mode wt --unix s");
    write_bread(&place);
    let written = last_slot(&place);
    let begun = std::time::Instant::now();
    while last_slot(&place) == written {
        assert!(begun.elapsed().as_secs() < 30, "no fingerprint was written");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(serving.end("KILL").0, None);
    let serving = start();
    assert!(compared(&place) >= before, "after an idle time");
    assert_eq!(serving.end("TERM").0, Some(0));
}

#[test]
fn start_recover_and_cores_say_that_they_have_compared_nothing() {
    for command in ["recover fast.img", "cores fast.img --remove 1", "start fast.img --unix s"] {
        let place = made();
        dirty(&place, "0");
        let mut device = std::fs::read(place.path().join("fast.img")).unwrap();
        SLOTS.iter().for_each(|at| device[*at..at + 4096].fill(0));
        place.write("fast.img", device);
        let said = if command.starts_with("start") {
            // It ends by itself, because the directory of its socket does not exist.
            let ran = place.run("block start fast.img --unix none/s");
            assert_eq!(ran.status, Some(1), "{ran:?}");
            ran.stderr
        } else {
            place.succeed(&format!("block {command}")).stderr
        };
        let wanted = "a.img): no block was compared with it";
        assert!(said.contains(wanted) && said.contains("note: core 0 ("), "{command}: {said}");
    }
}
