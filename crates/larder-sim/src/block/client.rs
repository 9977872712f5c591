//! A client connection that works until its server is gone, and one that reads the cores after a start.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use fastrand::Rng;

use super::draw::{Chooser, Crowd, Request, Verb};
use super::end::End;
use super::shadow::Wrong;
use super::stand::Visitor;
use super::wire::{Connection, nonsense};
use super::{CROWDS, Run, lock};

/// Sectors per read when everything is read.
const LOOK_SECTORS: u64 = 256;
const LOOK_DEPTH: usize = 8;

/// The result of a request.
enum Answer {
    Good,
    Wrong(Wrong),
    /// An error of the device.
    Refused(io::Error),
}

/// The core to which a connection goes.
pub(super) struct Post<'a> {
    pub(super) file: u64,
    /// Number of the core.
    pub(super) number: u64,
    /// Purpose of its random numbers.
    pub(super) purpose: u32,
    /// Set when the core is about to be removed: then requests are refused, and connections end.
    pub(super) leaves: &'a AtomicBool,
}

impl Run<'_> {
    /// Works until the server or the core is gone, or something wrong was found.
    pub(super) fn work(&self, round: u32, client: u32, post: &Post<'_>) -> End {
        let ended = self.worked(round, client, post);
        if !matches!(ended, End::Gone) {
            self.is_over.store(true, Ordering::SeqCst);
        }
        ended
    }

    fn worked(&self, round: u32, client: u32, post: &Post<'_>) -> End {
        let sectors = self.options.core_sectors();
        let mut rng = self.rng(round, post.purpose);
        let waits_when_refused = rng.bool();
        // Some connections are busier than others.
        let depth = self.options.depth.saturating_sub(client as usize).max(1);
        // All connections to a core share one crowd.
        let crowd = Crowd::drawn(&mut self.rng(round, CROWDS), sectors);
        let mut chooser = Chooser::new(rng, post.file * sectors, sectors, crowd);
        let mut connection = match self.connect(post.file, post.number) {
            Ok(connection) => connection,
            Err(error) => return self.ended_by(&error, post),
        };
        let mut asks = true;
        while !self.has_failed.load(Ordering::SeqCst) {
            if asks && let Err(error) = self.fill(&mut connection, &mut chooser, depth) {
                match self.ended_by(&error, post) {
                    // Replies that were sent before the connection closed must still be read.
                    End::Gone => asks = false,
                    end => return end,
                }
            }
            match self.judged(&mut connection) {
                Ok(Answer::Good) => {}
                Ok(Answer::Refused(_)) if post.leaves.load(Ordering::SeqCst) => {
                    asks &= !waits_when_refused;
                }
                Ok(Answer::Refused(error)) => return self.ended_by(&error, post),
                Ok(Answer::Wrong(wrong)) => return End::Wrong(wrong),
                Err(error) => return self.ended_by(&error, post),
            }
        }
        End::Gone
    }

    pub(super) fn connect(&self, file: u64, number: u64) -> io::Result<Connection> {
        let sectors = self.options.core_sectors();
        Connection::open(&self.socket(), self.options.seed, (file, number), sectors)
    }

    /// Sends requests until `depth` of them are in flight.
    fn fill(
        &self,
        connection: &mut Connection,
        chooser: &mut Chooser,
        depth: usize,
    ) -> io::Result<()> {
        while connection.under_way() < depth {
            let known = lock(self.shadow).begin(chooser.next());
            connection.ask(known)?;
        }
        Ok(())
    }

    /// Receives a reply and judges it.
    fn judged(&self, connection: &mut Connection) -> io::Result<Answer> {
        let (known, answer) = connection.answer()?;
        let data = match answer {
            Ok(data) => data,
            // The result of the request is unknown: it stays in flight.
            Err(error) => {
                let what = format!("error {error} for {:?}", known.request);
                return Ok(Answer::Refused(nonsense(&what)));
            }
        };
        let judged = lock(self.shadow).ended(&known, data);
        self.count(&known.request);
        Ok(judged.map_or_else(Answer::Wrong, |()| Answer::Good))
    }

    /// A connection may end only after its server was told to end, or its core to be removed; never because of an
    /// invalid reply, an error of the device, or a timeout.
    fn ended_by(&self, error: &io::Error, post: &Post<'_>) -> End {
        use io::ErrorKind::{InvalidData, TimedOut, WouldBlock};
        let is_closed = !matches!(error.kind(), InvalidData | TimedOut | WouldBlock);
        let is_told = |what: &AtomicBool| what.load(Ordering::SeqCst);
        if is_closed && (is_told(&self.is_over) || is_told(post.leaves)) {
            return End::Gone;
        }
        End::Failed(format!("a connection to core {} ended: {error}", post.number))
    }

    /// Reads the content of the cores after a start: all of it, or a random part.
    pub(super) fn look(&self, visitor: Option<Visitor>, rng: &mut Rng) -> End {
        let of_parts = if rng.u32(0..3) == 0 { 1 } else { 8 };
        let stay = (0..self.options.cores).map(|core| Visitor { file: core, number: core });
        for core in stay.chain(visitor) {
            if let Err(end) = self.look_at(core, of_parts, rng) {
                return end;
            }
        }
        End::Gone
    }

    fn look_at(&self, core: Visitor, of_parts: u64, rng: &mut Rng) -> Result<(), End> {
        let failed = |error: io::Error| End::Failed(format!("after a start: {error}"));
        let mut connection = self.connect(core.file, core.number).map_err(failed)?;
        let begin = core.file * self.options.core_sectors();
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
                let known = lock(self.shadow).begin(read);
                connection.ask(known).map_err(failed)?;
            }
            if connection.under_way() == 0 {
                return Ok(());
            }
            match self.judged(&mut connection).map_err(failed)? {
                Answer::Good => {}
                Answer::Refused(error) => return Err(failed(error)),
                Answer::Wrong(wrong) => return Err(End::Wrong(wrong)),
            }
        }
    }
}
