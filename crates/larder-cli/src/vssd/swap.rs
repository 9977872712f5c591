//! `larder vssd swap`: which channels should exchange their contents, and the exchange.
//!
//! The command does it at once on an image that is not in use. Otherwise it asks the process that has the image, whose
//! levelling does it beside its tenants.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use larder_blocks::VssdArray;
#[cfg(target_os = "linux")]
use larder_blocks::vssd::Levelling;
use larder_ssd::nand::{ChannelIndex, DieArray};
use larder_vssd::levelling::{PairRule, SwapRule, Trigger};
use larder_vssd::{Swap, channel_pairs};
use larder_workload::Error;
use serde::Serialize;

use super::image::{Reached, carry_out, reach, refused};
use super::output::{count, deliver, json_target};
use super::question::Question;
use crate::args::SwapArgs;
use crate::bars;
use crate::ending::Ending;
use crate::interrupt::on_interrupt;

#[derive(Debug, Serialize)]
pub(super) struct SwapReport {
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
    /// Another process has the image, and carries out what was asked for at its pace.
    in_use: bool,
}

/// What was asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) drive: u32,
    pub(super) channels: Option<[u32; 2]>,
    pub(super) back: bool,
    pub(super) yes: bool,
}

/// The result of a pause, or of its end.
#[derive(Debug, Serialize)]
pub(super) struct Paused {
    paused: bool,
}

impl Asked {
    fn of(arguments: &SwapArgs) -> Result<Self, Error> {
        let channels = match arguments.channels[..] {
            [] => None,
            [a, b] => Some([a, b]),
            _ => {
                let named = arguments.channels.iter().map(u32::to_string).collect::<Vec<_>>();
                let named = named.join(",");
                return Err(Error::usage(format!("--channels {named}: name two, as in 0,3")));
            }
        };
        let SwapArgs { drive, back, yes, .. } = *arguments;
        Ok(Self { drive, channels, back, yes })
    }

    fn question(&self) -> Question {
        let Self { drive, channels, back, yes } = *self;
        Question::Swap { drive, channels, back, yes }
    }

    fn wanted(&self, chosen: Option<[u32; 2]>) -> Option<[u32; 2]> {
        self.channels.or(chosen)
    }
}

pub(super) fn run(arguments: &SwapArgs) -> Result<Ending, Error> {
    let json = json_target(&arguments.output)?;
    if arguments.pause || arguments.resume {
        let paused = arguments.pause;
        let question = Question::Pause { paused };
        return carry_out((&arguments.image, true), &question, json, |array| pause(array, paused));
    }
    let asked = Asked::of(arguments)?;
    let array = match reach(&arguments.image, true, &asked.question())? {
        Reached::Array(array) => array,
        Reached::Owner(text, result) => {
            deliver(json, &text, &result)?;
            return Ok(Ending::Complete);
        }
    };
    let (mut swapped, advice) = SwapReport::advised(&array, &asked)?;
    let Advice { parts, dies, under_way, .. } = advice;
    let wanted = asked.wanted(swapped.chosen);
    let mut text = swapped.advise(wanted);
    if !arguments.yes {
        deliver(json, &text, &swapped)?;
        return Ok(Ending::Complete);
    }
    begin(&array, &asked, wanted, dies, under_way)?;
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

/// Pauses levelling or ends the pause.
pub(super) fn pause(array: &VssdArray, paused: bool) -> Result<(String, Paused), Error> {
    array.pause_levelling(paused).map_err(|error| refused("levelling", &error))?;
    array.sync().map_err(|error| refused("image", &error))?;
    let text = match paused {
        true => "levelling is paused; `larder vssd swap --resume` lets it go on\n",
        false => "levelling goes on\n",
    };
    Ok((text.to_owned(), Paused { paused }))
}

/// Advice and exchange in the process that has the image: the exchange goes on in its levelling.
#[cfg(target_os = "linux")]
pub(super) fn in_service(
    array: &VssdArray,
    levelling: Option<&Levelling>,
    asked: &Asked,
) -> Result<(String, SwapReport), Error> {
    let (mut swapped, Advice { under_way, .. }) = SwapReport::advised(array, asked)?;
    swapped.in_use = true;
    let wanted = asked.wanted(swapped.chosen);
    let text = swapped.advise(wanted);
    if !asked.yes {
        return Ok((text, swapped));
    }
    let Some(levelling) = levelling else {
        let why =
            "--yes: the process that has the image runs with --no-levelling; start it without";
        return Err(Error::run(why));
    };
    let then = match (asked.back, under_way, wanted) {
        (true, ..) => {
            levelling.take_back().map_err(|error| refused("--back", &error))?;
            "it is taken back"
        }
        (false, true, _) if asked.channels.is_some() => return Err(under_way_already()),
        (false, true, _) => "it goes on",
        (false, false, None) => return Ok((text, swapped)),
        (false, false, Some([a, b])) => {
            let begun = levelling.exchange(asked.drive, ChannelIndex(a), ChannelIndex(b));
            begun.map_err(|error| refused(&format!("--channels {a},{b}"), &error))?;
            swapped.done = false;
            "it has begun"
        }
    };
    let text = format!(
        "{text}{then}, in the process that has the image and at its pace; `larder vssd wear` shows how far it is\n"
    );
    Ok((text, swapped))
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
    // This counts the erases up to now.
    array.levelling_report().map_err(|error| refused("swap", &error))?;
    let advice = array.look(|array| {
        let raw = array.drive(drive)?;
        let geometry = raw.geometry();
        // The known rates reach further back than the last exchange.
        let known = array.levelled_channels(drive);
        let units = match known.iter().all(|unit| unit.rate.is_some()) {
            true => known,
            false => array.channel_units(drive),
        };
        let blocks =
            u64::from(geometry.blocks_per_die) * u64::from(geometry.array.dies_per_channel);
        let most = units.iter().map(|unit| unit.erases).max().unwrap_or(0);
        let rated = raw.rated_erases().map(|rated| u64::from(rated) * blocks);
        let chosen = array.levelling(drive).and_then(|state| state.gamma);
        let chosen = chosen.zip(array.channel_budget(drive));
        let chosen = chosen.and_then(|(gamma, budget)| budget.trigger(gamma.blocks));
        let channels = geometry.array.channels;
        let trigger = chosen
            .or_else(|| rated.and_then(|rated| Trigger::channels(channels, rated, blocks).ok()));
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
    /// A report that says what the rule chooses, before anything is done.
    fn advised(array: &VssdArray, asked: &Asked) -> Result<(Self, Advice), Error> {
        let Some(advice) = advice(array, asked.drive)? else {
            let fix = "`larder vssd wear` says which there are";
            return Err(Error::usage(format!("--drive {}: no such drive; {fix}", asked.drive)));
        };
        if asked.back && !advice.under_way {
            return Err(Error::usage("--back: no exchange is under way"));
        }
        let report = Self {
            drive: asked.drive,
            resumed: advice.under_way,
            chosen: advice.chosen,
            gamma: advice.gamma,
            due: advice.due,
            moved_parts: 0,
            moved_pages: 0,
            done: !advice.under_way,
            in_use: false,
        };
        Ok((report, advice))
    }

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
    asked: &Asked,
    wanted: Option<[u32; 2]>,
    dies: DieArray,
    under_way: bool,
) -> Result<(), Error> {
    if asked.back {
        return array.swap_abandon().map_err(|error| refused("--back", &error));
    }
    if under_way {
        return match asked.channels {
            None => Ok(()),
            Some(_) => Err(under_way_already()),
        };
    }
    let Some([a, b]) = wanted else { return Ok(()) };
    let pairs = channel_pairs(dies, ChannelIndex(a), ChannelIndex(b), None);
    let pairs = pairs.map_err(|error| Error::usage(format!("--channels {a},{b}: {error}")))?;
    let begun = array.swap_begin(asked.drive, &pairs);
    begun.map_err(|error| refused(&format!("--channels {a},{b}"), &error))
}

fn under_way_already() -> Error {
    Error::run("--channels: an exchange is under way; end it first, or take it back")
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
