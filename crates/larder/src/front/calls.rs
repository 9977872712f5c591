//! The calls of one key that change it, in a list: each form of the cache makes its methods of it.
//!
//! A call of [`Larder`](crate::Larder) that takes a key first, waits, and can be made again with the same arguments is
//! a line here, without `self`, the key and `async`. In front stands what it is to the value that is there
//! ([`Old`](crate::shards::calls::Old)), at the end what the caller is told where it was made and lost with its shard,
//! as if the key had been evicted right before or after it. What a form has to write by hand (look-ups that need no
//! future, closures, answers of several places) is in its own file.

/// Hands the list to the macro of a form.
macro_rules! calls_of_one_key {
    ($form:ident) => {
        $form! {
            Replaced set(value: &[u8], ttl: Option<Duration>) -> Result<(), Error> => ();
            Replaced set_with(value: &[u8], options: SetOptions) -> Result<(), Error> => ();
            Needed add(value: &[u8], options: SetOptions) -> Result<bool, Error> => true;
            Needed replace(value: &[u8], options: SetOptions) -> Result<bool, Error> => false;
            Needed cas(value: &[u8], version: u64, options: SetOptions) -> Result<Cas, Error> => Cas::NotFound;
            Needed touch(ttl: Option<Duration>) -> Result<bool, Error> => false;
            Needed invalidate(ttl: Option<Duration>) -> Result<bool, Error> => false;
            Needed incr(delta: u64) -> Result<Option<u64>, Error> => None;
            Needed decr(delta: u64) -> Result<Option<u64>, Error> => None;
            Needed append(tail: &[u8]) -> Result<bool, Error> => false;
            Needed prepend(head: &[u8]) -> Result<bool, Error> => false;
        }
    };
}

pub(super) use calls_of_one_key;
