//! `larder block`: a cache in front of a core, from its creation through crashes to its end, and refusals.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use serde_json::Value;

use crate::place::Place;
use crate::served_block::{Serving, open, request};

/// Size of the core; the cache has four times this.
const MIB: usize = 1 << 20;

/// Creates a write-back cache in front of a core of 1 MiB.
fn made(create: &str) -> Place {
    made_on("fast.img", create)
}

/// The same, with the cache file opened as the target `cache`.
fn made_on(cache: &str, create: &str) -> Place {
    let place = Place::new();
    place.write("fast.img", vec![0; 4 * MIB]);
    place.write("slow.img", vec![0; MIB]);
    place.succeed(&format!("block create {cache} --core slow.img --mode wb {create}"));
    place
}

fn write(place: &Place, socket: &str) {
    let mut client = UnixStream::connect(place.path().join(socket)).unwrap();
    open(&mut client, b"0", 1);
    let mut bread = *b"bread";
    assert_eq!(request(&mut client, 1, &mut bread), 0);
}

fn read(place: &Place, socket: &str) -> [u8; 5] {
    let mut client = UnixStream::connect(place.path().join(socket)).unwrap();
    open(&mut client, b"", 1);
    let mut data = [0; 5];
    assert_eq!(request(&mut client, 0, &mut data), 0);
    data
}

/// The bytes on the core itself at the place where the clients write.
fn of_core(place: &Place) -> [u8; 5] {
    std::fs::read(place.path().join("slow.img")).unwrap()[4094..4099].try_into().unwrap()
}

#[test]
fn what_was_written_outlives_a_kill_and_goes_to_the_core_when_the_mode_says_so() {
    let mapped = if cfg!(target_os = "linux") { "dax:fast.img" } else { "fast.img" };
    for (cache, layout) in
        [("fast.img", "log"), (mapped, "log"), ("fast.img", "ocf22"), ("fast.img", "ocf26")]
    {
        let place = made_on(cache, &format!("--layout {layout}"));
        let label = place.json(&format!("block status {cache}"));
        assert_eq!((&label["layout"], &label["mode"]), (&layout.into(), &"write-back".into()));
        assert_eq!((&label["was_stopped"], &label["running"]), (&true.into(), &Value::Null));
        let name = std::fs::canonicalize(place.path().join("slow.img")).unwrap();
        assert_eq!(label["cores"][0]["path"], name.to_str().unwrap());

        let serving = Serving::start(&place, &format!("start {cache} --unix s --cleaning nop"));
        assert_eq!(serving.line("control"), "s.control");
        let control = place.path().join("s.control");
        assert_eq!(control.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        place.run(&format!("block start {cache} --unix t")).check_error(1, &["fast.img"]);
        write(&place, "s");
        assert_eq!((read(&place, "s"), of_core(&place)), (*b"bread", [0; 5]), "{layout}");
        let stats = place.json("block stats --unix s");
        assert_eq!(stats["writes"]["total"], 1, "{stats}");
        assert!(stats["usage"]["dirty_bytes"].as_u64() > Some(0));
        assert!(stats["write_amplification"].as_f64() >= Some(1.0));
        let dirty = place.json("block dirty 0 --unix s");
        let range = |key: &str| dirty[0]["ranges"][0][key].as_u64().unwrap();
        let (first, end) = (range("offset"), range("offset") + range("bytes"));
        assert!(first <= 4094 && end >= 4099, "{dirty}");
        assert_eq!(serving.end("KILL").0, None);

        let label = place.json(&format!("block status {cache}"));
        assert_eq!(label["was_stopped"], false, "a crash");
        let serving = Serving::start(&place, &format!("start {cache} --unix s --cleaning nop"));
        assert_eq!(read(&place, "s"), *b"bread", "{layout}");
        assert_eq!(of_core(&place), [0; 5]);
        let changed = place.json("block mode wt --unix s");
        assert!(changed["dirty_before_bytes"].as_u64() > Some(0), "{changed}");
        assert_eq!(changed["dirty_bytes"], 0);
        assert_eq!(of_core(&place), *b"bread", "{layout}");
        let (status, said) = serving.end("TERM");
        assert_eq!(status, Some(0));
        assert!(said.contains("stopped; nothing is dirty"), "{said}");
        assert!(!control.exists(), "its socket goes with it");
        let label = place.json(&format!("block status {cache}"));
        let state = (&label["was_stopped"], &label["mode"]);
        assert_eq!(state, (&true.into(), &"write-through".into()), "{layout}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn memory_that_is_emulated_says_so_and_takes_no_lines() {
    let place = made_on("dax:fast.img", "");
    let status = place.run("block status dax:fast.img");
    // The file system of the tests may support DAX.
    let is_emulated =
        status.stderr.contains("is emulated: its file system does not grant MAP_SYNC");
    assert!(is_emulated || status.stderr.contains("is mapped with MAP_SYNC"), "{status:?}");
    let lines = place.run("block create dax:fast.img --core slow.img --layout ocf26 --over-other");
    assert!(lines.stderr.contains("its blocks have 64 bytes"), "{lines:?}");
    assert_eq!(lines.status, Some(2), "a wrong question");
    place.succeed("block status fast.img");
}

#[test]
fn cores_come_and_go_between_two_starts() {
    let place = made("");
    place.write("more.img", vec![0; MIB]);
    let serving = Serving::start(&place, "start fast.img --unix s --cleaning nop");
    write(&place, "s");
    place.run("block cores fast.img --add more.img").check_error(1, &["fast.img"]);
    assert_eq!(serving.end("TERM").0, Some(0));
    assert_eq!(of_core(&place), [0; 5]);
    place.run("block cores fast.img --remove 0").check_error(2, &["only one", "add another"]);
    place.run("block cores fast.img --add slow.img").check_error(2, &["core 0 and core 1"]);
    place.run("block cores fast.img --add memory:1M").check_error(2, &["end with this command"]);
    place.run("block cores fast.img").check_error(2, &["--add", "--remove"]);
    let added = place.json("block cores fast.img --add more.img");
    assert_eq!(
        (&added["cores"][1]["core"], added["cores"][1]["bytes"].as_u64()),
        (&1.into(), Some(MIB as u64))
    );
    let left = place.json("block cores fast.img --remove 0");
    assert_eq!((&left["cores"][0]["core"], &left["cores"][1]), (&1.into(), &Value::Null));
    assert_eq!(of_core(&place), *b"bread", "destaged");
    let serving = Serving::start(&place, "start fast.img --unix s");
    assert_eq!(read(&place, "s"), [0; 5], "the other one");
    assert_eq!(serving.end("TERM").0, Some(0));
    place.run("block cores fast.img --add 0=slow.img").check_error(2, &["give 1 or more"]);
}

#[test]
fn cores_come_and_go_while_clients_are_served() {
    let place = made("");
    place.write("more.img", vec![7; 2 * MIB]);
    let arguments = "start fast.img --unix s --cleaning nop --metrics 127.0.0.1:0";
    let serving = Serving::start(&place, arguments);
    write(&place, "s");
    for (asked, status, parts) in [
        ("--unix s", 2, &["--add", "--remove"][..]),
        ("--remove 0 --unix s", 1, &["only one", "add another"]),
        ("--remove 7 --unix s", 1, &["core 7: there is none; there are 0"]),
        ("--add slow.img --unix s", 1, &["core 0 and core 1"]),
        ("--add fast.img --unix s", 1, &["fast.img"]),
        ("--add memory:1M --unix s", 1, &["end with this command"]),
        ("--add 0=more.img --unix s", 1, &["one of that number"]),
    ] {
        place.run(&format!("block cores {asked}")).check_error(status, parts);
    }
    let added = place.json("block cores --add more.img --unix s");
    assert_eq!(added["cores"][1]["core"], 1, "{added}");
    let both = place.run("block cores fast.img --add more.img --unix s");
    assert!(both.status == Some(2) && both.stderr.contains("cannot be used with"), "{both:?}");
    let elsewhere = place.run("block cores --add more.img --core 0=more.img --unix s");
    let is_refused = elsewhere.stderr.contains("'--core <[N=]PATH>' cannot be used with");
    assert!(elsewhere.status == Some(2) && is_refused, "{elsewhere:?}");
    let connect = || UnixStream::connect(place.path().join("s")).unwrap();
    let (mut first, mut second) = (connect(), connect());
    open(&mut first, b"0", 1);
    open(&mut second, b"1", 2);
    let mut data = [0; 5];
    assert_eq!((request(&mut second, 0, &mut data), data), (0, [7; 5]));
    let mut ghee = *b"ghee!";
    assert_eq!(request(&mut second, 1, &mut ghee), 0);
    let told = metrics(serving.line("metrics"));
    assert!(told.contains("larder_block_requests_total{core=\"1\",direction=\"write\""), "{told}");
    assert_eq!(place.json("block stats --unix s")["cores"][1]["writes"]["total"], 1);

    let left = place.json("block cores --remove 0 --control s.control");
    assert_eq!((&left["cores"][0]["core"], &left["cores"][1]), (&1.into(), &Value::Null));
    assert_eq!(of_core(&place), *b"bread", "destaged");
    assert_eq!(first.read(&mut data).unwrap_or(0), 0, "its connections are closed");
    assert_eq!((request(&mut second, 0, &mut data), data), (0, *b"ghee!"));
    let dirty = place.json("block dirty --unix s");
    assert_eq!((&dirty[0]["core"], &dirty[1]), (&1.into(), &Value::Null), "{dirty}");
    assert!(!metrics(serving.line("metrics")).contains("core=\"0\""));
    // The removed core belongs to no cache: another may take it, or it may come back.
    let again = place.json("block cores --add slow.img --unix s");
    assert_eq!(again["cores"][1]["core"], 2, "{again}");
    let mut third = connect();
    open(&mut third, b"2", 1);
    assert_eq!((request(&mut third, 0, &mut data), data), (0, *b"bread"));
    assert_eq!(serving.end("KILL").0, None);
    let serving = Serving::start(&place, "start fast.img --unix s");
    // The first core that there is now.
    let mut client = UnixStream::connect(place.path().join("s")).unwrap();
    open(&mut client, b"", 2);
    assert_eq!((request(&mut client, 0, &mut data), data), (0, *b"ghee!"));
    assert_eq!(serving.end("TERM").0, Some(0));
}

/// The metrics at the address in this line.
fn metrics(line: &str) -> String {
    let address = line.split("http://").nth(1).and_then(|rest| rest.strip_suffix("/metrics"));
    let mut stream = TcpStream::connect(address.expect("an address")).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut told = String::new();
    stream.read_to_string(&mut told).unwrap();
    told
}

/// Sets policies of a running cache, and checks the answers.
fn set_policies(place: &Place) {
    let set = |command: &str| place.json(&format!("block {command} --unix s"))["policy"].clone();
    let cleaning = "acp,wake-up=10ms,buffers=128,limit=52428800,high=80,low=75";
    assert_eq!(set("cleaning acp limit=50M"), cleaning);
    assert_eq!(set("cut-off never"), "never,threshold=1048576");
    assert_eq!(set("read-ahead on window=1M"), "on,threshold=65536,window=1048576");
    assert_eq!(set("promotion nhit threshold=2"), "nhit,threshold=2,trigger=80");
    assert_eq!(set("cleaning nop"), "nop,limit=0,high=80,low=75");
    let header = "IO class id,IO class name,Eviction priority,Allocation";
    place.write("classes.csv", format!("{header}\n1,request_size:ge:65536,,0.00\n"));
    let loaded = place.succeed("block io-class --load classes.csv --unix s");
    assert!(loaded.stdout.contains("1,request_size:ge:65536,,0.00"), "{loaded:?}");
    let status = place.json("block status --control s.control");
    assert_eq!(status["running"]["promotion"], "nhit,threshold=2,trigger=80");
    assert_eq!(status["running"]["read_ahead"], "on,threshold=65536,window=1048576");
    assert_eq!(status["running"]["io_classes"], 2);
    for (command, part) in [
        ("cleaning acp staleness=5", "staleness: unknown; acp has"),
        ("flush 7", "core 7: there is none; there are 0"),
        ("promotion nhit threshold=1", "give 2 to 1000"),
        ("read-ahead on window=17M", "window of 17825792 bytes: give 4 KiB to 16 MiB"),
    ] {
        place.run(&format!("block {command} --unix s")).check_error(1, &[part]);
    }
}

#[test]
fn a_running_cache_is_set_by_its_control_socket_and_detached() {
    let place = made("");
    let arguments = "start fast.img --unix s --mode wb --cleaning nop --metrics 127.0.0.1:0";
    let serving = Serving::start(&place, arguments);
    set_policies(&place);
    write(&place, "s");
    let flushed = place.json("block flush --unix s");
    assert_eq!((of_core(&place), &flushed["dirty_bytes"]), (*b"bread", &0.into()));
    let written = &place.json("block stats --reset --unix s")["latencies"][2];
    assert_eq!((&written["operation"], &written["served_by"]), (&"write".into(), &Value::Null));
    assert!(written["requests"].as_u64() > Some(0) && written["p99_ns"].is_u64(), "{written}");
    let stats = place.json("block stats --unix s");
    assert_eq!(
        (&stats["writes"]["total"], &stats["latencies"][2]["requests"]),
        (&0.into(), &0.into())
    );
    write(&place, "s");
    let detached = place.succeed("block detach --unix s");
    assert!(detached.stdout.contains("nothing is dirty"), "{detached:?}");
    write(&place, "s");
    assert_eq!(of_core(&place), *b"bread", "past the cache");
    let status = place.json("block status --unix s");
    assert_eq!(status["running"]["attached"], false);
    let label = place.json("block status fast.img");
    assert_eq!((&label["is_distrusted"], &label["mode"]), (&true.into(), &"write-back".into()));
    place.run("block detach --unix s").check_error(1, &["detached already"]);
    place.run("block attach fast.img --unix s").check_error(1, &["--over UUID"]);
    place.run("block attach slow.img --unix s").check_error(1, &["slow.img"]);
    let uuid = label["uuid"].as_str().expect("a text");
    let attached = place.json(&format!("block attach fast.img --line 8K --over {uuid} --unix s"));
    assert_eq!((&attached["line_bytes"], &attached["mode"]), (&8192.into(), &"write-back".into()));
    assert_ne!(attached["uuid"], label["uuid"]);
    place.run("block attach fast.img --unix s").check_error(1, &["attached already"]);
    write(&place, "s");
    let usage = &place.json("block status --unix s")["running"]["usage"];
    assert!(usage["dirty_bytes"].as_u64() > Some(0), "{usage}");
    let stats = place.json("block stats --unix s");
    assert_eq!(stats["classes"][0]["name"], "unclassified", "{stats}");
    assert_eq!(stats["cores"][0]["writes"]["total"], stats["writes"]["total"]);
    let metrics = metrics(serving.line("metrics"));
    for sample in [
        "larder_block_attached 1\n",
        "larder_block_requests_total{core=\"0\",direction=\"write\",result=\"pass_through\"} ",
        "larder_block_bypasses_total{reason=\"detached\"} ",
        "larder_block_request_seconds_bucket{operation=\"write\",le=\"+Inf\"} ",
        "larder_block_request_seconds_count{operation=\"read\",served_by=\"core\"} ",
        "larder_block_read_ahead_requests_total ",
        "larder_block_read_ahead_bytes_total ",
        "larder_block_read_ahead_failures_total ",
        "larder_block_class_occupied_bytes{class=\"0\",name=\"unclassified\"} ",
    ] {
        assert!(metrics.contains(sample), "{sample}: {metrics}");
    }
    assert!(metrics.ends_with("# EOF\n"), "{metrics}");
    place.succeed("block stop --flush --unix s");
    assert_eq!(serving.end("0").0, Some(0), "it has ended by itself");
    let label = place.json("block status fast.img");
    assert_eq!((&label["was_stopped"], &label["mode"]), (&true.into(), &"write-back".into()));
    place.refuse("block stats --unix s", 1, &["no cache runs there", "block start"]);
}

#[test]
fn a_cache_that_was_calibrated_tunes_its_routing() {
    let place = made("");
    place.refuse(
        "block start fast.img --unix s --routing auto",
        2,
        &["routing auto: the cache was not calibrated", "block calibrate CACHE --store"],
    );
    let measured = place.json("block calibrate fast.img --time 1ms");
    assert_eq!(measured["points"].as_array().map(Vec::len), Some(12), "{measured}");
    assert_eq!(
        (&measured["stored"], &measured["points"][0]["core"]),
        (&false.into(), &Value::Null)
    );
    assert!(measured["routing"]["cache_latency_ns"].as_u64() > Some(0), "{measured}");
    {
        let _serving = Serving::start(&place, "start fast.img --unix s");
        let status = place.json("block status --unix s");
        assert_eq!(
            (&status["running"]["routing"], &status["running"]["routed"]),
            (&"off".into(), &Value::Null)
        );
        place.run("block routing auto --unix s").check_error(1, &["not calibrated"]);
    }
    let writes = place.run("block calibrate fast.img --writes --time 1ms");
    writes.check_error(2, &["must have nothing"]);
    place.succeed("block calibrate fast.img --time 1ms --store");
    let serving = Serving::start(&place, "start fast.img --unix s");
    let status = place.json("block status --unix s");
    let routed = &status["running"]["routed"];
    assert_eq!(status["running"]["routing"], "auto");
    assert_eq!((&routed["state"], &routed["core_permille"]), (&"absorb".into(), &0.into()));
    write(&place, "s");
    assert_eq!(place.json("block routing split core=100 --unix s")["policy"], "split,core=100");
    place.json("block flush --unix s");
    assert_eq!(read(&place, "s"), *b"bread");
    let stats = place.json("block stats --unix s");
    assert!(stats["core_hits"].as_u64() > Some(0), "it is clean now: {stats}");
    let text = place.succeed("block status --unix s").stdout;
    assert!(
        text.contains("routing    split,core=100: absorb, 100.0 % of clean hits to the core"),
        "{text}"
    );
    for (routing, set) in [("off", "off"), ("auto", "auto")] {
        assert_eq!(place.json(&format!("block routing {routing} --unix s"))["policy"], set);
    }
    assert_eq!(serving.end("TERM").0, Some(0));
}

#[test]
fn nonsense_on_the_control_socket_gets_an_error_and_the_server_goes_on() {
    let place = made("");
    let _serving = Serving::start(&place, "start fast.img --unix s");
    let mut client = UnixStream::connect(place.path().join("s.control")).unwrap();
    let mut answers = BufReader::new(client.try_clone().unwrap());
    for nonsense in [
        &b"\n"[..],
        b"{}\n",
        b"\xff\xfe\0\n",
        b"{\"command\":\"stop\",\"flsh\":true}\n",
        b"{\"command\":\"format\"}\n",
        b"{\"command\":\"flush\",\"core\":-1}\n",
        b"{\"command\":\"mode\",\"mode\":\"wx\"}\n",
        b"{\"command\":\"io-class\",\"csv\":\"0,x\"}\n",
        &[b"[".repeat(10_000), b"\n".to_vec()].concat(),
    ] {
        client.write_all(nonsense).unwrap();
        let mut answer = String::new();
        answers.read_line(&mut answer).unwrap();
        assert!(answer.starts_with("{\"error\":"), "{answer}");
    }
    let long = vec![b'x'; MIB + 1];
    let _ = client.write_all(&long);
    let mut answer = String::new();
    let _ = answers.read_line(&mut answer);
    assert!(answer.is_empty() || answer.contains("1048576 bytes"), "{answer}");
    assert_eq!(place.json("block status --unix s")["mode"], "write-back");
}

#[test]
fn recover_gives_the_cores_what_only_the_cache_has() {
    let place = made("");
    let serving = Serving::start(&place, "start fast.img --unix s --cleaning nop");
    write(&place, "s");
    let (status, said) = serving.end("TERM");
    assert_eq!(status, Some(0));
    assert!(said.contains("stay dirty on the cache device"), "{said}");
    assert_eq!(of_core(&place), [0; 5]);
    std::fs::rename(place.path().join("slow.img"), place.path().join("moved.img")).unwrap();
    place.refuse("block recover fast.img", 1, &["core 0", "say where: --core 0=PATH"]);
    let recovered = place.json("block recover fast.img --core moved.img");
    assert!(recovered["destaged"]["dirty_before_bytes"].as_u64() > Some(0), "{recovered}");
    std::fs::rename(place.path().join("moved.img"), place.path().join("slow.img")).unwrap();
    assert_eq!(of_core(&place), *b"bread");
    // The cache remembers where the core was.
    let again = place.json("block recover fast.img --core slow.img");
    assert_eq!(again["destaged"]["dirty_before_bytes"], 0);

    let serving = Serving::start(&place, "start fast.img --unix s --cleaning nop --flush-on-stop");
    write(&place, "s");
    let (status, said) = serving.end("INT");
    assert_eq!(status, Some(0));
    assert!(said.contains("nothing is dirty"), "{said}");
}

#[test]
fn a_damaged_cache_is_recovered_only_if_its_loss_is_accepted() {
    for layout in ["log", "ocf26"] {
        let place = made(&format!("--layout {layout}"));
        let serving = Serving::start(&place, "start fast.img --unix s --cleaning nop");
        write(&place, "s");
        assert_eq!(serving.end("TERM").0, Some(0));
        // Overwrites everything behind the label.
        let mut cache = std::fs::read(place.path().join("fast.img")).unwrap();
        cache[32768..].fill(7);
        place.write("fast.img", cache);
        let parts = ["damaged", "core 0 (", "bytes are gone", "--accept-loss"];
        place.refuse("block recover fast.img", 1, &parts);
        place.refuse("block start fast.img --unix s", 1, &parts);
        let recovered = place.succeed("block recover fast.img --accept-loss");
        assert!(recovered.stdout.contains("DAMAGED"), "{recovered:?}");
        assert!(recovered.stdout.contains("all that was whole"), "{recovered:?}");
        let is_warned = |line: &str| line.starts_with("warning: the cache is DAMAGED");
        assert!(recovered.stderr.lines().any(is_warned), "{recovered:?}");
        assert_eq!(of_core(&place), [0; 5], "{layout}");
        let again = place.succeed("block recover fast.img");
        assert!(again.stdout.contains("the cores have everything"), "{again:?}");
    }
}

#[test]
fn a_file_says_how_a_cache_runs() {
    let place = made("");
    let entry = "[[block]]\ncache = \"fast.img\"\nunix = \"s\"\n";
    place.write(
        "larder.toml",
        format!("{entry}cleaning = \"nop,high=90\"\nread_ahead = \"on\"\nmode = \"wa\"\n"),
    );
    let serving = Serving::start(&place, "start --config larder.toml --promotion nhit");
    let status = place.json("block status --unix s");
    assert_eq!(status["mode"], "write-around");
    assert_eq!(status["running"]["cleaning"], "nop,limit=0,high=90,low=75");
    assert_eq!(status["running"]["read_ahead"], "on,threshold=65536,window=262144");
    assert_eq!(status["running"]["promotion"], "nhit,threshold=3,trigger=80");
    assert_eq!(serving.end("TERM").0, Some(0));
    for (more, parts) in [
        ("flush_on_stp = true", ["larder.toml:4:1: unknown key \"flush_on_stp\"", "flush_on_stop"]),
        ("read_ahead = \"always\"", ["larder.toml:4:14: read-ahead \"always\"", "give off or on"]),
        ("cleaning = \"lru\"", ["larder.toml:4:12: cleaning \"lru\"", "nop, alru or acp"]),
        ("ublk = \"x\"", ["larder.toml:4:8: \"x\"", "give auto"]),
        ("ublk = 1048576", ["larder.toml:4:8: \"1048576\"", "0 to 1048575"]),
        ("ublk_depth = 4097", ["ublk-depth = 4097", "1 to 4096"]),
        ("core = [\"9999=x\"]", ["larder.toml:4:", "core number 9999"]),
    ] {
        place.write("larder.toml", format!("{entry}{more}\n"));
        place.refuse("block start --config larder.toml", 2, &parts);
    }
    place.write("larder.toml", format!("{entry}{}", entry.replace("fast", "other")));
    place.refuse("block start --config larder.toml", 2, &["which one of fast.img, other.img"]);
    place.refuse("block start --config larder.toml x", 2, &["no [[block]] has cache = \"x\""]);
}

#[test]
fn what_cannot_be_a_cache_is_refused_and_nothing_is_written() {
    let place = Place::new();
    place.write("fast.img", vec![0; 4 * MIB]);
    place.write("slow.img", vec![0; MIB]);
    place.write("tiny.img", vec![0; 64 << 10]);
    place.write("used.img", vec![7; 4 * MIB]);
    for (create, status, part) in [
        ("fast.img --core fast.img", 2, "fast.img is the cache and core 0"),
        ("fast.img --core slow.img --core 3=slow.img", 2, "core 0 and core 3"),
        ("fast.img --core 3=slow.img --core 3=used.img", 2, "core 3 is given twice"),
        ("fast.img --core model:1M", 2, "would end with this command"),
        ("tiny.img --core slow.img", 2, "segments"),
        ("tiny.img --core slow.img --layout ocf26", 2, "lines"),
        ("fast.img --core slow.img --line 6K", 2, "line_bytes of 6144: give a power of two"),
        ("fast.img --core slow.img --layout ocf22 --segment 1M", 2, "--segment: only the log"),
        ("used.img --core slow.img", 2, "(--over-other)"),
        ("none.img --core slow.img", 1, "none.img"),
    ] {
        place.refuse(&format!("block create {create}"), status, &[part]);
    }
    place.refuse("block start slow.img --unix s", 1, &["no block cache: it has nothing"]);

    let made = place.json("block create fast.img --core slow.img");
    let uuid = made["uuid"].as_str().unwrap();
    let again = "block create fast.img --core slow.img --line 64K";
    place.refuse(again, 2, &[uuid, "(--over UUID)"]);
    place.refuse(&format!("{again} --over-other"), 2, &[uuid, "(--over UUID)"]);
    let other = "00000000-0000-4000-8000-000000000000";
    place.refuse(&format!("{again} --over {other}"), 2, &[uuid]);
    place.refuse("block start fast.img --unix s --core 5=used.img", 2, &["core 5", "none of"]);
    place.refuse("block start fast.img --unix s --core used.img", 2, &["core 0", "resized?"]);
    place.refuse("block start fast.img", 2, &["no place to listen"]);
    place.succeed(&format!("{again} --over {uuid}"));

    let mut damaged = std::fs::read(place.path().join("fast.img")).unwrap();
    damaged[100] ^= 1;
    damaged[(16 << 10) + 100] ^= 1;
    place.write("fast.img", damaged);
    place.refuse("block start fast.img --unix s", 1, &["of which no copy is whole"]);
    place.refuse(again, 2, &["of which no copy is whole"]);
}
