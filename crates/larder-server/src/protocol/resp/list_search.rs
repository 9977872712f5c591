//! `LPOS`: where a list has an element.

use super::collection::read;
use super::context::Context;
use super::number;
use super::parse::Arguments;
use super::write::{NO_INTEGER, Outcome, Refusal, SYNTAX};
use crate::collections::{List, ListView};

/// What `LPOS` looks for.
#[derive(Clone, Copy, Debug)]
struct Search<'a> {
    element: &'a [u8],
    /// Matches to leave out first.
    skipped: usize,
    from_tail: bool,
    /// Most matches to tell; `None`: one, which is told without an array.
    count: Option<usize>,
    /// Most elements to compare.
    looks: usize,
}

impl<'a> Search<'a> {
    fn of(argv: Arguments<'a>) -> Result<Self, Refusal> {
        let mut search = Self {
            element: argv.get(2),
            skipped: 0,
            from_tail: false,
            count: None,
            looks: usize::MAX,
        };
        let mut at = 3;
        while at < argv.len() {
            if at + 1 == argv.len() {
                return Err(SYNTAX);
            }
            let value = number::integer(argv.get(at + 1));
            let natural = |why| {
                let value = value.and_then(|value| usize::try_from(value).ok());
                let value = value.ok_or(Refusal::Says(why))?;
                Ok::<_, Refusal>(if value == 0 { usize::MAX } else { value })
            };
            match &*argv.get(at).to_ascii_uppercase() {
                b"RANK" => {
                    let rank = value.ok_or(NO_INTEGER)?;
                    if rank == 0 {
                        return Err(Refusal::Says(
                            "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... \
                             or use negative to start from the end of the list",
                        ));
                    }
                    if rank == i64::MIN {
                        return Err(Refusal::Says(
                            "ERR value is out of range, value must between \
                             -9223372036854775807 and 9223372036854775807",
                        ));
                    }
                    search.from_tail = rank < 0;
                    search.skipped = usize::try_from(rank.unsigned_abs() - 1).unwrap_or(usize::MAX);
                }
                b"COUNT" => search.count = Some(natural("ERR COUNT can't be negative")?),
                b"MAXLEN" => search.looks = natural("ERR MAXLEN can't be negative")?,
                _ => return Err(SYNTAX),
            }
            at += 2;
        }
        Ok(search)
    }

    /// The places, in the order of the search.
    fn run(&self, list: ListView<'_>) -> Vec<usize> {
        let all = 0..list.len();
        let fits = |at: &usize| list.at(*at) == self.element;
        let count = self.count.unwrap_or(1);
        match self.from_tail {
            true => {
                all.rev().take(self.looks).filter(fits).skip(self.skipped).take(count).collect()
            }
            false => all.take(self.looks).filter(fits).skip(self.skipped).take(count).collect(),
        }
    }
}

/// `LPOS`.
pub(super) async fn position(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let search = Search::of(argv)?;
    read::<List, _>(cx, argv.get(1), |list, out| {
        let places = search.run(list);
        match (search.count, places.first()) {
            (None, Some(at)) => out.count(*at),
            (None, None) => out.null(),
            (Some(_), _) => {
                out.array(places.len());
                places.iter().for_each(|at| out.count(*at));
            }
        }
    })
    .await
}
