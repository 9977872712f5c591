//! A client that changes and reads pairs of keys and counters that all clients share.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use super::connection::{Answer, Connection};
use super::pairs::{self, Mark, Pair};
use super::{Counted, Shared};
use crate::kills::choose::seeded;
use crate::kills::clients::ends_with_server;
use crate::kills::line_stream::nonsense;

/// Writes both keys of a pair.
const WRITE: &[u8] =
    b"redis.call('SET', KEYS[1], ARGV[1]); redis.call('SET', KEYS[2], ARGV[1]); return 1";
/// Writes one, and never ends: the server stops it.
const STUCK: &[u8] = b"redis.call('SET', KEYS[1], ARGV[1]); while true do end";
/// Reads both.
const READ: &[u8] = b"return {redis.call('GET', KEYS[1]), redis.call('GET', KEYS[2])}";
/// Counts in two calls: a request of another client must not come between.
const COUNT: &[u8] =
    b"local n = (redis.call('GET', KEYS[1]) or 0) + 1 redis.call('SET', KEYS[1], n) return n";
/// Pairs that get half of all requests.
const HOT: u32 = 50;
/// Bytes of a value that only fills the cache.
const FILL_BYTES: usize = 8 << 10;

/// Reads the pairs of every `clients`th group, one key after the other.
pub(super) fn read_all(
    shared: &Shared<'_>,
    address: SocketAddr,
    thread: u32,
) -> Result<u64, String> {
    let gone = |error: io::Error| format!("the server does not answer a client: {error}");
    let mut connection = Connection::to(address).map_err(gone)?;
    let mut found = 0;
    for group in (thread..shared.options.groups).step_by(shared.options.clients as usize) {
        let keys = pairs::keys_of(group);
        let mut read = |key: &[u8]| match connection.ask(&[&[b"GET", key]]).map_err(gone)? {
            Answer::Bulk(value) => Ok(value),
            other => Err(format!("GET answers {other:?}")),
        };
        let pair = [read(&keys[0])?, read(&keys[1])?];
        found += pair.iter().flatten().count() as u64;
        shared.judge(group, "after the start", &pair);
    }
    Ok(found)
}

/// A working client.
pub(super) struct Client<'a> {
    shared: &'a Shared<'a>,
    dice: fastrand::Rng,
    round: u32,
    thread: u32,
    writes: u32,
}

impl<'a> Client<'a> {
    pub(super) fn new(shared: &'a Shared<'a>, round: u32, thread: u32) -> Self {
        let dice = seeded(shared.options.seed, round, thread);
        Self { shared, dice, round, thread, writes: 0 }
    }

    /// Works until the server is gone.
    pub(super) fn work(mut self, address: SocketAddr) -> Result<(), String> {
        let ended = self.work_on(address);
        ended.or_else(|error| ends_with_server(&error, &self.shared.is_over))
    }

    fn work_on(&mut self, address: SocketAddr) -> io::Result<()> {
        let mut connection = Connection::to(address)?;
        while !self.shared.is_over.load(Ordering::SeqCst) {
            // Many clients meet at a few pairs; the others go to flash.
            let all = self.shared.options.groups;
            let groups = if self.dice.bool() { all.min(HOT) } else { all };
            let group = self.dice.u32(0..groups);
            match self.dice.u32(0..10_000) {
                0..2500 => self.write(&mut connection, group)?,
                2500..5500 => self.read(&mut connection, group)?,
                5500..7500 => self.count(&mut connection, group)?,
                7500..7503 => self.write_half(&mut connection, group)?,
                7503..8000 => self.read_one(&mut connection, group)?,
                8000..8100 => self.remove_one(&mut connection, group)?,
                _ => self.fill(&mut connection)?,
            }
            self.shared.requests.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// A value that no other write has.
    fn next_value(&mut self) -> Vec<u8> {
        self.writes += 1;
        pairs::value_of(Mark { round: self.round, thread: self.thread, number: self.writes })
    }

    /// Writes both keys, by a script or in a transaction.
    fn write(&mut self, connection: &mut Connection, group: u32) -> io::Result<()> {
        let ([one, other], value) = (pairs::keys_of(group), self.next_value());
        let answer = if self.dice.bool() {
            connection.ask(&[&[b"EVAL", WRITE, b"2", &one, &other, &value]])?
        } else {
            let sets: [&[&[u8]]; 4] =
                [&[b"MULTI"], &[b"SET", &one, &value], &[b"SET", &other, &value], &[b"EXEC"]];
            connection.ask(&sets)?
        };
        match answer {
            Answer::Number(1) | Answer::Array(Some(_)) => Ok(()),
            // A busy machine may take longer than the limit of scripts.
            answer if answer.is_stopped() => Ok(()),
            other => Err(nonsense(&format!("{other:?}"))),
        }
    }

    /// Begins a script that the server stops: nothing of it may stay.
    fn write_half(&mut self, connection: &mut Connection, group: u32) -> io::Result<()> {
        let ([one, other], value) = (pairs::keys_of(group), self.next_value());
        match connection.ask(&[&[b"EVAL", STUCK, b"2", &one, &other, &value]])? {
            answer if answer.is_stopped() => {
                self.shared.stopped.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            other => Err(nonsense(&format!("{other:?}"))),
        }
    }

    /// Reads both keys, by a script or in a transaction.
    fn read(&mut self, connection: &mut Connection, group: u32) -> io::Result<()> {
        let [one, other] = pairs::keys_of(group);
        let (how, answer) = if self.dice.bool() {
            ("by a script", connection.ask(&[&[b"EVAL_RO", READ, b"2", &one, &other]])?)
        } else {
            let gets: [&[&[u8]]; 4] = [&[b"MULTI"], &[b"GET", &one], &[b"GET", &other], &[b"EXEC"]];
            ("in a transaction", connection.ask(&gets)?)
        };
        if answer.is_stopped() {
            return Ok(());
        }
        let Answer::Array(Some(both)) = answer else {
            return Err(nonsense(&format!("{answer:?}")));
        };
        let pair: Pair = match <[Answer; 2]>::try_from(both) {
            Ok([Answer::Bulk(one), Answer::Bulk(other)]) => [one, other],
            other => return Err(nonsense(&format!("{other:?}"))),
        };
        self.shared.judge(group, how, &pair);
        Ok(())
    }

    fn read_one(&mut self, connection: &mut Connection, group: u32) -> io::Result<()> {
        let [one, _] = pairs::keys_of(group);
        match connection.ask(&[&[b"GET", &one]])? {
            Answer::Bulk(value) => {
                self.shared.judge(group, "alone", &[value, None]);
                Ok(())
            }
            other => Err(nonsense(&format!("{other:?}"))),
        }
    }

    fn remove_one(&mut self, connection: &mut Connection, group: u32) -> io::Result<()> {
        let keys = pairs::keys_of(group);
        connection.ask(&[&[b"DEL", &keys[self.dice.usize(0..2)]]]).map(drop)
    }

    /// Counts by a request, a script or a transaction. No two of them may get the same number.
    fn count(&mut self, connection: &mut Connection, group: u32) -> io::Result<()> {
        let counter = pairs::counter_of(self.round, group);
        let answer = match self.dice.u32(0..3) {
            0 => connection.ask(&[&[b"INCR", &counter]])?,
            1 => connection.ask(&[&[b"EVAL", COUNT, b"1", &counter]])?,
            _ => match connection.ask(&[&[b"MULTI"], &[b"INCR", &counter], &[b"EXEC"]])? {
                Answer::Array(Some(answers)) => match answers.into_iter().next() {
                    Some(answer) => answer,
                    None => return Err(nonsense("[]")),
                },
                other => other,
            },
        };
        if answer.is_stopped() {
            return Ok(());
        }
        let Answer::Number(number) = answer else {
            return Err(nonsense(&format!("{answer:?}")));
        };
        self.shared.counted(Counted { group, number });
        Ok(())
    }

    /// Stores what no client reads, so that everything else goes to flash.
    fn fill(&mut self, connection: &mut Connection) -> io::Result<()> {
        self.writes += 1;
        let key = format!("fill:{}:{}:{}", self.round, self.thread, self.writes);
        match connection.ask(&[&[b"SET", key.as_bytes(), &[b'f'; FILL_BYTES]]])? {
            Answer::Line(_) => Ok(()),
            other => Err(nonsense(&format!("{other:?}"))),
        }
    }
}
