//! `larder serve` as a process: start, end, kill, and restart.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Nothing here takes longer than this.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server that ends with the test in any case.
pub(crate) struct Serving {
    pub(crate) child: Child,
    pub(crate) output: BufReader<Box<dyn Read>>,
    /// The printed lines, by their first words: addresses by protocol, and what else is told at the start.
    places: Vec<(String, String)>,
    lines: Vec<String>,
}

pub(crate) fn command(directory: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    let directory = directory.to_str().unwrap();
    command.args(["serve", "--memory", "64M", "--flash", "128M", "--data-dir", directory]);
    command.args(["--workers", "2"]).args(words);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) const ANYWHERE: [&str; 6] =
    ["--memcached", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--admin", "127.0.0.1:0"];

impl Serving {
    fn start(directory: &Path) -> Self {
        Self::run(command(directory, &ANYWHERE))
    }

    /// Runs `command`, until it prints that it is ready.
    pub(crate) fn run(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(Box::new(child.stdout.take().unwrap()) as Box<dyn Read>);
        let mut serving = Self { child, output, places: Vec::new(), lines: Vec::new() };
        loop {
            let mut line = String::new();
            assert!(
                serving.output.read_line(&mut line).unwrap() > 0,
                "it ended before it was ready"
            );
            if line.starts_with("ready in") {
                return serving;
            }
            let (name, place) = line.trim_end().split_once(' ').unwrap();
            serving.places.push((name.to_owned(), place.trim().to_owned()));
            serving.lines.push(line);
        }
    }

    pub(crate) fn place(&self, name: &str) -> &str {
        &self.places.iter().find(|(known, _)| known == name).unwrap().1
    }

    /// The lines that were printed before it was ready.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(String::as_str)
    }

    pub(crate) fn connect(&self, name: &str) -> TcpStream {
        // After the address the line may mention TLS.
        let address = self.place(name).split(' ').next().unwrap();
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    pub(crate) fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    /// Its exit code, and the rest of its output.
    fn ended(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn asks(stream: &mut TcpStream, request: &str, answer: &str) {
    stream.write_all(request.as_bytes()).unwrap();
    let mut heard = vec![0; answer.len()];
    stream.read_exact(&mut heard).unwrap();
    assert_eq!(String::from_utf8_lossy(&heard), answer, "{request:?}");
}

/// Requests that are sent before the first of their answers is read.
const PIPELINED: usize = 100;

fn value_of(key: u32, version: u32) -> String {
    format!("{key}:{version}:{}", "x".repeat(1000))
}

/// Sets all of these keys to `version`; each set is acknowledged.
fn set_all(reader: &mut BufReader<TcpStream>, keys: &[u32], version: u32) {
    for some in keys.chunks(PIPELINED) {
        let request = |&key: &u32| {
            let value = value_of(key, version);
            format!("set key{key} 0 0 {}\r\n{value}\r\n", value.len())
        };
        let requests: String = some.iter().map(request).collect();
        reader.get_mut().write_all(requests.as_bytes()).unwrap();
        let mut answers = vec![0; b"STORED\r\n".len() * some.len()];
        reader.read_exact(&mut answers).unwrap();
        assert_eq!(answers, b"STORED\r\n".repeat(some.len()));
    }
}

/// The versions that these keys have, of those that are there; each value is whole and its key's own.
fn versions_of(reader: &mut BufReader<TcpStream>, keys: &[u32]) -> Vec<u32> {
    let mut versions = Vec::new();
    for some in keys.chunks(PIPELINED) {
        let requests: String = some.iter().map(|key| format!("get key{key}\r\n")).collect();
        reader.get_mut().write_all(requests.as_bytes()).unwrap();
        versions.extend(some.iter().filter_map(|key| version_of(reader, *key)));
    }
    versions
}

/// The answer to the next `get`.
fn version_of(reader: &mut BufReader<TcpStream>, key: u32) -> Option<u32> {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    if line == "END\r\n" {
        return None;
    }
    let bytes: usize = line.trim_end().rsplit(' ').next().unwrap().parse().unwrap();
    let mut value = vec![0; bytes + b"\r\nEND\r\n".len()];
    reader.read_exact(&mut value).unwrap();
    let value = String::from_utf8(value).unwrap();
    let version = value.split(':').nth(1).unwrap().parse().unwrap();
    assert_eq!(value, format!("{}\r\nEND\r\n", value_of(key, version)), "key {key}");
    Some(version)
}

#[test]
fn sigterm_ends_it_in_order_and_the_next_start_finds_everything() {
    let directory = tempfile::tempdir().unwrap();
    let serving = Serving::start(directory.path());
    asks(&mut serving.connect("resp"), "SET bread rye\r\n", "+OK\r\n");
    asks(&mut serving.connect("memcached"), "get bread\r\n", "VALUE bread 0 3\r\nrye\r\nEND\r\n");
    assert!(serving.place("admin").starts_with("http://127.0.0.1:"));
    assert!(serving.place("flash").contains("128.00 MiB"), "{}", serving.place("flash"));
    assert_eq!(serving.place("found"), "empty: nothing was there");
    serving.signal("TERM");
    let (code, rest) = serving.ended();
    assert_eq!(code, Some(0));
    assert!(rest.ends_with("closed\n"), "{rest}");
    let serving = Serving::start(directory.path());
    let found = serving.place("found");
    assert!(found.starts_with("warm: it was closed in order; "), "{found}");
    asks(&mut serving.connect("memcached"), "get bread\r\n", "VALUE bread 0 3\r\nrye\r\nEND\r\n");
}

#[test]
fn a_server_runs_on_after_the_reader_of_its_log_has_gone() {
    let directory = tempfile::tempdir().unwrap();
    let mut serving = Serving::start(directory.path());
    asks(&mut serving.connect("resp"), "SET bread rye\r\n", "+OK\r\n");
    let Serving { child, output, .. } = &mut serving;
    drop(std::mem::replace(output, BufReader::new(Box::new(std::io::empty()) as Box<dyn Read>)));
    drop(child.stderr.take());
    serving.signal("TERM");
    assert_eq!(serving.ended().0, Some(0));
    let serving = Serving::start(directory.path());
    asks(&mut serving.connect("resp"), "GET bread\r\n", "$3\r\nrye\r\n");
}

#[test]
fn kills_leave_nothing_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let keys: Vec<u32> = (0..100_000).collect();
    for version in 1..=3 {
        let serving = Serving::start(directory.path());
        let mut reader = BufReader::new(serving.connect("memcached"));
        let found = versions_of(&mut reader, &keys);
        // Each round has set all keys, and each set was acknowledged: no older version comes back.
        assert!(found.iter().all(|found| *found == version - 1), "a version that was replaced");
        // 100 MiB do not fit into the 48 MiB of DRAM that 64 MiB of memory leave: the first ones reached flash.
        assert_eq!(found.is_empty(), version == 1, "values outlive kills");
        set_all(&mut reader, &keys, version);
        serving.signal("KILL");
        assert_eq!(serving.ended().0, None);
    }
}

#[test]
fn a_port_that_is_taken_is_told_with_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let words = ["--memcached", &address, "--resp", "none", "--admin", "none"];
    let output = command(directory.path(), &words).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains(&format!("cannot listen on {address} (another program listens there")),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn one_data_directory_serves_one() {
    let directory = tempfile::tempdir().unwrap();
    let serving = Serving::start(directory.path());
    let output = command(directory.path(), &ANYWHERE).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("larder.flash"), "{said}");
    assert!(said.contains("end the server that has it") && !said.contains("lock_wait"), "{said}");
    asks(&mut serving.connect("resp"), "PING\r\n", "+PONG\r\n");
}

/// The exit code and the error output of a server that does not start.
fn refused(mut command: Command) -> (Option<i32>, String) {
    let ended = command.output().unwrap();
    (ended.status.code(), String::from_utf8(ended.stderr).unwrap())
}

/// A port that is taken, or a cache that cannot be opened: files made for the start are removed.
#[test]
fn a_start_that_fails_leaves_nothing_behind() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("data");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().to_string();
    let (code, said) =
        refused(command(&directory, &["--memcached", &port, "--resp", "none", "--admin", "none"]));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&port) && !directory.exists(), "{said}");
    // Its index needs more memory than it gets.
    let mut starved = command(&directory, &ANYWHERE);
    starved.args(["--array", "96", "--array-memory", "4K"]);
    let (code, said) = refused(starved);
    assert!(matches!(code, Some(1 | 2)), "{said}");
    assert!(said.contains("memory") && !said.contains("memory_bytes"), "{said}");
    assert!(!directory.exists(), "{said}");
    // An existing file stays.
    let files: Vec<String> =
        ["a", "b"].map(|name| place.path().join(name).display().to_string()).into();
    std::fs::write(&files[0], vec![7; 8192]).unwrap();
    let words =
        [&ANYWHERE[..], &["--file", &files[0], "--file", &files[1], "--flash", "64M"]].concat();
    let mut shards = Command::new(env!("CARGO_BIN_EXE_larder"));
    shards.args(["serve", "--memory", "1M"]).args(&words);
    let (code, said) = refused(shards);
    assert_ne!(code, Some(0), "{said}");
    assert!(Path::new(&files[0]).exists() && !Path::new(&files[1]).exists(), "{said}");
}

/// Whatever the umask is, others may not read the cache's files.
#[test]
fn its_files_are_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("data");
    let serving = Serving::start(&directory);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&directory), mode(&directory.join("larder.flash"))), (0o700, 0o600));
    drop(serving);
}

/// A file size limit causes an error message, and does not kill the process.
#[test]
fn a_limit_of_file_size_is_told() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("data");
    let script = format!(
        "ulimit -f 1000; exec {} serve --memory 64M --flash 128M --memcached 127.0.0.1:0 --resp none \
         --admin none --data-dir {}",
        env!("CARGO_BIN_EXE_larder"),
        directory.display()
    );
    let mut limited = Command::new("sh");
    limited.args(["-c", &script]);
    let (code, said) = refused(limited);
    assert!(matches!(code, Some(1 | 2)) && said.contains("error: "), "{code:?} {said}");
    assert!(!directory.exists(), "{said}");
}

#[test]
fn sighup_reads_the_file_again_and_a_mistake_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("larder.toml");
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    write("connections = 100\n");
    let mut configured = command(directory.path(), &ANYWHERE);
    configured.args(["--log", "warn", "--config", file.to_str().unwrap()]);
    let mut serving = Serving::run(configured);
    let mut errors = BufReader::new(serving.child.stderr.take().unwrap());
    let mut line = String::new();
    write("connections = 50\nidle_timeout = 9\n");
    serving.signal("HUP");
    serving.output.read_line(&mut line).unwrap();
    assert!(
        line.contains(
            "users, certificates, connections, limits, memory and admission are as the file"
        ),
        "{line}"
    );
    assert!(line.ends_with("another start: idle_timeout\n"), "{line}");
    write("conections = 50\n");
    serving.signal("HUP");
    line.clear();
    errors.read_line(&mut line).unwrap();
    assert!(line.starts_with("SIGHUP: nothing is changed: "), "{line}");
    assert!(
        line.contains("larder.toml:1:1: unknown key \"conections\": did you mean \"connections\"?"),
        "{line}"
    );
}

/// What `CONFIG GET` of a client says of a setting.
fn setting(serving: &Serving, name: &str) -> String {
    let mut stream = BufReader::new(serving.connect("resp"));
    stream.get_mut().write_all(format!("CONFIG GET {name}\r\n").as_bytes()).unwrap();
    let lines = stream.lines().map(Result::unwrap);
    // The array, the name with its length, and the length of the value.
    lines.skip(4).take(1).collect()
}

/// The answer to a field of 200 bytes.
fn long_field(serving: &Serving) -> String {
    let mut stream = BufReader::new(serving.connect("resp"));
    let field = "x".repeat(200);
    stream.get_mut().write_all(format!("HSET h a {field}\r\n").as_bytes()).unwrap();
    stream.lines().next().unwrap().unwrap()
}

#[test]
fn what_clients_of_resp_notice_is_set_by_the_command_and_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("larder.toml");
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    write(
        "pubsub_max = \"1M\"\nmaxmemory_policy = \"noeviction\"\ncollection_max = \"100\"\n\
         tracking_table_max = 7\nnotify_keyspace_events = \"KEA\"\n",
    );
    let mut configured = command(directory.path(), &ANYWHERE);
    configured.args(["--maxmemory-policy", "volatile-lru", "--config", file.to_str().unwrap()]);
    let mut serving = Serving::run(configured);
    assert_eq!(setting(&serving, "maxmemory-policy"), "volatile-lru");
    let limit = |serving: &Serving| setting(serving, "client-output-buffer-limit");
    assert_eq!(limit(&serving), "normal 0 0 0 slave 0 0 0 pubsub 1048576 262144 60");
    let refused_as =
        "-ERR the collection of key h would have 217 bytes, more than collection_max (100)";
    assert_eq!(long_field(&serving), refused_as);
    assert_eq!(setting(&serving, "tracking-table-max-keys"), "7");
    assert_eq!(setting(&serving, "notify-keyspace-events"), "AKE");
    write(
        "pubsub_max = \"2M\"\nmaxmemory_policy = \"noeviction\"\ncollection_max = \"1k\"\n\
         tracking_table_max = 8\n",
    );
    serving.signal("HUP");
    serving.output.read_line(&mut String::new()).unwrap();
    assert_eq!(limit(&serving), "normal 0 0 0 slave 0 0 0 pubsub 2097152 524288 60");
    assert_eq!(long_field(&serving), ":1");
    assert_eq!(setting(&serving, "tracking-table-max-keys"), "8");
    assert_eq!(setting(&serving, "notify-keyspace-events"), "");
    for (option, value, why) in [
        ("--maxmemory-policy", "lru", "must be one of allkeys-lru, "),
        ("--tracking-table-max", "0", "tracking_table_max = 0: must be at least 1"),
        ("--notify-keyspace-events", "KEy", "Invalid event class character"),
        ("--pubsub-max", "0", "pubsub-max"),
        ("--collection-max", "0", "collection-max"),
        ("--collection-max", "129M", "collection_max = 135266304: must be 1 to 134217728"),
        ("--script-memory-max", "1K", "script_memory_max = 1024: must be at least"),
        ("--script-time-limit", "0", "script-time-limit"),
        ("--memcached-database", "16", "memcached_database = 16: must be 0 to 15"),
    ] {
        let (code, said) = refused(command(directory.path(), &[option, value]));
        assert!(code == Some(2) && said.contains(why), "{said}");
    }
}

#[test]
fn check_explains_a_file_or_says_where_it_is_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("larder.toml");
    let check = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let output =
            Command::new(env!("CARGO_BIN_EXE_larder")).arg("check").arg(&file).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let (code, said) = check("memory = \"1G\"\n[[tenant]]\nname = \"photos\"\nshare = 60\n");
    assert_eq!(code, Some(0), "{said}");
    let line = |name: &str| said.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(line("memory ").contains("1.00 GiB") && line("memory ").ends_with("file"), "{said}");
    assert!(
        line("resp ").contains("127.0.0.1:6379") && line("resp ").ends_with("default"),
        "{said}"
    );
    assert!(line("tenant photos").contains("60 %"), "{said}");
    let (code, said) = check("resp = \"0.0.0.0:6379\"\n");
    assert!(code == Some(2) && said.contains("allow_unprotected"), "{said}");
    let (code, said) = check("[[user]]\nname = \"ann\"\n");
    assert!(
        code == Some(2) && said.contains("larder.toml:1:1: user \"ann\" needs a password"),
        "{said}"
    );
}

/// The answer of the admin port to a request.
pub(crate) fn admin(serving: &Serving, line: &str, token: &str) -> String {
    let place = serving.place("admin").trim_start_matches("http://").trim_end_matches('/');
    let mut stream = TcpStream::connect(place).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!("{line} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n");
    stream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The hash of a password or token, by `larder password`.
pub(crate) fn hashed(password: &str) -> String {
    let command = format!("echo {password} | {} password", env!("CARGO_BIN_EXE_larder"));
    let hashed = Command::new("sh").args(["-c", &command]).output().unwrap();
    String::from_utf8(hashed.stdout).unwrap().trim().to_owned()
}

#[test]
fn several_files_are_shards_that_come_and_go() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let files = [path("a"), path("b"), path("c")];
    let hash = hashed("rye");
    let serve = |files: &[String]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
        command.args(["serve", "--memory", "64M", "--flash", "192M", "--workers", "1"]);
        command.args(ANYWHERE).args(["--admin-token", &hash]);
        files.iter().for_each(|file| _ = command.args(["--file", file]));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let states = |serving: &Serving| -> Vec<String> {
        let answer = admin(serving, "GET /api/array", "rye");
        let found = answer.split("\"state\":\"").skip(1);
        found.map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
    };
    let serving = Serving::run(serve(&files));
    assert!(serving.place("flash").starts_with("3 shards: "), "{}", serving.place("flash"));
    assert_eq!(serving.place("found"), "shard 0, empty: nothing was there");
    let mut client = serving.connect("resp");
    for key in 0..60 {
        asks(&mut client, &format!("SET key-{key} rye\r\n"), "+OK\r\n");
    }
    assert_eq!(states(&serving), ["healthy"; 3]);
    let spare = path("d");
    std::fs::File::create(&spare).unwrap().set_len(64 << 20).unwrap();
    let lacks = admin(&serving, "POST /api/array/replace?shard=1", "rye");
    assert!(lacks.contains(" 400 ") && lacks.contains("?path=PATH"), "{lacks}");
    let refused = admin(&serving, &format!("POST /api/array/add?path={}", files[0]), "rye");
    assert!(refused.contains(" 409 ") && refused.contains("not done"), "{refused}");
    let failed = admin(&serving, "POST /api/array/fail?shard=1", "rye");
    assert!(failed.contains(" 200 "), "{failed}");
    let done = admin(&serving, &format!("POST /api/array/replace?shard=1&path={spare}"), "rye");
    assert!(done.contains(" 200 "), "{done}");
    for key in 0..60 {
        asks(&mut client, &format!("SET key-{key} oat\r\n"), "+OK\r\n");
        asks(&mut client, &format!("GET key-{key}\r\n"), "$3\r\noat\r\n");
    }
    serving.signal("TERM");
    assert_eq!(serving.ended().0, Some(0));
    // One file is missing, since its directory does not exist. No client gets an old value.
    let gone = [files[0].clone(), path("gone/c"), spare];
    let serving = Serving::run(serve(&gone));
    assert!(serving.place("flash").contains("gone/c is missing"), "{}", serving.place("flash"));
    let mut client = serving.connect("resp");
    for key in 0..60 {
        let mut answer = [0; 9];
        client.write_all(format!("GETRANGE key-{key} 0 2\r\n").as_bytes()).unwrap();
        client.read_exact(&mut answer[..4]).unwrap();
        match &answer[..4] {
            b"$0\r\n" => client.read_exact(&mut answer[..2]).unwrap(),
            _ => {
                client.read_exact(&mut answer[..5]).unwrap();
                assert_eq!(&answer[..5], b"oat\r\n");
            }
        }
    }
    assert_eq!(states(&serving).iter().filter(|state| *state == "failed").count(), 1);
}
