//! Rounds: servers from start to end, one after the other.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::client::Post;
use super::end::End;
use super::process::{self, Process};
use super::stand::{Stand, Visitor};
use super::{ADMINISTRATION, Ending, LOOKS, ROUNDS, Round, Run, VISITORS, beside, lock};

/// Poll interval while waiting for the end of a round.
const POLL: Duration = Duration::from_millis(2);
/// Time to wait for a command that the end of the server should interrupt; after it, the server ends without.
const HURRY: Duration = Duration::from_secs(10);
/// Maximum time from the beginning of such a command to the end of the server: two to the power of this, in ms.
const INTO_COMMAND: u32 = 5;

impl Run<'_> {
    pub(super) fn rounds(
        &self,
        rounds: &mut Vec<Round>,
        show: &mut dyn FnMut(&Round),
    ) -> Result<(), End> {
        self.make().map_err(End::Failed)?;
        for number in 0.. {
            let was_detached = rounds.last().is_some_and(|it| it.ending == Ending::Detach);
            let round = self.round(number, was_detached)?;
            show(&round);
            rounds.push(round);
            if self.operations() >= self.options.ops {
                break;
            }
        }
        Ok(())
    }

    /// Creates files of zeros, and the cache on one of them.
    fn make(&self) -> Result<(), String> {
        let dir = &self.options.dir;
        let told = |error: std::io::Error| format!("{}: {error}", dir.display());
        if dir.exists() {
            fs::remove_dir_all(dir).map_err(told)?;
        }
        fs::create_dir_all(dir).map_err(told)?;
        let sized = |path: PathBuf, bytes| File::create(path)?.set_len(bytes);
        sized(self.files.cache_path(), self.options.cache_bytes).map_err(told)?;
        let cache = self.files.cache();
        let mut words = vec!["create".to_owned(), cache, "--mode".to_owned(), "wb".to_owned()];
        match self.options.layout.as_str() {
            "dax" => {}
            layout => words.extend(["--layout".to_owned(), layout.to_owned()]),
        }
        if matches!(self.options.layout.as_str(), "dax" | "log") {
            // Small segments, so that many are overwritten.
            words.extend(["--segment".to_owned(), "512K".to_owned()]);
        }
        for file in 0..self.options.files() {
            sized(self.files.path(file), self.options.core_bytes).map_err(told)?;
        }
        for core in 0..self.options.cores {
            words.extend(["--core".to_owned(), self.spec(core, core)]);
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        process::said(&self.options.larder, &words).map(drop)
    }

    /// A file as a core, as named on the command line.
    fn spec(&self, number: u64, file: u64) -> String {
        format!("{number}={}", self.files.path(file).display())
    }

    /// Runs one round. `was_detached`: the previous round has left a cache without cached data.
    fn round(&self, number: u32, was_detached: bool) -> Result<Round, End> {
        let mut rng = self.rng(number, ROUNDS);
        self.is_over.store(false, Ordering::SeqCst);
        self.hurries.store(false, Ordering::SeqCst);
        // No server may have written to files that are not its cores.
        let visitor = self.settle(was_detached)?;
        self.compare_others(visitor)?;
        let mut command = Command::new(&self.options.larder);
        command.args(["block", "start", &self.files.cache(), "--unix"]).arg(self.socket());
        command.args(beside::start_words(&mut rng));
        if rng.bool() {
            // The cores must match the label: with one more or one fewer the start would be refused.
            let stay = (0..self.options.cores).map(|core| self.spec(core, core));
            let other = visitor.map(|it| self.spec(it.number, it.file));
            for spec in stay.chain(other) {
                command.args(["--core", &spec]);
            }
        }
        let (process, found) = Process::start(&mut command).map_err(End::Failed)?;
        self.has_started(visitor)?;
        self.is_dirty_as_promised(visitor)?;
        match self.look(visitor, &mut self.rng(number, LOOKS)) {
            End::Gone => {}
            other => return Err(other),
        }
        let until = self.operations() + rng.u64(1..=self.options.round_ops);
        let is_last = until >= self.options.ops;
        let ending = if is_last { Ending::Detach } else { Ending::drawn(&mut rng) };
        let commands = self.load(number, until, (ending, &mut rng), process)?;
        let cut_off = self.server_gone();
        if ending.leaves_nothing_dirty() {
            lock(self.shadow).flushed(None, u64::MAX);
            (0..self.options.files()).try_for_each(|file| self.files.compare(file))?;
        }
        Ok(Round { found, ops: self.operations(), commands, ending, cut_off })
    }

    /// Records that requests in flight have unknown results. Returns their number.
    fn server_gone(&self) -> usize {
        let visited = lock(&self.stand).served();
        let stay = 0..self.options.cores;
        lock(self.shadow).server_gone(stay.chain(visited))
    }

    /// Checks the files that are not cores.
    fn compare_others(&self, visitor: Option<Visitor>) -> Result<(), End> {
        let others = (self.options.cores..self.options.files())
            .filter(|file| visitor.is_none_or(|visitor| visitor.file != *file));
        others.into_iter().try_for_each(|file| self.files.compare(file))
    }

    /// Lets clients work until the given number of requests has ended, then ends the server. Returns the number of
    /// commands that were run.
    fn load(
        &self,
        number: u32,
        until: u64,
        (ending, rng): (Ending, &mut Rng),
        process: Process,
    ) -> Result<u64, End> {
        let stays = AtomicBool::new(false);
        thread::scope(|scope| {
            let work = |client| {
                let core = u64::from(client) % self.options.cores;
                let post = Post { file: core, number: core, purpose: client, leaves: &stays };
                scope.spawn(move || self.work(number, client, &post))
            };
            let clients: Vec<_> = (0..self.options.connections).map(work).collect();
            let administration = self.rng(number, ADMINISTRATION);
            let administrator = scope.spawn(move || self.administer(administration));
            let visiting = self.rng(number, VISITORS);
            let visitors = scope.spawn(move || self.visits(number, visiting));
            while self.operations() < until && !self.is_over.load(Ordering::SeqCst) {
                thread::sleep(POLL);
            }
            if self.options.visitors > 0 && rng.u32(0..4) > 0 {
                self.meet_command(rng);
            }
            let was_over = self.is_over.swap(true, Ordering::SeqCst);
            self.has_failed.fetch_or(was_over, Ordering::SeqCst);
            let ended = if was_over { process.kill() } else { self.end(ending, process) };
            let mut wrong = None;
            for client in clients {
                match client.join() {
                    Ok(End::Gone) => {}
                    Ok(end) => wrong = wrong.or(Some(end)),
                    Err(_) => wrong = Some(End::Failed("a client panicked".to_owned())),
                }
            }
            match visitors.join() {
                Ok(Ok(()) | Err(End::Gone)) => {}
                Ok(Err(end)) => wrong = wrong.or(Some(end)),
                Err(_) => wrong = Some(End::Failed("the visitor thread panicked".to_owned())),
            }
            let administered = administrator.join();
            let administered = administered.map_err(|_| "the administrator panicked".to_owned());
            match wrong {
                Some(end) => Err(end),
                None => ended.and(administered.and_then(|it| it)).map_err(End::Failed),
            }
        })
    }

    /// Waits for a command that adds or removes the visitor, and then for a part of its duration.
    fn meet_command(&self, rng: &mut Rng) {
        self.hurries.store(true, Ordering::SeqCst);
        let of_additions = rng.bool();
        let began = Instant::now();
        let is_met = |stand: Stand| match of_additions {
            true => matches!(stand, Stand::Comes(_)),
            false => matches!(stand, Stand::Goes(_)),
        };
        while !is_met(*lock(&self.stand)) && began.elapsed() < HURRY {
            if self.is_over.load(Ordering::SeqCst) {
                return;
            }
            thread::sleep(Duration::from_micros(100));
        }
        let longest = 1000 << rng.u32(0..=INTO_COMMAND);
        thread::sleep(Duration::from_micros(rng.u64(0..longest)));
    }

    fn end(&self, ending: Ending, process: Process) -> Result<(), String> {
        match ending {
            Ending::Kill => return process.kill(),
            Ending::Terminate => process.terminate()?,
            Ending::Flush => self.ask(&["stop".to_owned(), "--flush".to_owned()])?,
            Ending::Detach => {
                self.ask(&["detach".to_owned()])?;
                self.ask(&["stop".to_owned()])?;
            }
        }
        process.ended()
    }
}
