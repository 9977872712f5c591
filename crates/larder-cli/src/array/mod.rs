//! `larder array`: sets of shards, closed ones and those that a running server has open.

mod picture;
mod server;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use larder::{ClosedSet, Device, RealClock, SetOrder, block_on};
use larder_device::label::{self, FRONT_BYTES, Found};
use larder_device::{FileDevice, FileOptions, Io, IoBuffer};
use larder_workload::Error;

use self::server::Server;
use crate::args::{ArrayArgs, ArrayCommand};
use crate::ending::Ending;
use crate::json::JsonTarget;
use larder_server::SetReport;

pub(crate) fn run(command: &ArrayCommand) -> Result<Ending, Error> {
    let array = match command {
        ArrayCommand::Status(array) => array,
        ArrayCommand::Retire(it) | ArrayCommand::Fail(it) => &it.array,
        ArrayCommand::Replace(it) => &it.array,
        ArrayCommand::Add(it) | ArrayCommand::Spare(it) => &it.array,
        ArrayCommand::Move(it) => &it.array,
    };
    let json = JsonTarget::prepare(array.json.as_deref())?;
    let (report, done) = match &array.server {
        Some(address) => {
            let server = Server::at(address, array.token_file.as_deref())?;
            let done = order(command, &server)?;
            let status = server.status();
            (
                status.map_err(|error| {
                    Error::run(format!("{}{error}", done.replace('\n', ", but ")))
                })?,
                done,
            )
        }
        None => of_devices(command, array)?,
    };
    json.tell(&format!("{}{done}", picture::render(&report)))?;
    json.write(&report)?;
    Ok(Ending::Complete)
}

/// Sends an order to a server's set. Returns a message about the result.
fn order(command: &ArrayCommand, server: &Server) -> Result<String, Error> {
    let shard = |number: usize| ("shard", number.to_string());
    match command {
        ArrayCommand::Status(_) => Ok(String::new()),
        ArrayCommand::Retire(it) => server.order("retire", &[shard(it.number)]),
        ArrayCommand::Fail(it) => server.order("fail", &[shard(it.number)]),
        ArrayCommand::Replace(it) => server.order("replace", &[shard(it.number), there(&it.new)?]),
        ArrayCommand::Add(it) => server.order("add", &[there(&it.new)?]),
        ArrayCommand::Spare(it) => server.order("spare", &[there(&it.new)?]),
        ArrayCommand::Move(it) => {
            let parts = format!("{:.0}", 100.0 * it.percent);
            let (from, to) = (it.from.to_string(), it.to.to_string());
            server.order("move", &[("from", from), ("to", to), ("parts", parts)])
        }
    }
}

/// The path of a device on the server's machine. It must be absolute: a relative path would depend on where this
/// command runs.
fn there(path: &Path) -> Result<(&'static str, String), Error> {
    match path.to_str().filter(|_| path.has_root()) {
        Some(text) => Ok(("path", text.to_owned())),
        None => Err(Error::usage(format!(
            "--new {}: name it by its whole path on the server's machine, such as /dev/sde",
            path.display()
        ))),
    }
}

/// Looks at a closed set, and changes it. Returns a message about what to do next.
fn of_devices(command: &ArrayCommand, array: &ArrayArgs) -> Result<(SetReport, String), Error> {
    let (order, new) = match command {
        ArrayCommand::Status(_) => (None, None),
        ArrayCommand::Retire(it) => (Some(SetOrder::Retire(it.number)), None),
        ArrayCommand::Fail(it) => (Some(SetOrder::Fail(it.number)), None),
        ArrayCommand::Replace(it) => (Some(SetOrder::Fail(it.number)), Some(blank(&it.new)?)),
        ArrayCommand::Add(it) => {
            let new = blank(&it.new)?;
            let capacity_bytes = new.info().capacity_bytes;
            (Some(SetOrder::Add { capacity_bytes }), Some(new))
        }
        ArrayCommand::Spare(_) => {
            return Err(Error::usage(
                "spare: only an open set takes one; name the server that has it by --server",
            ));
        }
        ArrayCommand::Move(_) => {
            return Err(Error::usage(
                "move: only an open set moves keys; name the server that has it by --server",
            ));
        }
    };
    let mut set = look(array)?;
    if let Some(order) = order {
        block_on(set.change(order)).map_err(|error| refused(&error))?;
    }
    let next = new.map_or(String::new(), |new| {
        format!("from the next opening on, give {} too\n", new.info().name)
    });
    Ok((SetReport::closed(set.status()), next))
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

/// Opens a blank device.
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
