//! The name that a user may have meant.

/// The known name that is most like `wrong`, if one is alike enough.
pub(crate) fn nearest<'a>(wrong: &str, known: &[&'a str]) -> Option<&'a str> {
    let distances = known.iter().map(|name| (strsim::osa_distance(wrong, name), *name));
    let (distance, name) = distances.min()?;
    (distance <= 1 + wrong.chars().count() / 3).then_some(name)
}
