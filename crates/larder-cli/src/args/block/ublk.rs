//! Kernel disks (ublk).

use std::fmt;
use std::str::FromStr;

use clap::Args;
use larder_export::ublk::UblkId;

use super::output::BlockOutputArgs;

/// The number of a disk, or `auto`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct UblkArg(pub(crate) UblkId);

impl FromStr for UblkArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self(UblkId::Auto)),
            _ => id(text).map(|id| Self(UblkId::Number(id))),
        }
    }
}

impl fmt::Display for UblkArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            UblkId::Auto => f.write_str("auto"),
            UblkId::Number(id) => id.fmt(f),
        }
    }
}

/// Options for a kernel disk, with or without sockets.
#[derive(Debug, Clone, Args)]
pub(crate) struct UblkArgs {
    /// Serve it as a disk of the kernel's, /dev/ublkbN (modprobe ublk_drv; needs root): N, or auto
    ///
    /// auto, which is also the meaning of --ublk without a value, takes over a disk that is left from an earlier run,
    /// or else takes the first free number. If the process is killed, the disk stays and requests wait; the same
    /// command takes it over. At a normal end the disk is removed. With several cores the second one has the number
    /// after N, and so on.
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "auto")]
    pub(crate) ublk: Option<UblkArg>,

    /// Most requests of the disk at a time, for each of its --threads [default: 128]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) ublk_depth: Option<u16>,
}

/// List the kernel disks that Larder has made, and remove disks that no process serves.
///
/// A disk whose server was killed waits for the next one: `larder block start` or `export`, with the same cache or
/// target and --ublk, takes it over. If none will come, --remove deletes it, and requests that wait for it fail.
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLES:
  larder block ublk                  the disks there are, and the processes that serve them
  larder block ublk --remove 0       /dev/ublkb0, which no process serves")]
pub(crate) struct UblkListArgs {
    /// Remove the disk /dev/ublkbN, which no process may be serving
    #[arg(long, value_name = "N", value_parser = id)]
    pub(crate) remove: Option<u32>,

    #[command(flatten)]
    pub(crate) output: BlockOutputArgs,
}

fn id(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|id| *id <= UblkId::MAX);
    number.ok_or_else(|| {
        format!("{text:?}: give auto, or the N of /dev/ublkbN, 0 to {}", UblkId::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_auto_or_a_number() {
        for text in ["auto", "0", "1048575"] {
            assert_eq!(text.parse::<UblkArg>().unwrap().to_string(), text);
        }
        for wrong in ["", "-1", "1048576", "99999999999", "disk.img", "Auto"] {
            let why = wrong.parse::<UblkArg>().unwrap_err();
            assert!(why.contains("give auto"), "{why}");
        }
    }
}
