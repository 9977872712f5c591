//! `larder device stats`.

use std::time::Duration;

use larder_device::nvme::fdp::read_endurance;
use larder_device::nvme::smart::{LifeBasis, LifeForecast, read_smart};
use larder_device::nvme::watch::{self, Watch};
use larder_device::nvme::{Asked, Commands, FdpCounters, Node, Silence};
use larder_ssd::nvme::endurance_log::EnduranceLog;
use larder_ssd::nvme::smart::SmartLog;
use larder_workload::Error;
use serde::Serialize;

use super::machine::Machine;
use super::{
    Missing, UnavailableFact, WAY_OUT, clamp, deliver, find, group_of, human, json_target, open,
    row, survey,
};
use crate::args::DeviceStatsArgs;
use crate::ending::Ending;
use crate::json::JsonTarget;

/// Columns of the chart of live DLWA.
const COLUMNS: usize = 40;
/// Intervals that a watch keeps for its JSON.
const INTERVALS_KEPT: u32 = 3600;

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Stats {
    /// The block device.
    path: String,
    /// Model and serial number.
    model: String,
    /// The endurance group whose counters these are.
    endurance_group: Option<u16>,
    /// Bytes that hosts wrote (HBMW; else data units written).
    host_bytes: Option<u64>,
    /// Bytes written to media (MBMW; else media units written).
    media_bytes: Option<u64>,
    /// Bytes of media erased (MBE).
    erased_bytes: Option<u64>,
    /// Media bytes per host byte since the group was made.
    dlwa: Option<f64>,
    /// Life that is used up; may exceed 100.
    used_percent: Option<u8>,
    /// Spare capacity that is left.
    spare_percent: Option<u8>,
    /// Spare capacity below which the drive warns.
    spare_threshold_percent: Option<u8>,
    /// Hours under power.
    power_on_hours: Option<u64>,
    /// Errors of media and data integrity.
    media_errors: Option<u64>,
    /// Bits of the SMART log's first byte.
    critical_warning: Option<u8>,
    /// Media bytes of the drive's lifetime, by its maker's estimate.
    endurance_bytes: Option<u64>,
    /// Years until the life is used up at the rate so far.
    life_years_left: Option<f64>,
    /// `endurance estimate` or `percentage used`.
    life_basis: Option<&'static str>,
    /// What `--watch` measured.
    watch: Option<WatchReport>,
    /// The facts that could not be found out.
    unavailable: Vec<UnavailableFact>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct WatchReport {
    /// Seconds between two readings.
    interval_s: f64,
    /// Bytes that hosts wrote since the start.
    host_bytes: u64,
    /// Bytes written to media since the start.
    media_bytes: u64,
    /// Bytes of media erased since the start.
    erased_bytes: Option<u64>,
    /// Media bytes per host byte since the start; null if no host wrote.
    dlwa: Option<f64>,
    /// Number of times that counters went back, which restarts the watch.
    restarts: u32,
    /// The intervals, oldest first; the last 3600.
    intervals: Vec<IntervalFacts>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct IntervalFacts {
    /// Length of the interval.
    seconds: f64,
    /// Bytes that hosts wrote in it.
    host_bytes: u64,
    /// Bytes written to media.
    media_bytes: u64,
    /// Bytes of media erased.
    erased_bytes: Option<u64>,
    /// Media bytes per host byte; null if no host wrote.
    dlwa: Option<f64>,
}

pub(super) fn run(arguments: &DeviceStatsArgs, machine: &dyn Machine) -> Result<Ending, Error> {
    let json = json_target(&arguments.on.output)?;
    let node = find(&arguments.on.device, machine)?;
    let drive = open(&node, machine);
    let stats = Stats::read(&node, &drive);
    if arguments.watch {
        return watch_it(arguments, machine, &drive, stats, json);
    }
    let text = stats.render();
    deliver(machine, json, &text, &stats)?;
    Ok(Ending::Complete)
}

impl Stats {
    fn read(node: &Node, drive: &Asked<Box<dyn Commands>>) -> Self {
        let mut missing = Missing::default();
        let asking = drive.as_ref().map(AsRef::as_ref).map_err(Clone::clone);
        let group = group_of(&survey(node, drive));
        let in_group = || Ok((asking.clone()?, group.clone()?));
        let counters: Asked<FdpCounters> =
            in_group().and_then(|(drive, group)| Ok(FdpCounters::read(drive, group)?));
        let endurance: Asked<EnduranceLog> =
            in_group().and_then(|(drive, group)| Ok(read_endurance(drive, group)?));
        let smart: Asked<SmartLog> =
            asking.clone().and_then(|drive| read_smart(drive).map_err(Silence::from));
        let life = forecast(&smart, endurance.as_ref().ok());
        let erased = counters.as_ref().map_err(Clone::clone).and_then(|counters| {
            counters.erased_bytes.ok_or_else(|| Silence {
                why: "the drive does not report it".to_owned(),
                denied: false,
            })
        });
        let counted = missing.or_note("host and media bytes", counters);
        let erased = missing.or_note("media bytes erased", erased);
        let endurance = missing.or_note("endurance group log", endurance);
        let smart = missing.or_note("SMART log", smart);
        let life = missing.or_note("life that is left", life);
        // Without the counters of the group we use the host bytes of the SMART log.
        let host_bytes =
            counted.map(|it| it.host_bytes).or_else(|| smart.as_ref().map(|it| it.host_bytes));
        Self {
            path: node.block_path.display().to_string(),
            model: node.model.clone(),
            endurance_group: group.ok(),
            host_bytes: host_bytes.map(clamp),
            media_bytes: counted.map(|it| clamp(it.media_bytes)),
            erased_bytes: erased.map(clamp),
            dlwa: counted.and_then(|it| it.dlwa()),
            used_percent: smart.map(|it| it.used_percent),
            spare_percent: smart.map(|it| it.available_spare_percent),
            spare_threshold_percent: smart.map(|it| it.spare_threshold_percent),
            power_on_hours: smart.map(|it| clamp(it.power_on_hours)),
            media_errors: smart.map(|it| clamp(it.media_errors)),
            critical_warning: smart.map(|it| it.critical_warning),
            endurance_bytes: endurance
                .map(|it| clamp(it.endurance_bytes))
                .filter(|bytes| *bytes > 0),
            life_years_left: life.map(|it| it.years_left),
            life_basis: life.map(|it| basis(it.basis)),
            watch: None,
            unavailable: missing.0,
        }
    }

    fn render(&self) -> String {
        let mut text = row(&self.path, &self.model);
        let mut line = |label: &str, value: Option<String>| {
            if let Some(value) = value {
                text += &row(label, &value);
            }
        };
        line("host bytes written", self.host_bytes.map(exact));
        line("media bytes written", self.media_bytes.map(exact));
        line("media bytes erased", self.erased_bytes.map(exact));
        if self.media_bytes.is_some() {
            line("DLWA since it was made", Some(factor(self.dlwa)));
        }
        line("life used", self.used_percent.map(|percent| format!("{percent} %")));
        if let (Some(spare), Some(threshold)) = (self.spare_percent, self.spare_threshold_percent) {
            line("spare", Some(format!("{spare} % (warns below {threshold} %)")));
        }
        line("power-on hours", self.power_on_hours.map(|hours| hours.to_string()));
        line("media errors", self.media_errors.filter(|it| *it > 0).map(|it| it.to_string()));
        line("critical warning", self.critical_warning.filter(|it| *it > 0).map(warnings));
        line("endurance estimate", self.endurance_bytes.map(exact));
        if let (Some(years), Some(basis)) = (self.life_years_left, self.life_basis) {
            let forecast = format!("{years:.1} years if used as so far (from the {basis})");
            line("life that is left", Some(forecast));
        }
        text + &Missing(self.unavailable.clone()).render()
    }
}

fn forecast(smart: &Asked<SmartLog>, endurance: Option<&EnduranceLog>) -> Asked<LifeForecast> {
    let smart = smart.as_ref().map_err(Clone::clone)?;
    LifeForecast::of(smart, endurance).ok_or_else(|| {
        let why = if smart.power_on_hours == 0 {
            "the drive counts no hours yet"
        } else {
            "too little is used up for a forecast"
        };
        Silence { why: why.to_owned(), denied: false }
    })
}

fn basis(basis: LifeBasis) -> &'static str {
    match basis {
        LifeBasis::EnduranceEstimate => "endurance estimate",
        LifeBasis::PercentageUsed => "percentage used",
    }
}

fn warnings(bits: u8) -> String {
    const NAMES: [&str; 6] = [
        "spare is low",
        "temperature",
        "reliability is degraded",
        "media are read-only",
        "backup of volatile memory failed",
        "persistent memory is read-only",
    ];
    let set = NAMES.iter().enumerate().filter(|(bit, _)| bits & 1 << bit != 0);
    let names: Vec<&str> = set.map(|(_, name)| *name).collect();
    if names.is_empty() { format!("bits {bits:#04x}") } else { names.join(", ") }
}

/// Reads the counters until the user interrupts, and prints a line for each interval.
fn watch_it(
    arguments: &DeviceStatsArgs,
    machine: &dyn Machine,
    drive: &Asked<Box<dyn Commands>>,
    mut stats: Stats,
    json: JsonTarget,
) -> Result<Ending, Error> {
    let silent = |why: &str| {
        Error::run(format!("--watch {}: {why}; {WAY_OUT}", arguments.on.device.display()))
    };
    let reason = stats.unavailable.iter().find(|it| it.what == "host and media bytes");
    if let Some(reason) = reason {
        return Err(silent(&reason.why));
    }
    let drive = drive.as_ref().map_err(|silence| silent(&silence.why))?;
    let Some(group) = stats.endurance_group else { return Err(silent("no endurance group")) };
    machine.catch_interrupt()?;
    let say = |text: &str| machine.say(text, json.is_stdout());
    say(&stats.render())?;
    let interval = arguments.interval;
    let mut watch = Watch::new(group, interval, interval * INTERVALS_KEPT);
    poll(&mut watch, machine, drive.as_ref())?;
    say(&format!(
        "\n{:>8}  {:>10}  {:>10}  {:>7}  {:>7}  live DLWA\n",
        "seconds", "host", "media", "live", "start"
    ))?;
    let mut shown = 0;
    while arguments.samples.is_none_or(|most| shown < most) {
        let due = watch.next_at().unwrap_or_default();
        if !machine.wait(due.saturating_sub(machine.now())) {
            break;
        }
        if poll(&mut watch, machine, drive.as_ref())? {
            shown += 1;
            say(&line(&watch))?;
        }
    }
    stats.watch = Some(WatchReport::of(&watch, interval));
    json.write(&stats)?;
    // An interrupt is the intended end.
    Ok(Ending::Complete)
}

fn poll(watch: &mut Watch, machine: &dyn Machine, drive: &dyn Commands) -> Result<bool, Error> {
    let sample = watch.poll(machine.now(), drive);
    sample
        .map(|sample| sample.is_some())
        .map_err(|error| Error::run(format!("--watch: reading the counters: {error}")))
}

fn line(watch: &Watch) -> String {
    let Some(last) = watch.last_interval() else {
        return "the counters went back: the drive was set up anew, and the watch with it\n".into();
    };
    let start = watch.since_start().map_or(0.0, |it| (it.to.saturating_sub(it.from)).as_secs_f64());
    let live: Vec<Option<f64>> = watch.intervals().map(|it| it.dlwa()).collect();
    let newest = live.get(live.len().saturating_sub(COLUMNS)..).unwrap_or_default();
    format!(
        "{start:>8.1}  {:>10}  {:>10}  {:>7}  {:>7}  {}\n",
        human(clamp(last.host_bytes)),
        human(clamp(last.media_bytes)),
        factor(last.dlwa()),
        factor(watch.dlwa_since_start()),
        sparkline(newest)
    )
}

/// A column for each value. The lowest block is a DLWA of 1 or less, the highest the largest shown value, at least 2; a
/// dot is an interval without host writes.
fn sparkline(values: &[Option<f64>]) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let top = values.iter().flatten().copied().fold(2.0, f64::max);
    let block = |value: f64| {
        let share = ((value - 1.0) / (top - 1.0)).clamp(0.0, 1.0);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 0 to 7
        let step = (share * 7.0).round() as usize;
        BLOCKS[step.min(7)]
    };
    values.iter().map(|value| value.map_or('·', block)).collect()
}

impl WatchReport {
    fn of(watch: &Watch, interval: Duration) -> Self {
        let all = watch.since_start();
        Self {
            interval_s: interval.as_secs_f64(),
            host_bytes: all.map_or(0, |it| clamp(it.host_bytes)),
            media_bytes: all.map_or(0, |it| clamp(it.media_bytes)),
            erased_bytes: all.and_then(|it| it.erased_bytes).map(clamp),
            dlwa: watch.dlwa_since_start(),
            restarts: watch.restarts(),
            intervals: watch.intervals().map(IntervalFacts::of).collect(),
        }
    }
}

impl IntervalFacts {
    fn of(interval: watch::Interval) -> Self {
        Self {
            seconds: interval.to.saturating_sub(interval.from).as_secs_f64(),
            host_bytes: clamp(interval.host_bytes),
            media_bytes: clamp(interval.media_bytes),
            erased_bytes: interval.erased_bytes.map(clamp),
            dlwa: interval.dlwa(),
        }
    }
}

fn exact(bytes: u64) -> String {
    format!("{} ({bytes} bytes)", human(bytes))
}

fn factor(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.4}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_is_as_high_as_what_it_shows() {
        let values = [Some(1.0), None, Some(1.5), Some(2.0), Some(0.0)];
        assert_eq!(sparkline(&values), "▁·▅█▁");
        assert_eq!(sparkline(&[Some(1.0), Some(8.0)]), "▁█");
        assert_eq!(sparkline(&[]), "");
    }

    #[test]
    fn warnings_have_names() {
        assert_eq!(warnings(0b101), "spare is low, reliability is degraded");
        assert_eq!(warnings(0x80), "bits 0x80");
    }
}
