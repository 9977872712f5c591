//! The shards of a set as a table and as bars.

use std::fmt::Write;

use indicatif::BinaryBytes;
use larder::ShardState;

use larder_server::{MovedReport, SetCounts, SetReport, ShardReport, StepReport};

/// Characters of the longest bar.
const BAR: u64 = 32;

/// A line for each shard, with its part of the keys as a bar: `#` has them, `+` is getting them, `.` is away.
pub(super) fn render(report: &SetReport) -> String {
    let mut text = format!(
        "epoch {}\n{:>5}  {:10}{:>6}{:>12}{:>7}{:>6}  {:width$}DEVICE\n",
        report.epoch,
        "SHARD",
        "STATE",
        "SINCE",
        "CAPACITY",
        "DLWA",
        "WEAR",
        "KEYS",
        width = usize::try_from(BAR).unwrap_or(0) + 2,
    );
    let weights = report.shards.iter().filter(|it| has_keys(it)).map(weight);
    let all: u64 = weights.sum();
    let most = report.shards.iter().map(weight).max().unwrap_or(1);
    for shard in &report.shards {
        text += &line(shard, all.max(1), most.max(1));
    }
    text += &report.open.as_ref().map_or_else(String::new, counted);
    text + &levelled(report)
}

/// The weight after keys were moved; servers of before do not report it.
fn weight(shard: &ShardReport) -> u64 {
    if shard.levelled_weight > 0 { shard.levelled_weight } else { shard.weight.into() }
}

/// How the drives wear, the keys that have moved for that, and why no more do.
fn levelled(report: &SetReport) -> String {
    let mut text = String::new();
    for shard in &report.shards {
        let Some(wear) = &shard.wear else { continue };
        let (number, used) = (shard.number, 100.0 * wear.used);
        let _ = write!(text, "wear of shard {number}: {used:.1} % used");
        if let Some(per_day) = wear.per_day {
            let _ = write!(text, ", {:.3} % a day", 100.0 * per_day);
        }
        if let Some(forecast) = wear.forecast {
            let _ = write!(text, ", {:.0} % at the end of its planned service", 100.0 * forecast);
        }
        text.push('\n');
    }
    for share in &report.moved {
        let MovedReport { from, to, parts, returned_parts, .. } = share;
        let percent = f64::from(*parts) / 100.0;
        let _ = write!(text, "keys of shard {from} at shard {to}: {percent:.2} %");
        if *returned_parts > 0 {
            let _ = write!(text, ", {:.2} % are back", f64::from(*returned_parts) / 100.0);
        }
        text.push('\n');
    }
    if let Some(levelling) = &report.levelling {
        let step = levelling.last_step.as_ref().map(|step| {
            let StepReport { from, to, ratio, .. } = step;
            format!("moved keys from shard {from} to shard {to}, ratio {ratio:.2}")
        });
        let _ = writeln!(
            text,
            "levelling: {}",
            levelling.pause.as_ref().or(step.as_ref()).map_or("", |it| it)
        );
    }
    text
}

/// What a server has counted since it opened the set.
fn counted(counted: &SetCounts) -> String {
    let refilled = BinaryBytes(counted.refilled_bytes);
    let under_way = match counted.refilled_permille {
        0 => String::new(),
        permille => format!(", {}.{} % of this one", permille / 10, permille % 10),
    };
    let SetCounts { late_gets, lost_changes, suspected, failed, .. } = counted;
    format!(
        "refilled {refilled}{under_way}; late gets {late_gets}; lost changes {lost_changes}; \
         suspected {suspected}, failed {failed} times\n"
    )
}

fn is(shard: &ShardReport, state: ShardState) -> bool {
    shard.state == state.name()
}

fn has_keys(shard: &ShardReport) -> bool {
    is(shard, ShardState::Healthy) || is(shard, ShardState::Refilling)
}

fn line(shard: &ShardReport, all: u64, most: u64) -> String {
    let unknown = || "-".to_owned();
    let capacity = shard.capacity_bytes.map_or_else(unknown, |it| BinaryBytes(it).to_string());
    let dlwa = shard.dlwa.map_or_else(unknown, |dlwa| format!("{dlwa:.2}"));
    let wear = shard.used_percent.map_or_else(unknown, |it| format!("{it} %"));
    let since = if shard.since == 0 { unknown() } else { shard.since.to_string() };
    let weight = weight(shard);
    let mark = if is(shard, ShardState::Healthy) {
        "#"
    } else if is(shard, ShardState::Refilling) {
        "+"
    } else {
        "."
    };
    let bar = mark.repeat(usize::try_from((weight * BAR).div_ceil(most)).unwrap_or(0));
    let part = if has_keys(shard) { 100 * weight / all } else { 0 };
    let name = shard.device.as_deref().unwrap_or("");
    let why = shard.down.as_deref().unwrap_or("");
    let suspicion =
        shard.suspicion.as_ref().map_or_else(String::new, |why| format!(", suspected: {why}"));
    let width = usize::try_from(BAR).unwrap_or(0);
    format!(
        "{:>5}  {:10}{since:>6}{capacity:>12}{dlwa:>7}{wear:>6}  {bar:width$}  {name}{why} ({part} %){suspicion}\n",
        shard.number, shard.state,
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use larder::{Config, Device, RealClock, Shards, block_on};
    use larder_device::MemoryDevice;

    use super::*;

    #[test]
    fn bars_are_as_long_as_parts_of_the_keys() {
        let device = |mib: usize| -> Option<Arc<dyn Device>> {
            Some(Arc::new(MemoryDevice::holding(vec![0; mib << 20])))
        };
        let devices = vec![device(64), device(32), device(32)];
        let cache = block_on(Shards::open(Config::default(), devices, Arc::new(RealClock)));
        let cache = cache.unwrap();
        assert_eq!(block_on(cache.move_keys(0, 2, 2_500)).unwrap(), 2_500);
        let text = render(&SetReport::closed(cache.status()));
        assert!(text.contains("keys of shard 0 at shard 2: 25.00 %"), "{text}");
        // 64 - 16, 32 and 32 + 16 of 128.
        assert_eq!(text.matches("(37 %)").count(), 2, "{text}");
        assert_eq!(block_on(cache.move_keys(2, 0, 10_000)).unwrap(), 2_500);
        block_on(cache.fail_shard(1)).unwrap();
        let text = render(&SetReport::closed(cache.status()));
        let lines: Vec<&str> = text.lines().collect();
        let count = |line: &str, mark| line.matches(mark).count();
        assert_eq!(count(lines[2], '#'), 32, "{text}");
        assert!(count(lines[3], '.') >= 16 && lines[3].contains("failed"), "{text}");
        assert!(count(lines[4], '#') == 16 && lines[4].contains("(33 %)"), "{text}");
        block_on(cache.close()).unwrap();
    }
}
