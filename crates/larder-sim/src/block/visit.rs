//! The visitor: a core that is added to the running cache and removed again, under load on it and on the others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use serde_json::Value;

use super::client::Post;
use super::end::End;
use super::stand::{Listed, Stand, Visitor};
use super::{Run, VISITS, beside, lock, process};

/// Poll interval while waiting for operations of clients.
const POLL: Duration = Duration::from_millis(2);
/// Maximum number of requests that end while the core is present, and while it is not.
const STAY_OPS_MAX: u64 = 3_000;
const AWAY_OPS_MAX: u64 = 1_000;
/// Number of purposes of random numbers per visit.
const PURPOSES: u32 = 64;

impl Run<'_> {
    /// Adds and removes the core until the server is told to end.
    pub(super) fn visits(&self, round: u32, mut rng: Rng) -> Result<(), End> {
        let done = self.visited(round, &mut rng);
        if done.is_err() {
            self.is_over.store(true, Ordering::SeqCst);
        }
        done
    }

    fn visited(&self, round: u32, rng: &mut Rng) -> Result<(), End> {
        if self.options.visitors == 0 {
            return Ok(());
        }
        for visit in 0.. {
            let purpose = VISITS + visit * PURPOSES;
            let stand = *lock(&self.stand);
            let goes_on = match stand {
                Stand::In(visitor) => self.stays(round, purpose, visitor, rng)?,
                _ => {
                    self.wait_for(rng.u64(1..=AWAY_OPS_MAX))
                        && self.comes(self.rng(round, purpose))?
                }
            };
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    /// Waits until `operations` more requests have ended, or the run hurries. Returns whether the server is still to
    /// run.
    fn wait_for(&self, operations: u64) -> bool {
        let until = self.operations() + operations;
        while self.operations() < until && !self.hurries.load(Ordering::SeqCst) {
            if self.is_over.load(Ordering::SeqCst) {
                return false;
            }
            thread::sleep(POLL);
        }
        !self.is_over.load(Ordering::SeqCst)
    }

    /// Adds one of the files as a core. Returns whether it is known to have been added.
    fn comes(&self, mut rng: Rng) -> Result<bool, End> {
        let stay = self.options.cores;
        let file = stay + rng.u64(0..self.options.visitors);
        if rng.bool() {
            let times = self.files.write_past(file, rng.fork())?;
            self.visits.past.fetch_add(times, Ordering::Relaxed);
        }
        let (told, lowest) = {
            let numbers = lock(&self.visits.numbers);
            let told = numbers.drawn(&mut rng, stay);
            (told.map(|number| (number, numbers.may_be(number))), numbers.lowest(stay))
        };
        let path = self.files.path(file).display().to_string();
        let number = match told {
            Some((number, false)) => {
                if !self.is_refused(&format!("{number}={path}"))? {
                    return Ok(false);
                }
                None
            }
            other => other.map(|(number, _)| number),
        };
        let spec = number.map_or(path.clone(), |number| format!("{number}={path}"));
        let comes = Visitor { file, number: number.unwrap_or(lowest) };
        // Nothing of it is dirty, because it was not a core.
        lock(self.shadow).flushed(Some(file), u64::MAX);
        *lock(&self.stand) = Stand::Comes(comes);
        let Some(listed) = self.cores(["--add", &spec])? else { return Ok(false) };
        if listed.visitor != Some(comes) {
            let what = format!("{spec} was added as {comes:?}, and it has {:?}", listed.visitor);
            return Err(End::Failed(what));
        }
        *lock(&self.stand) = Stand::In(comes);
        self.visits.came.fetch_add(1, Ordering::Relaxed);
        let is_again = lock(&self.visits.numbers).came(comes.number);
        self.visits.came_again.fetch_add(u64::from(is_again), Ordering::Relaxed);
        Ok(true)
    }

    /// Checks that a core with a removed number is refused. Returns false if the server may have ended during the
    /// command.
    fn is_refused(&self, spec: &str) -> Result<bool, End> {
        let socket = self.socket().display().to_string();
        let words = ["cores", "--add", spec, "--unix", &socket];
        match process::said(&self.options.larder, &words) {
            Ok(said) => Err(End::Failed(format!("{spec} was added, and is cached: {said}"))),
            Err(why) if why.contains("may have been taken away") => Ok(true),
            Err(_) if self.is_over.load(Ordering::SeqCst) => Ok(false),
            Err(why) => Err(End::Failed(why)),
        }
    }

    /// Lets clients use the core until it is removed, under load. Returns whether it is known to have been removed.
    fn stays(
        &self,
        round: u32,
        purpose: u32,
        visitor: Visitor,
        rng: &mut Rng,
    ) -> Result<bool, End> {
        let leaves = AtomicBool::new(false);
        let clients = (u64::from(self.options.connections) / self.options.cores).max(1);
        let Visitor { file, number } = visitor;
        let was_told = thread::scope(|scope| {
            let leaves = &leaves;
            let clients: Vec<_> = (1..)
                .zip(0..clients)
                .map(|(client, _)| {
                    let post = Post { file, number, purpose: purpose + client, leaves };
                    scope.spawn(move || self.work(round, client - 1, &post))
                })
                .collect();
            let was_told = match self.wait_for(rng.u64(1..=STAY_OPS_MAX)) {
                true => self.goes(visitor, leaves),
                false => Ok(false),
            };
            // Make the clients end, whatever went wrong.
            if was_told.is_err() {
                self.is_over.store(true, Ordering::SeqCst);
                self.has_failed.store(true, Ordering::SeqCst);
            }
            let ends = clients.into_iter().map(|client| client.join());
            let ends: Vec<_> = ends.collect();
            for end in ends {
                match end {
                    Ok(End::Gone) => {}
                    Ok(end) => return Err(end),
                    Err(_) => return Err(End::Failed("a client panicked".to_owned())),
                }
            }
            was_told
        })?;
        if was_told {
            self.has_gone(visitor)?;
        }
        Ok(was_told)
    }

    fn goes(&self, visitor: Visitor, leaves: &AtomicBool) -> Result<bool, End> {
        leaves.store(true, Ordering::SeqCst);
        *lock(&self.stand) = Stand::Goes(visitor);
        match self.cores(["--remove", &visitor.number.to_string()])? {
            None => Ok(false),
            Some(Listed { visitor: None, .. }) => Ok(true),
            Some(listed) => {
                Err(End::Failed(format!("{visitor:?} was taken away, and it has {listed:?}")))
            }
        }
    }

    /// Checks a removed core that no client uses any more: its file must have all data.
    fn has_gone(&self, visitor: Visitor) -> Result<(), End> {
        let cut_off = lock(self.shadow).left(visitor.file);
        self.visits.cut_off.fetch_add(cut_off as u64, Ordering::Relaxed);
        self.visits.went.fetch_add(1, Ordering::Relaxed);
        *lock(&self.stand) = Stand::Out;
        lock(&self.visits.numbers).went(visitor.number);
        self.files.compare(visitor.file)?;
        match self.connect(visitor.file, visitor.number) {
            Err(error) if error.kind() != std::io::ErrorKind::InvalidData => Ok(()),
            Err(error) => {
                Err(End::Failed(format!("{visitor:?} is gone, and is exported: {error}")))
            }
            Ok(_) => Err(End::Failed(format!("{visitor:?} is gone, and is exported"))),
        }
    }

    /// Runs `larder block cores`. Returns the resulting cores, or `None` if the server may have ended during the
    /// command.
    fn cores(&self, words: [&str; 2]) -> Result<Option<Listed>, End> {
        let socket = self.socket().display().to_string();
        let all = ["cores", words[0], words[1], "--unix", &socket, "--json", "-"];
        match process::said(&self.options.larder, &all) {
            Ok(status) => self.listed(&status).map(Some).map_err(End::Failed),
            Err(_) if self.is_over.load(Ordering::SeqCst) => Ok(None),
            Err(why) => Err(End::Failed(why)),
        }
    }

    /// Checks that the server has the cores of the label, and has found no cached data that differs from them: it would
    /// drop stale data, and this test would not see it.
    pub(super) fn has_started(&self, visitor: Option<Visitor>) -> Result<(), End> {
        let socket = self.socket().display().to_string();
        let words = ["status", "--unix", &socket, "--json", "-"];
        let status = process::said(&self.options.larder, &words);
        let status = status.map_err(End::Failed)?;
        let mode = serde_json::from_str::<Value>(&status).unwrap_or_default()["mode"].clone();
        lock(self.shadow).owed().set_may_be_dirty(mode.as_str().is_none_or(beside::may_be_dirty));
        let listed = self.listed(&status).map_err(End::Failed)?;
        match listed == (Listed { visitor, changed: Some(0) }) {
            true => Ok(()),
            false => Err(End::Failed(format!(
                "started with {visitor:?}, and its cores were not written without it: it has {listed:?}"
            ))),
        }
    }

    /// Checks the dirty data before any client sends a request: only data written in a mode that leaves it dirty, and
    /// not flushed since, may be dirty.
    pub(super) fn is_dirty_as_promised(&self, visitor: Option<Visitor>) -> Result<(), End> {
        let socket = self.socket().display().to_string();
        let said =
            process::said(&self.options.larder, &["dirty", "--unix", &socket, "--json", "-"]);
        let nonsense = |what: &str| End::Failed(format!("larder block dirty: {what}"));
        let said: Value = serde_json::from_str(&said.map_err(End::Failed)?)
            .map_err(|error| nonsense(&error.to_string()))?;
        for core in said.as_array().ok_or_else(|| nonsense("no cores"))? {
            let number = core["core"].as_u64().ok_or_else(|| nonsense("no number"))?;
            let other = visitor.filter(|visitor| visitor.number == number);
            let file = other.map_or(number, |visitor| visitor.file);
            for range in core["ranges"].as_array().ok_or_else(|| nonsense("no ranges"))? {
                let (Some(first), Some(bytes)) =
                    (range["offset"].as_u64(), range["bytes"].as_u64())
                else {
                    return Err(nonsense("a range without its place"));
                };
                let shadow = lock(self.shadow);
                shadow.is_dirty(file, first..first + bytes).map_err(End::Wrong)?;
            }
        }
        Ok(())
    }

    /// Decodes a status.
    fn listed(&self, status: &str) -> Result<Listed, String> {
        let files: Vec<String> = (0..self.options.files())
            .map(|file| self.files.path(file).display().to_string())
            .collect();
        Listed::of(status, &files, self.options.cores)
    }

    /// Determines the result of an interrupted command, after the server is gone. `is_forgotten`: the next start finds
    /// no cached data.
    pub(super) fn settle(&self, is_forgotten: bool) -> Result<Option<Visitor>, End> {
        let status =
            process::said(&self.options.larder, &["status", &self.files.cache(), "--json", "-"]);
        let listed = status.and_then(|status| self.listed(&status)).map_err(End::Failed)?;
        let mut stand = lock(&self.stand);
        let settled = stand.settled(&listed).map_err(End::Failed)?;
        let half = match (*stand, settled) {
            (Stand::Comes(_), Stand::Out) => Some(0),
            (Stand::Comes(_), _) => Some(1),
            (Stand::Goes(_), Stand::In(_)) => Some(2),
            (Stand::Goes(_), _) => Some(3),
            _ => None,
        };
        if let Some(half) = half {
            self.visits.halves[half].fetch_add(1, Ordering::Relaxed);
        }
        if let (Stand::Goes(visitor), Stand::Out) = (*stand, settled) {
            lock(&self.visits.numbers).went(visitor.number);
        }
        if let (Stand::Comes(visitor), Stand::In(_)) = (*stand, settled) {
            lock(&self.visits.numbers).came(visitor.number);
        }
        if is_forgotten {
            lock(&self.visits.numbers).forgotten();
        }
        *stand = settled;
        Ok(listed.visitor)
    }
}
