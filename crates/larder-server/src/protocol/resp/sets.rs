//! Commands of one set, and `SMOVE`. Those that compute with several sets are in `set_algebra.rs`.

use super::collection::{Edit, LOOKUPS_A_UNIT, amend, copied, read, steps};
use super::command::Does;
use super::context::Context;
use super::events;
use super::parse::Arguments;
use super::random::{self, Wanted};
use super::set_algebra;
use super::walk;
use super::write::{Outcome, Refusal, SYNTAX};
use crate::collections::{Set, SetView};

/// Runs a command of sets.
pub(super) async fn run(cx: &mut Context<'_>, does: Does, argv: Arguments<'_>) -> Outcome {
    match does {
        Does::Sadd => add(cx, argv).await,
        Does::Srem => remove(cx, argv).await,
        Does::Sismember => {
            read::<Set, _>(cx, argv.get(1), |set, out| {
                out.integer(i64::from(set.has(argv.get(2))));
            })
            .await
        }
        Does::Smismember => have(cx, argv).await,
        Does::Smembers => {
            read::<Set, _>(cx, argv.get(1), |set, out| {
                out.set(set.len());
                set.iter().for_each(|member| out.bulk(member));
            })
            .await
        }
        Does::Scard => read::<Set, _>(cx, argv.get(1), |set, out| out.count(set.len())).await,
        Does::Spop => pop(cx, argv).await,
        Does::Srandmember => random_members(cx, argv).await,
        Does::Sscan => walk::sscan(cx, argv).await,
        Does::Smove => transfer(cx, argv).await,
        _ => set_algebra::run(cx, does, argv).await,
    }
}

/// `SADD`.
async fn add(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let mut added = 0;
    for step in steps(argv, 2, 1) {
        cx.caller.work.does(step.len() / LOOKUPS_A_UNIT);
        let members: Vec<_> = step.map(|at| argv.get(at)).collect();
        added += amend::<Set, _>(cx, argv.get(1), |set| Ok(with(set, &members))).await?;
        cx.caller.rests().await;
    }
    cx.out.count(added);
    Ok(())
}

/// The set with these members, and how many are new.
fn with(set: SetView<'_>, members: &[&[u8]]) -> (Edit, usize) {
    if members.iter().all(|member| set.has(member)) {
        return (Edit::Keep, 0);
    }
    let next = set.with(members.to_vec());
    let added = next.members() - set.len();
    (Edit::Store(next), added)
}

/// The set without these members, and how many were in it.
fn without(set: SetView<'_>, members: &[&[u8]]) -> (Edit, usize) {
    let mut places: Vec<_> = members.iter().filter_map(|member| set.place(member)).collect();
    places.sort_unstable();
    places.dedup();
    if places.is_empty() {
        return (Edit::Keep, 0);
    }
    (Edit::Store(set.without(&places)), places.len())
}

/// `SREM`.
async fn remove(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let mut removed = 0;
    for step in steps(argv, 2, 1) {
        cx.caller.work.does(step.len() / LOOKUPS_A_UNIT);
        let members: Vec<_> = step.map(|at| argv.get(at)).collect();
        removed += amend::<Set, _>(cx, argv.get(1), |set| Ok(without(set, &members))).await?;
        cx.caller.rests().await;
    }
    cx.out.count(removed);
    Ok(())
}

/// `SMISMEMBER`.
async fn have(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    cx.out.array(argv.len() - 2);
    for step in steps(argv, 2, 1) {
        cx.caller.work.does(step.len() / LOOKUPS_A_UNIT);
        read::<Set, _>(cx, argv.get(1), |set, out| {
            step.for_each(|at| out.integer(i64::from(set.has(argv.get(at)))));
        })
        .await?;
        cx.caller.rests().await;
    }
    Ok(())
}

/// `SPOP`.
async fn pop(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let out_of_range = Refusal::Says("ERR value is out of range, must be positive");
    let count = match argv.len() {
        2 => None,
        3 => {
            let count = super::number::integer(argv.get(2)).ok_or(out_of_range)?;
            let out_of_range = Refusal::Says("ERR value is out of range, must be positive");
            Some(usize::try_from(count).map_err(|_| out_of_range)?)
        }
        _ => return Err(SYNTAX),
    };
    let popped = amend::<Set, _>(cx, argv.get(1), |set| {
        let count = count.unwrap_or(1).min(set.len());
        if count == 0 {
            return Ok((Edit::Keep, Vec::new()));
        }
        let mut places = random::distinct(count, set.len());
        places.sort_unstable();
        let members: Vec<_> = places.iter().map(|at| set.at(*at).to_vec()).collect();
        Ok((Edit::Store(set.without(&places)), members))
    });
    let popped = popped.await?;
    match (count, popped.first()) {
        (None, Some(member)) => cx.out.bulk(member),
        (None, None) => cx.out.null(),
        (Some(_), _) => {
            cx.out.set(popped.len());
            popped.iter().for_each(|member| cx.out.bulk(member));
        }
    }
    Ok(())
}

/// `SRANDMEMBER`.
async fn random_members(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    if argv.len() == 2 {
        return read::<Set, _>(cx, argv.get(1), |set, out| match set.len() {
            0 => out.null(),
            members => out.bulk(set.at(fastrand::usize(..members))),
        })
        .await;
    }
    if argv.len() > 3 {
        return Err(SYNTAX);
    }
    let wanted = Wanted::of(argv.get(2))?;
    let copied = copied(cx, argv.get(1)).await?;
    let set = copied.view::<Set>()?;
    cx.out.array(wanted.count(set.len()));
    random::answer(cx, wanted, set.len(), |at, out| out.bulk(set.at(at))).await
}

/// `SMOVE`. The caller holds the turns of the tenants.
async fn transfer(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let (from, to, member) = (argv.get(1), argv.get(2), argv.get(3));
    let is_there = read::<Set, _>(cx, from, |set, _| (set.len(), set.has(member))).await?;
    if is_there.0 == 0 {
        cx.out.integer(0);
        return Ok(());
    }
    read::<Set, _>(cx, to, |_, _| ()).await?;
    if from == to || !is_there.1 {
        cx.out.integer(i64::from(is_there.1));
        return Ok(());
    }
    // Adds first: without room for the member it stays where it is.
    cx.client.event = events::SADD;
    amend::<Set, _>(cx, to, |set| Ok(with(set, &[member]))).await?;
    cx.client.event = events::SREM;
    let moved = amend::<Set, _>(cx, from, |set| Ok(without(set, &[member]))).await?;
    cx.out.count(moved);
    Ok(())
}
