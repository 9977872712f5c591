//! Tests with the model's controller, which enforces the order of the steps.

use super::*;
use crate::nvme::{ModelDrive, Survey};
use larder_ssd::managed::{Geometry, ManagedConfig};
use larder_ssd::nvme::{Controller, ControllerConfig};

const BLOCK: u64 = 4096;

fn drive_with(fdp: bool, namespaces: &[(u64, &[u16])]) -> ModelDrive {
    let geometry = Geometry::with_overprovisioning(64 << 20, 256 << 10, 17.0).unwrap();
    let config = ManagedConfig { fdp, handles: 4, ..ManagedConfig::new(geometry) };
    let mut drive = Controller::new(ControllerConfig::new(config)).unwrap();
    for (blocks, handles) in namespaces {
        let handles = handles.to_vec();
        let request = NamespaceRequest { blocks: *blocks, format: 0, endurance_group: 1, handles };
        let created = drive.admin(&Command::create_namespace(), &mut request.encode().unwrap());
        assert!(created.status.is_success(), "{}", created.status);
    }
    ModelDrive::new(drive)
}

fn plan(drive: &ModelDrive) -> Preparation {
    Preparation::plan(drive, &PrepareOptions::default()).unwrap()
}

fn refusal(drive: &ModelDrive, options: &PrepareOptions) -> String {
    Preparation::plan(drive, options).unwrap_err().to_string()
}

#[test]
fn an_empty_drive_gets_fdp_and_a_namespace_with_all_handles() {
    let drive = drive_with(false, &[]);
    let planned = plan(&drive);
    assert!(planned.deleted().is_empty() && !planned.enabled);
    let mut seen = Vec::new();
    let nsid = planned.run(&drive, false, &mut |step| seen.push(step.clone())).unwrap().unwrap();
    assert_eq!(seen, planned.steps);
    let survey = Survey::read(&drive, nsid);
    assert_eq!(survey.enabled(), Ok(true));
    let handles: Vec<_> = survey.handles.as_ref().unwrap().iter().map(|it| it.handle).collect();
    assert_eq!(handles, [0, 1, 2, 3]);
    let mut page = [0; PAGE_BYTES];
    drive.admin(&Command::identify(nsid, cns::NAMESPACE), &mut page).unwrap();
    assert_eq!(decode_namespace(&page), Some(((64 << 20) / BLOCK, 4096, 1)), "all there is");
    let again = plan(&drive);
    assert_eq!((again.steps.as_slice(), again.enabled), (&[][..], true), "it is ready");
    assert_eq!(again.run(&drive, false, &mut |_| {}).unwrap(), None);
}

#[test]
fn namespaces_go_only_if_they_may() {
    let drive = drive_with(false, &[(1000, &[]), (500, &[])]);
    let mut content = [7; 4096];
    drive.io(&Command::write(1, 3, 1, None), &mut content).unwrap();
    let planned = plan(&drive);
    let sizes = [(1, 1000 * BLOCK), (2, 500 * BLOCK)].map(|(nsid, bytes)| Present { nsid, bytes });
    assert_eq!(planned.deleted(), sizes);
    let error = planned.run(&drive, false, &mut |step| panic!("{step:?}")).unwrap_err();
    assert_eq!(error.to_string(), "namespace 1, 2 would be deleted, with its data");
    let mut read = [0; 4096];
    drive.io(&Command::read(1, 3, 1), &mut read).unwrap();
    assert_eq!(read, content, "nothing was done");
    let nsid = planned.run(&drive, true, &mut |_| {}).unwrap().unwrap();
    assert_eq!(Survey::read(&drive, nsid).enabled(), Ok(true));
    drive.io(&Command::read(nsid, 3, 1), &mut read).unwrap();
    assert_eq!(read, [0; 4096]);
}

#[test]
fn too_few_handles_are_replaced_and_room_is_used() {
    let drive = drive_with(true, &[(1000, &[0])]);
    let planned = plan(&drive);
    assert!(planned.enabled && planned.deleted().len() == 1, "{planned:?}");
    let size = PrepareOptions { bytes: Some(8 << 20), handles: Some(3), ..Default::default() };
    let beside = Preparation::plan(&drive, &size).unwrap();
    assert!(beside.deleted().is_empty(), "there is room beside it");
    let nsid = beside.run(&drive, false, &mut |_| {}).unwrap().unwrap();
    assert_eq!((nsid, Survey::read(&drive, nsid).handle_count()), (2, Ok(3)));
    assert!(Preparation::plan(&drive, &size).unwrap().steps.is_empty());
}

#[test]
fn what_does_not_fit_the_drive_is_refused_with_what_would() {
    let drive = drive_with(false, &[]);
    let with = |change: fn(&mut PrepareOptions)| {
        let mut options = PrepareOptions::default();
        change(&mut options);
        refusal(&drive, &options)
    };
    assert!(
        with(|it| it.endurance_group = Some(2)).contains("--endurance-group 2: the drive has 1")
    );
    assert!(
        with(|it| it.configuration = Some(1)).contains("--configuration 1: the drive lists 1 ")
    );
    assert!(with(|it| it.handles = Some(5)).contains("--handles 5: the configuration has 1 to 4"));
    assert!(with(|it| it.bytes = Some(1 << 40)).contains("has room for 67108864"));
    assert!(with(|it| it.bytes = Some(1)).contains("between 4096 and that"));
}

#[test]
fn a_step_that_fails_is_named_and_planning_goes_on_from_there() {
    let drive = drive_with(false, &[]);
    let planned = plan(&drive);
    // Another user creates a namespace first.
    let other = NamespaceRequest { blocks: 10, format: 0, endurance_group: 1, handles: Vec::new() };
    drive.admin(&Command::create_namespace(), &mut other.encode().unwrap()).unwrap();
    let error = planned.run(&drive, true, &mut |_| {}).unwrap_err().to_string();
    assert!(error.starts_with("enabling FDP in endurance group 1: command sequence"), "{error}");
    let anew = plan(&drive);
    assert_eq!(anew.deleted().len(), 1);
    anew.run(&drive, true, &mut |_| {}).unwrap().unwrap();
}

fn configuration(valid: bool, groups: u32) -> Configuration {
    Configuration {
        rgif: 0,
        volatile_write_cache: false,
        valid,
        groups,
        placement_ids_max: 1,
        namespaces_max: 1,
        unit_bytes: 1 << 20,
        unit_time_limit_s: 0,
        handles: Vec::new(),
    }
}

#[test]
fn the_first_valid_configuration_with_one_group_is_taken() {
    let all =
        [(false, 1), (true, 4), (true, 1)].map(|(valid, groups)| configuration(valid, groups));
    assert_eq!(choose(&all, None, None).unwrap().0, 2);
    assert_eq!(choose(&all[..2], None, None).unwrap().0, 1);
    assert_eq!(choose(&all, None, Some(1)).unwrap().0, 1, "what is in use stays");
    assert!(choose(&all, Some(0), None).unwrap_err().to_string().contains("not valid"));
    assert!(choose(&all, Some(2), Some(1)).unwrap_err().to_string().contains("disable it first"));
    assert!(choose(&all[..1], None, None).is_err());
}
