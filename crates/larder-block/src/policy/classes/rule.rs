//! The rule of an IO class: conditions on a request, joined from left to right.

use std::fmt;

use super::RequestFacts;
use crate::layout::SECTOR_BYTES;
use crate::policy::Direction;

/// Conditions, each with the joint to the conditions before it. The first has `|`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule(Vec<(Joint, Condition)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Joint {
    And,
    Or,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Condition {
    Number(Field, Operator, u64),
    Direction(Direction),
    Fua,
    Export(Box<str>),
    /// Always holds, and ends the search for a class.
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    /// Size of the request in bytes.
    RequestSize,
    /// The first sector of 512 bytes.
    Lba,
    CoreId,
    /// The class by the rules before this one.
    IoClass,
}

const FIELDS: [(Field, &str); 4] = [
    (Field::RequestSize, "request_size"),
    (Field::Lba, "lba"),
    (Field::CoreId, "core_id"),
    (Field::IoClass, "io_class"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
    GreaterOrEqual,
    Greater,
}

const OPERATORS: [(Operator, &str); 6] = [
    (Operator::Less, "lt"),
    (Operator::LessOrEqual, "le"),
    (Operator::Equal, "eq"),
    (Operator::NotEqual, "ne"),
    (Operator::GreaterOrEqual, "ge"),
    (Operator::Greater, "gt"),
];

/// Conditions of Open CAS that only the kernel's page cache can answer.
const OF_THE_KERNEL: [&str; 10] = [
    "metadata",
    "direct",
    "file_size",
    "directory",
    "extension",
    "file_name_prefix",
    "pid",
    "process_name",
    "file_offset",
    "wlth",
];
const KNOWN: &str = "request_size, lba, core_id, io_class, io_direction, fua, export or done";

/// The result of a rule for a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) holds: bool,
    /// The search for a class ends here.
    pub(super) is_last: bool,
}

impl Rule {
    /// Parses a rule. The error says what is wrong, and what to do.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut conditions = Vec::new();
        let (mut joint, mut rest) = (Joint::Or, Some(text));
        while let Some(text) = rest {
            let end = text.find(['&', '|']);
            let condition = Condition::parse(&text[..end.unwrap_or(text.len())])?;
            conditions.push((joint, condition));
            rest = end.map(|end| &text[end + 1..]);
            joint = if end.is_some_and(|end| text.as_bytes()[end] == b'&') {
                Joint::And
            } else {
                Joint::Or
            };
        }
        Ok(Self(conditions))
    }

    /// Evaluates the rule for a request that has `class` by the rules before it.
    pub(super) fn judge(&self, facts: &RequestFacts, class: u8) -> Verdict {
        let mut verdict = Verdict::default();
        for (joint, condition) in &self.0 {
            match joint {
                // As in Open CAS, the rest of the rule is ignored.
                Joint::And if !verdict.holds => break,
                Joint::And => verdict.holds = condition.holds(facts, class),
                Joint::Or => verdict.holds |= condition.holds(facts, class),
            }
            if *condition == Condition::Done {
                verdict.is_last = true;
                break;
            }
        }
        verdict
    }
}

impl Condition {
    fn parse(text: &str) -> Result<Self, String> {
        let (name, operand) =
            text.split_once(':').map_or((text, None), |(name, it)| (name, Some(it)));
        let alone = |condition| match operand {
            None => Ok(condition),
            Some(operand) => {
                Err(format!("condition {name:?} has an operand, {operand:?}: leave it away"))
            }
        };
        if let Some((field, _)) = FIELDS.into_iter().find(|(_, it)| *it == name) {
            return Self::parse_number(field, text, operand.unwrap_or_default());
        }
        match name {
            "done" => alone(Self::Done),
            "fua" => alone(Self::Fua),
            "io_direction" => match operand {
                Some("read") => Ok(Self::Direction(Direction::Read)),
                Some("write") => Ok(Self::Direction(Direction::Write)),
                _ => {
                    Err(format!("condition {text:?}: give io_direction:read or io_direction:write"))
                }
            },
            "export" => match operand {
                None | Some("") => Err(format!("condition {text:?}: give export:NAME")),
                Some(export) => Ok(Self::Export(export.into())),
            },
            "" => Err("an empty condition: give one before and behind each & and |".to_owned()),
            name if OF_THE_KERNEL.contains(&name) => {
                Err(format!("condition {name:?} is known inside of a kernel only: give {KNOWN}"))
            }
            name => Err(format!("condition {name:?} is unknown: give {KNOWN}")),
        }
    }

    fn parse_number(field: Field, text: &str, operand: &str) -> Result<Self, String> {
        let (operator, number) = operand.split_once(':').unwrap_or(("eq", operand));
        let operator = OPERATORS.into_iter().find(|(_, name)| *name == operator);
        match (operator, number.parse()) {
            (Some((operator, _)), Ok(number)) => Ok(Self::Number(field, operator, number)),
            (None, _) => {
                Err(format!("condition {text:?}: give lt, le, eq, ne, ge or gt before the number"))
            }
            (_, Err(_)) => Err(format!("condition {text:?}: give a number of 0 to {}", u64::MAX)),
        }
    }

    fn holds(&self, facts: &RequestFacts, class: u8) -> bool {
        match self {
            Self::Number(field, operator, number) => {
                let value = match field {
                    Field::RequestSize => u64::from(facts.span.sectors) * SECTOR_BYTES as u64,
                    Field::Lba => facts.span.first,
                    Field::CoreId => u64::from(facts.span.core.get()),
                    Field::IoClass => u64::from(class),
                };
                operator.holds(value, *number)
            }
            Self::Direction(direction) => facts.direction == *direction,
            Self::Fua => facts.is_fua,
            Self::Export(export) => facts.export == &**export,
            Self::Done => true,
        }
    }
}

impl Operator {
    fn holds(self, value: u64, number: u64) -> bool {
        match self {
            Self::Less => value < number,
            Self::LessOrEqual => value <= number,
            Self::Equal => value == number,
            Self::NotEqual => value != number,
            Self::GreaterOrEqual => value >= number,
            Self::Greater => value > number,
        }
    }
}

/// The name of an entry of the table.
fn name_of<T: Copy + PartialEq>(table: &[(T, &'static str)], wanted: T) -> &'static str {
    let found = table.iter().find(|(it, _)| *it == wanted);
    found.expect("each has a name").1
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (joint, condition)) in self.0.iter().enumerate() {
            match joint {
                _ if at == 0 => {}
                Joint::And => f.write_str("&")?,
                Joint::Or => f.write_str("|")?,
            }
            condition.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(field, operator, number) => {
                write!(
                    f,
                    "{}:{}:{number}",
                    name_of(&FIELDS, *field),
                    name_of(&OPERATORS, *operator)
                )
            }
            Self::Direction(Direction::Read) => f.write_str("io_direction:read"),
            Self::Direction(Direction::Write) => f.write_str("io_direction:write"),
            Self::Fua => f.write_str("fua"),
            Self::Export(export) => write!(f, "export:{export}"),
            Self::Done => f.write_str("done"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{CoreId, Span};

    fn facts(core: u16, first: u64, sectors: u32) -> RequestFacts<'static> {
        let span = Span { core: CoreId::new(core).unwrap(), first, sectors };
        RequestFacts { span, direction: Direction::Read, is_fua: false, export: "vm-1" }
    }

    fn holds(rule: &str, facts: &RequestFacts) -> bool {
        let parsed = Rule::parse(rule).unwrap();
        assert_eq!(Rule::parse(&parsed.to_string()).unwrap(), parsed, "{rule}");
        parsed.judge(facts, 7).holds
    }

    #[test]
    fn each_condition_holds_where_it_should() {
        let read = facts(3, 1000, 8);
        let write =
            RequestFacts { direction: Direction::Write, is_fua: true, export: "vm-2", ..read };
        for (rule, of_read, of_write) in [
            ("request_size:4096", true, true),
            ("request_size:lt:4096", false, false),
            ("request_size:le:4096", true, true),
            ("request_size:gt:4095", true, true),
            ("lba:ge:1001", false, false),
            ("lba:ne:1001", true, true),
            ("core_id:3", true, true),
            ("core_id:eq:2", false, false),
            ("io_class:7", true, true),
            ("io_direction:read", true, false),
            ("io_direction:write", false, true),
            ("fua", false, true),
            ("export:vm-1", true, false),
            ("done", true, true),
            // Conditions are evaluated from left to right.
            ("fua|core_id:3&io_direction:read", true, false),
            ("core_id:3|core_id:4&fua", false, true),
            // A condition after a failed `&` cannot make the rule hold.
            ("core_id:4&fua|lba:1000", false, false),
            ("core_id:4|lba:1000", true, true),
        ] {
            assert_eq!(holds(rule, &read), of_read, "{rule} of a read");
            assert_eq!(holds(rule, &write), of_write, "{rule} of a write");
        }
    }

    #[test]
    fn done_ends_the_search_only_where_the_rule_gets_to_it() {
        let judge = |rule: &str| Rule::parse(rule).unwrap().judge(&facts(3, 0, 8), 0);
        assert_eq!(judge("core_id:3&done"), Verdict { holds: true, is_last: true });
        assert_eq!(judge("core_id:4&done"), Verdict { holds: false, is_last: false });
        assert_eq!(judge("core_id:3"), Verdict { holds: true, is_last: false });
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (rule, message) in [
            ("", "an empty condition: give one before and behind each & and |"),
            ("fua&", "an empty condition: give one before and behind each & and |"),
            ("fua:1", "condition \"fua\" has an operand, \"1\": leave it away"),
            ("lba:10x", "condition \"lba:10x\": give a number of 0 to 18446744073709551615"),
            (
                "lba:above:10",
                "condition \"lba:above:10\": give lt, le, eq, ne, ge or gt before the number",
            ),
            (
                "io_direction:both",
                "condition \"io_direction:both\": give io_direction:read or io_direction:write",
            ),
            ("export", "condition \"export\": give export:NAME"),
            (
                "metadata",
                "condition \"metadata\" is known inside of a kernel only: give request_size, lba",
            ),
            ("size:1", "condition \"size\" is unknown: give request_size, lba"),
        ] {
            let found = Rule::parse(rule).unwrap_err();
            assert!(found.starts_with(message), "{rule}: {found}");
        }
    }
}
