//! The error of this crate: an option that cannot work. All other errors are those of the store below.

use std::fmt;

/// An option that cannot work.
///
/// ```
/// use larder_object_store::Options;
///
/// let options = Options { part_size: 1000, ..Options::default() };
/// let error = options.check().unwrap_err();
/// assert_eq!(error.to_string(), "part_size = 1000: must be 65536, 131072 or 262144");
/// assert_eq!(error.field(), "part_size");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    field: &'static str,
    value: String,
    fix: &'static str,
}

impl Error {
    pub(crate) fn new(field: &'static str, value: impl fmt::Display, fix: &'static str) -> Self {
        Self { field, value: value.to_string(), fix }
    }

    /// The option.
    pub fn field(&self) -> &'static str {
        self.field
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}: {}", self.field, self.value, self.fix)
    }
}

impl std::error::Error for Error {}
