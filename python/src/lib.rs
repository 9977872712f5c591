//! Larder for Python: the extension module `larder._larder`, below the package in `lib/larder`.
//!
//! The package has what is Python's: codecs, memoized functions, `asyncio`, the client, Django, Flask. This crate has
//! what must be fast, or must not hold the interpreter's lock.
//!
//! | module | what it is |
//! |---|---|
//! | [`fork`] | which process opened an object: a forked child uses none of its parent's |
//! | [`errors`] | the cache's errors as exceptions of `larder.errors` |
//! | [`arguments`] | keys and lifetimes from Python |
//! | [`codec`] | values between Python and bytes |
//! | [`view`] | a value as a buffer, without a copy |
//! | [`calls`] | the calls of the cache, for threads and for event loops, and their answers |
//! | [`store`] | the cache for threads |
//! | [`filling`] | `get_or_set`: one caller makes the value, the others wait |
//! | [`bridge`] | the cache for event loops: futures that an eventfd wakes |
//! | [`tools`] | replay, plan, experiments and the SSD model, for notebooks |
//!
//! A call that DRAM answers holds the interpreter's lock: giving it up and getting it back takes longer than the call.
//! Everything that may wait, and every copy of a long value, is made without it.

mod arguments;
mod bridge;
mod calls;
mod codec;
mod errors;
mod filling;
mod fork;
mod store;
mod tools;
mod view;

/// The module. Its classes are for the package alone.
#[pyo3::pymodule(gil_used = false)]
mod _larder {
    #[pymodule_export]
    use crate::bridge::{Bridge, Pending};
    #[pymodule_export]
    use crate::fork::note_fork;
    #[pymodule_export]
    use crate::store::Store;
    #[pymodule_export]
    use crate::tools::{Recorded, Ssd, lab_list, lab_run, plan, replay};
    #[pymodule_export]
    use crate::view::View;
}
