//! The counters of the cache. Each rejected or lost item has a counter with a reason.

mod moves;
mod sum;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use larder_device::nvme::DriveReport;

use crate::base::key::KeyHasher;
use crate::base::removal::{RemovalListener, Removals};
use crate::base::sync::{STRIPES, stripe};
use crate::base::tier::Tier;
use crate::observe::endurance::DriveLife;
use crate::observe::latency::Latency;
use crate::observe::metrics::{Metric, MetricKind, MetricName};

/// A number that only grows, shared between threads. Each thread adds to its own stripe, as far as there are enough
/// stripes, so threads that count the same thing do not share a cache line.
#[derive(Debug, Default)]
pub(crate) struct Counter([CounterStripe; STRIPES]);

#[repr(align(64))]
#[derive(Debug, Default)]
struct CounterStripe(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        self.0[stripe()].0.fetch_add(n, Ordering::Relaxed);
    }

    /// Adds one. Returns the previous value of this thread's stripe.
    pub(crate) fn step(&self) -> u64 {
        self.0[stripe()].0.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.iter().map(|stripe| stripe.0.load(Ordering::Relaxed)).sum()
    }
}

/// The numbers of the cache: counters, which only grow, and gauges, each with the function that combines several
/// caches ([`sum`]). The first sentence of each is its help in [`Stats::metrics`], so it must be understood alone.
/// The last word of a name is its unit, if it is one.
macro_rules! numbers {
    (
        counters { $($(#[doc = $doc:literal])* $name:ident,)* }
        gauges { $($(#[doc = $gauge_doc:literal])* $how:ident $gauge:ident,)* }
    ) => {
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)*
            /// `get` calls that DRAM answered at once: one count stands for a call and its hit.
            pub(crate) hits_at_once: Counter,
            last_device_error: Mutex<Option<String>>,
            /// Removals, for the listener.
            pub(crate) removals: Removals,
            /// By drive, the number of its data-move events that have been attributed to an owner.
            owned_moves: Mutex<Vec<(String, u64)>>,
        }

        /// Counters since the cache was opened. Byte counts of objects are key and value together.
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        #[non_exhaustive]
        pub struct Stats {
            $($(#[doc = $doc])* pub $name: u64,)*
            $($(#[doc = $gauge_doc])* pub $gauge: u64,)*
            /// Forecast of the drive's remaining life; `None` without
            /// [`Config::endurance`](crate::Config::endurance).
            pub drive_life: Option<DriveLife>,
            /// How placement reaches the device, for people: "write streams", "NVMe passthrough", "model"; "none"
            /// without placement, and empty without flash.
            pub placement_path: &'static str,
            /// Reports of the underlying drives, at most a minute old, or as old as the query interval with which the
            /// device was opened: their own counters of bytes, wear and events, and why some are missing. Empty if
            /// they are not asked, or are no NVMe drives.
            pub drives: Vec<Arc<DriveReport>>,
            /// Latencies of completed calls: `get` by the tier that answered, `set` (without the changes that read
            /// first), `delete`, and fetches; empty without
            /// [`Config::latency_histograms`](crate::Config::latency_histograms).
            pub latencies: Vec<Latency>,
            /// The latest device error, for people.
            pub last_device_error: Option<String>,
        }

        impl Stats {
            /// The counters since an earlier snapshot of the same cache, for rates and intervals. Everything else is
            /// as in `self`: gauges, the drives and their life, latencies, which count from the opening, and the last
            /// error. A counter that is lower than before (the cache was opened anew) counts as zero.
            ///
            /// ```
            /// use std::sync::Arc;
            /// use larder::{Config, Larder, RealClock, block_on};
            ///
            /// let cache = block_on(Larder::open(Config::default(), None, Arc::new(RealClock)))?;
            /// block_on(cache.set(b"key", b"value", None))?;
            /// let before = cache.stats();
            /// block_on(cache.get(b"key"))?;
            /// let minute = cache.stats().since(&before);
            /// assert_eq!((minute.sets, minute.gets, minute.dram_hits), (0, 1, 1));
            /// # Ok::<(), larder::Error>(())
            /// ```
            pub fn since(&self, earlier: &Self) -> Self {
                Self {
                    $($name: self.$name.saturating_sub(earlier.$name),)*
                    ..self.clone()
                }
            }

            /// Adds the counters of another cache.
            fn add_counters(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }

            /// Combines the gauges of another cache with these, each by its own function.
            fn add_gauges(&mut self, other: &Self) {
                $(self.$gauge = sum::$how(self.$gauge, other.$gauge);)*
            }

            /// The numbers among the fields, counters first.
            pub(crate) fn numbers(&self) -> impl Iterator<Item = (&'static MetricName, u64)> {
                static NAMED: LazyLock<Vec<MetricName>> = LazyLock::new(|| vec![
                    $(MetricName::new(stringify!($name), MetricKind::Counter, concat!($($doc),*)),)*
                    $(MetricName::new(stringify!($gauge), MetricKind::Gauge, concat!($($gauge_doc),*)),)*
                ]);
                let values = [$(self.$name,)* $(self.$gauge,)*];
                NAMED.iter().zip(values)
            }
        }

        impl Counters {
            /// Counters of a cache that reports its removals to `listener`.
            pub(crate) fn with_listener(listener: Option<RemovalListener>, hasher: KeyHasher) -> Self {
                Self { removals: Removals::new(listener, hasher), ..Self::default() }
            }

            pub(crate) fn snapshot(&self) -> Stats {
                let last = self.last_device_error.lock().unwrap_or_else(PoisonError::into_inner);
                let mut stats = Stats {
                    $($name: self.$name.get(),)*
                    last_device_error: last.clone(),
                    ..Stats::default()
                };
                let at_once = self.hits_at_once.get();
                stats.gets += at_once;
                stats.dram_hits += at_once;
                stats
            }
        }
    };
}

numbers! {
    counters {
        /// `get` calls.
        gets,
        /// `get` calls answered from DRAM.
        dram_hits,
        /// `get` calls answered by the small-object engine.
        soc_hits,
        /// `get` calls answered by the large-object engine.
        loc_hits,
        /// `get` calls answered by the array engine.
        array_hits,
        /// Fetches begun after a miss (see [`Larder::get_or_fetch`](crate::Larder::get_or_fetch)).
        fetches,
        /// Fetches that failed.
        failed_fetches,
        /// Times that a caller waited for a fetch that another caller had begun.
        fetch_waits,
        /// `set` calls.
        sets,
        /// `delete` calls.
        deletes,
        /// Times that the cache was cleared.
        clears,
        /// Objects found expired, in DRAM or on flash.
        expired,
        /// Objects in DRAM that a newer value replaced.
        replaced_objects,
        /// Objects removed by a delete, or by a set whose value no tier can hold.
        deleted_objects,
        /// Objects evicted from DRAM and lost, because there is no flash, or they were for DRAM only
        /// ([`Tiers::DramOnly`](crate::Tiers::DramOnly)).
        dram_evicted_objects,
        /// Objects evicted from DRAM that flash held already: dropped without a write.
        evicted_clean_objects,
        /// Objects evicted from DRAM, or sent by [`Larder::flush`](crate::Larder::flush), that the admission policy
        /// admitted.
        admitted_objects,
        /// Bytes of the objects that admission admitted.
        admitted_bytes,
        /// Objects evicted from DRAM, or offered by [`Larder::flush`](crate::Larder::flush), that the admission
        /// policy rejected: each time that it was asked.
        rejected_by_admission_objects,
        /// Bytes of the objects that admission rejected.
        rejected_by_admission_bytes,
        /// Objects that admission rejected at random ([`AdmissionPolicy::Random`](crate::AdmissionPolicy::Random)).
        rejected_at_random_objects,
        /// Objects that admission rejected because they came for the first time
        /// ([`AdmissionPolicy::RejectFirst`](crate::AdmissionPolicy::RejectFirst)).
        rejected_on_first_visit_objects,
        /// Objects that admission rejected because they were not requested often enough
        /// ([`AdmissionPolicy::Frequency`](crate::AdmissionPolicy::Frequency)).
        rejected_as_infrequent_objects,
        /// Objects that admission rejected at random because more came than the budget covers
        /// ([`AdmissionPolicy::Budget`](crate::AdmissionPolicy::Budget)).
        rejected_by_budget_objects,
        /// Objects that admission rejected because the budget and the burst were used up.
        rejected_for_exhausted_budget_objects,
        /// Objects evicted from DRAM that no flash engine can hold (too large, or their engine has no space
        /// configured), and fetched ones that neither DRAM nor flash can hold.
        rejected_too_large_objects,
        /// Objects written to flash past DRAM, because DRAM was full of others on their way there.
        dram_written_around_objects,
        /// Values in DRAM that were copied for a caller because other kept values pin as much of DRAM as is allowed
        /// ([`Value`](crate::Value) gives the number).
        copied_values,
        /// Objects not stored because values in use pin all of DRAM.
        rejected_dram_pinned_objects,
        /// Objects not stored because too much was on its way to flash for longer than
        /// [`Config::demotion_wait`](crate::Config::demotion_wait).
        rejected_demotions_objects,
        /// Objects for flash that were not written because writes were failing.
        rejected_in_outage_objects,
        /// Objects that were to go to flash and were lost to a device error.
        lost_to_device_errors_objects,
        /// Objects that [`Larder::close_within`](crate::Larder::close_within) left out for lack of time: those that
        /// DRAM held and flash did not have, and, without crash safety, large objects in regions that were not
        /// indexed.
        left_out_objects,
        /// Small-object buckets that [`Larder::close_within`](crate::Larder::close_within) emptied because they might
        /// hold an older version of an object that it left out; only without crash safety.
        left_out_buckets,
        /// Small objects that a close appended to regions of the large-object engine.
        closed_in_order_objects,
        /// Small objects that moved from such a region to the small-object engine.
        moved_small_objects,
        /// Buckets read by the small-object engine.
        soc_bucket_reads,
        /// Buckets written by the small-object engine.
        soc_bucket_writes,
        /// Buckets written under the placement handle for often rewritten buckets (see
        /// [`SocConfig::dynamic_placement`](crate::SocConfig::dynamic_placement)).
        soc_hot_bucket_writes,
        /// Flushes of the device that buckets shared: each made all buckets durable that had been written before it
        /// (see [`CrashSafety::Power`](crate::CrashSafety::Power)).
        soc_flushes,
        /// Bytes written by the small-object engine.
        soc_written_bytes,
        /// Objects that small-object buckets dropped to make room.
        soc_evicted_objects,
        /// Objects of small-object buckets that had been read from flash since the bucket's last write when it was
        /// written again, which makes them the last to be evicted; only with
        /// [`SocEviction::Rrip`](crate::SocEviction::Rrip).
        soc_promoted_objects,
        /// Reads that the bloom filters of buckets, or the fingerprints of pages, did not prevent and that found
        /// nothing.
        soc_filter_false_positives,
        /// Buckets that failed their checks.
        soc_bad_buckets,
        /// Small-object buckets given up after a failed write; after a while they are tried again.
        soc_retired_buckets,
        /// Retired small-object buckets that were written again and are back in use.
        soc_revived_buckets,
        /// Objects written to the small-object log (see [`SocConfig::log_percent`](crate::SocConfig::log_percent));
        /// each counts once, whatever the number of its readmissions.
        soc_log_objects,
        /// Bytes written by the small-object log.
        soc_log_written_bytes,
        /// Objects that moved from the small-object log to their buckets.
        soc_log_moved_objects,
        /// Objects that the small-object log dropped: too few of their bucket were there to be worth a write, and
        /// they had no hits.
        soc_log_dropped_objects,
        /// Objects that the small-object log wrote again, because they had hits or because an older version may be in
        /// their bucket.
        soc_log_readmitted_objects,
        /// Pages of the small-object log read from flash.
        soc_log_reads,
        /// Objects found in the small-object log; most of them answered a `get` and are among
        /// `soc_hits`.
        soc_log_hits,
        /// Reads of the small-object log that its index suggested and that found another key.
        soc_log_false_positives,
        /// Segments of the small-object log reclaimed.
        soc_log_reclaimed_segments,
        /// Pages of the small-object log that failed their checks.
        soc_log_bad_pages,
        /// Segments of the small-object log given up after a failed write; after a while they are
        /// tried again.
        soc_log_retired_segments,
        /// Pages of sets read from flash, for look-ups and for objects that ride along.
        soc_page_reads,
        /// Pages of sets written, each once.
        soc_page_writes,
        /// Objects with hits that rode along from a page that was about to be reclaimed.
        soc_carried_objects,
        /// Bytes of these objects.
        soc_carried_bytes,
        /// Regions of pages reclaimed for new ones.
        soc_reclaimed_regions,
        /// Regions of pages given up early because the tombstone log was full of tombstones of their objects.
        soc_given_up_regions,
        /// Regions of pages given up after a failed write; after a while they are tried again.
        soc_retired_regions,
        /// Pages, and ends of regions of pages, that failed their checks.
        soc_bad_pages,
        /// Records read by the large-object engine.
        loc_record_reads,
        /// Bytes written by the large-object engine: records, footers and the padding of regions.
        loc_written_bytes,
        /// Regions written.
        loc_sealed_regions,
        /// Regions reclaimed for new objects.
        loc_reclaimed_regions,
        /// Regions given up early because the tombstone log was full of tombstones for their dead objects.
        loc_given_up_regions,
        /// Regions given up because all of their objects had expired.
        loc_expired_regions,
        /// Objects dropped with regions in which all objects had expired.
        loc_expired_objects,
        /// Bytes deallocated by the large-object engine (see
        /// [`LocConfig::ru_aware_eviction`](crate::LocConfig::ru_aware_eviction)).
        loc_deallocated_bytes,
        /// Objects dropped with reclaimed regions.
        loc_evicted_objects,
        /// Objects reinserted from reclaimed regions because of their hits.
        loc_reinserted_objects,
        /// Bytes of the objects reinserted from reclaimed regions.
        loc_reinserted_bytes,
        /// Records and footers that failed their checks.
        loc_bad_records,
        /// Values longer than a region that were forgotten because a part of them was missing or
        /// bad.
        loc_incomplete_objects,
        /// Regions given up after a failed write; after a while they are filled again.
        loc_retired_regions,
        /// Retired regions that are filled again.
        loc_revived_regions,
        /// Records read by the array engine.
        array_record_reads,
        /// Tables of the array's index that were read, whole or one page of them.
        array_table_reads,
        /// Tables of the array's index read for a rewrite on which no caller waited: to empty regions, to work off
        /// tombstones and to take in what a crash has left.
        array_upkeep_reads,
        /// Tables of the array's index that were written, merged with the entries in memory.
        array_table_writes,
        /// Bytes written by the array engine for its index: tables, and the padding of their regions.
        array_index_written_bytes,
        /// Bytes written by the array engine for objects: records, those reinserted among them, footers and the
        /// padding of regions.
        array_data_written_bytes,
        /// Regions of the array written, for objects and for tables.
        array_sealed_regions,
        /// Objects of the array with hits in a region that was about to be reclaimed, as far as memory knows.
        array_reinsertion_candidates_objects,
        /// Objects of the array with hits that were not chosen for reinsertion, because the drive had no time for more.
        array_reinsertion_over_share_objects,
        /// Objects of the array that were chosen for reinsertion, and had no room or were not read in time.
        array_reinsertion_late_objects,
        /// Objects of the array reinserted before their region was reclaimed, because they had hits.
        array_reinserted_objects,
        /// Bytes of the objects of the array that were reinserted.
        array_reinserted_bytes,
        /// Regions of the array reclaimed for new objects or tables.
        array_reclaimed_regions,
        /// Table regions of the array that were given up after their live tables had been written elsewhere.
        array_emptied_regions,
        /// Objects dropped with reclaimed regions of the array.
        array_evicted_objects,
        /// Regions of the array given up unread because all of their objects had expired.
        array_expired_regions,
        /// Objects that the array lost because their page of a table was full, and the neighbouring page too.
        array_table_overflows,
        /// Objects that the array lost or did not find because another key has their hash.
        array_collisions,
        /// Entries of the array's index that pointed to a region that had been filled anew, seen without a read.
        array_stale_entries,
        /// Reads of the array that were in vain because their data was overwritten during the read.
        array_overtaken_reads,
        /// Records, tables and footers of the array that failed their checks.
        array_bad_records,
        /// Values of the array in parts that were forgotten because a part of them was missing or bad.
        array_incomplete_objects,
        /// Times that the array's TTL groups were divided anew among placement handles, by the bytes written of each
        /// group.
        array_group_divisions,
        /// Objects that an opening after a crash found in regions, and that no table knew.
        array_found_objects,
        /// Objects lost because too many of one set of the index came at a time.
        array_lost_entries,
        /// Regions of the array given up after a failed write; after a while they are filled again.
        array_retired_regions,
        /// Retired regions of the array that are filled again.
        array_revived_regions,
        /// Openings after a crash that gave up all of the array because a region that may hold tables could not be
        /// read.
        arrays_given_up,
        /// Declarations that something on flash is dead (see
        /// [`CrashSafety::Process`](crate::CrashSafety::Process)).
        tombstones,
        /// Tombstones that were written again because the log wrapped around.
        tombstones_logged_again,
        /// Bytes written by the tombstone log.
        tombstone_log_written_bytes,
        /// Tombstone logs given up after an error: a crash would empty flash.
        tombstone_logs_given_up,
        /// Tombstone logs that were given up and are trusted again.
        tombstone_logs_regained,
        /// Bytes of metadata written.
        metadata_written_bytes,
        /// Device requests that failed.
        device_errors,
        /// Device requests that exceeded the timeout that `flash_wait` gives them, and failed. Requests that were not
        /// sent because the device answered nothing count as device errors, but not here.
        device_timeouts,
        /// Device requests that waited for the tenant's share of the device
        /// ([`Tenant::device_share`](crate::Tenant::device_share)).
        flash_delayed_requests,
        /// How long they waited, all together, in nanoseconds.
        flash_delayed_ns,
        /// Events in which a drive reported that it moved data of the small-object engine. Drives report only the
        /// events that they were asked for, and one event may stand for several. All drive events are counted when a
        /// program asks for the counters.
        drive_moves_of_soc,
        /// Bytes of small-object data that drives moved, as far as the events say.
        drive_moved_soc_bytes,
        /// Events in which a drive reported that it moved data of the large-object engine.
        drive_moves_of_loc,
        /// Bytes of large-object data that drives moved.
        drive_moved_loc_bytes,
        /// Events in which a drive reported that it moved data of the array engine.
        drive_moves_of_array,
        /// Bytes of the array's data that drives moved.
        drive_moved_array_bytes,
        /// Events in which a drive reported that it moved metadata: superblock, snapshot, tombstone log.
        drive_moves_of_metadata,
        /// Bytes of metadata that drives moved.
        drive_moved_metadata_bytes,
        /// Events in which a drive reported that it moved data of others on the drive, data at a place that the event
        /// does not give, or data whose place is not known any more because too many events came at a time. Caches
        /// that share a drive each count them.
        drive_moves_of_others,
        /// Bytes of data of others that drives moved, as far as they are known.
        drive_moved_other_bytes,
    }
    gauges {
        /// Items in DRAM now.
        total dram_items,
        /// Bytes of the DRAM budget in use now.
        total dram_used_bytes,
        /// Memory of objects on their way from DRAM to flash now: memory above DRAM's budget
        /// ([`Config::demoting_bytes_max`](crate::Config::demoting_bytes_max)), and segments within it.
        total demoting_bytes,
        /// Objects that the large-object engine holds now; of a value longer than a region, each part counts.
        total loc_objects,
        /// Regions of the large-object engine that a crash has left and that are not indexed yet (see
        /// [`Larder::rebuild`](crate::Larder::rebuild)).
        total loc_unindexed_regions,
        /// Memory of the large-object engine's index now, in bytes.
        total loc_index_bytes,
        /// Objects that the array engine holds now, approximately: replaced or expired ones may count.
        total array_objects,
        /// Memory of the array engine's index now, in bytes: entries, and data about tables and regions.
        total array_index_bytes,
        /// Memory of the small-object engine's filters and generations, and of hits and temperatures where settings
        /// need them, in bytes.
        total soc_filter_bytes,
        /// Objects in pages of sets now, approximately.
        total soc_page_objects,
        /// Memory of what is known of these pages now, in bytes: places and fingerprints.
        total soc_page_index_bytes,
        /// Memory of pages that are being filled now, in bytes.
        total soc_page_open_bytes,
        /// Memory of everything that flash needs now, in bytes: the index, the filters, the memory of tombstones and
        /// admission, and buffers.
        total flash_memory_bytes,
        /// Memory of data about dead objects on flash, in bytes.
        total tombstone_bytes,
        /// Memory of what admission remembers of keys, in bytes.
        total admission_memory_bytes,
        /// 1 if a cache that crashed now would be recovered, else 0.
        least crash_safe,
        /// 1 if flash is not used now, because its writes fail or it answers nothing, else 0; of several caches, 1 if
        /// any does not use it.
        most flash_avoided,
        /// Start of the time in which flash is not used, in seconds since 1970; 0 if it is used.
        earliest flash_avoided_since_seconds,
        /// Streams that share a placement handle, or write with the default one, for lack of handles or because
        /// placement is off (see [`Larder::placement`](crate::Larder::placement)).
        total compromised_streams,
        /// Objects in the small-object log now.
        total soc_log_held_objects,
        /// Memory of the small-object log's index now, in bytes.
        total soc_log_index_bytes,
        /// 1 if a stream of the cache writes with a placement handle of its own, else 0.
        least placement_active,
    }
}

impl Counters {
    /// Counts a `get` that this tier answered.
    pub(crate) fn hit(&self, tier: Tier) {
        match tier {
            Tier::Dram => self.dram_hits.add(1),
            Tier::SmallObjects => self.soc_hits.add(1),
            Tier::LargeObjects => self.loc_hits.add(1),
            Tier::ArrayObjects => self.array_hits.add(1),
        }
    }

    pub(crate) fn device_failed(&self, error: &larder_device::Error) {
        self.device_errors.add(1);
        if error.kind() == larder_device::ErrorKind::TimedOut {
            self.device_timeouts.add(1);
        }
        crate::observe::events::device_error(error);
        let mut last = self.last_device_error.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some(error.to_string());
    }
}

impl Stats {
    /// All numbers, each with its name, kind, unit and help: counters first, in the order of the fields. Fields that
    /// are not numbers are left out ([`Stats::drives`], [`Stats::drive_life`], [`Stats::placement_path`],
    /// [`Stats::last_device_error`]).
    ///
    /// ```
    /// use larder::{MetricKind, Stats};
    ///
    /// let stats = Stats::default();
    /// let written = stats.metrics().find(|metric| metric.name == "loc_written_bytes").unwrap();
    /// assert_eq!((written.kind, written.unit), (MetricKind::Counter, Some("bytes")));
    /// for metric in stats.metrics() {
    ///     println!("{} = {} ({})", metric.name, metric.value, metric.help);
    /// }
    /// ```
    pub fn metrics(&self) -> impl Iterator<Item = Metric> {
        self.numbers().map(|(named, value)| named.metric(value))
    }

    /// Number of `get` calls that found their key.
    ///
    /// ```
    /// use larder::Stats;
    ///
    /// assert_eq!(Stats::default().hits(), 0);
    /// ```
    pub fn hits(&self) -> u64 {
        self.dram_hits + self.soc_hits + self.loc_hits + self.array_hits
    }

    /// Objects that the cache gave up by itself, before they expired and without a call that removed them: those
    /// evicted from DRAM or flash to make room, and those that left DRAM and were not taken by flash.
    ///
    /// ```
    /// use larder::Stats;
    ///
    /// assert_eq!(Stats::default().evicted_objects(), 0);
    /// ```
    pub fn evicted_objects(&self) -> u64 {
        let gave_way = [
            self.dram_evicted_objects,
            self.soc_evicted_objects,
            self.soc_log_dropped_objects,
            self.loc_evicted_objects,
            self.array_evicted_objects,
        ];
        let not_taken = [
            self.rejected_by_admission_objects,
            self.rejected_too_large_objects,
            self.rejected_in_outage_objects,
            self.lost_to_device_errors_objects,
            self.array_table_overflows,
        ];
        gave_way.iter().chain(&not_taken).sum()
    }

    /// Bytes that the cache wrote to its device.
    ///
    /// ```
    /// use larder::Stats;
    ///
    /// assert_eq!(Stats::default().flash_written_bytes(), 0);
    /// ```
    pub fn flash_written_bytes(&self) -> u64 {
        self.soc_written_bytes
            + self.soc_log_written_bytes
            + self.loc_written_bytes
            + self.array_data_written_bytes
            + self.array_index_written_bytes
            + self.tombstone_log_written_bytes
            + self.metadata_written_bytes
    }

    /// The objects that admission rejected, by reason. They add up to
    /// [`rejected_by_admission_objects`](Self::rejected_by_admission_objects), except for counts that change during
    /// the call.
    ///
    /// ```
    /// use larder::Stats;
    ///
    /// let stats = Stats::default();
    /// assert!(stats.rejections().iter().all(|(reason, objects)| !reason.is_empty() && *objects == 0));
    /// ```
    pub fn rejections(&self) -> [(&'static str, u64); 5] {
        [
            ("at random", self.rejected_at_random_objects),
            ("on the first visit", self.rejected_on_first_visit_objects),
            ("as infrequent", self.rejected_as_infrequent_objects),
            ("by the budget", self.rejected_by_budget_objects),
            ("for an exhausted budget", self.rejected_for_exhausted_budget_objects),
        ]
    }

    /// Application-level write amplification: bytes written to the device per byte of objects
    /// admitted to flash.
    ///
    /// ```
    /// use larder::Stats;
    ///
    /// assert_eq!(Stats::default().alwa(), None);
    /// ```
    #[allow(clippy::cast_precision_loss)]
    pub fn alwa(&self) -> Option<f64> {
        (self.admitted_bytes > 0)
            .then(|| self.flash_written_bytes() as f64 / self.admitted_bytes as f64)
    }
}
