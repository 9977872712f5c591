//! Commands that are sent to a running cache.

use larder_block::manage;
use larder_device::block_on;
use larder_workload::Error;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::control::{self, ControlClient, Question};
use super::cores::failed;
use super::report::{Destaged, DirtyCore, Stats, Status};
use super::{render, target};
use crate::args::{
    AskArgs, AttachArgs, CacheStatsArgs, CacheStatusArgs, CoreOfArgs, IoClassArgs, ModeArgs,
    PolicyArgs, StopArgs,
};
use crate::ending::Ending;
use crate::json::JsonTarget;

/// Sends a question, and shows the answer.
fn show<T: Serialize + DeserializeOwned>(
    arguments: &AskArgs,
    question: &Question,
    render: impl Fn(&T) -> String,
) -> Result<Ending, Error> {
    let json = JsonTarget::prepare(arguments.output.json.as_deref())?;
    let answer: T = control::ask(&ControlClient::of(arguments), question)?;
    json.tell(&render(&answer))?;
    json.write(&answer)?;
    Ok(Ending::Complete)
}

pub(super) fn status(arguments: &CacheStatusArgs) -> Result<Ending, Error> {
    let json = JsonTarget::prepare(arguments.output.json.as_deref())?;
    let status: Status = match &arguments.which.cache {
        Some(cache) => {
            let device = target::open_read_only(cache)?;
            let seen = block_on(manage::look(&device)).map_err(|error| failed(&error))?;
            Status::of_device(&device, &seen)
        }
        None => control::ask(&ControlClient::of_which(&arguments.which), &Question::Status {})?,
    };
    json.tell(&render::status(&status))?;
    json.write(&status)?;
    Ok(Ending::Complete)
}

pub(super) fn stats(arguments: &CacheStatsArgs) -> Result<Ending, Error> {
    let question = Question::Stats { reset: arguments.reset };
    show(&arguments.ask, &question, |stats: &Stats| render::stats(stats))
}

pub(super) fn flush(arguments: &CoreOfArgs) -> Result<Ending, Error> {
    let question = Question::Flush { core: control::number(arguments.core) };
    show(&arguments.ask, &question, render::destaged)
}

pub(super) fn dirty(arguments: &CoreOfArgs) -> Result<Ending, Error> {
    let question = Question::Dirty { core: control::number(arguments.core) };
    show(&arguments.ask, &question, |cores: &Vec<DirtyCore>| render::dirty(cores))
}

pub(super) fn mode(arguments: &ModeArgs) -> Result<Ending, Error> {
    let mode = arguments.mode;
    let question = Question::Mode { mode: mode.to_string(), flush: !arguments.no_flush };
    let told = |destaged: &Destaged| format!("mode       {mode}\n{}", render::destaged(destaged));
    show(&arguments.ask, &question, told)
}

/// Changes a policy, and shows the new one.
pub(super) fn policy(
    name: &str,
    arguments: &PolicyArgs,
    question: impl Fn(String) -> Question,
) -> Result<Ending, Error> {
    #[derive(Serialize, serde::Deserialize)]
    struct Set {
        policy: String,
    }
    let told = |set: &Set| format!("{name:10} {}\n", set.policy);
    show(&arguments.ask, &question(arguments.text()), told)
}

pub(super) fn io_class(arguments: &IoClassArgs) -> Result<Ending, Error> {
    #[derive(Serialize, serde::Deserialize)]
    struct Classes {
        csv: String,
    }
    let csv = arguments.load.as_ref().map(|path| {
        std::fs::read_to_string(path)
            .map_err(|error| Error::usage(format!("{}: {error}", path.display())))
    });
    let question = Question::IoClass { csv: csv.transpose()? };
    show(&arguments.ask, &question, |classes: &Classes| classes.csv.trim_end().to_owned() + "\n")
}

pub(super) fn detach(arguments: &AskArgs) -> Result<Ending, Error> {
    let told = "detached; nothing is dirty, and cores are served without a cache device\n";
    show(arguments, &Question::Detach {}, |_: &Destaged| told.to_owned())
}

pub(super) fn attach(arguments: &AttachArgs) -> Result<Ending, Error> {
    let AttachArgs { cache, format, ask } = arguments;
    let question = Question::Attach {
        cache: target::absolute(cache).to_string(),
        layout: format.layout.name(),
        line: format.line,
        segment: format.segment,
        over: format.over.map(|uuid| uuid.to_string()),
        over_other: format.over_other,
    };
    show(ask, &question, render::status)
}

pub(super) fn stop(arguments: &StopArgs) -> Result<Ending, Error> {
    let question = Question::Stop { flush: arguments.flush };
    let told = |destaged: &Destaged| format!("stopped\n{}", render::destaged(destaged));
    show(&arguments.ask, &question, told)
}
