//! Two keys that are always written together, and their values.

/// The values of both keys.
pub(super) type Pair = [Option<Vec<u8>>; 2];

/// Which write a value is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) round: u32,
    pub(super) thread: u32,
    pub(super) number: u32,
}

/// Bytes of a value.
const VALUE_BYTES: usize = 600;

pub(super) fn keys_of(group: u32) -> [Vec<u8>; 2] {
    ["a", "b"].map(|name| format!("{{{group}}}{name}").into_bytes())
}

/// Each round has counters of its own: what a kill leaves of others is not known.
pub(super) fn counter_of(round: u32, group: u32) -> Vec<u8> {
    format!("{{{group}}}c{round}").into_bytes()
}

pub(super) fn value_of(mark: Mark) -> Vec<u8> {
    let Mark { round, thread, number } = mark;
    let mut value = format!("{round}:{thread}:{number}:").into_bytes();
    let pad = u8::try_from(number % 26).unwrap_or(0) + b'a';
    value.resize(VALUE_BYTES, pad);
    value
}

/// The write that a value is of; `None`: it is of none.
fn mark_of(value: &[u8]) -> Option<Mark> {
    let text = std::str::from_utf8(value).ok()?;
    let mut words = text.split(':').map(|word| word.parse::<u32>().ok());
    let mut next = || words.next().flatten();
    let mark = Mark { round: next()?, thread: next()?, number: next()? };
    (value_of(mark) == value).then_some(mark)
}

/// What is wrong with a pair that is read in one step: both values must be of the same write, if both are there.
pub(super) fn wrong_in(pair: &Pair) -> Option<String> {
    let marks = pair.each_ref().map(|value| value.as_ref().map(|value| mark_of(value)));
    match marks {
        [Some(None), _] | [_, Some(None)] => Some("a value of no write".into()),
        [Some(Some(one)), Some(Some(other))] if one != other => {
            Some(format!("the values of two writes: {one:?} and {other:?}"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_one_write_are_told_from_others() {
        let of = |number| Some(value_of(Mark { round: 1, thread: 2, number }));
        assert_eq!(wrong_in(&[of(3), of(3)]), None);
        assert_eq!(wrong_in(&[of(3), None]), None);
        assert_eq!(wrong_in(&[None, None]), None);
        assert!(wrong_in(&[of(3), of(4)]).is_some_and(|said| said.contains("two writes")));
        let mut torn = of(3);
        torn.as_mut().unwrap()[500] = b'x';
        assert!(wrong_in(&[torn, None]).is_some_and(|said| said.contains("no write")));
    }
}
