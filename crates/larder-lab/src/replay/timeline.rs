//! Samples of a run in progress, few enough to keep and dense enough to draw.
//!
//! The length of a trace is not known beforehand. So a sample is taken after each `step` requests. When there are too
//! many samples, every second one is dropped and the step doubles. At the end, the samples divide the run into equal
//! parts, except for the last.

use larder::Stats;
use larder_device::DeviceStats;

use super::client::ClientCounts;
use super::outcome::{ArrayRun, Interval, Run, ShardRun, SocLog};

const FIRST_STEP: u64 = 1024;
const SAMPLES_MAX: usize = 256;

/// All counters at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Sample {
    pub(super) client: ClientCounts,
    pub(super) cache: Stats,
    pub(super) device: DeviceStats,
    /// By shard, if there are several.
    pub(super) shards: Vec<ShardSample>,
}

/// Counters of a shard at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ShardSample {
    pub(super) number: usize,
    pub(super) gets: u64,
    pub(super) hits: u64,
    pub(super) host_bytes: u64,
    pub(super) media_bytes: Option<u64>,
    pub(super) erased_bytes: Option<u64>,
    pub(super) copied_bytes: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Timeline {
    step: u64,
    samples: Vec<Sample>,
}

impl Timeline {
    pub(super) fn starting_with(first: Sample) -> Self {
        Self { step: FIRST_STEP, samples: vec![first] }
    }

    /// Whether a sample is due after `requests` requests.
    pub(super) fn is_due(&self, requests: u64) -> bool {
        requests.is_multiple_of(self.step)
    }

    pub(super) fn add(&mut self, sample: Sample) {
        self.samples.push(sample);
        if self.samples.len() > SAMPLES_MAX {
            let mut number = 0;
            self.samples.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.step *= 2;
        }
    }

    /// Ends the run with its last sample.
    pub(super) fn finish(mut self, last: Sample) -> Self {
        if self.samples.last().is_none_or(|sample| sample.client != last.client) {
            self.samples.push(last);
        }
        self
    }

    pub(super) fn last(&self) -> &Sample {
        self.samples.last().unwrap_or_else(|| unreachable!("a timeline starts with a sample"))
    }

    /// The first sample at or after this percentage of the run.
    pub(super) fn warm(&self, warmup_percent: f64) -> &Sample {
        #[allow(clippy::cast_precision_loss)]
        let wanted = self.last().client.requests as f64 * warmup_percent / 100.0;
        #[allow(clippy::cast_precision_loss)]
        let warm = self.samples.iter().find(|sample| sample.client.requests as f64 >= wanted);
        warm.unwrap_or_else(|| self.last())
    }

    pub(super) fn intervals(&self, warmup_requests: u64) -> Vec<Interval> {
        self.samples.windows(2).map(|pair| interval(&pair[0], &pair[1], warmup_requests)).collect()
    }
}

/// Bytes that the small-object engine wrote, including its log.
pub(super) fn soc_bytes(sample: &Sample) -> u64 {
    sample.cache.soc_written_bytes + sample.cache.soc_log_written_bytes
}

/// What the log did since the warm-up, if there is one. `ever` counts from the start.
fn soc_log(ever: &Stats, past: &Stats) -> Option<SocLog> {
    (ever.soc_log_objects > 0).then_some(SocLog {
        bytes: past.soc_log_written_bytes,
        objects: past.soc_log_objects,
        moved_objects: past.soc_log_moved_objects,
        bucket_writes: past.soc_bucket_writes,
        dropped_objects: past.soc_log_dropped_objects,
        readmitted_objects: past.soc_log_readmitted_objects,
        hits: past.soc_log_hits,
        reads: past.soc_log_reads,
        false_positives: past.soc_log_false_positives,
        held_objects: past.soc_log_held_objects,
        index_bytes: past.soc_log_index_bytes,
    })
}

/// Bytes that the array engine wrote, for objects and index.
fn array_bytes(sample: &Sample) -> u64 {
    sample.cache.array_data_written_bytes + sample.cache.array_index_written_bytes
}

/// What the array did since the warm-up, if it has written anything. `ever` counts from the start.
fn array(ever: &Stats, past: &Stats) -> Option<ArrayRun> {
    (ever.array_data_written_bytes > 0).then_some(ArrayRun {
        data_bytes: past.array_data_written_bytes,
        index_written_bytes: past.array_index_written_bytes,
        reinserted_bytes: past.array_reinserted_bytes,
        record_reads: past.array_record_reads,
        table_reads: past.array_table_reads,
        table_writes: past.array_table_writes,
        reclaimed_regions: past.array_reclaimed_regions,
        expired_regions: past.array_expired_regions,
        table_overflows: past.array_table_overflows,
        collisions: past.array_collisions,
        stale_entries: past.array_stale_entries,
        objects: past.array_objects,
        index_bytes: past.array_index_bytes,
    })
}

fn shard(from: &ShardSample, to: &ShardSample) -> ShardRun {
    let host_bytes = to.host_bytes - from.host_bytes;
    let media_bytes = difference(to.media_bytes, from.media_bytes);
    ShardRun {
        number: to.number,
        gets: to.gets,
        hits: to.hits,
        hit_ratio: ratio(to.hits, to.gets),
        dlwa: media_bytes.and_then(|media| ratio(media, host_bytes)),
        host_bytes,
        media_bytes,
        erased_bytes: difference(to.erased_bytes, from.erased_bytes),
        copied_bytes: difference(to.copied_bytes, from.copied_bytes),
    }
}

fn interval(from: &Sample, to: &Sample, warmup_requests: u64) -> Interval {
    let host = to.device.host_written_bytes - from.device.host_written_bytes;
    let media = difference(to.device.media_written_bytes, from.device.media_written_bytes);
    let gets = to.client.gets - from.client.gets;
    Interval {
        requests: to.client.requests,
        host_bytes: host,
        dlwa: media.and_then(|media| ratio(media, host)),
        hit_ratio: ratio(to.client.hits - from.client.hits, gets),
        soc_bytes: soc_bytes(to) - soc_bytes(from),
        loc_bytes: to.cache.loc_written_bytes - from.cache.loc_written_bytes,
        array_bytes: array_bytes(to) - array_bytes(from),
        metadata_bytes: to.cache.metadata_written_bytes - from.cache.metadata_written_bytes,
        warmup: to.client.requests <= warmup_requests,
    }
}

impl Run {
    /// Summarizes a run: client counters over the whole run, device counters after warm-up.
    pub(super) fn sum_up(placement: bool, timeline: &Timeline, warmup_percent: f64) -> Self {
        let last = timeline.last();
        let warm = timeline.warm(warmup_percent);
        let host = last.device.host_written_bytes - warm.device.host_written_bytes;
        let media = difference(last.device.media_written_bytes, warm.device.media_written_bytes);
        let (gets, hits) = (last.client.gets, last.client.hits);
        let dram_hits = last.cache.dram_hits;
        let past = last.cache.since(&warm.cache);
        let written = past.flash_written_bytes();
        Self {
            placement: if placement { "on" } else { "off" },
            requests: last.client.requests,
            placement_active: false,
            warmup_requests: warm.client.requests,
            gets,
            hits,
            hit_ratio: ratio(hits, gets).unwrap_or(0.0),
            dram_hit_ratio: ratio(dram_hits, gets).unwrap_or(0.0),
            flash_hit_ratio: ratio(hits - dram_hits, gets - dram_hits).unwrap_or(0.0),
            dlwa: media.and_then(|media| ratio(media, host)),
            alwa: ratio(written, past.admitted_bytes),
            host_bytes: host,
            host_bytes_by_handle: by_handle(&warm.device, &last.device),
            placement_path: None,
            media_bytes: media,
            erased_bytes: difference(last.device.erased_bytes, warm.device.erased_bytes),
            copied_bytes: difference(last.device.copied_bytes, warm.device.copied_bytes),
            soc_bytes: soc_bytes(last) - soc_bytes(warm),
            soc_log: soc_log(&last.cache, &past),
            loc_bytes: past.loc_written_bytes,
            array_bytes: array_bytes(last) - array_bytes(warm),
            array: array(&last.cache, &past),
            metadata_bytes: past.metadata_written_bytes,
            admitted_objects: last.cache.admitted_objects,
            rejected_objects: last.cache.rejected_by_admission_objects,
            rejected_at_random_objects: last.cache.rejected_at_random_objects,
            rejected_on_first_visit_objects: last.cache.rejected_on_first_visit_objects,
            rejected_as_infrequent_objects: last.cache.rejected_as_infrequent_objects,
            rejected_by_budget_objects: last.cache.rejected_by_budget_objects,
            rejected_for_exhausted_budget_objects: last.cache.rejected_for_exhausted_budget_objects,
            refused_objects: last.client.refused,
            shards: warm
                .shards
                .iter()
                .zip(&last.shards)
                .map(|(from, to)| shard(from, to))
                .collect(),
            streams: Vec::new(),
            drive_writes_before: 0.0,
            requests_per_second: 0.0,
            interrupted: false,
            intervals: timeline.intervals(warm.client.requests),
            units: Vec::new(),
            notice: None,
            placement_table: String::new(),
            array_memory: None,
        }
    }
}

fn by_handle(from: &DeviceStats, to: &DeviceStats) -> Vec<u64> {
    let before = from.host_written_bytes_by_handle.iter().copied().chain(std::iter::repeat(0));
    to.host_written_bytes_by_handle.iter().zip(before).map(|(to, from)| to - from).collect()
}

fn difference(to: Option<u64>, from: Option<u64>) -> Option<u64> {
    Some(to? - from.unwrap_or(0))
}

#[allow(clippy::cast_precision_loss)]
fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(requests: u64) -> Sample {
        let client = ClientCounts { requests, gets: requests, hits: requests / 2, refused: 0 };
        Sample { client, ..Sample::default() }
    }

    fn timeline(requests: u64) -> Timeline {
        let mut timeline = Timeline::starting_with(sample(0));
        (1..=requests).filter(|n| n % FIRST_STEP == 0).for_each(|n| {
            if timeline.is_due(n) {
                timeline.add(sample(n));
            }
        });
        timeline.finish(sample(requests))
    }

    #[test]
    fn long_runs_keep_few_samples_at_equal_distances() {
        let timeline = timeline(1 << 22);
        assert!((SAMPLES_MAX / 2..=SAMPLES_MAX + 1).contains(&timeline.samples.len()));
        let ends: Vec<u64> = timeline.intervals(0).iter().map(|i| i.requests).collect();
        let step = ends[0];
        assert!(ends.iter().zip(1..).all(|(&end, n)| end == step * n), "{ends:?}");
    }

    #[test]
    fn short_runs_have_one_interval() {
        assert_eq!(timeline(10).intervals(0).len(), 1);
        assert_eq!(timeline(0).intervals(0).len(), 0);
    }

    #[test]
    fn warm_up_ends_at_the_share_that_was_asked_for() {
        let timeline = timeline(1 << 20);
        let warm = timeline.warm(50.0).client.requests;
        assert!((1 << 19..(1 << 19) + (1 << 14)).contains(&warm), "{warm}");
        assert_eq!(timeline.warm(0.0).client.requests, 0);
    }
}
