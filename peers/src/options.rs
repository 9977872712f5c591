//! The command line.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Parser, ValueEnum, value_parser};

use crate::run::Task;
use crate::system::System;
use crate::workload::{Scale, Workload};

/// Compare Larder and its peers on the same work, in the same run.
///
/// Each run is a separate process, so peak RSS and CPU time are its own. Systems take turns within a round. Compare
/// rows of one workload, and trust ratios and cpu_us_per_op: a shared machine changes its speed from minute to minute.
#[derive(Clone, Debug, Parser)]
#[command(name = "larder-peers", bin_name = "cargo xtask peers", max_term_width = 100)]
pub(crate) struct Options {
    /// What to do
    #[arg(value_enum, default_value_t = Mode::Rounds)]
    pub(crate) mode: Mode,
    /// Use an eighth of the size, with 3 rounds in DRAM and 1 on flash: about 3 minutes
    #[arg(long, conflicts_with = "scale")]
    quick: bool,
    /// The size of all workloads; tiny is for tests
    #[arg(long, default_value = "full", value_parser = scale())]
    scale: Scale,
    /// Workloads, separated by commas [default: all]
    #[arg(long = "workload", value_name = "LIST", value_delimiter = ',', ignore_case = true, value_parser = workload())]
    pub(crate) workloads: Option<Vec<String>>,
    /// Systems, separated by commas [default: those of the workload]. larder: only the memory budget is set;
    /// larder-soc, larder-soc-log: small objects in buckets, without and with a log in front of them; larder-pages: in
    /// pages by set; larder-loc: all in one log; harness is not a cache, and shows the cost of the benchmark itself
    #[arg(long = "system", value_name = "LIST", value_delimiter = ',', value_parser = system())]
    pub(crate) systems: Option<Vec<System>>,
    /// Threads in DRAM [default: 2], tasks on flash [default: 2,64]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clients())]
    pub(crate) clients: Option<Vec<usize>>,
    /// Number of runs of each system with each workload [default: 5]
    #[arg(long, value_name = "N", value_parser = number())]
    pub(crate) rounds: Option<usize>,
    /// Directory for flash files, on a disk: up to 4.3 GB for each system; they are removed at the end
    #[arg(long, default_value = ".")]
    pub(crate) dir: PathBuf,
    /// Directory of pop.json and sizes.json of CacheLib's graph_cache_leader_fbobj; without it graph_leader is skipped
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// File for every run, and medians
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// File for medians and spread, below a description of the machine
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Seed of the operations
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u64).range(1..))]
    pub(crate) seed: u64,
    /// Memory budget, instead of the workload's
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    pub(crate) dram_bytes: Option<u64>,
    /// Run next to a process that streams through memory
    #[arg(long)]
    pub(crate) neighbour: bool,
}

/// The kind of measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Run every system with every workload, round by round
    Rounds,
    /// Make one run in this process, for a profiler; needs --workload and --system
    One,
    /// Measure one thread with values of 300 bytes, from 256 MiB to 12 GiB of memory (--quick: to 1 GiB; --dram-bytes:
    /// only that size): cost of sets and lookups, slowest operation, resident memory
    Growth,
    /// Measure how getters and setters slow each other down, with up to 64 threads
    Threads,
    #[value(hide = true)]
    GrowthOne,
    #[value(hide = true)]
    GrowthFill,
    #[value(hide = true)]
    ThreadsOne,
    #[value(hide = true)]
    ThreadsControl,
    #[value(hide = true)]
    Neighbour,
}

impl Options {
    /// The size of all workloads.
    pub(crate) fn scale(&self) -> Scale {
        if self.quick { Scale::Quick } else { self.scale }
    }

    /// The selected workloads, or all.
    pub(crate) fn workloads(&self) -> Vec<Workload> {
        let names = self.workloads.clone();
        let names =
            names.unwrap_or_else(|| Workload::names().into_iter().map(str::to_owned).collect());
        names.iter().filter_map(|name| Workload::find(name, self.scale())).collect()
    }

    /// The single run that these options select.
    pub(crate) fn task(&self) -> Result<Task, String> {
        let (Some([workload]), Some([system])) =
            (self.workloads.as_deref(), self.systems.as_deref())
        else {
            return Err("one: needs one --workload and one --system".to_owned());
        };
        let workload = Workload::find(workload, self.scale()).ok_or("workload: unknown")?;
        let clients = self.clients.as_ref().and_then(|list| list.first());
        Ok(Task {
            system: *system,
            clients: *clients.unwrap_or(&workload.clients[0]),
            dram_bytes: self.dram_bytes.unwrap_or(workload.dram_bytes),
            seed: self.seed,
            dir: self.dir.clone(),
            data: self.data.clone(),
            workload,
        })
    }
}

fn scale() -> impl TypedValueParser<Value = Scale> {
    one_of(&Scale::ALL)
}

fn system() -> impl TypedValueParser<Value = System> {
    one_of(&System::ALL)
}

/// Parses an entry of a table by its name.
fn one_of<T: Copy + Send + Sync + 'static>(
    known: &'static [(&'static str, T)],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(known.iter().map(|(name, _)| *name)).try_map(|name| {
        let found = known.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        found.ok_or("unknown")
    })
}

/// Parses the name of a workload in any case, and returns its exact spelling.
fn workload() -> impl TypedValueParser<Value = String> {
    PossibleValuesParser::new(Workload::names()).try_map(|name| {
        let found = Workload::find(&name, Scale::Full).map(|found| found.name.to_owned());
        found.ok_or("unknown")
    })
}

fn clients() -> impl TypedValueParser<Value = usize> {
    value_parser!(u64).range(1..=4096).map(|count| count as usize)
}

fn number() -> impl TypedValueParser<Value = usize> {
    value_parser!(u64).range(1..=1 << 32).map(|count| count as usize)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(text: &str) -> Result<Options, String> {
        let words = std::iter::once("peers").chain(text.split_whitespace());
        Options::try_parse_from(words).map_err(|error| error.to_string())
    }

    #[test]
    fn the_command_line_is_consistent() {
        Options::command().debug_assert();
    }

    #[test]
    fn options_are_read() {
        let options = parse("--quick --workload hm,dram --system=larder --clients 2,64").unwrap();
        assert_eq!((options.mode, options.scale()), (Mode::Rounds, Scale::Quick));
        assert_eq!(options.workloads().len(), 2);
        assert_eq!(options.systems, Some(vec![System::Larder]));
        assert_eq!(options.clients, Some(vec![2, 64]));
        assert_eq!(parse("").unwrap().workloads().len(), Workload::names().len());
        let one = parse("one --workload HM --system foyer").unwrap();
        assert_eq!(one.mode, Mode::One);
        let task = one.task().unwrap();
        assert_eq!((task.clients, task.dram_bytes), (2, 256 << 20));
        assert!(parse("one --workload HM").unwrap().task().is_err());
    }

    #[test]
    fn wrong_options_are_named_with_a_remedy() {
        for (wrong, says) in [
            ("--workload x", "[possible values: dram"),
            ("--system x", "[possible values: larder"),
            ("--clients 0", "0 is not in 1..=4096"),
            ("--clients 5000", "5000 is not in 1..=4096"),
            ("--rounds x", "invalid value 'x' for '--rounds <N>'"),
            ("--what 1", "'--what'"),
            ("--dir", "a value is required for '--dir <DIR>'"),
            ("x", "[possible values: rounds, one, growth, threads]"),
        ] {
            let message = parse(wrong).unwrap_err();
            assert!(message.contains(says), "{wrong}: {message}");
        }
    }
}
