//! Arguments of `larder plan`.

use std::path::PathBuf;

use clap::Args;
use larder::SocLayout;

use super::{FormatArgs, size};

/// Plan a purchase: what a drive does with a workload, with placement and without.
///
/// You give the workload, the DRAM, the drive, its endurance rating and the request rate. You get device-level write
/// amplification (DLWA), years until the drive is worn out, embodied and operational carbon and cost over the life of
/// the system, and how full the drive may be before DLWA passes a limit.
///
/// The real cache runs on a model of the drive that keeps all ratios and is a few thousand times smaller: DLWA depends
/// on the ratios, not on the size, as long as reclaim units are large compared to the objects. A trace is taken as a
/// sample of the workload at the scale of the model. It takes about a minute.
///
/// KB, MB, GB and TB are powers of 1000, as drives are sold; K, M, G and T are powers of 1024, as in every command. A
/// GB of the answer is 1000^3 bytes.
#[derive(Debug, Args)]
#[command(allow_negative_numbers = true)]
#[command(after_help = "EXAMPLES:
  larder plan                                          meta-kv on a drive of 1.88 TB, 1 DWPD
  larder plan --workload twitter-c12 --dram 16GB --flash 3.84TB --rate 20000
  larder plan --flash 7.68TB --tbw 14000 --op 7 --utilization 80 --dlwa-limit 1.2
  larder plan trace.csv.zst --dram 42GB --flash 930GB --simulate 1G
  larder plan --json plan.json --report page/          for machines, and to look at
  larder plan --config larder.toml && larder serve --config larder.toml --file /dev/nvme0n1

READING THE ANSWER:
  Compare the columns for what placement (NVMe FDP) is worth. \"DLWA passes 1.5 at 73 % used\" means:
  leave 27 % of the drive free, or get a drive with placement. \"rating for one drive\" is the DWPD
  to look for in the data sheet so that the first drive lasts.")]
pub(crate) struct PlanArgs {
    /// Trace to plan for; plain or compressed with zstd, xz or gzip. The format is recognised by content, see --format
    #[arg(conflicts_with = "workload")]
    pub(crate) trace: Option<PathBuf>,

    /// Built-in workload when there is no trace; `larder workload list` describes them
    #[arg(long, value_name = "NAME", default_value = "meta-kv")]
    pub(crate) workload: String,

    /// Requests per second that the cache will get
    #[arg(long, value_name = "N", default_value_t = 50_000.0)]
    pub(crate) rate: f64,

    /// DRAM of the cache
    #[arg(long, value_name = "SIZE", default_value = "16GB", value_parser = size)]
    pub(crate) dram: u64,

    /// Capacity of the drive as sold
    #[arg(long, value_name = "SIZE", default_value = "1.88TB", value_parser = size)]
    pub(crate) flash: u64,

    /// Share of the drive that the cache uses, in percent, 10 to 100
    #[arg(long, value_name = "PCT", default_value_t = 100.0)]
    pub(crate) utilization: f64,

    /// Over-provisioning of the drive: flash beyond its capacity, in percent of it, 4 to 100. For 2 TiB of flash sold
    /// as 1.88 TB it is 17
    #[arg(long, value_name = "PCT", default_value_t = 17.0)]
    pub(crate) op: f64,

    /// Endurance rating in drive writes per day (DWPD) over the warranty
    #[arg(long, value_name = "DWPD", default_value_t = 1.0)]
    pub(crate) endurance: f64,

    /// Endurance rating in terabytes written, instead of --endurance
    #[arg(long, value_name = "TB", conflicts_with = "endurance")]
    pub(crate) tbw: Option<f64>,

    /// Years over which --endurance counts
    #[arg(long, value_name = "YEARS", default_value_t = 5.0)]
    pub(crate) warranty_years: f64,

    /// DLWA that the rating assumes, 1 to 100. Data sheets seldom say; 1 is the cautious choice
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub(crate) rated_dlwa: f64,

    /// Highest acceptable DLWA, above 1; the answer says how full the drive may be below it
    #[arg(long, value_name = "FACTOR", default_value_t = 1.5)]
    pub(crate) dlwa_limit: f64,

    /// Years for which the cache is to serve; worn drives are replaced
    #[arg(long, value_name = "YEARS", default_value_t = 5.0)]
    pub(crate) years: f64,

    /// Rates at which the drives of a set wear, in proportion to each other, such as 3,1,1,1; the drive of the answer
    /// is the mean one. The answer then says what drive_levelling gains
    #[arg(long, value_name = "RATES", value_delimiter = ',')]
    pub(crate) drive_rates: Option<Vec<f64>>,

    /// Price of a GB of flash, in any currency. The default is an assumption: use your own
    #[arg(long, value_name = "PRICE", default_value_t = 0.1)]
    pub(crate) price_flash: f64,

    /// Price of a GB of DRAM, in the same currency. The default is an assumption too
    #[arg(long, value_name = "PRICE", default_value_t = 4.0)]
    pub(crate) price_dram: f64,

    /// Embodied carbon of a GB of flash, in kg of CO2-equivalent (default: Tannu and Nair 2023)
    #[arg(long, value_name = "KG", default_value_t = 0.16)]
    pub(crate) carbon_flash: f64,

    /// Embodied carbon of a GB of DRAM, in kg (default: what the FDP paper's Table 2 implies)
    #[arg(long, value_name = "KG", default_value_t = 1.6)]
    pub(crate) carbon_dram: f64,

    /// Carbon intensity of the electricity, in kg of CO2-equivalent per kWh (default: world average of 2023)
    #[arg(long, value_name = "KG", default_value_t = 0.48)]
    pub(crate) carbon_grid: f64,

    /// Power of the idle drive in watts. The default is an assumption
    #[arg(long, value_name = "WATTS", default_value_t = 5.0)]
    pub(crate) idle_watts: f64,

    /// Share of the cache's flash that the small-object engine gets, in percent, 1 to 99
    #[arg(long, value_name = "PCT", default_value_t = 4.0)]
    pub(crate) soc: f64,

    /// How the small-object engine stores objects: buckets, which are rewritten in place; or pages, which are written
    /// once [default: what the cache chooses: pages, if their flash is 64 MiB to 25 times --dram]
    #[arg(long, value_name = "LAYOUT")]
    pub(crate) soc_layout: Option<SocLayout>,

    /// Objects (key and value) of at most this size go to the small-object engine; at most 4050
    #[arg(long, value_name = "BYTES", default_value = "640", value_parser = size)]
    pub(crate) soc_max_object: u64,

    /// Size of the simulated drive, 8 MiB to 64 GiB. If its reclaim units are small compared to the large objects, DLWA
    /// without placement comes out low; the range of life covers that. A larger drive takes longer
    #[arg(long, value_name = "SIZE", default_value = "128M", value_parser = size)]
    pub(crate) simulate: u64,

    /// Requests of each simulated run; the number of keys depends on --simulate alone [default: enough to write the
    /// drive nine times, then twice as many until DLWA and bytes per request differ by at most 5 % between the halves
    /// of the measurement]
    #[arg(long, value_name = "N")]
    pub(crate) requests: Option<u64>,

    /// Seed of everything random: the same seed gives the same numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    #[command(flatten)]
    pub(crate) format: FormatArgs,

    /// Write the result as JSON to FILE, or to standard output for "-"
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Write the recommended settings to FILE, as a configuration of `larder serve`; `larder check FILE` explains it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Write a page with the results to DIR/index.html
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
}
