//! Arguments for making a cache and running it.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use larder_block::cache::Mode;
use larder_block::layout::CoreId;
use larder_block::policy::pressure::BypassPolicy;
use larder_device::label::Uuid;
use tracing::level_filters::LevelFilter;

use super::choice::CoreChoiceArgs;
use super::output::BlockOutputArgs;
use super::policies::{CleaningArg, CutOffArg, PromotionArg, ReadAheadArg, RoutingArg, time};
use super::target::TargetArg;
use super::ublk::UblkArgs;
use crate::args::numbers::size;
use crate::args::tls::TlsArgs;

/// Make a device a cache in front of slower devices.
///
/// The cache device gets a label and a layout; everything on it is lost. Cores, the slower devices, are left as they
/// are. From `larder block start` on each is served through the cache under its number; whenever the cache has nothing
/// dirty, a core can be used without it. A cache device that holds something is not overwritten unless you say so.
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLES:
  larder block create fast.img --core slow.img
  larder block create block:/dev/nvme0n1p4 --core block:/dev/sda --core 7=block:/dev/sdb --mode wb
  larder block create fast.img --core slow.img --over 2f1c…      a cache that was there, by its UUID
  larder block start fast.img --unix /run/larder.sock            serves core 0 as nbd+unix:///0?socket=…")]
pub(crate) struct CacheCreateArgs {
    /// Device that becomes the cache: PATH, file:PATH, block:PATH, nvme:PATH or dax:PATH (persistent memory)
    #[arg(value_name = "CACHE")]
    pub(crate) cache: TargetArg,

    /// Device to be cached; repeat it for several. N is the core's number, by default the lowest free one
    #[arg(long = "core", value_name = "[N=]PATH", required = true)]
    pub(crate) cores: Vec<CoreArg>,

    #[command(flatten)]
    pub(crate) format: DeviceFormatArgs,

    /// Mode of the first start: wt, wb, wa, wi, wo or pt, or the full name
    #[arg(long, value_name = "MODE", default_value = "wt")]
    pub(crate) mode: Mode,

    #[command(flatten)]
    pub(crate) output: BlockOutputArgs,
}

/// How a cache device is formatted.
#[derive(Clone, Debug, Args)]
pub(crate) struct DeviceFormatArgs {
    /// Layout of the data on the cache device. Persistent memory (dax:PATH) has the log
    #[arg(long, value_enum, default_value_t = LayoutArg::Log)]
    pub(crate) layout: LayoutArg,

    /// Bytes of a cache line: 4K to 64K
    #[arg(long, value_name = "SIZE", default_value = "4K", value_parser = size32)]
    pub(crate) line: u32,

    /// Bytes of a segment of the log: 64K to 1G [default: 16M, or less on a device of less than 1G]
    #[arg(long, value_name = "SIZE", value_parser = size32)]
    pub(crate) segment: Option<u32>,

    /// Overwrite the block cache with this UUID, whatever it holds
    #[arg(long, value_name = "UUID", conflicts_with = "over_other")]
    pub(crate) over: Option<Uuid>,

    /// Overwrite what is on the device, unless it is a block cache
    #[arg(long)]
    pub(crate) over_other: bool,
}

/// Run a cache: serve its cores by NBD, or as disks (--ublk), until SIGINT or SIGTERM
///
/// The contents of the cache are found again, also after a crash. Each core is an export under its
/// number; clients that ask for no name get the first one. `larder block status`, `stats`, `flush`,
/// `mode` and others talk to the running process over its control socket, which only its owner may use.
///
/// At the end it answers the requests that have come, and marks the cache device as stopped. Dirty
/// data stay on the cache device until the next start, unless --flush-on-stop is given.
///
/// A policy is POLICY[,KEY=VALUE…]:
///   --cut-off always|full|never: threshold
///   --read-ahead off|on: threshold, window
///   --promotion always|nhit: threshold, trigger (percent)
///   --cleaning nop|alru|acp: limit (bytes a second), high, low (percent that is dirty),
///     of alru wake-up, staleness, buffers, activity, of acp wake-up, buffers (times: 20, 20s or 10ms)
///   --routing off|auto|split: core (percent of the clean hits that the core serves)
///   --bypass never|cost|full
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = "EXAMPLES:
  larder block start fast.img --unix /run/larder.sock
  larder block start fast.img --unix /run/larder.sock --mode wb --cleaning acp,limit=50M --flush-on-stop
  larder block start --config /etc/larder.toml fast.img            [[block]] has what is not said here
  larder block status --unix /run/larder.sock
  nbd-client -unix /run/larder.sock -N 0 /dev/nbd0                 core 0 as a disk of the kernel's
  larder block start fast.img --ublk --control /run/larder.control the same without NBD, as /dev/ublkb0")]
pub(crate) struct StartArgs {
    /// Cache device; optional with --config if the file names one
    #[arg(value_name = "CACHE", required_unless_present = "config")]
    pub(crate) cache: Option<TargetArg>,

    /// Where a core is, if it has moved since the cache was made
    #[arg(long = "core", value_name = "[N=]PATH")]
    pub(crate) cores: Vec<CoreArg>,

    #[command(flatten)]
    pub(crate) choice: CoreChoiceArgs,

    /// A larder.toml with [[block]]; options on the command line override it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Unix socket to listen on; an old one that no process serves is replaced
    #[arg(long, value_name = "PATH")]
    pub(crate) unix: Option<PathBuf>,

    /// Address to listen on, such as 127.0.0.1:10809; port 0 takes any free port
    #[arg(long, value_name = "ADDR")]
    pub(crate) tcp: Option<SocketAddr>,

    #[command(flatten)]
    pub(crate) ublk: UblkArgs,

    /// Control socket [default: the path of --unix with .control appended]
    #[arg(long, value_name = "PATH")]
    pub(crate) control: Option<PathBuf>,

    /// HTTP address for /metrics, such as 127.0.0.1:9181; port 0 takes any free port
    #[arg(long, value_name = "ADDR")]
    pub(crate) metrics: Option<SocketAddr>,

    /// Mode: wt, wb, wa, wi, wo or pt, or the full name [default: the last one]
    #[arg(long, value_name = "MODE")]
    pub(crate) mode: Option<Mode>,

    /// Which sequential requests bypass the cache [default: full,threshold=1M]
    #[arg(long, value_name = "POLICY")]
    pub(crate) cut_off: Option<CutOffArg>,

    /// Which streams of reads are read ahead: off, or on,threshold=64K,window=256K [default: off]
    #[arg(long, value_name = "POLICY")]
    pub(crate) read_ahead: Option<ReadAheadArg>,

    /// Which missed data are kept in the cache [default: always]
    #[arg(long, value_name = "POLICY")]
    pub(crate) promotion: Option<PromotionArg>,

    /// When dirty data go to the core in the background [default: alru]
    #[arg(long, value_name = "POLICY")]
    pub(crate) cleaning: Option<CleaningArg>,

    /// Which clean hits the core serves [default: auto if the cache is calibrated, else off]
    #[arg(long, value_name = "POLICY")]
    pub(crate) routing: Option<RoutingArg>,

    /// Which writes bypass a cache that is full of dirty data: never, cost or full [default: cost]
    #[arg(long, value_name = "POLICY")]
    pub(crate) bypass: Option<BypassPolicy>,

    /// File of IO classes, in Open CAS's CSV format
    #[arg(long, value_name = "FILE")]
    pub(crate) io_classes: Option<PathBuf>,

    /// Errors of the cache device after which it is no longer written to [default: 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) cache_errors_max: Option<u32>,

    /// Seconds in which the start loads what it has found, next to requests, if it is a million records or more
    /// [default: 60]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) load_time: Option<u32>,

    /// What to do with dirty data of a core that was written while the cache was away
    #[arg(long, value_enum)]
    pub(crate) changed_core: Option<ChangedCoreArg>,

    /// Start a damaged cache with the parts that are intact: data that only the cache had may be lost
    #[arg(long)]
    pub(crate) accept_loss: bool,

    /// Destage dirty data at the end
    #[arg(long)]
    pub(crate) flush_on_stop: bool,

    /// Threads; each connection belongs to one of them, and so does each queue of --ublk [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: Option<u16>,

    /// How threads wait for sockets: io_uring (epoll where the kernel refuses it) or epoll [default: io_uring]
    #[arg(long, value_name = "HOW", value_parser = crate::args::listening::sockets)]
    pub(crate) sockets: Option<larder_server::SocketBackend>,

    /// Most connections at a time; each may take about 64 MiB of memory [default: 64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) connections: Option<u32>,

    /// Events to log on standard error: off, error, warn, info or debug; each level includes those before it [default:
    /// info]
    #[arg(long, value_name = "LEVEL", value_parser = crate::args::listening::log_level)]
    pub(crate) log: Option<LevelFilter>,

    #[command(flatten)]
    pub(crate) tls: TlsArgs,
}

/// Measure the speed of a cache's devices, by size, direction and queue depth.
///
/// It sends random requests of 4, 64 and 512 KiB, one and 32 at a time; nothing else may use the devices during that
/// time. Cores and cached data are only read. From the result `larder block start` knows when routing begins: --store
/// keeps it on the label, and routing is auto from the next start on. A freshly formatted cache device may answer reads
/// of blocks that were never written faster than others: calibrate when the cache is warm, or with --writes before the
/// cache is made.
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLES:
  larder block calibrate fast.img --store
  larder block calibrate block:/dev/nvme0n1p4 --core block:/dev/sda --writes     before it is made a cache")]
pub(crate) struct CalibrateArgs {
    /// The cache device
    #[arg(value_name = "CACHE")]
    pub(crate) cache: TargetArg,

    /// A core, if there is no cache yet, or if it has moved since the cache was made
    #[arg(long = "core", value_name = "[N=]PATH")]
    pub(crate) cores: Vec<CoreArg>,

    /// Keep the result on the label of the cache, which must not be running
    #[arg(long)]
    pub(crate) store: bool,

    /// Measure writes too, on a cache device without data: it is overwritten
    #[arg(long, conflicts_with = "store")]
    pub(crate) writes: bool,

    /// Time for each measured point of a device, 1ms to 10s; slow requests take longer
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = time)]
    pub(crate) time: std::time::Duration,

    #[command(flatten)]
    pub(crate) output: BlockOutputArgs,
}

/// Write the data that only a cache has to its cores, and leave it clean.
///
/// Use it to get the cores without the cache, after a crash or not. No process may be running the cache. Cached data
/// stay cached; afterwards a core may be taken away or written without the cache.
#[derive(Debug, Args)]
pub(crate) struct RecoverArgs {
    #[command(flatten)]
    pub(crate) stopped: StoppedArgs,

    #[command(flatten)]
    pub(crate) output: BlockOutputArgs,
}

/// A cache that is not running, and its cores.
#[derive(Debug, Args)]
pub(crate) struct StoppedArgs {
    /// Cache device
    #[arg(value_name = "CACHE")]
    pub(crate) cache: TargetArg,

    /// Where a core is, if it has moved since the cache was made
    #[arg(long = "core", value_name = "[N=]PATH")]
    pub(crate) cores: Vec<CoreArg>,

    #[command(flatten)]
    pub(crate) choice: CoreChoiceArgs,

    /// What to do with dirty data of a core that was written while the cache was away
    #[arg(long, value_enum, default_value_t = ChangedCoreArg::Refuse)]
    pub(crate) changed_core: ChangedCoreArg,

    /// Use a damaged cache with the parts that are intact: data that only the cache had may be lost
    #[arg(long)]
    pub(crate) accept_loss: bool,
}

/// See [`larder_block::manage::LayoutOptions`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LayoutArg {
    /// Records beside their data, in the order in which they came
    Log,
    /// Lines at fixed places, as Open CAS has them, and a write-ahead log of their records
    Wal,
    /// For comparison: the layout of Open CAS 22.6
    #[value(hide = true)]
    Ocf22,
    /// For comparison: the layout of Open CAS 26.3
    #[value(hide = true)]
    Ocf26,
}

impl LayoutArg {
    /// Its name on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// See [`larder_block::manage::ChangedCore`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ChangedCoreArg {
    /// Refuse to start
    Refuse,
    /// Destage them, over what was written there, and drop clean data
    DestageAndDrop,
}

impl FromStr for ChangedCoreArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        <Self as ValueEnum>::from_str(text, false)
            .map_err(|_| format!("{text:?}: give refuse or destage-and-drop"))
    }
}

/// A core, with its number if that is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CoreArg {
    pub(crate) id: Option<CoreId>,
    pub(crate) target: TargetArg,
}

impl FromStr for CoreArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbered = text.split_once('=').filter(|(number, _)| {
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        });
        let Some((number, path)) = numbered else {
            return Ok(Self { id: None, target: text.parse()? });
        };
        let id = number.parse().ok().and_then(CoreId::new);
        let id = id.ok_or_else(|| format!("core number {number}: give 0 to 4095"))?;
        Ok(Self { id: Some(id), target: path.parse()? })
    }
}

impl fmt::Display for CoreArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.id {
            Some(id) => write!(f, "{}={}", id.get(), self.target),
            None => self.target.fmt(f),
        }
    }
}

fn size32(text: &str) -> Result<u32, String> {
    size(text).and_then(|bytes| u32::try_from(bytes).map_err(|_| "must be below 4G".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_may_have_a_number_and_paths_an_equals_sign() {
        let read = |text: &str| text.parse::<CoreArg>().map(|core| core.to_string());
        for text in ["disk.img", "7=disk.img", "4095=block:/dev/sda", "a=b", "=x"] {
            assert_eq!(read(text).as_deref(), Ok(text));
        }
        assert!("7=x".parse::<CoreArg>().unwrap().id.is_some());
        for wrong in ["4096=x", "99999999=x", "7=", ""] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
