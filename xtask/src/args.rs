//! The command line: what can be asked. What a command may be told stands beside the command.

use std::ffi::OsString;

use clap::{Args, Parser, Subcommand};

use crate::{conformance, fs, fuzz, guest, mutants, nbd, servers, soak, tidy, ycsb};

/// House rules and long checks of Larder.
#[derive(Debug, Parser)]
#[command(name = "xtask", bin_name = "cargo xtask", max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// The house rules (also a test of this crate)
    Tidy(tidy::Options),
    /// All that can be checked, and how each check ended: formatting, clippy, tests, documentation, and most of
    /// the commands below
    All,
    /// Everything builds with the oldest Rust that Cargo.toml promises
    Msrv,
    /// The libraries build without a warning for other processors and systems
    Targets,
    /// Every crate is packed, and built from what was packed
    Package,
    /// Licences, known faults and origins of dependencies (cargo-deny, deny.toml)
    Deny,
    /// Every fuzz target for a while; needs nightly Rust and cargo-fuzz
    Fuzz(fuzz::Options),
    /// What threads share, in thousands of orders of its steps (shuttle)
    Interleave,
    /// The DRAM tier under AddressSanitizer, which knows its segments; needs nightly Rust
    Sanitize,
    /// The simulation of the cache, seed after seed; or the cache on real threads, judged by its history
    Soak(soak::Options),
    /// Processes killed with the cache at full load on one file, every answer judged afterwards; --help says more
    #[command(disable_help_flag = true)]
    Kills(PassedOn),
    /// `larder serve` killed under load on one file, every answer judged by its clients; --help says more
    #[command(disable_help_flag = true)]
    ServedKills(PassedOn),
    /// `larder block start` under load by NBD, ended again and again, every sector judged; --help says more
    #[command(disable_help_flag = true)]
    BlockSoak(PassedOn),
    /// Small changes to the cache, and whether a test notices each; needs cargo-mutants
    Mutants(mutants::Options),
    /// The tests of memcached, Valkey and their clients, against `larder serve`
    Conformance(conformance::Options),
    /// The admin page of `larder serve` in a browser, with a server that has something to do; needs chromium
    Page,
    /// Which source files a hit in DRAM and one on flash pass; needs valgrind
    Hits,
    /// A file system on a virtual SSD, mounted, under fsx, pjdfstest, RocksDB's tools, fio, git and others; needs root
    Fs(fs::Options),
    /// `larder block export` under nbdinfo, nbdcopy, nbdsh, qemu-io, qemu-img and fio
    Nbd(nbd::Options),
    /// Linux under an emulator with an NVMe FDP drive; our programs and nvme-cli in it
    Guest(guest::Options),
    /// `larder serve` beside memcached and Valkey, under the same load in one run
    Servers(servers::Options),
    /// YCSB, whose load generator is in Java, against `larder serve` on flash, with its own check of every value
    Ycsb(ycsb::Options),
    /// Speed and hit ratio beside foyer, quick_cache and moka; --help says more
    #[command(disable_help_flag = true)]
    Peers(PassedOn),
}

/// Words for another program, which says itself what it takes.
#[derive(Debug, Args)]
pub(crate) struct PassedOn {
    /// Options of the program
    #[arg(value_name = "OPTIONS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<OsString>,
}

/// What the options of a command are read from, for tests of them.
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
