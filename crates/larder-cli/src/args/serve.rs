//! Arguments of `larder serve`.

use std::path::PathBuf;

use clap::Args;
use larder_device::Target;
use larder_server::{KeyspaceEvents, MaxmemoryPolicy, PasswordHash, SocketBackend};
use tracing::level_filters::LevelFilter;

use super::listening::{ListenArg, hash, listen, log_level, sockets};
use super::numbers::{overprovisioning, years_of_service};
use super::tls::TlsArgs;
use super::{ArrayEngineArgs, CacheArgs, positive_size, size};

/// Serve memcached and Redis clients from DRAM and flash.
///
/// Without arguments it serves memcached's protocol on 127.0.0.1:11211 and Redis' on 127.0.0.1:6379, with a flash file
/// in the data directory. It chooses sizes for this machine, and prints them.
///
/// SIGTERM and SIGINT end it: it accepts no new connections, answers the requests that have begun, and closes the cache
/// so that the next start finds it. A second signal ends it at once.
///
/// Sizes take K, M, G, T (powers of 1024).
#[derive(Debug, Clone, Default, Args)]
#[command(after_help = "EXAMPLES:
  larder serve                                        no configuration needed
  larder serve --memory 1G --flash 32G                sizes of DRAM and of the flash file
  larder serve --flash 0                              in DRAM only
  larder serve --file /mnt/a/larder --file /mnt/b/larder      two drives, which fail one by one
  larder serve --file /dev/nvme0n1 --soc 4 --placement required    small objects apart, on an FDP drive
  larder serve --file model:4G,op=7 --soc 4           the same on a simulated drive, to look at
  larder serve --memcached 127.0.0.1:22122 --resp none
  larder serve --memcached unix:/run/larder.sock      a Unix socket
  larder serve --config larder.toml                   tenants, users, and all options by their names")]
pub(crate) struct ServeArgs {
    /// A file with these options by their names (data_dir = \"...\"), tenants and users; options on the command line
    /// override it. `larder check FILE` explains it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Addresses for memcached clients, or unix:PATH; `none` serves no such clients [default: 127.0.0.1:11211]
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', value_parser = listen)]
    pub(crate) memcached: Option<Vec<ListenArg>>,

    /// Addresses for Redis and Valkey clients, or unix:PATH; `none` serves no such clients [default: 127.0.0.1:6379]
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', value_parser = listen)]
    pub(crate) resp: Option<Vec<ListenArg>>,

    /// Addresses for memcached clients with TLS; --memcached then defaults to none
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', value_parser = listen)]
    pub(crate) memcached_tls: Option<Vec<ListenArg>>,

    /// Addresses for Redis and Valkey clients with TLS; --resp then defaults to none
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', value_parser = listen)]
    pub(crate) resp_tls: Option<Vec<ListenArg>>,

    #[command(flatten)]
    pub(crate) tls: TlsArgs,

    /// HTTP address of the admin page, metrics and readiness, or none [default: 127.0.0.1:9180]
    #[arg(long, value_name = "ADDRESS", value_parser = listen)]
    pub(crate) admin: Option<ListenArg>,

    /// Further names of the admin address, such as cache.example: requests for any other name are refused, except
    /// localhost and the address at which they arrive
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) admin_hosts: Option<Vec<String>>,

    /// Push metrics to a collector of OpenTelemetry: http://HOST:PORT, OTLP over HTTP; needs a program built with
    /// --features otlp
    #[arg(long, value_name = "URL")]
    pub(crate) otlp: Option<String>,

    /// Seconds between two pushes of metrics [default: 10]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) otlp_interval: Option<u32>,

    /// Hash of a token (`larder password` makes one) with which operators can flush tenants over the admin address
    /// [default: none: nothing can be changed there]
    #[arg(long, value_name = "HASH", value_parser = hash)]
    pub(crate) admin_token: Option<PasswordHash>,

    /// Keep the last requests that waited at least MS milliseconds, with their keys, so that operators can look at
    /// them; 0 keeps none [default: 10]
    #[arg(long, value_name = "MS")]
    pub(crate) slow_threshold: Option<u32>,

    /// Events to log on standard error: off, error, warn, info or debug; each level includes those before it [default:
    /// info]
    #[arg(long, value_name = "LEVEL", value_parser = log_level)]
    pub(crate) log: Option<LevelFilter>,

    /// Endurance rating of the drive: bytes written in its life (TBW), such as 600T; metrics then forecast how long it
    /// lasts
    #[arg(long, value_name = "SIZE", value_parser = positive_size)]
    pub(crate) endurance: Option<u64>,

    /// Move keys from the drive of the set that wears fastest to the one that wears slowest, if the forecasts of their
    /// wear differ by 1.3 or more: at most 2 % of the keys of a drive a week, each with its next write
    #[arg(long)]
    pub(crate) drive_levelling: bool,

    /// Years that a drive is to be in service, for --drive-levelling [default: 5]
    #[arg(long, value_name = "YEARS", value_parser = years_of_service)]
    pub(crate) planned_service: Option<f64>,

    /// Over-provisioning of the drive: flash beyond its capacity, in percent of it, such as 17 for 2 TiB of flash sold
    /// as 1.88 TB; metrics then show the write amplification that a formula predicts beside the measured one
    #[arg(long, value_name = "PCT", value_parser = overprovisioning)]
    pub(crate) overprovisioning: Option<f64>,

    /// Memory of the cache, including what its flash needs, and of clients; their part is an eighth, at least 16M and 8
    /// times the longest value, at most half [default: a quarter of the machine's, or of the control group's limit]
    #[arg(long, value_name = "SIZE", value_parser = positive_size)]
    pub(crate) memory: Option<u64>,

    /// Size of the flash file; 0 is DRAM only [default: that of an earlier run, or 8 times the memory, at most half of
    /// what is free]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) flash: Option<u64>,

    #[command(flatten)]
    pub(crate) cache: CacheArgs,

    #[command(flatten)]
    pub(crate) large: ArrayEngineArgs,

    /// Requests that a drive has in flight, of all tenants; more wait, and tenants get turns by `weight`; 0: as many as
    /// come [default: 0, or 64 if a tenant has isolation = "software"]
    #[arg(long, value_name = "N")]
    pub(crate) flash_depth: Option<u32>,

    /// Files or drives to use instead of the flash file; repeat the option for several. Each is a shard, which has its
    /// part of the keys and fails independently; --flash is the size of all together. One that cannot be opened counts
    /// as failed. PATH, block:PATH (with write streams), nvme:PATH (past the block layer), or
    /// model:SIZE, a simulated drive in memory, such as model:4G,op=7. See docs/server.md
    #[arg(long, value_name = "TARGET")]
    pub(crate) file: Vec<Target>,

    /// Directory of the flash file [default: $STATE_DIRECTORY, /var/lib/larder for root, ~/.local/share/larder]
    #[arg(long, value_name = "PATH")]
    pub(crate) data_dir: Option<PathBuf>,

    /// Worker threads [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) workers: Option<u16>,

    /// How threads wait for sockets: io_uring, where the kernel allows it, or epoll [default: io_uring]
    #[arg(long, value_name = "HOW", value_parser = sockets)]
    pub(crate) sockets: Option<SocketBackend>,

    /// Most connections at a time [default: 10000]
    #[arg(long, value_name = "N")]
    pub(crate) connections: Option<usize>,

    /// Longest value [default: 1M]
    #[arg(long, value_name = "SIZE", value_parser = positive_size)]
    pub(crate) value_max: Option<u64>,

    /// Close subscribers that have not read this many bytes of messages, or a quarter of it for a minute [default: 32M]
    #[arg(long, value_name = "SIZE", value_parser = positive_size)]
    pub(crate) pubsub_max: Option<u64>,

    /// Keys that clients of Redis may track together (CLIENT TRACKING): of more, random ones are dropped, and their
    /// clients are told [default: 1000000]
    #[arg(long, value_name = "N")]
    pub(crate) tracking_table_max: Option<usize>,

    /// Events of keys that clients of Redis can subscribe to, in the letters of notify-keyspace-events: KEA for most
    /// [default: none]
    #[arg(long, value_name = "LETTERS")]
    pub(crate) notify_keyspace_events: Option<KeyspaceEvents>,

    /// Longest hash, set, sorted set or list of clients of Redis, as it is stored; each change copies it [default: 1M]
    #[arg(long, value_name = "SIZE", value_parser = positive_size)]
    pub(crate) collection_max: Option<u64>,

    /// Stop scripts that run longer, and undo what they have written [default: 5000]
    #[arg(long, value_name = "MILLISECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) script_time_limit: Option<u32>,

    /// Memory of a script, at least 1M; one without memory is stopped as one without time [default: 16M]
    #[arg(long, value_name = "SIZE", value_parser = positive_size)]
    pub(crate) script_memory_max: Option<u64>,

    /// The database, 0 to 15, in which clients of Redis find the keys of memcached's clients; keep it while keys on
    /// flash are to be found [default: 0]
    #[arg(long, value_name = "N")]
    pub(crate) memcached_database: Option<u8>,

    /// What INFO tells clients of Redis that is evicted: allkeys-lru, volatile-lru, noeviction, ... Some clients refuse
    /// to work with some policies; the cache evicts as it does whatever the name [default: allkeys-lru]
    #[arg(long, value_name = "NAME")]
    pub(crate) maxmemory_policy: Option<MaxmemoryPolicy>,

    /// Close connections that send no request, or take none of their answers, for this long; 0 never [default: 3600]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) idle_timeout: Option<u32>,

    /// Close connections whose request is not complete after this long, and a second more for each 64 KiB that have
    /// come; 0 never [default: 30]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) request_timeout: Option<u32>,

    /// Answer reads that wait for flash longer than this with an error; 0 never [default: 0]
    #[arg(long, value_name = "MILLISECONDS")]
    pub(crate) request_deadline: Option<u32>,

    /// Time that connections get to finish what they have begun when the server is told to end [default: 5]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) drain: Option<u32>,

    /// Time for closing the cache at the end; data that are not on flash by then are lost [default: 60]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) close: Option<u32>,

    /// Listen on addresses that other machines reach, even if keys and passwords are not encrypted, or clients need not
    /// log in
    #[arg(long)]
    pub(crate) allow_unprotected: bool,

    /// Whether /ready says yes while the drive fails or does not answer and the server goes on in DRAM [default: true]
    #[arg(long, value_name = "BOOL")]
    pub(crate) ready_without_flash: Option<bool>,

    /// Whether /ready says yes while the server still learns what flash holds, as after a crash [default: true]
    #[arg(long, value_name = "BOOL")]
    pub(crate) ready_while_indexing: Option<bool>,

    /// Let memcached clients move and hold the clock with `debugtime`; only for tests of lifetimes
    #[arg(long, hide = true)]
    pub(crate) debug_time: bool,
}

/// Explain a configuration of `larder serve`, without touching anything.
///
/// Prints every setting with its value and where it comes from, or what is wrong, with line and column.
#[derive(Debug, Clone, Args)]
pub(crate) struct CheckArgs {
    /// Configuration file, such as larder.toml
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

/// Ask a running server which settings would serve its load better, and by how much.
///
/// The server counts the sizes and lifetimes of the objects that leave DRAM. From these follow, for each choice of
/// engines, the memory that a full flash needs and the bytes that the cache writes for each byte of an object (ALWA).
/// Other hints concern times to live and admission. Nothing is changed.
#[derive(Debug, Clone, Args)]
#[command(after_help = "EXAMPLES:
  larder advise                                  the server on this machine
  larder advise --server cache.example:9180
  larder advise --json advice.json               for machines")]
pub(crate) struct AdviseArgs {
    /// Admin address of the server
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9180")]
    pub(crate) server: String,

    /// Write the answer as JSON to FILE, or to standard output for "-"
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// Hash a password for `larder.toml`; reads the password from standard input, one line.
#[derive(Debug, Clone, Args)]
#[command(after_help = "EXAMPLE:
  printf '%s\\n' \"$PASSWORD\" | larder password")]
pub(crate) struct PasswordArgs {}
