//! Requests and answers by key, in the order in which they happened.

use super::value::Content;

/// Expiry of values that live forever.
pub(super) const NEVER: u64 = u64::MAX;

/// What an operation must have found for its answer to be right. A miss requires nothing, because a cache may evict at
/// any time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Need {
    Nothing,
    /// Any value.
    Value,
    Content(Content),
}

/// The effect of an operation on its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Effect {
    Store(Content),
    Remove,
    /// The same content with a new time to live.
    Touch,
    /// One more piece at the end; the expiry does not change.
    Append(u32),
    /// The number is increased; the expiry does not change.
    Count(u64),
}

/// One operation on one key.
#[derive(Debug, Clone)]
pub(super) struct Operation {
    /// Description for messages.
    pub(super) what: String,
    pub(super) need: Need,
    pub(super) effect: Option<Effect>,
    /// Whether it has certainly taken effect. An operation whose caller gave up, or which a crash interrupted, may have
    /// taken effect before that.
    pub(super) certain: bool,
    /// A crash may undo it: the device has failed the write that invalidates the previous value.
    pub(super) doubtful: bool,
    /// Stores a fetched value: only if the key has not been changed since it began.
    pub(super) fill: bool,
    pub(super) begin_ns: u64,
    /// Nanosecond at which the value that it stores (or touches) expires.
    pub(super) expiry_ns: u64,
}

impl Operation {
    /// An operation that has just begun, with an unknown result.
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

    /// Whether it tells nothing about the key.
    pub(super) fn is_idle(&self) -> bool {
        self.effect.is_none() && (self.need == Need::Nothing || !self.certain)
    }
}

/// A moment in the history of a key, with the number of the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    Begin(usize),
    End(usize),
}

/// The history of one key.
#[derive(Debug, Clone, Default)]
pub(super) struct KeyHistory {
    pub(super) operations: Vec<Operation>,
    pub(super) events: Vec<Event>,
    /// Operations in flight.
    pub(super) open: usize,
    /// Whether the possible values of the key are unknown from here on.
    pub(super) lost_track: bool,
}

impl KeyHistory {
    /// Records that `operation` begins. Returns its number.
    pub(super) fn begin(&mut self, operation: Operation) -> usize {
        let number = self.operations.len();
        self.operations.push(operation);
        if !self.lost_track {
            self.events.push(Event::Begin(number));
        }
        self.open += 1;
        number
    }

    /// Records that operation `number` has ended; `tell` sets its result.
    pub(super) fn end(&mut self, number: usize, tell: impl FnOnce(&mut Operation)) {
        tell(&mut self.operations[number]);
        if !self.lost_track {
            self.events.push(Event::End(number));
        }
        self.open -= 1;
    }

    /// Records a crash: doubtful operations may be undone.
    pub(super) fn crash(&mut self) {
        self.lost_track |= self.operations.iter().any(|operation| operation.doubtful);
    }

    /// Whether another operation has certainly changed the content of the key: it began after operation `first` began,
    /// and ended before `second` began.
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

    /// The latest events up to the end of operation `number`, as text.
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
