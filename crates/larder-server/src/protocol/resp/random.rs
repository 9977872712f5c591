//! Random members of a collection, as `HRANDFIELD`, `SRANDMEMBER` and `ZRANDMEMBER` answer them.

use super::collection::LongAnswer;
use super::context::Context;
use super::number;
use super::write::{NO_INTEGER, Refusal, Writer};

/// How many random members a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// No member twice.
    Distinct(usize),
    /// Each drawn anew.
    Any(usize),
}

impl Wanted {
    /// A count of a request: a negative one allows repeats.
    pub(super) fn of(text: &[u8]) -> Result<Self, Refusal> {
        let count = number::integer(text).ok_or(NO_INTEGER)?;
        if !(-i64::MAX / 2..=i64::MAX / 2).contains(&count) {
            return Err(Refusal::Says("ERR value is out of range"));
        }
        let number = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
        Ok(if count < 0 { Self::Any(number) } else { Self::Distinct(number) })
    }

    /// How many members of `there` are answered.
    pub(super) fn count(self, there: usize) -> usize {
        match self {
            Self::Distinct(count) => count.min(there),
            Self::Any(_) if there == 0 => 0,
            Self::Any(count) => count,
        }
    }
}

/// Different places below `there`, in random order.
pub(super) fn distinct(count: usize, there: usize) -> Vec<usize> {
    let mut places = fastrand::choose_multiple(0..there, count);
    fastrand::shuffle(&mut places);
    places
}

/// Writes random members of `there`, each by `write`, which gets its place.
pub(super) async fn answer(
    cx: &mut Context<'_>,
    wanted: Wanted,
    there: usize,
    write: impl Fn(usize, &mut Writer<'_>),
) -> Result<(), Refusal> {
    let mut answer = LongAnswer::begin(cx);
    match wanted {
        Wanted::Distinct(count) => {
            for place in distinct(count.min(there), there) {
                write(place, &mut cx.out);
                answer.goes_on(cx).await?;
            }
        }
        Wanted::Any(_) => {
            for _ in 0..wanted.count(there) {
                write(fastrand::usize(..there), &mut cx.out);
                answer.goes_on(cx).await?;
            }
        }
    }
    Ok(())
}
