//! Hashes: fields with values, sorted by field.

use super::kind::{Damaged, Kind, Shape};
use super::table::{Encoded, Plan, Table};

/// The strings of a member: field and value.
const STEP: usize = 2;

/// Hashes, as a type.
pub(crate) enum Hash {}

/// The bytes of a hash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HashView<'a>(Table<'a>);

impl Shape for Hash {
    const KIND: Kind = Kind::Hash;
    type View<'a> = HashView<'a>;

    fn parse(bytes: &[u8]) -> Result<HashView<'_>, Damaged> {
        Table::of(bytes, Self::KIND, STEP).map(HashView)
    }

    fn empty<'a>() -> HashView<'a> {
        HashView(Table::EMPTY)
    }

    fn len(view: HashView<'_>) -> usize {
        view.len()
    }
}

impl<'a> HashView<'a> {
    /// Number of fields.
    pub(crate) fn len(&self) -> usize {
        self.0.len() / STEP
    }

    /// The field at `at` and its value, by the order of fields.
    pub(crate) fn at(&self, at: usize) -> (&'a [u8], &'a [u8]) {
        (self.0.get(STEP * at), self.0.get(STEP * at + 1))
    }

    /// The value of a field.
    pub(crate) fn get(&self, field: &[u8]) -> Option<&'a [u8]> {
        self.0.find(field, STEP).ok().map(|at| self.at(at).1)
    }

    /// All fields with their values, sorted by field.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let hash = *self;
        (0..self.len()).map(move |at| hash.at(at))
    }

    /// The hash with other values of these fields; `None` removes a field. The last change of a field counts.
    pub(crate) fn with(&self, changes: &[(&[u8], Option<&[u8]>)]) -> Encoded {
        let mut sorted: Vec<_> = changes.iter().enumerate().collect();
        sorted.sort_unstable_by(|(at, (field, _)), (other, (next, _))| {
            field.cmp(next).then(other.cmp(at))
        });
        sorted.dedup_by(|next, first| next.1.0 == first.1.0);
        let (mut plan, mut done) = (Plan::default(), 0);
        for (_, (field, value)) in sorted {
            let (at, behind) = match self.0.find(field, STEP) {
                Ok(at) => (at, at + 1),
                Err(at) => (at, at),
            };
            plan.keep(STEP * done..STEP * at.max(done));
            if let Some(value) = value {
                plan.add(field);
                plan.add(value);
            }
            done = behind.max(done);
        }
        plan.keep(STEP * done..self.0.len());
        plan.write((Kind::Hash, STEP), self.0, &[])
    }
}
