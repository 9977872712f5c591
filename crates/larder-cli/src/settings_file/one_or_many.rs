//! A text in `larder.toml`, or a list of texts.

use std::fmt;

use serde::de::{Deserializer, SeqAccess, Visitor};

/// Reads one text or several; `expecting` says in errors what they are.
pub(super) fn texts<'de, D: Deserializer<'de>>(
    deserializer: D,
    expecting: &'static str,
) -> Result<Vec<String>, D::Error> {
    deserializer.deserialize_any(Texts(expecting))
}

struct Texts(&'static str);

impl<'de> Visitor<'de> for Texts {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E>(self, text: &str) -> Result<Vec<String>, E> {
        Ok(vec![text.to_owned()])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<String>, A::Error> {
        let mut texts = Vec::new();
        while let Some(text) = list.next_element()? {
            texts.push(text);
        }
        Ok(texts)
    }
}
