//! The settings of the caches of `larder serve`: how data are placed on a simulated drive, what SIGHUP applies, and
//! what would empty a cache.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::serve_command::{ANYWHERE, Serving, admin, asks};

/// A server with this `larder.toml`; its standard error goes to the file `told` beside it.
pub(crate) fn serve(directory: &Path, toml: &str, words: &[&str]) -> Command {
    let file = directory.join("larder.toml");
    fs::write(&file, toml).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command.args(["serve", "--workers", "1", "--config"]).arg(file).args(ANYWHERE).args(words);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.stderr(File::create(directory.join("told")).unwrap());
    command
}

fn told(directory: &Path) -> String {
    fs::read_to_string(directory.join("told")).unwrap()
}

/// The error of a server that does not start.
#[track_caller]
pub(crate) fn refused(directory: &Path, toml: &str, words: &[&str]) -> String {
    let status = serve(directory, toml, words).status().unwrap();
    assert!(!status.success());
    told(directory)
}

fn fill(serving: &Serving, keys: std::ops::Range<u32>, bytes: usize) {
    fill_with(serving, "", keys, bytes);
}

/// Sets keys with this prefix and these numbers to values of `bytes` bytes, a hundred at a time.
pub(crate) fn fill_with(serving: &Serving, prefix: &str, keys: std::ops::Range<u32>, bytes: usize) {
    let mut client = serving.connect("memcached");
    let value = "x".repeat(bytes);
    for from in keys.clone().step_by(100) {
        let some = from..keys.end.min(from + 100);
        let count = some.len();
        let request = |key| format!("set {prefix}key{key} 0 0 {bytes}\r\n{value}\r\n");
        asks(&mut client, &some.map(request).collect::<String>(), &"STORED\r\n".repeat(count));
    }
}

/// The sum of a metric over its labels.
pub(crate) fn metric(serving: &Serving, name: &str) -> f64 {
    let text = admin(serving, "GET /metrics", "");
    let of_name =
        |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
    let values = text.lines().filter(of_name).filter_map(|line| line.rsplit(' ').next());
    values.map(|value| value.parse::<f64>().unwrap()).sum()
}

const MODEL: &str = "memory = \"48M\"\nfile = \"model:128M,op=10,ru=256K\"\n";

#[test]
fn small_and_large_objects_go_to_handles_of_their_own() {
    let place = tempfile::tempdir().unwrap();
    let toml = format!("{MODEL}[soc]\npercent = 10\n[placement]\nmode = \"required\"\n");
    let serving = Serving::run(serve(place.path(), &toml, &[]));
    assert!(
        serving.place("placement").starts_with("model of 128M"),
        "{}",
        serving.place("placement")
    );
    assert!(serving.place("objects").contains("buckets of 4 KiB on 10.0 %"));
    assert!(serving.place("flash").contains("simulated drive"), "{}", serving.place("flash"));
    fill(&serving, 0..40_000, 300);
    fill(&serving, 40_000..44_000, 8_000);
    assert!(metric(&serving, "larder_placement_active") >= 1.0);
    assert!(metric(&serving, "larder_soc_written_bytes_total") > 0.0);
    assert!(metric(&serving, "larder_loc_written_bytes_total") > 0.0);
    assert!(metric(&serving, "larder_compromised_streams") < 1.0);
    assert_eq!(told(place.path()).matches("warning").count(), 0, "{}", told(place.path()));
}

/// With one handle beside the default, small and large objects share it. The drive moves what is left of the large
/// ones, and the operator sees whose data that is, beside the predicted write amplification.
/// Pages by set are what a server takes by itself where they fit, and it tells so and counts what they write.
#[test]
fn small_objects_are_written_once_unless_buckets_are_asked_for() {
    let place = tempfile::tempdir().unwrap();
    let model = "memory = \"32M\"\nfile = \"model:256M,op=10,ru=256K\"\n[soc]\npercent = 40\n";
    let alwa = |serving: &Serving| {
        fill(serving, 0..250_000, 300);
        metric(serving, "larder_soc_written_bytes_total")
            / metric(serving, "larder_admitted_bytes_total")
    };
    let serving = Serving::run(serve(place.path(), model, &[]));
    let objects = serving.place("objects");
    assert!(objects.contains("in pages by set on 39.7 %"), "{objects}");
    let written = alwa(&serving);
    assert!((1.0..1.7).contains(&written), "{written}");
    assert!(metric(&serving, "larder_soc_page_writes_total") > 1000.0);
    drop(serving);
    let place = tempfile::tempdir().unwrap();
    let model = format!("{model}layout = \"buckets\"\n");
    let serving = Serving::run(serve(place.path(), &model, &[]));
    let objects = serving.place("objects");
    assert!(objects.contains("in buckets of 4 KiB on 39"), "{objects}");
    let written = alwa(&serving);
    assert!(written > 4.0, "{written}");
}

#[test]
fn data_that_the_drive_relocates_have_the_names_of_their_streams() {
    let place = tempfile::tempdir().unwrap();
    let toml =
        "memory = \"48M\"\nfile = \"model:96M,op=7,ru=256K,handles=2\"\n[soc]\npercent = 30\n";
    let serving = Serving::run(serve(place.path(), toml, &[]));
    for round in 0..6 {
        fill(&serving, round * 20_000..(round + 1) * 20_000, 300);
        fill(&serving, 1_000_000 + round * 10_000..1_000_000 + (round + 1) * 10_000, 4_000);
    }
    assert!(metric(&serving, "larder_fdp_relocated_units_total") > 0.0);
    let text = admin(&serving, "GET /metrics", "");
    let named =
        |line: &&str| line.starts_with("larder_fdp_relocated_units_total{") && line.contains("SOC");
    assert!(text.lines().any(|line| named(&line)), "{text}");
    assert!(metric(&serving, "larder_predicted_dlwa") > 1.0);
    assert!(metric(&serving, "larder_drive_dlwa") > 1.0);
}

#[test]
fn one_stream_on_a_drive_that_places_is_warned_of() {
    let place = tempfile::tempdir().unwrap();
    let serving = Serving::run(serve(place.path(), MODEL, &[]));
    assert!(serving.place("objects").contains("all in one log"), "{}", serving.place("objects"));
    assert!(told(place.path()).contains("all data are one stream"), "{}", told(place.path()));
}

#[test]
fn placement_that_is_required_and_not_there_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("flash").display().to_string();
    let words = ["--file", &file, "--flash", "64M", "--placement", "required"];
    let said = refused(place.path(), "memory = \"48M\"\n", &words);
    assert!(said.contains("placement is required and there is none"), "{said}");
    assert!(!Path::new(&file).exists());
}

#[test]
fn each_tenant_has_engines_of_its_own() {
    let place = tempfile::tempdir().unwrap();
    let toml = format!(
        "{MODEL}[soc]\npercent = 10\n[[tenant]]\nname = \"photos\"\nshare = 50\nsoc = {{ percent = 0 }}\n\
         loc = {{ ttl_classes = [60], eviction = \"lru\" }}\n[[tenant]]\nname = \"pages\"\nshare = 40\n\
         memory_share = 30\n\
         admission = {{ policy = \"freq:2\" }}\n"
    );
    let serving = Serving::run(serve(place.path(), &toml, &[]));
    let plan: Vec<&str> = serving.lines().filter(|line| line.starts_with(' ')).collect();
    let has = |words: &[&str]| plan.iter().any(|line| words.iter().all(|word| line.contains(word)));
    assert!(
        has(&["photos", "TTL"]) && has(&["pages", "SOC"]) && !has(&["photos", "SOC"]),
        "{plan:?}"
    );
}

/// Keys that are read again and again.
const HOT: u32 = 500;

/// One tenant keeps what it reads from flash, and the other evicts it with everything that is as old.
#[test]
fn a_tenant_that_evicts_by_predictions_keeps_what_is_read() {
    let place = tempfile::tempdir().unwrap();
    // So little memory that none of what is read again is still there.
    let tenant = |name: &str, prefix: &str, eviction: &str| {
        format!(
            "[[tenant]]\nname = \"{name}\"\n{prefix}share = 40\nmemory_share = 2\n\
             soc = {{ percent = 20, eviction = \"{eviction}\" }}\n"
        )
    };
    let (queue, heat) =
        (tenant("queue", "", "fifo"), tenant("heat", "prefix = \"heat:\"\n", "rrip"));
    let toml = format!("{MODEL}{queue}{heat}");
    let serving = Serving::run(serve(place.path(), &toml, &[]));
    let found = |prefix: &str| -> usize {
        let mut client = serving.connect("memcached");
        let keys: String = (0..HOT).map(|key| format!(" {prefix}key{key}")).collect();
        client.write_all(format!("get{keys}\r\n").as_bytes()).unwrap();
        let lines = BufReader::new(client).lines().map(Result::unwrap);
        lines.take_while(|line| line != "END").filter(|line| line.starts_with("VALUE")).count()
    };
    let mut left = Vec::new();
    for prefix in ["", "heat:"] {
        fill_with(&serving, prefix, 0..HOT, 300);
        // A bucket holds 12, and there are 2600 of a tenant.
        for round in 1..=16 {
            fill_with(&serving, prefix, round * 10_000..round * 10_000 + 7_500, 300);
            left.push(found(prefix));
        }
    }
    let (queue, heat) = (left[15], left[31]);
    assert!(queue < 100 && heat > 400, "of 500 objects {queue} are left, and {heat}: {left:?}");
    assert!(metric(&serving, "larder_soc_promoted_objects_total") > 500.0);
}

#[test]
fn sighup_applies_admission_and_refuses_what_would_empty_the_cache() {
    let place = tempfile::tempdir().unwrap();
    let toml = |more: &str| format!("{MODEL}{more}");
    let mut serving = Serving::run(serve(place.path(), &toml("[soc]\npercent = 10\n"), &[]));
    fill(&serving, 0..20_000, 2_000);
    assert!(metric(&serving, "larder_admitted_objects_total") > 0.0);
    let file = place.path().join("larder.toml");
    let hup = |serving: &mut Serving, text: &str| {
        fs::write(&file, toml(text)).unwrap();
        serving.signal("HUP");
    };

    hup(
        &mut serving,
        "[soc]\npercent = 10\n[admission]\npolicy = \"random:0\"\n[loc]\neviction = \"lru\"\n",
    );
    let mut line = String::new();
    serving.output.read_line(&mut line).unwrap();
    assert!(line.ends_with("these need another start: loc.eviction\n"), "{line}");
    let admitted = metric(&serving, "larder_admitted_objects_total");
    fill(&serving, 20_000..40_000, 2_000);
    // What was on its way to flash when the policy changed may still be admitted.
    let more = metric(&serving, "larder_admitted_objects_total") - admitted;
    assert!(more < 5_000.0, "{more} objects were admitted by the old policy");
    assert!(metric(&serving, "larder_rejected_at_random_objects_total") > 5_000.0);

    hup(&mut serving, "[soc]\npercent = 20\n[admission]\npolicy = \"all\"\n");
    let waited = std::time::Instant::now();
    while !told(place.path()).contains("SIGHUP") {
        assert!(waited.elapsed().as_secs() < 20, "SIGHUP is not answered");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let said = told(place.path());
    assert!(
        said.contains("nothing is changed: soc.percent: another start with this would empty"),
        "{said}"
    );
    let rejected = metric(&serving, "larder_rejected_at_random_objects_total");
    fill(&serving, 40_000..50_000, 2_000);
    assert!(
        metric(&serving, "larder_rejected_at_random_objects_total") > rejected,
        "no policy changed"
    );
}

#[test]
fn a_start_that_would_empty_the_cache_is_refused_by_name() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data").display().to_string();
    let words = ["--memory", "48M", "--flash", "64M", "--data-dir", &data];
    let toml = |percent: &str| {
        format!("[[tenant]]\nname = \"a\"\nshare = 90\nsoc = {{ percent = {percent} }}\n")
    };
    let end = |serving: Serving| {
        serving.signal("TERM");
        let mut serving = serving;
        assert!(serving.child.wait().unwrap().success());
    };
    let serving = Serving::run(serve(place.path(), &toml("10"), &words));
    asks(&mut serving.connect("resp"), "SET bread rye\r\n", "+OK\r\n");
    end(serving);
    let said = refused(place.path(), &toml("20"), &words);
    assert!(said.contains("soc.percent") && said.contains("on_change = \"discard\""), "{said}");
    assert!(!said.contains("Discard"), "{said}");
    let share = toml("10").replace("90", "80");
    let said = refused(place.path(), &share, &words);
    assert!(said.contains("90") && said.contains("80"), "{said}");
    // Nothing was lost by either.
    let serving = Serving::run(serve(place.path(), &toml("10"), &words));
    asks(&mut serving.connect("resp"), "GET bread\r\n", "$3\r\nrye\r\n");
    end(serving);
    let discard = [&words[..], &["--on-change", "discard"]].concat();
    let serving = Serving::run(serve(place.path(), &toml("20"), &discard));
    asks(&mut serving.connect("resp"), "GET bread\r\n", "$-1\r\n");
}

#[test]
fn check_tells_every_setting_of_the_cache_and_where_it_comes_from() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("larder.toml");
    let check = |text: &str| {
        File::create(&file).unwrap().write_all(text.as_bytes()).unwrap();
        let ran =
            Command::new(env!("CARGO_BIN_EXE_larder")).arg("check").arg(&file).output().unwrap();
        String::from_utf8([ran.stdout, ran.stderr].concat()).unwrap()
    };
    let said = check("[loc]\nttl_classes = [60, 3600]\n[array]\npercent = 96\n");
    let line = |name: &str| {
        let found = said.lines().find(|line| line.starts_with(&format!("{name} ")));
        found.unwrap_or_else(|| panic!("{name} is missing in {said}")).to_owned()
    };
    assert!(
        line("loc.ttl_classes").contains("60,3600") && line("loc.ttl_classes").ends_with("file")
    );
    assert!(line("array.percent").contains("96") && line("soc.percent").ends_with("default"));
    for name in [
        "crash_safety",
        "dram.policy",
        "admission.policy",
        "placement.mode",
        "on_change",
        "utilization",
        "soc.eviction",
    ] {
        assert!(line(name).ends_with("default"), "{}", line(name));
    }
    let said = check("[loc]\nttl_clases = [60]\n");
    assert!(said.contains(
        "larder.toml:2:14: unknown key \"ttl_clases\" in [loc]: did you mean \"ttl_classes\"?"
    ));
}

/// Small objects in the log alone, with little memory: buckets would take less of it.
#[test]
fn advice_follows_from_the_sizes_of_the_objects() {
    let place = tempfile::tempdir().unwrap();
    let toml = MODEL.replace("128M", "512M");
    let serving = Serving::run(serve(place.path(), &toml, &[]));
    let address =
        serving.place("admin").trim_start_matches("http://").trim_end_matches('/').to_owned();
    let advise = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
        let ran = command.args(["advise", "--server", &address]).output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
        String::from_utf8(ran.stdout).unwrap()
    };
    assert!(advise().contains("too few objects to tell"), "{}", advise());
    fill(&serving, 0..400_000, 100);
    let said = advise();
    let row =
        |words: &str| said.lines().find(|line| line.contains(words)).unwrap_or_default().to_owned();
    assert!(row("one log of all objects (soc 0), now").starts_with("  "), "{said}");
    assert!(said.contains("* soc ") && said.contains("Take the engines marked with *"), "{said}");
}
