//! What a run of seeds adds up to.

use serde::Serialize;

macro_rules! totals {
    ($($(#[$doc:meta])* $name:ident: $label:literal,)*) => {
        /// Counts of one seed, or of many. The names are stable in JSON.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
        pub struct Totals {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Totals {
            /// Adds the counts of `other`.
            pub fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }

            /// Every count with words for it, in order.
            pub fn rows(&self) -> Vec<(&'static str, u64)> {
                vec![$(($label, self.$name),)*]
            }
        }
    };
}

totals! {
    /// Seeds run.
    seeds: "seeds",
    /// Moments at which cache and callers were cut off.
    crash_points: "crash points",
    /// Of these, in the middle of an opening.
    crashed_openings: "  while opening",
    /// Of these, in the middle of a shutdown.
    crashed_closes: "  while closing",
    /// Of these, in the middle of a rebuild.
    crashed_rebuilds: "  while rebuilding",
    /// Of these, with a loss of what the device had not made durable.
    power_losses: "  with power loss",
    /// Keys that a flush had returned for, looked up after a crash.
    kept_lookups: "keys of flushes looked up after crashes",
    /// Times that a cache was opened on a device that had one before.
    reopenings: "reopenings",
    /// Of these, with the content of a clean shutdown.
    kept_openings: "  with content",
    /// Of these, with what a crash has left.
    crash_openings: "  with what a crash has left",
    /// Lives that ended before all regions of an earlier one had been looked at.
    unindexed_ends: "ended before all was found again",
    /// Large objects on flash right before crashes on devices without faults.
    large_before_crashes: "large objects before crashes",
    /// Of these, found again.
    large_after_crashes: "  found again",
    /// Lives in which a task sent what left DRAM beside the callers.
    lives_with_sender: "lives with a task that sends demotions",
    /// Times that blocks on the drive were opened, with a cache on them.
    lives_on_blocks: "openings of blocks below the cache",
    /// Those of them that are of a virtual SSD.
    lives_on_vssds: "  of a virtual SSD",
    /// Parts of blocks that moved while its channel changed places with others.
    vssd_parts_moved: "  moved there with their channel",
    /// Blocks of pages that were cleaned there.
    blocks_cleaned: "  blocks cleaned",
    /// Times that a drive of a set of shards failed, did not answer or was slow.
    drives_harmed: "drives of sets harmed",
    /// Changes of a set of shards that somebody began.
    orders: "changes of sets begun",
    /// Of these, changes that were made.
    orders_done: "  of sets made",
    /// Of these, changes that were given up halfway.
    given_up_orders: "  of sets given up",
    /// Shards that were taken out because they had failed.
    shards_failed: "shards taken out of sets",
    /// Changes that were made and lost with the shard.
    lost_changes: "changes lost with their shard",
    /// Bytes of keys and values that were copied to shards that were back.
    refilled_bytes: "bytes refilled in sets",
    /// Openings that failed on a device with faults.
    refused_openings: "openings refused",
    /// Shutdowns that ended well.
    closes: "clean shutdowns",
    /// Of these, shutdowns that had no time for everything.
    short_closes: "  that left something out",
    /// Small objects that shutdowns wrote in order.
    closed_in_order: "small objects written in order",
    /// Operations begun.
    operations: "operations",
    /// Operations whose caller gave up while they were under way.
    given_up: "given up on the way",
    /// Operations cut off by a crash.
    cut_off: "cut off by a crash",
    /// Values found by `get`.
    hits: "hits",
    /// Values from flash.
    flash_hits: "  from flash",
    /// Faults injected into requests.
    faults: "faults injected",
    /// Writes that were reported as failed and happened.
    failed_but_done: "  that happened all the same",
    /// Times that the wall clock was set back.
    steps_back: "clock set back",
    /// Times that it was set forward.
    steps_forward: "clock set forward",
    /// Lives with other settings than the one before.
    changed_settings: "lives with other settings",
    /// Seeds with more clients than a block of the tombstone log holds.
    crowds: "seeds with more clients than a log block holds",
    /// Lives in which a tombstone log came round to what was still needed.
    rings_round: "lives whose tombstone log went round",
    /// Tombstone logs that were given up.
    logs_given_up: "tombstone logs given up",
    /// Of these, logs that were believed again.
    logs_regained: "  and regained",
    /// Blocks of tombstone logs that were damaged between a crash and the next opening.
    rotten_blocks: "log blocks damaged",
    /// Buckets and regions that came back after a failed write.
    revived_places: "places revived",
    /// Device errors that the cache counted.
    device_errors: "device errors counted",
    /// Requests that were given up, and may have happened later.
    device_timeouts: "  of requests given up",
    /// Times that the scheduler had a choice.
    steps: "scheduler steps",
    /// Keys whose history had too many orders to judge.
    undecided: "undecided histories",
    /// Answers that no order of the operations makes right, and counters that do not add up.
    wrong_answers: "wrong answers",
}
