//! A connection that works until its server is gone, and one that reads what a start has found.

use std::io;
use std::sync::atomic::Ordering;

use fastrand::Rng;

use super::content::SECTOR_BYTES;
use super::draw::{Chooser, Crowd, Request, Verb};
use super::shadow::Wrong;
use super::wire::Connection;
use super::{CROWDS, Run, lock};

/// Sectors of a read of everything.
const LOOK_SECTORS: u64 = 256;
const LOOK_DEPTH: usize = 8;

/// Why a connection has ended.
pub(super) enum End {
    /// The server was told to end.
    Gone,
    Wrong(Wrong),
    Failed(String),
}

impl Run<'_> {
    /// Works until the server is gone or anybody has found something wrong.
    pub(super) fn work(&self, round: u32, client: u32) -> End {
        let ended = self.worked(round, client);
        if !matches!(ended, End::Gone) {
            self.is_over.store(true, Ordering::SeqCst);
        }
        ended
    }

    fn worked(&self, round: u32, client: u32) -> End {
        let core = u64::from(client) % self.options.cores;
        let sectors = self.options.core_sectors();
        let rng = self.rng(round, client);
        // Some connections are busier than others.
        let depth = self.options.depth.saturating_sub(client as usize).max(1);
        // Everybody who works on a core meets at one place.
        let crowd = Crowd::drawn(&mut self.rng(round, CROWDS), sectors);
        let mut chooser = Chooser::new(rng, core * sectors, sectors, crowd);
        let mut connection = match self.connect(core) {
            Ok(connection) => connection,
            Err(error) => return self.ended_by(&error),
        };
        while !self.has_failed.load(Ordering::SeqCst) {
            if let Err(error) = self.fill(&mut connection, &mut chooser, depth) {
                return self.ended_by(&error);
            }
            match self.judged(&mut connection) {
                Ok(Ok(_)) => {}
                Ok(Err(wrong)) => return End::Wrong(wrong),
                Err(error) => return self.ended_by(&error),
            }
        }
        End::Gone
    }

    fn connect(&self, core: u64) -> io::Result<Connection> {
        let sectors = self.options.core_sectors();
        Connection::open(&self.socket(), self.options.seed, core, sectors)
    }

    /// Asks until so many requests are under way.
    fn fill(
        &self,
        connection: &mut Connection,
        chooser: &mut Chooser,
        depth: usize,
    ) -> io::Result<()> {
        while connection.under_way() < depth {
            let known = lock(&self.shadow).begin(chooser.next());
            connection.ask(known)?;
        }
        Ok(())
    }

    /// Takes an answer, and judges it.
    fn judged(&self, connection: &mut Connection) -> io::Result<Result<Request, Wrong>> {
        let (known, data) = connection.answer()?;
        let judged = lock(&self.shadow).ended(&known, data);
        self.count(&known.request);
        Ok(judged.map(|()| known.request))
    }

    /// A connection may end only after its server was told to, and never by nonsense or an error of the device.
    fn ended_by(&self, error: &io::Error) -> End {
        let is_told = error.kind() != io::ErrorKind::InvalidData;
        if is_told && self.is_over.load(Ordering::SeqCst) {
            return End::Gone;
        }
        End::Failed(format!("a connection ended: {error}"))
    }

    /// Reads what cores have after a start: all of it, or a part that is drawn. Returns how many sectors.
    pub(super) fn look(&self, rng: &mut Rng) -> End {
        let of_parts = if rng.u32(0..3) == 0 { 1 } else { 8 };
        for core in 0..self.options.cores {
            if let Err(end) = self.look_at(core, of_parts, rng) {
                return end;
            }
        }
        End::Gone
    }

    fn look_at(&self, core: u64, of_parts: u64, rng: &mut Rng) -> Result<(), End> {
        let failed = |error: io::Error| End::Failed(format!("after a start: {error}"));
        let mut connection = self.connect(core).map_err(failed)?;
        let begin = core * self.options.core_sectors();
        let end = begin + self.options.core_sectors();
        let mut firsts = (begin..end)
            .step_by(usize::try_from(LOOK_SECTORS).unwrap_or(1))
            .filter(|_| rng.u64(0..of_parts) == 0);
        loop {
            while connection.under_way() < LOOK_DEPTH
                && let Some(first) = firsts.next()
            {
                let sectors = LOOK_SECTORS.min(end - first);
                let read = Request { verb: Verb::Read, first, sectors, fua: false, no_hole: false };
                let known = lock(&self.shadow).begin(read);
                connection.ask(known).map_err(failed)?;
            }
            if connection.under_way() == 0 {
                return Ok(());
            }
            self.judged(&mut connection).map_err(failed)?.map_err(End::Wrong)?;
        }
    }

    /// Cores that have everything are compared as they are, without the cache.
    pub(super) fn compare(&self, core: u64) -> Result<(), End> {
        let path = self.core_path(core);
        let data = std::fs::read(&path);
        let data = data.map_err(|error| End::Failed(format!("{}: {error}", path.display())))?;
        let sectors = self.options.core_sectors();
        if (data.len() / SECTOR_BYTES) as u64 != sectors {
            return Err(End::Failed(format!("{}: {} bytes", path.display(), data.len())));
        }
        let found = lock(&self.shadow).found(core * sectors, &data, "a read of the core itself");
        found.map_err(End::Wrong)
    }
}
