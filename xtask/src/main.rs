//! House rules and long checks of Larder: `cargo xtask help`.
//!
//! It depends on no other crate of the workspace, so that it can check a tree that does not build.

mod all;
mod args;
mod block_soak;
mod browser;
mod conformance;
mod files;
mod fs;
mod fuzz;
mod guest;
mod hears;
mod hits;
mod interleave;
mod kills;
mod log;
mod maven;
mod mutants;
mod nbd;
mod packages;
mod page;
mod peers;
mod png;
mod port;
mod problem;
mod report_check;
mod sanitize;
mod served;
mod served_kills;
mod servers;
mod soak;
mod spelling;
mod step;
mod tidy;
mod toolchain;
mod tools;
mod workspace;
mod ycsb;

use std::process::ExitCode;

use clap::Parser;

use self::args::{Cli, Command};

fn main() -> ExitCode {
    let (name, verdict) = match Cli::parse().command {
        Command::Tidy(options) => return tidy::command(options),
        Command::All => return all::command(),
        Command::Msrv => ("msrv", toolchain::msrv()),
        Command::Targets => ("targets", toolchain::targets()),
        Command::Package => ("package", packages::package()),
        Command::Deny => ("deny", packages::deny()),
        Command::Spelling => ("spelling", spelling::check()),
        Command::Fuzz(options) => ("fuzz", fuzz::run(&options)),
        Command::Interleave => ("interleave", interleave::run()),
        Command::Sanitize => ("sanitize", sanitize::run()),
        Command::Soak(options) => ("soak", soak::run(&options)),
        Command::Kills(words) => ("kills", kills::run(&words.words)),
        Command::BlockSoak(words) => ("block-soak", block_soak::run(&words.words)),
        Command::ServedKills(words) => ("served-kills", served_kills::run(&words.words)),
        Command::Mutants(options) => ("mutants", mutants::run(&options)),
        Command::Conformance(options) => ("conformance", conformance::run(&options)),
        Command::Page => ("page", page::run()),
        Command::Hits => ("hits", hits::run()),
        Command::Fs(options) => ("fs", fs::run(&options)),
        Command::Nbd(options) => ("nbd", nbd::run(&options)),
        Command::Guest(options) => ("guest", guest::run(&options)),
        Command::Servers(options) => ("servers", servers::run(&options)),
        Command::Ycsb(options) => ("ycsb", ycsb::run(&options)),
        Command::Peers(words) => ("peers", peers::run(&words.words)),
    };
    all::report(&[(name, verdict)])
}
