//! Free units and their allocation (FlashBlox §3.4, "resource allocation").
//!
//! The state is the number of used soft planes of each die, so units split and merge implicitly: a die is free when
//! none of its soft planes is used, a channel when all its dies are free. A new vSSD gets units by these preferences:
//!
//! - *channels*: free ones, least worn first;
//! - *dies*: free ones, first on channels where the vSSD has the fewest dies, for bandwidth; then on channels that are
//!   already partly used, so that whole ones are left for others; then the least worn;
//! - *soft planes*: free ones of dies that no vSSD has as a whole, spread over dies, then over channels; then on dies,
//!   then on channels that are already partly used; then the least worn.
//!
//! Ties are broken by drive and number.

use larder_ssd::nand::{ChannelIndex, DieIndex};

use super::kind::Isolation;
use super::state::{SOFT_PLANES, Seat, Shape};

/// A die of one of the drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) drive: u32,
    pub(super) die: DieIndex,
}

#[derive(Debug)]
pub(super) struct FreeUnits {
    shape: Shape,
    /// By drive and die: number of used soft planes.
    taken: Vec<u32>,
}

/// Input of the choice, in addition to the used soft planes.
pub(super) trait Dies {
    /// Whether a vSSD may be placed there now.
    fn usable(&self, place: Place) -> bool;
    /// Erases of the die so far.
    fn erases(&self, place: Place) -> u64;
}

impl FreeUnits {
    pub(super) fn new(shape: Shape) -> Self {
        Self { taken: vec![0; (shape.drives * shape.dies()) as usize], shape }
    }

    fn slot(&self, place: Place) -> usize {
        (place.drive * self.shape.dies() + place.die.0) as usize
    }

    fn taken(&self, place: Place) -> u32 {
        self.taken[self.slot(place)]
    }

    pub(super) fn take(&mut self, seat: &Seat) {
        let slot = self.slot(Place { drive: seat.drive, die: seat.die });
        self.taken[slot] += seat.planes;
        assert!(self.taken[slot] <= SOFT_PLANES, "{seat:?} is taken twice");
    }

    pub(super) fn give(&mut self, seat: &Seat) {
        let slot = self.slot(Place { drive: seat.drive, die: seat.die });
        assert!(self.taken[slot] >= seat.planes, "{seat:?} was free");
        self.taken[slot] -= seat.planes;
    }

    /// Records that two dies have swapped their data.
    pub(super) fn exchange(&mut self, drive: u32, a: DieIndex, b: DieIndex) {
        let (a, b) = (self.slot(Place { drive, die: a }), self.slot(Place { drive, die: b }));
        self.taken.swap(a, b);
    }

    fn places(&self) -> impl Iterator<Item = Place> + use<> {
        let dies = self.shape.dies();
        (0..self.shape.drives)
            .flat_map(move |drive| (0..dies).map(move |die| Place { drive, die: DieIndex(die) }))
    }

    fn channel(&self, place: Place) -> (u32, ChannelIndex) {
        (place.drive, self.shape.geometry.array.channel_of(place.die))
    }

    fn dies_of(
        &self,
        (drive, channel): (u32, ChannelIndex),
    ) -> impl Iterator<Item = Place> + use<> {
        self.shape.geometry.array.dies_of(channel).map(move |die| Place { drive, die })
    }

    fn channel_is_free(&self, channel: (u32, ChannelIndex)) -> bool {
        self.dies_of(channel).all(|place| self.taken(place) == 0)
    }

    /// Dies for `count` units of `isolation`; those of a channel are consecutive. The error is the number of free
    /// units.
    pub(super) fn choose(
        &self,
        isolation: Isolation,
        count: u32,
        dies: &impl Dies,
    ) -> Result<Vec<Place>, u32> {
        debug_assert!(count > 0, "the caller asks for at least one unit");
        let free = self.count_free(isolation, dies);
        if free < count {
            return Err(free);
        }
        let chosen = match isolation {
            Isolation::Channel => self.choose_channels(count, dies),
            Isolation::Die => self.choose_dies(count, SOFT_PLANES, dies),
            Isolation::Software { .. } | Isolation::None => self.choose_dies(count, 1, dies),
        };
        debug_assert!(chosen.iter().all(|&place| dies.usable(place)));
        Ok(chosen)
    }

    /// Number of free units of `isolation`.
    pub(super) fn count_free(&self, isolation: Isolation, dies: &impl Dies) -> u32 {
        let usable = self.places().filter(|&place| dies.usable(place));
        match isolation {
            Isolation::Channel => self.free_channels(dies).len().try_into().unwrap_or(u32::MAX),
            Isolation::Die => usable.map(|place| u32::from(self.taken(place) == 0)).sum(),
            Isolation::Software { .. } | Isolation::None => {
                usable.map(|place| SOFT_PLANES - self.taken(place)).sum()
            }
        }
    }

    fn free_channels(&self, dies: &impl Dies) -> Vec<(u32, ChannelIndex)> {
        let channels = self.shape.geometry.array.channels;
        let of_drive = |drive| (0..channels).map(move |channel| (drive, ChannelIndex(channel)));
        let free = |channel: &(u32, ChannelIndex)| {
            self.channel_is_free(*channel) && self.dies_of(*channel).all(|place| dies.usable(place))
        };
        (0..self.shape.drives).flat_map(of_drive).filter(free).collect()
    }

    fn choose_channels(&self, count: u32, dies: &impl Dies) -> Vec<Place> {
        let mut free = self.free_channels(dies);
        let erases = |channel: &(u32, ChannelIndex)| {
            self.dies_of(*channel).map(|place| dies.erases(place)).sum::<u64>()
        };
        free.sort_by_key(|channel| (erases(channel), *channel));
        free.truncate(count as usize);
        free.into_iter().flat_map(|channel| self.dies_of(channel)).collect()
    }

    fn choose_dies(&self, count: u32, planes: u32, dies: &impl Dies) -> Vec<Place> {
        let array = self.shape.geometry.array;
        let mut candidates: Vec<Place> = self.places().filter(|&p| dies.usable(p)).collect();
        // Soft planes of this vSSD by die, and its dies by channel.
        let mut mine = vec![0; self.taken.len()];
        let mut on_channel = vec![0; (self.shape.drives * array.channels) as usize];
        let channel_slot = |place: Place| {
            let (drive, channel) = self.channel(place);
            (drive * array.channels + channel.0) as usize
        };
        let mut chosen = Vec::new();
        for _ in 0..count {
            let room = |place: Place| {
                self.taken(place) + planes * (mine[self.slot(place)] + 1) <= SOFT_PLANES
            };
            candidates.retain(|&place| room(place));
            let best = candidates.iter().copied().min_by_key(|&place| {
                let whole = (self.taken(place) == 0, self.channel_is_free(self.channel(place)));
                let spread = (mine[self.slot(place)], on_channel[channel_slot(place)]);
                (spread, whole, dies.erases(place), place)
            });
            let best = best.unwrap_or_else(|| unreachable!("they were counted"));
            mine[self.slot(best)] += 1;
            on_channel[channel_slot(best)] += 1;
            chosen.push(best);
        }
        chosen
    }
}
