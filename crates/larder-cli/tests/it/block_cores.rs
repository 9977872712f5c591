//! `larder block`: whether cores are those that the cache knows, and what becomes of those that are missing.

use std::os::unix::net::UnixStream;

use crate::place::Place;
use crate::served_block::{Serving, open, request};

const MIB: usize = 1 << 20;

/// A cache that is made before two cores of 1 MiB, each with something of its own.
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

/// Makes something dirty of a core, and stops.
fn dirty(place: &Place, core: &str) {
    let serving = Serving::start(place, "start fast.img --unix s --cleaning nop");
    let mut client = UnixStream::connect(place.path().join("s")).unwrap();
    open(&mut client, core.as_bytes(), 1);
    assert_eq!(request(&mut client, 1, &mut b"bread".clone()), 0);
    drop(client);
    assert_eq!(serving.end("TERM").0, Some(0));
}

/// What is in the file where the clients write.
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
    // The label has them there now.
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
