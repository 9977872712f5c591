//! Arguments of `larder block`.

mod cache;
mod choice;
mod control;
mod cores;
mod output;
mod policies;
mod target;
mod ublk;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};
use tracing::level_filters::LevelFilter;

use super::tls::TlsArgs;

pub(crate) use cache::{
    CacheCreateArgs, CalibrateArgs, ChangedCoreArg, CoreArg, DeviceFormatArgs, LayoutArg,
    RecoverArgs, StartArgs, StoppedArgs,
};
pub(crate) use control::{
    AskArgs, AttachArgs, CacheStatsArgs, CacheStatusArgs, CoreOfArgs, IoClassArgs, ModeArgs,
    PolicyArgs, StopArgs, WhichArgs,
};
pub(crate) use cores::CoresArgs;
pub(crate) use policies::{CleaningArg, CutOffArg, PromotionArg, ReadAheadArg, RoutingArg};
pub(crate) use target::TargetArg;
pub(crate) use ublk::{UblkArg, UblkArgs, UblkListArgs};

/// Block devices: a cache in front of a slow device, or any drive, file or model, exported to the system.
#[derive(Debug, Subcommand)]
#[command(after_help = "EXAMPLES:
  larder block create fast.img --core slow.img --mode wb     a cache of a slow device on a fast one
  larder block start fast.img --unix /run/larder.sock        serves it until Ctrl-C
  larder block status --unix /run/larder.sock                what runs there
  larder block stats --unix /run/larder.sock
  larder block mode wt --unix /run/larder.sock               destages what is dirty
  larder block detach --unix /run/larder.sock                its cores are served without the cache device
  larder block attach fast2.img --unix /run/larder.sock      and with another one
  larder block stop --flush --unix /run/larder.sock          ends it with nothing dirty
  larder block recover fast.img                              the same of one that does not run
  larder block calibrate fast.img --store                    what its devices do, for routing
  larder block export disk.img --unix /run/disk.sock         without a cache
  larder block start fast.img --ublk                         as a disk of the kernel's, /dev/ublkb0
  larder block ublk                                          such disks, also those without a process")]
pub(crate) enum BlockCommand {
    Create(CacheCreateArgs),
    Start(Box<StartArgs>),
    Status(CacheStatusArgs),
    Stats(CacheStatsArgs),
    /// Destage dirty data, of one core or of all
    ///
    /// Destages in sorted runs, while clients go on. What they write at the same time may be dirty afterwards.
    Flush(CoreOfArgs),
    Mode(ModeArgs),
    /// Change when dirty data go to the core in the background
    ///
    /// nop: only on request, and above the watermark. alru: data that were not written for a while, when users are
    /// idle. acp: all the time, where most is dirty. Keys that are not given get their defaults.
    ///
    /// Keys of all: limit (bytes a second; 0: none), high and low (percent of the cache that is dirty: above high it
    /// destages until low). Keys of alru: wake-up, staleness, buffers, activity. Keys of acp: wake-up, buffers. Times
    /// are seconds (20 or 20s) or milliseconds (10ms).
    #[command(after_help = "EXAMPLES:
  larder block cleaning acp limit=50M --unix /run/larder.sock
  larder block cleaning alru staleness=30 high=60 low=50 --unix /run/larder.sock")]
    Cleaning(PolicyArgs),
    /// Change which sequential requests bypass the cache
    ///
    /// always, full (only when the cache is full) or never. Key: threshold, the bytes of a sequential run from which on
    /// it bypasses.
    #[command(after_help = "EXAMPLE:
  larder block cut-off always threshold=4M --unix /run/larder.sock")]
    CutOff(PolicyArgs),
    /// Change which streams of reads are read ahead
    ///
    /// off: none. on: once a stream has read threshold bytes in order, the cache fetches what comes next, as much as
    /// the stream has read so far, up to window bytes. Nothing is fetched in modes that do not keep reads, for streams
    /// that bypass the cache (cut-off), beyond the share of an IO class, or while writes need the room. `stats` shows
    /// how much was fetched.
    ///
    /// Keys of on: threshold (4K to 1G, default 64K), window (4K to 16M, default 256K).
    #[command(after_help = "EXAMPLES:
  larder block read-ahead on --unix /run/larder.sock
  larder block read-ahead on threshold=128K window=1M --unix /run/larder.sock
  larder block read-ahead off --unix /run/larder.sock")]
    ReadAhead(PolicyArgs),
    /// Change which missed data are kept in the cache
    ///
    /// always: all of them. nhit: data that are requested repeatedly. Keys of nhit: threshold (the access from which on
    /// data are kept, 2 to 1000), trigger (everything is kept while less of the cache is occupied, in percent).
    #[command(after_help = "EXAMPLE:
  larder block promotion nhit threshold=2 trigger=90 --unix /run/larder.sock")]
    Promotion(PolicyArgs),
    /// Change which clean hits the core serves
    ///
    /// off: none. auto: while the cache device is overloaded, a share that the cache tunes; nothing new is kept during
    /// that time. The cache has to be calibrated. split: a fixed share. Key of split: core, in percent.
    #[command(after_help = "EXAMPLES:
  larder block routing auto --unix /run/larder.sock
  larder block routing split core=30 --unix /run/larder.sock")]
    Routing(PolicyArgs),
    /// Change which writes bypass a cache that is full of dirty data
    ///
    /// cost: writes that the core takes for less than it costs to destage the data in their place; both costs are
    /// measured. full: all writes that find no room. never: none, they wait for room.
    #[command(after_help = "EXAMPLE:
  larder block bypass never --unix /run/larder.sock")]
    Bypass(PolicyArgs),
    IoClass(IoClassArgs),
    /// List the data that only the cache has, of one core or of all
    ///
    /// Ranges in bytes of the core, at most 10,000 for each core.
    Dirty(CoreOfArgs),
    /// Take the cache device away from a running cache, which then serves its cores without it
    ///
    /// First it destages everything while clients go on. Then the label of the device is marked, so that a later start
    /// uses nothing on it: from then on cores are written without it. If nothing is dirty, nothing is written to cores.
    /// If something cannot be destaged, the command fails, and the cache goes on as before. `attach` gives it another
    /// device, or the same one; `stop` ends it.
    Detach(AskArgs),
    Attach(AttachArgs),
    Stop(StopArgs),
    Recover(RecoverArgs),
    Cores(CoresArgs),
    Calibrate(CalibrateArgs),
    Export(ExportArgs),
    Ublk(UblkListArgs),
}

/// Export a device by NBD, the protocol of network block devices, or as a disk (--ublk), until SIGINT or SIGTERM.
///
/// QEMU, libnbd's tools, fio and the kernel's nbd-client use such a device as a disk; a client may have several
/// connections to it. Requests need not be multiples of the device's block. At the first signal the command stops
/// accepting and reading, answers the requests that have come, flushes the device and ends; at the second one it ends
/// at once.
///
/// TARGET is a file or a device: PATH, file:PATH, block:PATH, nvme:PATH or dax:PATH; its content is kept. Or it is
/// memory that ends with the command: memory:SIZE, or model:SIZE for a simulated SSD.
///
/// Without TLS every client that reaches the socket can read and write the device. The directory of a Unix socket
/// decides which users can open it. A TCP address that other machines reach needs a trusted network, or
/// --tls-certificate, --tls-key and --tls-client-ca: then clients need a certificate of that issuer, and the traffic is
/// encrypted.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("place").required(true).multiple(true).args(["unix", "tcp", "ublk"])))]
#[command(after_help = "EXAMPLES:
  larder block export disk.img --unix /run/larder.sock
  larder block export block:/dev/nvme0n1 --tcp 127.0.0.1:10809 --name pantry --read-only
  larder block export model:1G --unix /tmp/m.sock          a simulated SSD
  larder block export disk.img --ublk                      a disk of the kernel's, /dev/ublkb0
  larder block export disk.img --tcp 0.0.0.0:10809 --tls-certificate server-cert.pem --tls-key server-key.pem \
    --tls-client-ca ca-cert.pem                            nbdinfo 'nbds://HOST/?tls-certificates=DIR'

  nbdinfo 'nbd+unix:///?socket=/run/larder.sock'           what it is
  nbdcopy disk.raw 'nbd+unix:///?socket=/run/larder.sock'  fills it
  qemu-img info nbd://127.0.0.1:10809/pantry
  fio --name=t --ioengine=nbd --uri='nbd+unix:///?socket=/run/larder.sock' --rw=randread
  nbd-client -unix /run/larder.sock /dev/nbd0              a disk of the kernel's (modprobe nbd)")]
pub(crate) struct ExportArgs {
    /// Device to export
    pub(crate) target: TargetArg,

    /// Unix socket to listen on; an old one that no process serves is replaced
    #[arg(long, value_name = "PATH")]
    pub(crate) unix: Option<PathBuf>,

    /// Address to listen on, such as 127.0.0.1:10809; port 0 takes any free port
    #[arg(long, value_name = "ADDR")]
    pub(crate) tcp: Option<SocketAddr>,

    #[command(flatten)]
    pub(crate) ublk: UblkArgs,

    /// Name of the export; clients that ask for no name get it too
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(crate) name: String,

    /// Refuse changes
    #[arg(long)]
    pub(crate) read_only: bool,

    /// Threads; each connection belongs to one of them, and so does each queue of --ublk
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: u16,

    /// How threads wait for sockets: io_uring (epoll where the kernel refuses it) or epoll
    #[arg(long, value_name = "HOW", default_value = "io_uring", value_parser = super::listening::sockets)]
    pub(crate) sockets: larder_server::SocketBackend,

    /// Most connections at a time; each may take about 64 MiB of memory
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) connections: u32,

    /// Events to log on standard error: off, error, warn, info or debug; each level includes those before it
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = super::listening::log_level)]
    pub(crate) log: LevelFilter,

    #[command(flatten)]
    pub(crate) tls: TlsArgs,
}
