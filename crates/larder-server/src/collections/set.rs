//! Sets: members, sorted.

use super::kind::{Damaged, Kind};
use super::shape::Shape;
use super::table::{Encoded, Plan, Table};

/// Sets, as a type.
pub(crate) enum Set {}

/// The bytes of a set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SetView<'a>(Table<'a>);

impl Shape for Set {
    const KIND: Kind = Kind::Set;
    type View<'a> = SetView<'a>;

    fn parse(bytes: &[u8]) -> Result<SetView<'_>, Damaged> {
        Table::of(bytes, Self::KIND, 1).map(|(table, _)| SetView(table))
    }

    fn empty<'a>() -> SetView<'a> {
        SetView(Table::EMPTY)
    }

    fn len(view: SetView<'_>) -> usize {
        view.len()
    }
}

impl<'a> SetView<'a> {
    /// Number of members.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn has(&self, member: &[u8]) -> bool {
        self.0.find(member, 1).is_ok()
    }

    /// The member at `at`, by their order.
    pub(crate) fn at(&self, at: usize) -> &'a [u8] {
        self.0.get(at)
    }

    /// All members, sorted.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.0.iter()
    }

    /// The set with more members. They may be unsorted, and there already.
    pub(crate) fn with(&self, mut members: Vec<&[u8]>) -> Encoded {
        members.sort_unstable();
        members.dedup();
        let (mut plan, mut done) = (Plan::default(), 0);
        for member in members {
            if let Err(at) = self.0.find(member, 1) {
                plan.keep(done..at.max(done));
                plan.add(member);
                done = at.max(done);
            }
        }
        plan.keep(done..self.len());
        plan.write((Kind::Set, 1), self.0, &[])
    }

    /// The set without the members at these places, which are sorted.
    pub(crate) fn without(&self, places: &[usize]) -> Encoded {
        let (mut plan, mut done) = (Plan::default(), 0);
        for at in places {
            plan.keep(done..(*at).max(done));
            done = (at + 1).max(done);
        }
        plan.keep(done..self.len());
        plan.write((Kind::Set, 1), self.0, &[])
    }

    /// The place of a member.
    pub(crate) fn place(&self, member: &[u8]) -> Option<usize> {
        self.0.find(member, 1).ok()
    }
}
