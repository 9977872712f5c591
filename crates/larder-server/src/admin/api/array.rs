//! `/api/array`: the shards of the set that the server has open, and the operators' orders to change them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use larder::device::FileOptions;
use larder::{Device, FileDevice, Shards, block_on};

use crate::admin::http::HttpRequest;
use crate::set_report::SetReport;
use crate::shared::ServerState;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The report of the set; `None` if the server has no set.
pub(super) fn of(shared: &ServerState) -> Option<SetReport> {
    Some(SetReport::open(set(shared)?.status()))
}

/// The set. All tenants share it, so that of the first tenant will do.
pub(in crate::admin) fn set(shared: &ServerState) -> Option<&Shards> {
    shared.default_tenant().shards()
}

/// An operator's order to the set. A path is that of an existing file or block device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::admin) enum Order {
    Retire(usize),
    Fail(usize),
    Replace(usize, PathBuf),
    Add(PathBuf),
    Spare(PathBuf),
    /// From a shard to another one: how many of 10,000 parts of its keys.
    Move(usize, usize, u16),
}

impl Order {
    /// Parses the order of a request; the inner error says what is missing. `None` if the path is not that of an order.
    pub(in crate::admin) fn of(request: &HttpRequest) -> Option<Result<Self, &'static str>> {
        let number = || {
            let number = request.value("shard").and_then(|number| number.parse().ok());
            number.ok_or("which shard? Name one as ?shard=NUMBER\n")
        };
        let path = || {
            let path = request.value("path").filter(|path| !path.is_empty()).map(PathBuf::from);
            path.ok_or("which device? Name a file or block device of this machine as ?path=PATH\n")
        };
        Some(match &*request.path {
            "/api/array/retire" => number().map(Self::Retire),
            "/api/array/fail" => number().map(Self::Fail),
            "/api/array/replace" => number().and_then(|number| Ok(Self::Replace(number, path()?))),
            "/api/array/add" => path().map(Self::Add),
            "/api/array/spare" => path().map(Self::Spare),
            "/api/array/move" => moved(request),
            _ => return None,
        })
    }

    /// Carries the order out, and returns a message with the result.
    pub(in crate::admin) fn carry_out(self, shards: &Shards) -> Result<String, Error> {
        tracing::warn!(order = ?self, "shards change: an operator said so");
        match self {
            Self::Retire(number) => block_on(shards.retire_shard(number))?,
            Self::Fail(number) => block_on(shards.fail_shard(number))?,
            Self::Replace(number, path) => block_on(shards.replace_shard(number, device(&path)?))?,
            Self::Add(path) => {
                let number = block_on(shards.add_shard(device(&path)?))?;
                return Ok(format!("done: it is shard {number}\n"));
            }
            Self::Spare(path) => block_on(shards.add_spare(device(&path)?))?,
            Self::Move(from, to, parts) => {
                let moved = f64::from(block_on(shards.move_keys(from, to, parts))?) / 100.0;
                return Ok(format!("done: {moved} % of the keys have their home at shard {to}\n"));
            }
        }
        Ok("done\n".to_owned())
    }
}

/// The order to move keys.
fn moved(request: &HttpRequest) -> Result<Order, &'static str> {
    let number = |name: &str| request.value(name).and_then(|number| number.parse().ok());
    let shards = number("from").zip(number("to"));
    let parts = request.value("parts").and_then(|parts| parts.parse().ok());
    let order = shards.zip(parts).map(|((from, to), parts)| Order::Move(from, to, parts));
    order.ok_or("which keys? Say ?from=NUMBER&to=NUMBER&parts=PARTS, of 10000 parts\n")
}

fn device(path: &Path) -> Result<Arc<dyn Device>, larder::device::Error> {
    let opened = FileDevice::open(path, &FileOptions::default())?;
    Ok(Arc::new(opened))
}
