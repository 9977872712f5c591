//! Why dumps are refused.

/// Why a dump is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// Of a newer version, or not what was written.
    Version,
    /// It says nothing that this server can store.
    Format,
    /// A string would become longer than allowed.
    StringTooLong,
    /// A collection would become longer than allowed.
    CollectionTooLong,
}
