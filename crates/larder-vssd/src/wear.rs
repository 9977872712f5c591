//! Wear and wear rate of channels and dies: the input of the levelling rules.

use larder_ssd::nand::{ChannelIndex, DieIndex};

use super::array::Vssds;
use super::images::Images;
use super::levelling::UnitWear;

/// Wear of a channel or a die.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WearSinceSwap {
    /// Erases of its blocks so far.
    pub erases: u64,
    /// Bytes of the blocks that were erased since the last swap of dies of the drive (c of FlashBlox §3.4.3), without
    /// the moves of the swap itself.
    pub erased_bytes: u64,
}

impl<I: Images> Vssds<I> {
    /// Wear of each die of `drive`, in order; empty if the drive does not exist.
    pub fn die_wear(&self, drive: u32) -> Vec<WearSinceSwap> {
        let at = drive as usize;
        let (Some(raw), Some(baselines)) = (self.drives.get(at), self.state.erases_at_swap.get(at))
        else {
            return Vec::new();
        };
        let wear = |(die, baseline): (u32, &u64)| {
            let erases = raw.die(DieIndex(die)).map_or(0, |view| view.counters.erases);
            let since = erases.saturating_sub(*baseline);
            WearSinceSwap { erases, erased_bytes: since * self.block_bytes() }
        };
        (0..).zip(baselines).map(wear).collect()
    }

    /// Wear of each channel of `drive`, in order: the sums over its dies.
    pub fn channel_wear(&self, drive: u32) -> Vec<WearSinceSwap> {
        let dies = self.die_wear(drive);
        if dies.is_empty() {
            return Vec::new();
        }
        let array = self.state.shape.geometry.array;
        let of_channel = |channel| {
            let dies = array.dies_of(ChannelIndex(channel)).map(|die| dies[die.at()]);
            dies.fold(WearSinceSwap::default(), |sum, die| WearSinceSwap {
                erases: sum.erases + die.erases,
                erased_bytes: sum.erased_bytes + die.erased_bytes,
            })
        };
        (0..array.channels).map(of_channel).collect()
    }

    /// The channels of `drive` as input of the levelling rules. Rates count from the last swap of dies of the drive; if
    /// nothing was erased since, all rates are unknown.
    #[allow(clippy::cast_precision_loss)] // a share needs no more than 52 bits
    pub fn channel_units(&self, drive: u32) -> Vec<UnitWear> {
        let wear = self.channel_wear(drive);
        let since = |unit: &WearSinceSwap| unit.erased_bytes / self.block_bytes();
        let all: u64 = wear.iter().map(since).sum();
        let unit = |unit: &WearSinceSwap| UnitWear {
            erases: unit.erases,
            since_turn: since(unit),
            rate: (all > 0).then(|| since(unit) as f64 / all as f64),
        };
        wear.iter().map(unit).collect()
    }
}
