//! A block cache under load by NBD, ended again and again: the program behind `cargo xtask block-soak`.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    on_linux::main()
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    eprintln!("block_soak: block devices are served on Linux alone");
    ExitCode::FAILURE
}

#[cfg(target_os = "linux")]
mod on_linux {
    use std::path::PathBuf;
    use std::process::ExitCode;

    use clap::{Parser, value_parser};
    use larder_sim::block::{Ending, Options, Report, Round, run};

    const LONG: &str = "\
What is judged. Requests overlap, of one connection and of several. Each sector of 512 bytes has a history: a read
must bring what was written last when it was sent, or what was under way meanwhile, and what a read has found later
reads do not undo. After a kill everything is there that was answered; of what was cut off each sector is as before or
as after it, and then stays so. What was trimmed may be anything that was there before. Cores of a cache that ended
with nothing dirty are compared as they are, without the cache. After each start only that is dirty which was written
in a mode that leaves data dirty, and was flushed by no command that was answered since.

Files take turns as a core that comes and goes. What was answered is in the file when it was taken away, which is read
without the cache and changed now and then; when it comes again nothing is seen that was cached of it before, nor of
another file that had its number. A kill in the middle of either leaves the cores of before or those of afterwards.

A seed repeats what each connection and the administrator draw, and how rounds end. How they take turns differs from
run to run: repeat a failure more than once.";

    /// Loads `larder block start` with several connections, and judges every sector that is read.
    #[derive(Debug, Parser)]
    #[command(name = "block_soak", bin_name = "cargo xtask block-soak", max_term_width = 100, after_help = LONG)]
    struct Arguments {
        /// The program `larder`; `cargo xtask block-soak` builds it
        #[arg(long, value_name = "FILE")]
        larder: PathBuf,
        /// Requests
        #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = value_parser!(u64).range(1..))]
        ops: u64,
        /// Seed of requests, commands and endings
        #[arg(long, value_name = "S", default_value_t = 0)]
        seed: u64,
        /// log, ocf22, ocf26, wal, or dax: the log on a mapped file
        #[arg(long, value_name = "NAME", default_value = "log", value_parser = ["log", "ocf22", "ocf26", "wal", "dax"])]
        layout: String,
        /// Connections
        #[arg(long, value_name = "N", default_value_t = 4, value_parser = value_parser!(u32).range(1..=32))]
        connections: u32,
        /// Maximum requests in flight per connection
        #[arg(long, value_name = "N", default_value_t = 8, value_parser = value_parser!(u16).range(1..=64))]
        depth: u16,
        /// Permanent cores
        #[arg(long, value_name = "N", default_value_t = 2, value_parser = value_parser!(u64).range(1..=16))]
        cores: u64,
        /// Files that take turns as a core that is added and removed; 0: no such core
        #[arg(long, value_name = "N", default_value_t = 2, value_parser = value_parser!(u64).range(0..=8))]
        visitors: u64,
        /// Bytes of each core
        #[arg(long, value_name = "SIZE", default_value = "24M", value_parser = size)]
        core_size: u64,
        /// Bytes of the cache device
        #[arg(long, value_name = "SIZE", default_value = "20M", value_parser = size)]
        cache_size: u64,
        /// Maximum requests from a start to its end
        #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = value_parser!(u64).range(1..))]
        round_ops: u64,
        /// Directory of the files: removed at the end, and kept if something was wrong
        #[arg(long, default_value = "block-soak")]
        dir: PathBuf,
    }

    /// From 1 MiB to 64 GiB, in whole blocks.
    fn size(text: &str) -> Result<u64, String> {
        let parser = parse_size::Config::new().with_binary();
        let bytes = parser.parse_size(text).map_err(|error| error.to_string())?;
        let is_good = (1 << 20..=1 << 36).contains(&bytes) && bytes.is_multiple_of(4096);
        is_good
            .then_some(bytes)
            .ok_or_else(|| "1M to 64G, whole blocks of 4096, are needed".to_owned())
    }

    pub(super) fn main() -> ExitCode {
        let options = Arguments::parse().options();
        println!("seed {}, layout {}", options.seed, options.layout);
        let mut number = 0;
        let report = run(&options, &mut |round| {
            number += 1;
            show(number, round, options.ops);
        });
        tell(&report, &options)
    }

    impl Arguments {
        fn options(self) -> Options {
            Options {
                larder: self.larder,
                ops: self.ops,
                seed: self.seed,
                // Servers and commands get absolute paths.
                dir: std::path::absolute(&self.dir).unwrap_or(self.dir),
                layout: self.layout,
                connections: self.connections,
                depth: self.depth.into(),
                cores: self.cores,
                visitors: self.visitors,
                core_bytes: self.core_size,
                cache_bytes: self.cache_size,
                round_ops: self.round_ops,
            }
        }
    }

    fn show(number: u32, round: &Round, of: u64) {
        let Round { found, ops, commands, ending, cut_off } = round;
        println!(
            "{number:4}  {ops:8} of {of}; found {found}; {commands} commands; ended by {ending:?}, \
             {cut_off} cut off"
        );
    }

    fn tell(report: &Report, options: &Options) -> ExitCode {
        let Report { reads, writes, trims, zeroes, flushes, durable, met, read_bytes, .. } = report;
        let ended = |by: Ending| report.rounds.iter().filter(|it| it.ending == by).count();
        println!(
            "{} requests: {reads} reads, {writes} writes, {zeroes} write-zeroes, {trims} trims ({durable} of them with \
             FUA), {flushes} flushes; {met} met others; {} MiB read and compared",
            reads + writes + trims + zeroes + flushes,
            read_bytes >> 20
        );
        println!(
            "{} starts; ended by {} kills, {} SIGTERM, {} stops with a flush, {} detaches; \
             {} commands; {} cut off; {} wrong",
            report.rounds.len(),
            ended(Ending::Kill),
            ended(Ending::Terminate),
            ended(Ending::Flush),
            ended(Ending::Detach),
            report.rounds.iter().map(|it| it.commands).sum::<u64>(),
            report.rounds.iter().map(|it| it.cut_off).sum::<usize>(),
            report.wrong.len()
        );
        visits(report);
        if report.is_good() {
            // Ignore errors of the removal.
            let _ = std::fs::remove_dir_all(&options.dir);
            return ExitCode::SUCCESS;
        }
        for wrong in &report.wrong {
            println!(
                "core {}, sector {}: expected {}; got {}; by {}",
                wrong.core, wrong.sector, wrong.expected, wrong.got, wrong.by
            );
        }
        if let Some(why) = &report.failed {
            println!("{why}");
        }
        println!("data: {}", options.dir.display());
        println!("replay it: {}", replay(options));
        ExitCode::FAILURE
    }

    fn visits(report: &Report) {
        let Report { came, came_again, went, past, refused, halves, .. } = report;
        let [not_come, come, not_gone, gone] = halves;
        println!(
            "a core came {came} times, {came_again} of them by a number that was used before, and went {went} times, \
             with {refused} requests cut off; {past} changes of it past the cache; {} additions cut off ({come} made), \
             {} removals ({gone} made)",
            not_come + come,
            not_gone + gone
        );
    }

    fn replay(options: &Options) -> String {
        format!(
            "cargo xtask block-soak --ops {} --seed {} --layout {} --connections {} --depth {} --cores {} \
             --visitors {} --core-size {} --cache-size {} --round-ops {}",
            options.ops,
            options.seed,
            options.layout,
            options.connections,
            options.depth,
            options.cores,
            options.visitors,
            options.core_bytes,
            options.cache_bytes,
            options.round_ops
        )
    }
}
