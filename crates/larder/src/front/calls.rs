//! The calls of one key that change it, in a list: each form of the cache makes its methods of it.
//!
//! A call of [`Larder`](crate::Larder) that takes a key first, waits, and can be made again with the same arguments is
//! a line here, without `self`, the key and `async`. In front stands what it is to the value that is there
//! ([`Old`](crate::shards::calls::Old)). What a form has to write by hand (look-ups that need no future, closures,
//! answers of several places) is in its own file.

/// Hands the list to the macro of a form.
macro_rules! calls_of_one_key {
    ($form:ident) => {
        $form! {
            Replaced set(value: &[u8], ttl: Option<Duration>) -> Result<(), Error>;
            Replaced set_with(value: &[u8], options: SetOptions) -> Result<(), Error>;
            Needed add(value: &[u8], options: SetOptions) -> Result<bool, Error>;
            Needed replace(value: &[u8], options: SetOptions) -> Result<bool, Error>;
            Needed cas(value: &[u8], version: u64, options: SetOptions) -> Result<Cas, Error>;
            Needed touch(ttl: Option<Duration>) -> Result<bool, Error>;
            Needed invalidate(ttl: Option<Duration>) -> Result<bool, Error>;
            Needed incr(delta: u64) -> Result<Option<u64>, Error>;
            Needed decr(delta: u64) -> Result<Option<u64>, Error>;
            Needed append(tail: &[u8]) -> Result<bool, Error>;
            Needed prepend(head: &[u8]) -> Result<bool, Error>;
        }
    };
}

pub(super) use calls_of_one_key;
