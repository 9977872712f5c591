//! Bandwidth of devices alone, by request size.

use larder_block::layout::ocf::{Geometry, OcfOptions, OcfVersion};
use larder_device::DeviceInfo;
use larder_device::model::virtual_time::shapes;

use super::counted::{LINE_KIB, refused};
use super::study::{
    Costs, DRIVE_IO_NS, MEMORY_IO_NS, P5800X, PM9A3, PM863, PMEM, REQUEST_NS, Storage,
};
use super::timed::{Asks, Pair, mb_s};
use crate::Error;
use crate::experiment::judge::Checks;
use crate::experiment::{Experiment, Judgement, Metrics, Parameter, Reference, Settings, Summary};
use crate::replay::Monitor;

const STUDY: &str = "HotStorage'23: blocks of 4 KiB hold chunks of 12, 18 and 42 bytes";
const REQUESTS: Parameter =
    Parameter { name: "requests", default: "2000", help: "requests of each point, 100 to 1000000" };
const DEPTHS: Parameter = Parameter {
    name: "depths",
    default: "1,8,64",
    help: "requests under way at a time, each 1 to 1024; with one the study's order is judged",
};

/// The study's devices, fastest first.
const OF_STUDY: [&Storage; 4] = [&PMEM, &P5800X, &PM9A3, &PM863];
/// Kinds of storage with the numbers that their makers give.
const OTHERS: [Storage; 5] = [
    Storage { key: "memory", shape: shapes::PERSISTENT_MEMORY, is_memory: true },
    Storage { key: "optane", shape: shapes::OPTANE_SSD, is_memory: false },
    Storage { key: "nvme", shape: shapes::NVME_TLC, is_memory: false },
    Storage { key: "sata", shape: shapes::SATA_SSD, is_memory: false },
    Storage { key: "hdd", shape: shapes::HDD, is_memory: false },
];
pub(super) const WRITE_KIB: [u64; 9] = [4, 8, 16, 32, 64, 128, 256, 512, 1024];
/// Requests lie within this range of the device.
const ROOM_BYTES: u64 = 8 << 30;
/// Largest accepted difference of the records in a page from the study's: our records have a checksum for each sector
/// of 512 bytes.
const OFF_STUDY: f64 = 0.02;

pub(in crate::experiment) static BLOCK_RAW: Experiment = Experiment {
    name: "block-raw",
    title: "what devices move in a second, alone, by the length of a request",
    reproduces: "HotStorage'23 study of Open CAS, figures 1 and 2: raw devices, and records of a page of the table. \
                 Shapes of its devices are fitted to its order, so that is no prediction",
    criterion: "one request at a time: persistent memory before the Optane SSD before the PM9A3 before the PM863 at \
                every length, reads and writes, and furthest ahead of the next at the shortest; records of a page \
                within 2 %",
    parameters: &[REQUESTS, DEPTHS, REQUEST_NS, MEMORY_IO_NS, DRIVE_IO_NS],
    metrics: &[
        (
            "mb_s.*",
            "megabytes a second: write (that survives a loss of power) or read, device, requests under way, KiB of a \
             request, at random places",
        ),
        (
            "records_per_page.*",
            "records of a page of 4 KiB of Open CAS 22's table, by KiB of a line",
        ),
    ],
    references: &[
        Reference::published("records_per_page.4", 341.0, STUDY),
        Reference::published("records_per_page.16", 227.0, STUDY),
        Reference::published("records_per_page.64", 97.0, STUDY),
    ],
    needs: &["mb_s.write.pmem.1.4", "mb_s.write.pm863.1.1024", "mb_s.read.p5800x.1.64"],
    measure,
    judge,
};

fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let requests: usize = settings.within(REQUESTS.name, 100..=1_000_000)?;
    let depths: Vec<usize> = settings.list(DEPTHS.name)?;
    if let Some(wrong) = depths.iter().find(|depth| !(1..=1024).contains(*depth)) {
        return Err(settings.refuse(DEPTHS.name, &wrong.to_string(), "must be 1 to 1024"));
    }
    let costs = Costs::of(settings)?;
    let mut metrics = Metrics::new();
    for kib in LINE_KIB {
        metrics.insert(format!("records_per_page.{kib}"), records_per_page(kib << 10)?);
    }
    for device in OF_STUDY.into_iter().chain(&OTHERS) {
        for (direction, is_read) in [("write", false), ("read", true)] {
            for &depth in &depths {
                for kib in WRITE_KIB {
                    let bytes = kib << 10;
                    let mut rng = fastrand::Rng::with_seed(seed);
                    let at = (0..requests).map(|_| rng.u64(..ROOM_BYTES / bytes));
                    let mut alone = Pair::bare(device, &costs, true)?;
                    let run = alone.ask(Asks { bytes, depth, is_read }, at, monitor)?;
                    let point = format!("mb_s.{direction}.{}.{depth}.{kib}", device.key);
                    metrics.insert(point, mb_s(&run));
                }
            }
        }
    }
    Ok(metrics)
}

fn records_per_page(line_bytes: u32) -> Result<f64, Error> {
    let options = OcfOptions { version: OcfVersion::V22, line_bytes };
    let info = DeviceInfo::new("cache", 1 << 30, 512, 1 << 20);
    let geometry = Geometry::new(&info, 0, &options).map_err(refused)?;
    Ok(f64::from(geometry.lines_per_page()))
}

fn judge(summary: &Summary) -> Judgement {
    let mut checks = Checks::default();
    for value in BLOCK_RAW.references {
        let ours = summary.mean(value.metric);
        checks = checks.near(value.metric, ours, BLOCK_RAW.references, value.metric, OFF_STUDY);
    }
    for direction in ["write", "read"] {
        let of = |device: &Storage, kib: u64| {
            summary.mean(&format!("mb_s.{direction}.{}.1.{kib}", device.key))
        };
        let is_in_order =
            |kib: &u64| OF_STUDY.windows(2).all(|two| of(two[0], *kib) > of(two[1], *kib));
        let off: Vec<u64> = WRITE_KIB.into_iter().filter(|kib| !is_in_order(kib)).collect();
        let gap = |kib: u64| of(&PMEM, kib) / of(&P5800X, kib);
        let ahead = WRITE_KIB.map(gap);
        checks = checks
            .claim(off.is_empty(), format!("{direction}s: the study's order, but at {off:?} KiB"))
            .shape(
                ahead[1..].iter().all(|longer| *longer < ahead[0]),
                format!(
                    "{direction}s: persistent memory is {:.2} times as fast as the Optane SSD at 4 KiB, {:.2} at 1 MiB",
                    ahead[0], ahead[8]
                ),
            );
    }
    checks.judge()
}
