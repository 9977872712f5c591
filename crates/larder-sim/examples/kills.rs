//! Kills a cache again and again: the program behind `cargo xtask kills`. It also runs as its own victims.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use clap::{Parser, value_parser};
use larder_sim::kills::{self, Ending, InjectedBug, Options, Progress, Report, SETTINGS};
use serde::de::DeserializeOwned;

const LONG: &str = "\
What is judged. The threads of a victim own their keys and write down what they begin and what they
are answered, before and after each call, in files that a kill does not touch. A get, by the victim
or after its end, must find nothing, or the newest acknowledged value, or one whose operation was
under way at the kill. Anything else is a wrong answer: stale (an older value), deleted (it came
back), torn, foreign (of another key), expired, unknown (never stored). The first round with one
ends the run with exit status 1, its history, and the command that repeats it.

What is measured. \"found again\": of objects that a get in the victim was answered from flash for,
in its last quarter of a second, unchanged since: how many the opening after the kill still has.
The rest had been evicted meanwhile or was lost. Times are those of the opening after the kill.

A seed repeats the operations and the planned moments. What the threads and the drive make of a
millisecond differs from run to run: repeat a failure more than once.";

/// Kills a cache with SIGKILL in the middle of its work, again and again on the same file, and judges every answer
/// afterwards.
#[derive(Debug, Parser)]
#[command(name = "kills", bin_name = "cargo xtask kills", max_term_width = 100, after_help = explanation())]
struct Arguments {
    /// Number of victims, about 2 seconds each
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    times: u32,
    /// Seed of the operations and the planned times
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Size of the cache's file, at least 16MiB
    #[arg(long, value_name = "BYTES", default_value = "256MiB", value_parser = size)]
    size: u64,
    /// Number of files that share the size, at least 16MiB each: if there are several, each is a shard of a set
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..=16))]
    files: u32,
    /// Budget of its DRAM tier
    #[arg(long, value_name = "BYTES", default_value = "8MiB", value_parser = size)]
    dram: u64,
    /// Threads of a victim
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = value_parser!(u32).range(1..=255))]
    threads: u32,
    /// Number of keys [default: newest values together as large as the file]
    #[arg(long, value_name = "N")]
    keys: Option<u32>,
    /// Maximum time under load; the kill comes at any time in it
    #[arg(long, value_name = "MS", default_value_t = 1500, value_parser = value_parser!(u64).range(1..=10_000))]
    load_ms: u64,
    /// The same ending for all victims: opening, running, closing (killed in that phase), or closed (not killed)
    /// [default: drawn, 15, 65, 15 and 5 percent]
    #[arg(long, value_name = "NAME", value_parser = named::<Ending>)]
    ending: Option<Ending>,
    /// A setting of the cache; may be repeated; names below
    #[arg(long = "set", value_name = "NAME=VALUE")]
    settings: Vec<String>,
    /// A defect, which must be noticed: omitted_set, forged_set, forged_delete, torn, foreign, immortal or old_file
    /// (this one with --ending closed)
    #[arg(
        long,
        value_name = "NAME",
        default_value = "none",
        hide_default_value = true,
        value_parser = named::<InjectedBug>
    )]
    bug: InjectedBug,
    /// Directory of file and journals, on a disk. They are overwritten; removed at the end, and kept if an answer was
    /// wrong. With `cargo xtask kills` it is the build directory
    #[arg(long, default_value = "kills")]
    dir: PathBuf,
    /// File for every round and the totals
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn main() -> ExitCode {
    if let Some(served) = kills::serve() {
        return match served {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                eprintln!("victim: {why}");
                ExitCode::from(3)
            }
        };
    }
    let arguments = Arguments::parse();
    let options = arguments.options();
    if let Err(complaint) = options.check() {
        eprintln!("kills: {complaint}\n--help says more");
        return ExitCode::from(2);
    }
    run(&options, arguments.json.as_deref())
}

fn run(options: &Options, json: Option<&Path>) -> ExitCode {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(cause) => {
            eprintln!("kills: cannot find this program, which is the victim too: {cause}");
            return ExitCode::FAILURE;
        }
    };
    let begin = Instant::now();
    let victim = || Command::new(&program);
    let mut progress = |progress: Progress<'_>| show(progress, options.times, begin);
    let report = match kills::run(options, &victim, &mut progress) {
        Ok(report) => report,
        Err(larder_sim::Error::Usage(why)) => {
            eprintln!("kills: {why}");
            return ExitCode::from(2);
        }
        Err(error) => {
            eprintln!("kills: {error}");
            return ExitCode::FAILURE;
        }
    };
    clear_progress();
    report.machine.iter().for_each(|line| println!("{line}"));
    print!("\n{}", report.table());
    println!("{:14}  {:.1}", "seconds", begin.elapsed().as_secs_f64());
    let told = tell(&report, options);
    if let Some(path) = json
        && let Err(cause) = std::fs::write(path, report.page())
    {
        eprintln!("kills: cannot write {}: {cause}", path.display());
        return ExitCode::FAILURE;
    }
    told
}

/// Prints the errors, and the command that repeats the run.
fn tell(report: &Report, options: &Options) -> ExitCode {
    let Some(round) = report.failed_round() else { return ExitCode::SUCCESS };
    println!();
    for wrong in &report.wrong {
        let kills::Wrong { round, kind, found_by, key, text } = wrong;
        println!("round {round}: key {key}, found by the {found_by}: {kind:?}; {text}");
    }
    for (kind, count) in report.wrong_by_kind() {
        println!("wrong answers, {kind:?}: {count}");
    }
    if let Some((round, why)) = &report.failed {
        println!("round {round}: {why}");
    }
    println!("file and journals: {}", report.options.dir.display());
    println!("again: cargo xtask kills --times {round}{}", same_options(options));
    ExitCode::FAILURE
}

/// The options that differ from the defaults, as command line arguments.
fn same_options(options: &Options) -> String {
    let usual = Options::default();
    let mut words = format!(" --seed {}", options.seed);
    let numbers = [
        ("size", options.size_bytes, usual.size_bytes),
        ("dram", options.dram_bytes, usual.dram_bytes),
        ("files", u64::from(options.files), u64::from(usual.files)),
        ("threads", u64::from(options.threads), u64::from(usual.threads)),
        ("load-ms", options.load_ms, usual.load_ms),
    ];
    for (name, value, _) in numbers.into_iter().filter(|(_, value, usual)| value != usual) {
        words.push_str(&format!(" --{name} {value}"));
    }
    if let Some(keys) = options.keys {
        words.push_str(&format!(" --keys {keys}"));
    }
    if let Some(ending) = options.ending {
        words.push_str(&format!(" --ending {}", format!("{ending:?}").to_lowercase()));
    }
    if let Ok(serde_json::Value::String(bug)) = serde_json::to_value(options.bug)
        && options.bug != InjectedBug::None
    {
        words.push_str(&format!(" --bug {bug}"));
    }
    options.settings.iter().for_each(|setting| words.push_str(&format!(" --set {setting}")));
    words
}

impl Arguments {
    fn options(&self) -> Options {
        Options {
            times: self.times,
            seed: self.seed,
            dir: self.dir.clone(),
            size_bytes: self.size,
            files: self.files,
            dram_bytes: self.dram,
            threads: self.threads,
            keys: self.keys,
            load_ms: self.load_ms,
            settings: self.settings.clone(),
            ending: self.ending,
            bug: self.bug,
        }
    }
}

fn explanation() -> String {
    let settings = SETTINGS.iter().map(|(name, takes)| format!("  {name:22} {takes}\n"));
    format!("Settings of the cache:\n{}\n{LONG}", settings.collect::<String>())
}

fn size(text: &str) -> Result<u64, String> {
    let parser = parse_size::Config::new().with_binary();
    parser.parse_size(text).map_err(|why| format!("{why}: use bytes, such as 64M"))
}

/// Parses a value by its serde name.
fn named<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(text.into()).map_err(|why| why.to_string())
}

fn show(progress: Progress<'_>, times: u32, begin: Instant) {
    const WIDTH: usize = 30;
    let mut err = std::io::stderr();
    if !err.is_terminal() {
        return;
    }
    let Progress { done, report } = progress;
    let filled = WIDTH * done as usize / times.max(1) as usize;
    let (bar, rest) = ("█".repeat(filled), "░".repeat(WIDTH - filled));
    let wrong: u64 = report.wrong_by_kind().values().sum();
    let left = begin.elapsed().mul_f64(f64::from(times - done) / f64::from(done.max(1)));
    // Ignore errors: this only affects the display.
    write!(err, "\r{bar}{rest} {done}/{times} kills, {wrong} wrong, {} s left  ", left.as_secs())
        .and_then(|()| err.flush())
        .unwrap_or(());
}

fn clear_progress() {
    if std::io::stderr().is_terminal() {
        eprint!("\r{:78}\r", "");
    }
}
