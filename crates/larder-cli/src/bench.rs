//! `larder bench`.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use indicatif::{HumanCount, ProgressBar};
use larder_bench::compare::{Stage, Table, compare};
use larder_bench::run::{Progress, fill};
use larder_bench::workload::Stream;
use larder_bench::{Load, Pace, Target, Tls, Workload, saturation};
use larder_workload::Error;
use serde_json::{Value, json};

use crate::args::BenchArgs;
use crate::ending::Ending;
use crate::interrupt::on_interrupt;
use crate::json::{JsonTarget, print};
use crate::trace::trace_options;

/// Update interval of the progress line.
const TICK: Duration = Duration::from_millis(200);

pub(crate) fn run(arguments: &BenchArgs) -> Result<Ending, Error> {
    let json = JsonTarget::prepare(arguments.json.as_deref())?;
    let load = load(arguments)?;
    let progress = Arc::new(Progress::default());
    stop_on_interrupt(&progress)?;
    let mut machine = larder_workload::machine::describe(Path::new("."));
    machine.push(larder_workload::machine::describe_memory_latency());
    let head = format!("{}\n{}\n", machine.join("\n"), said(arguments, &load));
    if !json.is_stdout() {
        print(&head)?;
    }
    let (text, page) = match arguments.p99_max {
        Some(limit_ms) => saturate(arguments, &load, limit_ms, &progress)?,
        None => measure(arguments, &load, &progress)?,
    };
    if !json.is_stdout() {
        print(&text)?;
    }
    json.write(&json!({ "machine": machine, "load": said(arguments, &load), "targets": page }))?;
    Ok(match progress.stop.load(Ordering::Relaxed) {
        true => Ending::Interrupted,
        false => Ending::Complete,
    })
}

fn load(arguments: &BenchArgs) -> Result<Load, Error> {
    let stream = match (&arguments.workload, &arguments.trace) {
        (Some(name), _) => Stream::Preset(name.clone()),
        (None, Some(path)) => Stream::Trace(path.clone(), trace_options(&arguments.format)?),
        (None, None) => Stream::Drawn(arguments.popularity),
    };
    let workload = Workload {
        stream,
        keys: arguments.keys,
        key_bytes: arguments.key_bytes,
        value_bytes: arguments.value_bytes,
        sets_percent: arguments.sets,
        multiget: arguments.multiget,
        look_aside: arguments.look_aside,
        backend: Duration::from_secs_f64(arguments.backend_ms.unwrap_or(0.0) / 1000.0),
        seed: arguments.seed,
    };
    let own = arguments.tls_certificate.as_deref().zip(arguments.tls_key.as_deref());
    Ok(Load {
        tls: Some(Tls::new(arguments.tls_ca.as_deref(), own)?),
        workload,
        pace: arguments.rate.map_or(Pace::Closed, Pace::Open),
        connections: usize::try_from(arguments.connections).unwrap_or(usize::MAX),
        pipeline: usize::try_from(arguments.pipeline).unwrap_or(usize::MAX),
        threads: arguments.threads.into(),
        cores: arguments.cores.clone(),
        fill_rate: arguments.fill_rate,
        warm_up: Duration::from_secs_f64(arguments.warm_up),
        duration: Duration::from_secs_f64(arguments.seconds),
    })
}

/// The relevant parameters in one line.
fn said(arguments: &BenchArgs, load: &Load) -> String {
    let workload = &load.workload;
    let stream = match &workload.stream {
        Stream::Preset(name) => name.clone(),
        Stream::Trace(path, _) => path.display().to_string(),
        Stream::Drawn(law) => format!(
            "{law:?} over {} keys of {} B, values of {} B, {} % sets",
            HumanCount(workload.drawn_keys().unwrap_or(0)),
            workload.key_bytes,
            workload.value_bytes,
            workload.sets_percent
        ),
    };
    let pace = match load.pace {
        Pace::Closed => "as fast as answered".to_owned(),
        Pace::Open(rate) => format!("{rate} requests/s, open"),
    };
    let backend = arguments.backend_ms.map(|ms| format!(", {ms} ms in a backend a miss"));
    let plural = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    format!(
        "{stream}, {} a request{}; {pace}; {}, pipeline {}, {}; {} s; seed {}",
        plural(workload.multiget as usize, "key"),
        backend.unwrap_or_default(),
        plural(load.connections, "connection"),
        load.pipeline,
        plural(load.threads, "thread"),
        arguments.seconds,
        workload.seed
    )
}

/// Measures rounds of all targets.
fn measure(
    arguments: &BenchArgs,
    load: &Load,
    progress: &Arc<Progress>,
) -> Result<(String, Value), Error> {
    let targets = &arguments.targets;
    let rounds = arguments.rounds.unwrap_or(if targets.len() == 1 { 1 } else { 5 });
    let line = ProgressLine::new(progress);
    let tell = |stage: Stage<'_>| match stage {
        Stage::Fill(name) => line.say(format!("storing the keys in {name}")),
        Stage::Round(name, round) => line.say(format!("round {} of {rounds}: {name}", round + 1)),
    };
    let how = (rounds.into(), !arguments.no_fill);
    let compared = compare(targets, load, how, progress, tell)?;
    drop(line);
    Ok((Table(&compared).to_string(), json!(compared)))
}

/// Searches the highest rate of each target under a limit.
fn saturate(
    arguments: &BenchArgs,
    load: &Load,
    limit_ms: f64,
    progress: &Arc<Progress>,
) -> Result<(String, Value), Error> {
    let limit = Duration::from_secs_f64(limit_ms / 1e3);
    let (mut text, mut page) = (String::new(), Vec::new());
    for target in &arguments.targets {
        let tried = search(arguments, load, (target, limit), progress)?;
        for tried in &tried {
            text += &format!(
                "{}  {:>10.0} requests/s: p99 {:>8.0} us, answered {:>10.0}/s: {}\n",
                target.name,
                tried.rate,
                tried.measured.p99_us.unwrap_or(f64::NAN),
                tried.measured.requests_per_second,
                if tried.kept { "kept" } else { "not kept" }
            );
        }
        text += &match saturation::highest(&tried) {
            Some(highest) => format!(
                "{}: {:.0} requests/s with a p99 of at most {limit_ms} ms\n",
                target.name, highest.rate
            ),
            None => format!("{}: no rate that was tried keeps {limit_ms} ms\n", target.name),
        };
        page.push(json!({ "name": target.name, "p99_max_ms": limit_ms, "tried": tried }));
    }
    Ok((text, json!(page)))
}

fn search(
    arguments: &BenchArgs,
    load: &Load,
    (target, limit): (&Target, Duration),
    progress: &Arc<Progress>,
) -> Result<Vec<saturation::RateTrial>, Error> {
    let line = ProgressLine::new(progress);
    if !arguments.no_fill {
        line.say(format!("storing the keys in {}", target.name));
        fill(target, load, progress)?;
    }
    line.say(format!("how many {} answers at all", target.name));
    let how = (limit, arguments.tries.into());
    saturation::search(target, load, how, progress, |tried| {
        let kept = if tried.kept { "kept" } else { "not kept" };
        line.say(format!("{}: {:.0} requests/s {kept}", target.name, tried.rate));
    })
}

/// A line on the terminal with the current stage and the number of answers.
struct ProgressLine {
    bar: ProgressBar,
}

impl ProgressLine {
    fn new(progress: &Arc<Progress>) -> Self {
        let bar = ProgressBar::new_spinner();
        bar.enable_steady_tick(TICK);
        let style = indicatif::ProgressStyle::with_template("{spinner} {msg}  {answers}")
            .unwrap_or_else(|_| indicatif::ProgressStyle::default_spinner());
        let progress = Arc::clone(progress);
        let answers = move |_: &indicatif::ProgressState, text: &mut dyn std::fmt::Write| {
            let answers = progress.answers.load(Ordering::Relaxed);
            // Writing to memory does not fail.
            let _ = write!(text, "{} answers", HumanCount(answers));
        };
        bar.set_style(style.with_key("answers", answers));
        Self { bar }
    }

    fn say(&self, message: String) {
        self.bar.set_message(message);
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Ctrl-C ends the round.
fn stop_on_interrupt(progress: &Arc<Progress>) -> Result<(), Error> {
    let progress = Arc::clone(progress);
    on_interrupt(move || progress.stop.swap(true, Ordering::Relaxed))
}
