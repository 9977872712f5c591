//! `larder vssd list --device`: how well real drives can isolate tenants.

use std::path::{Path, PathBuf};

use larder_blocks::isolation::{IsolationMechanism, IsolationReport};
use larder_device::nvme::node::Roots;
use larder_device::nvme::{Commands, DriveFile};
use larder_workload::Error;
use serde::Serialize;

use super::output::{count, deliver};
use crate::ending::Ending;
use crate::json::JsonTarget;

#[derive(Debug, Serialize)]
struct Offers {
    devices: Vec<Device>,
}

#[derive(Debug, Serialize)]
struct Device {
    path: String,
    /// Best first.
    #[serde(rename = "rungs")]
    mechanisms: Vec<Offer>,
    /// What could not be found out, or is missing for a better mechanism.
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Offer {
    #[serde(rename = "rung")]
    name: &'static str,
    /// What tenants share: "channels", "reclaim groups", "namespace", "partition", or "unknown".
    isolation: String,
    /// Zones, reclaim groups or namespaces.
    parts: Option<u64>,
    says: String,
}

pub(super) fn run(paths: &[PathBuf], json: JsonTarget) -> Result<Ending, Error> {
    let devices = paths.iter().map(|path| Device::of(path)).collect::<Result<_, _>>()?;
    let offers = Offers { devices };
    let text: String = offers.devices.iter().map(Device::render).collect();
    deliver(json, &text, &offers)?;
    Ok(Ending::Complete)
}

impl Device {
    fn of(path: &Path) -> Result<Self, Error> {
        let open = |path: &Path| Ok(Box::new(DriveFile::open(path, false)?) as Box<dyn Commands>);
        let report = IsolationReport::look(path, &Roots::default(), &open);
        let report = report.map_err(|error| Error::run(format!("--device {error}")))?;
        let offer = |mechanism: IsolationMechanism| Offer {
            name: mechanism.name,
            isolation: mechanism.level.to_string(),
            parts: mechanism.parts,
            says: mechanism.says,
        };
        Ok(Self {
            path: report.path.display().to_string(),
            mechanisms: report.mechanisms.into_iter().map(offer).collect(),
            notes: report.notes,
        })
    }

    fn render(&self) -> String {
        let mut text = format!("{}\n", self.path);
        for Offer { name, isolation, parts, says } in &self.mechanisms {
            let parts = parts.map_or("-".to_owned(), count);
            text += &format!("  {name:20}isolation {isolation:16}{parts:>8}  {says}\n");
        }
        self.notes.iter().for_each(|note| text += &format!("  note: {note}\n"));
        text
    }
}
