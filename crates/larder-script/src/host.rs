//! What lies beside a state: the request and the reply of a call, the answer, and the memory that the state uses.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::ptr;

use corosensei::Yielder;

use crate::budget::Budget;
use crate::random::Random;
use crate::settings::JsonSettings;

/// Why a script is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// It has run for a while.
    Slice,
    /// It has put a request into [`Data::request`].
    Call,
}

/// What a state, its functions and its host share. It has no reference to the state.
pub(crate) struct Host {
    pub(crate) purse: Purse,
    /// Only one function at a time works with it.
    pub(crate) data: RefCell<Data>,
    /// Where the running script's stack is suspended.
    pub(crate) yielder: Cell<*const Yielder<(), Signal>>,
    /// The state, while a script runs.
    pub(crate) lua: Cell<*mut c_void>,
    /// Steps of our functions since the script was suspended.
    pub(crate) steps: Cell<usize>,
    /// Bytes that the state used when garbage was last collected early.
    pub(crate) collected_at: Cell<usize>,
    /// Bytes that the server keeps for the script.
    pub(crate) kept_beside: Cell<usize>,
    /// The script has made a long block.
    pub(crate) has_long_blocks: Cell<bool>,
}

/// What functions of a script work with. Everything that they collect is here, and nothing on their stack.
#[derive(Default)]
pub(crate) struct Data {
    /// SHA-1 of the script's source, in hexadecimal digits.
    pub(crate) name: Name,
    pub(crate) source: Vec<u8>,
    pub(crate) keys: Strings,
    pub(crate) arguments: Strings,
    /// The request that the script makes.
    pub(crate) request: Strings,
    /// The reply to it, in RESP.
    pub(crate) reply: Vec<u8>,
    /// The script's answer, in RESP.
    pub(crate) answer: Vec<u8>,
    pub(crate) ending: Ending,
    /// Whether replies to requests come in RESP's version 3.
    pub(crate) replies_in_resp3: bool,
    /// Whether the client of the answer speaks version 3.
    pub(crate) answers_in_resp3: bool,
    pub(crate) only_compiles: bool,
    /// Bytes that functions build; each takes off what it has added.
    pub(crate) scratch: Vec<u8>,
    pub(crate) random: Random,
    pub(crate) logs: Vec<(LogLevel, Vec<u8>)>,
    pub(crate) json: JsonSettings,
    /// Scripts that the state has compiled.
    pub(crate) compiled: usize,
}

/// SHA-1 of a source, in hexadecimal digits.
#[derive(Clone, Copy)]
pub(crate) struct Name(pub(crate) [u8; 40]);

impl Default for Name {
    fn default() -> Self {
        Self([b'0'; 40])
    }
}

/// How a script ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ending {
    #[default]
    Answered,
    Failed,
    Uncompiled,
    WithoutMemory,
}

/// The level of a line that a script logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// `redis.LOG_DEBUG`
    Debug,
    /// `redis.LOG_VERBOSE`
    Verbose,
    /// `redis.LOG_NOTICE`
    Notice,
    /// `redis.LOG_WARNING`
    Warning,
}

/// Strings, one behind the other.
#[derive(Debug, Default)]
pub(crate) struct Strings {
    pub(crate) bytes: Vec<u8>,
    /// The begin and the end of each.
    pub(crate) places: Vec<(u32, u32)>,
}

impl Strings {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
    }

    /// Adds a string. `false` if there are more than 4 GiB.
    pub(crate) fn push(&mut self, string: &[u8]) -> bool {
        let begin = self.bytes.len();
        let end = begin + string.len();
        let (Ok(begin), Ok(end)) = (u32::try_from(begin), u32::try_from(end)) else { return false };
        self.bytes.extend_from_slice(string);
        self.places.push((begin, end));
        true
    }

    pub(crate) fn get(&self, at: usize) -> Option<&[u8]> {
        let (begin, end) = *self.places.get(at)?;
        self.bytes.get(begin as usize..end as usize)
    }
}

impl Data {
    /// Empties everything for the next script, and frees what is large.
    pub(crate) fn clear(&mut self) {
        const KEPT: usize = 16 << 10;
        for bytes in [
            &mut self.source,
            &mut self.reply,
            &mut self.answer,
            &mut self.scratch,
            &mut self.keys.bytes,
            &mut self.arguments.bytes,
            &mut self.request.bytes,
        ] {
            bytes.clear();
            bytes.shrink_to(KEPT);
        }
        for strings in [&mut self.keys, &mut self.arguments, &mut self.request] {
            strings.clear();
            strings.places.shrink_to(KEPT / 8);
        }
        self.logs.clear();
        self.ending = Ending::Answered;
        self.replies_in_resp3 = false;
        self.random = Random::default();
        self.json = JsonSettings::default();
    }
}

impl Host {
    pub(crate) fn new(purse: Purse) -> Box<Self> {
        Box::new(Self {
            purse,
            data: RefCell::default(),
            yielder: Cell::new(ptr::null()),
            lua: Cell::new(ptr::null_mut()),
            steps: Cell::new(0),
            collected_at: Cell::new(0),
            kept_beside: Cell::new(0),
            has_long_blocks: Cell::new(false),
        })
    }
}

/// Bytes are asked of the budget in steps of this size.
const STEP_BYTES: usize = 64 << 10;

/// The memory of a state: below its limit, and within its budget.
pub(crate) struct Purse {
    bytes_max: usize,
    used: Cell<usize>,
    granted: Cell<usize>,
    budget: RefCell<Box<dyn Budget>>,
}

impl Purse {
    pub(crate) fn new(bytes_max: usize, budget: Box<dyn Budget>) -> Self {
        Self { bytes_max, used: Cell::new(0), granted: Cell::new(0), budget: RefCell::new(budget) }
    }

    pub(crate) fn used(&self) -> usize {
        self.used.get()
    }

    pub(crate) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    pub(crate) fn left(&self) -> usize {
        self.bytes_max.saturating_sub(self.used.get())
    }

    /// Counts `bytes` more; `false` and nothing if there is no room.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        let Some(used) = self.used.get().checked_add(bytes) else { return false };
        if used > self.bytes_max {
            return false;
        }
        if used > self.granted.get() {
            let more = (used - self.granted.get()).next_multiple_of(STEP_BYTES);
            let is_granted = self.budget.try_borrow_mut().is_ok_and(|mut it| it.grow(more));
            if !is_granted {
                return false;
            }
            self.granted.set(self.granted.get() + more);
        }
        self.used.set(used);
        true
    }

    pub(crate) fn give(&self, bytes: usize) {
        self.used.set(self.used.get().saturating_sub(bytes));
    }

    /// Gives back to the budget what is not used.
    pub(crate) fn settle(&self) {
        let needed = self.used.get().next_multiple_of(STEP_BYTES);
        let spare = self.granted.get().saturating_sub(needed);
        if spare > 0 {
            self.granted.set(needed);
            self.budget.borrow_mut().shrink(spare);
        }
    }
}
