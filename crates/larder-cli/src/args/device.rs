//! Arguments of `larder device`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::{positive_size, size};

/// Look at NVMe drives, watch their write amplification, prepare them for placement.
///
/// DEV is a namespace as block device (/dev/nvme0n1) or as character device (/dev/ng0n1), a partition, or a link to
/// one, such as those in /dev/disk/by-id.
#[derive(Debug, Subcommand)]
#[command(after_help = "EXAMPLES:
  larder device list
  larder device info /dev/nvme0n1
  larder device stats /dev/nvme0n1 --watch --interval 10s
  larder device events /dev/nvme0n1 --range SOC=0..40G,LOC=40G..
  larder device prepare /dev/nvme0                   shows what it would do, and does nothing

docs/device.md has kernels, permissions without root, and a checklist for a new drive.")]
pub(crate) enum DeviceCommand {
    List(ListArgs),
    Info(InfoArgs),
    Stats(DeviceStatsArgs),
    Events(EventsArgs),
    Prepare(PrepareArgs),
    Trim(TrimArgs),
}

/// List all NVMe namespaces, and whether Larder could place on them.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Show what a namespace is, what placement it offers, and how Larder would use it.
#[derive(Debug, Args)]
pub(crate) struct InfoArgs {
    #[command(flatten)]
    pub(crate) on: OnArgs,
}

/// Print what a drive has written and how worn it is, or watch its write amplification.
#[derive(Debug, Args)]
pub(crate) struct DeviceStatsArgs {
    #[command(flatten)]
    pub(crate) on: OnArgs,

    /// Keep reading, and show device-level write amplification (DLWA) over time, until Ctrl-C
    #[arg(long)]
    pub(crate) watch: bool,

    /// Time between two looks at the counters, with ms, s or m; at least 100ms. Drives count in steps: below ten
    /// seconds a live DLWA may jump
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = interval)]
    pub(crate) interval: Duration,

    /// End the watch after N intervals [default: when it is interrupted]
    #[arg(long, value_name = "N", requires = "watch", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) samples: Option<u64>,
}

/// Print the FDP events in a drive's log.
#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    #[command(flatten)]
    pub(crate) on: OnArgs,

    /// Named address ranges of DEV, to tell whose data the drive moved: NAME=FROM..TO in bytes, with commas; without TO
    /// the range goes to the end
    #[arg(long = "range", value_name = "NAME=FROM..TO", value_delimiter = ',', value_parser = range)]
    pub(crate) ranges: Vec<NamedRange>,

    /// Number of latest events to print from each kind of log
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) last: usize,
}

/// Enable placement (NVMe FDP) and create a namespace with a handle for each stream.
///
/// Prints the steps and does nothing. With --yes it carries them out. FDP can only be enabled while no namespace
/// exists: if one has to be deleted, with all its data, --destroy-data is needed too.
#[derive(Debug, Args)]
pub(crate) struct PrepareArgs {
    /// Controller (/dev/nvme0), or a namespace of it
    #[arg(value_name = "DEV")]
    pub(crate) device: PathBuf,

    /// Endurance group
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) endurance_group: u16,

    /// Index of the FDP configuration [default: the first valid one with one reclaim group]
    #[arg(long, value_name = "N")]
    pub(crate) configuration: Option<u8>,

    /// Placement handles of the namespace [default: all]
    #[arg(long, value_name = "N")]
    pub(crate) handles: Option<u16>,

    /// Size of the namespace [default: all free capacity]
    #[arg(long, value_name = "SIZE", value_parser = positive_size)]
    pub(crate) size: Option<u64>,

    #[command(flatten)]
    pub(crate) consent: ConsentArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Discard everything on a drive, so that a new cache starts on a clean one.
///
/// All data in DEV are lost. A device that is mounted or in use is refused.
#[derive(Debug, Args)]
pub(crate) struct TrimArgs {
    #[command(flatten)]
    pub(crate) on: OnArgs,

    #[command(flatten)]
    pub(crate) consent: ConsentArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ConsentArgs {
    /// Carry out the steps, instead of only printing them
    #[arg(long)]
    pub(crate) yes: bool,

    /// Accept the loss of the data
    #[arg(long, requires = "yes")]
    pub(crate) destroy_data: bool,
}

#[derive(Debug, Args)]
pub(crate) struct OnArgs {
    /// Namespace or partition
    #[arg(value_name = "DEV")]
    pub(crate) device: PathBuf,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// Write the result as JSON to FILE, or to standard output for "-"
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// Bytes from `start` to `end`, or to the end of the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedRange {
    pub(crate) name: String,
    pub(crate) start: u64,
    pub(crate) end: Option<u64>,
}

fn range(text: &str) -> Result<NamedRange, String> {
    const FORM: &str = "use NAME=FROM..TO, such as SOC=0..40G, or LOC=40G.. up to the end";
    let (name, bounds) = text.split_once('=').ok_or(FORM)?;
    let (start, end) = bounds.split_once("..").ok_or(FORM)?;
    if name.is_empty() || start.is_empty() {
        return Err(FORM.to_owned());
    }
    let start = size(start)?;
    let end = if end.is_empty() { None } else { Some(size(end)?) };
    match end {
        Some(end) if end <= start => Err(format!("ends at {end}, must be above {start}")),
        _ => Ok(NamedRange { name: name.to_owned(), start, end }),
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    const FORM: &str = "use a number with ms, s or m, such as 2s";
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let number: u64 = text[..text.len() - unit.len()].parse().map_err(|_| FORM.to_owned())?;
    let milliseconds = match unit {
        "ms" => Some(number),
        "s" => number.checked_mul(1000),
        "m" => number.checked_mul(60_000),
        _ => return Err(FORM.to_owned()),
    };
    match milliseconds {
        Some(milliseconds @ 100..=86_400_000) => Ok(Duration::from_millis(milliseconds)),
        _ => Err("must be 100ms to 1440m".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_a_name_and_bounds() {
        let named = |name: &str, start, end| NamedRange { name: name.to_owned(), start, end };
        assert_eq!(range("SOC=0..1G"), Ok(named("SOC", 0, Some(1 << 30))));
        assert_eq!(range("LOC=1G.."), Ok(named("LOC", 1 << 30, None)));
        for bad in ["", "SOC", "SOC=", "SOC=5", "=0..1", "SOC=..5", "SOC=5..5", "SOC=x..9"] {
            assert!(range(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn intervals_have_a_unit() {
        assert_eq!(interval("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(interval("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(interval("5m"), Ok(Duration::from_secs(300)));
        for bad in
            ["", "2", "s", "2h", "-1s", "99ms", "1441m", "99999999999999999999s", "2.5s", "é"]
        {
            assert!(interval(bad).is_err(), "{bad}");
        }
    }
}
