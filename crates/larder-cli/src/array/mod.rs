//! `larder array`: sets of shards that nobody has open.

mod picture;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use larder::{ClosedSet, Device, RealClock, SetOrder, SetStatus, block_on};
use larder_device::label::{self, FRONT_BYTES, Found};
use larder_device::{FileDevice, FileOptions, Io, IoBuffer};
use larder_lab::Error;
use serde::Serialize;

use crate::args::{ArrayArgs, ArrayCommand};
use crate::ending::Ending;
use crate::json::JsonTarget;

#[derive(Debug, Serialize)]
struct Report {
    epoch: u32,
    shards: Vec<Shard>,
}

#[derive(Debug, Serialize)]
struct Shard {
    number: usize,
    state: &'static str,
    since: u32,
    weight: u32,
    device: Option<String>,
    capacity_bytes: Option<u64>,
    dlwa: Option<f64>,
    used_percent: Option<u8>,
    /// Why it would not serve.
    down: Option<String>,
}

pub(crate) fn run(command: &ArrayCommand) -> Result<Ending, Error> {
    let (array, order, new) = match command {
        ArrayCommand::Status(array) => (array, None, None),
        ArrayCommand::Retire(it) => (&it.array, Some(SetOrder::Retire(it.number)), None),
        ArrayCommand::Fail(it) => (&it.array, Some(SetOrder::Fail(it.number)), None),
        ArrayCommand::Replace(it) => {
            (&it.array, Some(SetOrder::Fail(it.number)), Some(blank(&it.new)?))
        }
        ArrayCommand::Add(it) => {
            let new = blank(&it.new)?;
            let capacity_bytes = new.info().capacity_bytes;
            (&it.array, Some(SetOrder::Add { capacity_bytes }), Some(new))
        }
    };
    let json = JsonTarget::prepare(array.json.as_deref())?;
    let mut set = look(array)?;
    if let Some(order) = order {
        block_on(set.change(order)).map_err(|error| refused(&error))?;
    }
    let status = set.status();
    let mut text = picture::render(&status);
    if let Some(new) = new {
        text += &format!("from the next opening on, give {} too\n", new.info().name);
    }
    json.tell(&text)?;
    json.write(&report(status))?;
    Ok(Ending::Complete)
}

fn look(array: &ArrayArgs) -> Result<ClosedSet, Error> {
    let devices: Vec<Arc<dyn Device>> = array.device.iter().map(open).collect::<Result<_, _>>()?;
    block_on(ClosedSet::look(devices, Arc::new(RealClock))).map_err(|error| refused(&error))
}

fn open(path: &PathBuf) -> Result<Arc<dyn Device>, Error> {
    let opened = FileDevice::open(path, &FileOptions::default());
    let device = opened
        .map_err(|error| Error::run(format!("{}: cannot be opened: {error}", path.display())))?;
    Ok(Arc::new(device))
}

/// A device on which there is nothing.
fn blank(path: &Path) -> Result<Arc<dyn Device>, Error> {
    let device = open(&path.to_owned())?;
    let bytes = device.info().capacity_bytes.min(FRONT_BYTES);
    let buffer = IoBuffer::zeroed(usize::try_from(bytes).unwrap_or(0));
    let front = device.submit(Io::Read { offset: 0, buffer }).wait();
    let front =
        front.map_err(|failure| Error::run(format!("{}: {}", path.display(), failure.error)))?;
    match label::find(front.as_slice()) {
        Found::Blank => Ok(device),
        _ => Err(Error::usage(format!(
            "--new {}: it is not blank; erase its first 128 KiB if nothing on it is needed",
            path.display()
        ))),
    }
}

fn refused(error: &larder::Error) -> Error {
    Error::run(error.to_string())
}

fn report(status: SetStatus) -> Report {
    let shard = |shard: larder::ShardStatus| Shard {
        number: shard.number,
        state: shard.state.name(),
        since: shard.since,
        weight: shard.weight,
        capacity_bytes: shard.device.as_ref().map(|device| device.capacity_bytes),
        dlwa: shard.device.as_ref().and_then(|device| device.dlwa),
        used_percent: shard.device.as_ref().and_then(|device| device.used_percent),
        device: shard.device.map(|device| device.name),
        down: shard.down,
    };
    Report { epoch: status.epoch, shards: status.shards.into_iter().map(shard).collect() }
}
