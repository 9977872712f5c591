//! Appends objects with hits again before their region is reclaimed (BigKV, EuroSys'23), a few at a time.
//!
//! ```text
//!   a region begins ──► the region that is reclaimed next: its footer, and the hits that DRAM knows of its objects
//!                         │ those with the most hits, at most the share of a region that the drive has time for
//!   new objects ────────► for each of them a share of the chosen ones is read, and then appended
//!   the region is full ─► the other one is reclaimed, and no object read; what was not appended by then is lost
//! ```
//!
//! 1. *Evidence.* An entry in DRAM counts hits, up to 3, since its record was written; an object that was appended
//!    again has none. Entries that DRAM does not have are not looked up: a table costs a read.
//! 2. *How many.* At most a share of a region ([`Share`]). Of objects with the same hits, those that were written last
//!    stay: they expire last.
//! 3. *When.* As new objects are appended, so that reads and writes of kept objects are spread over the filling of a
//!    region, up to three quarters of its new objects. While more bytes wait to be written than may, only the least
//!    share.
//! 4. *By which task.* The callers that append start the reads and do not wait for them. The next one finds those that
//!    have ended. Nothing runs if nothing is appended.
//! 5. *What is current.* Under the lock of the log, a read object is appended only if its entry still leads to the
//!    place from where it was read, and that place is still of the same filling. So it replaces nothing newer.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use larder_log::{Event, FooterEntry, Host, RecordForm, RegionIdentity, RegionState};

use super::entry::RecordPlace;
use super::log::{ArrayLog, State};
use super::share::Share;
use crate::base::item::FlashItem;
use crate::base::ttl_groups::group_of;
use crate::engine::long::Lack;
use crate::engine::stored::record_of;

/// Maximum number of objects that are being read or wait for room, and of their bytes, in pieces. One may be longer.
const IN_HAND: usize = 4;
const IN_HAND_PIECES: usize = 4;
/// The chosen objects are read by the time that this many quarters of a region's new objects were appended.
const QUARTERS: usize = 3;

/// An object that is to be appended again.
#[derive(Debug, Clone, Copy)]
struct Chosen {
    hash: u64,
    at: RecordPlace,
    hits: u32,
    /// Bytes of its record.
    bytes: usize,
}

type Reading<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What is to be kept of the region that is reclaimed next.
struct Plan {
    filling: RegionIdentity,
    /// Those that are not being read yet, in the order of their places.
    chosen: VecDeque<Chosen>,
    /// Bytes of all that were chosen.
    chosen_bytes: usize,
    /// Bytes of those whose read has begun.
    begun_bytes: usize,
    /// Bytes that were appended again.
    kept_bytes: usize,
    /// Bytes of new objects since the plan was made.
    appended_bytes: usize,
    reads: Vec<(Chosen, Reading<Result<FlashItem, Lack>>)>,
    /// Those that were read and wait for room.
    read: VecDeque<(Chosen, FlashItem)>,
}

/// How far the work for the next reclaim is.
#[derive(Default)]
enum Progress {
    /// The plan for the region that is reclaimed next must be made.
    #[default]
    Wanted,
    /// The footer of that region is being read.
    Listing(RegionIdentity, Reading<Option<Vec<FooterEntry>>>),
    Planned(Plan),
    /// There is nothing to do until the next region begins.
    Done,
}

#[derive(Default)]
struct ReinsertionState {
    share: Share,
    progress: Progress,
}

/// See the [module](self).
pub(super) struct Reinsertion {
    log: Arc<ArrayLog>,
    state: Mutex<ReinsertionState>,
}

/// A new object that was appended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Appended {
    /// The stream to whose open region it went.
    pub(super) stream: usize,
    /// Bytes that it takes of the region.
    pub(super) bytes: usize,
    pub(super) now_s: u32,
}

impl Reinsertion {
    pub(super) fn of(log: &Arc<ArrayLog>) -> Self {
        Self { log: Arc::clone(log), state: Mutex::default() }
    }

    fn is_on(&self) -> bool {
        self.log.place().reinsertion
    }

    fn lock(&self) -> MutexGuard<'_, ReinsertionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes how busy the write path is: 0 is idle, 1 means that the next write has to wait.
    pub(super) fn note_busy(&self, busy: f64) {
        if self.is_on() {
            self.lock().share.note(busy);
        }
    }

    /// A region of objects began: those chosen for the last reclaim that were not appended are lost, and the next
    /// region is looked at.
    pub(super) fn region_began(&self) {
        if self.is_on() {
            let state = &mut *self.lock();
            state.share.step();
            self.give_up(std::mem::take(&mut state.progress));
        }
    }

    /// Forgets what was planned.
    pub(super) fn forget(&self) {
        self.lock().progress = Progress::default();
    }

    /// Goes on after a new object was appended: starts reads that are due, and appends what was read. Waits for
    /// nothing. Returns whether the log may have bytes to write because of that.
    pub(super) async fn advance(&self, new: Appended) -> bool {
        if !self.is_on() {
            return false;
        }
        poll_fn(|context| Poll::Ready(self.go_on(new, context))).await
    }

    fn go_on(&self, new: Appended, context: &mut Context<'_>) -> bool {
        let ReinsertionState { share, progress } = &mut *self.lock();
        if let Progress::Wanted = progress {
            *progress = self.begin();
        }
        if let Progress::Listing(filling, listing) = progress {
            let Poll::Ready(listed) = listing.as_mut().poll(context) else { return false };
            let filling = *filling;
            *progress = match listed {
                Some(listed) => Progress::Planned(self.choose(filling, &listed, *share)),
                None => Progress::Done,
            };
        }
        let Progress::Planned(plan) = progress else { return false };
        plan.appended_bytes += new.bytes;
        if !self.is_sealed(&self.log.lock(), plan.filling) {
            // A region of tables took it. The next reclaim takes another one.
            let lost = std::mem::take(progress);
            self.give_up(lost);
            return false;
        }
        self.begin_reads(plan);
        plan.collect(context);
        let appended = self.append_read(plan, new);
        if plan.is_done() {
            *progress = Progress::Done;
        }
        appended
    }

    /// Begins to list the region that is reclaimed next, if no region is free.
    fn begin(&self) -> Progress {
        let Some(filling) = self.log.regions().next_reclaimed().first().copied() else {
            return Progress::Done;
        };
        let log = Arc::clone(&self.log);
        let listing = async move {
            let footer = log.regions().read_footer(filling).await;
            footer.map(|footer| footer.entries)
        };
        Progress::Listing(filling, Box::pin(listing))
    }

    fn is_sealed(&self, state: &State, filling: RegionIdentity) -> bool {
        let region = state.regions.get(filling.region);
        region.state() == RegionState::Sealed && state.filling(filling.region) == filling
    }

    /// Chooses among the objects of a region.
    fn choose(&self, filling: RegionIdentity, listed: &[FooterEntry], share: Share) -> Plan {
        let mut candidates: Vec<Chosen> = {
            let state = self.log.lock();
            listed.iter().filter_map(|entry| candidate(&state, filling, entry)).collect()
        };
        let counters = self.log.counters();
        counters.array_reinsertion_candidates_objects.add(candidates.len() as u64);
        candidates.sort_by_key(|it| std::cmp::Reverse((it.hits, it.at.offset)));
        let mut left = share.of(self.log.place().log.region_bytes as usize);
        let (mut chosen, mut chosen_bytes) = (Vec::new(), 0);
        for candidate in candidates {
            let Some(rest) = left.checked_sub(candidate.bytes) else {
                counters.array_reinsertion_over_share_objects.add(1);
                continue;
            };
            left = rest;
            chosen_bytes += candidate.bytes;
            chosen.push(candidate);
        }
        chosen.sort_by_key(|it| it.at.offset);
        Plan {
            filling,
            chosen: chosen.into(),
            chosen_bytes,
            begun_bytes: 0,
            kept_bytes: 0,
            appended_bytes: 0,
            reads: Vec::new(),
            read: VecDeque::new(),
        }
    }

    /// Bytes of a region that are appended again even while more bytes wait to be written than may.
    fn least_bytes(&self) -> usize {
        Share::least_of(self.log.place().log.region_bytes as usize)
    }

    /// Starts the reads that are due.
    fn begin_reads(&self, plan: &mut Plan) {
        // The rest of the region is for new objects.
        let new_bytes =
            (self.log.place().log.region_bytes as usize).saturating_sub(plan.chosen_bytes);
        let fill_bytes = new_bytes / 4 * QUARTERS;
        let is_over_budget = self.log.lock().active.is_over_budget();
        let least_bytes = self.least_bytes();
        let most_bytes = self.log.place().log.piece_bytes as usize * IN_HAND_PIECES;
        while plan.may_read(most_bytes) && plan.is_due(fill_bytes) {
            if is_over_budget && plan.begun_bytes >= least_bytes {
                return;
            }
            let Some(next) = plan.chosen.pop_front() else { return };
            plan.begun_bytes += next.bytes;
            let (log, filling) = (Arc::clone(&self.log), plan.filling);
            let read = async move { log.read_record(next.at, filling, None).await };
            plan.reads.push((next, Box::pin(read)));
        }
    }

    /// Appends what was read, as far as there is room. Returns whether it appended something.
    fn append_read(&self, plan: &mut Plan, new: Appended) -> bool {
        let mut appended = false;
        let least_bytes = self.least_bytes();
        while let Some((chosen, fetched)) = plan.read.front() {
            let item = fetched.item();
            let state = &mut *self.log.lock();
            let is_current = candidate_at(state, *chosen) && self.is_sealed(state, plan.filling);
            if is_current && !item.is_expired(new.now_s) {
                if state.active.is_over_budget() && plan.kept_bytes >= least_bytes {
                    break;
                }
                let own = group_of(self.log.place().groups, fetched.expiry_s, new.now_s);
                let mut has_room = |stream: &usize| {
                    let open = state.active.open(*stream);
                    open.is_some_and(|open| open.has_room_for(item.object_bytes()))
                };
                let Some(stream) = [own, new.stream].into_iter().find(|it| has_room(it)) else {
                    break;
                };
                // With a stamp after all deaths so far: it is not dead.
                state.append(stream, &record_of(&item, Some(self.log.dead().clock())));
                self.log.host().note(Event::Reinserted(item.object_bytes() as u64));
                plan.kept_bytes += chosen.bytes;
                appended = true;
            }
            plan.read.pop_front();
        }
        appended
    }

    /// Counts the chosen objects that were not appended in time.
    fn give_up(&self, progress: Progress) {
        if let Progress::Planned(plan) = progress {
            let left = plan.chosen.len() + plan.reads.len() + plan.read.len();
            self.log.counters().array_reinsertion_late_objects.add(left as u64);
        }
    }
}

impl Plan {
    /// Whether the next read is due after this many bytes of new objects, if all are to be read after `fill_bytes`.
    fn is_due(&self, fill_bytes: usize) -> bool {
        let due = self.chosen_bytes as u64 * self.appended_bytes as u64 / fill_bytes.max(1) as u64;
        (self.begun_bytes as u64) < due
    }

    /// Whether another object may be in hand.
    fn may_read(&self, most_bytes: usize) -> bool {
        let reads = self.reads.iter().map(|(chosen, _)| chosen.bytes);
        let read = self.read.iter().map(|(chosen, _)| chosen.bytes);
        let next = self.chosen.front().map_or(0, |chosen| chosen.bytes);
        let count = self.reads.len() + self.read.len();
        count == 0 || count < IN_HAND && reads.chain(read).sum::<usize>() + next <= most_bytes
    }

    /// Takes the reads that have ended.
    fn collect(&mut self, context: &mut Context<'_>) {
        let Self { reads, read, .. } = self;
        reads.retain_mut(|(chosen, reading)| match reading.as_mut().poll(context) {
            Poll::Pending => true,
            Poll::Ready(fetched) => {
                read.extend(fetched.ok().map(|fetched| (*chosen, fetched)));
                false
            }
        });
    }

    fn is_done(&self) -> bool {
        self.chosen.is_empty() && self.reads.is_empty() && self.read.is_empty()
    }
}

/// The object of a footer's entry, if DRAM knows that it is current and was asked for since it was written.
fn candidate(state: &State, filling: RegionIdentity, entry: &FooterEntry) -> Option<Chosen> {
    let slot = state.entries.slot(entry.hash);
    let shape = state.entries.shape();
    let known = state.entries.set(slot).get(shape, slot.fingerprint)?;
    let at = shape.place_of(known);
    let is_here = (at.region, at.offset) == (filling.region, entry.offset);
    let bytes = RecordForm::STAMPED.bytes_of_record(entry.length);
    let chosen = Chosen { hash: entry.hash, at, hits: known.hits(), bytes };
    (is_here && shape.is_of_filling(known, filling.sequence) && known.hits() > 0).then_some(chosen)
}

/// Whether the entry still leads to this place.
fn candidate_at(state: &State, Chosen { hash, at, .. }: Chosen) -> bool {
    let slot = state.entries.slot(hash);
    let shape = state.entries.shape();
    let known = state.entries.set(slot).get(shape, slot.fingerprint);
    known.is_some_and(|known| shape.place_of(known) == at)
}
