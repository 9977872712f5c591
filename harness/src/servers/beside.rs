//! How the small hits of one tenant are affected by other activity: thousands of idle connections; a neighbour that
//! streams long values, never reads its answers, or sets at full speed on a slow drive; and a drive that stalls.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::contestant::{Contestant, Start};
use super::rounds::{LoadResults, Series, ratios, spread};
use super::settings::Bench;
use super::throttle::Throttle;

const MEMORY: u64 = 512 << 20;
const FLASH: u64 = 2 << 30;
/// Write bandwidth of the slow drive, in bytes a second.
const SLOW: u64 = 20 << 20;
const IDLE: usize = 10_000;
/// Time for the other activity to start.
const BEGUN: Duration = Duration::from_millis(700);

/// The quiet tenant's requests: an open loop at a rate below the capacity of a core.
const OPEN: [&str; 6] = ["--rate", "4000", "--connections", "8", "--keys", "10000"];

/// A concurrent activity.
struct Neighbour {
    name: &'static str,
    /// Options of the quiet tenant's load.
    load: &'static [&'static str],
    begin: fn(&Bench, &Shop) -> Result<Guests, String>,
}

const ALL: [Neighbour; 5] = [
    Neighbour { name: "streams of 10 MiB values", load: &OPEN, begin: streams },
    Neighbour { name: "20 connections that never read", load: &OPEN, begin: deaf },
    Neighbour { name: "sets at full speed, slow drive", load: &OPEN, begin: sets },
    Neighbour {
        name: "10,000 idle connections",
        load: &["--connections", "1000", "--keys", "10000"],
        begin: idle,
    },
    Neighbour {
        name: "a drive that stalls, asked by 32",
        load: &["--connections", "8", "--keys", "10000"],
        begin: stall,
    },
];

/// A server with two tenants, and its drive.
struct Shop {
    server: Contestant,
    drive: Throttle,
}

/// The running activity, stopped on drop.
struct Guests {
    processes: Vec<Child>,
    connections: Vec<TcpStream>,
}

impl Guests {
    fn load(process: Child) -> Self {
        Self { processes: vec![process], connections: Vec::new() }
    }

    fn of(connections: Vec<TcpStream>) -> Self {
        Self { processes: Vec::new(), connections }
    }
}

impl Drop for Guests {
    fn drop(&mut self) {
        self.connections.clear();
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Measures, and prints. Returns what was not available.
pub(super) fn run(bench: &Bench) -> Result<Vec<String>, String> {
    let dir = bench.dir.join("beside");
    fs::create_dir_all(&dir).map_err(|cause| format!("{}: {cause}", dir.display()))?;
    let measured =
        ["io_uring", "epoll"].iter().try_for_each(|sockets| measure(bench, sockets, &dir));
    let _ = fs::remove_dir_all(&dir);
    measured.map(|()| Vec::new())
}

fn measure(bench: &Bench, sockets: &str, dir: &Path) -> Result<(), String> {
    let start = Start {
        name: "larder",
        memory_bytes: MEMORY,
        flash: Some((dir, FLASH)),
        limit_bytes: None,
    };
    let server = Contestant::larder_for_two(bench, &start, sockets)?;
    let drive = Throttle::of(server.process(), dir)?;
    let shop = Shop { server, drive };
    let quiet = shop.server.targets[0].as_str();
    println!(
        "\nhits of 100 bytes in DRAM beside others, sockets by {sockets}, {} threads",
        bench.settings.threads
    );
    println!(
        "{:34} {:>26} {:>26} {:>24} {:>20}",
        "", "requests/s without", "with", "p99 us without", "with"
    );
    for beside in &ALL {
        let [mut alone, mut with] = [Vec::new(), Vec::new()];
        for _ in 0..bench.settings.rounds {
            shop.drive.lift()?;
            alone.push(LoadResults::of_one_round(bench, quiet, beside.load)?);
            let guests = (beside.begin)(bench, &shop)?;
            std::thread::sleep(BEGUN);
            with.push(LoadResults::of_one_round(bench, quiet, beside.load)?);
            drop(guests);
            shop.drive.lift()?;
            // Let the server write what the activity has left behind.
            std::thread::sleep(Duration::from_secs(1));
        }
        print(beside.name, &alone, &with);
    }
    Ok(())
}

fn print(name: &str, alone: &[LoadResults], with: &[LoadResults]) {
    let of = |rounds: &[LoadResults], number: &str| -> Series {
        rounds.iter().flat_map(|round| round.series(0, number)).collect()
    };
    let both = |number: &str| (of(alone, number), of(with, number));
    let (rate, p99) = (both("requests_per_second"), both("p99_us"));
    println!(
        "{name:34} {:>26} {:>26} {:>24} {:>20}",
        spread(&rate.0, 0),
        spread(&rate.1, 0),
        spread(&p99.0, 0),
        spread(&p99.1, 0)
    );
    println!(
        "{:34} {:>26} {:>26} {:>24} {:>20}",
        "  times as much",
        "",
        spread(&ratios(&rate.1, &rate.0), 2),
        "",
        spread(&ratios(&p99.1, &p99.0), 2)
    );
}

/// Starts the loud tenant's load. Its client has low priority, so that the measured client gets the processor.
fn loud(bench: &Bench, shop: &Shop, words: &[&str]) -> Result<Child, String> {
    let mut command = Command::new("nice");
    command.args(["-n", "19", "taskset", "-c", &bench.settings.client_cores]).arg(&bench.larder);
    command.args(["bench", &shop.server.targets[1], "--seconds", "60"]).args(words);
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.spawn().map_err(|cause| format!("larder bench: {cause}"))
}

fn streams(bench: &Bench, shop: &Shop) -> Result<Guests, String> {
    let words = ["--keys", "4", "--value-bytes", "10M", "--connections", "4", "--sets", "10"];
    loud(bench, shop, &words).map(Guests::load)
}

fn sets(bench: &Bench, shop: &Shop) -> Result<Guests, String> {
    shop.drive.slow_writes(SLOW)?;
    let words = ["--keys", "1000000", "--value-bytes", "4000", "--sets", "100", "--no-fill"];
    loud(bench, shop, &words).map(Guests::load)
}

fn deaf(_: &Bench, shop: &Shop) -> Result<Guests, String> {
    let told = |cause: std::io::Error| format!("the loud tenant: {cause}");
    let port = shop.server.port_of(1).ok_or("no port")?;
    let connect = || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(told);
    let mut first = connect()?;
    first
        .write_all(&[b"set long 0 0 500000\r\n", &[b'x'; 500_000][..], b"\r\n"].concat())
        .map_err(told)?;
    let mut stored = [0; 8];
    first.read_exact(&mut stored).map_err(told)?;
    let mut connections = Vec::new();
    for _ in 0..20 {
        let mut deaf = connect()?;
        deaf.write_all("get long\r\n".repeat(200).as_bytes()).map_err(told)?;
        connections.push(deaf);
    }
    Ok(Guests::of(connections))
}

fn idle(_: &Bench, shop: &Shop) -> Result<Guests, String> {
    let port = shop.server.port_of(0).ok_or("no port")?;
    let connections: Result<Vec<_>, _> =
        (0..IDLE).map(|_| super::idle::asked(port, b"get a\r\n")).collect();
    let connections = connections.map_err(|cause| {
        format!("{IDLE} connections: {cause}; raise the limit of descriptors (ulimit -n)")
    })?;
    Ok(Guests::of(connections))
}

/// Puts most of the loud tenant's keys on flash, then stalls the drive: requests for them wait.
fn stall(bench: &Bench, shop: &Shop) -> Result<Guests, String> {
    let keys = ["--keys", "400000", "--value-bytes", "1000", "--connections", "32"];
    let fill = LoadResults::of_one_round(bench, &shop.server.targets[1], &keys)?;
    assert!(fill.sum(0, "requests") > 0.0, "a round asks something");
    shop.drive.stall()?;
    let asks = [&keys[..], &["--no-fill"]].concat();
    loud(bench, shop, &asks).map(Guests::load)
}
