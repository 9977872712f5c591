//! The command line. The options of a command are defined next to the command.

use std::ffi::OsString;

use clap::{Args, Parser, Subcommand};
use larder_harness::{conformance, frameworks, fs, guest, monitoring, nbd, python, servers, ycsb};

use crate::{bench_gate, c_library, dist, fuzz, mutants, packages, soak, tidy};

/// House rules and long checks of Larder.
#[derive(Debug, Parser)]
#[command(name = "xtask", bin_name = "cargo xtask", max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check the house rules (also a test of this crate)
    Tidy(tidy::TidyOptions),
    /// Check the spelling of code and documents (typos, typos.toml)
    Spelling,
    /// Run all checks and print the result of each: formatting, clippy, tests, documentation, and most of the commands
    /// below
    All,
    /// Build everything with the oldest Rust version that Cargo.toml promises
    Msrv,
    /// Check that the libraries build without warnings for other processors and systems
    Targets,
    /// Package every crate, and build it from the package
    Package,
    /// Compare the interfaces of the libraries with those of the last release (cargo-semver-checks)
    Semver(packages::SemverOptions),
    /// Build the documents as a book of web pages, check its links, and whether pages fit into the window of a phone
    /// (mdbook, chromium)
    Site,
    /// Compare larder.h with the code, and run programs in C and a RocksDB above it (cbindgen, cc, valgrind)
    C(c_library::COptions),
    /// Build what users install, offline and reproducibly: static binaries, a package for Debian, an image for
    /// containers, SBOM and checksums
    Dist(dist::DistOptions),
    /// Check licences, known vulnerabilities and sources of dependencies (cargo-deny, deny.toml)
    Deny,
    /// Run every fuzz target for a while; needs nightly Rust and cargo-fuzz
    Fuzz(fuzz::FuzzOptions),
    /// Test code that threads share, in thousands of interleavings of its steps (shuttle)
    Interleave,
    /// Test the DRAM tier under AddressSanitizer, which knows its segments; needs nightly Rust
    Sanitize,
    /// Simulate the cache, seed after seed; or run it on real threads and check its history
    Soak(soak::SoakOptions),
    /// Kill processes with the cache at full load on one file, then check every answer; see --help
    #[command(disable_help_flag = true)]
    Kills(PassedOn),
    /// Kill `larder serve` under load on one file while its clients check every answer; see --help
    #[command(disable_help_flag = true)]
    ServedKills(PassedOn),
    /// Kill `larder serve` while clients run scripts and transactions on the same keys; see --help
    #[command(disable_help_flag = true)]
    Atomicity(PassedOn),
    /// Stop or kill `larder block start` under NBD load repeatedly, and check every sector; see --help
    #[command(disable_help_flag = true)]
    BlockSoak(PassedOn),
    /// Run experiments of the lab with broken mechanisms, and see whether each verdict changes
    Judges,
    /// Make small changes to the cache, and see whether a test notices each; needs cargo-mutants
    Mutants(mutants::MutantsOptions),
    /// Run the tests of memcached, Valkey and their clients against `larder serve`
    Conformance(conformance::ConformanceOptions),
    /// Try caches, locks and limits of frameworks in six languages against `larder serve`, Valkey and memcached
    Frameworks(frameworks::FrameworksOptions),
    /// Test the Python package, with the cache tests of Django and Flask-Caching; measure it next to other caches
    Python(python::PythonOptions),
    /// Test the admin page of `larder serve` in a browser, with a server under load; needs chromium
    Page,
    /// Check the Helm chart, and what it makes, by the schemas of Kubernetes (helm, kubernetes-validate)
    Chart,
    /// Let Prometheus' tool read the metrics of a running server, and test when each alert fires (promtool)
    Monitoring(monitoring::MonitoringOptions),
    /// Count instructions, system calls and allocations of a few requests, and compare with docs/bench-gate.md; needs
    /// valgrind and strace
    BenchGate(bench_gate::BenchGateOptions),
    /// List the source files that a hit in DRAM and one on flash pass through; needs valgrind
    Hits,
    /// Mount a file system on a virtual SSD and test it with fsx, pjdfstest, RocksDB's tools, fio, git and others;
    /// needs root
    Fs(fs::FsOptions),
    /// Test `larder block export` with nbdinfo, nbdcopy, nbdsh, qemu-io, qemu-img and fio
    Nbd(nbd::NbdOptions),
    /// Boot Linux in an emulator with an NVMe FDP drive, and run our programs and nvme-cli in it
    Guest(guest::GuestOptions),
    /// Compare `larder serve` with memcached and Valkey, under the same load in one run
    Servers(servers::ServersOptions),
    /// Run YCSB, a load generator in Java, against `larder serve` on flash, with its own check of every value
    Ycsb(ycsb::YcsbOptions),
    /// Compare speed and hit ratio with foyer, quick_cache and moka; see --help
    #[command(disable_help_flag = true)]
    Peers(PassedOn),
}

/// Arguments for another program, which documents them itself.
#[derive(Debug, Args)]
pub(crate) struct PassedOn {
    /// Options of the program
    #[arg(value_name = "OPTIONS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<OsString>,
}

/// Parses the options of a command, for tests.
#[cfg(test)]
pub(crate) fn read(line: &str) -> Result<Command, String> {
    let words = std::iter::once("xtask").chain(line.split_whitespace());
    Cli::try_parse_from(words).map(|cli| cli.command).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_is_explained() {
        for command in Cli::command().get_subcommands() {
            let explained =
                command.get_about().is_some_and(|about| about.ansi().to_string().len() > 20);
            assert!(explained, "{}", command.get_name());
        }
    }

    #[test]
    fn words_for_other_programs_are_left_as_they_are() {
        for line in ["kills --times 3 --help", "peers growth --quick --dir=x -h"] {
            let Ok(Command::Kills(passed) | Command::Peers(passed)) = read(line) else {
                panic!("{line}");
            };
            let given: Vec<&str> = line.split_whitespace().skip(1).collect();
            assert_eq!(passed.words, given);
        }
    }

    #[test]
    fn a_word_that_means_nothing_is_named() {
        for (line, says) in [
            ("tidyy", "tidy"),
            ("msrv --now", "'--now'"),
            ("fuzz --seconds 0", "0 is not in 1.."),
            ("soak --seeds x", "invalid digit"),
        ] {
            let message = read(line).unwrap_err();
            assert!(message.contains(says), "{line}: {message}");
        }
    }
}
