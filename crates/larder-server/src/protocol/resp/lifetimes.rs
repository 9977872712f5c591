//! Requests that change the lifetime of a value.

use larder::{Change, Value};

use super::command::Does;
use super::context::{Context, gone, shown};
use super::expiry::{self, Unit};
use super::parse::Arguments;
use super::write::{Outcome, Refusal};

/// Conditions on the current lifetime.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LifetimeCondition {
    has_none: bool,
    has_one: bool,
    is_later: bool,
    is_earlier: bool,
}

impl LifetimeCondition {
    /// The condition that these words say.
    pub(super) fn of<'a>(words: impl Iterator<Item = &'a [u8]>) -> Result<Self, Refusal> {
        let mut only_if = Self::default();
        for option in words {
            match &*option.to_ascii_uppercase() {
                b"NX" => only_if.has_none = true,
                b"XX" => only_if.has_one = true,
                b"GT" => only_if.is_later = true,
                b"LT" => only_if.is_earlier = true,
                _ => {
                    let option = shown(option);
                    return Err(Refusal::Said(format!("ERR Unsupported option {option}")));
                }
            }
        }
        let Self { has_none, has_one, is_later, is_earlier } = only_if;
        if has_none && (has_one || is_later || is_earlier) {
            let text = "ERR NX and XX, GT or LT options at the same time are not compatible";
            return Err(Refusal::Says(text));
        }
        if is_later && is_earlier {
            return Err(Refusal::Says("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(only_if)
    }

    /// Whether a value that expires at `old` may expire at `new`. `None` is the longest lifetime.
    pub(super) fn holds(self, old: Option<i64>, new: i64) -> bool {
        let old = old.unwrap_or(i64::MAX);
        !(self.has_none && old != i64::MAX
            || self.has_one && old == i64::MAX
            || self.is_later && new <= old
            || self.is_earlier && new >= old)
    }
}

/// `EXPIRE`, `PEXPIRE`, `EXPIREAT`, `PEXPIREAT`.
pub(super) async fn expire(cx: &mut Context<'_>, argv: Arguments<'_>, does: Does) -> Outcome {
    let (unit, name): (Unit, _) = match does {
        Does::Expire => (expiry::EX, "expire"),
        Does::Pexpire => (expiry::PX, "pexpire"),
        Does::Expireat => (expiry::EXAT, "expireat"),
        _ => (expiry::PXAT, "pexpireat"),
    };
    let key = argv.get(1);
    let only_if = LifetimeCondition::of(argv.from(3))?;
    let moment = cx.cache(key).moment(key);
    let at = unit.at(argv.get(2), moment.wall(), name)?;
    touch(cx, key, |current| {
        let old = current.meta().expires_at.map(|end| moment.wall_time_of(end));
        let holds = only_if.holds(old.map(expiry::millis_of), at);
        holds.then(|| {
            expiry::until(at, moment.wall()).map_or_else(gone, |ttl| Change::Touch(Some(ttl)))
        })
    })
    .await
}

/// `PERSIST`.
pub(super) async fn persist(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    touch(cx, argv.get(1), |current| current.meta().expires_at.map(|_| Change::Touch(None))).await
}

/// Applies `touch` to the value, and answers whether there was something to change.
async fn touch(
    cx: &mut Context<'_>,
    key: &[u8],
    touch: impl Fn(&Value) -> Option<Change<'static>>,
) -> Outcome {
    let mut touched = false;
    let before = cx.change(key, |current| {
        let change = current.and_then(&touch);
        touched = change.is_some();
        change.unwrap_or(Change::Keep)
    });
    let hit = before.await?.is_some();
    cx.caller.worker.counters.count_touch(hit);
    cx.out.integer(i64::from(touched));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions() {
        let none = LifetimeCondition::default();
        let some = Some(1000);
        assert!(none.holds(None, 5) && none.holds(some, 5));
        let nx = LifetimeCondition { has_none: true, ..none };
        assert!(nx.holds(None, 5) && !nx.holds(some, 5));
        let xx = LifetimeCondition { has_one: true, ..none };
        assert!(!xx.holds(None, 5) && xx.holds(some, 5));
        let gt = LifetimeCondition { is_later: true, ..none };
        assert!(!gt.holds(None, 5) && gt.holds(some, 1001) && !gt.holds(some, 1000));
        let lt = LifetimeCondition { is_earlier: true, ..none };
        assert!(lt.holds(None, 5) && lt.holds(some, 999) && !lt.holds(some, 1000));
    }
}
