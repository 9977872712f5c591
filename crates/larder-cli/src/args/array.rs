//! Arguments of `larder array`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Sets of shards: several devices that share the keys of a cache, and fail independently.
///
/// Name a set that no server has open by its devices, and a set that a server has open by the server's admin address
/// (docs/admin.md). Changing an open set needs the admin token.
#[derive(Debug, Subcommand)]
#[command(after_help = "EXAMPLES:
  larder array status --device /dev/sdb /dev/sdc /dev/sdd
  larder array add --device /dev/sdb /dev/sdc /dev/sdd --new /dev/sde
  larder array retire 2 --device /dev/sdb /dev/sdc /dev/sdd
  larder array fail 1 --device /dev/sdb /dev/sdd       the third one is dead
  larder array replace 1 --device /dev/sdb /dev/sdd --new /dev/sde
  larder array status --server 127.0.0.1:9180
  larder array move 0 2 5 --server 127.0.0.1:9180 --token-file admin.token
  larder array replace 1 --server 127.0.0.1:9180 --token-file admin.token --new /dev/sde")]
pub(crate) enum ArrayCommand {
    /// Show the shards: a table and a picture
    Status(ArrayArgs),
    /// Add a shard on a blank device; to a closed set it is added at the next opening
    Add(AddArgs),
    /// Retire a shard for good: the others take over its keys, but not its values
    Retire(NumberArgs),
    /// Take out a shard that has failed
    Fail(NumberArgs),
    /// Replace a shard's device by another, blank one; in a closed set, at the next opening
    Replace(ReplaceArgs),
    /// Give a share of a shard's keys their home at another one, in a server's set; each key moves with its next write.
    /// A server with drive_levelling does so by itself
    Move(MoveArgs),
    /// Give a server a blank device as a spare, which steps in for a shard that fails
    Spare(AddArgs),
}

/// The set, and the output.
#[derive(Debug, Args)]
pub(crate) struct ArrayArgs {
    /// Devices or files of the set, in any order
    #[arg(long, value_name = "PATH", required_unless_present = "server", num_args = 1..)]
    pub(crate) device: Vec<PathBuf>,

    /// Admin address of the server that has the set open, such as 127.0.0.1:9180
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "device", value_parser = address)]
    pub(crate) server: Option<String>,

    /// File with the server's admin token, needed for changes; - is standard input
    #[arg(long, value_name = "PATH", conflicts_with = "device")]
    pub(crate) token_file: Option<PathBuf>,

    /// Write the result as JSON to this file; - is standard output
    #[arg(long, value_name = "PATH")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct NumberArgs {
    /// Number of the shard
    pub(crate) number: usize,

    #[command(flatten)]
    pub(crate) array: ArrayArgs,
}

#[derive(Debug, Args)]
pub(crate) struct MoveArgs {
    /// Number of the shard that gives keys
    pub(crate) from: usize,

    /// Number of the shard that gets them. Keys that it has given to the other one return first
    pub(crate) to: usize,

    /// Share of the keys of the giving shard, in percent, 0.01 to 100
    #[arg(value_parser = percent_of_keys)]
    pub(crate) percent: f64,

    #[command(flatten)]
    pub(crate) array: ArrayArgs,
}

fn percent_of_keys(text: &str) -> Result<f64, String> {
    let percent: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    match (0.01..=100.0).contains(&percent) {
        true => Ok(percent),
        false => Err("must be 0.01 to 100".to_owned()),
    }
}

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    #[command(flatten)]
    pub(crate) array: ArrayArgs,

    /// New device; with --server its full path on that machine
    #[arg(long, value_name = "PATH")]
    pub(crate) new: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ReplaceArgs {
    /// Number of the shard
    pub(crate) number: usize,

    #[command(flatten)]
    pub(crate) array: ArrayArgs,

    /// Device that takes its place; with --server its full path on that machine
    #[arg(long, value_name = "PATH")]
    pub(crate) new: PathBuf,
}

/// Parses host and port, also in the form that the server prints at its start.
fn address(text: &str) -> Result<String, String> {
    if text.starts_with("https://") {
        return Err("the admin address speaks plain HTTP: leave https:// out".to_owned());
    }
    let host = text.strip_prefix("http://").unwrap_or(text).trim_end_matches('/');
    let authority = host.parse::<ureq::http::uri::Authority>();
    match authority.ok().filter(|it| it.port_u16().is_some() && !it.as_str().contains('@')) {
        Some(authority) => Ok(authority.to_string()),
        None => Err("use HOST:PORT, such as 127.0.0.1:9180".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn an_address_is_a_host_and_a_port() {
        for same in ["127.0.0.1:9180", "http://127.0.0.1:9180", "http://127.0.0.1:9180/"] {
            assert_eq!(address(same).unwrap(), "127.0.0.1:9180");
        }
        assert_eq!(address("[::1]:9180").unwrap(), "[::1]:9180");
        for wrong in ["", "localhost", "a:b", "https://a:1", "a:1/api", "u:p@a:1", "a:99999"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }
}
