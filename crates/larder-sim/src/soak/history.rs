//! What was asked and answered, by key, in the order in which it happened.

use super::value::Content;

/// Expiry of what lives for ever.
pub(super) const NEVER: u64 = u64::MAX;

/// What an operation must have found for its answer to be right. Finding nothing is no condition:
/// a cache may evict at any time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Need {
    Nothing,
    /// Some value, whichever.
    Value,
    Content(Content),
}

/// What an operation does to its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Effect {
    Store(Content),
    Remove,
    /// The same content with another time to live.
    Touch,
    /// One more piece at the end; the expiry stays.
    Append(u32),
    /// The number grows; the expiry stays.
    Count(u64),
}

/// One operation on one key.
#[derive(Debug, Clone)]
pub(super) struct Operation {
    /// For people.
    pub(super) what: String,
    pub(super) need: Need,
    pub(super) effect: Option<Effect>,
    /// Whether it has taken effect for certain. One whose caller gave up, or which a crash cut off,
    /// may have, before that.
    pub(super) certain: bool,
    /// A crash may undo it: the device took no write that says that what was there before is void.
    pub(super) doubtful: bool,
    /// Stores what was fetched: only as long as nobody has changed the key since it began.
    pub(super) fill: bool,
    pub(super) begin_ns: u64,
    /// Nanosecond at which what it stores (or touches) expires.
    pub(super) expiry_ns: u64,
}

impl Operation {
    /// One that has just begun, of which nothing is known yet.
    pub(super) fn begun(what: String, begin_ns: u64) -> Self {
        Self {
            what,
            need: Need::Nothing,
            effect: None,
            certain: false,
            doubtful: false,
            fill: false,
            begin_ns,
            expiry_ns: NEVER,
        }
    }

    /// Whether it says nothing about the key.
    pub(super) fn is_idle(&self) -> bool {
        self.effect.is_none() && (self.need == Need::Nothing || !self.certain)
    }
}

/// A moment in the life of a key. The number is the operation's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    Begin(usize),
    End(usize),
}

/// Everything that happened to one key.
#[derive(Debug, Clone, Default)]
pub(super) struct KeyHistory {
    pub(super) operations: Vec<Operation>,
    pub(super) events: Vec<Event>,
    /// Operations under way.
    pub(super) open: usize,
    /// Nobody can tell any more what the key may hold.
    pub(super) lost_track: bool,
}

impl KeyHistory {
    /// Notes that `operation` begins; the number names it from now on.
    pub(super) fn begin(&mut self, operation: Operation) -> usize {
        let number = self.operations.len();
        self.operations.push(operation);
        if !self.lost_track {
            self.events.push(Event::Begin(number));
        }
        self.open += 1;
        number
    }

    /// Notes that operation `number` has ended, and what `tell` knows of it now.
    pub(super) fn end(&mut self, number: usize, tell: impl FnOnce(&mut Operation)) {
        tell(&mut self.operations[number]);
        if !self.lost_track {
            self.events.push(Event::End(number));
        }
        self.open -= 1;
    }

    /// Everything stops. What was doubtful may come undone.
    pub(super) fn crash(&mut self) {
        self.lost_track |= self.operations.iter().any(|operation| operation.doubtful);
    }

    /// Whether somebody has changed the content of the key for certain after operation `first` began, and was done
    /// before `second` began.
    pub(super) fn changed_between(&self, first: usize, second: usize) -> bool {
        if second < first {
            return false; // numbers are given in the order of beginning
        }
        let mut begun_since = None;
        for event in &self.events {
            match (event, &mut begun_since) {
                (Event::Begin(number), None) if *number == first => begun_since = Some(Vec::new()),
                (Event::Begin(number), Some(_)) if *number == second => return false,
                (Event::Begin(number), Some(begun)) => begun.push(*number),
                (Event::End(number), Some(begun)) if begun.contains(number) => {
                    let operation = &self.operations[*number];
                    let changes =
                        operation.effect.as_ref().is_some_and(|effect| *effect != Effect::Touch);
                    if operation.certain && changes && !operation.fill {
                        return true;
                    }
                }
                _ => {}
            }
        }
        false
    }

    /// The latest events up to the end of operation `number`, for people.
    pub(super) fn tail(&self, number: usize, events: usize) -> String {
        let end = self.events.iter().position(|event| *event == Event::End(number));
        let end = end.map_or(self.events.len(), |at| at + 1);
        let lines = self.events[end.saturating_sub(events)..end].iter().map(|event| match event {
            Event::Begin(n) => format!("  begin {n}: {}\n", self.operations[*n].what),
            Event::End(n) => {
                let op = &self.operations[*n];
                let sure = if op.certain { "" } else { " (given up, or may not have happened)" };
                format!(
                    "  end   {n}: {} need {:?} effect {:?}{sure}\n",
                    op.what, op.need, op.effect
                )
            }
        });
        lines.collect()
    }
}
