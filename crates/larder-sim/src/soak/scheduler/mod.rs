//! The scheduler picks by seed which client proceeds, which request of the device ends, and which client gives up.
//!
//! | module | content |
//! |---|---|
//! | `incarnation` | a cache from its opening to its end, and its counters |
//! | `shard_life` | the life of a set of shards: openings, failures, the operator |
//! | `on_blocks` | a device on blocks for the cache, and the process that opens it |

mod incarnation;
mod on_blocks;
mod shard_life;

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::hash::Hasher;
use std::rc::Rc;
use std::sync::Arc;

use xxhash_rust::xxh3::Xxh3;

use crate::executor::Tasks;
use crate::soak::choose::RequestSource;
use crate::soak::device::{Outage, StagedDevice};
use crate::soak::history::{Effect, KeyHistory, Operation};
use crate::soak::kept::{self, Begun, Kept};
use crate::soak::on_shards::OnShards;
use crate::soak::oracle::{self, Judgement};
use crate::soak::plan::{Plan, Trouble};
use crate::soak::process::OnBlocks;
use crate::soak::request::{Answer, Found, Request, learn_found};
use crate::soak::run_time::RunTime;
use crate::soak::subject::{InjectedBug, Subject, flags_of};
use crate::soak::theme::Theme;
use crate::soak::value::{Content, content_of, first_piece};
use crate::soak::{SeedReport, Totals};

/// Maximum duration of a step of a set of shards while a task is ready.
const BUSY_STEP_NS: u64 = 2_000;
/// One step in this number sets the wall clock, for seeds that do so.
const CLOCK_STEPS_ONE_IN: u32 = 400;
/// The same for seeds with the theme `Setbacks`.
const SETBACKS_ONE_IN: u32 = 100;
/// Tombstones per block of their log.
const LOG_BLOCK_ENTRIES: usize = 232;
/// Number of events of a key that are shown with a wrong answer.
const EVENTS_SHOWN: usize = 40;

/// The state of the run of one seed.
pub(super) struct Scheduler {
    seed: u64,
    plan: Plan,
    rng: fastrand::Rng,
    bug: InjectedBug,
    time: RunTime,
    device: Arc<StagedDevice>,
    on_blocks: OnBlocks,
    /// For seeds with several shards; `device` then only serves the callers' fetches.
    set: Option<OnShards>,
    /// The message of a call that was refused because of a device, and when the call began, until this is judged.
    refusal: Option<(String, u64)>,
    /// Number of changes lost with shards, at the end of the last call.
    lost_changes: u64,
    /// When a call last began or ended.
    answered_ns: u64,
    log: Rc<RefCell<Log>>,
    executor: Tasks<'static, Answer>,
    calls: Vec<Option<Call>>,
    source: RequestSource,
    /// Values that callers hold.
    pins: VecDeque<(u32, Found)>,
    issued: Issued,
    /// Number of failed device requests when the current cache was opened.
    failed_before: u64,
    /// Number of large objects when the cache was cut off, if the next one should find them again.
    large_before: Option<u64>,
    kept: Kept,
    /// Number of objects that the current cache has evicted, updated with each new request.
    evicted: u64,
    totals: Totals,
    wrong: Option<String>,
    digest: Xxh3,
}

/// The topic of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    /// Decided by the seed.
    Anything,
    Power,
    /// A cache on blocks.
    Blocks,
    /// Large objects in the array engine.
    Array,
    /// Several shards.
    Shards,
    /// Small objects in pages by set.
    Pages,
}

/// The history of each key.
struct Log {
    keys: Vec<KeyHistory>,
    /// The operation that stores a fetched value, by piece.
    fills: HashMap<u32, usize>,
}

/// A call in flight.
struct Call {
    request: Request,
    /// Its operations, once it has begun.
    operations: Option<Vec<(u32, usize)>>,
    /// Its key and change, if it may change its key.
    change: Option<(u32, Begun)>,
}

/// Calls to the current cache.
#[derive(Debug, Default, Clone, Copy)]
struct Issued {
    gets: u64,
    fetches: u64,
    sets: u64,
    deletes: u64,
    hits: u64,
}

/// A seed in this number, of those about blocks, has its small objects in pages by set.
const PAGES_ON_BLOCKS_ONE_IN: u64 = 3;

impl Scheduler {
    pub(in crate::soak) fn new(seed: u64, bug: InjectedBug, about: About) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let theme = (about == About::Power).then_some(Theme::Power);
        let mut plan = Plan::of(&mut rng, theme);
        let on_blocks = match about {
            About::Blocks => {
                if seed.is_multiple_of(PAGES_ON_BLOCKS_ONE_IN) {
                    plan.put_in_pages(seed);
                }
                plan.put_on_blocks(seed)
            }
            About::Array => {
                plan.put_in_array(seed);
                OnBlocks::default()
            }
            About::Pages => {
                plan.put_in_pages(seed);
                OnBlocks::default()
            }
            About::Anything | About::Power | About::Shards => OnBlocks::default(),
        };
        let set = (about == About::Shards).then(|| plan.put_on_shards(seed));
        let time = RunTime::new();
        let device = crate::soak::drive::fresh_device("drive".to_owned(), &plan, &mut rng);
        let keys = plan.keys as usize;
        let log = Log { keys: vec![KeyHistory::default(); keys], fills: HashMap::new() };
        Self {
            seed,
            rng,
            bug,
            answered_ns: time.now_ns(),
            time,
            device,
            on_blocks,
            set,
            refusal: None,
            lost_changes: 0,
            log: Rc::new(RefCell::new(log)),
            // The last four tasks are the rebuild, the sender of demotions, the upkeep of shards, and the operator.
            executor: Tasks::new(plan.clients + 4),
            calls: (0..plan.clients + 4).map(|_| None).collect(),
            source: RequestSource::new(keys),
            pins: VecDeque::new(),
            issued: Issued::default(),
            failed_before: 0,
            large_before: None,
            totals: Totals {
                seeds: 1,
                crowds: u64::from(plan.clients > LOG_BLOCK_ENTRIES),
                ..Totals::default()
            },
            kept: Kept::new(&plan),
            evicted: 0,
            wrong: None,
            digest: Xxh3::new(),
            plan,
        }
    }

    /// Runs all incarnations and judges the history.
    pub(in crate::soak) fn run(mut self) -> SeedReport {
        for incarnation in 0..self.plan.incarnations {
            self.live(incarnation);
            if self.wrong.is_some() {
                break;
            }
        }
        self.judge();
        self.judge_below();
        // A held request's waiter keeps an `Arc` to the drive; without this both leak.
        self.cut_off_process();
        self.drives().for_each(StagedDevice::cut);
        if self.bug == InjectedBug::None {
            let audit = |drive: &StagedDevice| drive.faults().inner().with_ssd(|ssd| ssd.audit());
            let complaint = self.drives().find_map(|drive| audit(drive).err());
            if let Some(complaint) = complaint {
                self.complain(&format!("the SSD model: {complaint}"));
            }
        }
        SeedReport { totals: self.totals, wrong: self.wrong, digest: self.digest.finish() }
    }

    /// Records an error. Only the first is kept.
    fn complain(&mut self, what: &str) {
        self.totals.wrong_answers += 1;
        let (seed, plan) = (self.seed, &self.plan);
        let tell = || format!("seed {seed}: {what}\nplan: {plan:?}");
        self.wrong.get_or_insert_with(tell);
    }

    fn judge(&mut self) {
        let log = Rc::clone(&self.log);
        for (key, history) in log.borrow().keys.iter().enumerate() {
            match oracle::judge(history) {
                Judgement::Right => {}
                Judgement::Undecided => self.totals.undecided += 1,
                Judgement::Wrong(number) => {
                    let what = &history.operations[number].what;
                    let tail = history.tail(number, EVENTS_SHOWN);
                    self.complain(&format!(
                        "key {key}: {number} ({what}) cannot be right:\n{tail}"
                    ));
                }
            }
        }
    }

    /// Advances virtual time; `is_busy` says whether a task is ready.
    fn tick(&mut self, is_busy: bool) {
        let mut step_ns = self.rng.u64(..=self.plan.step_ns);
        if self.rng.u32(..1000) == 0 {
            step_ns += self.rng.u64(..10_000_000_000);
        }
        // A computer that stops for seconds would treat all drives of a set as failed. So only the drives are slow
        // here.
        if self.set.is_some() {
            let busy_ns = if is_busy { BUSY_STEP_NS } else { u64::MAX };
            let next_ns = self
                .next_due_ns()
                .map_or(u64::MAX, |due_ns| due_ns.max(self.time.now_ns()) - self.time.now_ns());
            step_ns = step_ns.min(busy_ns).min(next_ns);
        }
        self.set_now(self.time.now_ns() + step_ns);
        let one_in = match self.plan.theme {
            Theme::Setbacks => SETBACKS_ONE_IN,
            _ => CLOCK_STEPS_ONE_IN,
        };
        if self.plan.clock_steps && self.rng.u32(..one_in) == 0 {
            self.set_clock();
        }
    }

    /// Sets the wall clock.
    fn set_clock(&mut self) {
        let back = self.time.set_wall(&mut self.rng);
        let Totals { steps_back, steps_forward, .. } = &mut self.totals;
        *(if back { steps_back } else { steps_forward }) += 1;
        self.set_now(self.time.now_ns());
    }

    fn set_now(&mut self, now_ns: u64) {
        self.time.advance_to(now_ns);
        self.drives().for_each(|drive| drive.advance_to(self.time.now_ns()));
    }

    /// All drives.
    fn drives(&self) -> impl Iterator<Item = &StagedDevice> {
        let of_set = self.set.iter().flat_map(|set| set.drives.iter().map(|drive| &drive.device));
        std::iter::once(&self.device).chain(of_set).map(|drive| &**drive)
    }

    /// Requests in flight.
    fn held(&self) -> usize {
        self.drives().map(StagedDevice::held).sum()
    }

    /// When the next request ends.
    fn next_due_ns(&self) -> Option<u64> {
        self.drives().filter_map(StagedDevice::next_due_ns).min()
    }

    /// Lets the next request of a device end. Returns whether there was one.
    fn release(&mut self) -> bool {
        let Some(due_ns) = self.next_due_ns() else { return false };
        self.set_now(due_ns);
        let mut drives = self.drives();
        drives.find(|drive| drive.next_due_ns() == Some(due_ns)).map(StagedDevice::release_next);
        drop(drives);
        self.swap_below();
        true
    }

    /// The same, or wakes tasks that sleep, whichever comes first.
    fn wait(&mut self) -> bool {
        let wakes_ns = self.time.next_wake_ns().filter(|_| self.set.is_some());
        match wakes_ns.filter(|wakes_ns| self.next_due_ns().is_none_or(|due_ns| *wakes_ns < due_ns))
        {
            Some(wakes_ns) => {
                self.set_now(wakes_ns);
                true
            }
            None => self.release(),
        }
    }

    /// One step of the traffic: `more` is the number of requests that clients may still send. Returns whether there was
    /// anything to do.
    fn step(&mut self, subject: &Rc<Subject>, more: &mut u64) -> bool {
        self.tick(self.executor.is_any_ready());
        self.totals.steps += 1;
        if self.plan.drop_one_in > 0 && self.rng.u32(..self.plan.drop_one_in) == 0 {
            let client = self.rng.usize(..self.plan.clients);
            self.give_up(client, false);
        }
        if matches!(self.plan.trouble, Trouble::Absences | Trouble::NoSpace) {
            self.weather();
        }
        self.befall(subject);
        if *more > 0 {
            let client = self.rng.usize(..self.plan.clients);
            if !self.executor.is_running(client) && self.ask(client, subject) {
                *more -= 1;
            }
        }
        let overdue = self.next_due_ns().is_some_and(|due_ns| due_ns <= self.time.now_ns());
        if overdue && self.rng.bool() {
            return self.release();
        }
        match self.executor.next(|ready| self.rng.usize(..ready)) {
            Some(client) => {
                self.go_on(client, subject);
                self.judge_refusal(subject);
                true
            }
            None => self.wait() || *more > 0,
        }
    }

    /// Starts and ends outages.
    fn weather(&mut self) {
        if self.rng.u32(..300) == 0 {
            let trouble = match self.plan.trouble {
                Trouble::Absences => Outage::Gone,
                _ => Outage::Full,
            };
            let outage = self.rng.bool().then_some(trouble);
            self.device.set_outage(outage);
        }
    }

    /// Lets a client send a request, if one can be drawn.
    fn ask(&mut self, client: usize, subject: &Rc<Subject>) -> bool {
        let log = Rc::clone(&self.log);
        let open = |key: u32| log.borrow().keys[key as usize].open;
        let Some(request) = self.source.choose(&mut self.rng, &self.plan, &open) else {
            return false;
        };
        let fetch = self.fetch(&request);
        let future = Box::pin(Rc::clone(subject).perform(request.clone(), fetch));
        self.calls[client] = Some(Call { request, operations: None, change: None });
        if self.kept.follows() {
            self.evicted = kept::evicted(&subject.cache.stats());
        }
        self.executor.spawn(client, future);
        true
    }

    /// The fetch for a miss, which records its begin.
    fn fetch(&self, request: &Request) -> impl FnOnce() -> Fetching + use<> {
        let (log, device, judged_ns) =
            (Rc::clone(&self.log), Arc::clone(&self.device), self.time.judged());
        let write = match request {
            Request::GetOrFetch(key, write, _) => Some((*key, write.clone())),
            _ => None,
        };
        move || {
            if let Some((key, write)) = write {
                let what = format!("store what was fetched: {}", write.piece);
                let mut log = log.borrow_mut();
                let fill = log.keys[key as usize].begin(Operation {
                    effect: Some(Effect::Store(write.content)),
                    fill: true,
                    ..Operation::begun(what, judged_ns.get())
                });
                log.fills.insert(write.piece, fill);
            }
            let elsewhere = device.elsewhere();
            Box::pin(async move {
                // Only the time that it takes matters.
                let _came = elsewhere.await;
            })
        }
    }

    /// The calls in flight, as text.
    fn under_way(&self) -> String {
        let calls = self.calls.iter().enumerate();
        let calls = calls.filter_map(|(client, call)| Some((client, &call.as_ref()?.request)));
        let conditions = self.set.iter().flat_map(|set| &set.drives);
        let conditions = conditions.map(|drive| (drive.condition, drive.device.held()));
        format!("{:?}, drives {:?}", calls.collect::<Vec<_>>(), conditions.collect::<Vec<_>>())
    }

    /// Polls a client's call; begins it if that has not happened yet.
    fn go_on(&mut self, client: usize, subject: &Subject) {
        if self.calls[client].as_ref().is_some_and(|call| call.operations.is_none()) {
            self.begin(client);
        }
        let Some(answer) = self.executor.poll(client) else { return };
        self.answered_ns = self.time.now_ns();
        let Some(Call { request, operations: Some(operations), change }) =
            self.calls[client].take()
        else {
            return;
        };
        self.note_kept(client, &request, &answer, change);
        self.note(format_args!("{client} {request:?} {answer:?}"));
        // A flush reports an error if values are not on flash.
        if let Answer::Refused(larder::ErrorKind::Device, message) = &answer
            && !matches!(request, Request::Flush)
        {
            let begun = operations.first().map(|(key, number)| {
                self.log.borrow().keys[*key as usize].operations[*number].begin_ns
            });
            self.refusal = Some((format!("{request:?}: {message}"), begun.unwrap_or(0)));
        }
        let lost = self.was_lost(subject);
        self.end((&request, &answer), &operations, lost);
    }

    fn begin(&mut self, client: usize) {
        let ttl = self.calls[client].as_ref().and_then(|call| call.request.ttl());
        let latest_expiry_ns = self.time.expiry_ns(ttl);
        self.answered_ns = self.time.now_ns();
        let Some(call) = &mut self.calls[client] else { return };
        self.totals.operations += 1;
        match &call.request {
            Request::Get(_) => self.issued.gets += 1,
            Request::GetMany(keys) => self.issued.gets += keys.len() as u64,
            Request::GetOrFetch(..) => self.issued.fetches += 1,
            Request::Store(_, crate::soak::request::Verb::Set, _) => self.issued.sets += 1,
            Request::Delete(_) => self.issued.deletes += 1,
            _ => {}
        }
        if matches!(call.request, Request::Flush) {
            self.kept.begin_flush(client);
        } else if call.request.changes() {
            let changed = call.request.keys();
            call.change = changed.first().map(|key| (*key, self.kept.begin(*key, self.evicted)));
        }
        let expiry_ns = latest_expiry_ns;
        let what = format!("client {client} at {} ns: {:?}", self.time.now_ns(), call.request);
        let mut operations = Vec::new();
        for key in call.request.keys() {
            self.source.begun(key);
            let mut operation = Operation::begun(what.clone(), self.time.judged_ns());
            operation.expiry_ns = expiry_ns;
            call.request.intend(&mut operation);
            operations.push((key, self.log.borrow_mut().keys[key as usize].begin(operation)));
        }
        call.operations = Some(operations);
    }

    /// Updates the objects that must survive a power loss from an answer.
    fn note_kept(
        &mut self,
        client: usize,
        request: &Request,
        answer: &Answer,
        change: Option<(u32, Begun)>,
    ) {
        if let Request::Flush = request {
            self.kept.end_flush(client, matches!(answer, Answer::Flushed(0)));
        }
        if let Some((key, begun)) = change {
            let set = matches!(answer, Answer::Done).then_some(request);
            self.kept.end(key, begun, set);
        }
    }

    fn end(
        &mut self,
        (request, answer): (&Request, &Answer),
        operations: &[(u32, usize)],
        lost: bool,
    ) {
        let latest_expiry_ns = self.time.expiry_ns(request.ttl());
        let many = match answer {
            Answer::Many(found) => Some(found),
            _ => None,
        };
        for (at, (key, number)) in operations.iter().enumerate() {
            let found = match (answer, many) {
                (Answer::Found(found) | Answer::Fetched(found), _) => found.as_ref(),
                (_, Some(many)) => many.get(at).and_then(Option::as_ref),
                _ => None,
            };
            let mut learnt = Ok(());
            let log = Rc::clone(&self.log);
            log.borrow_mut().keys[*key as usize].end(*number, |operation| {
                // A set of a single cache computes its expiry at its begin; all others compute it later.
                let at_once =
                    matches!(request, Request::Store(_, crate::soak::request::Verb::Set, _));
                if !at_once || self.set.is_some() {
                    operation.expiry_ns = latest_expiry_ns;
                }
                if lost {
                    // The change may have been seen before it was lost.
                    return;
                }
                learnt = match (request, answer) {
                    (Request::GetMany(_) | Request::Scan(_), Answer::Many(_)) => {
                        operation.certain = true;
                        learn_found(found, operation)
                    }
                    (Request::GetOrFetch(..), Answer::Fetched(_) | Answer::Refused(..)) => Ok(()),
                    _ => request.learn(answer, operation),
                };
            });
            if let Request::GetOrFetch(_, write, _) = request {
                learnt = self.learn_fetched(*key, *number, write.piece, found, latest_expiry_ns);
            }
            if let Some(found) = found {
                if matches!(request, Request::Get(_) | Request::GetMany(_)) {
                    self.issued.hits += 1;
                }
                learnt = learnt.and(self.look_at(*key, found));
            }
            if let Err(complaint) = learnt {
                let tail = self.log.borrow().keys[*key as usize].tail(*number, EVENTS_SHOWN);
                self.complain(&format!("key {key}: {complaint}\n{tail}"));
            }
        }
    }

    /// Updates the operation from a fetched value, also if another call fetched it. A value fetched by another call is
    /// right if the key was not changed between that fetch and this call.
    fn learn_fetched(
        &mut self,
        key: u32,
        number: usize,
        own_piece: u32,
        found: Option<&Found>,
        expiry_ns: u64,
    ) -> Result<(), String> {
        self.end_fill(key, own_piece, expiry_ns);
        let Some(found) = found else { return Ok(()) };
        let content = found.content.clone()?;
        let mut log = self.log.borrow_mut();
        let pieces = match &content {
            Content::Pieces(pieces) if pieces.len() == 1 => pieces.first().copied(),
            Content::Number(number) => first_piece(key, *number),
            Content::Pieces(_) => None,
        };
        let fill = pieces.and_then(|piece| log.fills.get(&piece).copied());
        let history = &mut log.keys[key as usize];
        match fill {
            Some(_) if pieces == Some(own_piece) => Ok(()),
            Some(fill) if history.changed_between(fill, number) => {
                Err(format!("what {fill} fetched before a change was returned after it ({number})"))
            }
            Some(_) => Ok(()),
            None => {
                let operation = &mut history.operations[number];
                operation.certain = true;
                operation.need = crate::soak::history::Need::Content(content);
                Ok(())
            }
        }
    }

    /// The caller of a fetch gets no error if the device failed the write that invalidates the old value: see
    /// `Larder::get_or_fetch`.
    fn end_fill(&mut self, key: u32, piece: u32, expiry_ns: u64) {
        let mut log = self.log.borrow_mut();
        if let Some(fill) = log.fills.get(&piece).copied() {
            let doubtful =
                self.plan.trouble.fails_writes() && self.device.failed() > self.failed_before;
            log.keys[key as usize].end(fill, |operation| {
                operation.doubtful = doubtful;
                operation.expiry_ns = expiry_ns;
            });
        }
    }

    /// Checks that apply to every value.
    fn look_at(&mut self, key: u32, found: &Found) -> Result<(), String> {
        let content = found.content.clone()?;
        let flags = flags_of(key, &content);
        if found.flags != flags {
            return Err(format!("flags {} for {content:?}", found.flags));
        }
        if self.rng.u32(..4) == 0 {
            self.source.was_read(key, found.version, content);
        }
        if self.plan.pins > 0 {
            self.pins.push_back((key, found.clone()));
            if self.pins.len() > self.plan.pins {
                return self.unpin();
            }
        }
        Ok(())
    }

    /// Releases the oldest held value, which must be unchanged.
    fn unpin(&mut self) -> Result<(), String> {
        let Some((key, found)) = self.pins.pop_front() else { return Ok(()) };
        let Some(value) = &found.pin else { return Ok(()) };
        if content_of(key, value) != found.content {
            return Err(format!("a value of key {key} changed while it was held"));
        }
        Ok(())
    }

    /// A client gives up its call, or a crash cuts it off.
    fn give_up(&mut self, client: usize, by_crash: bool) {
        if !self.executor.drop_task(client) {
            return;
        }
        let Some(call) = self.calls[client].take() else { return };
        if let Request::Flush = call.request {
            self.kept.end_flush(client, false);
        }
        if let Some((key, begun)) = call.change {
            self.kept.end(key, begun, None);
        }
        let Some(operations) = call.operations else {
            call.request.keys().iter().for_each(|key| self.source.begun(*key));
            return;
        };
        *(if by_crash { &mut self.totals.cut_off } else { &mut self.totals.given_up }) += 1;
        self.note(format_args!("{client} gives up {:?}", call.request));
        let latest_expiry_ns = self.time.expiry_ns(call.request.ttl());
        let doubtful = self.plan.trouble.fails_writes() || self.some_drive_fails();
        for (key, number) in operations {
            let log = Rc::clone(&self.log);
            log.borrow_mut().keys[key as usize].end(number, |operation| {
                operation.doubtful = doubtful;
                operation.expiry_ns = operation.expiry_ns.max(latest_expiry_ns);
            });
            if let Request::GetOrFetch(_, write, _) = &call.request {
                self.end_fill(key, write.piece, latest_expiry_ns);
            }
        }
    }

    fn note(&mut self, what: std::fmt::Arguments<'_>) {
        self.digest.write(what.to_string().as_bytes());
        self.digest.write(&self.time.now_ns().to_le_bytes());
    }
}

/// The future of a fetch.
type Fetching = std::pin::Pin<Box<dyn Future<Output = ()>>>;
