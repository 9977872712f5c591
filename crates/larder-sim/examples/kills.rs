//! Kills a cache again and again: what `cargo xtask kills` starts. Its victims are this program too.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Instant;

use larder_sim::kills::{self, Ending, Lie, Options, Progress, Report, SETTINGS};

const HELP: &str = "\
Kills a cache with SIGKILL in the middle of its work, again and again on the same file, and judges
every answer afterwards.

usage: cargo xtask kills --times N [OPTIONS]

  --times N        victims, about 2 seconds each (needed)
  --seed S         of the operations and of the planned moments (default 0)
  --size BYTES     of the cache's file, such as 256MiB (default), at least 16MiB
  --dram BYTES     budget of its DRAM tier (default 8MiB)
  --threads N      threads of a victim, 1 to 255 (default 8)
  --keys N         size of the key space (default: newest values as large as the file together)
  --load-ms N      the longest time under load, 1 to 10000 (default 1500); the kill comes anywhere in it
  --ending NAME    the same for all victims: opening, running, closing (killed in that), or closed (not
                   killed). Default: drawn, 15, 65, 15 and 5 of a hundred
  --set NAME=VALUE a setting of the cache, as often as needed; names below
  --lie NAME       a defect, which must be found out: omitted_set, forged_set, forged_delete, torn, foreign,
                   immortal or old_file (this one with --ending closed)
  --dir DIR        where file and journals lie, on a disk (default: the build directory). They are
                   overwritten; removed at the end, and left if an answer was wrong
  --json FILE      every round and the sums
  --help           this text

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
millisecond differs from run to run: repeat a failure more than once.
";

/// What was asked for on the command line.
struct Arguments {
    options: Options,
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
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        print!("{HELP}\nsettings of the cache:\n");
        SETTINGS.iter().for_each(|(name, takes)| println!("  {name:22} {takes}"));
        return ExitCode::SUCCESS;
    }
    match Arguments::read(words) {
        Ok(arguments) => run(&arguments),
        Err(complaint) => {
            eprintln!("kills: {complaint}\n--help says more");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> ExitCode {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(cause) => {
            eprintln!("kills: cannot find this program, which is the victim too: {cause}");
            return ExitCode::FAILURE;
        }
    };
    let begin = Instant::now();
    let victim = || Command::new(&program);
    let mut progress = |progress: Progress<'_>| show(progress, arguments.options.times, begin);
    let report = match kills::run(&arguments.options, &victim, &mut progress) {
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
    let told = tell(&report, arguments);
    if let Some(path) = &arguments.json
        && let Err(cause) = std::fs::write(path, report.page())
    {
        eprintln!("kills: cannot write {}: {cause}", path.display());
        return ExitCode::FAILURE;
    }
    told
}

/// Says what went wrong, and how to see it again.
fn tell(report: &Report, arguments: &Arguments) -> ExitCode {
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
    println!("again: cargo xtask kills --times {round}{}", same_options(&arguments.options));
    ExitCode::FAILURE
}

/// The options that differ from the defaults, as words of the command line.
fn same_options(options: &Options) -> String {
    let usual = Options::default();
    let mut words = format!(" --seed {}", options.seed);
    let numbers = [
        ("size", options.size_bytes, usual.size_bytes),
        ("dram", options.dram_bytes, usual.dram_bytes),
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
    if let Ok(serde_json::Value::String(lie)) = serde_json::to_value(options.lie)
        && options.lie != Lie::None
    {
        words.push_str(&format!(" --lie {lie}"));
    }
    options.settings.iter().for_each(|setting| words.push_str(&format!(" --set {setting}")));
    words
}

impl Arguments {
    fn read(words: Vec<String>) -> Result<Self, String> {
        let mut options = Options { times: 0, dir: "kills".into(), ..Options::default() };
        let mut json = None;
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let value = words.next().ok_or_else(|| format!("{word} needs a value, or is none"))?;
            let number = || number(&word, &value);
            let small =
                || u32::try_from(number()?).map_err(|_| format!("{word} {value}: too many"));
            let bytes = || parse_size::parse_size(&value).map_err(|why| format!("{word}: {why}"));
            match word.as_str() {
                "--times" => options.times = small()?,
                "--seed" => options.seed = number()?,
                "--size" => options.size_bytes = bytes()?,
                "--dram" => options.dram_bytes = bytes()?,
                "--threads" => options.threads = small()?,
                "--keys" => options.keys = Some(small()?),
                "--load-ms" => options.load_ms = number()?,
                "--ending" => options.ending = Some(ending(&value)?),
                "--lie" => options.lie = lie(&value)?,
                "--set" => options.settings.push(value),
                "--dir" => options.dir = value.into(),
                "--json" => json = Some(value.into()),
                _ => return Err(format!("cannot understand: {word}")),
            }
        }
        if options.times == 0 {
            return Err("--times N is needed, at least 1".to_owned());
        }
        options.check()?;
        Ok(Self { options, json })
    }
}

fn number(word: &str, value: &str) -> Result<u64, String> {
    value.parse().map_err(|_| format!("{word} {value}: a whole number is needed"))
}

fn ending(value: &str) -> Result<Ending, String> {
    Ok(match value {
        "opening" => Ending::Opening,
        "running" => Ending::Running,
        "closing" => Ending::Closing,
        "closed" => Ending::Closed,
        _ => {
            return Err(format!("--ending {value}: opening, running, closing or closed is needed"));
        }
    })
}

fn lie(value: &str) -> Result<Lie, String> {
    let named = serde_json::from_value(value.into());
    named.map_err(|why| format!("--lie {value}: {why}"))
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
    // Only the look of the terminal depends on it.
    write!(err, "\r{bar}{rest} {done}/{times} kills, {wrong} wrong, {} s left  ", left.as_secs())
        .and_then(|()| err.flush())
        .unwrap_or(());
}

fn clear_progress() {
    if std::io::stderr().is_terminal() {
        eprint!("\r{:78}\r", "");
    }
}
