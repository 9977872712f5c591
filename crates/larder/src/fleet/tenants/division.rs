//! Decides which part of the device each tenant gets.

use larder_device::DeviceInfo;

use super::config::{Tenant, TenantsConfig};
use crate::base::error::Error;
use crate::config::OnChange;
use crate::fleet::partition::{Division, Part, PartitionTable, grain_bytes};

/// Keeps the parts that tenants have, and finds room for new ones. `found` is the valid table of the device.
pub(super) fn divide(
    config: &TenantsConfig,
    info: &DeviceInfo,
    found: Option<&PartitionTable>,
) -> Result<Division, Error> {
    let had = found.map_or(&[][..], |table| &table.parts);
    if !config.start_empty {
        check_kept(config, info, had)?;
    }
    let is_kept = |part: &Part| {
        let tenant = tenant_of(config, part).filter(|_| !config.start_empty);
        tenant.is_some_and(|tenant| tenant.share_ppm() == part.share_ppm)
    };
    let (mut taken, given_up): (Vec<Part>, Vec<Part>) = had.iter().cloned().partition(is_kept);
    let mut division = Division { given_up, ..Division::default() };
    for tenant in &config.tenants {
        let part = match taken.iter().find(|part| part.name == tenant.name) {
            Some(kept) => kept.clone(),
            None => {
                let part = make_room(tenant, info, &taken)?;
                taken.push(part.clone());
                division.new.push(part.clone());
                part
            }
        };
        division.parts.push(part);
    }
    division.is_changed =
        found.is_none() || !division.new.is_empty() || !division.given_up.is_empty();
    debug_assert_eq!(
        division.parts.len(),
        taken.len(),
        "each tenant has one part, and each part has a tenant"
    );
    Ok(division)
}

fn tenant_of<'a>(config: &'a TenantsConfig, part: &Part) -> Option<&'a Tenant> {
    config.tenants.iter().find(|tenant| tenant.name == part.name)
}

/// Refuses changes that would cost an existing tenant its content, unless the caller asked for that.
fn check_kept(config: &TenantsConfig, info: &DeviceInfo, had: &[Part]) -> Result<(), Error> {
    for part in had {
        match tenant_of(config, part) {
            None if !config.drop_others => return Err(refused_loss(part, info)),
            Some(tenant)
                if config.on_change == OnChange::Refuse && tenant.share_ppm() != part.share_ppm =>
            {
                return Err(refused_change(tenant, part, info));
            }
            _ => {}
        }
    }
    Ok(())
}

fn refused_loss(part: &Part, info: &DeviceInfo) -> Error {
    Error::config(format!(
        "{} has a tenant {:?} with {} % of it that is not among the tenants: declare it, or set drop_others to \
         give its part away",
        info.name,
        part.name,
        f64::from(part.share_ppm) / 10_000.0
    ))
}

fn refused_change(tenant: &Tenant, part: &Part, info: &DeviceInfo) -> Error {
    Error::config(format!(
        "tenant {:?}: flash_percent = {}, but it has {} % of {}, and another part would be empty; go back \
         to that, or set on_change = Discard, which costs no other tenant anything",
        tenant.name,
        tenant.flash_percent,
        f64::from(part.share_ppm) / 10_000.0,
        info.name
    ))
}

/// Places the tenant in the first gap that is large enough.
fn make_room(tenant: &Tenant, info: &DeviceInfo, taken: &[Part]) -> Result<Part, Error> {
    let grain = grain_bytes(info);
    let end = info.capacity_bytes / grain * grain;
    // The table takes the first grain.
    let divisible = end.saturating_sub(grain);
    let share_ppm = tenant.share_ppm();
    let wanted = u128::from(divisible) * u128::from(share_ppm) / 1_000_000;
    let bytes = u64::try_from(wanted).unwrap_or(u64::MAX) / grain * grain;
    let refuse = |complaint: String| {
        let (name, percent) = (&tenant.name, tenant.flash_percent);
        Err(Error::config(format!("tenant {name:?}: flash_percent = {percent} {complaint}")))
    };
    if bytes == 0 {
        return refuse(format!("of {} is less than {grain} bytes; use more", info.name));
    }
    let mut ranges: Vec<_> = taken.iter().map(Part::range).collect();
    ranges.sort_unstable_by_key(|range| range.start);
    let mut start = grain;
    for range in ranges {
        if range.start >= start && range.start - start >= bytes {
            break;
        }
        start = start.max(range.end.next_multiple_of(grain));
    }
    if start.saturating_add(bytes) > end {
        return refuse(format!(
            "is {bytes} bytes, and {} has no free part of that size; use less, drop other tenants, or \
             set start_empty to divide the device anew",
            info.name
        ));
    }
    Ok(Part { name: tenant.name.clone(), share_ppm, start, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_device::PlacementInfo;
    use larder_device::label::Uuid;

    fn info(capacity_bytes: u64, unit: Option<u64>) -> DeviceInfo {
        DeviceInfo {
            placement: PlacementInfo { reclaim_unit_bytes: unit, ..PlacementInfo::none() },
            ..DeviceInfo::new("test", capacity_bytes, 4096, 1 << 18)
        }
    }

    fn config(tenants: &[(&str, f64)]) -> TenantsConfig {
        let tenants = tenants.iter().map(|&(name, percent)| Tenant::new(name, percent)).collect();
        TenantsConfig { tenants, ..TenantsConfig::default() }
    }

    fn divided(config: &TenantsConfig, found: Option<&PartitionTable>) -> Result<Division, String> {
        divide(config, &info(101 << 20, None), found).map_err(|error| error.to_string())
    }

    fn table(division: &Division) -> PartitionTable {
        let (uuid, parts) = (Uuid::from_bytes([7; 16]), division.parts.clone());
        PartitionTable { uuid, generation: 1, membership: None, parts }
    }

    fn mebibytes(division: &Division) -> Vec<(u64, u64)> {
        division.parts.iter().map(|part| (part.start >> 20, part.bytes >> 20)).collect()
    }

    #[test]
    fn parts_are_whole_reclaim_units_where_these_are_known() {
        let config = config(&[("a", 50.0), ("b", 50.0)]);
        let parts = |capacity, unit| {
            let division = divide(&config, &info(capacity, unit), None).unwrap();
            division.parts.iter().map(|part| (part.start, part.bytes)).collect::<Vec<_>>()
        };
        let unit = 3 << 20;
        assert_eq!(parts(1 << 30, Some(unit)), [(unit, 170 * unit), (171 * unit, 170 * unit)]);
        let mib = 1 << 20;
        assert_eq!(parts(65 << 20, None), [(mib, 32 * mib), (33 * mib, 32 * mib)]);
        let too_large = parts(65 << 20, Some(8 << 20));
        assert_eq!(too_large, parts(65 << 20, None), "units that would take a lot of the device");
    }

    #[test]
    fn tenants_keep_their_parts_in_any_order_and_new_ones_get_what_is_free() {
        let first = divided(&config(&[("a", 20.0), ("b", 50.0)]), None).unwrap();
        assert_eq!(mebibytes(&first), [(1, 20), (21, 50)]);
        assert!(first.is_changed);
        let table = table(&first);
        let again = divided(&config(&[("b", 50.0), ("a", 20.0)]), Some(&table)).unwrap();
        assert_eq!(mebibytes(&again), [(21, 50), (1, 20)]);
        assert!(!again.is_changed && again.new.is_empty());
        let grown = config(&[("c", 30.0), ("b", 50.0), ("a", 20.0)]);
        let grown = divided(&grown, Some(&table)).unwrap();
        assert_eq!(mebibytes(&grown), [(71, 30), (21, 50), (1, 20)]);
        assert_eq!(grown.new.iter().map(|part| part.name.as_str()).collect::<Vec<_>>(), ["c"]);
        assert!(grown.is_changed);
        let full = divided(&config(&[("a", 20.0), ("b", 50.0), ("c", 31.0)]), Some(&table));
        assert!(full.unwrap_err().contains("no free part of that size"));
    }

    #[test]
    fn a_tenant_with_a_new_share_moves_and_the_others_stay() {
        let three = config(&[("a", 20.0), ("b", 50.0), ("c", 10.0)]);
        let before = table(&divided(&three, None).unwrap());
        let resized = |tenants| {
            let config = TenantsConfig { on_change: OnChange::Discard, ..config(tenants) };
            divided(&config, Some(&before))
        };
        let names = |parts: &[Part]| parts.iter().map(|part| part.name.clone()).collect::<Vec<_>>();
        let smaller = resized(&[("a", 20.0), ("b", 30.0), ("c", 10.0)]).unwrap();
        assert_eq!(mebibytes(&smaller), [(1, 20), (21, 30), (71, 10)]);
        assert_eq!(
            (names(&smaller.new), names(&smaller.given_up)),
            (vec!["b".into()], vec!["b".into()])
        );
        assert!(smaller.is_changed && smaller.parts.len() == 3);
        let swapped = resized(&[("a", 30.0), ("b", 40.0), ("c", 10.0)]).unwrap();
        assert_eq!(mebibytes(&swapped), [(1, 30), (31, 40), (71, 10)]);
        // Parts that stay may be in the way.
        let in_the_way = resized(&[("a", 80.0), ("b", 10.0), ("c", 10.0)]).unwrap_err();
        assert!(in_the_way.contains("no free part of that size"), "{in_the_way}");
    }

    #[test]
    fn what_would_cost_content_is_refused_with_the_way_out() {
        let before = table(&divided(&config(&[("a", 20.0), ("b", 50.0)]), None).unwrap());
        let fewer = config(&[("b", 50.0)]);
        let refused = divided(&fewer, Some(&before)).unwrap_err();
        assert!(refused.contains("has a tenant \"a\" with 20 % of it"), "{refused}");
        let dropped = TenantsConfig { drop_others: true, ..fewer };
        let dropped = divided(&dropped, Some(&before)).unwrap();
        assert_eq!((mebibytes(&dropped), dropped.new.len()), (vec![(21, 50)], 0));
        let in_the_gap = config(&[("b", 50.0), ("c", 20.0)]);
        let in_the_gap = divided(&in_the_gap, Some(&table(&dropped))).unwrap();
        assert_eq!(mebibytes(&in_the_gap), [(21, 50), (1, 20)]);
        let resized = config(&[("a", 20.0), ("b", 40.0)]);
        let refused = divided(&resized, Some(&before)).unwrap_err();
        assert!(refused.contains("flash_percent = 40, but it has 50 % of test"), "{refused}");
        let anew = TenantsConfig { start_empty: true, ..resized };
        let anew = divided(&anew, Some(&before)).unwrap();
        assert_eq!((mebibytes(&anew), anew.new.len()), (vec![(1, 20), (21, 40)], 2));
        assert_eq!(anew.given_up, before.parts, "what was there is found no more");
    }
}
