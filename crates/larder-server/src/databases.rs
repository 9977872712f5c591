//! Databases: numbered spaces for the keys of a tenant.
//!
//! There are 16 numbers. Keys of one of them, that of memcached's clients, are stored under their own names. A key of
//! another is stored under its name with three bytes behind it: the [`MARK`] and the number. Bytes behind a name leave
//! the prefix of a tenant at its begin. A key that ends like that by itself gets the bytes of its own database behind
//! it, so no name has two meanings.
//!
//! A client names a database by its index. Index and number are the same until `SWAPDB` swaps two of them.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Number of databases.
pub(crate) const DATABASES: u8 = 16;
/// Two bytes that no UTF-8 text has, in front of the number.
const MARK: [u8; 2] = [0xff, 0xdb];
const MARK_BYTES: usize = MARK.len() + 1;

/// The databases of a tenant.
#[derive(Debug)]
pub(crate) struct Databases {
    /// The number whose keys have their own names.
    plain: u8,
    /// The number of each index.
    numbers: [AtomicU8; DATABASES as usize],
    /// Keys of each number, when they were counted last.
    counts: [AtomicU64; DATABASES as usize],
    /// A bit for each number that a client has chosen since the start.
    used: AtomicU16,
    swapping: Mutex<()>,
}

/// The database of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DatabaseIndex(u8);

impl DatabaseIndex {
    /// `None`: there is none of this index.
    pub(crate) fn of(index: i64) -> Option<Self> {
        u8::try_from(index).ok().filter(|index| *index < DATABASES).map(Self)
    }

    /// All of them.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..DATABASES).map(Self)
    }

    pub(crate) fn index(self) -> u8 {
        self.0
    }
}

/// What distinguishes the stored names of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeySpace {
    number: u8,
    /// Whether its keys have their own names.
    is_plain: bool,
}

impl KeySpace {
    /// Whether this key has another name in the cache.
    #[inline]
    pub(crate) fn renames(self, key: &[u8]) -> bool {
        !self.is_plain || number_behind(key).is_some()
    }

    /// Appends the name of a key in the cache.
    pub(crate) fn append_name(self, key: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(key);
        if self.renames(key) {
            out.extend_from_slice(&MARK);
            out.push(self.number);
        }
    }

    /// The name of a key in the cache, which is in `buffer` if it is another one.
    #[inline]
    pub(crate) fn name<'k>(self, key: &'k [u8], buffer: &'k mut Vec<u8>) -> &'k [u8] {
        if !self.renames(key) {
            return key;
        }
        buffer.clear();
        self.append_name(key, buffer);
        buffer
    }

    /// The key of this name, if it belongs to this database.
    pub(crate) fn key_of(self, name: &[u8]) -> Option<&[u8]> {
        match number_behind(name) {
            Some(number) if number == self.number => name.get(..name.len() - MARK_BYTES),
            None if self.is_plain => Some(name),
            _ => None,
        }
    }
}

/// The key of a name, whatever its database.
pub(crate) fn key_in(name: &[u8]) -> &[u8] {
    match number_behind(name) {
        Some(_) => name.get(..name.len() - MARK_BYTES).unwrap_or_default(),
        None => name,
    }
}

/// The number in the last bytes of a name, if it has one.
#[inline]
fn number_behind(name: &[u8]) -> Option<u8> {
    let [.., first, second, number] = name else { return None };
    ([*first, *second] == MARK && *number < DATABASES).then_some(*number)
}

impl Databases {
    /// Keys of database `plain` have their own names.
    pub(crate) fn new(plain: u8) -> Self {
        let number = |index| AtomicU8::new(u8::try_from(index).unwrap_or(0));
        Self {
            plain,
            numbers: std::array::from_fn(number),
            counts: Default::default(),
            used: AtomicU16::new(1 << plain),
            swapping: Mutex::default(),
        }
    }

    fn number(&self, database: DatabaseIndex) -> u8 {
        self.numbers[usize::from(database.0)].load(Ordering::Relaxed)
    }

    /// The database of this index.
    pub(crate) fn space(&self, database: DatabaseIndex) -> KeySpace {
        let number = self.number(database);
        KeySpace { number, is_plain: number == self.plain }
    }

    /// The index of the database that a name belongs to.
    pub(crate) fn index_of(&self, name: &[u8]) -> u8 {
        let number = number_behind(name).unwrap_or(self.plain);
        let found = DatabaseIndex::all().find(|index| self.number(*index) == number);
        found.map_or(number, DatabaseIndex::index)
    }

    /// Notes that a client uses a database.
    pub(crate) fn uses(&self, database: DatabaseIndex) {
        let number = self.space(database).number;
        self.used.fetch_or(1 << number, Ordering::Relaxed);
    }

    /// Whether a database other than this one may have keys. After a start with keys on flash, only what clients have
    /// chosen since then is known.
    pub(crate) fn are_others_used(&self, space: KeySpace) -> bool {
        self.used.load(Ordering::Relaxed) & !(1 << space.number) != 0
    }

    /// Swaps the keys of two databases. A request that runs at the same time may find either of them.
    pub(crate) fn swap(&self, one: DatabaseIndex, other: DatabaseIndex) {
        let _alone = self.swapping.lock().unwrap_or_else(PoisonError::into_inner);
        let (first, second) = (self.number(one), self.number(other));
        self.numbers[usize::from(one.0)].store(second, Ordering::Relaxed);
        self.numbers[usize::from(other.0)].store(first, Ordering::Relaxed);
    }

    /// Keeps what a count of names has found.
    pub(crate) fn has_counted(&self, count_of: impl Fn(KeySpace) -> u64) {
        for (number, count) in (0..DATABASES).zip(&self.counts) {
            let space = KeySpace { number, is_plain: number == self.plain };
            count.store(count_of(space), Ordering::Relaxed);
        }
    }

    /// Keys of a database when they were counted last.
    pub(crate) fn counted(&self, database: DatabaseIndex) -> u64 {
        self.counts[usize::from(self.number(database))].load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(space: KeySpace, key: &[u8]) -> Vec<u8> {
        let mut name = Vec::new();
        space.append_name(key, &mut name);
        name
    }

    proptest! {
        #[test]
        fn no_two_keys_have_the_same_name(
            keys in prop::collection::vec((
                prop_oneof![
                    prop::collection::vec(any::<u8>(), 0..6),
                    prop::collection::vec(prop_oneof![Just(0xff_u8), Just(0xdb), 0..17_u8], 0..9),
                ],
                0..i64::from(DATABASES),
            ), 2),
            plain in 0..DATABASES,
        ) {
            let databases = Databases::new(plain);
            let named = |(key, index): &(Vec<u8>, i64)| {
                let space = databases.space(DatabaseIndex::of(*index).unwrap());
                (name(space, key), space)
            };
            let [one, other] = [named(&keys[0]), named(&keys[1])];
            prop_assert_eq!(keys[0] == keys[1], one.0 == other.0);
            prop_assert_eq!(one.1.key_of(&one.0), Some(&*keys[0].0));
            prop_assert_eq!(key_in(&one.0), &*keys[0].0);
            if keys[0].1 != keys[1].1 {
                prop_assert_eq!(other.1.key_of(&one.0), None);
            }
        }
    }

    #[test]
    fn a_swap_exchanges_the_names_of_two_databases() {
        let databases = Databases::new(0);
        let [first, third] = [0, 2].map(|index| DatabaseIndex::of(index).unwrap());
        let before = [first, third].map(|index| name(databases.space(index), b"bread"));
        assert_eq!(before[0], *b"bread");
        databases.swap(first, third);
        let after = [first, third].map(|index| name(databases.space(index), b"bread"));
        assert_eq!((&after[0], &after[1]), (&before[1], &before[0]));
        assert_eq!(DatabaseIndex::of(16), None);
        assert_eq!(DatabaseIndex::of(-1), None);
    }

    #[test]
    fn a_database_is_alone_until_a_client_chooses_another() {
        let databases = Databases::new(3);
        let [third, fourth] = [3, 4].map(|index| DatabaseIndex::of(index).unwrap());
        assert!(!databases.are_others_used(databases.space(third)));
        assert!(
            databases.are_others_used(databases.space(fourth)),
            "memcached's clients choose none"
        );
        databases.uses(fourth);
        assert!(databases.are_others_used(databases.space(third)));
    }
}
