//! Background work of a set: takes failed shards out, activates spares, ends the caches of shards that are away, and
//! refills shards that are back.

use std::collections::BTreeMap;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::Duration;

use futures_util::future::{join_all, poll_fn};
use larder_device::{BufferPool, Io, IoFuture, block_on};

use super::LiveSet;
use super::detect::{Verdict, Vitals, judge};
use super::options::Upkeep;
use crate::base::error::{Error, ErrorKind};
use crate::base::signal::ALL;
use crate::fleet::partition::ShardNumber;
use crate::observe::events;

impl LiveSet {
    /// Looks after the set until it is closed.
    pub(crate) async fn upkeep(&self) {
        let watch = self.until_closed(async {
            loop {
                self.look_at_all().await;
                self.look_again().await;
            }
        });
        // Separate from the watch, which may wait for devices that record which shards are out.
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
        // Separate from the refill, which may take hours, or wait for a device that does not answer.
        let bring = self.until_closed(async {
            loop {
                // A spare that cannot be activated is gone.
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
        // Boxed, because together these futures are large.
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

    /// Waits until the next check is due, or until the alarm.
    async fn look_again(&self) {
        self.look_again_with(&mut BTreeMap::new()).await;
    }

    /// The same; polls these probes in the meantime.
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

    /// Checks whether the host has slept since the last call: that time counts against no shard.
    fn notice_pause(&self) {
        let now = self.clock.monotonic();
        let Some(slept) = self.beat.at(now, now.saturating_add(self.options.look_every)) else {
            return;
        };
        for shard in &self.state().shards {
            if let Some(health) = &shard.health {
                health.vitals().host_slept(slept);
            }
        }
        self.counts.host_pauses.fetch_add(1, Ordering::Relaxed);
        events::host_paused(slept);
    }

    /// If a shard is suspected, sends a read to each peer without a pending probe: their answers show whether the
    /// host is the cause. The suspect is not probed, because an answer to a probe would hide that it does not answer
    /// other requests.
    fn probe_peers(&self, probes: &mut BTreeMap<usize, IoFuture>) {
        let suspected = self.suspects.suspected();
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

    /// The lowest median read latency of the live shards; `None` if they read little.
    pub(super) fn peers_read_in(&self) -> Option<Duration> {
        let now = self.clock.monotonic();
        let all_health = self.state().shards.iter().filter_map(|shard| shard.health.as_ref());
        all_health.filter_map(|health| health.vitals().median_read(now)).min()
    }

    /// Takes failed shards out, and records suspected ones.
    pub(super) async fn look_at_all(&self) {
        self.notice_pause();
        let state = self.state();
        let health_of = |shard: ShardNumber| Some((shard, state.shard(shard).health.as_ref()?));
        let all_health: Vec<_> = state.numbers().filter_map(health_of).collect();
        let verdicts = {
            let mut vitals: Vec<_> = all_health.iter().map(|(_, health)| health.vitals()).collect();
            let mut all: Vec<&mut Vitals> = vitals.iter_mut().map(|it| &mut **it).collect();
            let now = self.clock.monotonic();
            judge(&mut all, self.suspects.judge_at(now), now)
        };
        for ((shard, _), verdict) in all_health.into_iter().zip(verdicts) {
            match verdict {
                Verdict::Well => self.suspects.note(shard, None),
                Verdict::Suspect(cause) => self.suspects.note(shard, Some(cause.to_string())),
                Verdict::Failed(cause) => {
                    let why = cause.to_string();
                    self.suspects.note(shard, Some(why.clone()));
                    // The last live shard stays in any case.
                    let _stays = self.fail_for_now(shard, &why).await;
                }
            }
        }
    }
}

/// The thread that looks after a set. Dropping this ends it.
pub(super) struct Upkeeper {
    set: Arc<LiveSet>,
    is_stopped: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Upkeeper {
    /// `None` if a task of the user does its work.
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

    /// Ends the thread, if the set was closed.
    pub(super) fn stop(&self) {
        if self.set.is_closed() {
            self.end();
        }
    }

    fn end(&self) {
        self.is_stopped.store(true, Ordering::SeqCst);
        self.set.alarm.notify(ALL);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A panic of the thread has already printed its own message.
        let _told = thread.map(JoinHandle::join);
    }
}

impl Drop for Upkeeper {
    fn drop(&mut self) {
        self.end();
    }
}
