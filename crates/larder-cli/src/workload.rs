//! `larder workload`.

use std::path::Path;

use indicatif::HumanCount;
use larder_workload::Error;
use larder_workload::generate::{self, GeneratorOptions};
use larder_workload::stats::Stats;
use larder_workload::{Request, RequestSource, trace};

use crate::args::{StatsArgs, WorkloadCommand};
use crate::bars;
use crate::ending::Ending;
use crate::json::{JsonTarget, print};
use crate::trace::trace_options;

pub(crate) fn run(command: &WorkloadCommand) -> Result<Ending, Error> {
    match command {
        WorkloadCommand::List => list()?,
        WorkloadCommand::Stats(arguments) => stats(arguments)?,
    }
    Ok(Ending::Complete)
}

/// Printed below the list, with the same layout as the workloads.
const PARAMETERS: &str = "
  Behind a colon uniform, ycsb-a to -f, hotspot, zipf and twitter-ttl may have records, bytes of a value, sets in a
  hundred requests, and the rate of requests a second: hotspot:records=1000000,bytes=32768,sets=50,rate=100. llm-kv
  may have records, which are its prefixes, and bytes of its longest block.
";

fn list() -> Result<(), Error> {
    let mut text = String::new();
    for preset in generate::presets() {
        text += &format!(
            "{:20} {} ({} requests)\n{:20} {}\n",
            preset.name,
            preset.description,
            HumanCount(preset.requests),
            "",
            preset.source
        );
    }
    text += PARAMETERS;
    print(&text)
}

fn stats(arguments: &StatsArgs) -> Result<(), Error> {
    let json = JsonTarget::prepare(arguments.json.as_deref())?;
    let mut source = open(arguments)?;
    let bar = bars::bar("reading");
    let limit = arguments.requests;
    #[allow(clippy::cast_precision_loss)]
    let stats = Stats::collect(source.as_mut(), &arguments.lru, |requests, share| {
        let of_limit = limit.map(|limit| requests as f64 / limit as f64);
        bars::set(&bar, requests, of_limit.or(share).unwrap_or(0.0));
    });
    bar.finish_and_clear();
    let stats = stats?;
    if !json.is_stdout() {
        print(&stats.to_string())?;
    }
    json.write(&stats)
}

/// Opens a built-in workload of this name, or else the trace file.
fn open(arguments: &StatsArgs) -> Result<Box<dyn RequestSource>, Error> {
    let name = arguments.workload.as_str();
    let preset = generate::find(name);
    if let Some(preset) = preset {
        let requests = arguments.requests.unwrap_or(preset.requests);
        let options = GeneratorOptions { requests, span_requests: None, seed: arguments.seed };
        return generate::preset(name, options);
    }
    let path = Path::new(name);
    if !path.exists() {
        let names: Vec<_> = generate::presets().iter().map(|preset| preset.name).collect();
        return Err(Error::usage(format!(
            "{name}: neither a file nor a built-in workload; those are {}",
            names.join(", ")
        )));
    }
    let source = trace::open(path, &trace_options(&arguments.format)?)?;
    Ok(match arguments.requests {
        Some(limit) => Box::new(LimitedSource { source, left: limit }),
        None => source,
    })
}

/// The first requests of a source.
struct LimitedSource {
    source: Box<dyn RequestSource>,
    left: u64,
}

impl RequestSource for LimitedSource {
    fn next_request(&mut self) -> Result<Option<Request>, Error> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        self.source.next_request()
    }

    fn progress(&self) -> Option<f64> {
        self.source.progress()
    }
}
