//! The plan as a table for people.

use std::fmt;
use std::time::Duration;

use super::{Assignment, Class, PlacementPlan};

const HEADINGS: [&str; 7] =
    ["tenant", "class", "lifetime", "writes", "handle", "shared with", "why"];
/// Right-aligned columns.
const RIGHT: [usize; 3] = [2, 3, 4];

impl fmt::Display for PlacementPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.streams.is_empty() {
            return f.write_str("no flash, no placement\n");
        }
        write!(f, "placement handles: {} (path: {})", self.handles, self.path)?;
        if self.groups > 1 {
            write!(f, " in {} reclaim groups", self.groups)?;
        }
        writeln!(f, "; lifetimes if the device is written over once a day")?;
        let mut rows = vec![HEADINGS.map(str::to_owned)];
        rows.extend(self.streams.chunk_by(are_one_row).map(row));
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
        let widths: Vec<usize> = (0..HEADINGS.len()).map(|i| width(i).unwrap_or(0)).collect();
        for row in &rows {
            let mut line = String::new();
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                line += &match RIGHT.contains(&column) {
                    true => format!("{cell:>width$}  "),
                    false => format!("{cell:<width$}  "),
                };
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Neighbouring TTL groups that share a handle take one row, because there are many of them.
fn are_one_row(one: &Assignment, other: &Assignment) -> bool {
    let is_group = |stream: &Assignment| matches!(stream.class, Class::ArrayGroup(_));
    let alike = |stream: &Assignment| (stream.tenant.clone(), stream.handle, stream.why);
    is_group(one) && is_group(other) && alike(one) == alike(other)
}

/// The cells of a row, for streams with the same tenant, handle and reason.
fn row(streams: &[Assignment]) -> [String; 7] {
    let [stream, ..] = streams else { return Default::default() };
    let or_dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    let is_in_row = |(tenant, class): &&(String, Class)| {
        *tenant == stream.tenant && streams.iter().any(|own| own.class == *class)
    };
    let others: Vec<(&str, Class)> = stream
        .shared_with
        .iter()
        .filter(|other| !is_in_row(other))
        .map(|(tenant, class)| (tenant.as_str(), *class))
        .collect();
    let name = |others: &[(&str, Class)]| match others {
        [(tenant, _), ..] if *tenant != stream.tenant => {
            format!("{tenant}: {}", classes(others.iter().map(|(_, class)| *class)))
        }
        others => classes(others.iter().map(|(_, class)| *class)),
    };
    let follows = |one: &(&str, Class), other: &(&str, Class)| {
        one.0 == other.0 && matches!((one.1, other.1), (Class::ArrayGroup(_), Class::ArrayGroup(_)))
    };
    let shared: Vec<String> = others.chunk_by(follows).map(name).collect();
    let lifetime = |stream: &Assignment| stream.lifetime.map_or("-".to_owned(), span);
    let (first, last) = (lifetime(stream), streams.last().map_or(String::new(), lifetime));
    let writes: f64 = streams.iter().map(|stream| stream.write_share).sum();
    [
        or_dash(stream.tenant.clone()),
        classes(streams.iter().map(|stream| stream.class)),
        if first == last { first } else { format!("{first} to {last}") },
        format!("{:.0} %", writes * 100.0),
        stream.handle.to_string(),
        or_dash(shared.join("; ")),
        stream.why.to_string(),
    ]
}

/// The name of a class, or of a range of TTL groups.
fn classes(mut classes: impl Iterator<Item = Class>) -> String {
    let first = classes.next();
    match (first, classes.last()) {
        (Some(Class::ArrayGroup(from)), Some(Class::ArrayGroup(to))) => {
            format!("array, TTL groups {from} to {to}")
        }
        (first, _) => first.map_or(String::new(), |class| class.to_string()),
    }
}

/// A duration in a suitable unit.
fn span(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        ..120.0 => format!("{seconds:.0} s"),
        ..7_200.0 => format!("{:.0} min", seconds / 60.0),
        ..172_800.0 => format!("{:.1} h", seconds / 3_600.0),
        _ => format!("{:.1} d", seconds / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use crate::placement::PlacementInfo;

    use super::super::{Class, Stream, solve};
    use super::*;

    #[test]
    fn groups_that_share_a_handle_are_one_row() {
        let stream = |class, write_share, hours: u64| Stream {
            tenant: String::new(),
            class,
            write_share,
            lifetime: Some(Duration::from_secs(hours * 3600)),
            places: true,
        };
        let mut streams = vec![stream(Class::Loc, 0.25, 300), stream(Class::ArrayTables, 0.03, 5)];
        streams.extend((0..6).map(|number| stream(Class::ArrayGroup(number), 0.12, 1 << number)));
        let with = |handles| {
            let placement = PlacementInfo { handles, path: "model", ..PlacementInfo::none() };
            solve(&streams, &placement).to_string()
        };
        let expected = "\
tenant  class                            lifetime  writes  handle  shared with
-       LOC                                12.5 d    25 %       1  -
-       array, tables                       5.0 h     3 %       2  -
-       array, TTL groups 0 to 1  60 min to 2.0 h    24 %       3  -
-       array, TTL groups 2 to 5  4.0 h to 32.0 h    48 %       4  -
";
        let table = with(5);
        let (rows, expected): (Vec<_>, Vec<_>) =
            (table.lines().skip(1).collect(), expected.lines().collect());
        assert_eq!(rows.len(), expected.len(), "{table}");
        assert!(rows.iter().zip(expected).all(|(row, begin)| row.starts_with(begin)), "{table}");
        let shared = with(3);
        let loc = shared.lines().nth(2).unwrap();
        assert!(
            loc.ends_with(
                "1  array, TTL groups 0 to 5  too few handles: most similar lifetimes share"
            ),
            "{loc}"
        );
    }

    #[test]
    fn the_table_lists_the_streams_that_share_a_handle() {
        let stream = |tenant: &str, class, hours: u64| Stream {
            tenant: tenant.to_owned(),
            class,
            write_share: 0.25,
            lifetime: Some(Duration::from_secs(hours * 3600)),
            places: true,
        };
        let streams = [
            stream("photos", Class::Soc, 1),
            stream("photos", Class::Loc, 300),
            stream("pages", Class::Soc, 2),
            stream("pages", Class::Loc, 3),
        ];
        let placement = PlacementInfo { handles: 4, path: "model", ..PlacementInfo::none() };
        let table = solve(&streams, &placement).to_string();
        let expected = "\
placement handles: 4 (path: model); lifetimes if the device is written over once a day
tenant  class  lifetime  writes  handle  shared with  why
photos  SOC      60 min    25 %       1  pages: SOC   too few handles: most similar lifetimes share
photos  LOC      12.5 d    25 %       2  -            a handle of its own
pages   SOC       2.0 h    25 %       1  photos: SOC  too few handles: most similar lifetimes share
pages   LOC       3.0 h    25 %       3  -            a handle of its own
";
        assert_eq!(table, expected);
    }
}
