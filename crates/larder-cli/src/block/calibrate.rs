//! `larder block calibrate`: measures a cache's devices, shows the result, and can keep it on the label.

use indicatif::BinaryBytes;
use larder_block::calibration::{DeviceProfile, MeasureOptions, Profile};
use larder_block::manage::{self, CalibrateOptions};
use larder_block::policy::Direction;
use larder_block::{Error as BlockError, ErrorKind};
use larder_device::{RealClock, block_on};
use larder_workload::Error;
use serde::Serialize;

use super::cores::{self, failed};
use super::target;
use crate::args::CalibrateArgs;
use crate::ending::Ending;
use crate::json::JsonTarget;

#[derive(Debug, Serialize)]
struct CalibrationReport {
    points: Vec<CalibrationPoint>,
    /// Where routing begins; `None` if the measurements do not say.
    routing: Option<RoutingStart>,
    stored: bool,
}

/// Measurements of a device for one kind of request.
#[derive(Debug, Serialize)]
struct CalibrationPoint {
    /// `None`: the cache device.
    core: Option<u16>,
    direction: &'static str,
    bytes: u32,
    depth: u16,
    bytes_per_second: u64,
    latency_ns: u64,
}

#[derive(Debug, Serialize)]
struct RoutingStart {
    cache_bytes_per_second: u64,
    core_bytes_per_second: u64,
    cache_latency_ns: u64,
}

pub(super) fn run(arguments: &CalibrateArgs) -> Result<Ending, Error> {
    let json = JsonTarget::prepare(arguments.output.json.as_deref())?;
    let device = target::open(&arguments.cache)?;
    let cores = match block_on(manage::look(&device)) {
        Ok(seen) => {
            cores::of_known(&arguments.cache, &seen.stored, &arguments.cores, &[])?.all()?
        }
        Err(error) if is_no_cache(&error) && !arguments.store => {
            cores::of_new(&arguments.cache, &arguments.cores)?
        }
        Err(error) => return Err(failed(&error)),
    };
    let measure = MeasureOptions {
        time: arguments.time,
        seed: std::process::id().into(),
        ..MeasureOptions::default()
    };
    let options = CalibrateOptions { measure, writes_cache: arguments.writes };
    let profile = block_on(manage::calibrate(&device, &cores, &options, &RealClock));
    let profile = profile.map_err(|error| failed(&error))?;
    if arguments.store {
        let stored = block_on(manage::store_profile(&device, profile.clone()));
        stored.map_err(|error| failed(&error))?;
    }
    let calibrated = CalibrationReport::of(&profile, arguments.store);
    json.tell(&calibrated.render())?;
    json.write(&calibrated)?;
    Ok(Ending::Complete)
}

fn is_no_cache(error: &BlockError) -> bool {
    error.kind() == ErrorKind::Format
}

fn nanoseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl CalibrationReport {
    fn of(profile: &Profile, stored: bool) -> Self {
        let of_device = |core: Option<u16>, device: &DeviceProfile| {
            let measured = device.points.iter().map(move |point| CalibrationPoint {
                core,
                direction: if point.direction == Direction::Read { "read" } else { "write" },
                bytes: point.bytes,
                depth: point.depth,
                bytes_per_second: point.bytes_per_second,
                latency_ns: nanoseconds(point.latency),
            });
            measured.collect::<Vec<_>>()
        };
        let cores = profile.cores.iter();
        let cores = cores.flat_map(|core| of_device(Some(core.core.get()), &core.device));
        let points = of_device(None, &profile.cache).into_iter().chain(cores).collect();
        let routing = profile.routing().map(|known| RoutingStart {
            cache_bytes_per_second: known.cache_bytes_per_second,
            core_bytes_per_second: known.core_bytes_per_second,
            cache_latency_ns: nanoseconds(known.cache_latency),
        });
        Self { points, routing, stored }
    }

    fn render(&self) -> String {
        let mut text = format!(
            "{:8}{:>10}{:>12}{:>8}{:>16}{:>14}\n",
            "DEVICE", "DIRECTION", "BYTES", "DEPTH", "A SECOND", "LATENCY"
        );
        for point in &self.points {
            let device = point.core.map_or("cache".to_owned(), |core| format!("core {core}"));
            let latency = format!("{:.1?}", std::time::Duration::from_nanos(point.latency_ns));
            text += &format!(
                "{device:8}{:>10}{:>12}{:>8}{:>16}{latency:>14}\n",
                point.direction,
                BinaryBytes(point.bytes.into()).to_string(),
                point.depth,
                BinaryBytes(point.bytes_per_second).to_string(),
            );
        }
        text += match (&self.routing, self.stored) {
            (None, _) => "routing cannot begin: reads of 4 KiB say nothing\n",
            (Some(_), true) => "stored; routing is auto from the next start on\n",
            (Some(_), false) => "not stored; --store keeps it on the label of a cache\n",
        };
        text
    }
}
