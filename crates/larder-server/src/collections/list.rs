//! Lists: elements in the order in which clients put them.

use std::ops::Range;

use super::kind::{Damaged, Kind};
use super::shape::Shape;
use super::table::{Encoded, Plan, Table};

/// Lists, as a type.
pub(crate) enum List {}

/// The bytes of a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListView<'a>(Table<'a>);

impl Shape for List {
    const KIND: Kind = Kind::List;
    type View<'a> = ListView<'a>;

    fn parse(bytes: &[u8]) -> Result<ListView<'_>, Damaged> {
        Table::of(bytes, Self::KIND, 1).map(|(table, _)| ListView(table))
    }

    fn empty<'a>() -> ListView<'a> {
        ListView(Table::EMPTY)
    }

    fn len(view: ListView<'_>) -> usize {
        view.len()
    }
}

impl<'a> ListView<'a> {
    /// Number of elements.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The element at `at`, from the head.
    pub(crate) fn at(&self, at: usize) -> &'a [u8] {
        self.0.get(at)
    }

    /// All elements from the head.
    pub(crate) fn iter(
        &self,
    ) -> impl DoubleEndedIterator<Item = &'a [u8]> + ExactSizeIterator + use<'a> {
        self.0.iter()
    }

    /// The list with `elements`, in this order, in the place of the elements at `replaced`, which lies within the list.
    pub(crate) fn with<'n>(
        &self,
        replaced: Range<usize>,
        elements: impl Iterator<Item = &'n [u8]>,
    ) -> Encoded {
        let mut plan = Plan::default();
        plan.keep(0..replaced.start.min(self.len()));
        elements.for_each(|element| plan.add(element));
        plan.keep(replaced.end.min(self.len())..self.len());
        plan.write((Kind::List, 1), self.0, &[])
    }

    /// The list of some of its elements alone.
    pub(crate) fn part(&self, kept: Range<usize>) -> Encoded {
        let mut plan = Plan::default();
        plan.keep(kept.start.min(self.len())..kept.end.min(self.len()));
        plan.write((Kind::List, 1), self.0, &[])
    }

    /// The list without the elements at these places, which are sorted.
    pub(crate) fn without(&self, places: &[usize]) -> Encoded {
        let (mut plan, mut done) = (Plan::default(), 0);
        for at in places {
            plan.keep(done..(*at).max(done));
            done = (at + 1).max(done);
        }
        plan.keep(done..self.len());
        plan.write((Kind::List, 1), self.0, &[])
    }
}
