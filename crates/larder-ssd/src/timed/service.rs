//! The order in which a die performs its operations.

/// The order in which a die performs its operations. It decides how a writer on the same dies affects a reader: with
/// programs of 700 us and erases of 5 ms, the 99th percentile of reads is several programs long if the die works in
/// order, and about one program if reads go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DieService {
    /// First come, first served, including whole erases. Data of reads waits for the channel like data of programs.
    InOrder,
    /// Host reads go before waiting programs and erases, and wait for the one in progress. Erases are done in slices
    /// between programs.
    ReadsFirst,
    /// Host reads go before all waiting work, and suspend the operation in progress, if the die can
    /// ([`NandTiming::suspend_ns`](super::NandTiming::suspend_ns)) and the host does not wait for that operation.
    #[default]
    ReadsSuspend,
}
