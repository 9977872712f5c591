//! A cache from its opening to its end (closed, abandoned or cut off), and the check of its counters.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use larder::{AnyRoute, Larder, Recovery, Routed, Stats};
use larder_device::{Device, FaultPlan, Io, IoBuffer, PlacementHandle};

use super::{Issued, Scheduler};
use crate::any_cache::{Cache, only};
use crate::executor::{Running, Tasks};
use crate::soak::device::StagedDevice;
use crate::soak::history::{KeyHistory, Need, Operation};
use crate::soak::kept;
use crate::soak::plan::{Ending, Trouble};
use crate::soak::request::Answer;
use crate::soak::subject::{InjectedBug, Subject};
use crate::soak::theme::Theme;
use crate::soak::value::{content_of, key_of};

/// Number of openings on a device with faults before the faults are removed.
const OPENINGS_MAX: u32 = 3;
/// Bytes to erase so that a device counts as blank.
const FRONT_BYTES: usize = 128 << 10;
/// Bytes of a block of the tombstone log, and its magic.
const BLOCK_BYTES: usize = 4096;
const TOMBSTONE_MAGIC: [u8; 4] = *b"LTMB";
/// One step in this number starts a rebuild, or abandons it.
const REBUILDING_ONE_IN: u32 = 300;
/// An opening or closing that takes more steps is considered hung.
const STEPS_MAX: u32 = 1_000_000;
/// Idle steps after which calls in flight count as hung.
const PATIENCE: u32 = 3;
/// Nanoseconds without an answer after which calls in flight count as hung.
const PATIENCE_NS: u64 = 3_600_000_000_000;

/// How the cache is rebuilt after a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rebuilding {
    /// By a call before all others.
    First,
    /// By a call in parallel with the others, sometimes.
    Beside,
    /// Only by the callers of the cache.
    Nobody,
}

/// The result of an opening.
pub(super) type Opened = Result<Cache, larder::Error>;

/// Bytes written so far.
#[derive(Clone, Copy)]
struct Written {
    device: u64,
    cache: u64,
}

impl Scheduler {
    /// One cache, from opening to end.
    pub(super) fn live(&mut self, incarnation: u32) {
        let ending = self.plan.ending(&mut self.rng);
        if incarnation > 0 && self.plan.changing && self.rng.bool() {
            self.plan.change(&mut self.rng);
            self.totals.changed_settings += 1;
            self.large_before = None;
        }
        let rebuilding =
            [Rebuilding::First, Rebuilding::Beside, Rebuilding::Nobody][self.rng.usize(..3)];
        let Some(cache) = self.open(incarnation, rebuilding) else { return };
        let layout = only(&cache).and_then(Larder::layout);
        let metadata_bytes = layout.map_or(0, |layout| layout.metadata_bytes);
        let places_at = layout.map_or(0, |layout| layout.loc_offset.min(layout.soc_offset));
        let faults = self.plan.faults(&mut self.rng, metadata_bytes, places_at);
        self.device.faults().set_plan(&faults);
        self.issued = Issued::default();
        let written_before = Written {
            device: self.device_written_bytes(),
            cache: cache.stats().flash_written_bytes(),
        };
        let undisturbed =
            self.held() == 0 && self.plan.trouble == Trouble::None && self.set.is_none();
        let Some(cache) = self.look_at_all(cache) else { return };
        let subject = Rc::new(Subject::new(cache, self.bug));
        self.run_clients(&subject, (ending, rebuilding));
        let all_done = self.calls_under_way() == 0;
        for beside in [self.sender(), self.upkeeper(), self.operator()] {
            self.executor.drop_task(beside);
        }
        (0..=self.plan.clients).for_each(|client| self.give_up(client, ending != Ending::Close));
        if all_done && undisturbed && self.held() == 0 && self.plan.on_flash {
            self.compare_written(&subject, written_before);
        }
        self.note_set(&subject.cache);
        self.check_counters(&subject.cache.stats(), undisturbed);
        while !self.pins.is_empty() {
            if let Err(complaint) = self.unpin() {
                self.complain(&complaint);
            }
        }
        let Ok(subject) = Rc::try_unwrap(subject) else {
            self.complain("a task still holds the cache");
            return;
        };
        self.finish(subject.cache, ending);
    }

    /// Runs clients until they have sent enough requests, or are cut off.
    fn run_clients(&mut self, subject: &Rc<Subject>, (ending, rebuilding): (Ending, Rebuilding)) {
        let sends_beside = self.rng.bool();
        self.totals.lives_with_sender += u64::from(sends_beside);
        let mut more = self.plan.operations;
        // At any step between the first and the last.
        let cut_at = match ending {
            Ending::Close => u64::MAX,
            _ => self.rng.u64(..self.plan.operations * 5),
        };
        let mut steps = 0;
        let mut idle = 0;
        while steps < cut_at && (more > 0 || self.calls_under_way() > 0) {
            steps += 1;
            if rebuilding == Rebuilding::Beside && more > 0 {
                self.rebuild_beside(subject);
            }
            if sends_beside {
                self.send_beside(subject);
            }
            idle = if self.step(subject, &mut more) { 0 } else { idle + 1 };
            let is_patient =
                idle <= PATIENCE && self.time.now_ns() - self.answered_ns < PATIENCE_NS;
            if !is_patient && self.calls_under_way() > 0 {
                let (hung, which) = (self.calls_under_way(), self.under_way());
                self.complain(&format!("{hung} calls hang, and will never wake: {which}"));
                break;
            }
            // A close does not wait for all calls.
            if ending == Ending::Close && more == 0 && self.rng.u32(..200) == 0 {
                break;
            }
        }
    }

    fn finish(&mut self, cache: Cache, ending: Ending) {
        let stats = cache.stats();
        if ending == Ending::Close {
            // The effects of a close are not tracked; everything flushed before is present, and more.
            self.kept.forget();
        } else {
            self.kept.end_life(kept::evicted(&stats));
        }
        self.totals.unindexed_ends += u64::from(stats.loc_unindexed_regions > 0);
        let comparable = ending != Ending::Close
            && self.plan.trouble == Trouble::None
            && stats.loc_unindexed_regions == 0;
        self.large_before = (comparable && stats.crash_safe == 1).then_some(stats.loc_objects);
        match ending {
            Ending::Close => {
                self.close(cache);
                self.end_process();
            }
            Ending::Abandon => {
                let safe = cache.stats().crash_safe == 1;
                drop(cache);
                self.totals.crash_points += 1;
                self.lose_track();
                // Requests that outlive their cache must not run while another cache uses the device.
                while safe && self.release() {}
            }
            Ending::Kill | Ending::PowerLoss => {
                drop(cache);
                self.crash(ending);
            }
        }
        self.device.set_outage(None);
    }

    /// Opens the cache on the state of the previous one. `None` if it cannot be opened.
    fn open(&mut self, incarnation: u32, rebuilding: Rebuilding) -> Option<Cache> {
        self.failed_before = self.device.failed();
        for attempt in 0..=OPENINGS_MAX {
            if attempt == OPENINGS_MAX {
                self.device.faults().set_plan(&FaultPlan::new(0));
            }
            let Some(opening) = self.opening(incarnation) else { continue };
            let steps = if self.set.is_some() { 80 } else { 8 };
            let crash_at =
                (incarnation > 0 && self.rng.u32(..8) == 0).then(|| self.rng.u32(..steps));
            match self.drive(opening, crash_at) {
                None => {
                    self.totals.crashed_openings += 1;
                    self.crash_as_ever();
                }
                Some(Ok(cache)) => {
                    self.totals.reopenings += u64::from(incarnation > 0);
                    let recovery = only(&cache).and_then(Larder::recovery);
                    let kept = matches!(recovery, Some(Recovery::Clean { .. }));
                    self.totals.kept_openings += u64::from(kept);
                    self.note(format_args!("opened {recovery:?}"));
                    self.note_set(&cache);
                    let Some(cache) = self.rebuild_first(cache, rebuilding) else { continue };
                    self.count_found_again(&cache);
                    return Some(cache);
                }
                Some(Err(error)) => {
                    self.totals.refused_openings += 1;
                    self.note(format_args!("refused: {error}"));
                    match error.kind() {
                        larder::ErrorKind::Foreign if self.set.is_some() => {
                            self.leave_strangers_out();
                        }
                        _ if self.plan.trouble == Trouble::None => {
                            self.complain(&format!("a cache that cannot be opened: {error}"));
                            return None;
                        }
                        larder::ErrorKind::Foreign => self.erase_front(),
                        // Wait for requests of an earlier incarnation that were already reported as failed.
                        larder::ErrorKind::InUse => while self.release() {},
                        _ => {}
                    }
                }
            }
        }
        None
    }

    /// Starts an opening. `None` if a crash came first.
    fn opening(&mut self, incarnation: u32) -> Option<Running<'static, Opened>> {
        if self.set.is_some() {
            return self.opening_of_set();
        }
        let cut_short = incarnation > 0 && self.plan.on_blocks.is_some();
        let crash_at = (cut_short && self.rng.u32(..8) == 0).then(|| self.rng.u32(..40));
        let device = match self.plan.on_flash {
            true => Some(self.device_below(crash_at)?),
            false => None,
        };
        let (config, clock) = (self.plan.config.clone(), self.time.clock() as _);
        Some(Box::pin(async move {
            let cache = Larder::open(config, device, clock).await?;
            Ok(Routed::new(AnyRoute::One(Arc::new(cache))))
        }))
    }

    /// Rebuilds before other calls, if planned. `None` if a crash came first.
    fn rebuild_first(&mut self, cache: Cache, rebuilding: Rebuilding) -> Option<Cache> {
        if rebuilding != Rebuilding::First {
            return Some(cache);
        }
        let cache = Rc::new(cache);
        let crash_at = (self.rng.u32(..4) == 0).then(|| self.rng.u32(..60));
        let beside = Rc::clone(&cache);
        let rebuild = async move { beside.rebuild().await };
        if self.drive(Box::pin(rebuild), crash_at).is_some() {
            return Rc::try_unwrap(cache).ok();
        }
        drop(cache);
        self.totals.crashed_rebuilds += 1;
        self.crash_as_ever();
        None
    }

    /// After a crash, reads every key, if objects are required: objects covered by a flush must be present, and for the
    /// others nothing void may be returned.
    fn look_at_all(&mut self, cache: Cache) -> Option<Cache> {
        if !self.kept.follows() || self.rng.u32(..3) == 0 {
            return Some(cache);
        }
        let cache = Rc::new(cache);
        let beside = Rc::clone(&cache);
        self.drive(Box::pin(async move { beside.rebuild().await }), None)?;
        for key in 0..self.plan.keys {
            let what = format!("look at {key} after an opening at {} ns", self.time.now_ns());
            let begun = Operation::begun(what, self.time.judged_ns());
            let number = self.log.borrow_mut().keys[key as usize].begin(begun);
            let beside = Rc::clone(&cache);
            let get = async move { beside.get(&key_of(key)).await };
            self.issued.gets += 1;
            let value = match self.drive(Box::pin(get), None)? {
                Ok(value) => value,
                Err(error) => {
                    self.complain(&format!("key {key} cannot be looked up: {error}"));
                    return None;
                }
            };
            self.issued.hits += u64::from(value.is_some());
            let content = value.map(|value| content_of(key, &value));
            self.totals.kept_lookups += u64::from(self.kept.owed(key).is_some());
            match (&content, self.kept.owed(key)) {
                (Some(Ok(content)), Some(owed)) if content == owed => {}
                (_, Some(owed)) => {
                    let tail = self.log.borrow().keys[key as usize].tail(number, 12);
                    let recovery = only(&cache).and_then(Larder::recovery);
                    let what = format!(
                        "key {key}: a flush returned for {owed:?}, and it is {content:?}, \
                         {recovery:?}\n{tail}"
                    );
                    self.complain(&what);
                }
                _ => {}
            }
            let mut wrong = None;
            self.log.borrow_mut().keys[key as usize].end(number, |operation| {
                operation.certain = true;
                match content {
                    Some(Ok(content)) => operation.need = Need::Content(content),
                    Some(Err(complaint)) => wrong = Some(complaint),
                    None => {}
                }
            });
            if let Some(complaint) = wrong {
                self.complain(&format!("key {key}: {complaint}"));
            }
        }
        Rc::try_unwrap(cache).ok()
    }

    /// Sometimes starts a rebuild in parallel with other calls, or abandons it.
    fn rebuild_beside(&mut self, subject: &Rc<Subject>) {
        if self.rng.u32(..REBUILDING_ONE_IN) > 0 {
            return;
        }
        let number = self.plan.clients;
        if !self.executor.drop_task(number) {
            let subject = Rc::clone(subject);
            let rebuild = async move {
                subject.cache.rebuild().await;
                Answer::Done
            };
            self.executor.spawn(number, Box::pin(rebuild));
        }
    }

    /// The number of the task that sends demotions.
    fn sender(&self) -> usize {
        self.plan.clients + 1
    }

    /// Calls in flight, without the demotion sender and the upkeep of shards, which run as long as the cache.
    fn calls_under_way(&self) -> usize {
        let endless = [self.sender(), self.upkeeper()];
        let endless = endless.into_iter().filter(|task| self.executor.is_running(*task));
        self.executor.running() - endless.count()
    }

    /// Sometimes starts a task that sends demotions in parallel with the callers, or abandons it for a while.
    fn send_beside(&mut self, subject: &Rc<Subject>) {
        if self.rng.u32(..REBUILDING_ONE_IN) > 0 {
            return;
        }
        let number = self.sender();
        if !self.executor.drop_task(number) {
            let subject = Rc::clone(subject);
            let send = async move {
                subject.cache.send_demotions().await;
                Answer::Done
            };
            self.executor.spawn(number, Box::pin(send));
        }
    }

    fn count_found_again(&mut self, cache: &Cache) {
        let before = self.large_before.take();
        let recovery = only(cache).and_then(Larder::recovery);
        let Some(Recovery::Crashed { large_objects, regions_left }) = recovery else {
            return;
        };
        self.totals.crash_openings += 1;
        if let (Some(before), 0) = (before, regions_left) {
            self.totals.large_before_crashes += before;
            self.totals.large_after_crashes += large_objects;
        }
    }

    fn close(&mut self, cache: Cache) {
        self.end_silence();
        let crash_at = (self.rng.u32(..6) == 0).then(|| self.rng.u32(..40));
        let usual_ns = self.plan.delays.usual_ns;
        let most = [1, usual_ns, usual_ns * 20][self.rng.usize(..3)];
        let time = (self.rng.u32(..3) == 0).then(|| self.rng.u64(..most));
        // The cache is moved into the future: if the future is dropped, the cache is gone too.
        let closing = async move {
            match time {
                Some(nanos) => cache.close_within(Duration::from_nanos(nanos)).await,
                None => cache.close().await,
            }
        };
        match self.drive(Box::pin(closing), crash_at) {
            Some(Ok(stats)) => {
                self.totals.closes += 1;
                self.totals.short_closes += u64::from(stats.left_out_objects > 0);
                self.totals.closed_in_order += stats.closed_in_order_objects;
            }
            Some(Err(error)) if self.plan.trouble == Trouble::None && !self.some_drive_fails() => {
                self.complain(&format!("a cache that cannot be closed: {error}"));
            }
            // Equivalent to a crash.
            Some(Err(_)) => self.lose_track(),
            None => {
                self.totals.crashed_closes += 1;
                self.crash_as_ever();
            }
        }
    }

    /// Crashes in the way that fits the drive: a drive with volatile writes loses power.
    pub(super) fn crash_as_ever(&mut self) {
        self.crash(if self.plan.volatile { Ending::PowerLoss } else { Ending::Kill });
    }

    /// Stops everything. The callers and the cache must be gone already.
    fn crash(&mut self, ending: Ending) {
        self.cut_off_process();
        self.totals.crash_points += 1;
        if ending == Ending::PowerLoss {
            self.totals.power_losses += 1;
            let lost = match self.lose_power_below() {
                true => Ok(()),
                false => self.drives().try_for_each(StagedDevice::lose_power),
            };
            if let Err(error) = lost {
                self.complain(&format!("the simulated drive does not come back: {error}"));
            }
        } else {
            self.drives().for_each(StagedDevice::cut);
        }
        if self.plan.theme == Theme::Rot && self.rng.bool() {
            self.rot();
        }
        self.note(format_args!("crash"));
        self.lose_track();
        // A restart takes seconds; each epoch must begin at a new second.
        self.time.pass(2_000_000_000);
        self.tick(false);
    }

    /// Runs a single future. `None` if it is cut off at step `crash_at`.
    pub(super) fn drive<T: 'static>(
        &mut self,
        future: Running<'static, T>,
        crash_at: Option<u32>,
    ) -> Option<T> {
        let mut executor = Tasks::new(1);
        executor.spawn(0, future);
        for step in 0.. {
            if Some(step) == crash_at {
                executor.drop_task(0);
                return None;
            }
            self.tick(executor.is_any_ready());
            if executor.next(|ready| self.rng.usize(..ready)).is_some() {
                if let Some(output) = executor.poll(0) {
                    return Some(output);
                }
            } else if !self.wait() || step > STEPS_MAX {
                self.complain("opening or closing hangs, and will never wake");
                return None;
            }
        }
        None
    }

    /// Flips one bit in one block of the tombstone log.
    fn rot(&mut self) {
        let faults = self.device.faults();
        faults.set_plan(&FaultPlan::new(0));
        let read = Io::Read { offset: 0, buffer: IoBuffer::zeroed(FRONT_BYTES) };
        let Ok(mut front) = faults.submit(read).wait() else { return };
        let blocks = front.as_slice().chunks_exact(BLOCK_BYTES).enumerate().skip(1);
        let used: Vec<usize> = blocks
            .filter(|(_, block)| TOMBSTONE_MAGIC == block[..4])
            .map(|(number, _)| number)
            .collect();
        if used.is_empty() {
            return;
        }
        let block = used[self.rng.usize(..used.len())];
        let at = block * BLOCK_BYTES + self.rng.usize(..BLOCK_BYTES);
        front.as_mut_slice()[at] ^= 1 << self.rng.u32(..8);
        let write = Io::write(0, front, PlacementHandle::DEFAULT);
        match faults.submit(write).wait() {
            Ok(_) => self.totals.rotten_blocks += 1,
            Err(failure) => self.complain(&format!("a block cannot be damaged: {failure}")),
        }
    }

    /// Erases the front of the device, as the error for a foreign device suggests.
    fn erase_front(&mut self) {
        self.device.faults().set_plan(&FaultPlan::new(0));
        let (buffer, handle) = (IoBuffer::zeroed(FRONT_BYTES), PlacementHandle::DEFAULT);
        let erase = Io::write(0, buffer, handle);
        let erased = match self.plan.on_blocks.and(self.device_below(None)) {
            Some(device) => self.drive(Box::pin(device.submit(erase)), None),
            None => Some(self.device.faults().submit(erase).wait()),
        };
        if let Some(Err(failure)) = erased {
            self.complain(&format!("the front cannot be erased: {failure}"));
        }
    }

    /// Checks that the bytes written according to the cache since its opening are those that reached the drive.
    fn compare_written(&mut self, subject: &Subject, before: Written) {
        let told = subject.cache.stats().flash_written_bytes() - before.cache;
        let written = self.device_written_bytes() - before.device;
        if told != written {
            self.complain(&format!("the cache counts {told} written bytes, the drive {written}"));
        }
    }

    /// Everything stops: doubtful operations may be undone.
    fn lose_track(&mut self) {
        self.log.borrow_mut().keys.iter_mut().for_each(KeyHistory::crash);
    }

    /// Checks that no request or loss goes uncounted. On an undisturbed device nothing may fail: it has no faults, and
    /// no request of an earlier incarnation was still in flight.
    fn check_counters(&mut self, stats: &Stats, undisturbed: bool) {
        self.totals.hits += stats.hits();
        self.totals.flash_hits += stats.soc_hits + stats.loc_hits;
        self.totals.device_errors += stats.device_errors;
        self.totals.device_timeouts += stats.device_timeouts;
        self.totals.rings_round += u64::from(stats.tombstones_logged_again > 0);
        self.totals.logs_given_up += stats.tombstone_logs_given_up;
        self.totals.logs_regained += stats.tombstone_logs_regained;
        self.totals.revived_places += stats.soc_revived_buckets + stats.loc_revived_regions;
        let counts = self.drives().map(|drive| (drive.refused(), drive.faults().counts()));
        let (faults, failed_but_done) = counts.fold((0, 0), |(faults, done), (refused, it)| {
            let all = it.errors + it.torn_writes + it.lost_writes + it.bit_flips;
            (faults + refused + all, done + it.failed_but_done)
        });
        (self.totals.faults, self.totals.failed_but_done) = (faults, failed_but_done);
        // The counters of removed shards are unknown.
        if self.bug != InjectedBug::None || self.set.is_some() {
            return;
        }
        let Issued { gets, fetches, sets, deletes, hits } = self.issued;
        let mut wants = vec![
            (stats.sets == sets, "sets"),
            (stats.deletes == deletes, "deletes"),
            (stats.gets == gets + fetches, "gets"),
            (stats.hits() >= hits && stats.hits() <= stats.gets, "hits"),
        ];
        if undisturbed {
            let lost = stats.lost_to_device_errors_objects + stats.device_errors;
            wants.push((lost == 0, "device errors on a device without"));
            // After a change of settings, the places of buckets may hold anything.
            let bad = stats.soc_bad_buckets + stats.loc_bad_records;
            let same_layout = self.totals.changed_settings == 0;
            // After a power loss, structures may be torn although they are trusted as far as they are intact. A cache
            // that starts empty after a power loss leaves torn data in place, and scans all of it after a crash.
            let torn = self.totals.power_losses > 0;
            let may_be_bad = !same_layout || torn;
            wants.push((bad == 0 || may_be_bad, "bad structures on a device without faults"));
            let retired = stats.soc_retired_buckets + stats.loc_retired_regions;
            wants.push((retired == 0, "retired places on a device without faults"));
        }
        for (holds, what) in wants {
            if !holds {
                self.complain(&format!("{what} do not add up: {:?} {stats:?}", self.issued));
            }
        }
    }
}
