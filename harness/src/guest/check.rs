//! A check of a scenario's report, as a line of text.
//!
//! A check is two expressions with `=`, `!=`, `<`, `<=`, `>` or `>=` between them, or one that must not be 0.
//! Expressions are sums, products and quotients of whole numbers (optionally with K, M or G) and of step results. The
//! argument STEP is the name of a step.
//!
//! | | |
//! |---|---|
//! | `number(STEP)` | the number that the step printed |
//! | `exit(STEP)` | its exit status |
//! | `millis(STEP)` | its duration |
//! | `bytes(STEP)` | the length of its output |
//! | `says(STEP, "words")` | 1 if its output or its errors contain the words |
//! | `same(STEP, STEP)` | 1 if both outputs are the same |
//! | `json(STEP, a.0.b)` | a number in its JSON output |
//! | `hbmw(STEP)`, `mbmw(STEP)`, `mbe(STEP)` | bytes, from `nvme fdp stats` |
//! | `handles(STEP)` | placement identifiers in `nvme fdp status` |
//! | `ruhid(STEP, PID)`, `ruamw(STEP, PID)` | handle and remaining blocks, from `nvme fdp status` |

use super::frames::{Frames, Step};
use super::json;
use super::nvme_cli::{self, Handle};

/// A check of a report.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Check {
    text: String,
    left: Expression,
    right: Option<(Relation, Expression)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Longer operators first, because a shorter one may be a prefix.
const RELATIONS: [(&str, Relation); 6] = [
    ("!=", Relation::Unequal),
    ("<=", Relation::LessOrEqual),
    (">=", Relation::GreaterOrEqual),
    ("=", Relation::Equal),
    ("<", Relation::Less),
    (">", Relation::Greater),
];

#[derive(Debug, Clone, PartialEq)]
enum Expression {
    Number(i128),
    Call { name: String, arguments: Vec<String> },
    Operation(Box<Expression>, char, Box<Expression>),
}

/// Functions, and the number of their arguments.
const FUNCTIONS: [(&str, usize); 13] = [
    ("number", 1),
    ("exit", 1),
    ("millis", 1),
    ("bytes", 1),
    ("says", 2),
    ("same", 2),
    ("json", 2),
    ("hbmw", 1),
    ("mbmw", 1),
    ("mbe", 1),
    ("handles", 1),
    ("ruhid", 2),
    ("ruamw", 2),
];

impl Check {
    /// Parses a line.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let told = |message: String| format!("check {text}: {message}");
        let mut reader = Reader { rest: text.trim() };
        let left = reader.sum().map_err(told)?;
        let relation = RELATIONS.iter().find(|(sign, _)| reader.takes(sign));
        let right = match relation {
            Some((_, relation)) => Some((*relation, reader.sum().map_err(told)?)),
            None => None,
        };
        if !reader.rest.trim().is_empty() {
            return Err(told(format!("cannot understand {:?}", reader.rest.trim())));
        }
        Ok(Self { text: text.trim().to_owned(), left, right })
    }

    /// The text of the line.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Whether it checks the exit status of this step, which then may differ from 0.
    pub(super) fn judges_exit_of(&self, step: &str) -> bool {
        let right = self.right.iter().map(|(_, right)| right);
        std::iter::once(&self.left).chain(right).any(|side| side.calls("exit", step))
    }

    /// Evaluates the check. Returns whether it holds, and the values of both sides.
    pub(super) fn judge(&self, frames: &Frames) -> Result<(bool, String), String> {
        let left = self.left.value(frames)?;
        let Some((relation, right)) = &self.right else {
            return Ok((left != 0, left.to_string()));
        };
        let right = right.value(frames)?;
        let holds = match relation {
            Relation::Equal => left == right,
            Relation::Unequal => left != right,
            Relation::Less => left < right,
            Relation::LessOrEqual => left <= right,
            Relation::Greater => left > right,
            Relation::GreaterOrEqual => left >= right,
        };
        Ok((holds, format!("{left} and {right}")))
    }
}

impl Expression {
    fn calls(&self, function: &str, step: &str) -> bool {
        match self {
            Self::Number(_) => false,
            Self::Call { name, arguments } => name == function && arguments[0] == step,
            Self::Operation(left, _, right) => {
                left.calls(function, step) || right.calls(function, step)
            }
        }
    }

    fn value(&self, frames: &Frames) -> Result<i128, String> {
        match self {
            Self::Number(number) => Ok(*number),
            Self::Call { name, arguments } => {
                let step = frames.step(&arguments[0])?;
                let second = arguments.get(1).map_or("", String::as_str);
                let told = |message: String| format!("{name}({}): {message}", arguments.join(", "));
                call(name, step, second, frames).map_err(told)
            }
            Self::Operation(left, operator, right) => {
                let (left, right) = (left.value(frames)?, right.value(frames)?);
                let result = match operator {
                    '+' => left.checked_add(right),
                    '-' => left.checked_sub(right),
                    '*' => left.checked_mul(right),
                    _ => left.checked_div(right),
                };
                result.ok_or_else(|| format!("no number is {left} {operator} {right}"))
            }
        }
    }
}

fn call(name: &str, step: &Step, second: &str, frames: &Frames) -> Result<i128, String> {
    let text = step.text();
    let number = |word: &str| word.parse().map_err(|_| format!("{word:?} is no whole number"));
    match name {
        "number" => number(text.trim()),
        "exit" => Ok(i128::from(step.status)),
        // Uptimes have two decimals.
        "millis" => number(&format!("{:.0}", step.seconds * 1000.0)),
        "bytes" => i128::try_from(step.output.len()).map_err(|cause| cause.to_string()),
        "says" => {
            let errors = String::from_utf8_lossy(&step.errors);
            Ok(i128::from(text.contains(second) || errors.contains(second)))
        }
        "same" => Ok(i128::from(frames.step(second)?.output == step.output)),
        "json" => json::number(json::at(&json::read(&text)?, second)?),
        "hbmw" => Ok(nvme_cli::stats(&text)?.hbmw),
        "mbmw" => Ok(nvme_cli::stats(&text)?.mbmw),
        "mbe" => Ok(nvme_cli::stats(&text)?.mbe),
        "handles" => {
            i128::try_from(nvme_cli::status(&text)?.len()).map_err(|cause| cause.to_string())
        }
        _ => {
            let pid = number(second)?;
            let handles = nvme_cli::status(&text)?;
            let found: Option<&Handle> = handles.iter().find(|handle| handle.pid == pid);
            let handle = found.ok_or_else(|| format!("no placement identifier {pid}"))?;
            Ok(if name == "ruhid" { handle.ruhid } else { handle.ruamw })
        }
    }
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn takes(&mut self, sign: &str) -> bool {
        let rest = self.rest.trim_start().strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn sum(&mut self) -> Result<Expression, String> {
        self.operations(&['+', '-'], Self::product)
    }

    fn product(&mut self) -> Result<Expression, String> {
        self.operations(&['*', '/'], Self::term)
    }

    fn operations(
        &mut self,
        operators: &[char],
        part: fn(&mut Self) -> Result<Expression, String>,
    ) -> Result<Expression, String> {
        let mut all = part(self)?;
        while let Some(operator) = operators.iter().find(|sign| self.takes(&sign.to_string())) {
            all = Expression::Operation(Box::new(all), *operator, Box::new(part(self)?));
        }
        Ok(all)
    }

    fn term(&mut self) -> Result<Expression, String> {
        if self.takes("(") {
            let inner = self.sum()?;
            return if self.takes(")") { Ok(inner) } else { Err("a ) is missing".to_owned()) };
        }
        let rest = self.rest.trim_start();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        self.rest = rest;
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            return Ok(Expression::Number(size(word)?.into()));
        }
        let Some((name, count)) = FUNCTIONS.iter().find(|(name, _)| *name == word) else {
            return Err(format!("there is no function {word:?}"));
        };
        let arguments = self.arguments()?;
        if arguments.len() == *count {
            Ok(Expression::Call { name: (*name).to_owned(), arguments })
        } else {
            Err(format!("{name} has {count} arguments, not {}", arguments.len()))
        }
    }

    fn arguments(&mut self) -> Result<Vec<String>, String> {
        if !self.takes("(") {
            return Err("a ( is missing".to_owned());
        }
        let mut arguments = Vec::new();
        loop {
            let (stop, quoted) = if self.takes("\"") { ("\"", true) } else { (",)", false) };
            let end = self.rest.find(|c: char| stop.contains(c)).ok_or("a ) is missing")?;
            let (argument, rest) = self.rest.split_at(end);
            arguments.push(if quoted { argument } else { argument.trim() }.to_owned());
            self.rest = if quoted { &rest[1..] } else { rest };
            if self.takes(")") {
                return Ok(arguments);
            }
            if !self.takes(",") {
                return Err("a comma is missing".to_owned());
            }
        }
    }
}

/// Parses a number of bytes or of anything else: `16M`.
pub(super) fn size(word: &str) -> Result<u64, String> {
    let (digits, shift) = match word.char_indices().next_back() {
        Some((at, 'K')) => (&word[..at], 10),
        Some((at, 'M')) => (&word[..at], 20),
        Some((at, 'G')) => (&word[..at], 30),
        _ => (word, 0),
    };
    let number: Option<u64> = digits.parse().ok();
    let whole = number.and_then(|number| number.checked_mul(1 << shift));
    whole.ok_or_else(|| format!("{word:?} is no number with K, M or G behind it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames() -> Frames {
        let room =
            "Placement Identifier 3; Reclaim Unit Handle Identifier 5\n (RUAMW): 4096, etc.\n";
        let steps = [
            ("n", 0, "42\n", "", "1.00 1.25"),
            ("m", 2, "42", "oh!", "1 1"),
            ("j", 0, "{\"a\":[{\"b\":\"9\"}]}", "", "1 1"),
            ("s", 0, room, "", "1 1"),
        ];
        let frame = |(name, status, out, err, times): (&str, i32, &str, &str, &str)| {
            format!("@end {name} {status} {} {} {times}\n{out}{err}\n", out.len(), err.len())
        };
        let text: String = steps.into_iter().map(frame).collect();
        Frames::read(text.as_bytes()).unwrap()
    }

    fn judged(text: &str) -> Result<(bool, String), String> {
        Check::read(text).and_then(|check| check.judge(&frames()))
    }

    #[test]
    fn checks_compare_what_steps_gave() {
        for (text, holds, measured) in [
            ("number(n) = 42", true, "42 and 42"),
            ("number(n) - 2 * 1K + 6 = 2*(0-1000)", true, "-2000 and -2000"),
            ("number(n) != 42", false, "42 and 42"),
            ("exit(m) > 1", true, "2 and 1"),
            ("says(m, \"oh\")", true, "1"),
            ("says(m, \"a, (b)\")", false, "0"),
            ("same(n, m)", false, "0"),
            ("json(j, a.0.b) <= 9", true, "9 and 9"),
            ("millis(n) >= 251", false, "250 and 251"),
            ("ruamw(s, 3) + ruhid(s, 3) < 5M", true, "4101 and 5242880"),
            ("handles(s)", true, "1"),
        ] {
            assert_eq!(judged(text), Ok((holds, measured.to_owned())), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_judged_says_why() {
        for (text, word) in [
            ("number(x) = 1", "no step x"),
            ("number(j) = 1", "no whole number"),
            ("hbmw(n) = 1", "hbmw(n)"),
            ("ruamw(s, 4) = 1", "no placement identifier 4"),
            ("bits(n) = 1", "no function \"bits\""),
            ("same(n) = 1", "2 arguments"),
            ("number(n = 1", "missing"),
            ("number(n) = 1 2", "cannot understand"),
            ("", "no function"),
            ("number(n) = 1X", "no number"),
        ] {
            let error = judged(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn a_check_knows_whose_exit_it_judges() {
        let check = Check::read("0 < exit(m) + 1").unwrap();
        assert!(check.judges_exit_of("m") && !check.judges_exit_of("n"));
    }
}
