//! `larder array`: a closed set on files.

use std::sync::Arc;

use larder::{Config, Device, FileDevice, RealClock, Shards, block_on};

use crate::place::Place;

const MIB: u64 = 1 << 20;

/// Creates the set, or opens it again; then closes it.
fn open_and_close(place: &Place, names: &[&str]) {
    let device = |name: &&str| -> Option<Arc<dyn Device>> {
        Some(Arc::new(FileDevice::create(place.path().join(name), 64 * MIB).unwrap()))
    };
    let devices = names.iter().map(device).collect();
    let cache = block_on(Shards::open(Config::default(), devices, Arc::new(RealClock))).unwrap();
    block_on(cache.close()).unwrap();
}

#[test]
fn a_set_is_shown_and_changed() {
    let place = Place::new();
    open_and_close(&place, &["a", "b", "c"]);
    let shown = place.succeed("array status --device a b c").stdout;
    assert!(shown.matches("healthy").count() == 3 && shown.contains("####"), "{shown}");
    let json = place.json("array fail 1 --device c b a");
    assert_eq!(json["shards"][1]["state"], "failed");
    assert_eq!((json["epoch"].as_u64(), json["shards"][1]["since"].as_u64()), (Some(2), Some(2)));
    drop(FileDevice::create(place.path().join("d"), 64 * MIB).unwrap());
    place.succeed("array add --device a c --new d");
    place.run("array add --device a c --new b").check_error(2, &["--new b: it is not blank"]);
    place.run("array retire 0 --device a").check_error(1, &["shard 2 is live", "name all devices"]);
    open_and_close(&place, &["a", "b", "c", "d"]);
    let json = place.json("array retire 0 --device a b c d");
    let states: Vec<_> =
        json["shards"].as_array().unwrap().iter().map(|it| it["state"].as_str().unwrap()).collect();
    assert_eq!((states[0], states.len()), ("retired", 4), "{states:?}");
    open_and_close(&place, &["b", "c", "d"]);
    place.run("array status --device nothing").check_error(1, &["nothing: cannot be opened"]);
}
