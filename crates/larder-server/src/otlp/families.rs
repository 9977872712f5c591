//! Parses the text of `/metrics` into families.

/// The type of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
    Info,
}

/// A family, with its samples in order.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Family {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) unit: String,
    pub(super) help: String,
    pub(super) samples: Vec<Sample>,
}

/// A line with a number.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sample {
    /// What follows the family's name: "_total", "_bucket" and the like.
    pub(super) suffix: String,
    pub(super) labels: Vec<(String, String)>,
    /// As written: an integer, or with a decimal point.
    pub(super) value: String,
}

/// All families of a page. Unknown lines are skipped.
pub(super) fn parse(page: &str) -> Vec<Family> {
    let mut families: Vec<Family> = Vec::new();
    for line in page.lines() {
        match line.strip_prefix("# ") {
            Some(told) => describe(&mut families, told),
            None => {
                if let Some(family) = families.last_mut() {
                    family.samples.extend(sample(line, &family.name));
                }
            }
        }
    }
    families
}

/// Parses "TYPE name kind", which begins a family, "UNIT name unit" and "HELP name text".
fn describe(families: &mut Vec<Family>, told: &str) {
    let mut words = told.splitn(3, ' ');
    let (Some(what), Some(name), Some(text)) = (words.next(), words.next(), words.next()) else {
        return;
    };
    let kind = match text {
        "counter" => Kind::Counter,
        "histogram" => Kind::Histogram,
        "info" => Kind::Info,
        _ => Kind::Gauge,
    };
    if what == "TYPE" {
        let (unit, help, samples) = (String::new(), String::new(), Vec::new());
        families.push(Family { name: name.to_owned(), kind, unit, help, samples });
        return;
    }
    let Some(family) = families.last_mut().filter(|family| family.name == name) else { return };
    match what {
        "UNIT" => text.clone_into(&mut family.unit),
        "HELP" => text.clone_into(&mut family.help),
        _ => {}
    }
}

/// Parses `name_suffix{label="value",…} number`.
fn sample(line: &str, family: &str) -> Option<Sample> {
    let rest = line.strip_prefix(family)?;
    let end = rest.find(['{', ' '])?;
    let (suffix, rest) = rest.split_at(end);
    let mut labels = Vec::new();
    let mut rest = rest;
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        while !rest.starts_with('}') {
            let (name, behind) = rest.trim_start_matches(',').split_once("=\"")?;
            let (value, behind) = quoted(behind)?;
            labels.push((name.to_owned(), value));
            rest = behind;
        }
        rest = &rest[1..];
    }
    let value = rest.trim().to_owned();
    Some(Sample { suffix: suffix.to_owned(), labels, value })
}

/// The text up to the next unescaped quotation mark, and the rest behind it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match letters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_belong_to_the_family_before_them() {
        let page = "# TYPE a_bytes counter\n# UNIT a_bytes bytes\n# HELP a_bytes Some bytes.\n\
                    a_bytes_total{tenant=\"x\\\"y\\\\\\n,}\",n=\"2\"} 7\n\
                    # TYPE b gauge\nb 1.5\nc 3\n# EOF\n";
        let families = parse(page);
        assert_eq!(families.len(), 2);
        let Family { name, kind, unit, help, samples } = &families[0];
        assert_eq!(
            (&**name, *kind, &**unit, &**help),
            ("a_bytes", Kind::Counter, "bytes", "Some bytes.")
        );
        assert_eq!((&*samples[0].suffix, &*samples[0].value), ("_total", "7"));
        let labels =
            [("tenant".to_owned(), "x\"y\\\n,}".to_owned()), ("n".to_owned(), "2".to_owned())];
        assert_eq!(samples[0].labels, labels);
        assert_eq!(families[1].samples.len(), 1, "c is no sample of b");
    }

    #[test]
    fn lines_that_are_cut_are_left_out() {
        for line in ["a", "a{", "a{x", "a{x=\"", "a{x=\"y", "a{x=\"y\\"] {
            assert_eq!(sample(line, "a"), None, "{line}");
        }
    }
}
