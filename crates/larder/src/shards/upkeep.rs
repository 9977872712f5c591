//! What is to be done for a set beside its calls: shards that fail are taken out, spares step in, caches of shards
//! that are away end, and shards that are back are refilled.

use std::collections::BTreeMap;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::Duration;

use futures_util::future::{join_all, poll_fn};
use larder_device::{BufferPool, Io, IoFuture, block_on};

use super::LiveSet;
use super::detect::{Verdict, Vitals, judge};
use super::options::Upkeep;
use crate::error::{Error, ErrorKind};
use crate::events;
use crate::partition::ShardNumber;
use crate::signal::ALL;

impl LiveSet {
    /// Looks after the set until it is closed.
    pub(crate) async fn upkeep(&self) {
        let watch = self.until_closed(async {
            loop {
                self.look_at_all().await;
                self.look_again().await;
            }
        });
        // Beside the watch, which may wait for devices that write down which shards are out.
        let beat = self.until_closed(async {
            loop {
                self.notice_pause();
                let at = self.clock.monotonic().saturating_add(self.options.look_every);
                self.clock.sleep_until(at).await;
            }
        });
        let probe = self.until_closed(async {
            let mut probes = BTreeMap::new();
            loop {
                self.probe_peers(&mut probes);
                self.look_again_with(&mut probes).await;
            }
        });
        let ask = self.until_closed(async {
            loop {
                if !self.ask_away().await {
                    self.look_again().await;
                }
            }
        });
        // Beside the refill: that may take hours, or wait for a device that answers nothing.
        let bring = self.until_closed(async {
            loop {
                // A spare that cannot step in is gone.
                if !matches!(self.use_spares().await, Ok(true)) {
                    self.look_again().await;
                }
            }
        });
        let refill = self.until_closed(async {
            loop {
                // A shard that cannot be refilled now may be later.
                if !self.refill().await {
                    self.look_again().await;
                }
            }
        });
        let end = self.until_closed(async {
            loop {
                self.end_left().await;
                self.look_again().await;
            }
        });
        // Behind pointers: together they are deep.
        let parts: [Pin<Box<dyn Future<Output = ()> + '_>>; 7] = [
            Box::pin(beat),
            Box::pin(watch),
            Box::pin(probe),
            Box::pin(ask),
            Box::pin(bring),
            Box::pin(refill),
            Box::pin(end),
        ];
        join_all(parts).await;
    }

    async fn until_closed(&self, work: impl Future<Output = ()>) {
        let mut work = pin!(work);
        let mut alarm = self.alarm.listen();
        poll_fn(|context| {
            while !self.is_closed() {
                if Pin::new(&mut alarm).poll(context).is_pending() {
                    return work.as_mut().poll(context);
                }
                alarm = self.alarm.listen();
            }
            Poll::Ready(())
        })
        .await;
    }

    /// Waits until it is time to look again, or until something has happened.
    async fn look_again(&self) {
        self.look_again_with(&mut BTreeMap::new()).await;
    }

    /// The same; meanwhile these go on.
    async fn look_again_with(&self, probes: &mut BTreeMap<usize, IoFuture>) {
        let at = self.clock.monotonic().saturating_add(self.options.look_every);
        let mut sleep = self.clock.sleep_until(at);
        let mut alarm = self.alarm.listen();
        poll_fn(|context| {
            probes.retain(|_, probe| Pin::new(probe).poll(context).is_pending());
            if Pin::new(&mut alarm).poll(context).is_ready() {
                return Poll::Ready(());
            }
            sleep.as_mut().poll(context)
        })
        .await;
    }

    /// Looks whether the host has slept since this was called last: no shard has to answer for that time.
    fn notice_pause(&self) {
        let now = self.clock.monotonic();
        let Some(slept) = self.beat.at(now, now.saturating_add(self.options.look_every)) else {
            return;
        };
        for shard in &self.state().shards {
            if let Some(pulse) = &shard.pulse {
                pulse.vitals().host_slept(slept);
            }
        }
        self.counts.host_pauses.fetch_add(1, Ordering::Relaxed);
        events::host_paused(slept);
    }

    /// If a shard is suspected, reads from its peers that do not read for this already: whether they answer says
    /// whether it is the host. What the suspect answers to this would only hide what it does not answer.
    fn probe_peers(&self, probes: &mut BTreeMap<usize, IoFuture>) {
        let suspected: Vec<bool> = self.suspects().iter().map(Option::is_some).collect();
        if !suspected.contains(&true) {
            return;
        }
        let pool = BufferPool::new();
        for (number, shard) in self.state().shards.iter().enumerate() {
            let is_suspect = suspected.get(number) == Some(&true);
            let Some(device) = shard.device.as_ref().filter(|_| !is_suspect) else { continue };
            probes.entry(number).or_insert_with(|| {
                let buffer = pool.take(device.info().block_bytes.max(4096) as usize);
                device.submit(Io::Read { offset: 0, buffer })
            });
        }
    }

    /// Half of the reads of live shards take longer, of the fastest of them; `None` if they read little.
    pub(super) fn peers_read_in(&self) -> Option<Duration> {
        let now = self.clock.monotonic();
        let pulses = self.state().shards.iter().filter_map(|shard| shard.pulse.as_ref());
        pulses.filter_map(|pulse| pulse.vitals().median_read(now)).min()
    }

    /// Takes out who has failed, and notes who is suspected.
    pub(super) async fn look_at_all(&self) {
        self.notice_pause();
        let state = self.state();
        let pulse_of = |shard: ShardNumber| Some((shard, state.shard(shard).pulse.as_ref()?));
        let pulses: Vec<_> = state.numbers().filter_map(pulse_of).collect();
        let verdicts = {
            let mut vitals: Vec<_> = pulses.iter().map(|(_, pulse)| pulse.vitals()).collect();
            let mut all: Vec<&mut Vitals> = vitals.iter_mut().map(|it| &mut **it).collect();
            let now = self.clock.monotonic();
            let mut judged = self.judged.lock().unwrap_or_else(PoisonError::into_inner);
            let since = judged.replace(now).unwrap_or(now);
            judge(&mut all, since, now)
        };
        for ((shard, _), verdict) in pulses.into_iter().zip(verdicts) {
            match verdict {
                Verdict::Well => self.suspect(shard, None),
                Verdict::Suspect(cause) => self.suspect(shard, Some(cause.to_string())),
                Verdict::Failed(cause) => {
                    let why = cause.to_string();
                    self.suspect(shard, Some(why.clone()));
                    // The last one that is live stays, come what may.
                    let _stays = self.fail_for_now(shard, &why).await;
                }
            }
        }
    }

    fn suspect(&self, shard: ShardNumber, why: Option<String>) {
        let mut all = self.suspects();
        if all.len() <= shard.index() {
            all.resize(shard.index() + 1, None);
        }
        let there = &mut all[shard.index()];
        if there.is_none() && why.is_some() {
            self.counts.suspected.fetch_add(1, Ordering::Relaxed);
        }
        match (&*there, &why) {
            (None, Some(why)) => events::shard_suspected(shard.index(), why),
            (Some(_), None) => events::shard_is_well(shard.index()),
            _ => {}
        }
        *there = why.map(Arc::from);
    }

    fn suspects(&self) -> MutexGuard<'_, Vec<Option<Arc<str>>>> {
        self.suspects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why a shard is suspected, if it is.
    pub(super) fn suspicion(&self, shard: ShardNumber) -> Option<Arc<str>> {
        self.suspects().get(shard.index()).cloned().flatten()
    }
}

/// The thread that looks after a set. It ends with this.
pub(super) struct Upkeeper {
    set: Arc<LiveSet>,
    is_stopped: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Upkeeper {
    /// `None` if somebody else does its work.
    pub(super) fn start(set: &Arc<LiveSet>) -> Result<Option<Self>, Error> {
        if set.options.upkeep == Upkeep::Callers {
            return Ok(None);
        }
        let is_stopped = Arc::new(AtomicBool::new(false));
        let (own, told) = (Arc::clone(set), Arc::clone(&is_stopped));
        let work = move || {
            block_on(async {
                let mut upkeep = pin!(own.upkeep());
                let mut alarm = own.alarm.listen();
                poll_fn(|context| {
                    while Pin::new(&mut alarm).poll(context).is_ready() {
                        alarm = own.alarm.listen();
                    }
                    if told.load(Ordering::SeqCst) {
                        return Poll::Ready(());
                    }
                    upkeep.as_mut().poll(context)
                })
                .await;
            });
        };
        let thread = std::thread::Builder::new().name("larder-upkeep".to_owned()).spawn(work);
        let thread = thread.map_err(|error| {
            Error::new(ErrorKind::Busy, format!("cannot begin a thread for the shards: {error}"))
        })?;
        let thread = Mutex::new(Some(thread));
        Ok(Some(Self { set: Arc::clone(set), is_stopped, thread }))
    }

    /// Ends the thread, if the set has been closed or nobody has it any more.
    pub(super) fn stop(&self) {
        if self.set.is_closed() {
            self.end();
        }
    }

    fn end(&self) {
        self.is_stopped.store(true, Ordering::SeqCst);
        self.set.alarm.notify(ALL);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A thread that has panicked has told so.
        let _told = thread.map(JoinHandle::join);
    }
}

impl Drop for Upkeeper {
    fn drop(&mut self) {
        self.end();
    }
}
