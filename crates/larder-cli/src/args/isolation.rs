//! What a virtual SSD shares with others.

use clap::ValueEnum;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KindArg {
    /// Nothing: whole channels
    Channel,
    /// Channels: whole dies
    Die,
    /// Quarters of dies; each tenant of a die has its share of the die's time
    Software,
    /// Quarters of dies, without a division of their time
    None,
}
