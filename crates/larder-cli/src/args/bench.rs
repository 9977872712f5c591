//! Arguments of `larder bench`.

use std::path::PathBuf;

use clap::Args;
use larder_bench::Target;

use super::{FormatArgs, size};

/// Load a memcached or Redis server, and measure how it answers.
///
/// Without --rate each connection sends its next request when the last one is answered: this measures how many requests
/// a server can answer. With --rate requests come at random times of their own (a Poisson process), whether the server
/// answers or not, and a request's time counts from when its turn had come: this measures how long users wait. With
/// --p99-max it searches for the highest rate under that limit.
///
/// Several targets are measured in turns, and the table shows each number relative to the first target. If the server
/// runs on this machine, its CPU time per request is shown too. Every value that comes back is checked.
///
/// A TARGET is [NAME=][SCHEME://][USER:PASSWORD@]HOST:PORT, or a path in place of host and port. Schemes are memcached,
/// meta (memcached's meta commands), binary (memcached's binary protocol), redis (resp2) and resp3; append +tls for
/// TLS. Without a scheme, port 6379 means redis and any other port memcached.
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

    /// Request the keys of a built-in workload, with its sizes; `larder workload list` describes them
    #[arg(long, value_name = "NAME", conflicts_with = "trace")]
    pub(crate) workload: Option<String>,

    /// Request what a recorded trace requests, over and over
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) format: FormatArgs,

    /// Number of keys [default: 100000]; for a built-in workload the number of requests that its keys are spread over
    /// [default: 10000000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub(crate) keys: Option<u64>,

    /// Popularity of keys: uniform, or zipf:EXPONENT
    #[arg(long, value_name = "LAW", default_value = "uniform", value_parser = popularity)]
    pub(crate) popularity: larder_bench::Popularity,

    /// Length of keys in bytes, 1 to 250
    #[arg(long, value_name = "BYTES", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=250))]
    pub(crate) key_bytes: u32,

    /// Length of values
    #[arg(long, value_name = "SIZE", default_value = "100", value_parser = value_size)]
    pub(crate) value_bytes: u32,

    /// Share of sets among the requests, in percent
    #[arg(long, value_name = "PCT", default_value_t = 0.0, value_parser = super::numbers::percent)]
    pub(crate) sets: f64,

    /// Keys in one request
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) multiget: u32,

    /// After a miss, set the key, as a client in front of a database does
    #[arg(long)]
    pub(crate) look_aside: bool,

    /// With --look-aside: milliseconds that a backend takes to answer a miss, before the key is set; the latency of the
    /// request includes them
    #[arg(long, value_name = "MS", requires = "look_aside", value_parser = positive)]
    pub(crate) backend_ms: Option<f64>,

    /// Keys that are stored a second before the measurement [default: as fast as they are answered]
    #[arg(long, value_name = "N", conflicts_with = "no_fill", value_parser = positive)]
    pub(crate) fill_rate: Option<f64>,

    /// Do not store the keys first (those of built-in workloads and traces never are)
    #[arg(long)]
    pub(crate) no_fill: bool,

    /// Requests a second, over all connections [default: as fast as they are answered]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) rate: Option<f64>,

    /// Search for the highest rate at which 99 % of requests take at most MS milliseconds
    #[arg(long, value_name = "MS", conflicts_with = "rate", value_parser = positive)]
    pub(crate) p99_max: Option<f64>,

    /// Number of rates that the search tries
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) tries: u16,

    /// CA certificates for servers that speak TLS, a file in PEM [default: accept any certificate]
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,

    /// Client certificate for servers that speak TLS, a file in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_certificate: Option<PathBuf>,

    /// Key of the client certificate, a file in PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Connections to each server
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) connections: u32,

    /// Most requests in flight on a connection; without --rate the next ones are sent when all of them are answered
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) pipeline: u32,

    /// Threads that send requests
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: u16,

    /// CPU cores to which these threads are pinned
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub(crate) cores: Vec<usize>,

    /// Measured time of a round, in seconds
    #[arg(long, value_name = "S", default_value_t = 5.0, value_parser = positive)]
    pub(crate) seconds: f64,

    /// Warm-up time before each round, in seconds
    #[arg(long, value_name = "S", default_value_t = 0.5, value_parser = seconds)]
    pub(crate) warm_up: f64,

    /// Rounds; each measures every target once [default: 1, or 5 with several targets]
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
