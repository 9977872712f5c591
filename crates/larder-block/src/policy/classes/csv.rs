//! IO classes as text, in the CSV form of Open CAS: a header line, then one class per line.

use std::fmt;
use std::str::FromStr;

use super::rule::Rule;
use super::{ClassId, IoClass, IoClasses, UNCLASSIFIED};
use crate::{Error, ErrorKind};

/// The columns of Open CAS, and one optional column after them.
const HEADER: [&str; 5] =
    ["IO class id", "IO class name", "Eviction priority", "Allocation", "Cache mode"];
/// The columns that are required.
const COLUMNS_MIN: usize = 4;

impl FromStr for IoClasses {
    type Err = Error;

    /// # Errors
    /// [`ErrorKind::Setup`]; the message names line, field, value and fix.
    fn from_str(text: &str) -> Result<Self, Error> {
        let lines = text.lines().map(str::trim).enumerate();
        let mut lines = lines.filter(|(_, line)| !line.is_empty()).map(|(at, line)| (at + 1, line));
        let (number, header) = lines.next().unwrap_or((1, ""));
        check_header(header).map_err(|message| error(number, &message))?;
        let mut classes = Self::default();
        let mut seen = [false; ClassId::COUNT];
        for (number, line) in lines {
            let class = parse_class(line).map_err(|message| error(number, &message))?;
            let id = class.id;
            if std::mem::replace(&mut seen[usize::from(id.get())], true) {
                let message =
                    format!("{} of {:?} is there twice: give each id once", HEADER[0], id.get());
                return Err(error(number, &message));
            }
            classes.set(class);
        }
        Ok(classes)
    }
}

fn error(line: usize, message: &str) -> Error {
    Error::new(ErrorKind::Setup, format!("IO classes, line {line}: {message}"))
}

fn check_header(line: &str) -> Result<(), String> {
    let fields: Vec<&str> = line.trim_start_matches('\u{feff}').split(',').map(str::trim).collect();
    let is_known = (COLUMNS_MIN..=HEADER.len()).contains(&fields.len())
        && fields.iter().zip(HEADER).all(|(field, name)| field.eq_ignore_ascii_case(name));
    let names = HEADER[..COLUMNS_MIN].join(",");
    if is_known {
        Ok(())
    } else {
        Err(format!("header of {line:?}: give {names:?}, and {:?} if wanted", HEADER[4]))
    }
}

fn parse_class(line: &str) -> Result<IoClass, String> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    if !(COLUMNS_MIN..=HEADER.len()).contains(&fields.len()) {
        return Err(format!(
            "{} fields in {line:?}: give 4 or 5, with a comma between two",
            fields.len()
        ));
    }
    let wrong = |at: usize, fix: &str| format!("{} of {:?}: {fix}", HEADER[at], fields[at]);
    let id = fields[0].parse().ok().and_then(ClassId::new);
    let id = id.ok_or_else(|| wrong(0, "give 0 to 33"))?;
    let rule = match (id, fields[1]) {
        (ClassId::UNCLASSIFIED, UNCLASSIFIED) => None,
        (ClassId::UNCLASSIFIED, _) => return Err(wrong(1, "give \"unclassified\" to class 0")),
        (_, text) => Some(Rule::parse(text).map_err(|fix| wrong(1, &fix))?),
    };
    let priority = match fields[2] {
        "" => None,
        text => {
            let fix = "give 0 (evicted last) to 255, or nothing for a class that is never evicted";
            Some(text.parse().map_err(|_| wrong(2, fix))?)
        }
    };
    let fix = "give a part of the cache of 0.00 to 1.00";
    let allocation_percent = parse_part(fields[3]).ok_or_else(|| wrong(3, fix))?;
    let mode = match fields.get(4) {
        None | Some(&"") => None,
        Some(text) => Some(text.parse().map_err(|error: Error| wrong(4, &error.to_string()))?),
    };
    Ok(IoClass { id, rule, priority, allocation_percent, mode })
}

/// Parses a fraction of 0.00 to 1.00 into hundredths.
fn parse_part(text: &str) -> Option<u8> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(decimals) || decimals.len() > 2 {
        return None;
    }
    let whole: u8 = whole.parse().ok()?;
    let decimals = decimals.parse::<u8>().ok()? * if decimals.len() == 1 { 10 } else { 1 };
    whole.checked_mul(100)?.checked_add(decimals).filter(|percent| *percent <= 100)
}

impl fmt::Display for IoClasses {
    /// Text that [parses](Self::from_str) to the same classes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_modes = self.iter().any(|class| class.mode.is_some());
        let columns = if has_modes { HEADER.len() } else { COLUMNS_MIN };
        writeln!(f, "{}", HEADER[..columns].join(","))?;
        for class in self.iter() {
            write!(f, "{},{},", class.id.get(), class.name())?;
            if let Some(priority) = class.priority {
                write!(f, "{priority}")?;
            }
            let percent = class.allocation_percent;
            write!(f, ",{}.{:02}", percent / 100, percent % 100)?;
            match class.mode {
                Some(mode) => write!(f, ",{mode}")?,
                None if has_modes => f.write_str(",")?,
                None => {}
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EXAMPLE: &str = "IO class id,IO class name,Eviction priority,Allocation
        0,unclassified,22,1.00
        1,request_size:ge:1048576&done,,0.00
        5,export:db|core_id:2,0,0.5
    ";

    #[test]
    fn a_file_of_open_cas_is_read() {
        let classes: IoClasses = EXAMPLE.parse().unwrap();
        let printed = "IO class id,IO class name,Eviction priority,Allocation\n\
                       0,unclassified,22,1.00\n\
                       1,request_size:ge:1048576&done,,0.00\n\
                       5,export:db|core_id:eq:2,0,0.50\n";
        assert_eq!(classes.to_string(), printed);
        assert_eq!(printed.parse::<IoClasses>().unwrap(), classes);
        let with_mode =
            EXAMPLE.replace("Allocation", "Allocation,Cache mode").replace("0.5", "0.5,wb");
        let classes: IoClasses = with_mode.parse().unwrap();
        assert!(classes.to_string().contains("0,unclassified,22,1.00,\n"), "{classes}");
        assert!(classes.to_string().contains(",0,0.50,write-back\n"), "{classes}");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let of = |line: &str| {
            let text = format!("{}\n\n{line}\n", HEADER[..4].join(","));
            text.parse::<IoClasses>().unwrap_err().to_string()
        };
        for (line, message) in [
            ("34,fua,1,1", "IO classes, line 3: IO class id of \"34\": give 0 to 33"),
            ("x,fua,1,1", "IO classes, line 3: IO class id of \"x\": give 0 to 33"),
            (
                "0,fua,1,1",
                "IO classes, line 3: IO class name of \"fua\": give \"unclassified\" to class 0",
            ),
            (
                "1,foo,1,1",
                "IO classes, line 3: IO class name of \"foo\": condition \"foo\" is unknown: give",
            ),
            (
                "1,fua,256,1",
                "IO classes, line 3: Eviction priority of \"256\": give 0 (evicted last) to 255, or",
            ),
            (
                "1,fua,1,1.01",
                "IO classes, line 3: Allocation of \"1.01\": give a part of the cache of 0.00 to 1.00",
            ),
            ("1,fua,1,0.012", "IO classes, line 3: Allocation of \"0.012\": give"),
            ("1,fua,1,", "IO classes, line 3: Allocation of \"\": give"),
            (
                "1,fua,1,1,quick",
                "IO classes, line 3: Cache mode of \"quick\": cache mode \"quick\": give one of",
            ),
            ("1,fua,1", "IO classes, line 3: 3 fields in \"1,fua,1\": give 4 or 5"),
            ("1,fua,1,1\n1,fua,1,1", "IO classes, line 4: IO class id of 1 is there twice"),
        ] {
            assert!(of(line).starts_with(message), "{line}: {}", of(line));
        }
        let header = "id,name\n".parse::<IoClasses>().unwrap_err().to_string();
        assert!(
            header.starts_with("IO classes, line 1: header of \"id,name\": give \"IO class id,"),
            "{header}"
        );
        assert!("".parse::<IoClasses>().is_err());
    }

    /// Text that often is a valid file of classes.
    fn text() -> impl Strategy<Value = String> {
        let condition = prop_oneof![
            "(request_size|lba|core_id|io_class):(lt|le|eq|ne|ge|gt):[0-9]{1,20}",
            "(fua|done|io_direction:read|io_direction:write|core_id:[0-9]|export:[a-z \u{e9}]{0,3}|\\PC{0,8})",
        ];
        let rule = (condition.clone(), proptest::collection::vec(("[&|]", condition), 0..4));
        let rule = rule.prop_map(|(first, more)| {
            more.into_iter().fold(first, |rule, (joint, condition)| rule + &joint + &condition)
        });
        let class = (
            "[0-9]{1,2}",
            rule,
            "([0-9]{0,3}|x)",
            "(0|1|0\\.[0-9]{1,2}|1\\.0{0,2}|[0-9.]{0,4})",
            "(|,wb|,|,,)",
        );
        let class = class.prop_map(|(id, rule, priority, part, mode)| {
            format!("{id},{rule},{priority},{part}{mode}")
        });
        let lines = proptest::collection::vec(class, 0..4);
        lines.prop_map(|lines| format!("{}\n{}", HEADER[..4].join(","), lines.join("\n")))
    }

    proptest! {
        #[test]
        fn nothing_makes_the_parser_panic_and_what_is_printed_is_parsed_again(
            text in prop_oneof![4 => text(), 1 => any::<String>()]
        ) {
            if let Ok(classes) = text.parse::<IoClasses>() {
                let printed = classes.to_string();
                prop_assert_eq!(printed.parse::<IoClasses>().unwrap(), classes, "{}", printed);
            }
        }
    }
}
