//! What `larder array` can be asked.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Sets of shards: several devices that share the keys of a cache, and fail alone.
///
/// A set that nobody has open is named by its devices; one that a server has open by the server's admin address
/// (docs/admin.md). Who changes that one shows the admin token.
#[derive(Debug, Subcommand)]
#[command(after_help = "EXAMPLES:
  larder array status --device /dev/sdb /dev/sdc /dev/sdd
  larder array add --device /dev/sdb /dev/sdc /dev/sdd --new /dev/sde
  larder array retire 2 --device /dev/sdb /dev/sdc /dev/sdd
  larder array fail 1 --device /dev/sdb /dev/sdd       the third one is dead
  larder array replace 1 --device /dev/sdb /dev/sdd --new /dev/sde
  larder array status --server 127.0.0.1:9180
  larder array replace 1 --server 127.0.0.1:9180 --token-file admin.token --new /dev/sde")]
pub(crate) enum ArrayCommand {
    /// What its shards are: a table and a picture
    Status(ArrayArgs),
    /// Add a shard on a device that is blank; of a closed set, give it from the next opening on
    Add(AddArgs),
    /// Take a shard out for good
    Retire(NumberArgs),
    /// Take a shard out that has failed
    Fail(NumberArgs),
    /// Have another device, which is blank, take a shard's place; of a closed set, from the next opening on
    Replace(ReplaceArgs),
    /// Have a server keep a device, which is blank, that steps in for a shard that fails
    Spare(AddArgs),
}

/// Which set, and where the answer goes.
#[derive(Debug, Args)]
pub(crate) struct ArrayArgs {
    /// Devices or files of the set, in any order
    #[arg(long, value_name = "PATH", required_unless_present = "server", num_args = 1..)]
    pub(crate) device: Vec<PathBuf>,

    /// Admin address of the server that has the set open, such as 127.0.0.1:9180
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "device", value_parser = address)]
    pub(crate) server: Option<String>,

    /// File with the server's admin token, for changes; - is standard input
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
pub(crate) struct AddArgs {
    #[command(flatten)]
    pub(crate) array: ArrayArgs,

    /// The device that comes; a server's is named by its whole path there
    #[arg(long, value_name = "PATH")]
    pub(crate) new: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ReplaceArgs {
    /// Number of the shard
    pub(crate) number: usize,

    #[command(flatten)]
    pub(crate) array: ArrayArgs,

    /// The device that takes its place; a server's is named by its whole path there
    #[arg(long, value_name = "PATH")]
    pub(crate) new: PathBuf,
}

/// Host and port, also as the server tells them when it starts.
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
