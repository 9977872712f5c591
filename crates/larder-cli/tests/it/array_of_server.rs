//! `larder array --server`: a set that a running server has open.

use std::process::Stdio;

use crate::place::{Place, larder};
use crate::serve_command::{ANYWHERE, Serving, hashed};

/// A server with a set on two files, and the admin token `rye`.
fn served(place: &Place) -> Serving {
    let mut command = larder();
    command.current_dir(place.path());
    command.args(["serve", "--memory", "64M", "--flash", "128M", "--workers", "1"]);
    command.args(ANYWHERE).args(["--admin-token", &hashed("rye"), "--file", "a", "--file", "b"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Serving::run(command)
}

#[test]
fn a_set_of_a_server_is_shown_and_changed() {
    let place = Place::new();
    let serving = served(&place);
    let at = format!("--server {}", serving.place("admin"));
    place.write("token", "rye\n");
    place.write("wrong", "oat\n");
    for name in ["c", "d", "e"] {
        place.write(name, "");
        std::fs::File::options()
            .write(true)
            .open(place.path().join(name))
            .and_then(|file| file.set_len(64 << 20))
            .unwrap();
    }
    let whole = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let token = format!("{at} --token-file token");
    let states = || -> Vec<String> {
        let json = place.json(&format!("array status {at}"));
        let shards = json["shards"].as_array().unwrap();
        shards.iter().map(|it| it["state"].as_str().unwrap().to_owned()).collect()
    };

    let shown = place.succeed(&format!("array status {at}")).stdout;
    assert!(shown.matches("healthy").count() == 2 && shown.contains("late gets 0"), "{shown}");
    let address = serving.place("admin").trim_start_matches("http://").trim_end_matches('/');
    let refused = |arguments: &str, status, parts: &[&str]| {
        place.run(&format!("array {arguments}")).check_error(status, parts);
        assert_eq!(states(), ["healthy"; 2], "{arguments}");
    };
    refused(&format!("fail 1 {at}"), 1, &[address, "401", "missing or wrong", "--token-file"]);
    refused(&format!("fail 1 {at} --token-file wrong"), 1, &[address, "401", "missing or wrong"]);
    refused(&format!("fail 7 {token}"), 1, &[address, "409", "not done", "no shard 7"]);
    refused(&format!("fail 1 {at} --token-file nowhere"), 1, &["--token-file nowhere"]);
    refused(&format!("add {token} --new c"), 2, &["--new c", "whole path on the server's machine"]);
    refused(&format!("add {token} --new {}", whole("a")), 1, &[address, "409", "not done"]);
    refused(&format!("add {token} --new {}", whole("nothing")), 1, &[address, "409", "nothing"]);
    refused("spare --device a b --new c", 2, &["spare", "--server"]);

    refused(&format!("move 0 1 5 {at}"), 1, &[address, "401", "--token-file"]);
    refused(&format!("move 0 7 5 {token}"), 1, &[address, "409", "there is no shard 7"]);
    refused(&format!("move 0 1 101 {token}"), 2, &["must be 0.01 to 100"]);
    refused("move 0 1 5 --device a b", 2, &["move", "--server"]);
    let moved = place.succeed(&format!("array move 0 1 12.5 {token}")).stdout;
    assert!(moved.contains("keys of shard 0 at shard 1: 12.50 %"), "{moved}");
    assert!(moved.contains("done: 12.5 % of the keys"), "{moved}");

    place.succeed(&format!("array fail 1 {token}"));
    assert_eq!(states(), ["healthy", "failed"]);
    let replaced = place.succeed(&format!("array replace 1 {token} --new {}", whole("c"))).stdout;
    assert!(replaced.contains("/c (") && replaced.contains("done"), "{replaced}");
    let added = place.succeed(&format!("array add {token} --new {}", whole("d"))).stdout;
    assert!(added.contains("it is shard 2"), "{added}");
    place.succeed(&format!("array retire 0 {token}"));
    assert_eq!((&*states()[0], states().len()), ("retired", 3));
    // The spare steps in by itself.
    place.succeed(&format!("array spare {token} --new {}", whole("e")));
    place.succeed(&format!("array fail 2 {token}"));
    let patience = std::time::Instant::now();
    while states()[2] == "failed" {
        assert!(patience.elapsed().as_secs() < 20, "the spare has not stepped in");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }

    let address = address.to_owned();
    drop(serving);
    place.run(&format!("array status {at}")).check_error(1, &[&address, "cannot be asked"]);
}

#[test]
fn a_set_is_named_in_one_way() {
    let place = Place::new();
    for (arguments, part) in [
        ("array status", "--device"),
        ("array status --server 127.0.0.1:9 --device a", "--device"),
        ("array status --device a --token-file t", "--token-file"),
        ("array status --server localhost", "HOST:PORT"),
        ("array status --server https://localhost:9180", "leave https:// out"),
    ] {
        let ran = place.run(arguments);
        assert!(ran.status == Some(2) && ran.stderr.contains(part), "{arguments}: {ran:?}");
    }
}
