//! The page of a plan: the answer, charts over utilisation, and the method.

use super::figure::{Figure, Kind, Point, Points, Series};
use super::markup::Markup;
use super::page::{self, section};
use super::tables;
use crate::plan::{Plan, SweepPoint};

const UTILISATION: &str = "share of the drive that the cache uses (%)";

/// The method for each number.
const METHOD: [(&str, &str); 9] = [
    (
        "DLWA, simulated",
        "the real cache on a model of the drive with the same ratios, aged until it has been \
         written over nine times; the second half of the requests is measured",
    ),
    (
        "DLWA, by theory",
        "with placement: Theorem 1 of the FDP paper (EuroSys'25) for the small-object engine, with \
         all flash that the cache leaves free as spare room, weighted by the engine's share of the \
         bytes; without: uniform random writes over the flash in use, oldest unit collected first, \
         which is an estimate and no bound",
    ),
    (
        "drive life",
        "bytes that the rating allows, by bytes written to the media a day: rate × bytes per \
         request × DLWA; wear alone",
    ),
    ("drives", "years by drive life, at least one; parts are the average of a fleet"),
    (
        "rating for one drive",
        "drive writes per day over the warranty with which one drive lasts for all years",
    ),
    (
        "embodied carbon",
        "Theorem 2: drives × flash (over-provisioning included) × kg per GB, and the DRAM once",
    ),
    (
        "operational carbon",
        "Theorem 3: programs, erases and the reads of garbage collection at assumed energies, and the power \
         of an idle drive for all years, × kg per kWh; reads of the host are left out",
    ),
    ("cost", "drives × capacity × price per GB, and the DRAM once"),
    ("useful GB", "flash in which the cache keeps objects: capacity × utilisation"),
];

/// The whole page.
pub(super) fn render(plan: &Plan) -> String {
    let title = "Larder plan";
    page::document(title, |out| {
        let (first, rest) = plan.advice.split_first().map_or(("", &[][..]), |(f, r)| (f, r));
        page::header(out, title, first, &[rest, &plan.basis(), &plan.notes()].concat());
        section(out, "The answer", |out| answer(out, plan));
        section(out, "By utilisation", |out| {
            out.tag("div", &[("class", &"pair")], |out| {
                figures(plan).iter().for_each(|figure| figure.draw(out));
            });
        });
        section(out, "How each number is found", |out| {
            out.tag("dl", &[], |out| {
                for (name, meaning) in METHOD {
                    out.leaf("dt", &[], name);
                    out.leaf("dd", &[], meaning);
                }
            });
        });
        section(out, "How to reproduce", |out| {
            let lead = "The same parameters and seed give the same numbers to the byte.";
            tables::reproduce(out, lead, (plan.command, &plan.parameters, plan.seed));
        });
        page::terms(out);
    })
}

fn answer(out: &mut Markup, plan: &Plan) {
    out.tag("table", &[("class", &"summary")], |out| {
        out.tag("thead", &[], |out| {
            out.tag("tr", &[], |out| {
                out.leaf("th", &[("scope", &"col")], "");
                for answer in &plan.answers {
                    let name = format!("placement {}", answer.placement);
                    out.leaf("th", &[("scope", &"col"), ("class", &"number")], &name);
                }
            });
        });
        out.tag("tbody", &[], |out| {
            for (label, cells) in plan.rows() {
                out.tag("tr", &[], |out| {
                    out.leaf("th", &[("scope", &"row")], &label.replace("  ", "\u{2003}"));
                    for cell in cells {
                        out.leaf("td", &[("class", &"number")], &cell);
                    }
                });
            }
        });
    });
}

fn figures(plan: &Plan) -> [Figure; 4] {
    let limit = plan.parameters.get("dlwa_limit").and_then(serde_json::Value::as_f64);
    let mut dlwa = figure(plan, "DLWA", "DLWA (media bytes per host byte)", |point| point.dlwa);
    for (name, class) in [("theory, on", "on"), ("theory, off", "off")] {
        let points = points(plan, class, |point| point.dlwa_theory);
        dlwa.series.push(Series { name: name.to_owned(), class, kind: Kind::Theory, points });
    }
    dlwa.level = limit.map(|limit| (limit, format!("limit {limit}")));
    dlwa.base = 1.0;
    let life = "drive life (years of wear)";
    let cost = "cost per useful GB (price units per GB)";
    let carbon = "embodied carbon per useful GB (kg CO2e per GB)";
    [
        dlwa,
        figure(plan, "Drive life", life, |point| point.bill.life_years),
        figure(plan, "Cost", cost, |point| point.bill.cost_per_useful_gb),
        figure(plan, "Embodied carbon", carbon, |point| point.bill.embodied_kg_per_useful_gb),
    ]
}

fn figure(plan: &Plan, title: &str, y: &str, value: fn(&SweepPoint) -> f64) -> Figure {
    let series = ["on", "off"].map(|placement| Series {
        name: format!("placement {placement}"),
        class: placement,
        kind: Kind::Measured,
        points: points(plan, placement, value),
    });
    Figure {
        title: format!("{title} by utilisation"),
        x: UTILISATION.to_owned(),
        y: y.to_owned(),
        points: Points::Numbers,
        series: series.into(),
        level: None,
        base: 0.0,
        caption: String::new(),
    }
}

fn points(plan: &Plan, placement: &str, value: fn(&SweepPoint) -> f64) -> Vec<Point> {
    let of_placement = plan.sweep.iter().filter(|point| point.placement == placement);
    let point = |point: &SweepPoint| {
        let value = value(point);
        Point { at: point.utilization, value, range: (value, value), published: None }
    };
    of_placement.map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::PlanOptions;
    use crate::replay::Monitor;
    use crate::report::tests::{assert_no_impossible_numbers, assert_well_formed};

    #[test]
    fn the_page_shows_the_answer_and_the_curves() {
        let options = PlanOptions {
            requests: Some(30_000),
            dram_bytes: 20_000_000_000,
            simulated_bytes: 8 << 20,
            ..PlanOptions::of_preset("meta-kv", 1)
        };
        let plan = crate::plan::plan(&options, &Monitor::default(), &|_, _| {}).unwrap();
        let page = render(&plan);
        assert_well_formed(&page);
        assert_no_impossible_numbers(&page);
        assert_eq!(page.matches("<svg").count(), 4);
        assert!(page.contains(">limit 1.5</text>") && page.contains("class=\"line off theory\""));
        assert!(page.contains("share of the drive that the cache uses (%)"));
        assert!(page.contains("larder plan") && page.contains("--requests 30000"));
        for (label, cells) in plan.rows() {
            assert!(page.contains(label.trim()), "{label}");
            assert!(cells.iter().all(|cell| page.contains(cell.as_str())), "{cells:?}");
        }
    }
}
