//! The example `counts` of `larder-harness`, alone, under valgrind and under strace.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use larder_harness::step;

use super::numbers::{Count, Measured};

/// What the example exits with where the kernel refuses io_uring.
const REFUSED: i32 = 3;

/// A kind of request.
pub(super) struct Kind {
    /// Its name for the example.
    pub(super) name: &'static str,
    /// Requests that are counted.
    requests: u32,
    pub(super) counts: &'static [Count],
}

/// On the caller's thread.
const IN_DRAM: &[Count] = &[Count::Instructions, Count::Allocations, Count::AllocatedBytes];
/// On flash valgrind knows no io_uring, and how often threads wake each other is not the same in each run. Evictions
/// may return memory, which needs the page size: rustix reads it from a place where valgrind has nothing.
const ALLOCATIONS: &[Count] = &[Count::Allocations, Count::AllocatedBytes];
/// How long the tables of an index become depends on the random seed of its hash; how many are made hardly does.
const NUMBER_OF_ALLOCATIONS: &[Count] = &[Count::Allocations];
const BY_EPOLL: &[Count] =
    &[Count::Instructions, Count::SystemCalls, Count::Allocations, Count::AllocatedBytes];
/// Valgrind knows no io_uring.
const BY_IO_URING: &[Count] = &[Count::SystemCalls, Count::Allocations, Count::AllocatedBytes];

/// In the order of the page.
pub(super) const KINDS: [Kind; 10] = [
    Kind { name: "dram-hit", requests: 20_000, counts: IN_DRAM },
    Kind { name: "dram-set-new", requests: 20_000, counts: IN_DRAM },
    Kind { name: "dram-overwrite", requests: 20_000, counts: IN_DRAM },
    Kind { name: "dram-evict", requests: 60_000, counts: NUMBER_OF_ALLOCATIONS },
    Kind { name: "flash-hit", requests: 2_000, counts: ALLOCATIONS },
    Kind { name: "flash-hit-small", requests: 2_000, counts: ALLOCATIONS },
    Kind { name: "memcached-get-epoll", requests: 2_000, counts: BY_EPOLL },
    Kind { name: "memcached-get-io-uring", requests: 2_000, counts: BY_IO_URING },
    Kind { name: "nbd-write-epoll", requests: 2_000, counts: BY_EPOLL },
    Kind { name: "nbd-write-io-uring", requests: 2_000, counts: BY_IO_URING },
];

/// The built example.
pub(super) struct Program {
    pub(super) file: PathBuf,
    /// For its files on flash and for what is counted.
    pub(super) dir: PathBuf,
    /// Whether it was built as users build it. If not, allocations alone are counted.
    pub(super) is_release: bool,
}

impl Program {
    /// What cannot be counted here, with the reason.
    pub(super) fn not_counted(&self) -> Vec<String> {
        let missing = |program: &str, what: &str| {
            let why = format!("{what}: {program} is not installed");
            step::find_program(&[program]).is_none().then_some(why)
        };
        if !self.is_release {
            return vec!["instructions and system calls: this is the dev profile".to_owned()];
        }
        let missing = [missing("valgrind", "instructions"), missing("strace", "system calls")];
        missing.into_iter().flatten().collect()
    }

    /// The counts of one request of a kind that can be had here. `None`: the kernel refuses what it needs.
    pub(super) fn count(&self, kind: &Kind) -> Result<Option<Vec<Measured>>, String> {
        let Some(said) = self.output(&mut Command::new(&self.file), kind, kind.requests)? else {
            return Ok(None);
        };
        let (calls, bytes) = allocations(&said).ok_or_else(|| format!("it says {said:?}"))?;
        let mut measured = Vec::new();
        for &count in kind.counts {
            let total = match count {
                Count::Allocations => Some(calls),
                Count::AllocatedBytes => Some(bytes),
                Count::Instructions => self.instructions(kind)?,
                Count::SystemCalls => self.system_calls(kind)?,
            };
            let of_one = |total| total / f64::from(kind.requests);
            measured.extend(total.map(of_one).map(|number| Measured {
                kind: kind.name,
                count,
                number,
            }));
        }
        Ok(Some(measured))
    }

    fn instructions(&self, kind: &Kind) -> Result<Option<f64>, String> {
        let valgrind = step::find_program(&["valgrind"]).filter(|_| self.is_release);
        let out = self.dir.join("callgrind.out");
        let option = format!("--callgrind-out-file={}", out.display());
        valgrind.map_or(Ok(None), |valgrind| {
            let mut command = Command::new(valgrind);
            command.args(["--quiet", "--tool=callgrind", &option]).arg(&self.file);
            self.difference(&command, kind, &out, instructions)
        })
    }

    fn system_calls(&self, kind: &Kind) -> Result<Option<f64>, String> {
        let out = self.dir.join("strace.out");
        let strace = step::find_program(&["strace"]).filter(|_| self.is_release);
        strace.map_or(Ok(None), |strace| {
            let mut command = Command::new(strace);
            command.args(["-f", "-c", "-o"]).arg(&out).arg(&self.file);
            self.difference(&command, kind, &out, system_calls)
        })
    }

    /// What twice as many requests cost more: start and warm-up cancel out.
    fn difference(
        &self,
        command: &Command,
        kind: &Kind,
        out: &Path,
        read: fn(&str) -> Option<f64>,
    ) -> Result<Option<f64>, String> {
        let total = |requests| {
            let mut again = Command::new(command.get_program());
            again.args(command.get_args());
            self.output(&mut again, kind, requests)?.ok_or("the kernel refuses it now")?;
            let text = fs::read_to_string(out).map_err(|cause| cause.to_string())?;
            read(&text).ok_or_else(|| format!("{} says no count", out.display()))
        };
        let (once, twice) = (total(kind.requests)?, total(2 * kind.requests)?);
        Ok(Some(twice - once))
    }

    /// What the example prints. `None`: the kernel refuses what the kind needs.
    fn output(
        &self,
        command: &mut Command,
        kind: &Kind,
        requests: u32,
    ) -> Result<Option<String>, String> {
        let output = command.arg(kind.name).arg(requests.to_string()).arg(&self.dir).output();
        let output = output.map_err(|cause| cause.to_string())?;
        match output.status.code() {
            Some(0) => Ok(Some(String::from_utf8_lossy(&output.stdout).into_owned())),
            Some(REFUSED) => Ok(None),
            _ => Err(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr))),
        }
    }
}

/// Calls and bytes, from `allocations 7 bytes 512`.
fn allocations(said: &str) -> Option<(f64, f64)> {
    let words: Vec<&str> = said.split_whitespace().collect();
    match words[..] {
        ["allocations", calls, "bytes", bytes] => Some((calls.parse().ok()?, bytes.parse().ok()?)),
        _ => None,
    }
}

/// All instructions, from callgrind's file.
fn instructions(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("summary:"))?;
    line.trim().parse().ok()
}

/// All calls, from the table of `strace -c`: the fourth column of each line of a system call.
fn system_calls(text: &str) -> Option<f64> {
    let calls = |line: &str| -> Option<f64> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_call = words.len() >= 5 && *words.last()? != "total";
        is_call.then(|| words[3].parse().ok())?
    };
    let total: f64 = text.lines().filter_map(calls).sum();
    (total > 0.0).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_programs_say_is_read() {
        assert_eq!(allocations("allocations 7 bytes 512\n"), Some((7.0, 512.0)));
        assert_eq!(allocations("allocations 7"), None);
        assert_eq!(instructions("events: Ir\nsummary: 1234\n\nfl=(1)\n"), Some(1234.0));
        assert_eq!(instructions("events: Ir\n"), None);
    }

    #[test]
    fn system_calls_are_added_up() {
        let table = "\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 60.00    0.000300           3       100        10 read
 40.00    0.000200           2        50           write
------ ----------- ----------- --------- --------- ----------------
100.00    0.000500           3       150        10 total
";
        assert_eq!(system_calls(table), Some(150.0));
        assert_eq!(system_calls("strace: nothing\n"), None);
    }
}
