//! The plan for people.

use std::fmt;
use std::time::Duration;

use super::{Assignment, PlacementPlan};

const HEADINGS: [&str; 7] =
    ["tenant", "class", "lifetime", "writes", "handle", "shared with", "why"];
/// Columns of numbers.
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
        rows.extend(self.streams.iter().map(row));
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

fn row(stream: &Assignment) -> [String; 7] {
    let or_dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    let name = |(tenant, class): &(String, super::Class)| match *tenant == stream.tenant {
        true => class.to_string(),
        false => format!("{tenant}: {class}"),
    };
    let shared: Vec<String> = stream.shared_with.iter().map(name).collect();
    [
        or_dash(stream.tenant.clone()),
        stream.class.to_string(),
        stream.lifetime.map_or("-".to_owned(), span),
        format!("{:.0} %", stream.write_share * 100.0),
        stream.handle.to_string(),
        or_dash(shared.join("; ")),
        stream.why.to_string(),
    ]
}

/// A time in the unit that suits it.
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
    fn the_table_says_who_shares_with_whom() {
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
