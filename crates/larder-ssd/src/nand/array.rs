//! Channels and the dies on them.

use super::index::{ChannelIndex, DieIndex};
use crate::error::{Error, ErrorKind};

/// Channels and the dies on them. Dies are numbered round-robin over the channels: die 0 is the first of channel 0, die
/// 1 the first of channel 1, so neighbours are on different channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DieArray {
    /// Channels.
    pub channels: u32,
    /// Dies on each channel.
    pub dies_per_channel: u32,
}

/// Most dies that a drive may have: far beyond real drives, and few enough to keep tables by die small.
const DIES_MAX: u32 = 1 << 16;

impl DieArray {
    /// One die on a channel of its own.
    pub const ONE: Self = Self { channels: 1, dies_per_channel: 1 };

    /// All dies.
    pub fn dies(self) -> u32 {
        self.channels * self.dies_per_channel
    }

    /// The channel that `die` is on.
    pub fn channel_of(self, die: DieIndex) -> ChannelIndex {
        debug_assert!(die.0 < self.dies(), "{die:?} of {}", self.dies());
        ChannelIndex(die.0 % self.channels)
    }

    /// The dies of `channel`, in order.
    pub fn dies_of(self, channel: ChannelIndex) -> impl Iterator<Item = DieIndex> {
        debug_assert!(channel.0 < self.channels, "{channel:?} of {}", self.channels);
        (0..self.dies_per_channel).map(move |row| DieIndex(row * self.channels + channel.0))
    }

    pub(crate) fn check(self) -> Result<(), Error> {
        let Self { channels, dies_per_channel } = self;
        let dies = channels.checked_mul(dies_per_channel);
        if dies.is_none_or(|dies| dies == 0 || dies > DIES_MAX) {
            return Err(Error::new(
                ErrorKind::Config,
                format!(
                    "{channels} channels of {dies_per_channel} dies: must be 1 to {DIES_MAX} dies"
                ),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dies_go_round_the_channels() {
        let array = DieArray { channels: 3, dies_per_channel: 2 };
        let channels: Vec<u32> = (0..6).map(|die| array.channel_of(DieIndex(die)).0).collect();
        assert_eq!(channels, [0, 1, 2, 0, 1, 2]);
        let dies: Vec<u32> = array.dies_of(ChannelIndex(1)).map(|die| die.0).collect();
        assert_eq!(dies, [1, 4]);
    }

    #[test]
    fn arrays_without_dies_or_with_too_many_are_refused() {
        let refused = |channels, dies_per_channel| {
            DieArray { channels, dies_per_channel }.check().unwrap_err().to_string()
        };
        assert!(refused(0, 4).contains("0 channels of 4 dies"));
        assert!(refused(1 << 16, 1 << 16).contains("must be 1 to 65536"));
        assert!(refused(16, 4097).contains("must be"));
    }
}
