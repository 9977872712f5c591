//! A size in `larder.toml`.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};

use crate::args::size;

/// A number of bytes, or text such as "64M".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Sizes;
        impl Visitor<'_> for Sizes {
            type Value = Size;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of bytes, or a text such as \"64M\"")
            }

            fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<Size, E> {
                u64::try_from(bytes).map(Size).map_err(|_| E::custom("must not be negative"))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
                size(text).map(Size).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Sizes)
    }
}
