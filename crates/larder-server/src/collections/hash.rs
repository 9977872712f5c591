//! Hashes: fields with values, sorted by field. A field may expire.

use super::kind::{Damaged, Kind};
use super::shape::Shape;
use super::table::{Encoded, Plan, Table};

/// The strings of a member: field and value.
const STEP: usize = 2;

/// Hashes, as a type.
pub(crate) enum Hash {}

/// The bytes of a hash. What has expired is among its fields until the hash is changed: see
/// [`Shape::without_expired`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct HashView<'a> {
    table: Table<'a>,
    /// For each field, when it expires; empty: none does.
    times: &'a [[u8; 8]],
}

/// When a field expires, in milliseconds since 1970.
pub(crate) type ExpiryMs = u64;

/// What a field is to have.
#[derive(Clone, Copy, Debug)]
struct Next<'a> {
    value: &'a [u8],
    expires: Option<ExpiryMs>,
}

impl Shape for Hash {
    const KIND: Kind = Kind::Hash;
    type View<'a> = HashView<'a>;

    fn parse(bytes: &[u8]) -> Result<HashView<'_>, Damaged> {
        Table::of(bytes, Self::KIND, STEP).map(|(table, times)| HashView { table, times })
    }

    fn empty<'a>() -> HashView<'a> {
        HashView { table: Table::EMPTY, times: &[] }
    }

    fn len(view: HashView<'_>) -> usize {
        view.len()
    }

    fn without_expired(view: HashView<'_>, now: impl FnOnce() -> ExpiryMs) -> Option<Encoded> {
        if view.times.is_empty() {
            return None;
        }
        let now = now();
        view.has_expired(now).then(|| view.without_expired(now))
    }
}

impl<'a> HashView<'a> {
    /// Number of fields.
    pub(crate) fn len(&self) -> usize {
        self.table.len() / STEP
    }

    /// The field at `at` and its value, by the order of fields.
    pub(crate) fn at(&self, at: usize) -> (&'a [u8], &'a [u8]) {
        (self.table.get(STEP * at), self.table.get(STEP * at + 1))
    }

    /// Where a field is, by the order of fields.
    pub(crate) fn place(&self, field: &[u8]) -> Option<usize> {
        self.table.find(field, STEP).ok()
    }

    /// The value of a field.
    pub(crate) fn get(&self, field: &[u8]) -> Option<&'a [u8]> {
        self.place(field).map(|at| self.at(at).1)
    }

    /// The value of a field that has not expired.
    pub(crate) fn get_alive(&self, field: &[u8], now: ExpiryMs) -> Option<&'a [u8]> {
        let at = self.place(field)?;
        (!self.is_over(at, now)).then(|| self.at(at).1)
    }

    /// When the field at `at` expires; `None`: it does not.
    pub(crate) fn expiry(&self, at: usize) -> Option<ExpiryMs> {
        self.times.get(at).map(|time| u64::from_le_bytes(*time)).filter(|time| *time > 0)
    }

    /// All fields with their values, sorted by field.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let hash = *self;
        (0..self.len()).map(move |at| hash.at(at))
    }

    /// The hash with other values of these fields, which do not expire; `None` removes a field. The last change of a
    /// field counts.
    pub(crate) fn with(&self, changes: &[(&[u8], Option<&[u8]>)]) -> Encoded {
        let next = |value| Next { value, expires: None };
        let changes = changes.iter().map(|(field, value)| (*field, value.map(next)));
        self.changed(changes.collect())
    }

    /// The hash with these values, in fields that expire when they did before.
    pub(crate) fn with_values<'v>(
        &self,
        pairs: impl Iterator<Item = (&'v [u8], &'v [u8])>,
    ) -> Encoded {
        let expiry = |field| self.place(field).and_then(|at| self.expiry(at));
        self.with_fields(pairs.map(|(field, value)| (field, value, expiry(field))))
    }

    /// The hash with these values, in fields that all expire then.
    pub(crate) fn with_expiring<'v>(
        &self,
        pairs: impl Iterator<Item = (&'v [u8], &'v [u8])>,
        expires: Option<ExpiryMs>,
    ) -> Encoded {
        self.with_fields(pairs.map(|(field, value)| (field, value, expires)))
    }

    /// The hash with these fields, values, and times at which each field expires.
    pub(crate) fn with_fields<'v>(
        &self,
        fields: impl Iterator<Item = (&'v [u8], &'v [u8], Option<ExpiryMs>)>,
    ) -> Encoded {
        let changes = fields.map(|(field, value, expires)| (field, Some(Next { value, expires })));
        self.changed(changes.collect())
    }

    /// The hash whose fields at these places expire at another time, or never.
    pub(crate) fn with_expiries(&self, changes: &[(usize, Option<ExpiryMs>)]) -> Encoded {
        let mut times: Vec<_> = (0..self.len()).map(|at| self.expiry(at)).collect();
        for (at, expires) in changes {
            if let Some(time) = times.get_mut(*at) {
                *time = *expires;
            }
        }
        let mut plan = Plan::default();
        plan.keep(0..self.table.len());
        self.write(&plan, &times)
    }

    fn has_expired(&self, now: ExpiryMs) -> bool {
        (0..self.len()).any(|at| self.is_over(at, now))
    }

    fn is_over(&self, at: usize, now: ExpiryMs) -> bool {
        self.expiry(at).is_some_and(|expires| expires <= now)
    }

    fn without_expired(&self, now: ExpiryMs) -> Encoded {
        let (mut plan, mut times) = (Plan::default(), Vec::with_capacity(self.len()));
        for at in (0..self.len()).filter(|at| !self.is_over(*at, now)) {
            plan.keep(STEP * at..STEP * (at + 1));
            times.push(self.expiry(at));
        }
        self.write(&plan, &times)
    }

    fn changed(&self, changes: Vec<(&[u8], Option<Next<'_>>)>) -> Encoded {
        let mut sorted: Vec<_> = changes.into_iter().enumerate().collect();
        sorted.sort_unstable_by(|(at, (field, _)), (other, (next, _))| {
            field.cmp(next).then(other.cmp(at))
        });
        sorted.dedup_by(|next, first| next.1.0 == first.1.0);
        let has_times = !self.times.is_empty()
            || sorted.iter().any(|(_, (_, next))| next.is_some_and(|it| it.expires.is_some()));
        let (mut plan, mut times, mut done) = (Plan::default(), Vec::new(), 0);
        for (_, (field, next)) in sorted {
            let (at, behind) = match self.table.find(field, STEP) {
                Ok(at) => (at, at + 1),
                Err(at) => (at, at),
            };
            plan.keep(STEP * done..STEP * at.max(done));
            if has_times {
                times.extend((done..at.max(done)).map(|at| self.expiry(at)));
            }
            if let Some(next) = next {
                plan.add(field);
                plan.add(next.value);
                if has_times {
                    times.push(next.expires);
                }
            }
            done = behind.max(done);
        }
        plan.keep(STEP * done..self.table.len());
        if has_times {
            times.extend((done..self.len()).map(|at| self.expiry(at)));
        }
        self.write(&plan, &times)
    }

    /// `times`: for each field, or none at all.
    fn write(&self, plan: &Plan<'_>, times: &[Option<ExpiryMs>]) -> Encoded {
        let middle: Vec<u8> = match times.iter().any(Option::is_some) {
            true => times.iter().flat_map(|time| time.unwrap_or(0).to_le_bytes()).collect(),
            false => Vec::new(),
        };
        plan.write((Kind::Hash, STEP), self.table, &middle)
    }
}
