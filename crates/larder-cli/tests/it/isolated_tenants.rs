//! Tenants of `larder serve` on virtual SSDs: of a simulated drive in memory, and of an image that outlives the server.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;

use crate::place::Place;
use crate::placed_server::{fill_with, metric, refused, serve};
use crate::serve_command::{Serving, admin, asks, hashed};

const TENANTS: &str = "\
[[tenant]]
name = \"photos\"
share = 50
isolation = \"channel\"
channels = 2

[[tenant]]
name = \"pages\"
share = 30
isolation = \"die\"
dies = 2
prefix = \"pages:\"

[[tenant]]
name = \"logs\"
share = 20
isolation = \"software\"
capacity = \"24M\"
weight = 2
prefix = \"logs:\"
";

fn on(file: &str) -> String {
    format!("memory = \"64M\"\nfile = \"{file}\"\n{TENANTS}")
}

#[test]
fn each_tenant_writes_to_its_own_channels_and_dies() {
    let place = tempfile::tempdir().unwrap();
    let toml = on("model:384M,op=10,channels=4,dies=2");
    let serving = Serving::run(serve(place.path(), &toml, &[]));
    let flash = serving.place("flash").to_owned();
    for says in [
        "photos has vSSD 0: 2 channels, its own",
        "pages has vSSD 1: 2 dies, its own",
        "logs has vSSD 2",
    ] {
        assert!(flash.contains(says), "{flash}");
    }
    fill_with(&serving, "", 0..30_000, 4_000);
    fill_with(&serving, "pages:", 0..15_000, 4_000);
    let written = |tenant: &str| {
        let name = format!("larder_loc_written_bytes_total{{tenant=\"{tenant}\"}}");
        let text = admin(&serving, "GET /metrics", "");
        let line = text.lines().find(|line| line.starts_with(&name)).unwrap_or_default();
        line.rsplit(' ').next().unwrap_or_default().parse::<f64>().unwrap_or(0.0)
    };
    assert!(written("photos") > 1e6 && written("pages") > 1e6 && written("logs") < 1.0);
    let text = admin(&serving, "GET /metrics", "");
    let channels: Vec<&str> =
        text.lines().filter(|line| line.starts_with("larder_vssd_channel_erases_total")).collect();
    assert_eq!(channels.len(), 4, "{channels:?}");
    let alone = channels.iter().filter(|line| line.contains("tenants=\"photos\"")).count();
    assert_eq!(alone, 2, "no other tenant is on its channels: {channels:?}");
    assert!((metric(&serving, "larder_vssd_levelling_runs") - 1.0).abs() < 0.1);
}

/// The value of a metric of `larder_vssd_` for a tenant.
#[track_caller]
fn of_tenant(page: &str, name: &str, tenant: &str) -> f64 {
    let line = format!("larder_vssd_{name}{{tenant=\"{tenant}\"}} ");
    let value = page.lines().find_map(|found| found.strip_prefix(&line));
    value.unwrap_or_else(|| panic!("no {line} in {page}")).parse().unwrap()
}

/// The start says what each engine on blocks costs, and the metrics say what it has cost.
#[test]
fn a_tenant_with_buckets_is_told_what_blocks_cost_and_both_are_measured() {
    const BOTH: &str = "\
[[tenant]]
name = \"large\"
share = 50
isolation = \"channel\"
channels = 2
soc = { percent = 0 }

[[tenant]]
name = \"small\"
share = 50
isolation = \"channel\"
channels = 2
prefix = \"small:\"
soc = { percent = 20 }
";
    let place = tempfile::tempdir().unwrap();
    // The metrics are there without levelling too.
    let toml = format!(
        "memory = \"32M\"\nfile = \"model:384M,op=10,channels=4,dies=2\"\nlevelling = false\n{BOTH}"
    );
    let serving = Serving::run(serve(place.path(), &toml, &[]));
    let told = |tenant: &str| {
        let line = format!("objects of {tenant} ");
        serving.lines().find(|told| told.starts_with(&line)).unwrap().to_owned()
    };
    let (large, small) = (told("large"), told("small"));
    assert!(large.contains("DLWA of 1.0, up to 1.1"), "{large}");
    assert!(small.contains("DLWA of about 2.5: buckets are mapped page by page"), "{small}");
    assert!(metric(&serving, "larder_vssd_levelling_runs") < 0.1, "nothing is levelled");
    // Sets of a key that flash holds are logged.
    for _ in 0..2 {
        fill_with(&serving, "", 0..2_500, 8_000);
    }
    fill_with(&serving, "small:", 0..20_000, 600);
    let page = admin(&serving, "GET /metrics", "");
    let tombstones = "larder_tombstone_log_written_bytes_total{tenant=\"large\"} ";
    let logged = page.lines().find_map(|line| line.strip_prefix(tombstones)).unwrap();
    assert!(logged.parse::<f64>().unwrap() > 1e6, "{logged} bytes of tombstones");
    for (tenant, bounds) in [("large", 1.0..=1.1), ("small", 1.3..=4.0)] {
        let written = of_tenant(&page, "tenant_written_pages_total", tenant);
        let programmed = of_tenant(&page, "tenant_programmed_pages_total", tenant);
        let dlwa = of_tenant(&page, "tenant_dlwa", tenant);
        println!("{tenant}: {written} pages written, {programmed} programmed, DLWA {dlwa:.3}");
        assert!(written > 2_000.0, "{tenant}: {written}");
        assert!(bounds.contains(&dlwa), "{tenant}: {dlwa} is not in {bounds:?}");
        assert!((dlwa - programmed / written).abs() < 1e-6, "{programmed} by {written}");
    }
}

/// Runs `larder vssd` with these words on the image of `place`.
fn vssd(place: &Path, words: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command.current_dir(place).arg("vssd").args(words.split_whitespace());
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{words}: {ran:?}");
    String::from_utf8(ran.stdout).unwrap()
}

#[test]
fn an_image_keeps_the_data_of_each_tenant_and_knows_whose_they_are() {
    let place = Place::new();
    let image = place.path().join("m.img");
    place.succeed("vssd format --image m.img --channels 4 --dies 2 --blocks 192 --block-size 128K --stripe 16K");
    let file = format!("image:{}", image.display());
    let serving = Serving::run(serve(place.path(), &on(&file), &[]));
    let mut client = serving.connect("resp");
    asks(&mut client, "SET bread rye\r\n", "+OK\r\n");
    asks(&mut client, "SET pages:bread oat\r\n", "+OK\r\n");
    // The image is in use: its owner answers.
    let wear = vssd(place.path(), "wear --image m.img");
    assert!(wear.contains("CHANNEL"), "{wear}");
    // Other vSSDs come and go meanwhile; one that a tenant uses stays.
    let made =
        vssd(place.path(), "create --image m.img --isolation software --capacity 1M --name later");
    assert!(made.starts_with("vSSD 3: "), "{made}");
    assert!(vssd(place.path(), "list --image m.img").contains("later"));
    place.run("vssd delete --image m.img 0 --destroy-data").check_error(1, &["vSSD 0"]);
    vssd(place.path(), "delete --image m.img 3");
    asks(&mut client, "GET pages:bread\r\n", "$3\r\noat\r\n");
    serving.signal("TERM");
    let mut serving = serving;
    assert!(serving.child.wait().unwrap().success());

    let listed = vssd(place.path(), "list --image m.img");
    assert!(listed.contains("photos") && listed.contains("pages"), "{listed}");
    let serving = Serving::run(serve(place.path(), &on(&file), &[]));
    let mut client = serving.connect("resp");
    asks(&mut client, "GET bread\r\n", "$3\r\nrye\r\n");
    asks(&mut client, "GET pages:bread\r\n", "$3\r\noat\r\n");
    fill_with(&serving, "", 0..20_000, 4_000);
    serving.signal("KILL");
    drop(serving);

    // After a kill each tenant has its own data, or none, in whatever order the file names them.
    let mut parts: Vec<&str> = TENANTS.split("\n\n").collect();
    parts.swap(1, 2);
    let swapped = format!("memory = \"64M\"\nfile = \"{file}\"\n{}", parts.join("\n\n"));
    let serving = Serving::run(serve(place.path(), &swapped, &[]));
    let flash = serving.place("flash").to_owned();
    assert!(flash.contains("pages has vSSD 1: 2 dies"), "{flash}");
    let mut client = serving.connect("resp");
    client.write_all(b"GET pages:bread\r\nPING\r\n").unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"+PONG\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    let own_or_none = [&b"$3\r\noat\r\n+PONG\r\n"[..], b"$-1\r\n+PONG\r\n"];
    assert!(own_or_none.contains(&&*answer), "{}", answer.escape_ascii());
    serving.signal("TERM");
    drop(serving);

    let more = on(&file).replace("channels = 2", "channels = 1");
    let said = refused(place.path(), &more, &[]);
    assert!(said.contains("tenant \"photos\": channels = 1: its virtual SSD has 2"), "{said}");
    let said = refused(place.path(), &on(&file).replace("\"logs\"", "\"others\""), &[]);
    assert!(said.contains("belongs to \"logs\"") && said.contains("drop_other_tenants"), "{said}");
}

/// The server's virtual SSDs are listed, made, grown and deleted by `larder vssd` and at the admin address, while their
/// tenants are served.
#[test]
fn virtual_ssds_come_grow_and_go_while_tenants_are_served() {
    let place = Place::new();
    let image = place.path().join("m.img");
    place.succeed("vssd format --image m.img --channels 8 --dies 2 --blocks 64 --block-size 128K --stripe 16K");
    let hash = hashed("rye");
    let toml = format!(
        "memory = \"64M\"\nfile = \"image:{}\"\nadmin_token = \"{hash}\"\n[[tenant]]\nname = \"photos\"\n\
         share = 100\nisolation = \"channel\"\nchannels = 1\n",
        image.display()
    );
    let serving = Serving::run(serve(place.path(), &toml, &[]));
    let mut client = serving.connect("resp");
    asks(&mut client, "SET bread rye\r\n", "+OK\r\n");
    let refused = admin(&serving, "POST /api/vssds/create?isolation=die&units=2", "");
    assert!(refused.contains("401"), "{refused}");
    let made = admin(&serving, "POST /api/vssds/create?name=logs&isolation=die&units=2", "rye");
    assert!(
        made.contains("200 OK") && made.contains("vSSD 1: ") && made.contains("of logs"),
        "{made}"
    );
    let grown = admin(&serving, "POST /api/vssds/grow?vssd=1&units=2", "rye");
    assert!(grown.contains("4 × die"), "{grown}");
    let wrong = admin(&serving, "POST /api/vssds/grow?vssd=1&units=3", "rye");
    assert!(wrong.contains("409") && wrong.contains("grows by 2, 4"), "{wrong}");
    let listed = admin(&serving, "GET /api/vssds", "");
    assert!(listed.contains("\"name\":\"logs\"") && listed.contains("\"free\":"), "{listed}");
    let gone = admin(&serving, "POST /api/vssds/delete?vssd=1", "rye");
    assert!(gone.contains("vSSD 1 is gone"), "{gone}");
    let used = admin(&serving, "POST /api/vssds/delete?vssd=0&destroy_data=true", "rye");
    assert!(used.contains("409"), "a tenant has it: {used}");
    // A tenant's own grows too, and its cache goes on with what it has.
    let grown = vssd(place.path(), "grow --image m.img 0 --units 2");
    assert!(grown.contains("3 × channel"), "{grown}");
    asks(&mut client, "GET bread\r\n", "$3\r\nrye\r\n");
    serving.signal("TERM");
    let mut serving = serving;
    assert!(serving.child.wait().unwrap().success());

    // The next start keeps the content, whether the file says the old number or the new one.
    let four = toml.replace("channels = 1", "channels = 4");
    let serving = Serving::run(serve(place.path(), &four, &[]));
    assert!(
        serving.place("flash").contains("photos has vSSD 0: 4 channels"),
        "it grew at the start"
    );
    let note = serving.place("note").to_owned();
    assert!(note.contains("photos has grown to") && note.contains("on_change"), "{note}");
    asks(&mut serving.connect("resp"), "GET bread\r\n", "$3\r\nrye\r\n");
    serving.signal("TERM");
    let mut serving = serving;
    assert!(serving.child.wait().unwrap().success());
    let all = format!("on_change = \"discard\"\n{four}");
    let serving = Serving::run(serve(place.path(), &all, &[]));
    asks(&mut serving.connect("resp"), "GET bread\r\n", "$-1\r\n");
}

#[test]
fn what_isolation_needs_is_told() {
    let place = tempfile::tempdir().unwrap();
    let without = on("model:384M,op=10").replace("isolation = \"channel\"\nchannels = 2", "");
    let said = refused(place.path(), &without, &[]);
    assert!(said.contains("tenant \"photos\": isolation is missing"), "{said}");
    let file = place.path().join("plain").display().to_string();
    fs::write(&file, vec![0; 1 << 20]).unwrap();
    let said = refused(place.path(), &on(&file), &[]);
    assert!(said.contains("has no channels that tenants could have"), "{said}");
    let shares = on(&file).replace("\"channel\"\nchannels = 2", "\"software\"");
    let said = refused(place.path(), &shares, &[]);
    assert!(
        said.contains("tenant \"pages\": channels, dies and capacity are for arrays"),
        "{said}"
    );
    let dies = shares.replace("dies = 2\n", "").replace("capacity = \"24M\"\n", "");
    let said = refused(place.path(), &dies, &[]);
    assert!(said.contains("the drive has 1 reclaim group for 3 tenants"), "{said}");
    let said = refused(place.path(), &on("model:384M,op=10").replace("dies = 2\n", ""), &[]);
    assert!(said.contains("tenant \"pages\": isolation: how much?"), "{said}");
    let said = refused(place.path(), &on("image:/nowhere/m.img"), &[]);
    assert!(said.contains("`larder vssd format` makes one"), "{said}");
    let on_model = on("model:384M,op=10,channels=4,dies=2");
    let lent = "channels = 2\nborrows = true\narray = { percent = 96 }";
    let said = refused(place.path(), &on_model.replace("channels = 2", lent), &[]);
    assert!(said.contains("tenant \"photos\": borrows: the array engine has an index"), "{said}");
    let greedy = on_model.replace("channels = 2", "channels = 9");
    let said = refused(place.path(), &greedy, &[]);
    assert!(said.contains("tenant \"photos\"") && said.contains("are free"), "{said}");
}

/// On a drive that maps pages itself tenants have a fair share of its time, and limits.
#[test]
fn tenants_share_the_time_of_a_drive_and_keep_to_their_limits() {
    let place = tempfile::tempdir().unwrap();
    let at = place.path().join("drive").display().to_string();
    let toml = format!(
        "memory = \"64M\"\nflash = \"256M\"\nfile = \"{at}\"\n[[tenant]]\nname = \"fast\"\nshare = 50\n\
         isolation = \"software\"\nweight = 3\n[[tenant]]\nname = \"slow\"\nshare = 50\nisolation = \"software\"\n\
         prefix = \"slow:\"\nflash_requests_per_second = 50\nflash_bytes_per_second = \"1M\"\n"
    );
    fs::write(place.path().join("checked.toml"), &toml).unwrap();
    let mut check = Command::new(env!("CARGO_BIN_EXE_larder"));
    let checked = check.current_dir(place.path()).args(["check", "checked.toml"]).output().unwrap();
    let text = String::from_utf8(checked.stdout).unwrap();
    assert!(text.contains("flash_depth") && text.contains("64"), "{text}");
    assert!(text.contains("50 requests/s to flash, 1.00 MiB/s to and from flash"), "{text}");
    let serving = Serving::run(serve(place.path(), &toml, &[]));
    fill_with(&serving, "", 0..12_000, 4_000);
    fill_with(&serving, "slow:", 0..12_000, 4_000);
    let delayed = |tenant: &str| {
        let text = admin(&serving, "GET /metrics", "");
        let name = format!("larder_flash_delayed_ns_total{{tenant=\"{tenant}\"}}");
        let line = text.lines().find(|line| line.starts_with(&name)).unwrap_or_default();
        line.rsplit(' ').next().unwrap_or_default().parse::<f64>().unwrap_or(-1.0)
    };
    let (fast, slow) = (delayed("fast"), delayed("slow"));
    assert!(slow > 1e9 && fast >= 0.0 && slow > 10.0 * fast, "{fast}, {slow}");
}

/// A drive for each tenant, as with namespaces.
#[test]
fn a_tenant_may_have_a_file_of_its_own() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name).display().to_string();
    let toml = format!(
        "memory = \"64M\"\nflash = \"128M\"\n[[tenant]]\nname = \"a\"\nshare = 50\nfile = \"{}\"\n\
         [[tenant]]\nname = \"b\"\nshare = 50\nfile = \"{}\"\nprefix = \"b:\"\n",
        at("a.flash"),
        at("b.flash")
    );
    let serving = Serving::run(serve(place.path(), &toml, &[]));
    let mut client = serving.connect("resp");
    asks(&mut client, "SET bread rye\r\n", "+OK\r\n");
    asks(&mut client, "SET b:bread oat\r\n", "+OK\r\n");
    serving.signal("TERM");
    let mut serving = serving;
    assert!(serving.child.wait().unwrap().success());
    assert_eq!(fs::metadata(at("a.flash")).unwrap().len(), 64 << 20);
    let serving = Serving::run(serve(place.path(), &toml, &[]));
    asks(&mut serving.connect("resp"), "GET b:bread\r\n", "$3\r\noat\r\n");
}

/// The tenants of a server of which one lends and one borrows.
const LENDING: &str = "\
[[tenant]]
name = \"pages\"
share = 50
isolation = \"channel\"
channels = 1
borrows = true

[[tenant]]
name = \"photos\"
share = 50
isolation = \"channel\"
channels = 2
lends = true
prefix = \"photos:\"
";

/// A tenant has regions on idle channels of another. When that one fills its flash, they are gone: gets of them are
/// misses. A kill brings no older value back.
#[test]
fn a_tenant_borrows_idle_channels_and_loses_only_clean_data() {
    let place = Place::new();
    let image = place.path().join("m.img");
    place.succeed(
        "vssd format --image m.img --channels 4 --dies 2 --blocks 192 --block-size 128K --stripe 16K",
    );
    let toml = format!("memory = \"48M\"\nfile = \"image:{}\"\n{LENDING}", image.display());
    let serving = Serving::run(serve(place.path(), &toml, &[]));
    let flash = serving.place("flash").to_owned();
    assert!(flash.contains(", borrows") && flash.contains(", lends"), "{flash}");
    set_versions(&serving, 1, 10_000);
    set_versions(&serving, 2, 10_000);
    assert!(metric(&serving, "larder_vssd_loans_total") > 2.0);
    assert!(metric(&serving, "larder_vssd_borrowed_blocks") > 0.0);
    assert!(metric(&serving, "larder_vssd_borrowed_written_bytes_total") > 100_000.0);
    let listed = vssd(place.path(), "list --image m.img");
    assert!(listed.contains("loans: vSSD 1 lends, "), "{listed}");
    fill_with(&serving, "photos:", 0..30_000, 4_000);
    assert!(metric(&serving, "larder_vssd_loans_called_back_total") > 0.0);
    let (there, older) = count_versions(&serving, 2, 10_000);
    assert!(there > 500 && older == 0, "{there} there, {older} older");
    serving.signal("KILL");
    drop(serving);
    let serving = Serving::run(serve(place.path(), &toml, &[]));
    let (_, older) = count_versions(&serving, 2, 10_000);
    assert_eq!(older, 0, "a replaced value never comes back");
    serving.signal("TERM");
    drop(serving);
    place.succeed("vssd fsck --image m.img");
}

fn versioned(key: u32, version: u32) -> String {
    format!("{version}:{key}:{}", "v".repeat(4_000))
}

/// Sets all keys to this version.
fn set_versions(serving: &Serving, version: u32, keys: u32) {
    let mut client = serving.connect("memcached");
    for key in 0..keys {
        let value = versioned(key, version);
        let request = format!("set key{key} 0 0 {}\r\n{value}\r\n", value.len());
        asks(&mut client, &request, "STORED\r\n");
    }
}

/// Keys that have this version, and those that have another.
fn count_versions(serving: &Serving, version: u32, keys: u32) -> (u32, u32) {
    use std::io::{BufRead, BufReader, Read, Write};
    let mut client = BufReader::new(serving.connect("memcached"));
    let (mut there, mut older) = (0, 0);
    for key in 0..keys {
        client.get_mut().write_all(format!("get key{key}\r\n").as_bytes()).unwrap();
        let mut line = String::new();
        client.read_line(&mut line).unwrap();
        if line == "END\r\n" {
            continue;
        }
        let value = versioned(key, version);
        let mut heard = vec![0; value.len() + "\r\nEND\r\n".len()];
        client.read_exact(&mut heard).unwrap();
        if heard.starts_with(value.as_bytes()) { there += 1 } else { older += 1 }
    }
    (there, older)
}
