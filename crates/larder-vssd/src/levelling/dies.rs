//! Wear levelling of dies: during a swap of their channels, or by a swap within a channel.
//!
//! A swap of two channels copies all their data anyway, so it is free to choose which die of the other channel the data
//! of a die goes to. The paper (section 4) puts the data with the lowest rate onto the most worn die of the channel
//! that is relieved. Here all dies of both channels are reassigned: the busiest data goes to the least worn die, and so
//! on, which is the best of all assignments (rearrangement inequality). If channels wear alike but their dies do not,
//! no channel swap happens. Then two dies of the channel swap their data by the pair rule, with a separate trigger,
//! whose counters a channel swap clears.

use larder_ssd::Error;

use super::{Leveller, PairRule, Trigger, Turns, UnitWear};

/// How data is assigned to dies when their channels swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carry {
    /// To the die with the same number.
    AsTheyAre,
    /// As in the paper: of the data that comes to the worn channel, the data with the lowest rate goes onto its most
    /// worn die, in exchange with the data that would go there.
    MostWornDie,
    /// Busiest data to least worn die, on both channels.
    AllDies,
}

/// The assignment of a channel swap: by die of a channel, the die of the other channel whose data it gets. Each die
/// occurs once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DieSeats {
    /// For the first channel of the pair.
    pub on_first: Vec<usize>,
    /// For the second channel of the pair.
    pub on_second: Vec<usize>,
}

/// By die of the first of two channels: the die of the second whose data it exchanges. An exchange of pairs is less
/// free than [`Carry::AllDies`], because both dies of a pair get each other's data. The sum of wear by the rate that
/// comes is as small as exchanges of two partners make it; so busy data goes to little worn dies. Dies of unknown rate
/// stay in their rows.
///
/// # Panics
/// If the channels have different numbers of dies.
#[allow(clippy::cast_precision_loss)] // erases of a die are below 2^52
pub fn partners(first: &[UnitWear], second: &[UnitWear]) -> Vec<usize> {
    assert_eq!(first.len(), second.len(), "channels have equally many dies");
    let mut partners: Vec<usize> = (0..first.len()).collect();
    if first.iter().chain(second).any(|die| die.rate.is_none()) {
        return partners;
    }
    let rate = |die: &UnitWear| die.rate.unwrap_or(0.0);
    let cost = |one: &UnitWear, other: &UnitWear| {
        one.erases as f64 * rate(other) + other.erases as f64 * rate(one)
    };
    // Each exchange makes the sum smaller, so this ends; a bound is still there for rounding.
    for _ in 0..first.len() {
        let mut changed = false;
        for (i, j) in (0..first.len()).flat_map(|i| (0..i).map(move |j| (i, j))) {
            let (of_i, of_j) = (&second[partners[i]], &second[partners[j]]);
            let now = cost(&first[i], of_i) + cost(&first[j], of_j);
            if cost(&first[i], of_j) + cost(&first[j], of_i) < now * (1.0 - 1e-9) {
                partners.swap(i, j);
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    debug_assert!(each_once(&partners), "{partners:?}");
    partners
}

/// The dies of all channels.
#[derive(Debug, Clone)]
pub struct DieLevelling {
    carry: Carry,
    /// By channel.
    dies: Vec<Leveller<PairRule>>,
}

impl DieLevelling {
    /// For `channels` new channels of `dies` dies each. `trigger` is for swaps within a channel, in blocks of a die
    /// ([`Trigger::channels`] with the dies of a channel as its units), and determines how often rates are updated.
    ///
    /// # Errors
    /// [`Config`](larder_ssd::ErrorKind::Config) for channels without dies, or an invalid trigger.
    pub fn new(
        channels: usize,
        dies: usize,
        trigger: Trigger,
        rule: PairRule,
        carry: Carry,
    ) -> Result<Self, Error> {
        let of_channel = Leveller::new(dies, trigger, Turns::OneByOne, rule)?;
        Ok(Self { carry, dies: vec![of_channel; channels] })
    }

    /// Records that `blocks` blocks of a die were erased for its tenant.
    ///
    /// # Panics
    /// If there is no such channel or die.
    pub fn erased(&mut self, channel: usize, die: usize, blocks: u64) {
        self.dies[channel].erased(die, blocks);
    }

    /// The wear of the dies of `channel`.
    ///
    /// # Panics
    /// If there is no such channel.
    pub fn wear(&self, channel: usize) -> Vec<UnitWear> {
        self.dies[channel].wear()
    }

    /// Two dies of `channel` whose data should be swapped at time `now`.
    ///
    /// # Panics
    /// If there is no such channel.
    pub fn due(&mut self, channel: usize, now: u64) -> Option<(usize, usize)> {
        self.dies[channel].due(now)
    }

    /// Records that two dies of `channel` have swapped their data, with `migration_erases` blocks erased on each.
    ///
    /// # Panics
    /// If there are no such dies.
    pub fn swapped(&mut self, channel: usize, pair: (usize, usize), migration_erases: u64) {
        self.dies[channel].swapped(pair, migration_erases);
    }

    /// The assignment of data to dies for a swap of two channels, of which the first is the more worn one.
    ///
    /// # Panics
    /// If there are no such channels.
    pub fn seats(&mut self, channels: (usize, usize)) -> DieSeats {
        // If dies are not swapped within channels, nothing else updates their rates.
        self.dies[channels.0].take_rates(0);
        self.dies[channels.1].take_rates(0);
        let (first, second) = (self.wear(channels.0), self.wear(channels.1));
        let as_they_are = || (0..first.len()).collect::<Vec<_>>();
        let seats = match self.carry {
            Carry::AsTheyAre => DieSeats { on_first: as_they_are(), on_second: as_they_are() },
            Carry::MostWornDie => DieSeats {
                on_first: lowest_rate_on_most_worn(&first, &second),
                on_second: as_they_are(),
            },
            Carry::AllDies => DieSeats {
                on_first: busiest_on_least_worn(&first, &second),
                on_second: busiest_on_least_worn(&second, &first),
            },
        };
        debug_assert!(each_once(&seats.on_first) && each_once(&seats.on_second), "{seats:?}");
        seats
    }

    /// Records that two channels have been swapped with the assignment `seats`, with `migration_erases` blocks erased
    /// on each die.
    ///
    /// # Panics
    /// If there are no such channels, or `seats` does not match their dies.
    pub fn carried(&mut self, channels: (usize, usize), seats: &DieSeats, migration_erases: u64) {
        let leave = |channel: usize| {
            let dies = &self.dies[channel];
            (0..dies.wear().len()).map(|die| dies.tenant(die)).collect::<Vec<_>>()
        };
        let (of_first, of_second) = (leave(channels.0), leave(channels.1));
        for side in [&seats.on_first, &seats.on_second] {
            assert!(each_once(side), "each die once: {seats:?}");
        }
        for (channel, seats, come) in
            [(channels.0, &seats.on_first, of_second), (channels.1, &seats.on_second, of_first)]
        {
            assert_eq!(seats.len(), come.len(), "a seat for each die");
            for (die, &from) in seats.iter().enumerate() {
                self.dies[channel].seat(die, come[from]);
                self.dies[channel].migrated(die, migration_erases);
            }
            // Other modes do not level these dies.
            if self.carry == Carry::AllDies {
                self.dies[channel].clear_turns();
            }
        }
    }
}

/// By die of `dies`: the die of `contents` whose data it gets.
fn busiest_on_least_worn(dies: &[UnitWear], contents: &[UnitWear]) -> Vec<usize> {
    let mut least_worn: Vec<usize> = (0..dies.len()).collect();
    least_worn.sort_by_key(|&die| dies[die].erases);
    let mut busiest: Vec<usize> = (0..contents.len()).collect();
    busiest.sort_by(|&a, &b| rate(&contents[b]).total_cmp(&rate(&contents[a])));
    let mut seats = vec![0; dies.len()];
    for (die, from) in least_worn.into_iter().zip(busiest) {
        seats[die] = from;
    }
    seats
}

fn lowest_rate_on_most_worn(dies: &[UnitWear], contents: &[UnitWear]) -> Vec<usize> {
    let mut seats: Vec<usize> = (0..dies.len()).collect();
    let worn = (0..dies.len()).max_by_key(|&die| dies[die].erases);
    let idle = (0..dies.len()).min_by(|&a, &b| rate(&contents[a]).total_cmp(&rate(&contents[b])));
    if let (Some(worn), Some(idle)) = (worn, idle) {
        seats.swap(worn, idle);
    }
    seats
}

/// A tenant without a known rate counts as idle.
fn rate(unit: &UnitWear) -> f64 {
    unit.rate.unwrap_or(0.0)
}

/// Whether `seats` is a permutation.
fn each_once(seats: &[usize]) -> bool {
    let mut seen = vec![false; seats.len()];
    seats.iter().all(|&seat| seen.get_mut(seat).is_some_and(|seen| !std::mem::replace(seen, true)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: PairRule = PairRule { migration_erases: 1 };

    /// Two channels of three dies with known rates.
    fn two(carry: Carry) -> DieLevelling {
        let trigger = Trigger::Erases { gamma: 30, taper: None };
        let mut dies = DieLevelling::new(2, 3, trigger, RULE, carry).unwrap();
        for (channel, erases) in [(0, [30, 10, 20]), (1, [0, 4, 40])] {
            erases.iter().enumerate().for_each(|(die, &blocks)| dies.erased(channel, die, blocks));
            dies.due(channel, 0);
            dies.erased(channel, 0, 1);
        }
        dies
    }

    #[test]
    fn contents_are_seated_by_rate_and_wear() {
        let seats = |carry| {
            let DieSeats { on_first, on_second } = two(carry).seats((0, 1));
            [on_first, on_second]
        };
        assert_eq!(seats(Carry::AsTheyAre), [[0, 1, 2], [0, 1, 2]]);
        // On the first channel, die 1 gets the busiest data of the second (from its die 2).
        assert_eq!(seats(Carry::AllDies), [[0, 2, 1], [0, 2, 1]]);
        // The idle data of the second channel is on its die 0, which already maps to the most worn die.
        assert_eq!(seats(Carry::MostWornDie), [[0, 1, 2], [0, 1, 2]]);
        let turned = two(Carry::MostWornDie).seats((1, 0));
        assert_eq!(turned.on_first, [0, 2, 1], "die 2 is worn, the idle contents are on die 1");
        assert_eq!(turned.on_second, [0, 1, 2]);
    }

    #[test]
    fn rates_go_along_and_migrations_wear_every_die() {
        for carry in [Carry::AllDies, Carry::MostWornDie, Carry::AsTheyAre] {
            let mut dies = two(carry);
            let (before, other) = (dies.wear(0), dies.wear(1));
            let seats = dies.seats((0, 1));
            dies.carried((0, 1), &seats, 5);
            for (die, after) in dies.wear(0).iter().enumerate() {
                assert_eq!(after.erases, before[die].erases + 5);
                assert_eq!(after.rate, other[seats.on_first[die]].rate, "{carry:?} {die}");
            }
            for (die, after) in dies.wear(1).iter().enumerate() {
                assert_eq!(after.rate, before[seats.on_second[die]].rate, "{carry:?} {die}");
            }
            let begun = dies.wear(0)[0].since_turn;
            assert_eq!(begun, if carry == Carry::AllDies { 0 } else { 1 }, "{carry:?}");
        }
    }

    #[test]
    #[should_panic(expected = "DieSeats")]
    fn a_die_seated_twice_is_refused() {
        let twice = DieSeats { on_first: vec![0, 0, 1], on_second: vec![0, 1, 2] };
        two(Carry::AllDies).carried((0, 1), &twice, 1);
    }

    /// One die of a channel gets all its writes; the channel is never swapped.
    #[test]
    fn dies_of_a_channel_change_places_by_themselves() {
        let mut dies = two(Carry::AllDies);
        let mut busy = 2;
        for _ in 0..300 {
            dies.erased(0, busy, 10);
            if let Some((worn, other)) = dies.due(0, 0) {
                dies.swapped(0, (worn, other), 1);
                busy = if busy == worn { other } else { busy };
            }
        }
        let erases: Vec<u64> = dies.wear(0).iter().map(|die| die.erases).collect();
        let (least, most) = (erases.iter().min().unwrap(), erases.iter().max().unwrap());
        assert!(most - least <= 40 && *least > 1000, "{erases:?}");
    }
}
