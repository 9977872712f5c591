//! Making a cache, and running it.

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
use super::policies::{CleaningArg, CutOffArg, PromotionArg, ReadAheadArg, RoutingArg, time};
use super::target::TargetArg;
use super::ublk::UblkArgs;
use crate::args::numbers::size;
use crate::args::tls::TlsArgs;

/// Make a device a cache before slower devices.
///
/// The cache device gets a label and a layout; whatever was on it is lost. Cores, the slower devices, are left as
/// they are: each is served through the cache from `larder block start` on, under its number, and is itself again
/// whenever the cache has nothing dirty. Nothing is written over a device that has something on it unless it is said.
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLES:
  larder block create fast.img --core slow.img
  larder block create block:/dev/nvme0n1p4 --core block:/dev/sda --core 7=block:/dev/sdb --mode wb
  larder block create fast.img --core slow.img --over 2f1c…      a cache that was there, by its UUID
  larder block start fast.img --unix /run/larder.sock            serves core 0 as nbd+unix:///0?socket=…")]
pub(crate) struct CacheCreateArgs {
    /// The device that becomes the cache: PATH, file:PATH, block:PATH, nvme:PATH or dax:PATH, persistent memory
    #[arg(value_name = "CACHE")]
    pub(crate) cache: TargetArg,

    /// A device that is cached, several times for several; N is its number, the least that is free if none is given
    #[arg(long = "core", value_name = "[N=]PATH", required = true)]
    pub(crate) cores: Vec<CoreArg>,

    #[command(flatten)]
    pub(crate) format: DeviceFormatArgs,

    /// Mode of its first start: wt, wb, wa, wi, wo or pt, or in full
    #[arg(long, value_name = "MODE", default_value = "wt")]
    pub(crate) mode: Mode,

    #[command(flatten)]
    pub(crate) output: BlockOutputArgs,
}

/// How a cache device is formatted.
#[derive(Clone, Debug, Args)]
pub(crate) struct DeviceFormatArgs {
    /// How data lie on the cache device; the others are Open CAS's, to compare with
    #[arg(long, value_enum, default_value_t = LayoutArg::Log)]
    pub(crate) layout: LayoutArg,

    /// Bytes of a line: 4K to 64K
    #[arg(long, value_name = "SIZE", default_value = "4K", value_parser = size32)]
    pub(crate) line: u32,

    /// Bytes of a segment of the log: 64K to 1G [default: 16M, or less on a device of less than 1G]
    #[arg(long, value_name = "SIZE", value_parser = size32)]
    pub(crate) segment: Option<u32>,

    /// Write over the block cache of this UUID, whatever it has
    #[arg(long, value_name = "UUID", conflicts_with = "over_other")]
    pub(crate) over: Option<Uuid>,

    /// Write over what is there, unless it is a block cache
    #[arg(long)]
    pub(crate) over_other: bool,
}

/// Run a cache: serve its cores by NBD, or as disks (--ublk), until SIGINT or SIGTERM
///
/// What the cache has is found again, also after a crash. Each core is an export by its number (and the first one for
/// who names none); `larder block status`, `stats`, `flush`, `mode` and others ask the running process by its control
/// socket, which is for its owner alone.
///
/// Told to end, it answers what clients have asked for, and says on the cache device that it was stopped. What is
/// dirty then stays on the cache device until the next start, unless --flush-on-stop.
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
    /// The cache device; with --config it may be left out if the file has one
    #[arg(value_name = "CACHE", required_unless_present = "config")]
    pub(crate) cache: Option<TargetArg>,

    /// Where a core is, if it is not where it was when the cache was made
    #[arg(long = "core", value_name = "[N=]PATH")]
    pub(crate) cores: Vec<CoreArg>,

    #[command(flatten)]
    pub(crate) choice: CoreChoiceArgs,

    /// A larder.toml with [[block]]; what is said here goes before it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Unix socket to listen on; an old one that nobody serves is replaced
    #[arg(long, value_name = "PATH")]
    pub(crate) unix: Option<PathBuf>,

    /// Address to listen on, such as 127.0.0.1:10809; port 0 takes any that is free
    #[arg(long, value_name = "ADDR")]
    pub(crate) tcp: Option<SocketAddr>,

    #[command(flatten)]
    pub(crate) ublk: UblkArgs,

    /// Control socket [default: the path of --unix with .control behind it]
    #[arg(long, value_name = "PATH")]
    pub(crate) control: Option<PathBuf>,

    /// Address on which /metrics is answered by HTTP, such as 127.0.0.1:9181; port 0 takes any that is free
    #[arg(long, value_name = "ADDR")]
    pub(crate) metrics: Option<SocketAddr>,

    /// Mode: wt, wb, wa, wi, wo or pt, or in full [default: the one that it was in]
    #[arg(long, value_name = "MODE")]
    pub(crate) mode: Option<Mode>,

    /// Which sequential requests pass the cache by [default: full,threshold=1M]
    #[arg(long, value_name = "POLICY")]
    pub(crate) cut_off: Option<CutOffArg>,

    /// Which streams of reads are read ahead: off, or on,threshold=64K,window=256K [default: off]
    #[arg(long, value_name = "POLICY")]
    pub(crate) read_ahead: Option<ReadAheadArg>,

    /// What is kept of what was missed [default: always]
    #[arg(long, value_name = "POLICY")]
    pub(crate) promotion: Option<PromotionArg>,

    /// When dirty data go to the core without being asked [default: alru]
    #[arg(long, value_name = "POLICY")]
    pub(crate) cleaning: Option<CleaningArg>,

    /// Which clean hits the core serves [default: auto where the cache was calibrated, else off]
    #[arg(long, value_name = "POLICY")]
    pub(crate) routing: Option<RoutingArg>,

    /// Which writes pass by a cache that is full of dirty data: never, cost or full [default: cost]
    #[arg(long, value_name = "POLICY")]
    pub(crate) bypass: Option<BypassPolicy>,

    /// File of IO classes, in Open CAS's CSV
    #[arg(long, value_name = "FILE")]
    pub(crate) io_classes: Option<PathBuf>,

    /// Errors of the cache device after which it is not written to any more [default: 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) cache_errors_max: Option<u32>,

    /// In how many seconds what the start has found is loaded beside requests, if it is a million records or more
    /// [default: 60]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) load_time: Option<u32>,

    /// If a core was written while the cache was away and the cache has dirty data
    #[arg(long, value_enum)]
    pub(crate) changed_core: Option<ChangedCoreArg>,

    /// Start a damaged cache all the same, with what is whole: what only the cache had may be lost
    #[arg(long)]
    pub(crate) accept_loss: bool,

    /// Destage what is dirty at the end
    #[arg(long)]
    pub(crate) flush_on_stop: bool,

    /// Threads; each connection belongs to one of them, and each queue of --ublk [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: Option<u16>,

    /// How they wait for sockets: io_uring, with epoll where the kernel refuses it, or epoll [default: io_uring]
    #[arg(long, value_name = "HOW", value_parser = crate::args::serve::sockets)]
    pub(crate) sockets: Option<larder_server::SocketBackend>,

    /// Connections at a time; each may take about 64 MiB of memory [default: 64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) connections: Option<u32>,

    /// Which events are told on standard error: off, error, warn, info or debug, each with those before it [default:
    /// info]
    #[arg(long, value_name = "LEVEL", value_parser = crate::args::serve::log_level)]
    pub(crate) log: Option<LevelFilter>,

    #[command(flatten)]
    pub(crate) tls: TlsArgs,
}

/// Measure what a cache's devices do, by size, direction and depth.
///
/// Random requests of 4, 64 and 512 KiB, one and 32 at a time; nobody may use the devices meanwhile. Cores and what is
/// cached are only read. From the result `larder block start` knows where routing begins: with --store it is kept on
/// the label, and routing is auto from the next start on. A cache device that has just been formatted may answer
/// reads of what was never written faster than others: calibrate it when the cache is warm, or before it is made,
/// with --writes.
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLES:
  larder block calibrate fast.img --store
  larder block calibrate block:/dev/nvme0n1p4 --core block:/dev/sda --writes     before it is made a cache")]
pub(crate) struct CalibrateArgs {
    /// The cache device
    #[arg(value_name = "CACHE")]
    pub(crate) cache: TargetArg,

    /// A core, where there is no cache yet, or it is not where it was when the cache was made
    #[arg(long = "core", value_name = "[N=]PATH")]
    pub(crate) cores: Vec<CoreArg>,

    /// Keep the result on the label of the cache, which must not run
    #[arg(long)]
    pub(crate) store: bool,

    /// Measure writes too, on a cache device that has nothing: it is written over
    #[arg(long, conflicts_with = "store")]
    pub(crate) writes: bool,

    /// How long each of the points of a device takes, 1ms to 10s; longer where requests take long
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = time)]
    pub(crate) time: std::time::Duration,

    #[command(flatten)]
    pub(crate) output: BlockOutputArgs,
}

/// Write what only a cache has to its cores, and leave it clean.
///
/// For whoever wants the cores without the cache, after a crash or not. No process may run it. What is cached stays
/// cached; a core may be taken away, or written by others, afterwards.
#[derive(Debug, Args)]
pub(crate) struct RecoverArgs {
    #[command(flatten)]
    pub(crate) stopped: StoppedArgs,

    #[command(flatten)]
    pub(crate) output: BlockOutputArgs,
}

/// A cache that does not run, and its cores.
#[derive(Debug, Args)]
pub(crate) struct StoppedArgs {
    /// The cache device
    #[arg(value_name = "CACHE")]
    pub(crate) cache: TargetArg,

    /// Where a core is, if it is not where it was when the cache was made
    #[arg(long = "core", value_name = "[N=]PATH")]
    pub(crate) cores: Vec<CoreArg>,

    #[command(flatten)]
    pub(crate) choice: CoreChoiceArgs,

    /// If a core was written while the cache was away and the cache has dirty data
    #[arg(long, value_enum, default_value_t = ChangedCoreArg::Refuse)]
    pub(crate) changed_core: ChangedCoreArg,

    /// Take up a damaged cache all the same, with what is whole: what only the cache had may be lost
    #[arg(long)]
    pub(crate) accept_loss: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BlockOutputArgs {
    /// Also write the result as JSON to this file; "-" is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// See [`larder_block::manage::LayoutOptions`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LayoutArg {
    Log,
    Ocf22,
    Ocf26,
    Wal,
}

impl LayoutArg {
    /// As it is given.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// See [`larder_block::manage::ChangedCore`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ChangedCoreArg {
    /// The start is refused
    Refuse,
    /// They go to the core, over what was written there, and clean data are dropped
    DestageAndDrop,
}

impl FromStr for ChangedCoreArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        <Self as ValueEnum>::from_str(text, false)
            .map_err(|_| format!("{text:?}: give refuse or destage-and-drop"))
    }
}

/// A core, by its number if that is given.
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
