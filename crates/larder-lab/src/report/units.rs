//! The picture of the drive: one cell for each reclaim unit, one colour for each owner.
//!
//! All areas of one colour are a single path, so that a page with thousands of units stays reasonably small.

use std::cmp::Reverse;

use super::chart::WIDTH;
use super::figures::run_name;
use super::format;
use super::markup::Markup;
use crate::replay::outcome::{Run, UnitPicture};

/// More cells than this would be too small to see, so an even sample is drawn.
const CELLS_MAX: usize = 2000;
/// With more cells than this, only the first picture of a run has tooltips on its cells.
const TIPS_MAX: usize = 500;
/// Largest height of a picture.
const HEIGHT_MAX: u32 = 400;
const WIDTH_PX: u32 = 560;
const PITCH_MAX: u32 = 28;
const PITCH_MIN: u32 = 8;
/// Room for the outline of cells at the edge.
const EDGE: u32 = 2;

/// The contents of pages, from the bottom of a cell to its top: name, class, number of pages.
type Content = (&'static str, &'static str, fn(&UnitPicture) -> u32);
const CONTENTS: [Content; 6] = [
    ("SOC", "soc", |unit| unit.soc),
    ("LOC", "loc", |unit| unit.loc),
    ("array", "array", |unit| unit.array),
    ("metadata", "metadata", |unit| unit.metadata),
    ("dead", "dead", |unit| unit.dead),
    ("free", "free", |unit| unit.free),
];

/// A unit and its position on the drive.
type Cell = (usize, UnitPicture);

/// The drive at the end of each run, in its own order and sorted.
pub(super) fn drives(out: &mut Markup, runs: &[Run]) {
    if runs.iter().all(|run| run.units.is_empty()) {
        let text = "This device shows no reclaim units.";
        out.leaf("p", &[("class", &"absent")], text);
        return;
    }
    legend(out);
    let samples: Vec<(&Run, Vec<Cell>)> =
        runs.iter().map(|run| (run, sample(&run.units))).collect();
    out.tag("div", &[("class", &"pair drives")], |out| {
        for (run, cells) in &samples {
            let title = format!("{}: in the order of the drive", run_name(run));
            picture(out, &title, cells, true, &caption(&run.units, cells.len()));
        }
    });
    out.tag("div", &[("class", &"pair drives")], |out| {
        for (run, cells) in samples {
            let title = format!("{}: sorted by owner", run_name(run));
            let tips = cells.len() <= TIPS_MAX;
            let caption =
                "The same units: those of SOC, LOC, array and metadata alone, then those of several.";
            picture(out, &title, &sorted(cells), tips, caption);
        }
    });
}

fn legend(out: &mut Markup) {
    const MEANINGS: [(&str, &str); 7] = [
        ("soc", "live, small objects (SOC)"),
        ("loc", "live, large objects (LOC)"),
        ("array", "live, objects and index of the array"),
        ("metadata", "live, metadata"),
        ("dead", "dead: overwritten or dropped"),
        ("free", "free: not yet written"),
        ("open", "outlined: open for writing"),
    ];
    out.leaf(
        "p",
        &[("class", &"lead")],
        "Each cell is one reclaim unit, filled from the bottom by what its pages hold.",
    );
    out.tag("ul", &[("class", &"legend")], |out| {
        for (class, meaning) in MEANINGS {
            out.tag("li", &[], |out| {
                out.leaf("span", &[("class", &format!("key key-{class}"))], "");
                out.text(meaning);
            });
        }
    });
}

/// An even sample of at most [`CELLS_MAX`] units.
fn sample(units: &[UnitPicture]) -> Vec<Cell> {
    units.iter().copied().enumerate().step_by(stride(units.len())).collect()
}

fn stride(units: usize) -> usize {
    units.div_ceil(CELLS_MAX).max(1)
}

/// Units of a single stream in the order of the legend, then shared ones, then those without live pages.
fn sorted(mut cells: Vec<Cell>) -> Vec<Cell> {
    cells.sort_by_key(|(_, unit)| {
        let (group, pages) = group(unit);
        (group, Reverse(pages))
    });
    cells
}

/// The group that a unit is sorted into, and the page count that orders it within the group.
fn group(unit: &UnitPicture) -> (usize, u32) {
    let live = [unit.soc, unit.loc, unit.array, unit.metadata];
    match streams(unit) {
        1 => live.into_iter().enumerate().find(|(_, pages)| *pages > 0).unwrap_or_default(),
        0 if unit.dead > 0 => (live.len() + 1, unit.dead),
        0 => (live.len() + 2, unit.free),
        _ => (live.len(), unit.soc),
    }
}

fn caption(units: &[UnitPicture], drawn: usize) -> String {
    let count = |test: fn(&UnitPicture) -> bool| units.iter().filter(|unit| test(unit)).count();
    let number = |n: usize| format::thousands(n as u64);
    let mut text = format!(
        "{} reclaim units: {} with live pages of one stream alone, {} with live pages of several, {} \
         with none. Open for writing: {}.",
        number(units.len()),
        number(count(|unit| streams(unit) == 1)),
        number(count(|unit| streams(unit) > 1)),
        number(count(|unit| streams(unit) == 0)),
        number(count(|unit| unit.open)),
    );
    if drawn < units.len() {
        let stride = stride(units.len());
        text += &format!(" An even sample of {} is drawn: one unit in {stride}.", number(drawn));
    }
    text
}

/// Number of streams with live pages in `unit`.
fn streams(unit: &UnitPicture) -> usize {
    [unit.soc, unit.loc, unit.array, unit.metadata].into_iter().filter(|&pages| pages > 0).count()
}

fn picture(out: &mut Markup, title: &str, cells: &[Cell], tips: bool, caption: &str) {
    out.tag("figure", &[], |out| {
        out.leaf("h3", &[], title);
        if cells.is_empty() {
            let text = "This run shows no reclaim units.";
            out.leaf("p", &[("class", &"absent")], text);
            return;
        }
        let grid = Grid::of(cells.len());
        let view = format!("0 0 {WIDTH} {}", grid.height());
        let attributes: [(&str, &dyn std::fmt::Display); 4] =
            [("viewBox", &view), ("role", &"img"), ("aria-label", &title), ("class", &"units")];
        out.tag("svg", &attributes, |out| {
            contents(out, &grid, cells);
            if tips {
                for (place, cell) in cells.iter().enumerate() {
                    tip(out, &grid, place, cell);
                }
            }
        });
        out.leaf("figcaption", &[], caption);
    });
}

/// One path for each content, and one for the outlines.
fn contents(out: &mut Markup, grid: &Grid, cells: &[Cell]) {
    let mut paths = CONTENTS.map(|_| String::new());
    let mut outlines = String::new();
    for (place, (_, unit)) in cells.iter().enumerate() {
        let (x, y) = grid.corner(place);
        let counts = CONTENTS.map(|(_, _, pages)| f64::from(pages(unit)));
        let total: f64 = counts.iter().sum();
        let mut bottom = y + grid.side();
        for (path, count) in paths.iter_mut().zip(counts) {
            let height = if total > 0.0 { grid.side() * count / total } else { 0.0 };
            bottom -= height;
            if count > 0.0 {
                path.push_str(&bar(x, bottom, grid.side(), height));
            }
        }
        if unit.open {
            outlines.push_str(&bar(x - 0.5, y - 0.5, grid.side() + 1.0, grid.side() + 1.0));
        }
    }
    for ((_, class, _), path) in CONTENTS.iter().zip(&paths) {
        out.empty("path", &[("class", &format!("fill {class}")), ("d", path)]);
    }
    out.empty("path", &[("class", &"outline"), ("d", &outlines)]);
}

fn bar(x: f64, y: f64, width: f64, height: f64) -> String {
    let (x, y, width, height) =
        (format::Px(x), format::Px(y), format::Px(width), format::Px(height));
    format!("M{x} {y}h{width}v{height}h-{width}z")
}

fn tip(out: &mut Markup, grid: &Grid, place: usize, (index, unit): &Cell) {
    let (x, y) = grid.corner(place);
    let total: f64 = CONTENTS.iter().map(|(_, _, pages)| f64::from(pages(unit))).sum();
    let mut text = format!("unit {index}{}", if unit.open { ", open" } else { "" });
    for (name, _, pages) in CONTENTS {
        if pages(unit) > 0 {
            let share = format::percent_round(f64::from(pages(unit)) / total);
            text += &format!("\n{name} {share}");
        }
    }
    let side = grid.side();
    out.tag(
        "rect",
        &[("class", &"tip"), ("x", &x), ("y", &y), ("width", &side), ("height", &side)],
        |out| out.leaf("title", &[], &text),
    );
}

/// The grid of cells, as large as the picture allows.
struct Grid {
    pitch: u32,
    columns: u32,
    rows: u32,
}

impl Grid {
    fn of(cells: usize) -> Self {
        let cells = u32::try_from(cells).unwrap_or(u32::MAX);
        let with_pitch = |pitch: u32| {
            let columns = (WIDTH_PX - 2 * EDGE) / pitch;
            Self { pitch, columns, rows: cells.div_ceil(columns) }
        };
        let fits = |grid: &Self| grid.rows <= HEIGHT_MAX / grid.pitch;
        let pitches = (PITCH_MIN..=PITCH_MAX).rev();
        pitches.map(with_pitch).find(fits).unwrap_or_else(|| with_pitch(PITCH_MIN))
    }

    /// Upper left corner of a cell.
    fn corner(&self, place: usize) -> (f64, f64) {
        let place = u32::try_from(place).unwrap_or(u32::MAX);
        let (column, row) = (place % self.columns, place / self.columns);
        (f64::from(EDGE + column * self.pitch), f64::from(EDGE + row * self.pitch))
    }

    /// Side of a cell, without the gap to the next.
    fn side(&self) -> f64 {
        f64::from(self.pitch - if self.pitch >= 14 { 3 } else { 2 })
    }

    fn height(&self) -> u32 {
        self.rows * self.pitch + 2 * EDGE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{run, unit};

    #[test]
    fn large_drives_are_sampled_evenly_and_say_so() {
        let units = vec![unit(1, 2); 7_680];
        let cells = sample(&units);
        assert_eq!(cells.len(), 1_920);
        assert!(cells.windows(2).all(|pair| pair[1].0 - pair[0].0 == 4));
        assert!(caption(&units, cells.len()).contains("sample of 1,920 is drawn: one unit in 4"));
        assert_eq!(sample(&units[..2000]).len(), 2000);
        assert!(!caption(&units[..2000], 2000).contains("sample"));
    }

    #[test]
    fn grids_fit_the_drawing() {
        for cells in [0, 1, 19, 20, 64, 500, 1999, 2000] {
            let grid = Grid::of(cells);
            assert!(grid.columns * grid.pitch + EDGE <= WIDTH_PX, "{cells} cells");
            assert!(grid.height() <= HEIGHT_MAX + 2 * EDGE, "{cells} cells");
        }
        assert_eq!(Grid::of(1).pitch, PITCH_MAX);
    }

    #[test]
    fn units_are_sorted_by_owner() {
        let dead = UnitPicture { dead: 5, ..unit(0, 0) };
        let metadata = UnitPicture { metadata: 1, ..unit(0, 0) };
        let units = [unit(0, 0), dead, unit(1, 3), metadata, unit(2, 1), unit(0, 4), unit(4, 0)];
        let order: Vec<usize> =
            sorted(sample(&units)).into_iter().map(|(index, _)| index).collect();
        assert_eq!(order, [6, 5, 3, 4, 2, 1, 0]);
    }

    #[test]
    fn captions_count_units_with_one_stream_and_with_several() {
        let open = UnitPicture { open: true, ..unit(0, 0) };
        let text = caption(&[unit(1, 1), unit(1, 0), open], 3);
        assert_eq!(
            text,
            "3 reclaim units: 1 with live pages of one stream alone, 1 with live pages of several, 1 \
             with none. Open for writing: 1."
        );
    }

    #[test]
    fn without_units_there_is_a_sentence() {
        let mut out = Markup::default();
        drives(&mut out, &[run("off")]);
        assert!(out.finish().contains("shows no reclaim units"));
    }
}
