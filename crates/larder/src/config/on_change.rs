//! What an opening does if settings have changed.

use std::fmt;
use std::str::FromStr;

/// What an opening does with a cache that was made with other settings.
///
/// ```
/// use larder::OnChange;
///
/// assert_eq!("discard".parse(), Ok(OnChange::Discard));
/// assert_eq!(OnChange::default().to_string(), "refuse");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnChange {
    /// The opening fails and names the settings with their old and new values. It changes nothing on the device. If
    /// nothing of the old cache would be left anyway, after a loss of power for example, the opening does not fail.
    #[default]
    Refuse,
    /// The opening starts empty.
    Discard,
}

impl fmt::Display for OnChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refuse => "refuse",
            Self::Discard => "discard",
        })
    }
}

impl FromStr for OnChange {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "refuse" => Ok(Self::Refuse),
            "discard" => Ok(Self::Discard),
            _ => Err(format!("\"{s}\" is not what to do on a change: use refuse or discard")),
        }
    }
}
