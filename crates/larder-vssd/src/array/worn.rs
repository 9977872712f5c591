//! What levelling knows of the dies: erases for tenants and for moves, apart, and the rates of tenants.

use larder_ssd::Error;
use larder_ssd::nand::{ChannelIndex, DieIndex};

use super::Vssds;
use crate::images::Images;
use crate::levelling::{Budget, LevellingState, PausedBy, UnitState, UnitWear};
use crate::state::SwapState;

impl<I: Images> Vssds<I> {
    pub(crate) fn erases_of(&self, drive: u32, die: DieIndex) -> u64 {
        self.drives[drive as usize].die(die).map_or(0, |view| view.counters.erases)
    }

    /// What levelling knows of `drive`; `None` if there is no such drive.
    pub fn levelling(&self, drive: u32) -> Option<&LevellingState> {
        self.ledger.state().levelling.get(drive as usize)
    }

    pub(super) fn levelling_mut(&mut self, drive: u32) -> &mut LevellingState {
        &mut self.ledger.state_mut().levelling[drive as usize]
    }

    /// Changes what levelling knows of `drive`, in memory. It is durable with the next catalogue
    /// ([`Self::keep_levelling`], and each begin and end of a swap).
    pub(crate) fn change_levelling(
        &mut self,
        drive: u32,
        change: impl FnOnce(&mut LevellingState),
    ) {
        if let Some(state) = self.ledger.state_mut().levelling.get_mut(drive as usize) {
            change(state);
        }
    }

    /// Stops the moves of levelling on all drives, or lets them go on. It is in the catalogue when this returns.
    ///
    /// # Errors
    /// [`PowerLoss`](larder_ssd::ErrorKind::PowerLoss).
    pub fn pause_levelling(&mut self, paused: Option<PausedBy>) -> Result<(), Error> {
        self.ledger.check()?;
        self.ledger.state_mut().levelling.iter_mut().for_each(|state| state.paused = paused);
        self.ledger.write_catalogue()
    }

    /// Makes what levelling knows durable, by a new catalogue.
    ///
    /// # Errors
    /// [`PowerLoss`](larder_ssd::ErrorKind::PowerLoss).
    pub fn keep_levelling(&mut self) -> Result<(), Error> {
        self.ledger.check()?;
        self.ledger.write_catalogue()
    }

    /// Counts the erases of `drive` since the last call for the tenants on its dies, in memory. Returns their number.
    pub fn count_erases(&mut self, drive: u32) -> u64 {
        let array = self.ledger.state().shape.geometry.array;
        let dies = (0..array.dies()).map(DieIndex);
        let erases: Vec<u64> = dies.map(|die| self.erases_of(drive, die)).collect();
        let Some(state) = self.ledger.state_mut().levelling.get_mut(drive as usize) else {
            return 0;
        };
        let mut all = 0;
        for (at, (die, erases)) in state.dies.iter_mut().zip(erases).enumerate() {
            let for_tenants = erases.saturating_sub(die.spent);
            let new = for_tenants.saturating_sub(die.seen);
            die.seen = for_tenants;
            let die_number = DieIndex(u32::try_from(at).unwrap_or(u32::MAX));
            let channel = &mut state.channels[array.channel_of(die_number).at()];
            for unit in [channel, &mut die.unit] {
                unit.since_turn += new;
                unit.recent += new;
            }
            all += new;
        }
        all
    }

    /// The channels of `drive`, with the rates that are known of their tenants; empty if there is no such drive.
    pub fn levelled_channels(&self, drive: u32) -> Vec<UnitWear> {
        let Some(state) = self.levelling(drive) else { return Vec::new() };
        let erases = self.channel_wear(drive);
        state.channels.iter().zip(erases).map(|(unit, wear)| unit.wear(wear.erases)).collect()
    }

    /// The dies of a channel of `drive`, in the same way.
    pub fn levelled_dies(&self, drive: u32, channel: ChannelIndex) -> Vec<UnitWear> {
        let Some(state) = self.levelling(drive) else { return Vec::new() };
        let array = self.ledger.state().shape.geometry.array;
        let die = |die: DieIndex| state.dies[die.at()].unit.wear(self.erases_of(drive, die));
        array.dies_of(channel).map(die).collect()
    }

    /// Blocks of `die` that hold data.
    pub fn live_blocks(&self, drive: u32, die: DieIndex) -> u64 {
        let Some(raw) = self.drives.get(drive as usize) else { return 0 };
        let Some(view) = raw.die(die) else { return 0 };
        let out = u64::from(view.failed_blocks) + raw.room_to_move(die) as u64;
        u64::from(raw.geometry().blocks_per_die).saturating_sub(out)
    }

    /// Endurance of a channel of `drive`, and the cost of an exchange: the live blocks of a channel, on average. `None`
    /// if its endurance is unknown or unlimited.
    pub fn channel_budget(&self, drive: u32) -> Option<Budget> {
        let raw = self.drives.get(drive as usize)?;
        let array = raw.geometry().array;
        let blocks = u64::from(raw.geometry().blocks_per_die) * u64::from(array.dies_per_channel);
        let live: u64 = (0..array.dies()).map(|die| self.live_blocks(drive, DieIndex(die))).sum();
        Some(Budget {
            rated_erases: u64::from(raw.rated_erases()?) * blocks,
            migration_erases: live.div_ceil(u64::from(array.channels)),
        })
    }

    /// The tenants of swapped dies take their rates along.
    pub(super) fn carry_rates(&mut self, swap: &SwapState) {
        let array = self.ledger.state().shape.geometry.array;
        let state = self.levelling_mut(swap.drive);
        state.exchanges += 1;
        let mut channels: Vec<(ChannelIndex, ChannelIndex)> = Vec::new();
        for &(a, b) in &swap.pairs {
            exchange(&mut state.dies, a.at(), b.at(), |die| &mut die.unit);
            let (first, second) = (array.channel_of(a), array.channel_of(b));
            if first != second && !channels.contains(&(first, second)) {
                channels.push((first, second));
            }
        }
        for (first, second) in channels {
            let whole = |&(a, b): &(DieIndex, DieIndex)| {
                (array.channel_of(a), array.channel_of(b)) == (first, second)
            };
            let pairs = swap.pairs.iter().filter(|pair| whole(pair)).count();
            if pairs != array.dies_per_channel as usize {
                continue;
            }
            exchange(&mut state.channels, first.at(), second.at(), |channel| channel);
            // Dies of swapped channels have had their turn.
            for die in array.dies_of(first).chain(array.dies_of(second)) {
                state.dies[die.at()].unit.since_turn = 0;
            }
        }
    }
}

/// Exchanges the tenants of two of `units`.
fn exchange<T>(units: &mut [T], a: usize, b: usize, unit: impl Fn(&mut T) -> &mut UnitState) {
    if let Ok([a, b]) = units.get_disjoint_mut([a, b]) {
        UnitState::exchange(unit(a), unit(b));
    }
}
