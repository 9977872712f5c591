//! `cargo xtask ycsb`: the Yahoo! Cloud Serving Benchmark, in Java, against `larder serve` on flash.
//!
//! A data set that fits is loaded, then the workloads A, B, C, F and D run over it. (A cache has no scans, hence no E.)
//! YCSB itself checks every value that is read. A value derives from its key, so a value of another key, a torn or a
//! lost one is detected; an older value of the same key is not. Generator and values are YCSB's, so its speed is mostly
//! the client's.

mod java;
mod told;

use std::path::{Path, PathBuf};

use clap::Args;

use self::java::Java;
use self::told::YcsbReport;
use crate::served::{self, Server, Subject};
use crate::step::Verdict;
use crate::{port, workspace};

/// Length of a field of a value. The time in which YCSB makes a field grows with its square.
const FIELD_BYTES: u64 = 256;
/// Memory of the server. The default data set is four times as large.
const MEMORY_BYTES: u64 = 64 << 20;
/// Flash in addition to the written bytes, for the space that engines keep free.
const FLASH_SPARE_BYTES: u64 = 256 << 20;

/// Options of `ycsb`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct YcsbOptions {
    /// Number of records to load
    #[arg(long, value_name = "N", default_value_t = 8000, value_parser = clap::value_parser!(u64).range(1..))]
    records: u64,
    /// Operations of each workload
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    operations: u64,
    /// Length of a record, in KiB
    #[arg(long, value_name = "KIB", default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=15 << 10))]
    value_kib: u64,
    /// Threads of the client, each with its own connection
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    threads: u16,
    /// The command to test [default: built by cargo]
    #[arg(long, value_name = "FILE")]
    larder: Option<PathBuf>,
    /// Additional options of `larder serve`
    #[arg(last = true, value_name = "SERVE")]
    serve: Vec<String>,
}

/// A core workload, with the values of its property file in YCSB 0.17.0 (`workloads/`).
struct Workload {
    name: &'static str,
    read: f64,
    update: f64,
    insert: f64,
    read_modify_write: f64,
    /// The popularity distribution of the keys.
    distribution: &'static str,
}

/// In the order that YCSB recommends: D is last, because it changes the number of records.
const WORKLOADS: [Workload; 5] = [
    workload("A", [0.5, 0.5, 0.0, 0.0], "zipfian"),
    workload("B", [0.95, 0.05, 0.0, 0.0], "zipfian"),
    workload("C", [1.0, 0.0, 0.0, 0.0], "zipfian"),
    workload("F", [0.5, 0.0, 0.0, 0.5], "zipfian"),
    workload("D", [0.95, 0.0, 0.05, 0.0], "latest"),
];

const fn workload(
    name: &'static str,
    [read, update, insert, read_modify_write]: [f64; 4],
    distribution: &'static str,
) -> Workload {
    Workload { name, read, update, insert, read_modify_write, distribution }
}

/// A short run with default server options, as part of `all`.
pub fn usual() -> Verdict {
    run(&YcsbOptions {
        records: 8000,
        operations: 20_000,
        value_kib: 32,
        threads: 8,
        larder: None,
        serve: Vec::new(),
    })
}

/// Loads the data, runs every workload, and prints a table.
pub fn run(options: &YcsbOptions) -> Verdict {
    let dir = workspace::target().join("xtask/ycsb");
    let java = match Java::find(&dir) {
        Ok(java) => java,
        Err(why) => return Verdict::Skipped(why),
    };
    let larder = match served::program(options.larder.as_deref()) {
        Ok(larder) => larder,
        Err(verdict) => return verdict,
    };
    let data = dir.join("data");
    let cleared = if data.exists() { std::fs::remove_dir_all(&data) } else { Ok(()) };
    if let Err(cause) = cleared {
        return Verdict::Failed(format!("cannot clear {}: {cause}", data.display()));
    }
    let outcome = measured(options, &java, &Subject { larder, sockets: "io_uring" }, &data);
    let _ = std::fs::remove_dir_all(&data);
    match outcome {
        Ok(text) => Verdict::Passed(text),
        Err(why) => Verdict::Failed(why),
    }
}

fn measured(
    options: &YcsbOptions,
    java: &Java,
    subject: &Subject,
    data: &Path,
) -> Result<String, String> {
    let (memory, flash) = (MEMORY_BYTES.to_string(), options.flash_bytes().to_string());
    let data = data.to_string_lossy();
    let mut words =
        vec!["--memory", &memory, "--flash", &flash, "--data-dir", &data, "--value-max", "16M"];
    words.extend(options.serve.iter().map(String::as_str));
    let server = Server::start(subject, "memcached", &words)?;
    println!(
        "\n{} records of {} KiB, {} threads; {} MiB of memory, {} MiB of flash",
        options.records,
        options.value_kib,
        options.threads,
        MEMORY_BYTES >> 20,
        options.flash_bytes() >> 20
    );
    println!("{:8} {:>12} {:>12} {:>12}", "workload", "operations", "verified", "per second");
    let said = java.run(&options.words(&server.port, &["-load"]))?;
    let loaded = YcsbReport::read(&said)?;
    print("load", options.records, &loaded);
    loaded.is_load_of(options.records).map_err(|why| format!("load: {why}"))?;
    let mut verified = 0;
    for workload in &WORKLOADS {
        let said = java.run(&options.words_of(workload, &server.port))?;
        let told = YcsbReport::read(&said)?;
        print(workload.name, options.operations, &told);
        told.is_run_of(options.operations).map_err(|why| format!("{}: {why}", workload.name))?;
        verified += told.verified();
    }
    Ok(format!("{verified} values verified; {} hits on flash", flash_hits(&server)?))
}

fn print(name: &str, operations: u64, told: &YcsbReport) {
    println!("{name:8} {operations:>12} {:>12} {:>12.0}", told.verified(), told.throughput);
}

fn flash_hits(server: &Server) -> Result<String, String> {
    let port = server.port.parse().map_err(|_| format!("no port: {}", server.port))?;
    let stats = port::ask(port, "stats\r\n", |line| line == "END")?;
    let hits = stats.iter().find_map(|line| line.strip_prefix("STAT flash_hits "));
    hits.map(str::to_owned).ok_or_else(|| "stats has no flash_hits".to_owned())
}

impl YcsbOptions {
    /// Twice the room for everything that is written, so that overwrites do not evict loaded records.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    fn flash_bytes(&self) -> u64 {
        let writes = WORKLOADS.iter().map(|it| it.update + it.insert + it.read_modify_write);
        let written = self.records + (self.operations as f64 * writes.sum::<f64>()) as u64;
        (2 * written * (self.value_kib << 10) + FLASH_SPARE_BYTES) >> 20 << 20
    }

    fn words(&self, port: &str, more: &[&str]) -> Vec<String> {
        let properties = [
            ("workload", "site.ycsb.workloads.CoreWorkload".to_owned()),
            ("larder.port", port.to_owned()),
            ("recordcount", self.records.to_string()),
            ("operationcount", self.operations.to_string()),
            ("fieldcount", ((self.value_kib << 10) / FIELD_BYTES).to_string()),
            ("fieldlength", FIELD_BYTES.to_string()),
            ("writeallfields", "true".to_owned()),
            ("dataintegrity", "true".to_owned()),
        ];
        let mut words = vec!["-threads".to_owned(), self.threads.to_string()];
        words.extend(more.iter().map(|&word| word.to_owned()));
        words.extend(
            properties.iter().flat_map(|(name, of)| ["-p".to_owned(), format!("{name}={of}")]),
        );
        words
    }

    fn words_of(&self, workload: &Workload, port: &str) -> Vec<String> {
        let Workload { read, update, insert, read_modify_write, distribution, .. } = workload;
        let properties = [
            format!("readproportion={read}"),
            format!("updateproportion={update}"),
            format!("insertproportion={insert}"),
            format!("readmodifywriteproportion={read_modify_write}"),
            format!("requestdistribution={distribution}"),
        ];
        let mut words = self.words(port, &["-t"]);
        words.extend(properties.into_iter().flat_map(|property| ["-p".to_owned(), property]));
        words
    }
}
