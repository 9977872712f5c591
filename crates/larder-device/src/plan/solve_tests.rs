//! The solver: properties of every plan, and the cases that it was made for.

use std::collections::BTreeSet;

use proptest::prelude::*;

use std::time::Duration;

use super::*;

fn info(handles: u16) -> PlacementInfo {
    PlacementInfo { handles, path: "test", ..PlacementInfo::none() }
}

fn stream(tenant: &str, class: Class, write_share: f64, hours: u64) -> Stream {
    let lifetime = Some(Duration::from_secs(hours * 3600));
    Stream { tenant: tenant.to_owned(), class, write_share, lifetime, places: true }
}

/// Which streams share a handle: sets of stream numbers.
fn sharing(plan: &PlacementPlan) -> BTreeSet<Vec<usize>> {
    let handle = |i: usize| plan.streams()[i].handle;
    let all = 0..plan.streams().len();
    all.clone().map(|i| all.clone().filter(|&j| handle(i) == handle(j)).collect()).collect()
}

fn two_tenants() -> Vec<Stream> {
    [("a", 0.4), ("b", 0.1)]
        .into_iter()
        .flat_map(|(tenant, share)| {
            [stream(tenant, Class::Soc, share, 2), stream(tenant, Class::Loc, share, 48)]
        })
        .collect()
}

#[test]
fn with_too_few_handles_what_writes_alike_shares_first() {
    let shared = |handles| sharing(&solve(&two_tenants(), &info(handles)));
    let sets = |sets: &[&[usize]]| sets.iter().map(|set| set.to_vec()).collect::<BTreeSet<_>>();
    assert_eq!(shared(5), sets(&[&[0], &[1], &[2], &[3]]));
    assert_eq!(shared(4), sets(&[&[0, 2], &[1], &[3]]), "of equal losses the first");
    assert_eq!(shared(3), sets(&[&[0, 2], &[1, 3]]), "the engines of a tenant stay apart");
    assert_eq!(shared(2), sets(&[&[0, 1, 2, 3]]));
    assert_eq!(shared(1), sets(&[&[0, 1, 2, 3]]));
}

/// Bytes written at random die at random, whichever tenant they belong to. Bytes written in order die together only if
/// no other tenant's bytes lie between them.
#[test]
fn tenants_share_what_they_write_at_random_before_what_they_write_in_order() {
    let four: Vec<Stream> = ["a", "b", "c", "d"]
        .into_iter()
        .flat_map(|tenant| {
            [stream(tenant, Class::Soc, 0.125, 2), stream(tenant, Class::Loc, 0.125, 48)]
        })
        .collect();
    let found = sharing(&solve(&four, &info(5)));
    let wanted: [&[usize]; 4] = [&[0, 2, 4, 6], &[1, 3], &[5], &[7]];
    assert_eq!(found, wanted.map(<[usize]>::to_vec).into());
}

fn array_and_loc(groups: u16) -> Vec<Stream> {
    let all = [(Class::Soc, 0.2), (Class::Loc, 0.3), (Class::ArrayTables, 0.02)];
    let mut streams: Vec<Stream> =
        all.into_iter().map(|(class, share)| stream("", class, share, 48)).collect();
    let share = 0.48 / f64::from(groups);
    streams.extend((0..groups).map(|n| stream("", Class::ArrayGroup(n), share, 1 + u64::from(n))));
    streams
}

/// For any number of handles.
#[test]
fn groups_share_with_their_neighbours_and_leave_the_others_their_handles() {
    for handles in 5..40 {
        let sets = sharing(&solve(&array_and_loc(32), &info(handles)));
        let found: Vec<_> = sets.into_iter().collect();
        assert_eq!(found[..3], [vec![0], vec![1], vec![2]], "{handles} handles");
        assert_eq!(found.len(), usize::from(handles - 1).min(35), "{handles} handles");
        for set in &found {
            assert!(set.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{handles}: {set:?}");
        }
    }
}

#[test]
fn tables_share_last_but_for_what_is_written_in_place() {
    let shared = |handles| sharing(&solve(&array_and_loc(2), &info(handles)));
    let sets = |sets: &[&[usize]]| sets.iter().map(|set| set.to_vec()).collect::<BTreeSet<_>>();
    assert_eq!(shared(5), sets(&[&[0], &[1], &[2], &[3, 4]]));
    assert_eq!(shared(4), sets(&[&[0], &[1, 3, 4], &[2]]), "groups and large objects");
    assert_eq!(shared(3), sets(&[&[0], &[1, 2, 3, 4]]));
    assert_eq!(shared(2), sets(&[&[0, 1, 2, 3, 4]]));
}

#[test]
fn lifetimes_and_shares_decide_among_what_writes_alike() {
    let ttl = |number, share, hours| stream("", Class::LocTtl(number), share, hours);
    let classes = [ttl(0, 0.2, 1), ttl(1, 0.2, 3), ttl(2, 0.2, 8), ttl(3, 0.2, 48)];
    assert!(sharing(&solve(&classes, &info(4))).contains(&vec![1, 2]), "8/3 is less than 3");
    let quiet = [ttl(0, 0.2, 1), ttl(1, 0.2, 3), ttl(2, 0.2, 8), ttl(3, 0.001, 48)];
    assert!(
        sharing(&solve(&quiet, &info(4))).contains(&vec![2, 3]),
        "a class that writes little harms little"
    );
}

#[test]
fn without_handles_or_without_placement_all_is_default_and_says_so() {
    let mut streams = two_tenants();
    streams.push(Stream { lifetime: None, ..stream("a", Class::Metadata, 0.0, 0) });
    let plan = solve(&streams, &info(1));
    assert!(plan.streams().iter().all(|stream| stream.handle == PlacementHandle::DEFAULT));
    let told: Vec<Why> = plan.streams().iter().map(|stream| stream.why).collect();
    assert_eq!(told, [[Why::NoHandles; 4].as_slice(), &[Why::Metadata]].concat());
    assert_eq!(plan.compromised_streams(), 4);
    streams.iter_mut().for_each(|stream| stream.places = stream.tenant == "b");
    let told: Vec<(u16, Why)> =
        solve(&streams, &info(8)).streams().iter().map(|s| (s.handle.index(), s.why)).collect();
    let (off, alone) = ((0, Why::Off), |handle| (handle, Why::Alone));
    assert_eq!(told, [off, off, alone(1), alone(2), (0, Why::Metadata)]);
}

#[test]
fn tenants_get_groups_of_their_own_first() {
    let groups = PlacementInfo { handles: 8, groups: 2, ..info(8) };
    let mut streams = two_tenants();
    let handles = |streams: &[Stream]| -> Vec<u16> {
        solve(streams, &groups).streams().iter().map(|s| s.handle.index()).collect()
    };
    assert_eq!(handles(&streams), [1, 2, 5, 6]);
    streams.push(stream("c", Class::Soc, 0.05, 2));
    streams.push(stream("c", Class::Metadata, 0.0, 2));
    // The third tenant joins the one that writes less, and its metadata use the default handle of that group.
    assert_eq!(handles(&streams), [1, 2, 5, 6, 7, 4]);
    let idle: Vec<Stream> =
        streams.iter().map(|one| Stream { write_share: 0.0, ..one.clone() }).collect();
    assert_eq!(handles(&idle)[..4], [1, 2, 5, 6], "also tenants of whom nothing is expected");
}

fn any_streams() -> impl Strategy<Value = Vec<Stream>> {
    let classes = prop::sample::subsequence(
        vec![
            Class::Soc,
            Class::Loc,
            Class::SocLog,
            Class::SocHot,
            Class::LocTtl(0),
            Class::LocTtl(1),
        ],
        1..=6,
    );
    let numbers = prop::collection::vec((0.0..1.0_f64, 0_u64..1_000_000), 6);
    let tenant = (classes, numbers);
    prop::collection::vec(tenant, 1..5).prop_map(|tenants| {
        let mut streams = Vec::new();
        for (number, (classes, numbers)) in tenants.into_iter().enumerate() {
            for (class, (share, hours)) in classes.into_iter().zip(numbers) {
                streams.push(stream(&number.to_string(), class, share, hours));
            }
        }
        streams
    })
}

proptest! {
    #[test]
    fn what_holds_of_every_plan(streams in any_streams(), handles in 1_u16..30) {
        let plan = solve(&streams, &info(handles));
        prop_assert_eq!(&plan, &solve(&streams, &info(handles)));
        let own = usize::from(handles - 1);
        for given in plan.streams() {
            prop_assert!(given.handle.index() < handles);
            prop_assert_eq!(given.handle == PlacementHandle::DEFAULT, own == 0);
            prop_assert_eq!(given.why == Why::Alone, own > 0 && given.shared_with.is_empty());
        }
        let sets = sharing(&plan);
        prop_assert_eq!(sets.len(), streams.len().min(own.max(1)));
        if own >= 2 {
            // With one handle less, the existing sets stay together, and one more pair is merged.
            let fewer = sharing(&solve(&streams, &info(handles - 1)));
            let gone: Vec<_> = sets.difference(&fewer).collect();
            let new: Vec<_> = fewer.difference(&sets).collect();
            if streams.len() < own {
                prop_assert!(gone.is_empty() && new.is_empty());
            } else {
                prop_assert_eq!((gone.len(), new.len()), (2, 1));
            }
            // The two engines of a tenant do not share a handle while at least two handles are left.
            let is_mixed = |set: &Vec<usize>| {
                let kinds: BTreeSet<bool> =
                    set.iter().map(|&i| streams[i].class.is_in_place()).collect();
                kinds.len() > 1
            };
            prop_assert!(!sets.iter().any(is_mixed));
        }
    }

    #[test]
    fn groups_keep_their_streams(streams in any_streams(), groups in 1_u16..5, each in 1_u16..6) {
        let placement = PlacementInfo { handles: groups * each, groups, ..info(1) };
        let plan = solve(&streams, &placement);
        let group = |given: &Assignment| given.handle.index() / each;
        for given in plan.streams() {
            prop_assert!(given.handle.index() < groups * each);
            prop_assert_eq!(given.handle.index() % each == 0, each == 1);
            let same = plan.streams().iter().filter(|other| other.tenant == given.tenant);
            prop_assert!(same.map(group).all(|other| other == group(given)));
        }
        let tenants: BTreeSet<&str> = streams.iter().map(|stream| stream.tenant.as_str()).collect();
        let used: BTreeSet<u16> = plan.streams().iter().map(group).collect();
        prop_assert_eq!(used.len(), tenants.len().min(usize::from(groups)));
    }
}
