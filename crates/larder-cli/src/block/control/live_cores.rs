//! Adds cores to a running cache and removes them, with their exports.

use std::time::Duration;

use larder_block::ErrorKind;
use larder_block::layout::CoreId;
use larder_device::block_on;
use serde_json::Value;

use super::Question;
use super::answers::{AnswerSink, Answers, CacheDeviceFacts, ENDING, still_dirty, value, watched};
use crate::args::{CoreArg, CoresArgs, TargetArg};
use crate::block::{cores, target};

/// How long we wait for the connections of a removed core to end, including their last replies.
const FAREWELL: Duration = Duration::from_secs(5);
/// Connections that take longer than this are named.
const SOON: Duration = Duration::from_secs(1);

impl Answers {
    /// Serves one more core, and exports it.
    pub(super) fn add_core(&self, core: Option<u16>, path: &str) -> Result<Value, String> {
        self.exported.check()?;
        let target: TargetArg = path.parse()?;
        let known = |number: u16| {
            CoreId::new(number).ok_or_else(|| format!("core {number}: give 0 to 4095"))
        };
        let given = CoreArg { id: core.map(known).transpose()?, target };
        let mut opened = self.opened();
        let opened = opened.as_mut().ok_or(ENDING)?;
        let core = cores::of_running(opened.stored(), &given).map_err(|error| error.to_string())?;
        block_on(opened.add_core(&core)).map_err(|error| error.to_string())?;
        *self.known() = CacheDeviceFacts::of(opened);
        let export = cores::export(opened, &core).map_err(|error| error.to_string())?;
        if let Some(nbd) = &self.exported.nbd {
            nbd.add(export).map_err(|error| error.to_string())?;
        }
        value(&self.status())
    }

    /// Serves a core again that was missing.
    pub(super) fn attach_core(&self, number: u16, path: &str) -> Result<Value, String> {
        self.exported.check()?;
        let id = self.known_core(number)?;
        let mut opened = self.opened();
        let opened = opened.as_mut().ok_or(ENDING)?;
        let core = cores::of_missing(opened.stored(), id, &path.parse()?);
        let core = core.map_err(|error| error.to_string())?;
        block_on(opened.attach_core(&core)).map_err(|error| error.to_string())?;
        *self.known() = CacheDeviceFacts::of(opened);
        let export = cores::export(opened, &core).map_err(|error| error.to_string())?;
        if let Some(nbd) = &self.exported.nbd {
            nbd.add(export).map_err(|error| error.to_string())?;
        }
        value(&self.status())
    }

    /// Forgets a missing core.
    pub(super) fn give_up_core(&self, number: u16) -> Result<Value, String> {
        let id = self.known_core(number)?;
        let mut opened = self.opened();
        let opened = opened.as_mut().ok_or(ENDING)?;
        let lost = block_on(opened.give_up(id)).map_err(|error| error.to_string())?;
        eprintln!(
            "note: core {number} was given up, and {lost} bytes that only the cache had of it"
        );
        *self.known() = CacheDeviceFacts::of(opened);
        value(&self.status())
    }

    /// Destages a core, stops serving it, and ends its connections.
    pub(super) fn remove_core(&self, number: u16, tell: AnswerSink<'_>) -> Result<Value, String> {
        self.exported.check()?;
        let core = self.known_core(number)?;
        let mut opened = self.opened();
        let opened = opened.as_mut().ok_or(ENDING)?;
        let (removed, _) =
            watched(&self.cache, Some(core), tell, || block_on(opened.remove_core(core)));
        removed.map_err(|error| match error.kind() {
            ErrorKind::Setup => error.to_string(),
            _ => format!("{error}; {}; the core is served on", still_dirty(&self.cache)),
        })?;
        *self.known() = CacheDeviceFacts::of(opened);
        let withdrawn = self.exported.nbd.as_ref().and_then(|nbd| nbd.remove(&number.to_string()));
        if let Some(withdrawn) = withdrawn
            && !withdrawn.wait(SOON)
        {
            eprintln!(
                "note: core {number} is gone; waiting up to 5 s for clients of it that do not take their last replies"
            );
            if !withdrawn.wait(FAREWELL) {
                eprintln!(
                    "note: core {number} is gone, and a client of it has not closed its connection"
                );
            }
        }
        value(&self.status())
    }
}

/// The questions for all changes, in order: cores to give up, to attach, to remove, to add.
pub(in crate::block) fn questions(arguments: &CoresArgs) -> Vec<Question> {
    let CoresArgs { add, remove, attach, give_up, .. } = arguments;
    let path = |core: &CoreArg| target::absolute(&core.target).to_string();
    let given_up = give_up.iter().map(|core| Question::GiveUpCore { core: core.get() });
    let attached = attach
        .iter()
        .filter_map(|core| Some(Question::AttachCore { core: core.id?.get(), path: path(core) }));
    let removals = remove.iter().map(|core| Question::RemoveCore { core: core.get() });
    let additions =
        add.iter().map(|core| Question::AddCore { core: super::number(core.id), path: path(core) });
    given_up.chain(attached).chain(removals).chain(additions).collect()
}
