//! `larder vssd`: tenants in a model image, from its creation to the exchange of channels.

use std::fs;
#[cfg(target_os = "linux")]
use std::{
    io::{Read, Write},
    os::unix::{fs::PermissionsExt, net::UnixStream},
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use crate::place::Place;

/// Nothing here takes longer than this.
#[cfg(target_os = "linux")]
const PATIENCE: Duration = Duration::from_secs(30);

/// Checks an error of an array. It does not compare the image, which changes with each opening: a drive counts its
/// starts.
#[track_caller]
fn refused(place: &Place, arguments: &str, status: i32, parts: &[&str]) {
    place.run(arguments).check_error(status, parts);
}

const FORMAT: &str = "vssd format --image m.img --channels 4 --dies 2 --blocks 16 --endurance 200";

fn place() -> Place {
    let place = Place::new();
    place.succeed(FORMAT);
    place
}

#[test]
fn a_tenant_borrows_blocks_of_others() {
    let place = place();
    place.succeed("vssd create --image m.img --isolation channel --capacity 1M");
    refused(
        &place,
        "vssd exercise --image m.img 0 --bytes 1M --borrow",
        2,
        &["--borrow", "no other"],
    );
    place.succeed("vssd create --image m.img --isolation channel --capacity 1M");
    let done = place.json("vssd exercise --image m.img 0 --bytes 64M --no-levelling --borrow");
    assert_eq!(done["compared_bytes"], 64 << 20);
    let [loans, written, erases] = ["borrowed_blocks", "borrowed_written_bytes", "borrowed_erases"]
        .map(|name| done[name].as_u64().unwrap());
    assert!(loans > 2 && written > 8 << 20 && erases > 0, "{done}");
    let wear = place.json("vssd wear --image m.img");
    let channels = wear["drives"][0]["channels"].as_array().unwrap();
    let worn: u64 = channels.iter().map(|channel| channel["erases"].as_u64().unwrap()).sum();
    let of_lender = channels.iter().find(|channel| channel["vssds"][0] == 1).unwrap();
    assert!(of_lender["erases"].as_u64().unwrap() >= erases, "on its dies: {of_lender}");
    assert!(worn > of_lender["erases"].as_u64().unwrap());
    place.succeed("vssd fsck --image m.img");
}

#[test]
fn tenants_write_wear_and_change_places() {
    let place = place();
    let made = place.json("vssd create --image m.img --isolation channel --capacity 1M");
    assert_eq!((made["vssd"].as_u64(), made["units"].as_u64()), (Some(0), Some(1)));
    assert_eq!(
        (made["isolation"].as_str(), made["rung"].as_str()),
        (Some("channels"), Some("raw model"))
    );
    place.succeed("vssd create --image m.img --isolation die --capacity 1M");
    place.succeed("vssd create --image m.img --isolation software --weight 3 --capacity 1M");
    let list = place.json("vssd list --image m.img");
    assert_eq!(list["vssds"].as_array().unwrap().len(), 3);
    assert_eq!(list["vssds"][2]["weight"], 3);

    let done = place.json("vssd exercise --image m.img 0 --bytes 64M --no-levelling");
    assert_eq!(done["appended_bytes"], 64 << 20);
    assert_eq!(done["compared_bytes"], done["appended_bytes"]);
    let wear = place.json("vssd wear --image m.img");
    let channels = wear["drives"][0]["channels"].as_array().unwrap();
    let erases: Vec<u64> =
        channels.iter().map(|channel| channel["erases"].as_u64().unwrap()).collect();
    assert!(erases.iter().filter(|&&erases| erases > 0).count() == 1, "{erases:?}");
    let hot = erases.iter().position(|&erases| erases > 0).unwrap() as u64;
    let picture = place.succeed("vssd wear --image m.img").stdout;
    assert!(picture.contains('█') && picture.contains("imbalance 4.00"), "{picture}");

    let advice = place.json("vssd swap --image m.img");
    assert_eq!(advice["chosen"][0].as_u64(), Some(hot), "the worn one first: {advice}");
    assert_eq!(advice["moved_parts"], 0);
    let swapped = place.json("vssd swap --image m.img --yes");
    assert_eq!(swapped["done"], true);
    assert!(swapped["moved_parts"].as_u64().unwrap() > 0, "{swapped}");
    let list = place.json("vssd list --image m.img");
    let channel = list["vssds"][0]["dies"][0]["channel"].as_u64().unwrap();
    assert_ne!(channel, hot, "its tenant sits elsewhere");
    let checked = place.json("vssd fsck --image m.img");
    assert!(
        checked["pages"].as_u64().unwrap() > 0 && checked["wrong"].as_array().unwrap().is_empty()
    );
    place.json("vssd exercise --image m.img 0 --bytes 4M --no-levelling");

    refused(&place, "vssd delete --image m.img 0", 1, &["vSSD 0", "blocks", "--destroy-data"]);
    place.succeed("vssd delete --image m.img 0 --destroy-data");
    refused(&place, "vssd delete --image m.img 0", 2, &["vSSD 0", "there are 1, 2"]);
}

/// Commands that only look at an image do not change a byte of it.
#[test]
fn looking_at_an_image_does_not_change_it() {
    let place = place();
    place.succeed("vssd create --image m.img --isolation channel --capacity 1M");
    place.succeed("vssd exercise --image m.img 0 --bytes 4M");
    let image = || fs::read(place.path().join("m.img")).unwrap();
    let before = image();
    let checked = place.succeed("vssd fsck --image m.img").stdout;
    assert!(checked.contains("all is as it should be"), "{checked}");
    place.succeed("vssd list --image m.img");
    assert!(image() == before);
    place.succeed("vssd exercise --image m.img 0 --bytes 4M");
    assert!(image() != before);
}

#[test]
fn what_cannot_be_names_field_value_and_fix() {
    let place = place();
    place.refuse("vssd list --image not-there.img", 1, &["not-there.img", "larder vssd format"]);
    place.refuse(FORMAT, 1, &["m.img", "it is there"]);
    let create = "vssd create --image m.img --isolation";
    refused(&place, &format!("{create} channel --capacity 900G"), 1, &["--capacity", "are free"]);
    place.refuse(&format!("{create} software --weight 0"), 2, &["--weight 0", "1"]);
    place.refuse(&format!("{create} die --weight 2"), 2, &["--weight 2", "software"]);
    place.refuse(&format!("{create} die --capacity 0"), 2, &["--capacity 0", "1 byte"]);
    refused(&place, "vssd swap --image m.img --channels 3", 2, &["--channels 3", "0,3"]);
    refused(&place, "vssd swap --image m.img --channels 0,9 --yes", 2, &["--channels 0,9"]);
    refused(&place, "vssd swap --image m.img --drive 7", 2, &["--drive 7", "no such drive"]);
    refused(&place, "vssd swap --image m.img --back --yes", 2, &["--back", "no exchange"]);
    refused(&place, "vssd exercise --image m.img 3", 2, &["vSSD 3", "larder vssd create"]);
}

/// What paths offer, best first; nothing is written there.
#[cfg(target_os = "linux")]
#[test]
fn devices_say_how_far_they_keep_tenants_apart() {
    let place = place();
    place.write("plain", vec![0; 1 << 16]);
    let before = place.files();
    let offers = place.json("vssd list --device m.img plain");
    let rung = |at: usize| {
        let rung = &offers["devices"][at]["rungs"][0];
        (rung["rung"].as_str().unwrap(), rung["isolation"].as_str().unwrap())
    };
    assert_eq!(rung(0), ("raw model", "channels"));
    assert_eq!(rung(1), ("plain drive", "partition"));
    assert!(before == place.files(), "a look changes nothing");
    let text = place.succeed("vssd list --device plain").stdout;
    assert!(text.contains("plain drive") && text.contains("are shared"), "{text}");
    place.refuse("vssd list --device not-there", 1, &["--device", "not-there"]);
    place.refuse("vssd list --device .", 1, &["--device", "name one"]);
}

/// An image that was truncated, or a file that is no image, is refused and stays as it is.
#[test]
fn damaged_images_are_refused() {
    let place = place();
    place.succeed("vssd create --image m.img --isolation channel --capacity 1M");
    let whole = fs::read(place.path().join("m.img")).unwrap();
    place.write("cut.img", &whole[..whole.len() / 3]);
    place.refuse("vssd list --image cut.img", 1, &["cut.img"]);
    place.write("none.img", vec![7; 1 << 16]);
    place.refuse("vssd list --image none.img", 1, &["none.img"]);
    place.write("empty.img", "");
    place.refuse("vssd list --image empty.img", 1, &["empty.img"]);
    // One of two headers is enough.
    let mut flipped = whole;
    flipped[20] ^= 0x40;
    place.write("flipped.img", &flipped);
    place.succeed("vssd list --image flipped.img");
}

/// The cache of a replay on blocks in memory, and on blocks of an image, which it wears and leaves empty.
#[test]
fn a_replay_stands_on_a_vssd() {
    let place = Place::new();
    let replay = "replay --workload meta-kv-write-only --requests 20000 --dram 64K --flash 4M --soc 0 --ru 256K";
    let dlwa = |page: &serde_json::Value| page["runs"][0]["dlwa"].as_f64().unwrap();
    let page = place.json(&format!("{replay} --vssd channel"));
    assert_eq!(
        (&page["parameters"]["device"], page["runs"].as_array().unwrap().len()),
        (&"vssd:channel".into(), 1)
    );
    assert!((0.98..=1.05).contains(&dlwa(&page)), "{page}");

    place.succeed("vssd format --image m.img --channels 4 --dies 2 --blocks 40 --block-size 128K");
    place.succeed("vssd create --image m.img --isolation channel --capacity 8M");
    for _ in 0..2 {
        let page = place.json(&format!("{replay} --vssd 0 --image m.img"));
        assert!((0.98..=1.05).contains(&dlwa(&page)), "{page}");
    }
    assert_eq!(place.json("vssd fsck --image m.img")["pages"], 0, "it left nothing");
    let wear = place.json("vssd wear --image m.img");
    let channels = wear["drives"][0]["channels"].as_array().unwrap();
    assert!(channels.iter().any(|channel| channel["erases"].as_u64() > Some(0)), "{wear}");

    place.refuse(&format!("{replay} --vssd 0"), 2, &["--vssd 0", "--image"]);
    place.refuse(
        &format!("{replay} --vssd channel --placement on"),
        2,
        &["vssd:channel", "--placement"],
    );
    place.refuse(&format!("{replay} --vssd plane"), 2, &["plane", "channel, die"]);
    refused(
        &place,
        &format!("{replay} --vssd 7 --image m.img"),
        2,
        &["--vssd 7", "larder vssd create"],
    );
    place.succeed("vssd exercise --image m.img 0 --bytes 4M");
    refused(&place, &format!("{replay} --vssd 0 --image m.img"), 1, &["blocks", "--destroy-data"]);
    place.refuse("lab run utilization --vssd die", 2, &["--vssd", "vssd-accounting"]);
}

/// Both ways to name two channels, and what levelling knows afterwards.
#[test]
fn two_channels_are_named_with_a_comma_or_a_blank() {
    let place = place();
    place.succeed("vssd create --image m.img --isolation channel --capacity 1M");
    place.succeed("vssd exercise --image m.img 0 --bytes 2M --no-levelling");
    for (channels, exchanges) in [("0,3", 1), ("0 3", 2)] {
        let swap = format!("vssd swap --image m.img --channels {channels} --yes");
        assert_eq!(place.json(&swap)["done"], true, "{channels}");
        let wear = place.json("vssd wear --image m.img");
        let levelling = &wear["drives"][0]["levelling"];
        assert_eq!(levelling["exchanges"], exchanges);
        assert!(levelling["moved_bytes"].as_u64() > Some(0), "{levelling}");
        assert!(levelling["spent_erases"].as_u64() > Some(0), "{levelling}");
    }
    assert_eq!(place.json("vssd swap --image m.img --pause")["paused"], true);
    let wear = place.succeed("vssd wear --image m.img").stdout;
    assert!(wear.contains("2 exchanges") && wear.contains("paused by operator"), "{wear}");
    place.succeed("vssd swap --image m.img --resume");
    assert!(place.json("vssd wear --image m.img")["drives"][0]["levelling"]["paused"].is_null());
}

/// A tenant of one channel writes until its turn comes: the command levels by itself, and wear tells by how much.
#[test]
fn a_command_that_writes_levels() {
    let place = Place::new();
    place.succeed(
        "vssd format --image m.img --channels 4 --dies 2 --blocks 12 --block-size 64K --endurance 300",
    );
    place.succeed("vssd create --image m.img --isolation channel --capacity 512K");
    // An exchange may take longer than a command, and then goes on with the next.
    let exchanged = || {
        place.json("vssd exercise --image m.img 0 --bytes 24M --keep 20 --pace 1G");
        let wear = place.json("vssd wear --image m.img");
        wear["drives"][0]["levelling"]["exchanges"].as_u64() > Some(0)
    };
    assert!((0..20).any(|_| exchanged()));
    let wear = place.json("vssd wear --image m.img");
    let drive = &wear["drives"][0];
    let number = |what: &str| drive["levelling"][what].as_f64().unwrap();
    assert!(number("exchanges") >= 1.0, "{drive}");
    assert!(number("spent_erases") > 0.0 && number("spent_share") < 0.2, "{drive}");
    assert_eq!(drive["levelling"]["gamma_from"], "forecast");
    let life = |what: &str| drive["levelling"][what]["of_ideal"].as_f64().unwrap();
    assert!(life("life") > 0.9 && life("life_without") < 0.6, "{drive}");
    assert!(drive["levelling"]["by_gamma"].as_array().unwrap().len() > 3);
    let text = place.succeed("vssd wear --image m.img").stdout;
    assert!(
        text.contains("life at these rates: 9") && text.contains("without levelling"),
        "{text}"
    );
    assert_eq!(place.json("vssd fsck --image m.img")["wrong"].as_array().unwrap().len(), 0);
}

/// An image in use: its owner answers, exchanges what is asked for, and pauses.
#[cfg(target_os = "linux")]
#[test]
fn the_owner_of_an_image_answers_other_commands() {
    let place = Place::new();
    // It lasts for ever, so that no exchange comes by itself.
    let format = "vssd format --image m.img --channels 4 --dies 2 --blocks 40 --block-size 128K";
    place.succeed(&format!("{format} --endurance 0"));
    place.succeed("vssd create --image m.img --isolation channel --capacity 4M");
    place.succeed("vssd exercise --image m.img 0 --bytes 2M --no-levelling");
    let mut command = place.command("vssd exercise --image m.img 0 --bytes 1000G --pace 64K");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let owner = Running(command.spawn().unwrap());
    let socket = place.path().join("m.img.owner");
    let begin = Instant::now();
    while !socket.exists() {
        assert!(begin.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(5));
    }
    let mode = fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let wear = place.json("vssd wear --image m.img");
    assert!(
        wear["exchange"].is_null() && wear["drives"][0]["channels"].as_array().unwrap().len() == 4
    );
    let advice = place.json("vssd swap --image m.img");
    assert_eq!((&advice["in_use"], &advice["moved_parts"]), (&true.into(), &0.into()));
    let channels = Channels::of(&wear);
    let swap =
        format!("vssd swap --image m.img --channels {},{} --yes", channels.used, channels.free);
    let begun = place.succeed(&swap).stdout;
    assert!(begun.contains("it has begun"), "{begun}");
    let wear = place.json("vssd wear --image m.img");
    assert_eq!(wear["exchange"]["cause"], "asked");
    assert_eq!(wear["exchange"]["channels"][0], channels.used);
    refused(&place, &swap, 1, &["an exchange is under way"]);
    place.succeed("vssd swap --image m.img --pause");
    assert_eq!(
        place.json("vssd wear --image m.img")["drives"][0]["levelling"]["paused"],
        "operator"
    );
    let back = place.succeed("vssd swap --image m.img --back --yes").stdout;
    assert!(back.contains("it is taken back"), "{back}");
    refused(&place, "vssd swap --image m.img --drive 7", 2, &["--drive 7", "no such drive"]);

    // What is no question costs the client its connection, and nothing else.
    let mut stream = UnixStream::connect(&socket).unwrap();
    stream.write_all(&vec![b'x'; 1 << 16]).ok();
    drop(stream);
    let mut stream = UnixStream::connect(&socket).unwrap();
    stream.write_all(b"{\"format\":{}}\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("refused") && answer.contains("question"), "{answer}");
    place.json("vssd wear --image m.img");

    // A kill leaves the socket behind; the next owner takes its place, and goes on with the exchange.
    drop(owner);
    assert!(socket.exists());
    assert!(place.json("vssd fsck --image m.img")["wrong"].as_array().unwrap().is_empty());
    place.succeed("vssd exercise --image m.img 0 --bytes 1M");
    assert!(!socket.exists());
}

/// The channel of vSSD 0, and another one.
#[cfg(target_os = "linux")]
struct Channels {
    used: u64,
    free: u64,
}

#[cfg(target_os = "linux")]
impl Channels {
    fn of(wear: &serde_json::Value) -> Self {
        let channels = wear["drives"][0]["channels"].as_array().unwrap();
        let used = channels.iter().position(|channel| channel["vssds"][0] == 0).unwrap() as u64;
        Self { used, free: (used + 1) % 4 }
    }
}

/// A command that is killed with the test.
#[cfg(target_os = "linux")]
struct Running(Child);

#[cfg(target_os = "linux")]
impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
