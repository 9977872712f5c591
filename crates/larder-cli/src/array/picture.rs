//! The shards of a set as a table and as bars.

use indicatif::BinaryBytes;
use larder::ShardState;

use larder_server::{SetCounts, SetReport, ShardReport};

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
    let weights = report.shards.iter().filter(|it| has_keys(it)).map(|it| u64::from(it.weight));
    let all: u64 = weights.sum();
    let most = report.shards.iter().map(|it| u64::from(it.weight)).max().unwrap_or(1);
    for shard in &report.shards {
        text += &line(shard, all.max(1), most.max(1));
    }
    text + &report.open.as_ref().map_or_else(String::new, counted)
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
    let weight = u64::from(shard.weight);
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
