//! Judges the history of a key: is there an order of its operations, each at one moment between its begin and its end,
//! in which every answer is right?
//!
//! The search goes through the events and keeps every possible state of the key (Lowe, "Testing for linearizability",
//! 2017): an operation takes effect when one that has ended requires it. A read takes effect as soon as the value that
//! it returned is present, which is never too early.
//!
//! A cache may evict: a miss is always right, and tells nothing. So the checks are that every found value is the
//! newest, of this key, intact and not expired, also across crashes and reopenings; that no change was based on an
//! older value; and that a fetched value does not replace one that was stored or deleted during the fetch.

use std::collections::HashMap;

use super::history::{Effect, Event, KeyHistory, Need, Operation};
use super::value::Content;

/// Number of states above which a key counts as undecided; normal runs stay far below.
const STATES_MAX: usize = 50_000;

/// The result of a judge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Judgement {
    Right,
    /// The answer of this operation cannot be right.
    Wrong(usize),
    /// Too many orders to try.
    Undecided,
}

/// Possible states, each with the earliest nanosecond at which it can hold.
type States = HashMap<Standing, u64>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Standing {
    /// The value of the key, and when it expires.
    value: Option<(u32, u64)>,
    /// Open operations that have taken effect, by slot.
    done: u64,
    /// Open fills that a change has overtaken, by slot.
    overtaken: u64,
}

/// Judges the history of one key.
pub(super) fn judge(history: &KeyHistory) -> Judgement {
    let mut search = Search::new(history);
    for event in &history.events {
        let (Event::Begin(number) | Event::End(number)) = *event;
        if history.operations[number].is_idle() {
            continue;
        }
        let goes_on = match event {
            Event::Begin(_) => search.begin(number),
            Event::End(_) => search.end(number),
        };
        if !goes_on || search.states.len() > STATES_MAX {
            return Judgement::Undecided;
        }
        if search.states.is_empty() {
            return Judgement::Wrong(number);
        }
    }
    Judgement::Right
}

struct Search<'a> {
    history: &'a KeyHistory,
    contents: Contents,
    /// Operations in flight, by slot.
    slots: [Option<usize>; 64],
    states: States,
}

impl<'a> Search<'a> {
    fn new(history: &'a KeyHistory) -> Self {
        let nothing = Standing { value: None, done: 0, overtaken: 0 };
        let states = HashMap::from([(nothing, 0)]);
        Self { history, contents: Contents::default(), slots: [None; 64], states }
    }

    fn begin(&mut self, number: usize) -> bool {
        if self.history.operations[number].fill {
            // Changes that take effect from here on overtake the fill; so first apply all changes that can have
            // happened before.
            self.states = self.all_that_can_follow(u64::MAX);
        }
        let Some(slot) = self.slots.iter().position(Option::is_none) else { return false };
        self.slots[slot] = Some(number);
        let states = std::mem::take(&mut self.states);
        for (standing, since) in states {
            let standing = self.look(standing, since);
            keep(&mut self.states, standing, since);
        }
        true
    }

    fn end(&mut self, number: usize) -> bool {
        let Some(slot) = self.slots.iter().position(|open| *open == Some(number)) else {
            return false;
        };
        let bit = 1 << slot;
        let certain = self.history.operations[number].certain;
        let followers = self.all_that_can_follow(bit);
        self.slots[slot] = None;
        self.states.clear();
        for (standing, since) in followers {
            if standing.done & bit != 0 || !certain {
                let (done, overtaken) = (standing.done & !bit, standing.overtaken & !bit);
                keep(&mut self.states, Standing { done, overtaken, ..standing }, since);
            }
        }
        true
    }

    /// Every state that can follow from the present ones before the operation in `until` takes effect, and right after
    /// it did.
    fn all_that_can_follow(&mut self, until: u64) -> States {
        let mut reached = States::new();
        let mut frontier: Vec<(Standing, u64)> = self.states.drain().collect();
        // In a fixed order, so that equal runs cost the same.
        frontier.sort_unstable_by_key(|(s, since)| (s.value, s.done, s.overtaken, *since));
        while let Some((standing, since)) = frontier.pop() {
            if reached.len() > STATES_MAX || !keep(&mut reached, standing, since) {
                continue;
            }
            if until != u64::MAX && standing.done & until != 0 {
                continue;
            }
            for slot in 0..self.slots.len() {
                if let Some(number) = self.slots[slot]
                    && let Some((next, since)) = self.change(standing, since, slot, number)
                {
                    frontier.push((self.look(next, since), since));
                }
            }
        }
        reached
    }

    /// The state after the operation changes `standing` now, if it can.
    fn change(
        &mut self,
        standing: Standing,
        since: u64,
        slot: usize,
        number: usize,
    ) -> Option<(Standing, u64)> {
        let operation = &self.history.operations[number];
        let bit = 1 << slot;
        let effect = operation.effect.as_ref()?;
        if standing.done & bit != 0 || (operation.fill && standing.overtaken & bit != 0) {
            return None;
        }
        let since = since.max(operation.begin_ns);
        let alive = standing.value.filter(|(_, expiry_ns)| since < *expiry_ns);
        if !self.contents.meets(alive, &operation.need) {
            return None;
        }
        let value = match effect {
            Effect::Store(content) => Some((self.contents.number_of(content), operation.expiry_ns)),
            Effect::Remove => None,
            Effect::Touch => Some((alive?.0, operation.expiry_ns)),
            Effect::Append(piece) => {
                let (content, expiry_ns) = alive?;
                Some((self.contents.appended(content, *piece)?, expiry_ns))
            }
            Effect::Count(delta) => {
                let (content, expiry_ns) = alive?;
                Some((self.contents.counted(content, *delta)?, expiry_ns))
            }
        };
        let overtaken = standing.overtaken | (self.open_fills() & !bit);
        Some((Standing { value, done: standing.done | bit, overtaken }, since))
    }

    /// Lets all reads take effect whose value is present now.
    fn look(&self, mut standing: Standing, since: u64) -> Standing {
        for (slot, number) in self.slots.iter().enumerate() {
            let Some(number) = number else { continue };
            let operation: &Operation = &self.history.operations[*number];
            let since = since.max(operation.begin_ns);
            let alive = standing.value.filter(|(_, expiry_ns)| since < *expiry_ns);
            if operation.effect.is_none() && self.contents.meets(alive, &operation.need) {
                standing.done |= 1 << slot;
            }
        }
        standing
    }

    fn open_fills(&self) -> u64 {
        let fills = self.slots.iter().enumerate().filter(|(_, number)| {
            number.is_some_and(|number| self.history.operations[number].fill)
        });
        fills.fold(0, |bits, (slot, _)| bits | 1 << slot)
    }
}

/// Adds a state. Returns whether it is new, or possible earlier than known.
fn keep(states: &mut States, standing: Standing, since: u64) -> bool {
    match states.get_mut(&standing) {
        Some(known) if *known <= since => false,
        Some(known) => {
            *known = since;
            true
        }
        None => {
            states.insert(standing, since);
            true
        }
    }
}

/// Contents by number, to keep states small.
#[derive(Default)]
struct Contents {
    numbers: HashMap<Content, u32>,
    list: Vec<Content>,
}

impl Contents {
    fn number_of(&mut self, content: &Content) -> u32 {
        if let Some(number) = self.numbers.get(content) {
            return *number;
        }
        let number = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        self.list.push(content.clone());
        self.numbers.insert(content.clone(), number);
        number
    }

    fn meets(&self, alive: Option<(u32, u64)>, need: &Need) -> bool {
        match (need, alive) {
            (Need::Nothing, _) | (Need::Value, Some(_)) => true,
            (Need::Content(content), Some((number, _))) => self.list[number as usize] == *content,
            (_, None) => false,
        }
    }

    fn appended(&mut self, number: u32, piece: u32) -> Option<u32> {
        let Content::Pieces(pieces) = &self.list[number as usize] else { return None };
        let pieces = pieces.iter().copied().chain([piece]).collect();
        Some(self.number_of(&Content::Pieces(pieces)))
    }

    fn counted(&mut self, number: u32, delta: u64) -> Option<u32> {
        let Content::Number(before) = self.list[number as usize] else { return None };
        Some(self.number_of(&Content::Number(before.wrapping_add(delta))))
    }
}
