//! `larder vssd swap`: which channels should exchange their contents, and the exchange.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use larder_blocks::VssdArray;
use larder_ssd::nand::{ChannelIndex, DieArray};
use larder_vssd::levelling::{PairRule, SwapRule, Trigger};
use larder_vssd::{Swap, channel_pairs};
use larder_workload::Error;
use serde::Serialize;

use super::image::{open, refused};
use super::output::{count, deliver, json_target};
use crate::args::SwapArgs;
use crate::bars;
use crate::ending::Ending;
use crate::interrupt::on_interrupt;

#[derive(Debug, Serialize)]
struct SwapReport {
    drive: u32,
    /// An exchange was in progress when the command began.
    resumed: bool,
    /// The choice of the pair rule, the worn channel first.
    chosen: Option<[u32; 2]>,
    /// Erases of a channel until its turn comes.
    gamma: Option<u64>,
    /// The turn has come.
    due: bool,
    /// Parts of blocks that this command moved.
    moved_parts: u64,
    moved_pages: u64,
    /// The exchange is complete.
    done: bool,
}

pub(super) fn run(arguments: &SwapArgs) -> Result<Ending, Error> {
    let json = json_target(&arguments.output)?;
    let (array, _) = open(&arguments.image)?;
    let Some(advice) = advice(&array, arguments.drive)? else {
        let fix = "`larder vssd wear` says which there are";
        return Err(Error::usage(format!("--drive {}: no such drive; {fix}", arguments.drive)));
    };
    let Advice { chosen, gamma, due, parts, dies, under_way } = advice;
    let mut swapped = SwapReport {
        drive: arguments.drive,
        resumed: under_way,
        chosen,
        gamma,
        due,
        moved_parts: 0,
        moved_pages: 0,
        done: !under_way,
    };
    let wanted = match arguments.channels[..] {
        [a, b] => Some([a, b]),
        _ => chosen,
    };
    let mut text = swapped.advise(wanted);
    if !arguments.yes {
        deliver(json, &text, &swapped)?;
        return Ok(Ending::Complete);
    }
    if arguments.back && !under_way {
        return Err(Error::usage("--back: no exchange is under way"));
    }
    begin(&array, arguments, wanted, dies, under_way)?;
    if !under_way && wanted.is_none() {
        deliver(json, &text, &swapped)?;
        return Ok(Ending::Complete);
    }
    let interrupted = exchange(&array, parts, &mut swapped)?;
    array.sync().map_err(|error| refused("image", &error))?;
    text += &format!(
        "{} parts of blocks moved, {} pages\n",
        swapped.moved_parts,
        count(swapped.moved_pages)
    );
    text += match (swapped.done, interrupted) {
        (true, _) => "done: nothing is being exchanged\n",
        (false, true) => {
            "not done: `larder vssd swap --yes` goes on, with --back it is taken back\n"
        }
        (false, false) => "not done: the dies are full; free a block and go on\n",
    };
    deliver(json, &text, &swapped)?;
    Ok(if interrupted { Ending::Interrupted } else { Ending::Complete })
}

struct Advice {
    chosen: Option<[u32; 2]>,
    gamma: Option<u64>,
    due: bool,
    /// Most parts that an exchange may have to move.
    parts: u64,
    dies: DieArray,
    under_way: bool,
}

/// The advice of the pair rule, as the lab uses it, for the channels of `drive`; `None` if there is no such drive.
fn advice(array: &VssdArray, drive: u32) -> Result<Option<Advice>, Error> {
    let advice = array.look(|array| {
        let raw = array.drive(drive)?;
        let geometry = raw.geometry();
        let units = array.channel_units(drive);
        let blocks =
            u64::from(geometry.blocks_per_die) * u64::from(geometry.array.dies_per_channel);
        let most = units.iter().map(|unit| unit.erases).max().unwrap_or(0);
        let rated = raw.rated_erases().map(|rated| u64::from(rated) * blocks);
        let trigger =
            rated.and_then(|rated| Trigger::channels(geometry.array.channels, rated, blocks).ok());
        let gamma = trigger.and_then(|trigger| trigger.threshold(most));
        // If drives last for ever, or not even for some migrations, we use the most erases since a turn as the
        // threshold.
        let busiest = units.iter().map(|unit| unit.since_turn).max().unwrap_or(0);
        let rule = PairRule { migration_erases: blocks };
        let chosen = rule.choose(&units, gamma.unwrap_or(busiest).max(busiest));
        let number = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Some(Advice {
            chosen: chosen.map(|(a, b)| [number(a), number(b)]),
            gamma,
            due: gamma.is_some_and(|gamma| busiest >= gamma),
            parts: 2 * blocks,
            dies: geometry.array,
            under_way: array.swap_under_way().is_some(),
        })
    });
    advice.map_err(|error| refused("swap", &error))
}

impl SwapReport {
    fn advise(&self, wanted: Option<[u32; 2]>) -> String {
        let mut text = String::new();
        if self.resumed {
            text += "an exchange is under way; --yes goes on with it, --back --yes takes it back\n";
        }
        text += &match self.chosen {
            Some([a, b]) => format!("the pair rule exchanges channels {a} and {b}\n"),
            None => {
                "the pair rule exchanges nothing: no pair gains more than it costs\n".to_owned()
            }
        };
        text += &match (self.gamma, self.due) {
            (Some(gamma), true) => {
                format!("its turn has come: {} erases since the last\n", count(gamma))
            }
            (Some(gamma), false) => {
                format!("its turn comes when a channel has erased {} blocks\n", count(gamma))
            }
            (None, _) => {
                "there are no turns: the endurance says nothing, or is too short for any\n"
                    .to_owned()
            }
        };
        if let (Some(wanted), false) = (wanted.filter(|_| wanted != self.chosen), self.resumed) {
            text += &format!("channels {} and {} were asked for\n", wanted[0], wanted[1]);
        }
        text
    }
}

fn begin(
    array: &VssdArray,
    arguments: &SwapArgs,
    wanted: Option<[u32; 2]>,
    dies: DieArray,
    under_way: bool,
) -> Result<(), Error> {
    if arguments.back {
        return array.swap_abandon().map_err(|error| refused("--back", &error));
    }
    if under_way {
        return match arguments.channels[..] {
            [] => Ok(()),
            _ => Err(Error::run(
                "--channels: an exchange is under way; end it first, or take it back",
            )),
        };
    }
    let Some([a, b]) = wanted else { return Ok(()) };
    let pairs = channel_pairs(dies, ChannelIndex(a), ChannelIndex(b), None);
    let pairs = pairs.map_err(|error| Error::usage(format!("--channels {a},{b}: {error}")))?;
    let begun = array.swap_begin(arguments.drive, &pairs);
    begun.map_err(|error| refused(&format!("--channels {a},{b}"), &error))
}

/// Moves until nothing is left, no die has room, or the user interrupts; returns whether it was interrupted.
fn exchange(array: &VssdArray, parts: u64, swapped: &mut SwapReport) -> Result<bool, Error> {
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    on_interrupt(move || asked.swap(true, Ordering::Relaxed))?;
    let moved = AtomicU64::new(0);
    #[allow(clippy::cast_precision_loss)]
    let share = || {
        let moved = moved.load(Ordering::Relaxed);
        (moved as f64 / parts.max(1) as f64, format!("{moved} parts of blocks"))
    };
    swapped.done = false;
    let mut work = || {
        while !stop.load(Ordering::Relaxed) {
            match array.swap_step().map_err(|error| refused("swap", &error))? {
                Swap::Moved { pages, .. } => {
                    swapped.moved_parts += 1;
                    swapped.moved_pages += u64::from(pages);
                    moved.store(swapped.moved_parts, Ordering::Relaxed);
                }
                ended @ (Swap::Done | Swap::Waiting) => {
                    swapped.done = ended == Swap::Done;
                    return Ok(false);
                }
            }
        }
        Ok(true)
    };
    bars::watch_share("exchange", &share, &mut work)
}
