//! The list of calls that change one key; each form of the cache generates its methods from it.
//!
//! A call of [`Larder`](crate::Larder) that takes a key first, waits, and can be repeated with the same arguments, is
//! a line here, without `self`, the key and `async`. In front is its relation to the existing value
//! ([`Old`](crate::shards::calls::Old)). At the end is the answer if the change was made and then lost with its
//! shard, as if the key had been evicted right before or after it. Methods that each form writes by hand (look-ups
//! that need no future, closures, answers from several caches) are in that form's file.

/// Passes the list to the macro of a form.
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
