//! The command line.

use std::collections::HashMap;
use std::path::PathBuf;

use crate::run::Task;
use crate::system::System;
use crate::workload::{Scale, Workload};

pub(crate) const HELP: &str = "\
Larder and its peers on the same work, in the same run.

usage: larder-peers [OPTIONS]         every system does every workload, round by round
       larder-peers one [OPTIONS]     one run in this process, for a profiler; needs --workload
                                      and --system
       larder-peers growth [OPTIONS]  one thread, values of 300 bytes, from 256 MiB to 12 GiB of
                                      memory (--quick: to 1 GiB; --dram-bytes: that one): what a
                                      set and a look-up cost, the worst operation, what is resident
       larder-peers threads [OPTIONS] getters and setters, up to 64 threads: what the ones cost the
                                      others

  --quick             the same at an eighth of the size, 3 rounds in DRAM and 1 on flash:
                      about 3 minutes
  --workload LIST     of dram, dramset, dramev, HM, HM128, HL, HS2, graph_leader (default: all)
  --system LIST       of larder (nothing set but the budget of memory), larder-soc, larder-soc-log
                      (small objects in buckets, without and with a log before them),
                      larder-loc (all in one log), foyer, foyer-lru, quick_cache, moka, harness
                      (default: those that the workload is for; harness is no cache at all, and
                      shows what the benchmark itself costs)
  --clients LIST      threads in DRAM (default 2), tasks on flash (default 2,64)
  --rounds N          how often each system does each workload (default 5)
  --dir DIR           where flash files go: a directory on a disk, up to 4.3 GB a system; they are
                      removed at the end (default: the current directory)
  --data DIR          pop.json and sizes.json of CacheLib's graph_cache_leader_fbobj; without it
                      graph_leader is skipped
  --json FILE         every run, and medians
  --csv FILE          medians and spread, under a description of the machine
  --seed N            of the operations (default 1)
  --dram-bytes N      budget of memory, instead of the workload's
  --neighbour         beside a process that streams through memory
  --scale NAME        full, quick or tiny (for tests)
  --help              this text

A run is a process of its own: peak RSS and CPU time are its own. Systems take turns within a
round. Compare rows of one workload, and trust ratios and cpu_us_per_op: a shared machine changes
its speed from minute to minute.
";

/// What was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) scale: Scale,
    /// `None`: all.
    pub(crate) workloads: Option<Vec<String>>,
    pub(crate) systems: Option<Vec<System>>,
    pub(crate) clients: Option<Vec<usize>>,
    pub(crate) rounds: Option<usize>,
    pub(crate) dir: PathBuf,
    pub(crate) data: Option<PathBuf>,
    pub(crate) json: Option<PathBuf>,
    pub(crate) csv: Option<PathBuf>,
    pub(crate) seed: u64,
    pub(crate) dram_bytes: Option<u64>,
    pub(crate) neighbour: bool,
}

const NAMES: [&str; 13] = [
    "workload",
    "system",
    "clients",
    "rounds",
    "dir",
    "data",
    "json",
    "csv",
    "seed",
    "dram-bytes",
    "scale",
    "quick",
    "neighbour",
];

impl Options {
    /// Reads the arguments.
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, String> {
        let given = pairs(arguments)?;
        let get = |name: &str| given.get(name).map(String::as_str);
        let path = |name: &str| get(name).map(PathBuf::from);
        let scale = match get("scale") {
            None if given.contains_key("quick") => Scale::Quick,
            None => Scale::Full,
            Some(name) => *one_of("scale", name, &Scale::ALL)?,
        };
        let rounds = get("rounds").map(|text| number("rounds", text)).transpose()?;
        let dram_bytes = get("dram-bytes").map(|text| number("dram-bytes", text)).transpose()?;
        Ok(Self {
            scale,
            workloads: get("workload").map(workloads).transpose()?,
            systems: get("system").map(systems).transpose()?,
            clients: get("clients").map(clients).transpose()?,
            rounds: rounds.map(|rounds| rounds as usize),
            dir: path("dir").unwrap_or_else(|| PathBuf::from(".")),
            data: path("data"),
            json: path("json"),
            csv: path("csv"),
            seed: get("seed").map_or(Ok(1), |text| number("seed", text))?,
            dram_bytes,
            neighbour: given.contains_key("neighbour"),
        })
    }

    /// The workloads that were asked for, or all.
    pub(crate) fn workloads(&self) -> Vec<Workload> {
        let names = self.workloads.clone();
        let names =
            names.unwrap_or_else(|| Workload::names().into_iter().map(str::to_owned).collect());
        names.iter().filter_map(|name| Workload::find(name, self.scale)).collect()
    }

    /// The only run that these options can mean.
    pub(crate) fn task(&self) -> Result<Task, String> {
        let (Some([workload]), Some([system])) =
            (self.workloads.as_deref(), self.systems.as_deref())
        else {
            return Err("one: needs one --workload and one --system".to_owned());
        };
        let workload = Workload::find(workload, self.scale).ok_or("workload: unknown")?;
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

/// Options with their values; `quick` and `neighbour` have none.
fn pairs(arguments: &[String]) -> Result<HashMap<String, String>, String> {
    let mut given = HashMap::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let Some(option) = argument.strip_prefix("--") else {
            return Err(format!("cannot understand: {argument}; options begin with --"));
        };
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (option, None),
        };
        if !NAMES.contains(&name) {
            return Err(format!("--{name}: unknown; known are --{}", NAMES.join(", --")));
        }
        let value = match value {
            Some(value) => value,
            None if matches!(name, "quick" | "neighbour") => String::new(),
            None => rest.next().cloned().ok_or_else(|| format!("--{name}: needs a value"))?,
        };
        given.insert(name.to_owned(), value);
    }
    Ok(given)
}

fn workloads(list: &str) -> Result<Vec<String>, String> {
    let known = |name: &str| Workload::find(name, Scale::Full).map(|w| w.name.to_owned());
    let refusal =
        |name| format!("--workload {name}: unknown; use one of {}", Workload::names().join(", "));
    list.split(',').map(|name| known(name).ok_or_else(|| refusal(name))).collect()
}

fn systems(list: &str) -> Result<Vec<System>, String> {
    list.split(',').map(|name| one_of("system", name, &System::ALL).copied()).collect()
}

fn clients(list: &str) -> Result<Vec<usize>, String> {
    list.split(',')
        .map(|text| match number("clients", text)? {
            count @ 1..=4096 => Ok(count as usize),
            count => Err(format!("--clients {count}: use 1 to 4096")),
        })
        .collect()
}

fn one_of<'a, T>(option: &str, name: &str, known: &'a [(&str, T)]) -> Result<&'a T, String> {
    let found = known.iter().find(|(known, _)| *known == name).map(|(_, value)| value);
    found.ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        format!("--{option} {name}: unknown; use one of {}", names.join(", "))
    })
}

fn number(option: &str, text: &str) -> Result<u64, String> {
    let found = text.parse().ok().filter(|number| *number > 0);
    found.ok_or_else(|| format!("--{option} {text}: use a whole number above 0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Options, String> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        Options::parse(&words)
    }

    #[test]
    fn options_are_read() {
        let options = parse("--quick --workload hm,dram --system=larder --clients 2,64").unwrap();
        assert_eq!(options.scale, Scale::Quick);
        assert_eq!(options.workloads().len(), 2);
        assert_eq!(options.systems, Some(vec![System::Larder]));
        assert_eq!(options.clients, Some(vec![2, 64]));
        assert_eq!(parse("").unwrap().workloads().len(), Workload::names().len());
        let task = parse("--workload HM --system foyer").unwrap().task().unwrap();
        assert_eq!((task.clients, task.dram_bytes), (2, 256 << 20));
        assert!(parse("--workload HM").unwrap().task().is_err());
    }

    #[test]
    fn wrong_options_are_named_with_a_remedy() {
        for (wrong, says) in [
            ("--workload x", "use one of dram"),
            ("--system x", "use one of larder"),
            ("--clients 0", "above 0"),
            ("--clients 5000", "1 to 4096"),
            ("--rounds x", "--rounds x: use a whole number"),
            ("--what 1", "known are --workload"),
            ("--dir", "needs a value"),
            ("x", "begin with --"),
        ] {
            let message = parse(wrong).unwrap_err();
            assert!(message.contains(says), "{wrong}: {message}");
        }
    }

    #[test]
    fn the_help_names_every_option() {
        for name in NAMES {
            assert!(HELP.contains(&format!("--{name}")), "{name}");
        }
    }
}
