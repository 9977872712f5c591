//! `larder vssd wear`: the wear of channels and dies, and their tenants.

use larder_blocks::VssdArray;
use larder_ssd::nand::ChannelIndex;
use larder_vssd::VssdInfo;
use larder_workload::Error;
use serde::Serialize;

use super::image::{open, refused};
use super::output::{count, deliver, json_target};
use crate::args::LookArgs;
use crate::ending::Ending;

#[derive(Debug, Serialize)]
struct Wear {
    drives: Vec<DriveWear>,
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
}

#[derive(Debug, Serialize)]
struct Channel {
    channel: u32,
    erases: u64,
    /// Since the last exchange of channels or dies, without the erases of the exchange.
    erases_since_swap: u64,
    /// Its share of all erases since then.
    rate: Option<f64>,
    vssds: Vec<u32>,
    dies: Vec<DieWear>,
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
    let (array, _) = open(&arguments.image)?;
    let wear = Wear::of(&array)?;
    deliver(json, &wear.render(), &wear)?;
    Ok(Ending::Complete)
}

impl Wear {
    #[allow(clippy::cast_precision_loss)]
    fn of(array: &VssdArray) -> Result<Self, Error> {
        let vssds = array.list();
        let drives = array.look(|array| {
            let drives = (0..).map_while(|drive| Some((drive, array.drive(drive)?)));
            let of_drive = |(drive, raw): (u32, &larder_ssd::raw::RawSsd)| {
                let dies = raw.geometry().array;
                let units = array.channel_units(drive);
                let channels: Vec<Channel> = (0..)
                    .zip(&units)
                    .map(|(channel, unit)| {
                        let dies = dies.dies_of(ChannelIndex(channel)).filter_map(|die| {
                            let view = raw.die(die)?;
                            let here = |info: &&VssdInfo| info.dies.contains(&(drive, die));
                            Some(DieWear {
                                die: die.0,
                                erases: view.counters.erases,
                                failed_blocks: view.failed_blocks,
                                read_only: view.read_only,
                                vssds: vssds.iter().filter(here).map(|info| info.id.0).collect(),
                            })
                        });
                        let dies: Vec<DieWear> = dies.collect();
                        let mut there: Vec<u32> =
                            dies.iter().flat_map(|die| die.vssds.clone()).collect();
                        there.sort_unstable();
                        there.dedup();
                        Channel {
                            channel,
                            erases: unit.erases,
                            erases_since_swap: unit.since_turn,
                            rate: unit.rate,
                            vssds: there,
                            dies,
                        }
                    })
                    .collect();
                let erases: u64 = channels.iter().map(|channel| channel.erases).sum();
                let most = channels.iter().map(|channel| channel.erases).max().unwrap_or(0);
                let mean = erases as f64 / channels.len().max(1) as f64;
                let blocks = u64::from(raw.geometry().blocks());
                DriveWear {
                    drive,
                    erases,
                    rated_erases: raw.rated_erases().map(|rated| u64::from(rated) * blocks),
                    imbalance: (erases > 0).then(|| most as f64 / mean),
                    channels,
                }
            };
            drives.map(of_drive).collect()
        });
        Ok(Self { drives: drives.map_err(|error| refused("wear", &error))? })
    }

    fn render(&self) -> String {
        self.drives.iter().map(DriveWear::render).collect()
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
            "\n\n{:>7}{:>11}  {:24}{:>11}{:>8}  DIES, AND THEIR VSSDS\n",
            "CHANNEL", "ERASES", "", "SINCE SWAP", "RATE"
        );
        let most = self.channels.iter().map(|channel| channel.erases).max().unwrap_or(0);
        for channel in &self.channels {
            let dies: Vec<String> = channel.dies.iter().map(DieWear::render).collect();
            let rate = channel.rate.map_or("-".to_owned(), |rate| format!("{:.1} %", rate * 100.0));
            text += &format!(
                "{:>7}{:>11}  {:24}{:>11}{rate:>8}  {}\n",
                channel.channel,
                count(channel.erases),
                bar(channel.erases, most),
                count(channel.erases_since_swap),
                dies.join("  ")
            );
        }
        text + "\n"
    }
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
