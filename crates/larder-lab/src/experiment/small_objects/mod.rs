//! Small objects on flash: a byte model of layouts, on the same requests.
//!
//! One DRAM tier (LRU) stands before one of the layouts. The client is look-aside: a GET that misses is followed by a
//! SET. The model counts bytes and does no I/O. Every hit is checked to be the last version, and the live objects to
//! have room.
//!
//! What the drive adds is outside of the model: units of `pages` and `groups` are written in order and erased whole, so
//! DLWA is 1 on blocks and with placement. Buckets have a DLWA near 1 only with placement and spare space; on blocks
//! of a virtual SSD 2.45 was measured (`vssd-accounting`). The fold counts its cleaning itself.
//!
//! | file | what it is |
//! |---|---|
//! | `mod` | the experiment, and its parameters |
//! | `workload`, `cachelib` | the requests, recorded; requests by CacheLib's distributions |
//! | `model` | plays requests through DRAM and a layout |
//! | `objects`, `dram`, `admission` | what the client knows; DRAM; which objects may go to flash |
//! | `layout` | the trait of a layout, and what is counted of it |
//! | `buckets`, `sets` | buckets with FIFO and RRIP; sets that are rewritten |
//! | `log_before`, `log`, `fold` | a log before buckets (Kangaroo), and with sets in erase units (FairyWREN) |
//! | `groups` | groups of sets that are filled in DRAM and written whole (Nemo) |
//! | `pages`, `open_page` | pages by set as the product has them, each with a page in memory |
//! | `companions` | pages by set that are filled from DRAM at once |
//! | `cells`, `table` | layouts by name and their sizes; the metrics, and the judge |

mod admission;
mod buckets;
mod cachelib;
mod cells;
mod companions;
mod dram;
mod fold;
mod groups;
mod layout;
mod log;
mod log_before;
mod model;
mod objects;
mod open_page;
mod pages;
mod sets;
mod table;
#[cfg(test)]
mod tests;
mod workload;

use std::path::Path;

use larder_workload::generate::{self, GeneratorOptions};
use larder_workload::trace::{self, TraceOptions};
use larder_workload::{Error as WorkloadError, RequestSource};

use super::{Experiment, Metrics, Parameter, Settings};
use crate::Error;
use crate::replay::Monitor;
use admission::Policy;
use cachelib::CacheLib;
use cells::{Cell, LAYOUTS, PagesSettings, SWITCHES};
use pages::Lists;
use workload::{Limits, Recorded};

/// Bytes written by admitted byte that pages by set may write: with generators, and with a recorded trace.
const WRITES_MAX: (f64, f64) = (1.7, 2.0);

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "workload",
        default: "meta-kv-small-values",
        help: "generator of the requests, as `larder replay --workload` has them",
    },
    Parameter {
        name: "trace",
        default: "none",
        help: "file of recorded requests, instead of a generator; none for no file",
    },
    Parameter {
        name: "cachelib",
        default: "none",
        help: "folder with CacheLib's distributions (pop.json and sizes.json), instead; none for no folder",
    },
    Parameter {
        name: "requests",
        default: "3000000",
        help: "requests, 10000 to 100000000; the last 40 % are counted",
    },
    Parameter {
        name: "object_max",
        default: "640",
        help: "the largest small object, bytes of key and value, 64 to 4050; others are left out",
    },
    Parameter {
        name: "slower",
        default: "1",
        help: "seconds of the model for a second of the requests, 1 to 100000",
    },
    Parameter {
        name: "deletes",
        default: "0",
        help: "percent of the requests that delete, 0 to 50",
    },
    Parameter {
        name: "admission",
        default: "all",
        help: "all, probability:0.5 (of a version) or reject-first:0.2 (admits what comes again before this share of \
               all keys was refused)",
    },
    Parameter {
        name: "flash",
        default: "60",
        help: "flash in percent of the bytes of all different small objects, 1 to 1000",
    },
    Parameter {
        name: "soc",
        default: "4,20,40,64",
        help: "shares of flash for small objects, percent, 1 to 100, separated by commas",
    },
    Parameter {
        name: "dram",
        default: "32,128",
        help: "flash by DRAM, 4 to 1000, separated by commas",
    },
    Parameter { name: "layouts", default: "all", help: "all, or names separated by commas" },
    Parameter {
        name: "pages_factor",
        default: "3",
        help: "pages: pages of a set by SOC / DRAM, 0.5 to 20; a set has 24 to 192",
    },
    Parameter {
        name: "zone",
        default: "0.1",
        help: "pages: the oldest part of the ring whose objects with hits ride along, 0.01 to 0.5",
    },
    Parameter {
        name: "lists",
        default: "exact",
        help: "pages: memory of a set's lists: grown (of the most that they had), exact (as in the product), dense \
               (without slots that are gone)",
    },
    Parameter {
        name: "companions_factor",
        default: "2.5",
        help: "companions: pages of a set by SOC / DRAM, 0.5 to 20; a set has at least 24",
    },
    Parameter {
        name: "cold",
        default: "1",
        help: "companions: part of DRAM's time whose dirty items go along, 0 to 1, from the coldest",
    },
    Parameter {
        name: "carry",
        default: "0.3",
        help: "pages, companions: the most of a page that objects with hits take, 0 to 0.9",
    },
    Parameter {
        name: "rounds",
        default: "1",
        help: "pages, companions: rounds of the ring that a hit keeps an object, 1 to 7",
    },
    Parameter {
        name: "off",
        default: "none",
        help: "part that is switched off: none; of both carry; of pages fill (each object takes a page); of \
               companions groups, lost (clean items of DRAM whose copy has left flash), top_up",
    },
];

pub(super) static SMALL_OBJECTS: Experiment = Experiment {
    name: "small-objects",
    title: "layouts of small objects on flash: hits, bytes written, DRAM and reads, in a byte model",
    reproduces: "simulation of Kangaroo (SOSP'21), FairyWREN (OSDI'24), Nemo (ASPLOS'26) and pages by set",
    criterion: "every hit is the last version; with SOC of at most 25 times DRAM, pages by set write 1 to 1.7 bytes \
                for an admitted one (2 with a recorded trace), lose at most 0.3 points of hits against buckets with \
                FIFO (0.4 above SOC 50 %) and gain at most 8, take at most 22 bits of DRAM an object, 1.05 reads a \
                hit and 0.03 a miss",
    parameters: PARAMETERS,
    metrics: &[
        ("hit.*", "hit ratio of GETs in percent, by layout, flash / DRAM and SOC percent"),
        (
            "writes.*",
            "bytes written to flash by bytes (key and value) of the objects that DRAM gave to flash",
        ),
        ("write_bytes.*", "bytes written to flash by request"),
        ("bits.*", "bits of DRAM of the layout by object on flash; old versions' too"),
        (
            "reads_hit.*",
            "reads of flash of a look-up that hit flash, false ones included; without hits in pages in memory",
        ),
        ("hits_memory.*", "share of the layout's hits in pages or groups that are not written yet"),
        ("memory.*", "percent of DRAM that pages in memory take from its items"),
        ("reads_miss.*", "reads of flash of a look-up that missed, for nothing"),
        ("reads_expired.*", "reads of a look-up that missed and found an expired or old version"),
        (
            "reads_write.*",
            "reads of flash for writes and deletes, by objects that DRAM gave to flash",
        ),
        ("carried.*", "objects copied on flash, by objects that DRAM gave to flash"),
        ("dropped.*", "objects that came to flash and left before they reached a set, by the same"),
        ("part_filled.*", "pages written with less than nine tenths of their bytes"),
        ("dead.*", "share of the entries of which DRAM knows that are old or expired"),
        ("turns.*", "times that the engine's bytes were written during the measurement"),
        ("hit_possible", "hit ratio of a cache without limits, percent"),
        ("left_out", "share of the requests that are for larger objects"),
        ("object_bytes", "mean bytes of the different small objects"),
        ("flash_mb", "the flash, MB"),
        ("writes_max", "the bound of the criterion for bytes written"),
        ("wrong", "hits that were not the last version"),
        ("overfull", "samples in which live objects took more bytes than the engine has"),
        (
            "unaccounted",
            "runs whose counts do not add up, or with objects that are not where they should be",
        ),
    ],
    references: &[],
    needs: &[
        "writes.pages.32.4",
        "writes.pages.32.20",
        "writes.pages.32.40",
        "writes.pages.32.64",
        "hit.fifo.32.4",
        "hit.fifo.32.20",
        "hit.fifo.32.40",
        "hit.fifo.32.64",
        "wrong",
        "overfull",
        "unaccounted",
    ],
    measure,
    judge: table::judge,
};

fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let policy = Policy::read(settings.text("admission"));
    let policy = policy
        .map_err(|it| settings.refuse("admission", settings.text("admission"), &it.to_string()))?;
    let layouts = layouts(settings)?;
    let off = settings.text("off");
    if !SWITCHES.contains(&off) {
        return Err(settings.refuse(
            "off",
            off,
            &format!("must be one of {}", SWITCHES.join(", ")),
        ));
    }
    let lists = settings.text("lists");
    let lists = Lists::read(lists)
        .ok_or_else(|| settings.refuse("lists", lists, "must be one of grown, exact, dense"))?;
    let pages = PagesSettings {
        lists,
        pages_factor: settings.within("pages_factor", 0.5..=20.0)?,
        zone: settings.within("zone", 0.01..=0.5)?,
        companions_factor: settings.within("companions_factor", 0.5..=20.0)?,
        cold_share: settings.within("cold", 0.0..=1.0)?,
        carry_share: settings.within("carry", 0.0..=0.9)?,
        rounds: settings.within("rounds", 1..=7)?,
        off,
    };
    let socs = socs(settings)?;
    let drams = drams(settings)?;
    let flash_percent = settings.within("flash", 1..=1000_u64)?;
    let recorded = record(settings, seed)?;
    let flash_bytes = recorded.distinct_bytes / 100 * flash_percent;
    let mut metrics = of_requests(settings, &recorded, flash_bytes);
    let runs = (socs.len() * drams.len() * layouts.len()).max(1);
    for dram in drams {
        for soc in &socs {
            let cell = Cell::new(flash_bytes, *soc, f64::from(dram));
            for name in &layouts {
                if monitor.is_stopped() {
                    return Err(Error::run("interrupted"));
                }
                let layout = cell.layout(name, &recorded, pages);
                let mut layout = layout.ok_or_else(|| unknown(settings, name))?;
                let counts = model::play(&recorded, &mut *layout, cell, policy);
                table::note(&mut metrics, &format!("{name}.{dram}.{soc}"), &counts);
                table::note_faults(&mut metrics, &counts);
                #[allow(clippy::cast_precision_loss)] // a few hundred
                monitor.add_to_seeds(1.0 / runs as f64);
            }
        }
    }
    Ok(metrics)
}

/// The metrics of the requests themselves.
#[allow(clippy::cast_precision_loss)] // counts of a trace
fn of_requests(settings: &Settings, recorded: &Recorded, flash_bytes: u64) -> Metrics {
    let is_real = settings.text("trace") != "none";
    let all = recorded.events.len() as f64 + recorded.left_out as f64;
    let numbers = [
        ("hit_possible", 100.0 * model::possible(recorded)),
        ("left_out", recorded.left_out as f64 / all),
        ("object_bytes", recorded.object_bytes()),
        ("flash_mb", flash_bytes as f64 / 1e6),
        ("writes_max", if is_real { WRITES_MAX.1 } else { WRITES_MAX.0 }),
    ];
    numbers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn layouts(settings: &Settings) -> Result<Vec<String>, Error> {
    let text = settings.text("layouts");
    let names: Vec<String> = match text {
        "all" => LAYOUTS.map(str::to_owned).to_vec(),
        text => text.split(',').map(|name| name.trim().to_owned()).collect(),
    };
    match names.iter().find(|name| !LAYOUTS.contains(&name.as_str())) {
        Some(name) => Err(unknown(settings, name)),
        None => Ok(names),
    }
}

fn unknown(settings: &Settings, name: &str) -> Error {
    settings.refuse("layouts", name, &format!("must be all or some of {}", LAYOUTS.join(", ")))
}

fn socs(settings: &Settings) -> Result<Vec<f64>, Error> {
    let socs = settings.list::<f64>("soc")?;
    match socs.iter().find(|soc| !(1.0..=100.0).contains(*soc)) {
        Some(soc) => Err(settings.refuse("soc", &soc.to_string(), "must be 1 to 100")),
        None => Ok(socs),
    }
}

fn drams(settings: &Settings) -> Result<Vec<u32>, Error> {
    let drams = settings.list::<u32>("dram")?;
    match drams.iter().find(|dram| !(4..=1000).contains(*dram)) {
        Some(dram) => Err(settings.refuse("dram", &dram.to_string(), "must be 4 to 1000")),
        None => Ok(drams),
    }
}

fn record(settings: &Settings, seed: u64) -> Result<Recorded, Error> {
    let requests = settings.within("requests", 10_000..=100_000_000_u64)?;
    let limits = Limits {
        requests,
        object_bytes_max: settings.within("object_max", 64..=4050)?,
        slower: settings.within("slower", 1..=100_000)?,
        delete_percent: settings.within("deletes", 0..=50)?,
    };
    let recorded = Recorded::new(&mut *source(settings, requests, seed)?, limits)?;
    if recorded.keys == 0 || recorded.distinct_bytes == 0 {
        let limit = settings.text("object_max");
        return Err(settings.refuse("object_max", limit, "no request is for so small an object"));
    }
    Ok(recorded)
}

fn source(
    settings: &Settings,
    requests: u64,
    seed: u64,
) -> Result<Box<dyn RequestSource>, WorkloadError> {
    match (settings.text("trace"), settings.text("cachelib")) {
        ("none", "none") => {
            let options = GeneratorOptions { requests, span_requests: None, seed };
            generate::preset(settings.text("workload"), options)
        }
        ("none", folder) => Ok(Box::new(CacheLib::new(Path::new(folder), requests, seed)?)),
        (file, _) => trace::open(Path::new(file), &TraceOptions::default()),
    }
}
