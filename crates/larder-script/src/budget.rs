//! The memory that scripts share with others.

/// The memory that a machine's scripts may take together with others.
pub trait Budget {
    /// Counts `bytes` more. On `false` there is no room, and nothing is counted.
    fn grow(&mut self, bytes: usize) -> bool;
    /// Counts `bytes` less, which [`Budget::grow`] has counted.
    fn shrink(&mut self, bytes: usize);
}
