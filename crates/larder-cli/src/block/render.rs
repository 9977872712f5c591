//! Formats the reports of a cache for people.

use indicatif::{BinaryBytes, HumanCount};

use super::latency;
use super::report::{
    Destaged, DirtyCore, Requests, RoutingReport, Running, StartFindings, Stats, Status, Usage,
};

/// Which cache it is, its settings, and its contents.
pub(super) fn status(status: &Status) -> String {
    let Status { uuid, layout, mode, .. } = status;
    let mut text = format!("cache      {uuid}\n");
    text += &format!(
        "layout     {layout}, lines of {}, {} for data\n",
        BinaryBytes(u64::from(status.line_bytes)),
        BinaryBytes(status.capacity_bytes)
    );
    if status.header_metadata_bytes > 0 {
        let bytes = status.header_metadata_bytes;
        text += &format!("headers    in {bytes} bytes of metadata beside each block\n");
    }
    text += &format!("mode       {mode}\n");
    for core in &status.cores {
        let number = format!("core {}", core.core);
        text += &format!("{number:10} {}, {}", core.path, BinaryBytes(core.bytes));
        for (kind, value) in &core.known_by {
            text += &format!(", {kind} {value}");
        }
        if core.missing {
            let dirty = BinaryBytes(core.dirty_bytes.unwrap_or_default());
            text += &format!("; MISSING: {dirty} of it stay dirty on the cache device");
        } else if let Some(of) = core.compared {
            text += &format!(
                "; {} blocks compared with its fingerprint, {} differ, {} tell it from others",
                of.blocks, of.differing, of.distinguishing
            );
        }
        text += "\n";
    }
    for disk in &status.ublk {
        text += &format!("ublk       {}\n", disk.render());
    }
    if status.is_distrusted {
        text += "content    none that is believed: cores were written past it, after errors\n";
    }
    match (status.was_stopped, &status.running) {
        (_, Some(it)) => text += &running(it),
        (Some(true), _) => text += "state      stopped\n",
        (Some(false), _) => {
            text += "state      not stopped: it runs, or has crashed; the next start finds what it has\n";
        }
        (None, None) => {}
    }
    text
}

fn running(it: &Running) -> String {
    let health = match (it.attached, it.healthy) {
        (false, _) => "; its cache device was DETACHED: `larder block attach` gives it another",
        (true, false) => "; its device has FAILED and is not written to",
        (true, true) => "",
    };
    let mut text = format!("state      runs for {} s{health}\n", it.seconds);
    text += &format!("found      {}\n", found(&it.found));
    let loading = match it.unloaded_parts {
        0 => String::new(),
        parts => format!("; at most: {parts} parts of what was found are being loaded"),
    };
    text += &format!("usage      {}{loading}\n", usage(&it.usage));
    text += &format!("cut-off    {}\nread-ahead {}\n", it.cut_off, it.read_ahead);
    text += &format!("promotion  {}\n", it.promotion);
    text += &format!("cleaning   {}\nclasses    {}\n", it.cleaning, it.io_classes);
    text += &format!("routing    {}", it.routing);
    if let Some(RoutingReport { state, core_permille }) = &it.routed {
        let share = percent(ratio(u64::from(*core_permille), 1000));
        text += &format!(": {state}, {share} of clean hits to the core");
    }
    text += &format!("\nbypass     {}: {}\n", it.bypass, it.pressure);
    text += &format!("memory     {}\n", BinaryBytes(it.memory_bytes as u64));
    text
}

/// The damage that was accepted, if there is any.
fn damage(found: &StartFindings) -> Option<String> {
    let StartFindings { damaged, lost_bytes, .. } = *found;
    let lost = BinaryBytes(lost_bytes);
    (damaged > 0).then(|| {
        format!(
            "DAMAGED in {damaged} places, as was accepted: {lost} lost that only the cache had, as far as is known"
        )
    })
}

/// Warns the user of accepted damage.
pub(super) fn warn_of_damage(found: &StartFindings) {
    if let Some(damage) = damage(found) {
        eprintln!("warning: the cache is {damage}");
    }
}

/// What a start has found.
pub(super) fn found(found: &StartFindings) -> String {
    let StartFindings { valid_bytes, dirty_bytes, torn, failed_reads, compared, changed, .. } =
        *found;
    let mut text =
        format!("{} cached, of it {} dirty", BinaryBytes(valid_bytes), BinaryBytes(dirty_bytes));
    if torn > 0 {
        text += &format!("; {torn} torn writes left aside");
    }
    if failed_reads > 0 {
        text += &format!("; {failed_reads} READS REFUSED by the device: dirty data may be lost");
    }
    if let Some(damage) = damage(found) {
        text += &format!("; {damage}");
    }
    if compared > 0 {
        text += &format!("; {compared} pieces compared with the cores, {changed} differ");
    }
    if changed > 0 {
        text += ": what was clean is dropped";
    }
    text
}

fn usage(usage: &Usage) -> String {
    let Usage { capacity_bytes, occupied_bytes, dirty_bytes, .. } = *usage;
    format!(
        "{} of {} ({}), of it {} dirty",
        BinaryBytes(occupied_bytes),
        BinaryBytes(capacity_bytes),
        percent(ratio(occupied_bytes, capacity_bytes)),
        BinaryBytes(dirty_bytes)
    )
}

type Cell = fn(&Requests) -> String;

/// The statistics of a cache.
pub(super) fn stats(stats: &Stats) -> String {
    let mut text = format!("usage      {}\n\n", usage(&stats.usage));
    text += &format!("{:22}{:>16}{:>16}\n", "REQUESTS", "READS", "WRITES");
    let rows: [(&str, Cell); 7] = [
        ("hits", |of| count(of.hits)),
        ("partial misses", |of| count(of.partial_misses)),
        ("full misses", |of| count(of.full_misses)),
        ("pass-through", |of| count(of.pass_through)),
        ("total", |of| count(of.total)),
        ("bytes", |of| BinaryBytes(of.bytes).to_string()),
        ("hit ratio", |of| percent(of.hit_ratio)),
    ];
    for (name, cell) in rows {
        text += &format!("{name:22}{:>16}{:>16}\n", cell(&stats.reads), cell(&stats.writes));
    }
    text += &format!("{:22}{:>16}\n", "hits of the core", count(stats.core_hits));
    text += &format!("{:22}{:>16}\n", "times saturated", count(stats.saturations));
    let ahead = &stats.read_ahead;
    text += &format!("\n{:22}{:>16}{:>16}{:>16}\n", "READ AHEAD", "REQUESTS", "BYTES", "FAILED");
    let (bytes, failed) = (BinaryBytes(ahead.bytes).to_string(), count(ahead.failed));
    text += &format!("{:22}{:>16}{bytes:>16}{failed:>16}\n", "cores", count(ahead.requests));
    text += &format!("\n{:22}{:>16}{:>16}{:>16}\n", "DEVICES", "READ", "WRITTEN", "FLUSHES");
    let devices = [
        ("cores", stats.core_read_bytes, stats.core_written_bytes, stats.core_flushes),
        ("cache", stats.cache_read_bytes, stats.cache_written_bytes, stats.cache_flushes),
    ];
    for (name, read, written, flushes) in devices {
        let (read, written) = (BinaryBytes(read).to_string(), BinaryBytes(written).to_string());
        text += &format!("{name:22}{read:>16}{written:>16}{:>16}\n", count(flushes));
    }
    let kinds = [
        ("  of it metadata", stats.metadata_bytes),
        ("  of it dirty data", stats.dirty_bytes),
        ("  of it clean data", stats.clean_bytes),
    ];
    let beside = Some(("  beside its blocks", stats.beside_bytes)).filter(|(_, bytes)| *bytes > 0);
    for (name, bytes) in kinds.into_iter().chain(beside) {
        text += &format!("{name:22}{:>16}{:>16}\n", "", BinaryBytes(bytes).to_string());
    }
    let factor = stats.write_amplification;
    let factor = factor.map_or_else(|| "-".to_owned(), |factor| format!("{factor:.3}"));
    text += &format!("{:38}{factor:>16}\n", "cache written for a byte of users");
    let destaged = BinaryBytes(stats.destaged_for_classes_bytes).to_string();
    text += &format!("{:38}{destaged:>16}\n", "destaged for full IO classes");
    text += &format!("\n{:22}{:>16}\n", "PASSED BY", "REQUESTS");
    for bypass in &stats.bypasses {
        text += &format!("{:22}{:>16}\n", bypass.reason, count(bypass.requests));
    }
    let errors = &stats.errors;
    text += &format!("\n{:22}{:>16}{:>16}\n", "ERRORS", "READS", "WRITES");
    let rows = [
        ("cores", errors.core_reads, errors.core_writes),
        ("cache", errors.cache_reads, errors.cache_writes),
    ];
    for (name, reads, writes) in rows {
        text += &format!("{name:22}{:>16}{:>16}\n", count(reads), count(writes));
    }
    text + &latency::render(&stats.latencies) + &parts(stats)
}

/// A line for each core, and for each IO class if there is more than one.
fn parts(stats: &Stats) -> String {
    let cores = stats
        .cores
        .iter()
        .map(|of| (format!("core {}", of.core), String::new(), [of.reads, of.writes], of.bypasses));
    let classes = stats.classes.iter().filter(|_| stats.classes.len() > 1).map(|of| {
        let has = format!("{} of {}", BinaryBytes(of.occupied_bytes), BinaryBytes(of.most_bytes));
        (format!("class {} {}", of.class, of.name), has, [of.reads, of.writes], of.bypasses)
    });
    let mut text = format!(
        "\n{:22}{:>26}{:>14}{:>14}{:>14}\n",
        "PARTS", "HAS", "READ HITS", "WRITE HITS", "PASSED BY"
    );
    for (name, has, requests, bypasses) in cores.chain(classes) {
        let [reads, writes] = requests.map(|of| percent(of.hit_ratio));
        text += &format!("{name:22}{has:>26}{reads:>14}{writes:>14}{:>14}\n", count(bypasses));
    }
    text
}

/// What was destaged, and what is still dirty.
pub(super) fn destaged(destaged: &Destaged) -> String {
    let Destaged { dirty_before_bytes: before, dirty_bytes } = *destaged;
    format!(
        "destaged   {}; {} dirty\n",
        BinaryBytes(before.saturating_sub(dirty_bytes)),
        BinaryBytes(dirty_bytes)
    )
}

/// Ranges that only the cache has.
pub(super) fn dirty(cores: &[DirtyCore]) -> String {
    let mut text = format!("{:>6}{:>20}{:>16}\n", "CORE", "OFFSET", "BYTES");
    if cores.iter().all(|core| core.ranges.is_empty()) {
        return "nothing is dirty\n".to_owned();
    }
    for core in cores {
        for range in &core.ranges {
            text += &format!("{:>6}{:>20}{:>16}\n", core.core, range.offset, range.bytes);
        }
        if core.has_more {
            text += &format!("{:>6}{:>20}\n", core.core, "and more");
        }
    }
    text
}

#[allow(clippy::cast_precision_loss)]
fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn percent(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{:.1} %", ratio * 100.0))
}

fn count(number: u64) -> String {
    HumanCount(number).to_string()
}
