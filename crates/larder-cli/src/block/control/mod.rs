//! The control socket of a running cache. Questions and answers are JSON objects, one per line.
//!
//! ```text
//!   {"command":"flush","core":0}                             asked, at most 1 MiB
//!   {"progress":{"dirty_bytes":4096,"before_bytes":8192}}    while it takes long, now and then
//!   {"done":{"dirty_before_bytes":8192,"dirty_bytes":0}}     the last line of an answer; or {"error":"…"}
//! ```
//!
//! Only the owner may open the socket (mode 0600), and may do everything then. An invalid question is answered with an
//! error. A line that is too long ends the connection. A slow client, or one that has gone, does not delay others.

mod answers;
mod client;
mod exported;
mod line;
mod live_cores;
mod server;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use larder_block::layout::CoreId;
use serde::{Deserialize, Serialize};

pub(super) use answers::{Answers, StopRequest, still_dirty, still_missing};
pub(super) use client::{ControlClient, ask};
pub(super) use exported::CoreExports;
pub(super) use live_cores::questions;
pub(super) use server::ControlServer;

/// Longest question with its line end; IO classes are part of one.
const LINE_BYTES_MAX: usize = 1 << 20;

/// A question. Policies and modes are text, as on the command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Question {
    Status {},
    Stats {
        #[serde(default)]
        reset: bool,
    },
    Flush {
        core: Option<u16>,
    },
    Mode {
        mode: String,
        #[serde(default = "yes")]
        flush: bool,
    },
    Cleaning {
        policy: String,
    },
    CutOff {
        policy: String,
    },
    ReadAhead {
        policy: String,
    },
    Promotion {
        policy: String,
    },
    Routing {
        policy: String,
    },
    Bypass {
        policy: String,
    },
    /// Replaces the classes if there is a CSV. Answers with the current classes.
    IoClass {
        csv: Option<String>,
    },
    Dirty {
        core: Option<u16>,
    },
    Detach {},
    /// Answers with the status.
    Attach {
        cache: String,
        layout: String,
        line: u32,
        segment: Option<u32>,
        over: Option<String>,
        #[serde(default)]
        over_other: bool,
    },
    /// Answers with the status. Without a number it takes the first free one.
    AddCore {
        core: Option<u16>,
        path: String,
    },
    /// Answers with the status.
    RemoveCore {
        core: u16,
    },
    /// Takes up a missing core. Answers with the status.
    AttachCore {
        core: u16,
        path: String,
    },
    /// Gives up a missing core. Answers with the status.
    GiveUpCore {
        core: u16,
    },
    Stop {
        #[serde(default)]
        flush: bool,
    },
}

fn yes() -> bool {
    true
}

/// A line of an answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Answer {
    Progress(Progress),
    Done(serde_json::Value),
    Error(String),
}

/// The progress of destaging.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Progress {
    pub(super) dirty_bytes: u64,
    pub(super) before_bytes: u64,
}

impl Progress {
    /// The share that is done, 0 to 1.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn share(self) -> f64 {
        1.0 - self.dirty_bytes as f64 / self.before_bytes.max(1) as f64
    }
}

/// The path of the control socket for a cache that serves by the socket `unix`.
pub(super) fn beside(unix: &Path) -> PathBuf {
    let mut path = unix.as_os_str().to_owned();
    path.push(".control");
    path.into()
}

/// The number of a core for the protocol.
pub(super) fn number(core: Option<CoreId>) -> Option<u16> {
    core.map(CoreId::get)
}
