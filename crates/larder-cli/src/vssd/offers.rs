//! `larder vssd list --device`: how well real drives can isolate tenants.

use std::path::{Path, PathBuf};

use larder_device::ladder::Ladder;
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
    rungs: Vec<Offer>,
    /// What could not be found out, or is missing for a better rung.
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Offer {
    rung: &'static str,
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
        let ladder = Ladder::look(path, &Roots::default(), &open);
        let ladder = ladder.map_err(|error| Error::run(format!("--device {error}")))?;
        let offer = |rung: larder_device::ladder::Rung| Offer {
            rung: rung.name,
            isolation: rung.isolation.to_string(),
            parts: rung.parts,
            says: rung.says,
        };
        Ok(Self {
            path: ladder.path.display().to_string(),
            rungs: ladder.rungs.into_iter().map(offer).collect(),
            notes: ladder.notes,
        })
    }

    fn render(&self) -> String {
        let mut text = format!("{}\n", self.path);
        for Offer { rung, isolation, parts, says } in &self.rungs {
            let parts = parts.map_or("-".to_owned(), count);
            text += &format!("  {rung:20}isolation {isolation:16}{parts:>8}  {says}\n");
        }
        self.notes.iter().for_each(|note| text += &format!("  note: {note}\n"));
        text
    }
}
