//! The guest's report, in the frames that `init.sh` writes.

use std::str::{self, FromStr};

/// A command that ran in the guest.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Step {
    pub(super) name: String,
    pub(super) status: i32,
    pub(super) output: Vec<u8>,
    pub(super) errors: Vec<u8>,
    pub(super) seconds: f64,
}

impl Step {
    /// Its output.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.output).into_owned()
    }
}

/// Everything that has arrived so far.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Frames {
    pub(super) steps: Vec<Step>,
    /// Marks that the guest has sent, in order.
    pub(super) marks: Vec<String>,
    /// The step that has begun and has not ended.
    pub(super) running: Option<String>,
    /// Whether the scenario has reached its end.
    pub(super) done: bool,
}

impl Frames {
    /// Parses what has arrived. An incomplete frame is left for later.
    pub(super) fn read(mut bytes: &[u8]) -> Result<Self, String> {
        let mut frames = Self::default();
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let line =
                str::from_utf8(&bytes[..end]).map_err(|_| "a frame is no text".to_owned())?;
            let rest = &bytes[end + 1..];
            let words: Vec<&str> = line.split(' ').collect();
            match words.as_slice() {
                ["@begin", name] => frames.running = Some((*name).to_owned()),
                ["@mark", name] => frames.marks.push((*name).to_owned()),
                ["@done"] => frames.done = true,
                ["@end", name, numbers @ ..] => {
                    let Some((step, length)) = ended(name, numbers, line, rest)? else { break };
                    frames.steps.push(step);
                    frames.running = None;
                    bytes = &rest[length..];
                    continue;
                }
                _ => return Err(format!("no frame begins with {line:?}")),
            }
            bytes = rest;
        }
        Ok(frames)
    }

    /// The last step of this name.
    pub(super) fn step(&self, name: &str) -> Result<&Step, String> {
        let found = self.steps.iter().rev().find(|step| step.name == name);
        found.ok_or_else(|| format!("the guest ran no step {name}"))
    }
}

/// Parses a step from its line and the following bytes. Also returns the number of these bytes that belong to it.
fn ended(
    name: &str,
    numbers: &[&str],
    line: &str,
    rest: &[u8],
) -> Result<Option<(Step, usize)>, String> {
    let [status, output, errors, begin, end] = numbers else {
        return Err(format!("{line:?} needs five numbers"));
    };
    let (output, errors): (usize, usize) = (number(output, line)?, number(errors, line)?);
    let (begin, end): (f64, f64) = (number(begin, line)?, number(end, line)?);
    let status = number(status, line)?;
    let Some(length) = output.checked_add(errors).and_then(|sum| sum.checked_add(1)) else {
        return Err(format!("{line:?}: lengths that no file has"));
    };
    let Some(content) = rest.get(..length) else { return Ok(None) };
    if content.last() != Some(&b'\n') {
        return Err(format!("{line:?}: what follows is not as long as it says"));
    }
    let (output, errors) = content[..length - 1].split_at(output);
    let (output, errors) = (output.to_vec(), errors.to_vec());
    let step = Step { name: name.to_owned(), status, output, errors, seconds: end - begin };
    Ok(Some((step, length)))
}

fn number<T: FromStr>(word: &str, line: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("{line:?}: {word} is no number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &[u8] =
        b"@begin a\n@mark now\n@end a 3 12 4 10.25 10.75\n@done\n@end x\nerr\n@begin b\n\
          @end b 0 0 0 11.00 11.00\n\n@done\n";

    #[test]
    fn output_that_looks_like_frames_is_output() {
        let frames = Frames::read(WHOLE).unwrap();
        assert_eq!(frames.steps.len(), 2);
        let a = frames.step("a").unwrap();
        assert_eq!(
            (a.status, a.text().as_str(), a.errors.as_slice()),
            (3, "@done\n@end x", &b"\nerr"[..])
        );
        assert!((a.seconds - 0.5).abs() < 1e-9);
        assert_eq!(frames.marks, ["now"]);
        assert!(frames.done && frames.running.is_none());
        assert!(frames.step("c").unwrap_err().contains("no step c"));
    }

    #[test]
    fn any_beginning_is_read_as_far_as_it_goes() {
        let mut steps = 0;
        for length in 0..=WHOLE.len() {
            let frames = Frames::read(&WHOLE[..length]).unwrap();
            assert!(frames.steps.len() >= steps);
            assert_eq!(frames.done, length == WHOLE.len());
            steps = frames.steps.len();
        }
        assert_eq!(Frames::read(&WHOLE[..12]).unwrap().running.as_deref(), Some("a"));
    }

    #[test]
    fn damaged_frames_are_named() {
        for (bytes, word) in [
            (&b"hello\n"[..], "no frame"),
            (b"@end a 0 1\n", "five numbers"),
            (b"@end a 0 1 x 0 0\nab\n", "x is no number"),
            (b"@end a 0 1 1 0 0\nabcd\n", "not as long"),
            (b"@end a 0 18446744073709551615 1 0 0\n", "no file has"),
            (b"\xff\n", "no text"),
        ] {
            let error = Frames::read(bytes).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
