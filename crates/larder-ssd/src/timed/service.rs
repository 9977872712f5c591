//! In which order a die does what it is asked for.

/// In which order a die does what it is asked for. It decides what a reader sees of a writer on the
/// same dies: beside programs of 700 us and erases of 5 ms, the 99th percentile of reads is several
/// programs long if the die works in order, and about one if reads go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DieService {
    /// First come, first served, whole erases too. What reads bring waits for the channel as what programs
    /// bring does.
    InOrder,
    /// Reads of the host go before programs and erases that wait, and wait for the one that is under
    /// way. Erases are done in slices between programs.
    ReadsFirst,
    /// Reads of the host go before all that waits, and suspend what is under way, if the die can
    /// ([`NandTiming::suspend_ns`](super::NandTiming::suspend_ns)) and the host does not wait for it.
    #[default]
    ReadsSuspend,
}
