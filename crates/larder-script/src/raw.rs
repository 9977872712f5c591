//! The only unsafe code of this crate: Lua's C interface, the memory of a state, and the stack that a script runs on.
//!
//! Lua raises an error by `longjmp`, which drops no frame of Rust in between, and a script that is given up leaves its
//! stack as it is. Both are sound because every function of this crate that runs on a script's stack keeps three rules:
//!
//! 1. **It owns nothing with a destructor while it calls a method of [`State`].** Bytes that it builds lie in the
//!    [`Host`], which lives beside the stack: an error or an end in the middle leaves them there, and the next script
//!    clears them. So frames may be skipped (Rust calls them "plain old frames").
//! 2. **It keeps no slice of a Lua string after the string has left the stack.**
//! 3. **It has room for what it pushes.** Lua gives each call 20 places; a function that needs more calls
//!    [`State::has_room`].
//!
//! A panic ends at [`enter`], which makes an error of it. A script is suspended only in [`State::suspend`], which a
//! hook or a function of ours calls: there the state is consistent, as it is whenever Lua calls out, so that
//! `Interpreter` may close it even if the script never runs on.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc, realloc};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};

use mlua_sys::lua51 as ffi;

use crate::host::{Data, Host, Signal, Strings};

pub(crate) const NIL: c_int = ffi::LUA_TNIL;
pub(crate) const BOOLEAN: c_int = ffi::LUA_TBOOLEAN;
pub(crate) const NUMBER: c_int = ffi::LUA_TNUMBER;
pub(crate) const STRING: c_int = ffi::LUA_TSTRING;
pub(crate) const TABLE: c_int = ffi::LUA_TTABLE;
pub(crate) const FUNCTION: c_int = ffi::LUA_TFUNCTION;
pub(crate) const LIGHT: c_int = ffi::LUA_TLIGHTUSERDATA;
pub(crate) const REGISTRY: c_int = ffi::LUA_REGISTRYINDEX;
pub(crate) const GLOBALS: c_int = ffi::LUA_GLOBALSINDEX;
/// As many results as there are.
pub(crate) const ALL: c_int = ffi::LUA_MULTRET;

/// Instructions between two calls of the hook: about 10 µs.
pub(crate) const SLICE_INSTRUCTIONS: c_int = 1000;
/// The same, once the script has made a block of [`LONG_BYTES`]: an instruction may then copy or compare as much.
const SHORT_SLICE_INSTRUCTIONS: c_int = 16;
const LONG_BYTES: usize = 64 << 10;
/// A script that uses much memory collects garbage each time that this has come.
const COLLECTED_AFTER_BYTES: usize = 256 << 10;
/// Alignment of all blocks.
const ALIGNMENT: usize = 16;

/// The error value is on top of the stack.
#[derive(Debug)]
pub(crate) struct Raised;

/// What a function returns to Lua: its number of results, which are on top of the stack.
pub(crate) type Results = Result<c_int, Raised>;

/// A Lua thread, in a function that it has called.
#[derive(Clone, Copy)]
pub(crate) struct State(*mut ffi::lua_State);

/// How a protected call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Well,
    WithError,
    WithoutMemory,
    /// The text of a chunk is not Lua.
    Unparsed,
}

impl Ended {
    fn of(status: c_int) -> Self {
        match status {
            ffi::LUA_OK => Self::Well,
            ffi::LUA_ERRMEM => Self::WithoutMemory,
            ffi::LUA_ERRSYNTAX => Self::Unparsed,
            _ => Self::WithError,
        }
    }
}

/// Lua calls this for the function `F`, which has no state.
pub(crate) unsafe extern "C-unwind" fn enter<F: Fn(State) -> Results>(
    lua: *mut ffi::lua_State,
) -> c_int {
    const { assert!(size_of::<F>() == 0) };
    // SAFETY: a type without bytes has a value at any aligned address, and `State::function` was given one.
    let function = unsafe { NonNull::<F>::dangling().as_ref() };
    let state = State(lua);
    match catch_unwind(AssertUnwindSafe(|| function(state))) {
        Ok(Ok(results)) => return results,
        Ok(Err(Raised)) => {}
        Err(panic) => {
            drop(panic);
            state.push_text("internal error");
        }
    }
    // SAFETY: the error is on top of the stack, and this frame owns nothing.
    unsafe { ffi::lua_error(lua) }
}

/// Collects a part of the garbage of a script that uses more than half of its memory. Lua by itself would wait until it
/// uses twice what was alive, which may be more than there is.
fn collect_early(lua: *mut ffi::lua_State, host: &Host) {
    let used = host.purse.used();
    let grown = used.saturating_sub(host.collected_at.get());
    if used <= host.purse.bytes_max() / 2 || grown < COLLECTED_AFTER_BYTES {
        host.collected_at.set(host.collected_at.get().min(used));
        return;
    }
    // Twice what has come: Lua doubles it again, so that a round is over before the other half is used.
    let kib = c_int::try_from(grown >> 9).unwrap_or(c_int::MAX);
    // SAFETY: a hook may call this; rule 1.
    unsafe { ffi::lua_gc(lua, ffi::LUA_GCSTEP, kib) };
    host.collected_at.set(host.purse.used());
}

pub(crate) unsafe extern "C-unwind" fn hook(lua: *mut ffi::lua_State, _: *mut ffi::lua_Debug) {
    collect_early(lua, State(lua).host());
    State(lua).suspend(Signal::Slice);
}

/// Lua's allocator. `user` is the host.
pub(crate) unsafe extern "C" fn allocate(
    user: *mut c_void,
    block: *mut c_void,
    before: usize,
    wanted: usize,
) -> *mut c_void {
    // SAFETY: `Interpreter` gave Lua its host, which outlives the state.
    let host = unsafe { &*user.cast::<Host>() };
    let before = if block.is_null() { 0 } else { before };
    if wanted > before && !host.purse.take(wanted - before) {
        return ptr::null_mut();
    }
    if wanted >= LONG_BYTES && !host.has_long_blocks.replace(true) {
        host.shorten_slices();
    }
    let layout = |bytes| Layout::from_size_align(bytes, ALIGNMENT);
    let (Ok(old), Ok(new)) = (layout(before), layout(wanted)) else { return ptr::null_mut() };
    // SAFETY: Lua passes the size that it asked for, and sizes are not 0 where memory is got.
    let got = unsafe {
        match (before, wanted) {
            (0, 0) => ptr::null_mut(),
            (0, _) => alloc(new),
            (_, 0) => {
                dealloc(block.cast(), old);
                ptr::null_mut()
            }
            _ => realloc(block.cast(), old, wanted),
        }
    };
    if wanted < before {
        host.purse.give(before - wanted);
    } else if got.is_null() {
        host.purse.give(wanted - before);
    }
    got.cast()
}

/// Hands a chunk to Lua piece by piece, and lets others run between two pieces.
struct Pieces {
    at: *const u8,
    left: usize,
}

const PIECE_BYTES: usize = 1 << 10;

unsafe extern "C-unwind" fn read_piece(
    lua: *mut ffi::lua_State,
    data: *mut c_void,
    size: *mut usize,
) -> *const c_char {
    // SAFETY: `State::load` passes its `Pieces`, whose bytes stay where they are while Lua parses.
    unsafe {
        let pieces = &mut *data.cast::<Pieces>();
        let now = pieces.left.min(PIECE_BYTES);
        let at = pieces.at;
        pieces.at = at.add(now);
        pieces.left -= now;
        *size = now;
        State(lua).works(now);
        at.cast()
    }
}

impl State {
    fn host(self) -> &'static Host {
        let mut user = ptr::null_mut();
        // SAFETY: the state is open, and its allocator's data is its host (`Interpreter::new`), which outlives it.
        unsafe {
            ffi::lua_getallocf(self.0, &raw mut user);
            &*user.cast::<Host>()
        }
    }

    /// Works with what the host keeps for the script. `work` calls no method of a state.
    pub(crate) fn with<T>(self, work: impl FnOnce(&mut Data) -> T) -> T {
        work(&mut self.host().data.borrow_mut())
    }

    /// Bytes that the script may still take.
    pub(crate) fn bytes_left(self) -> usize {
        self.host().purse.left()
    }

    /// Suspends the script until the host resumes it. Only on a script's stack.
    pub(crate) fn suspend(self, signal: Signal) {
        let yielder = self.host().yielder.get();
        if !yielder.is_null() {
            // SAFETY: it was set by the stack that this runs on (`Running::begin`).
            unsafe { (*yielder).suspend(signal) };
        }
    }

    /// Counts steps of about 10 ns of a function of ours, and lets others run when there are enough of them.
    #[inline]
    pub(crate) fn works(self, steps: usize) {
        let host = self.host();
        let all = host.steps.get() + steps;
        host.steps.set(all);
        if all >= SLICE_INSTRUCTIONS.unsigned_abs() as usize {
            host.steps.set(0);
            self.suspend(Signal::Slice);
        }
    }

    pub(crate) fn top(self) -> c_int {
        // SAFETY: the state is open; this only reads.
        unsafe { ffi::lua_gettop(self.0) }
    }

    pub(crate) fn set_top(self, top: c_int) {
        // SAFETY: rule 3.
        unsafe { ffi::lua_settop(self.0, top) }
    }

    pub(crate) fn pop(self, values: c_int) {
        self.set_top(-values - 1);
    }

    pub(crate) fn push_copy(self, at: c_int) {
        // SAFETY: rule 3; `at` is an index of this call.
        unsafe { ffi::lua_pushvalue(self.0, at) }
    }

    pub(crate) fn remove(self, at: c_int) {
        // SAFETY: `at` is an index of this call.
        unsafe { ffi::lua_remove(self.0, at) }
    }

    pub(crate) fn insert(self, at: c_int) {
        // SAFETY: `at` is an index of this call.
        unsafe { ffi::lua_insert(self.0, at) }
    }

    pub(crate) fn replace(self, at: c_int) {
        // SAFETY: `at` is an index of this call.
        unsafe { ffi::lua_replace(self.0, at) }
    }

    /// Whether there is room for `values` more values.
    pub(crate) fn has_room(self, values: c_int) -> bool {
        // SAFETY: it grows the stack, or raises for want of memory (rule 1).
        unsafe { ffi::lua_checkstack(self.0, values) != 0 }
    }

    pub(crate) fn kind(self, at: c_int) -> c_int {
        // SAFETY: `at` is an index of this call, or one above.
        unsafe { ffi::lua_type(self.0, at) }
    }

    pub(crate) fn kind_name(self, at: c_int) -> &'static str {
        // SAFETY: the names are literals of Lua.
        let name = unsafe { CStr::from_ptr(ffi::lua_typename(self.0, self.kind(at))) };
        name.to_str().unwrap_or_default()
    }

    pub(crate) fn is_c_function(self, at: c_int) -> bool {
        // SAFETY: `at` is an index of this call.
        unsafe { ffi::lua_iscfunction(self.0, at) != 0 }
    }

    pub(crate) fn is_true(self, at: c_int) -> bool {
        // SAFETY: `at` is an index of this call, or one above.
        unsafe { ffi::lua_toboolean(self.0, at) != 0 }
    }

    /// The number at `at`, or that of a string that is one; else 0.
    pub(crate) fn number(self, at: c_int) -> f64 {
        // SAFETY: `at` is an index of this call, or one above.
        unsafe { ffi::lua_tonumber(self.0, at) }
    }

    /// The bytes of the string at `at`; a number there becomes a string. Rule 2.
    pub(crate) fn bytes(self, at: c_int) -> Option<&'static [u8]> {
        let mut len = 0;
        // SAFETY: Lua returns null or a string of `len` bytes, which stays while it is on the stack (rule 2).
        unsafe {
            let bytes = ffi::lua_tolstring(self.0, at, &raw mut len);
            (!bytes.is_null()).then(|| std::slice::from_raw_parts(bytes.cast(), len))
        }
    }

    /// Elements of the table, or bytes of the string, at `at`.
    pub(crate) fn length(self, at: c_int) -> usize {
        // SAFETY: `at` is an index of this call.
        unsafe { ffi::lua_objlen(self.0, at) }
    }

    /// The string argument at `at`; raises if there is none.
    pub(crate) fn check_bytes(self, at: c_int) -> &'static [u8] {
        let mut len = 0;
        // SAFETY: as `bytes`, or it raises (rule 1).
        unsafe {
            let bytes = ffi::luaL_checklstring(self.0, at, &raw mut len);
            std::slice::from_raw_parts(bytes.cast(), len)
        }
    }

    /// The number argument at `at`; raises if there is none.
    pub(crate) fn check_number(self, at: c_int) -> f64 {
        // SAFETY: it raises, or reads (rule 1).
        unsafe { ffi::luaL_checknumber(self.0, at) }
    }

    /// The number argument at `at`, cut to an integer.
    #[allow(clippy::cast_possible_truncation, reason = "it saturates")]
    pub(crate) fn check_integer(self, at: c_int) -> i64 {
        self.check_number(at) as i64
    }

    pub(crate) fn integer_or(self, at: c_int, default: i64) -> i64 {
        if self.kind(at) <= NIL { default } else { self.check_integer(at) }
    }

    pub(crate) fn check_kind(self, at: c_int, kind: c_int) {
        // SAFETY: it raises, or reads (rule 1).
        unsafe { ffi::luaL_checktype(self.0, at, kind) }
    }

    pub(crate) fn check_any(self, at: c_int) {
        // SAFETY: it raises, or reads (rule 1).
        unsafe { ffi::luaL_checkany(self.0, at) }
    }

    /// Raises "bad argument".
    pub(crate) fn bad_argument(self, at: c_int, why: &CStr) -> Results {
        // SAFETY: it raises (rule 1).
        Ok(unsafe { ffi::luaL_argerror(self.0, at, why.as_ptr()) })
    }

    pub(crate) fn push_nil(self) {
        // SAFETY: rule 3.
        unsafe { ffi::lua_pushnil(self.0) }
    }

    pub(crate) fn push_number(self, number: f64) {
        // SAFETY: rule 3.
        unsafe { ffi::lua_pushnumber(self.0, number) }
    }

    #[allow(clippy::cast_precision_loss, reason = "Lua's numbers are floats")]
    pub(crate) fn push_integer(self, number: i64) {
        self.push_number(number as f64);
    }

    pub(crate) fn push_boolean(self, is: bool) {
        // SAFETY: rule 3.
        unsafe { ffi::lua_pushboolean(self.0, c_int::from(is)) }
    }

    pub(crate) fn push_bytes(self, bytes: &[u8]) {
        // SAFETY: Lua copies the bytes; rules 1 and 3.
        unsafe { ffi::lua_pushlstring_(self.0, bytes.as_ptr().cast(), bytes.len()) }
    }

    pub(crate) fn push_text(self, text: &str) {
        self.push_bytes(text.as_bytes());
    }

    pub(crate) fn push_light(self, place: &'static u8) {
        // SAFETY: rule 3; nothing reads through it.
        unsafe { ffi::lua_pushlightuserdata(self.0, ptr::from_ref(place).cast_mut().cast()) }
    }

    /// Pushes `cjson.null`.
    pub(crate) fn push_null_pointer(self) {
        // SAFETY: rule 3; nothing reads through it.
        unsafe { ffi::lua_pushlightuserdata(self.0, ptr::null_mut()) }
    }

    pub(crate) fn is_null_pointer(self, at: c_int) -> bool {
        // SAFETY: it only reads.
        self.kind(at) == LIGHT && unsafe { ffi::lua_touserdata(self.0, at).is_null() }
    }

    /// Adds bytes to a buffer of the host; raises if it grows above what the script may still take.
    pub(crate) fn add(
        self,
        parts: &[&[u8]],
        buffer: fn(&mut Data) -> &mut Vec<u8>,
    ) -> Result<(), Raised> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        self.works(1 + bytes / 64);
        let room = self.bytes_left();
        let fits = self.with(|data| {
            let buffer = buffer(data);
            let fits = buffer.len() + bytes <= room;
            if fits {
                parts.iter().for_each(|part| buffer.extend_from_slice(part));
            }
            fits
        });
        if fits { Ok(()) } else { self.fail_for_memory().map(|_| ()) }
    }

    /// The same for the scratch, from which [`State::push_scratch`] makes a string.
    pub(crate) fn add_scratch(self, parts: &[&[u8]]) -> Result<(), Raised> {
        self.add(parts, |data| &mut data.scratch)
    }

    /// Pushes the bytes that the host has collected from `from` on, and takes them off there.
    pub(crate) fn push_scratch(self, from: usize) {
        let (at, len) = self.with(|data| {
            let bytes = data.scratch.get(from..).unwrap_or_default();
            (bytes.as_ptr(), bytes.len())
        });
        // SAFETY: nothing changes these bytes while Lua copies them; rules 1 and 3.
        unsafe { ffi::lua_pushlstring_(self.0, at.cast(), len) };
        self.with(|data| data.scratch.truncate(from));
    }

    pub(crate) fn push_table(self, elements: usize, fields: usize) {
        let count = |count: usize| c_int::try_from(count).unwrap_or(0);
        // SAFETY: rules 1 and 3.
        unsafe { ffi::lua_createtable(self.0, count(elements), count(fields)) }
    }

    /// Pushes a function that owns the topmost `values` values, which it pops.
    pub(crate) fn push_function<F: Fn(State) -> Results>(self, _: F, values: c_int) {
        // SAFETY: rules 1 and 3; `enter` checks that `F` has no state.
        unsafe { ffi::lua_pushcclosure(self.0, enter::<F>, values) }
    }

    /// The index of a value that the running function owns, from 1.
    pub(crate) fn owned(value: c_int) -> c_int {
        ffi::lua_upvalueindex(value)
    }

    /// Replaces the key on top by its value in the table at `at`, without metamethods.
    pub(crate) fn raw_get(self, at: c_int) {
        // SAFETY: there is a table at `at`.
        unsafe { ffi::lua_rawget_(self.0, at) }
    }

    /// Sets the key below the top to the value on top, without metamethods.
    pub(crate) fn raw_set(self, at: c_int) {
        // SAFETY: there is a table at `at`; rule 1.
        unsafe { ffi::lua_rawset(self.0, at) }
    }

    pub(crate) fn raw_get_at(self, at: c_int, index: c_int) {
        // SAFETY: there is a table at `at`; rule 3.
        unsafe { ffi::lua_rawgeti_(self.0, at, index) }
    }

    pub(crate) fn raw_set_at(self, at: c_int, index: c_int) {
        // SAFETY: there is a table at `at`; rule 1.
        unsafe { ffi::lua_rawseti_(self.0, at, index) }
    }

    /// Pushes the field of the table at `at`, without metamethods.
    pub(crate) fn raw_field(self, at: c_int, name: &str) {
        let at = self.absolute(at);
        self.push_text(name);
        self.raw_get(at);
    }

    /// Sets the field of the table at `at` to the value on top.
    pub(crate) fn set_raw_field(self, at: c_int, name: &str) {
        let at = self.absolute(at);
        self.push_text(name);
        self.insert(-2);
        self.raw_set(at);
    }

    pub(crate) fn absolute(self, at: c_int) -> c_int {
        if at < 0 && at > REGISTRY { self.top() + at + 1 } else { at }
    }

    /// As the script's own access would be, with metamethods: replaces the key on top by its value.
    pub(crate) fn get(self, at: c_int) {
        // SAFETY: rule 1.
        unsafe { ffi::lua_gettable_(self.0, at) }
    }

    /// Replaces the key on top by the next key and its value; `false` and nothing at the end.
    pub(crate) fn next(self, at: c_int) -> bool {
        // SAFETY: there is a table at `at`; rules 1 and 3.
        unsafe { ffi::lua_next(self.0, at) != 0 }
    }

    pub(crate) fn push_metatable(self, at: c_int) -> bool {
        // SAFETY: rule 3.
        unsafe { ffi::lua_getmetatable(self.0, at) != 0 }
    }

    pub(crate) fn set_metatable(self, at: c_int) {
        // SAFETY: a table is on top.
        unsafe { ffi::lua_setmetatable(self.0, at) };
    }

    pub(crate) fn push_environment(self, at: c_int) {
        // SAFETY: rule 3.
        unsafe { ffi::lua_getfenv(self.0, at) }
    }

    /// Sets the environment of the value at `at` to the table on top; `false` if it has none.
    pub(crate) fn set_environment(self, at: c_int) -> bool {
        // SAFETY: a table is on top.
        unsafe { ffi::lua_setfenv(self.0, at) != 0 }
    }

    /// Pushes the function that is `level` calls up; `false` and nothing if there is none.
    pub(crate) fn push_caller(self, level: c_int) -> bool {
        // SAFETY: `lua_getstack` fills what `lua_getinfo` needs; all other fields are only written.
        unsafe {
            let mut activation = std::mem::zeroed::<ffi::lua_Debug>();
            ffi::lua_getstack(self.0, level, &raw mut activation) == 1
                && ffi::lua_getinfo(self.0, c"f".as_ptr(), &raw mut activation) != 0
        }
    }

    /// The line of the call that is `level` calls up, if it is of a Lua function, with its chunk's name pushed;
    /// `None` and nothing if it is not.
    pub(crate) fn line_of(self, level: c_int) -> Option<c_int> {
        // SAFETY: as above; `source` is a string of the function, which is running.
        unsafe {
            let mut activation = std::mem::zeroed::<ffi::lua_Debug>();
            if ffi::lua_getstack(self.0, level, &raw mut activation) != 1
                || ffi::lua_getinfo(self.0, c"Sl".as_ptr(), &raw mut activation) == 0
                || CStr::from_ptr(activation.what) == c"C"
            {
                return None;
            }
            ffi::lua_pushstring_(self.0, activation.source);
            Some(activation.currentline)
        }
    }

    pub(crate) fn call(self, arguments: c_int, results: c_int) {
        // SAFETY: rules 1 and 3.
        unsafe { ffi::lua_call(self.0, arguments, results) }
    }

    pub(crate) fn protected_call(self, arguments: c_int, results: c_int, handler: c_int) -> Ended {
        // SAFETY: rule 3; an error ends here.
        Ended::of(unsafe { ffi::lua_pcall(self.0, arguments, results, handler) })
    }

    /// Pushes the function that `text` is compiled to, or an error. `text` stays where it is meanwhile.
    pub(crate) fn load(self, text: &[u8], name: &CStr) -> Ended {
        let mut pieces = Pieces { at: text.as_ptr(), left: text.len() };
        let data = (&raw mut pieces).cast();
        // Lua does not keep the name from being collected while it parses; a string on the stack is the same one.
        self.push_bytes(name.to_bytes());
        // SAFETY: the bytes and `pieces` outlive the call; rule 3.
        let ended = Ended::of(unsafe { ffi::lua_load(self.0, read_piece, data, name.as_ptr()) });
        self.remove(-2);
        ended
    }

    pub(crate) fn less(self, one: c_int, other: c_int) -> bool {
        // SAFETY: both are indices of this call; rule 1.
        unsafe { ffi::lua_lessthan(self.0, one, other) != 0 }
    }

    /// Where the script is, as errors begin.
    pub(crate) fn push_where(self, level: c_int) {
        // SAFETY: rules 1 and 3.
        unsafe { ffi::luaL_where(self.0, level) }
    }

    pub(crate) fn concat(self, values: c_int) {
        // SAFETY: rule 1.
        unsafe { ffi::lua_concat(self.0, values) }
    }

    /// Raises an error with this text, and with the place of the script in front.
    pub(crate) fn fail(self, text: &str) -> Results {
        self.push_where(1);
        self.push_text(text);
        self.concat(2);
        Err(Raised)
    }

    /// The same, with a text that is made now.
    pub(crate) fn fails(self, text: std::fmt::Arguments<'_>) -> Results {
        self.push_where(1);
        let from = self.with(|data| {
            let from = data.scratch.len();
            let _ = std::io::Write::write_fmt(&mut data.scratch, text);
            from
        });
        self.push_scratch(from);
        self.concat(2);
        Err(Raised)
    }

    /// Raises the error of an allocation that failed, which is none that a script can make.
    pub(crate) fn fail_for_memory(self) -> Results {
        let refused = self.host().purse.bytes_max() + 1;
        // SAFETY: the allocator refuses this size, and so Lua raises (rule 1).
        unsafe { ffi::lua_newuserdata(self.0, refused) };
        Err(Raised)
    }

    /// Counts bytes that the host keeps for the script; `false` and nothing if there is no room.
    pub(crate) fn take(self, bytes: usize) -> bool {
        self.host().purse.take(bytes)
    }

    pub(crate) fn give(self, bytes: usize) {
        self.host().purse.give(bytes);
    }

    /// Bytes that stay where they are until the host gets another request: those of the last reply.
    pub(crate) fn reply(self) -> &'static [u8] {
        let (at, len) = self.with(|data| (data.reply.as_ptr(), data.reply.len()));
        // SAFETY: only the host changes the reply, and it does so while the script is suspended (`redis.call`).
        unsafe { std::slice::from_raw_parts(at, len) }
    }

    /// The source, the keys and the arguments of the script, which stay where they are while it runs.
    pub(crate) fn inputs(self) -> (&'static [u8], &'static Strings, &'static Strings) {
        let (source, keys, arguments) = self.with(|data| {
            let parts: (*const [u8], *const Strings, *const Strings) =
                (&raw const *data.source, &raw const data.keys, &raw const data.arguments);
            parts
        });
        // SAFETY: these change only between two scripts (`Machine::start`), and the host outlives the state.
        unsafe { (&*source, &*keys, &*arguments) }
    }

    /// The argument at `at` as a name, or `default` if there is none. Rule 2.
    pub(crate) fn name_or(self, at: c_int, default: &'static CStr) -> &'static CStr {
        if self.kind(at) <= NIL {
            return default;
        }
        self.check_bytes(at);
        // SAFETY: strings of Lua end with a NUL, and this one stays on the stack (rule 2).
        unsafe { CStr::from_ptr(ffi::lua_tolstring(self.0, at, ptr::null_mut())) }
    }

    pub(crate) fn collect(self) {
        // SAFETY: rule 1.
        unsafe { ffi::lua_gc(self.0, ffi::LUA_GCCOLLECT, 0) };
    }

    pub(crate) fn step_collection(self, kib: c_int) -> bool {
        // SAFETY: rule 1.
        unsafe { ffi::lua_gc(self.0, ffi::LUA_GCSTEP, kib) == 1 }
    }

    /// Bytes that Lua has got from its allocator.
    pub(crate) fn used_bytes(self) -> usize {
        self.host().purse.used()
    }

    /// Opens a library of Lua's, which leaves its table on the stack.
    pub(crate) fn open_library(self, library: Library) {
        let (open, name) = match library {
            Library::Base => (ffi::luaopen_base as ffi::lua_CFunction, c""),
            Library::Table => (ffi::luaopen_table as ffi::lua_CFunction, c"table"),
            Library::String => (ffi::luaopen_string as ffi::lua_CFunction, c"string"),
            Library::Math => (ffi::luaopen_math as ffi::lua_CFunction, c"math"),
            Library::Os => (ffi::luaopen_os as ffi::lua_CFunction, c"os"),
        };
        // SAFETY: rules 1 and 3; these functions are Lua's own.
        unsafe {
            ffi::lua_pushcclosure(self.0, open, 0);
            ffi::lua_pushstring_(self.0, name.as_ptr());
            ffi::lua_call(self.0, 1, 0);
        }
    }
}

/// A library of Lua's. That of coroutines comes with the base.
#[derive(Clone, Copy)]
pub(crate) enum Library {
    Base,
    Table,
    String,
    Math,
    Os,
}

impl Host {
    /// From now on the hook comes after fewer instructions.
    fn shorten_slices(&self) {
        let lua = self.lua.get().cast::<ffi::lua_State>();
        if !lua.is_null() {
            // SAFETY: the state is open. Lua allows this call at any time, even from a signal handler.
            unsafe {
                ffi::lua_sethook(lua, Some(hook), ffi::LUA_MASKCOUNT, SHORT_SLICE_INSTRUCTIONS);
            }
        }
    }
}
