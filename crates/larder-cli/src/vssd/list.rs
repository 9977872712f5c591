//! `larder vssd list`.

use larder_blocks::VssdArray;
use larder_vssd::Isolation;
use larder_workload::Error;
use serde::Serialize;

use super::image::{carry_out, refused};
use super::output::{human, json_target};
use super::question::Question;
use super::tenants::Tenant;
use crate::args::{ImageArgs, VssdListArgs};
use crate::ending::Ending;

#[derive(Debug, Serialize)]
pub(super) struct List {
    vssds: Vec<Tenant>,
    free: Vec<Free>,
}

#[derive(Debug, Serialize)]
struct Free {
    unit: &'static str,
    units: u32,
    /// Bytes of each unit.
    unit_bytes: u64,
    /// MB/s of each unit.
    unit_mb_s: u32,
}

pub(super) fn run(arguments: &VssdListArgs) -> Result<Ending, Error> {
    let json = json_target(&arguments.output)?;
    let Some(image) = arguments.image.clone() else {
        #[cfg(target_os = "linux")]
        return super::offers::run(&arguments.device, json);
        #[cfg(not(target_os = "linux"))]
        return Err(Error::usage("--image: which one?"));
    };
    carry_out((&ImageArgs { image }, false), &Question::List {}, json, listed)
}

/// The vSSDs of an array, as text and as JSON.
pub(super) fn listed(array: &VssdArray) -> Result<(String, List), Error> {
    let list = List::of(array)?;
    Ok((render(&list), list))
}

impl List {
    fn of(array: &VssdArray) -> Result<Self, Error> {
        let kinds = [
            ("channel", Isolation::Channel),
            ("die", Isolation::Die),
            ("quarter of a die", Isolation::None),
        ];
        let free = array.look(|array| {
            let rates = array.throughputs();
            let of = |(unit, isolation)| Free {
                unit,
                units: array.free_units(isolation),
                unit_bytes: array.unit_bytes(isolation),
                unit_mb_s: rates.of(isolation),
            };
            kinds.map(of)
        });
        let free = free.map_err(|error| refused("list", &error))?.into();
        Ok(Self { vssds: Tenant::all(array)?, free })
    }
}

fn render(list: &List) -> String {
    let mut text = format!(
        "{:>4}  {:12}{:12}{:>6}  {:18}{:>7}{:>7}{:>12}{:>13}{:>13}  {:9}  OWNER\n",
        "VSSD",
        "ISOLATION",
        "RUNG",
        "UNITS",
        "UNIT",
        "BLOCKS",
        "USED",
        "BLOCK",
        "CAPACITY",
        "WRITTEN",
        "STATE"
    );
    if list.vssds.is_empty() {
        text = "there is no vSSD; make one by `larder vssd create`\n".to_owned();
    }
    for tenant in &list.vssds {
        let isolation = match tenant.weight {
            Some(weight) => format!("{} {weight}", tenant.isolation),
            None => tenant.isolation.clone(),
        };
        text += &format!(
            "{:>4}  {isolation:12}{:12}{:>6}  {:18}{:>7}{:>7}{:>12}{:>13}{:>13}  {:9}  {}\n",
            tenant.vssd,
            tenant.kind,
            tenant.units,
            tenant.unit,
            tenant.blocks,
            tenant.allocated,
            human(tenant.block_bytes),
            human(tenant.capacity_bytes),
            human(tenant.written_bytes),
            if tenant.read_only { "read-only" } else { "good" },
            if tenant.name.is_empty() { "-" } else { &tenant.name }
        );
    }
    for tenant in list.vssds.iter().filter(|it| it.lends || it.lent_blocks + it.borrowed_blocks > 0)
    {
        text += &format!(
            "loans: vSSD {} {}, {} blocks of others on its dies, {} of its blocks on dies of others\n",
            tenant.vssd,
            if tenant.lends { "lends" } else { "does not lend" },
            tenant.lent_blocks,
            tenant.borrowed_blocks
        );
    }
    for Free { unit, units, unit_bytes, unit_mb_s } in &list.free {
        text += &format!("free: {units} × {unit} of {} and {unit_mb_s} MB/s\n", human(*unit_bytes));
    }
    text
}
