//! What an opening does where settings have changed.

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
    /// It fails, and names the settings with their old and new values. Nothing is changed. A cache of
    /// which nothing would be left anyway, after a loss of power for example, is no reason to fail.
    #[default]
    Refuse,
    /// It starts empty.
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
