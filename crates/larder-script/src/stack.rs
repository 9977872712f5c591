//! An interpreter, and the stack that its script runs on. The rules are those of `raw.rs`.

#![allow(unsafe_code)]

use std::ptr;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use mlua_sys::lua51 as ffi;

use crate::host::{Host, Signal};
use crate::raw::{Results, SLICE_INSTRUCTIONS, State, allocate, enter, hook};

/// Room for 200 nested calls of C and levels of the parser, which is Lua's limit, and for 1000 levels of JSON. Only
/// what a script touches takes memory.
const STACK_BYTES: usize = 2 << 20;

/// A state with its host. Dropping it frees all memory of the state.
pub(crate) struct Interpreter {
    lua: *mut ffi::lua_State,
    host: Box<Host>,
}

impl Interpreter {
    /// A state with the libraries that the function adds. `None` without memory for it.
    pub(crate) fn new<F: Fn(State) -> Results>(host: Box<Host>, _: F) -> Option<Self> {
        // SAFETY: the host is boxed and lives as long as the state: `drop` closes that first. The protected call
        // ends all errors of `open`.
        unsafe {
            let user = ptr::from_ref::<Host>(&host).cast_mut().cast();
            let lua = ffi::lua_newstate(allocate, user);
            if lua.is_null() {
                return None;
            }
            let this = Self { lua, host };
            let is_open = ffi::lua_cpcall(lua, enter::<F>, ptr::null_mut()) == ffi::LUA_OK;
            is_open.then_some(this)
        }
    }

    pub(crate) fn host(&self) -> &Host {
        &self.host
    }
}

impl Drop for Interpreter {
    fn drop(&mut self) {
        self.host.lua.set(ptr::null_mut());
        // SAFETY: nothing runs in it any more; a script that was given up was suspended where Lua had called out, and
        // `lua_close` frees the memory of a state whatever is on its stack. No value has a finalizer.
        unsafe { ffi::lua_close(self.lua) };
    }
}

/// Memory for the frames of a script, with a guard page below.
pub(crate) struct ScriptStack(DefaultStack);

impl ScriptStack {
    /// `None` without address space for it.
    pub(crate) fn new() -> Option<Self> {
        DefaultStack::new(STACK_BYTES).ok().map(Self)
    }
}

/// An interpreter in the middle of a function.
pub(crate) struct Suspended {
    /// Declared first, and so dropped before the interpreter.
    frames: Frames,
    interpreter: Interpreter,
}

struct Frames(Coroutine<(), Signal, bool, DefaultStack>);

impl Drop for Frames {
    fn drop(&mut self) {
        // SAFETY: the frames on it own nothing (rule 1).
        unsafe { self.0.force_reset() };
    }
}

impl Suspended {
    /// Prepares to run `function` on `stack`; [`Suspended::resume`] begins.
    pub(crate) fn new<F: Fn(State) -> Results + Copy + 'static>(
        interpreter: Interpreter,
        ScriptStack(stack): ScriptStack,
        _: F,
    ) -> Self {
        let lua = interpreter.lua;
        let host = ptr::from_ref::<Host>(&interpreter.host);
        let run = move |yielder: &Yielder<(), Signal>, ()| {
            // SAFETY: the interpreter is dropped after these frames; the yielder lives until they end. An error of the
            // function ends in the protected call.
            unsafe {
                (*host).yielder.set(ptr::from_ref(yielder));
                (*host).has_long_blocks.set(false);
                (*host).lua.set(lua.cast());
                ffi::lua_sethook(lua, Some(hook), ffi::LUA_MASKCOUNT, SLICE_INSTRUCTIONS);
                let status = ffi::lua_cpcall(lua, enter::<F>, ptr::null_mut());
                (*host).yielder.set(ptr::null());
                (*host).lua.set(ptr::null_mut());
                ffi::lua_settop(lua, 0);
                status == ffi::LUA_OK
            }
        };
        Self { frames: Frames(Coroutine::with_stack(stack, run)), interpreter }
    }

    /// Runs on until the function suspends itself, or ends: `Err`, which says whether it ended without an error.
    pub(crate) fn resume(&mut self) -> Result<Signal, bool> {
        match self.frames.0.resume(()) {
            CoroutineResult::Yield(signal) => Ok(signal),
            CoroutineResult::Return(is_well) => Err(is_well),
        }
    }

    pub(crate) fn host(&self) -> &Host {
        self.interpreter.host()
    }

    /// The parts, if the function has ended.
    pub(crate) fn into_parts(self) -> Option<(Interpreter, ScriptStack)> {
        let Self { frames, interpreter } = self;
        if !frames.0.done() {
            return None;
        }
        Some((interpreter, frames.into_stack()))
    }
}

impl Frames {
    fn into_stack(self) -> ScriptStack {
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: `this` is not used again, nor dropped.
        let frames = unsafe { ptr::read(&raw const this.0) };
        ScriptStack(frames.into_stack())
    }
}
