//! Totals of a run of seeds.

use serde::Serialize;

macro_rules! totals {
    ($($(#[$doc:meta])* $name:ident: $label:literal,)*) => {
        /// Totals of one seed, or of many. The names are stable in JSON.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
        pub struct Totals {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Totals {
            /// Adds the totals of `other`.
            pub fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }

            /// Every total with its label, in order.
            pub fn rows(&self) -> Vec<(&'static str, u64)> {
                vec![$(($label, self.$name),)*]
            }
        }
    };
}

totals! {
    /// Seeds run.
    seeds: "seeds",
    /// Times that cache and callers were cut off.
    crash_points: "crash points",
    /// Crash points during an opening.
    crashed_openings: "  while opening",
    /// Crash points during a shutdown.
    crashed_closes: "  while closing",
    /// Crash points during a rebuild.
    crashed_rebuilds: "  while rebuilding",
    /// Crash points with loss of data that was not durable.
    power_losses: "  with power loss",
    /// Keys covered by a completed flush, looked up after a crash.
    kept_lookups: "keys of flushes looked up after crashes",
    /// Times that a cache was opened on a device that had one before.
    reopenings: "reopenings",
    /// Reopenings with the content of a clean shutdown.
    kept_openings: "  with content",
    /// Reopenings with the content after a crash.
    crash_openings: "  with what a crash has left",
    /// Lives that ended before all regions of an earlier one had been scanned.
    unindexed_ends: "ended before all was found again",
    /// Large objects on flash right before crashes on devices without faults.
    large_before_crashes: "large objects before crashes",
    /// Those that were found again.
    large_after_crashes: "  found again",
    /// Lives in which a task sent demotions in parallel with the callers.
    lives_with_sender: "lives with a task that sends demotions",
    /// Times that blocks on the drive were opened with a cache on them.
    lives_on_blocks: "openings of blocks below the cache",
    /// Those with blocks of a virtual SSD.
    lives_on_vssds: "  of a virtual SSD",
    /// Parts of blocks that moved because their channel was swapped.
    vssd_parts_moved: "  moved there with their channel",
    /// Blocks of pages that were cleaned there.
    blocks_cleaned: "  blocks cleaned",
    /// Times that a drive of a set of shards failed, did not answer or was slow.
    drives_harmed: "drives of sets harmed",
    /// Changes of a set of shards that were begun.
    orders: "changes of sets begun",
    /// Changes that were completed.
    orders_done: "  of sets made",
    /// Those that moved keys to another shard.
    moves_done: "  moves of keys in sets",
    /// Changes that were abandoned halfway.
    given_up_orders: "  of sets given up",
    /// Shards that were removed because they had failed.
    shards_failed: "shards taken out of sets",
    /// Changes of keys that were made and lost with the shard.
    lost_changes: "changes lost with their shard",
    /// Bytes of keys and values that were copied to returning shards.
    refilled_bytes: "bytes refilled in sets",
    /// Openings that failed on a device with faults.
    refused_openings: "openings refused",
    /// Shutdowns that succeeded.
    closes: "clean shutdowns",
    /// Shutdowns that had no time for everything.
    short_closes: "  that left something out",
    /// Small objects that shutdowns wrote in order.
    closed_in_order: "small objects written in order",
    /// Operations begun.
    operations: "operations",
    /// Operations in flight whose caller gave up.
    given_up: "given up on the way",
    /// Operations cut off by a crash.
    cut_off: "cut off by a crash",
    /// Values found by `get`.
    hits: "hits",
    /// Values from flash.
    flash_hits: "  from flash",
    /// Faults injected into requests.
    faults: "faults injected",
    /// Writes that were reported as failed but executed.
    failed_but_done: "  that happened all the same",
    /// Times that the wall clock was set back.
    steps_back: "clock set back",
    /// Times that it was set forward.
    steps_forward: "clock set forward",
    /// Lives with other settings than the previous one.
    changed_settings: "lives with other settings",
    /// Seeds with more clients than a block of the tombstone log holds.
    crowds: "seeds with more clients than a log block holds",
    /// Lives in which a tombstone log wrapped around to records that were still needed.
    rings_round: "lives whose tombstone log went round",
    /// Tombstone logs that the cache gave up.
    logs_given_up: "tombstone logs given up",
    /// Tombstone logs that the cache trusted again.
    logs_regained: "  and regained",
    /// Blocks of tombstone logs that were damaged between a crash and the next opening.
    rotten_blocks: "log blocks damaged",
    /// Buckets and regions that were used again after a failed write.
    revived_places: "places revived",
    /// Device errors that the cache counted.
    device_errors: "device errors counted",
    /// Requests that were given up, and may have been executed later.
    device_timeouts: "  of requests given up",
    /// Steps of the scheduler.
    steps: "scheduler steps",
    /// Keys whose history had too many orders to judge.
    undecided: "undecided histories",
    /// Answers that no order of the operations makes right, and inconsistent counters.
    wrong_answers: "wrong answers",
}
