//! Orders that operators give at the admin address of a server to the virtual SSDs under its tenants: the same work as
//! `larder vssd list`, `create`, `grow` and `delete`.

use std::fmt;

use larder_blocks::VssdArray;
use larder_server::{VssdOrder, VssdOrders};
use larder_workload::Error;
use serde_json::Value;

use super::list::listed;
use super::make::{created, deleted, grown};
use super::question::Wanted;

/// The array of a server.
pub(crate) struct ServedVssds(VssdArray);

impl ServedVssds {
    pub(crate) fn of(array: &VssdArray) -> Self {
        Self(array.clone())
    }
}

impl fmt::Debug for ServedVssds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServedVssds").finish_non_exhaustive()
    }
}

impl VssdOrders for ServedVssds {
    fn list(&self) -> Result<Value, String> {
        let (_, list) = listed(&self.0).map_err(|error| error.to_string())?;
        serde_json::to_value(list).map_err(|error| error.to_string())
    }

    fn carry_out(&self, order: &VssdOrder) -> Result<String, String> {
        let done: Result<String, Error> = match order.clone() {
            VssdOrder::Create { name, isolation, weight, units, capacity } => {
                let capacity = capacity.unwrap_or(1);
                let wanted = Wanted { name, isolation, weight, mb_s: 0, units, capacity };
                created(&self.0, &wanted).map(|(text, _)| text)
            }
            VssdOrder::Grow { vssd, units } => grown(&self.0, vssd, units).map(|(text, _)| text),
            VssdOrder::Delete { vssd, destroy_data } => {
                deleted(&self.0, vssd, destroy_data).map(|(text, _)| text)
            }
        };
        done.map_err(|error| error.to_string())
    }
}
