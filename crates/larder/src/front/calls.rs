//! The calls of one key, in a list: each form of the cache makes its methods of it.
//!
//! A call of [`Larder`](crate::Larder) that takes a key first and waits is a line here, without `self`, the key and
//! `async`, with its own type or lifetime parameter in brackets. What a form has to write by hand (look-ups that
//! need no future, fetches that block) is in its own file.

/// Hands the list to the macro of a form.
macro_rules! calls_of_one_key {
    ($form:ident) => {
        $form! {
            set(value: &[u8], ttl: Option<Duration>) -> Result<(), Error>;
            set_with(value: &[u8], options: SetOptions) -> Result<(), Error>;
            add(value: &[u8], options: SetOptions) -> Result<bool, Error>;
            replace(value: &[u8], options: SetOptions) -> Result<bool, Error>;
            cas(value: &[u8], version: u64, options: SetOptions) -> Result<Cas, Error>;
            delete() -> Result<bool, Error>;
            contains() -> Result<bool, Error>;
            touch(ttl: Option<Duration>) -> Result<bool, Error>;
            invalidate(ttl: Option<Duration>) -> Result<bool, Error>;
            incr(delta: u64) -> Result<Option<u64>, Error>;
            decr(delta: u64) -> Result<Option<u64>, Error>;
            append(tail: &[u8]) -> Result<bool, Error>;
            prepend(head: &[u8]) -> Result<bool, Error>;
            update['c](change: impl FnMut(Option<&Value>) -> Change<'c>) -> Result<Option<Value>, Error>;
        }
    };
}

pub(super) use calls_of_one_key;
