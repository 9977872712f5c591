//! The charts of a replay and their content.

use super::chart::{Chart, XAxis, YAxis};
use super::format;
use super::marks::EndLabel;
use super::markup::Markup;
use super::series::{self, Part};
use crate::replay::outcome::Run;

/// Streams in their stacking order: name, class.
pub(super) const STREAMS: [(&str, &str); 4] =
    [("SOC", "soc"), ("LOC", "loc"), ("array", "array"), ("metadata", "metadata")];

/// A DLWA this close below 1 counts as 1: some bytes were in flight when the part ended.
const DLWA_ROUNDING: f64 = 0.01;

/// A run and its parts.
struct Line<'a> {
    run: &'a Run,
    parts: Vec<Part>,
}

impl Line<'_> {
    fn values(&self, value: fn(&Part) -> Option<f64>) -> Vec<(f64, Option<f64>)> {
        self.parts.iter().map(|part| (part.to, value(part))).collect()
    }
}

/// A chart of one number of each run over time.
struct LineFigure<'a> {
    title: &'a str,
    axis: YAxis<'a>,
    value: fn(&Part) -> Option<f64>,
    written: fn(f64) -> String,
    absent: &'a str,
    caption: String,
}

/// "placement on", "placement off".
pub(super) fn run_name(run: &Run) -> String {
    format!("placement {}", run.placement)
}

/// Style class of a run.
fn run_class(run: &Run) -> &'static str {
    if run.placement == "on" { "on" } else { "off" }
}

/// DLWA and hit ratio over time.
pub(super) fn over_time(out: &mut Markup, runs: &[Run]) {
    let lines: Vec<Line<'_>> =
        runs.iter().map(|run| Line { run, parts: series::parts(run) }).collect();
    out.tag("div", &[("class", &"pair")], |out| {
        line_figure(out, &lines, &dlwa_figure(&lines));
        line_figure(out, &lines, &hit_ratio_figure(&lines));
    });
}

fn dlwa_figure<'a>(lines: &[Line<'_>]) -> LineFigure<'a> {
    let (least, most) = range(lines, |part| part.dlwa).unwrap_or((1.0, 1.0));
    let lo = if least >= 1.0 - DLWA_ROUNDING { 1.0 } else { 0.0 };
    let meaning = if lo > 0.0 { " At 1 the drive copies nothing." } else { "" };
    LineFigure {
        title: "Device-level write amplification over time",
        axis: YAxis {
            title: "DLWA (bytes written to flash per byte of the host)",
            lo,
            hi: most.max(lo + 1.0),
            share: false,
        },
        value: |part| part.dlwa,
        written: format::factor,
        absent: "This device does not count the bytes it writes to its media: DLWA is unknown.",
        caption: format!("Each point is one part of the run.{meaning}"),
    }
}

fn hit_ratio_figure<'a>(lines: &[Line<'_>]) -> LineFigure<'a> {
    let most = range(lines, |part| part.hit_ratio).map_or(1.0, |(_, most)| most);
    let caption = match lines {
        [a, b] if a.values(|p| p.hit_ratio) == b.values(|p| p.hit_ratio) => {
            "Both runs hit exactly alike: placement changes where bytes lie, not what is cached."
        }
        _ => "Each point is one part of the run.",
    };
    LineFigure {
        title: "Hit ratio over time",
        axis: YAxis {
            title: "hit ratio (GETs that found their key, in percent)",
            lo: 0.0,
            hi: most.clamp(0.01, 1.0),
            share: true,
        },
        value: |part| part.hit_ratio,
        written: format::percent,
        absent: "The workload has no GETs.",
        caption: caption.to_owned(),
    }
}

fn range(lines: &[Line<'_>], value: fn(&Part) -> Option<f64>) -> Option<(f64, f64)> {
    let values = lines.iter().flat_map(|line| line.parts.iter().filter_map(value));
    values.fold(None, |range, v| {
        let (lo, hi) = range.unwrap_or((v, v));
        Some((v.min(lo), v.max(hi)))
    })
}

fn x_hi(lines: &[Line<'_>]) -> f64 {
    lines.iter().filter_map(|line| line.parts.last()).fold(0.0, |hi: f64, part| hi.max(part.to))
}

fn line_figure(out: &mut Markup, lines: &[Line<'_>], figure: &LineFigure<'_>) {
    out.tag("figure", &[], |out| {
        out.leaf("h3", &[], figure.title);
        if range(lines, figure.value).is_none() {
            out.leaf("p", &[("class", &"absent")], figure.absent);
            return;
        }
        Chart::draw(out, figure.title, XAxis::Requests(x_hi(lines)), figure.axis, |chart| {
            let warmup = lines.iter().map(|l| series::warmup_end(&l.parts)).fold(0.0, f64::max);
            chart.shade(warmup, "warm-up");
            for line in lines {
                let class = format!("line {}", run_class(line.run));
                chart.line(&class, &line.values(figure.value));
            }
            chart.end_labels(lines.iter().filter_map(|line| end_label(line, figure)).collect());
            line_tips(chart, lines, figure);
        });
        out.leaf("figcaption", &[], &figure.caption);
    });
}

fn end_label(line: &Line<'_>, figure: &LineFigure<'_>) -> Option<EndLabel> {
    let y = line.parts.iter().rev().find_map(figure.value)?;
    Some(EndLabel { y, text: run_name(line.run), class: run_class(line.run) })
}

/// One tip for each part of the longest run, with the values of all runs.
fn line_tips(chart: &mut Chart<'_>, lines: &[Line<'_>], figure: &LineFigure<'_>) {
    let Some(longest) = lines.iter().max_by_key(|line| line.parts.len()) else { return };
    for (index, part) in longest.parts.iter().enumerate() {
        let mut text = format!("after {} requests", format::decimal(part.to, 0));
        for line in lines {
            if let Some(value) = line.parts.get(index).and_then(figure.value) {
                text += &format!("\n{}: {}", run_name(line.run), (figure.written)(value));
            }
        }
        chart.tip(part.from, part.to, &text);
    }
}

/// The share of each stream in the host bytes: one chart for each run, or one for all if they are alike.
pub(super) fn streams(out: &mut Markup, runs: &[Run]) {
    let all: Vec<(String, Vec<Part>)> =
        runs.iter().map(|run| (run_name(run), series::parts(run))).collect();
    let shares = |parts: &[Part]| parts.iter().map(|p| (p.to, p.shares)).collect::<Vec<_>>();
    out.tag("div", &[("class", &"pair")], |out| match all.as_slice() {
        [(_, a), (_, b)] if shares(a) == shares(b) => {
            stream_figure(out, "Both runs", a);
        }
        all => {
            for (name, parts) in all {
                stream_figure(out, name, parts);
            }
        }
    });
}

fn stream_figure(out: &mut Markup, name: &str, parts: &[Part]) {
    let title = format!("{name}: share of each stream in the host bytes");
    out.tag("figure", &[], |out| {
        out.leaf("h3", &[], &title);
        if parts.iter().all(|part| part.shares.is_none()) {
            out.leaf("p", &[("class", &"absent")], "Nothing was written to the device.");
            return;
        }
        let axis = YAxis { title: "share of host bytes (percent)", lo: 0.0, hi: 1.0, share: true };
        let x_hi = parts.last().map_or(0.0, |part| part.to);
        Chart::draw(out, &title, XAxis::Requests(x_hi), axis, |chart| {
            for (stream, (_, class)) in STREAMS.iter().enumerate() {
                for segment in parts.split(|part| part.shares.is_none()) {
                    let steps: Vec<_> = segment.iter().filter_map(|p| step(p, stream)).collect();
                    if !steps.is_empty() {
                        chart.steps(&format!("fill {class}"), &steps);
                    }
                }
            }
            chart.end_labels(stream_labels(parts));
            for part in parts {
                stream_tip(chart, part);
            }
        });
        let caption = "Each step is one part of the run, warm-up included.";
        out.leaf("figcaption", &[], caption);
    });
}

/// One step of a stream's area, stacked on the streams before it.
fn step(part: &Part, stream: usize) -> Option<(f64, f64, f64, f64)> {
    let shares = part.shares?;
    let low: f64 = shares.iter().take(stream).sum();
    let high: f64 = shares.iter().take(stream + 1).sum();
    Some((part.from, part.to, low, high))
}

fn stream_labels(parts: &[Part]) -> Vec<EndLabel> {
    let Some(last) = parts.iter().rev().find(|part| part.shares.is_some()) else {
        return Vec::new();
    };
    let wrote = |stream: usize| {
        let shares = parts.iter().filter_map(|part| part.shares);
        shares.filter_map(|shares| shares.get(stream).copied()).any(|share| share > 0.0)
    };
    let written = STREAMS.iter().enumerate().filter(|(stream, _)| wrote(*stream));
    let labels = written.filter_map(|(stream, (name, class))| {
        let (_, _, low, high) = step(last, stream)?;
        Some(EndLabel { y: (low + high) / 2.0, text: (*name).to_owned(), class })
    });
    labels.collect()
}

fn stream_tip(chart: &mut Chart<'_>, part: &Part) {
    let mut text = format!("up to {} requests", format::decimal(part.to, 0));
    match part.shares {
        None => text += "\nnothing written",
        Some(shares) => {
            for ((name, _), share) in STREAMS.iter().zip(shares) {
                text += &format!("\n{name}: {}", format::percent(share));
            }
        }
    }
    chart.tip(part.from, part.to, &text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{interval, run};

    fn over_time_of(runs: &[Run]) -> String {
        let mut out = Markup::default();
        over_time(&mut out, runs);
        out.finish()
    }

    #[test]
    fn without_data_there_is_a_sentence_and_no_chart() {
        let text = over_time_of(&[run("off")]);
        assert!(text.contains("DLWA is unknown"));
        assert!(text.contains("no GETs"));
        assert!(!text.contains("<svg"));
    }

    #[test]
    fn one_part_is_a_dot() {
        let mut run = run("on");
        run.intervals = vec![interval(10)];
        assert_eq!(over_time_of(&[run]).matches("<circle").count(), 2);
    }

    #[test]
    fn runs_of_equal_streams_share_a_chart() {
        let (mut on, mut off) = (run("on"), run("off"));
        on.intervals = vec![interval(10), interval(20)];
        off.intervals = on.intervals.clone();
        let mut out = Markup::default();
        streams(&mut out, &[on.clone(), off.clone()]);
        assert_eq!(out.finish().matches("<svg").count(), 1);
        off.intervals[1].soc_bytes += 1000;
        let mut out = Markup::default();
        streams(&mut out, &[on, off]);
        assert_eq!(out.finish().matches("<svg").count(), 2);
    }

    #[test]
    fn the_dlwa_axis_begins_at_one_unless_a_value_is_below() {
        let mut run = run("on");
        run.intervals = vec![interval(10), interval(20)];
        assert!(over_time_of(&[run.clone()]).contains("At 1 the drive"));
        run.intervals[0].dlwa = Some(0.5);
        assert!(!over_time_of(&[run]).contains("At 1 the drive"));
    }
}
