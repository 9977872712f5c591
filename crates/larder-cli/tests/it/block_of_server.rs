//! Block caches in the reports of a server's admin address.

use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Stdio;

use serde_json::Value;

use crate::place::Place;
use crate::serve_command::{self, ANYWHERE, admin};
use crate::served_block::{self, open, request};

const MIB: usize = 1 << 20;

/// The body of the answer to a path.
fn told(server: &serve_command::Serving, path: &str) -> String {
    let answer = admin(server, &format!("GET {path}"), "");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
    body.to_owned()
}

fn caches(server: &serve_command::Serving) -> Vec<Value> {
    let told: Value = serde_json::from_str(&told(server, "/api/block")).unwrap();
    assert_eq!(told["api"], 1);
    told["caches"].as_array().unwrap().clone()
}

#[test]
fn a_server_tells_of_the_block_caches_of_its_file() {
    let place = Place::new();
    place.write("fast.img", vec![0; 4 * MIB]);
    place.write("slow.img", vec![0; MIB]);
    place.succeed("block create fast.img --core slow.img --mode wb");
    let entry = |cache: &str, more: &str| format!("[[block]]\ncache = \"{cache}\"\n{more}\n");
    let file = [
        entry("fast.img", "unix = \"s\""),
        entry("away.img", "unix = \"nothing\""),
        entry("hung.img", "control = \"hung\""),
        entry("mute.img", "tcp = \"127.0.0.1:9\""),
    ];
    place.write("larder.toml", file.concat());
    let cache = served_block::Serving::start(&place, "start --config larder.toml fast.img");
    let mut client = UnixStream::connect(place.path().join("s")).unwrap();
    open(&mut client, b"0", 1);
    assert_eq!(request(&mut client, 1, &mut b"bread".clone()), 0);
    let _hung = UnixListener::bind(place.path().join("hung")).unwrap();

    let mut command = place.command("serve --config larder.toml --memory 64M --workers 1");
    command.args(ANYWHERE).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let server = serve_command::Serving::run(command);
    let seen = caches(&server);
    let said = |at: usize| (&seen[at]["cache"], seen[at]["error"].as_str().unwrap_or_default());
    for (at, cache, why) in [
        (0, "fast.img", ""),
        (1, "away.img", "no cache runs there"),
        (2, "hung.img", "none within 1s"),
        (3, "mute.img", "no control socket"),
    ] {
        let (name, error) = said(at);
        assert!(name == cache && error.contains(why), "{seen:?}");
        assert_eq!((error.is_empty(), seen[at]["stats"].is_null()), (at == 0, at > 0));
    }
    assert_eq!(seen[0]["status"]["mode"], "write-back");
    assert_eq!(seen[0]["stats"]["writes"]["total"], 1);

    let metrics = told(&server, "/metrics");
    for sample in [
        "larder_block_up{cache=\"fast.img\"} 1\n",
        "larder_block_up{cache=\"hung.img\"} 0\n",
        "larder_block_healthy{cache=\"fast.img\"} 1\n",
        "larder_block_request_bytes_total{cache=\"fast.img\",core=\"0\",direction=\"write\"} ",
        "larder_block_request_seconds_count{cache=\"fast.img\",operation=\"write\"} 1\n",
        "larder_server_ready 1\n",
    ] {
        assert!(metrics.contains(sample), "{sample}: {metrics}");
    }
    assert_eq!(metrics.matches("# TYPE larder_block_up gauge\n").count(), 1);
    assert_eq!((metrics.matches("# EOF\n").count(), metrics.ends_with("# EOF\n")), (1, true));

    drop(client);
    assert_eq!(cache.end("TERM").0, Some(0));
    assert!(caches(&server)[0]["error"].as_str().unwrap().contains("no cache runs there"));
    assert!(told(&server, "/metrics").contains("larder_block_up{cache=\"fast.img\"} 0\n"));
}
