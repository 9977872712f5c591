//! The table: what a run counted, as metrics of its cell; and the judge.

use super::super::judge::{Checks, Judgement};
use super::super::{Metrics, Summary};
use super::layout::PAGE_BYTES;
use super::model::{Counts, SAMPLES};

/// SOC by DRAM up to which pages by set are meant to be used.
const RATIO_MAX: f64 = 25.0;
/// Bits of DRAM that an object may take.
const BITS_MAX: f64 = 22.0;
/// Reads of a look-up that hits flash, and share of misses that read.
const HIT_READS_MAX: f64 = 1.05;
const MISS_READS_MAX: f64 = 0.03;
/// Points of the hit ratio that may be lost against buckets with FIFO; the second for SOC of more than half.
const POINTS_LOST: (f64, f64) = (0.3, 0.4);
/// More than that above FIFO is no better layout but a mistake of the model.
const POINTS_GAINED_MAX: f64 = 8.0;

/// Notes the metrics of a run. `at` is `layout.dram.soc`.
#[allow(clippy::cast_precision_loss)] // counts of a run
pub(super) fn note(metrics: &mut Metrics, at: &str, counts: &Counts) {
    let by = |a: f64, b: u64| a / b.max(1) as f64;
    let Counts { gets, dram_hits, flash_hits, misses, written, held, .. } = *counts;
    let mut put = |name: &str, value: f64| metrics.insert(format!("{name}.{at}"), value);
    put("hit", 100.0 * by((dram_hits + flash_hits) as f64, gets));
    put("writes", by(written.flash_bytes as f64, written.admitted_bytes));
    put("write_bytes", by(written.flash_bytes as f64, counts.requests));
    put("bits", by(held.dram_bits, held.objects));
    put("reads_hit", by(counts.hit_reads, flash_hits - counts.memory_hits));
    put("hits_memory", by(counts.memory_hits as f64, flash_hits));
    put("memory", 100.0 * by(counts.memory_bytes as f64, counts.dram_bytes * counts.samples));
    put("reads_miss", by(counts.miss_reads, misses));
    put("reads_expired", by(counts.expired_reads as f64, misses));
    put("reads_write", by(written.reads as f64, written.admitted));
    put("carried", by(written.carried as f64, written.admitted));
    put("dropped", by(written.dropped as f64, written.admitted));
    put("part_filled", by(written.part_filled as f64, written.pages));
    put("dead", 1.0 - by(held.objects as f64, held.entries));
    let turns = written.flash_bytes as f64 / counts.soc_bytes.max(1) as f64;
    put("turns", turns);
}

/// Adds the faults of a run to those of all.
#[allow(clippy::cast_precision_loss)]
pub(super) fn note_faults(metrics: &mut Metrics, counts: &Counts) {
    let Counts { gets, dram_hits, flash_hits, misses, written, .. } = *counts;
    let is_counted = dram_hits + flash_hits + misses == gets
        && written.flash_bytes >= written.pages * PAGE_BYTES
        && counts.astray == 0
        && counts.samples == SAMPLES as u64;
    let faults = [
        ("wrong", counts.wrong),
        ("overfull", counts.overfull),
        ("unaccounted", u64::from(!is_counted)),
    ];
    for (name, count) in faults {
        *metrics.entry(name.to_owned()).or_insert(0.0) += count as f64;
    }
}

/// A cell of the table, in the mean of the seeds.
struct Judged<'a> {
    summary: &'a Summary,
    at: String,
    soc: f64,
}

impl Judged<'_> {
    fn mean(&self, metric: &str, layout: &str) -> f64 {
        self.summary.mean(&format!("{metric}.{layout}.{}", self.at))
    }

    fn check(&self, checks: Checks, writes_max: f64) -> Checks {
        let of_pages = |metric| self.mean(metric, "pages");
        let (writes, bits) = (of_pages("writes"), of_pages("bits"));
        let gained = of_pages("hit") - self.mean("hit", "fifo");
        let lost_max = if self.soc > 50.0 { POINTS_LOST.1 } else { POINTS_LOST.0 };
        let (hit_reads, miss_reads) = (of_pages("reads_hit"), of_pages("reads_miss"));
        let at = &self.at;
        checks
            .shape(
                (1.0..0.5 * self.mean("writes", "fifo")).contains(&writes),
                format!("{at}: at least 1 byte written, and less than half of the buckets"),
            )
            .exact(writes <= writes_max, format!("{at}: {writes:.2} written"))
            .exact(
                (-lost_max..=POINTS_GAINED_MAX).contains(&gained),
                format!("{at}: hits {gained:+.2}"),
            )
            .exact(bits <= BITS_MAX, format!("{at}: {bits:.1} bits"))
            .exact(
                (1.0..=HIT_READS_MAX).contains(&hit_reads),
                format!("{at}: {hit_reads:.3} reads a hit"),
            )
            .exact(miss_reads <= MISS_READS_MAX, format!("{at}: {miss_reads:.3} of misses read"))
    }
}

/// What pages filled with companions do in a cell.
fn said_of_companions(judged: &Judged<'_>) -> Option<String> {
    let Judged { summary, at, .. } = judged;
    summary.iter().find(|(name, _)| *name == format!("writes.companions.{at}"))?;
    let gained = judged.mean("hit", "companions") - judged.mean("hit", "fifo");
    Some(format!("{at}: {:.2} written, hits {gained:+.2}", judged.mean("writes", "companions")))
}

/// Judges pages by set against buckets with FIFO, where SOC is at most 25 times DRAM.
pub(super) fn judge(summary: &Summary) -> Judgement {
    let writes_max = summary.mean("writes_max");
    let faults = ["wrong", "overfull", "unaccounted"];
    let mut checks = faults.into_iter().fold(Checks::default(), |checks, fault| {
        checks.claim(summary.max(fault) == 0.0, format!("{fault}: {}", summary.max(fault)))
    });
    let possible = summary.mean("hit_possible");
    let most = summary.iter().filter(|(name, _)| name.starts_with("hit.")).map(|(_, it)| it.max);
    let most = most.fold(0.0, f64::max);
    checks = checks.claim(most <= possible, format!("hits {most:.2} of {possible:.2} possible"));
    let (mut left_out, mut companions) = (Vec::new(), Vec::new());
    for (name, _) in summary.iter() {
        let Some(at) = name.strip_prefix("writes.pages.") else { continue };
        let parts = at.split_once('.').map(|(dram, soc)| (dram.parse::<f64>(), soc.parse::<f64>()));
        let Some((Ok(dram), Ok(soc))) = parts else { continue };
        let judged = Judged { summary, at: at.to_owned(), soc };
        companions.extend(said_of_companions(&judged));
        if soc / 100.0 * dram <= RATIO_MAX {
            checks = judged.check(checks, writes_max);
        } else {
            let gained = judged.mean("hit", "pages") - judged.mean("hit", "fifo");
            let writes = judged.mean("writes", "pages");
            left_out.push(format!("{at}: {writes:.2} written, hits {gained:+.2}"));
        }
    }
    if !left_out.is_empty() {
        let list = left_out.join("; ");
        checks = checks.note(format!("not judged, with less DRAM than a 25th of the SOC: {list}"));
    }
    if !companions.is_empty() {
        checks = checks.note(format!("companions instead: {}", companions.join("; ")));
    }
    checks.judge()
}
