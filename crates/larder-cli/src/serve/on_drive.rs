//! Isolation of tenants on drives that map pages themselves. Such a drive has no channels and dies to give; tenants get
//! parts of it, with reclaim groups of their own or a fair share of its time.

use larder_vssd::Isolation;
use larder_workload::Error;

use super::settings::Settings;
use crate::settings_file::TenantSettings;

/// Checks that what the tenants ask for is something that a drive can have.
pub(super) fn check(settings: &Settings) -> Result<(), Error> {
    let target = settings.files.0.first().map_or_else(String::new, |file| format!(" ({file})"));
    for tenant in &settings.tenants {
        let refuse = |why: &str| Err(Error::usage(format!("tenant {:?}: {why}", tenant.name)));
        let Some(place) = &tenant.isolated else {
            return refuse(
                "isolation is missing: the others have it; use die, software or none on a drive",
            );
        };
        if place.isolation == Isolation::Channel {
            return refuse(&format!(
                "isolation = channel: the drive{target} has no channels that tenants could have; use die (a reclaim \
                 group each), software (a fair share of its time), a file of its own such as a namespace, or an array \
                 (file = \"image:PATH\" or \"model:…\")"
            ));
        }
        if place.units.is_some() || place.capacity_bytes.is_some() {
            return refuse(
                "channels, dies and capacity are for arrays of virtual SSDs; on a drive share says how much",
            );
        }
    }
    Ok(())
}

/// Checks that a drive has a reclaim group for each tenant, if some have dies of their own: dies of a drive that maps
/// pages itself are known by no other name. The placement plan gives each tenant a group of its own where there are
/// enough.
pub(super) fn check_groups(settings: &Settings, groups: u16) -> Result<(), Error> {
    let has_own = |tenant: &&TenantSettings| {
        tenant.isolated.is_some_and(|place| place.isolation == Isolation::Die)
    };
    let tenants = settings.tenants.len();
    match settings.tenants.iter().find(has_own) {
        Some(tenant) if usize::from(groups) < tenants => Err(Error::usage(format!(
            "tenant {:?}: isolation = die: the drive has {groups} reclaim group{} for {tenants} tenants; use a drive \
             with a group for each (`larder vssd list --device` says what one has), or isolation = software",
            tenant.name,
            if groups == 1 { "" } else { "s" }
        ))),
        _ => Ok(()),
    }
}
