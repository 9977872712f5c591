//! `PFADD`, `PFCOUNT`, `PFMERGE`. A sketch is a string.

use super::amend::amend;
use super::collection::{Copied, WRONG_TYPE, copied, read_string};
use super::command::Does;
use super::context::Context;
use super::parse::Arguments;
use super::write::{Outcome, Refusal};
use crate::collections::ItemKind;
use crate::sketch::{NoSketch, Sketch};

impl From<NoSketch> for Refusal {
    fn from(why: NoSketch) -> Self {
        Self::Says(match why {
            NoSketch::Other => "WRONGTYPE Key is not a valid HyperLogLog string value.",
            NoSketch::Damaged => "INVALIDOBJ Corrupted HLL object detected",
        })
    }
}

/// Units of work to read a sketch.
const SKETCH_UNITS: usize = 32;

/// Runs a command of sketches.
pub(super) async fn run(cx: &mut Context<'_>, does: Does, argv: Arguments<'_>) -> Outcome {
    match does {
        Does::Pfadd => add(cx, argv).await,
        Does::Pfcount => count(cx, argv).await,
        _ => merge(cx, argv).await,
    }
}

/// `PFADD`.
async fn add(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let mut members = Sketch::empty();
    for member in argv.from(2) {
        members.add(member);
        cx.rests_behind(member).await;
    }
    let mut is_changed = false;
    amend(cx, argv.get(1), |current| {
        let Some(bytes) = current else {
            is_changed = true;
            return Ok(members.clone().into_bytes());
        };
        let mut sketch = Sketch::parse(bytes)?;
        let before = sketch.clone();
        sketch.merge(&members);
        is_changed = sketch != before;
        Ok(if is_changed { sketch.into_bytes() } else { bytes.to_vec() })
    })
    .await?;
    cx.caller.work.does(2 * SKETCH_UNITS);
    cx.out.integer(i64::from(is_changed));
    Ok(())
}

fn sketch_of(copied: &Copied) -> Result<Option<Sketch>, Refusal> {
    match copied.kind() {
        None => Ok(None),
        Some(ItemKind::String) => Ok(Some(Sketch::parse(copied.bytes())?)),
        Some(_) => Err(WRONG_TYPE),
    }
}

/// The sketches of these keys together.
async fn together<'k>(
    cx: &mut Context<'_>,
    keys: impl Iterator<Item = &'k [u8]>,
) -> Result<Sketch, Refusal> {
    let mut all = Sketch::empty();
    for key in keys {
        if let Some(sketch) = sketch_of(&copied(cx, key).await?)? {
            all.merge(&sketch);
        }
        cx.caller.work.does(SKETCH_UNITS);
        cx.caller.rests().await;
    }
    Ok(all)
}

/// `PFCOUNT`. The caller holds the turns of the tenants if there are several keys.
async fn count(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let count = if argv.len() == 2 {
        let mut counted = Ok(0);
        read_string(cx, argv.get(1), |value, _| {
            if !value.is_empty() {
                counted = Sketch::parse(value).map(|sketch| sketch.count());
            }
        })
        .await?;
        counted?
    } else {
        together(cx, argv.from(1)).await?.count()
    };
    cx.caller.work.does(SKETCH_UNITS);
    cx.out.integer(i64::try_from(count).unwrap_or(i64::MAX));
    Ok(())
}

/// `PFMERGE`. The caller holds the turns of the tenants.
async fn merge(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let others = together(cx, argv.from(2)).await?;
    amend(cx, argv.get(1), |current| {
        let mut all = current.map_or(Ok(Sketch::empty()), Sketch::parse)?;
        all.merge(&others);
        Ok(all.into_bytes())
    })
    .await?;
    cx.out.ok();
    Ok(())
}
