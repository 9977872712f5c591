//! `larder vssd wear`: the wear of channels and dies, their tenants, and what levelling does about it.

use larder_blocks::VssdArray;
use larder_blocks::vssd::Levelling;
use larder_ssd::nand::ChannelIndex;
use larder_ssd::raw::RawSsd;
use larder_vssd::levelling::{Forecast, GammaSource, PausedBy};
use larder_vssd::service::{Cause, ChannelReport, DriveReport, ExchangeReport, ServiceReport};
use larder_vssd::{VssdId, VssdInfo};
use larder_workload::Error;
use serde::Serialize;

use super::image::{carry_out, refused};
use super::output::{count, human, json_target};
use super::question::Question;
use crate::args::LookArgs;
use crate::ending::Ending;

#[derive(Debug, Serialize)]
pub(super) struct Wear {
    drives: Vec<DriveWear>,
    /// The exchange in progress.
    exchange: Option<Exchange>,
    /// The exchange before, since the process that has the image started.
    last_exchange: Option<Exchange>,
}

#[derive(Debug, Serialize)]
struct DriveWear {
    drive: u32,
    /// Erases of all blocks together.
    erases: u64,
    /// Rated erases of all blocks together.
    rated_erases: Option<u64>,
    /// Erases of the most worn channel, divided by the mean of all; `null` before the first erase.
    imbalance: Option<f64>,
    channels: Vec<Channel>,
    levelling: LevellingWear,
}

#[derive(Debug, Serialize)]
struct Channel {
    channel: u32,
    erases: u64,
    /// Since the last exchange of channels or dies, without the erases of the exchange.
    erases_since_swap: u64,
    /// The share of its tenants in all erases, 0 to 1: the mean of the last turns, or since the last exchange.
    rate: Option<f64>,
    /// Erases by those that it is rated for, 0 to 1.
    of_endurance: Option<f64>,
    /// Erases for its tenants a day.
    rate_a_day: Option<f64>,
    /// Erases by the mean of all channels.
    by_mean: Option<f64>,
    /// Days until its turn.
    next_turn_days: Option<f64>,
    /// Of its erases, those that borrowers of its blocks have caused since the process that has the image started.
    lent_erases: u64,
    vssds: Vec<u32>,
    dies: Vec<DieWear>,
}

/// What levelling has done on a drive, and what it is good for.
#[derive(Debug, Serialize)]
struct LevellingWear {
    /// `operator` or `worn die`, if nothing is moved at present.
    paused: Option<&'static str>,
    /// Blocks that a channel erases until its turn.
    gamma: Option<u64>,
    /// `endurance`, `forecast` or `given`.
    gamma_from: Option<&'static str>,
    exchanges: u64,
    moved_bytes: u64,
    /// Erases for moves.
    spent_erases: u64,
    /// Their share in all erases, 0 to 1.
    spent_share: Option<f64>,
    /// Life from now on at these rates, with levelling and without.
    life: Option<Life>,
    life_without: Option<Life>,
    /// The life with other values of gamma.
    by_gamma: Vec<GammaLife>,
}

#[derive(Debug, Serialize)]
struct Life {
    /// Share of all erases that are left, 0 to 1.
    of_ideal: f64,
    days: Option<f64>,
    exchanges: u64,
}

#[derive(Debug, Serialize)]
struct GammaLife {
    gamma: u64,
    of_ideal: f64,
    exchanges: u64,
}

#[derive(Debug, Serialize)]
struct Exchange {
    drive: u32,
    channels: [u32; 2],
    /// `due`, `asked` or `resumed`.
    cause: &'static str,
    /// It was given up, and data goes back.
    back: bool,
    /// Share of its pages that are where they belong, 0 to 1.
    done: f64,
    copied_bytes: u64,
    spent_erases: u64,
    /// Present rate into each channel.
    bytes_per_s: u64,
    seconds: f64,
    /// Share of the seconds at less than the rate to begin with, 0 to 1.
    rested: f64,
    /// p99 of the tenant that moves and suffers most, by the mean of the hour before.
    moving_p99_ratio: Option<f64>,
    /// The same of the tenants that do not move.
    rest_p99_ratio: Option<f64>,
}

#[derive(Debug, Serialize)]
struct DieWear {
    die: u32,
    erases: u64,
    failed_blocks: u32,
    read_only: bool,
    vssds: Vec<u32>,
}

pub(super) fn run(arguments: &LookArgs) -> Result<Ending, Error> {
    let json = json_target(&arguments.output)?;
    let of = |array: &VssdArray| worn(array, None);
    carry_out((&arguments.image, false), &Question::Wear {}, json, of)
}

/// The wear of an array, with the exchange that `levelling` makes, as text and as JSON.
pub(super) fn worn(
    array: &VssdArray,
    levelling: Option<&Levelling>,
) -> Result<(String, Wear), Error> {
    let wear = Wear::of(array, levelling)?;
    Ok((wear.render(), wear))
}

impl Wear {
    fn of(array: &VssdArray, levelling: Option<&Levelling>) -> Result<Self, Error> {
        let report = levelling.map_or_else(|| array.levelling_report(), Levelling::report);
        let report = report.map_err(|error| refused("wear", &error))?;
        let vssds = array.list();
        let ServiceReport { drives, exchange, last } = report;
        let drives = array.look(|array| {
            let of_drive = |report: DriveReport| {
                let raw = array.drive(report.drive)?;
                let since = array.channel_units(report.drive);
                let since: Vec<_> = since.iter().map(|unit| (unit.since_turn, unit.rate)).collect();
                let lent = array.lent_erases(report.drive);
                Some(DriveWear::of(raw, &report, (&since, &lent), &vssds))
            };
            drives.into_iter().filter_map(of_drive).collect()
        });
        Ok(Self {
            drives: drives.map_err(|error| refused("wear", &error))?,
            exchange: exchange.as_ref().map(Exchange::of),
            last_exchange: last.as_ref().map(Exchange::of),
        })
    }

    fn render(&self) -> String {
        let mut text: String = self.drives.iter().map(DriveWear::render).collect();
        for (what, exchange) in [("in progress", &self.exchange), ("the last", &self.last_exchange)]
        {
            if let Some(exchange) = exchange {
                text += &exchange.render(what);
            }
        }
        text
    }
}

impl DriveWear {
    /// `since`: erases of each channel since the last exchange, and its share in them; `lent`: erases of each die that
    /// borrowers have caused.
    #[allow(clippy::cast_precision_loss)]
    fn of(
        raw: &RawSsd,
        report: &DriveReport,
        (since, lent): (&[(u64, Option<f64>)], &[u64]),
        vssds: &[VssdInfo],
    ) -> Self {
        let drive = report.drive;
        let array = raw.geometry().array;
        let channel = |(number, (channel, since)): (u32, (&ChannelReport, &(u64, Option<f64>)))| {
            let dies = array.dies_of(ChannelIndex(number)).filter_map(|die| {
                let view = raw.die(die)?;
                let here = |info: &&VssdInfo| info.dies.contains(&(drive, die));
                let ids = vssds.iter().filter(here).map(|info: &VssdInfo| info.id);
                Some(DieWear {
                    die: die.0,
                    erases: view.counters.erases,
                    failed_blocks: view.failed_blocks,
                    read_only: view.read_only,
                    vssds: ids.map(|VssdId(id)| id).collect(),
                })
            });
            let dies: Vec<DieWear> = dies.collect();
            let mut there: Vec<u32> = dies.iter().flat_map(|die| die.vssds.clone()).collect();
            there.sort_unstable();
            there.dedup();
            let rate = channel.rate.or(since.1);
            let of_all = |all: u64| Some(all as f64 * rate?);
            Channel {
                channel: number,
                erases: channel.erases,
                erases_since_swap: since.0,
                rate,
                of_endurance: report.rated_erases.map(|all| channel.erases as f64 / all as f64),
                rate_a_day: report.erases_a_day.and_then(of_all),
                by_mean: channel.by_mean,
                next_turn_days: channel.turn_days,
                lent_erases: array
                    .dies_of(ChannelIndex(number))
                    .filter_map(|die| lent.get(die.at()))
                    .sum(),
                vssds: there,
                dies,
            }
        };
        let channels: Vec<Channel> =
            (0..).zip(report.channels.iter().zip(since)).map(channel).collect();
        let by_mean = channels.iter().filter_map(|channel| channel.by_mean);
        let blocks = u64::from(raw.geometry().blocks());
        Self {
            drive,
            erases: channels.iter().map(|channel| channel.erases).sum(),
            rated_erases: raw.rated_erases().map(|rated| u64::from(rated) * blocks),
            imbalance: by_mean.reduce(f64::max),
            channels,
            levelling: LevellingWear::of(report),
        }
    }
}

impl LevellingWear {
    #[allow(clippy::cast_precision_loss)]
    fn of(report: &DriveReport) -> Self {
        let all = report.spent_erases + report.tenant_erases;
        let life = |forecast: &Forecast| Life {
            of_ideal: forecast.of_ideal,
            days: report
                .erases_a_day
                .filter(|day| *day > 0)
                .map(|day| forecast.erases / day as f64),
            exchanges: forecast.exchanges,
        };
        let by_gamma = |(gamma, forecast): &(u64, Forecast)| GammaLife {
            gamma: *gamma,
            of_ideal: forecast.of_ideal,
            exchanges: forecast.exchanges,
        };
        Self {
            paused: report.paused.map(|paused| match paused {
                PausedBy::Operator => "operator",
                PausedBy::WornDie => "worn die",
            }),
            gamma: report.gamma.map(|gamma| gamma.blocks),
            gamma_from: report.gamma.map(|gamma| match gamma.source {
                GammaSource::Endurance => "endurance",
                GammaSource::Forecast => "forecast",
                GammaSource::Given => "given",
            }),
            exchanges: report.exchanges,
            moved_bytes: report.moved_bytes,
            spent_erases: report.spent_erases,
            spent_share: (all > 0).then(|| report.spent_erases as f64 / all as f64),
            life: report.levelled.as_ref().map(life),
            life_without: report.unlevelled.as_ref().map(life),
            by_gamma: report.by_gamma.iter().map(by_gamma).collect(),
        }
    }

    fn render(&self) -> String {
        let mut text = format!(
            "levelling: {} exchanges, {} moved, {} erases for that",
            count(self.exchanges),
            human(self.moved_bytes),
            count(self.spent_erases)
        );
        if let Some(share) = self.spent_share {
            text += &format!(" ({:.2} % of all)", share * 100.0);
        }
        if let (Some(gamma), Some(from)) = (self.gamma, self.gamma_from) {
            text += &format!(", a turn after {} erases (by {from})", count(gamma));
        }
        if let Some(paused) = self.paused {
            text += &format!(", paused by {paused}");
        }
        text += "\n";
        if let Some(life) = &self.life {
            text += &format!("life at these rates: {}", life.render());
            if let Some(without) = &self.life_without {
                text += &format!(", without levelling {}", without.render());
            }
            text += "\n";
        }
        text
    }
}

impl Life {
    fn render(&self) -> String {
        let days = self.days.map_or(String::new(), |days| format!(" or {days:.1} days"));
        format!("{:.1} % of all erases that are left{days}", self.of_ideal * 100.0)
    }
}

impl Exchange {
    fn of(report: &ExchangeReport) -> Self {
        let (ChannelIndex(a), ChannelIndex(b)) = report.channels;
        Self {
            drive: report.drive,
            channels: [a, b],
            cause: match report.cause {
                Cause::Due => "due",
                Cause::Asked => "asked",
                Cause::Resumed => "resumed",
            },
            back: report.back,
            done: report.done,
            copied_bytes: report.copied_bytes,
            spent_erases: report.spent_erases,
            bytes_per_s: report.bytes_per_s,
            seconds: report.seconds,
            rested: report.rested,
            moving_p99_ratio: report.moving_slowdown,
            rest_p99_ratio: report.rest_slowdown,
        }
    }

    fn render(&self, what: &str) -> String {
        let [a, b] = self.channels;
        let ratio = |ratio: Option<f64>| ratio.map_or("-".to_owned(), |x| format!("{x:.2} x"));
        let back = if self.back { ", goes back" } else { "" };
        format!(
            "exchange {what}: channels {a} and {b} of drive {} ({}{back}): {:.0} % done, {} copied in {:.0} s, now {} \
             a second into each, rested {:.0} %; p99 by that before: {} of those that move, {} of the rest\n",
            self.drive,
            self.cause,
            self.done * 100.0,
            human(self.copied_bytes),
            self.seconds,
            human(self.bytes_per_s),
            self.rested * 100.0,
            ratio(self.moving_p99_ratio),
            ratio(self.rest_p99_ratio)
        )
    }
}

/// Cells of the bar of the most worn channel.
const BAR: u64 = 24;

impl DriveWear {
    #[allow(clippy::cast_precision_loss)]
    fn render(&self) -> String {
        let mut text = format!("drive {}: {} erases", self.drive, count(self.erases));
        if let Some(rated) = self.rated_erases {
            let share = self.erases as f64 / rated as f64 * 100.0;
            text += &format!(" of {} that it is rated for ({share:.2} %)", count(rated));
        }
        if let Some(imbalance) = self.imbalance {
            text += &format!(", imbalance {imbalance:.2}");
        }
        text += &format!(
            "\n\n{:>7}{:>11}  {:24}{:>11}{:>9}{:>10}{:>6}{:>9}  DIES, AND THEIR VSSDS\n",
            "CHANNEL", "ERASES", "", "ENDURANCE", "RATE", "A DAY", "X", "TURN IN"
        );
        let most = self.channels.iter().map(|channel| channel.erases).max().unwrap_or(0);
        for channel in &self.channels {
            let dies: Vec<String> = channel.dies.iter().map(DieWear::render).collect();
            let percent = |share: Option<f64>| known(share.map(|x| format!("{:.1} %", x * 100.0)));
            text += &format!(
                "{:>7}{:>11}  {:24}{:>11}{:>9}{:>10}{:>6}{:>9}  {}\n",
                channel.channel,
                count(channel.erases),
                bar(channel.erases, most),
                percent(channel.of_endurance),
                percent(channel.rate),
                known(channel.rate_a_day.map(|erases| format!("{erases:.0}"))),
                known(channel.by_mean.map(|x| format!("{x:.2}"))),
                known(channel.next_turn_days.map(|days| format!("{days:.1} d"))),
                dies.join("  ")
            );
        }
        let lent: u64 = self.channels.iter().map(|channel| channel.lent_erases).sum();
        if lent > 0 {
            text += &format!("loans: {} of the erases are of blocks that were lent\n", count(lent));
        }
        text + &self.levelling.render() + "\n"
    }
}

fn known(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

impl DieWear {
    /// Formats `erases:vSSDs`, where `-` is no vSSD and `!` a die that takes no more blocks.
    fn render(&self) -> String {
        let names: Vec<String> = self.vssds.iter().map(u32::to_string).collect();
        let who = if names.is_empty() { "-".to_owned() } else { names.join("+") };
        let end = if self.read_only { "!" } else { "" };
        format!("{}:{who}{end}", self.erases)
    }
}

/// A bar in eighths of a cell.
fn bar(erases: u64, most: u64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = erases.saturating_mul(BAR * 8).checked_div(most).unwrap_or(0);
    let whole = usize::try_from(eighths / 8).unwrap_or(0);
    let part = usize::try_from(eighths % 8).unwrap_or(0);
    "█".repeat(whole) + EIGHTHS[part]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_the_share() {
        assert_eq!(
            (bar(0, 0), bar(0, 5), bar(5, 5)),
            (String::new(), String::new(), "█".repeat(24))
        );
        assert_eq!((bar(1, 48), bar(49, 48 * 4)), ("▌".to_owned(), "█".repeat(6) + "▏"));
    }
}
