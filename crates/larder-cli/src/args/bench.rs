//! What `larder bench` can be asked.

use std::path::PathBuf;

use clap::Args;
use larder_bench::Target;

use super::{FormatArgs, size};

/// Load a server of memcached's protocol or Redis', and tell how it answers.
///
/// Without --rate each connection asks again when it is answered: that says how many requests a
/// server answers. With --rate requests come at times of their own (a Poisson process), whether the
/// server answers or not, and a request's time counts from when its turn had come: that says how
/// long users wait. With --p99-max the highest rate under that limit is searched.
///
/// Several targets are measured in turns, and the table says how many times the first one's each
/// number is. Where the server runs on this machine, its processor time per request stands beside.
/// Every value that comes back is checked.
///
/// A TARGET is [NAME=][SCHEME://][USER:PASSWORD@]HOST:PORT, or a path in place of host and port.
/// Schemes are memcached, meta (memcached's meta commands), binary (memcached's binary protocol),
/// redis (resp2) and resp3, each with +tls behind it for TLS; without one port 6379 is redis and all
/// others are memcached.
#[derive(Debug, Args)]
#[command(allow_negative_numbers = true)]
#[command(after_help = "EXAMPLES:
  larder bench                                         how many gets a second 127.0.0.1:11211 answers
  larder bench --rate 20000 --popularity zipf:0.9      how long they take at 20,000 a second
  larder bench --p99-max 1 redis://127.0.0.1:6379      how many a second under 1 ms
  larder bench ours=127.0.0.1:11211 theirs=10.0.0.7:11211 --rounds 5 --cores 1
  larder bench --workload meta-kv --keys 2000000 --look-aside --seconds 60
  larder bench --pipeline 16 --sets 10 --multiget 1 --json out.json

READING THE ANSWER:
  \"55012 (54000 to 56120)\" is the median of the rounds, the least and the most. Give the server
  and this program cores of their own (--cores, taskset), or each slows the other down. If this
  program's own CPU is busy all the time, it and not the server is measured: use --threads.")]
pub(crate) struct BenchArgs {
    /// Servers to load
    #[arg(value_name = "TARGET", default_value = "memcached://127.0.0.1:11211")]
    pub(crate) targets: Vec<Target>,

    /// Ask for what a built-in workload asks, with its sizes; `larder workload list` describes them
    #[arg(long, value_name = "NAME", conflicts_with = "trace")]
    pub(crate) workload: Option<String>,

    /// Ask for what a recorded trace asks, over and over
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) format: FormatArgs,

    /// Keys to ask for [default: 100000]; of a built-in workload the requests that its keys are
    /// spread over [default: 10000000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub(crate) keys: Option<u64>,

    /// How often keys are asked for: uniform, or zipf:EXPONENT
    #[arg(long, value_name = "LAW", default_value = "uniform", value_parser = popularity)]
    pub(crate) popularity: larder_bench::Popularity,

    /// Length of keys, 1 to 250
    #[arg(long, value_name = "BYTES", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=250))]
    pub(crate) key_bytes: u32,

    /// Length of values
    #[arg(long, value_name = "SIZE", default_value = "100", value_parser = value_size)]
    pub(crate) value_bytes: u32,

    /// Sets among the requests, in percent
    #[arg(long, value_name = "PCT", default_value_t = 0.0, value_parser = super::percent)]
    pub(crate) sets: f64,

    /// Keys that are asked for in one request
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) multiget: u32,

    /// Set what was asked for and not there, as a client beside a database does
    #[arg(long)]
    pub(crate) look_aside: bool,

    /// Do not store the keys first (those of built-in workloads and traces never are)
    #[arg(long)]
    pub(crate) no_fill: bool,

    /// Requests a second, over all connections [default: as fast as they are answered]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) rate: Option<f64>,

    /// Search the highest rate at which 99 % of requests take at most so many milliseconds
    #[arg(long, value_name = "MS", conflicts_with = "rate", value_parser = positive)]
    pub(crate) p99_max: Option<f64>,

    /// Rates that the search tries
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) tries: u16,

    /// Who issued the certificates of servers that speak TLS, a file in PEM [default: any certificate
    /// is taken]
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,

    /// Certificate to show to servers that speak TLS, a file in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_certificate: Option<PathBuf>,

    /// Its key
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Connections to each server
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) connections: u32,

    /// Requests that a connection has under way at most; without --rate it asks again when all of
    /// them are answered
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) pipeline: u32,

    /// Threads that ask
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: u16,

    /// Processors that these threads keep to
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub(crate) cores: Vec<usize>,

    /// How long a round counts
    #[arg(long, value_name = "S", default_value_t = 5.0, value_parser = positive)]
    pub(crate) seconds: f64,

    /// How long is asked before that
    #[arg(long, value_name = "S", default_value_t = 0.5, value_parser = seconds)]
    pub(crate) warm_up: f64,

    /// Rounds; with several targets each is measured once a round [default: 1, or 5 with several]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) rounds: Option<u16>,

    /// Seed of keys, values and arrivals
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Write the result as JSON to FILE, or to standard output for "-"
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

fn popularity(text: &str) -> Result<larder_bench::Popularity, String> {
    if text == "uniform" {
        return Ok(larder_bench::Popularity::Uniform);
    }
    let exponent = text.strip_prefix("zipf:").and_then(|exponent| exponent.parse::<f64>().ok());
    match exponent.filter(|exponent| (0.01..=10.0).contains(exponent)) {
        Some(exponent) if (exponent - 1.0).abs() > 1e-6 => {
            Ok(larder_bench::Popularity::Zipf(exponent))
        }
        Some(_) => Err("an exponent of 1 is left out: use zipf:0.99 or zipf:1.01".to_owned()),
        None => Err("use uniform, or zipf:EXPONENT with an exponent of 0.01 to 10".to_owned()),
    }
}

fn value_size(text: &str) -> Result<u32, String> {
    const MAX: u64 = 1 << 30;
    match size(text)? {
        bytes if bytes <= MAX => u32::try_from(bytes).map_err(|error| error.to_string()),
        _ => Err("must be at most 1G".to_owned()),
    }
}

fn positive(text: &str) -> Result<f64, String> {
    seconds(text).and_then(|n| if n > 0.0 { Ok(n) } else { Err("must be above 0".to_owned()) })
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if (0.0..=1e9).contains(&number) => Ok(number),
        _ => Err("use a number from 0 to 1000000000".to_owned()),
    }
}
