//! Collections next to those of the standard library, and damaged bytes.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// A short member, so that many are equal.
fn member() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>().prop_map(|byte| byte % 5), 0..4)
}

fn bytes<S: Shape>(encoded: Encoded) -> Vec<u8> {
    let members = encoded.members();
    let bytes = encoded.into_bytes();
    assert_eq!(S::len(S::parse(&bytes).unwrap()), members);
    bytes
}

proptest! {
    #[test]
    fn hashes_are_maps(steps in vec(vec((member(), proptest::option::of(member())), 0..6), 0..12)) {
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        let mut stored = bytes::<Hash>(Hash::empty().with(&[]));
        for step in steps {
            let changes: Vec<_> = step.iter().map(|(field, value)| (&field[..], value.as_deref())).collect();
            stored = bytes::<Hash>(Hash::parse(&stored).unwrap().with(&changes));
            for (field, value) in step {
                match value {
                    Some(value) => model.insert(field, value),
                    None => model.remove(&field),
                };
            }
            let hash = Hash::parse(&stored).unwrap();
            let all: Vec<_> = hash.iter().map(|(field, value)| (field.to_vec(), value.to_vec())).collect();
            prop_assert_eq!(&all, &model.clone().into_iter().collect::<Vec<_>>());
            for field in [&b""[..], b"\x01", b"\x02\x03"] {
                prop_assert_eq!(hash.get(field), model.get(field).map(|value| &value[..]));
            }
        }
    }

    #[test]
    fn fields_expire_one_by_one(
        steps in vec((member(), proptest::option::of(member()), proptest::option::of(1_u64..20), 0_u8..4), 0..30),
    ) {
        let mut model: BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)> = BTreeMap::new();
        let mut stored = bytes::<Hash>(Hash::empty().with(&[]));
        for (now, (field, value, expires, how)) in steps.into_iter().enumerate() {
            let hash = Hash::parse(&stored).unwrap();
            let pair = || std::iter::once((&field[..], value.as_deref().unwrap_or_default()));
            let text = value.clone().unwrap_or_default();
            let next = match how {
                0 => {
                    match &value {
                        Some(value) => model.insert(field.clone(), (value.clone(), None)),
                        None => model.remove(&field),
                    };
                    hash.with(&[(&field, value.as_deref())])
                }
                1 => {
                    let old = model.get(&field).and_then(|(_, expires)| *expires);
                    model.insert(field.clone(), (text, old));
                    hash.with_values(pair())
                }
                2 => {
                    model.insert(field.clone(), (text, expires));
                    hash.with_expiring(pair(), expires)
                }
                _ => {
                    let place = hash.place(&field);
                    if let Some((_, old)) = model.get_mut(&field) {
                        *old = expires;
                    }
                    hash.with_expiries(&place.map(|place| (place, expires)).into_iter().collect::<Vec<_>>())
                }
            };
            stored = bytes::<Hash>(next);
            let now = now as u64;
            let hash = Hash::parse(&stored).unwrap();
            for (field, (value, expires)) in &model {
                let lives = expires.is_none_or(|expires| expires > now);
                prop_assert_eq!(hash.get_alive(field, now), lives.then_some(&value[..]));
                prop_assert_eq!(hash.place(field).and_then(|at| hash.expiry(at)), *expires);
            }
            let before = model.len();
            model.retain(|_, (_, expires)| expires.is_none_or(|expires| expires > now));
            let left = Hash::without_expired(hash, || now);
            prop_assert_eq!(left.is_some(), model.len() < before);
            if let Some(left) = left {
                stored = bytes::<Hash>(left);
            }
            let hash = Hash::parse(&stored).unwrap();
            let all: Vec<_> = hash.iter().map(|(field, value)| (field.to_vec(), value.to_vec())).collect();
            let expected: Vec<_> = model.iter().map(|(field, (value, _))| (field.clone(), value.clone())).collect();
            prop_assert_eq!(all, expected);
            prop_assert!(hash.len() == 0 || (stored[2] == 1) == model.values().any(|(_, it)| it.is_some()));
        }
    }

    #[test]
    fn sets_are_sets(steps in vec((any::<bool>(), vec(member(), 0..6)), 0..12)) {
        let mut model: BTreeSet<Vec<u8>> = BTreeSet::new();
        let mut stored = bytes::<Set>(Set::empty().with(vec![]));
        for (adds, members) in steps {
            let set = Set::parse(&stored).unwrap();
            let next = if adds {
                model.extend(members.clone());
                set.with(members.iter().map(|member| &member[..]).collect())
            } else {
                model.retain(|member| !members.contains(member));
                let mut places: Vec<_> = members.iter().filter_map(|it| set.place(it)).collect();
                places.sort_unstable();
                places.dedup();
                set.without(&places)
            };
            stored = bytes::<Set>(next);
            let set = Set::parse(&stored).unwrap();
            let all: Vec<_> = set.iter().map(<[u8]>::to_vec).collect();
            prop_assert_eq!(&all, &model.clone().into_iter().collect::<Vec<_>>());
            prop_assert!(all.iter().all(|member| set.has(member)));
            prop_assert!(!set.has(b"\xff"));
        }
    }

    #[test]
    fn lists_are_vectors(steps in vec((any::<usize>(), any::<usize>(), vec(member(), 0..4)), 0..12)) {
        let mut model: Vec<Vec<u8>> = Vec::new();
        let mut stored = bytes::<List>(List::empty().part(0..0));
        for (at, end, elements) in steps {
            let at = at % (model.len() + 1);
            let end = at + end % (model.len() - at + 1);
            let list = List::parse(&stored).unwrap();
            let next = list.with(at..end, elements.iter().map(|element| &element[..]));
            model.splice(at..end, elements.clone());
            stored = bytes::<List>(next);
            let list = List::parse(&stored).unwrap();
            prop_assert_eq!(&list.iter().map(<[u8]>::to_vec).collect::<Vec<_>>(), &model);
            let part = bytes::<List>(list.part(at..model.len()));
            let part: Vec<_> = List::parse(&part).unwrap().iter().map(<[u8]>::to_vec).collect();
            prop_assert_eq!(&part[..], &model[at..]);
            let odd: Vec<usize> = (1..model.len()).step_by(2).collect();
            let even = bytes::<List>(list.without(&odd));
            let even: Vec<_> = List::parse(&even).unwrap().iter().map(<[u8]>::to_vec).collect();
            prop_assert_eq!(even, model.iter().step_by(2).cloned().collect::<Vec<_>>());
        }
    }

    #[test]
    fn sorted_sets_are_maps_with_an_order(
        steps in vec((vec((member(), proptest::option::of(-3_i8..3)), 0..6), any::<usize>()), 0..12),
    ) {
        let mut model: BTreeMap<Vec<u8>, f64> = BTreeMap::new();
        let mut stored = bytes::<SortedSet>(SortedSet::empty().with(vec![]));
        for (step, taken) in steps {
            let changes: BTreeMap<_, _> = step.into_iter().collect();
            let of = |score: &Option<i8>| score.map(|score| f64::from(score) / 2.0);
            let pairs = changes.iter().map(|(member, score)| (&member[..], of(score))).collect();
            stored = bytes::<SortedSet>(SortedSet::parse(&stored).unwrap().with(pairs));
            for (member, score) in &changes {
                match of(score) {
                    Some(score) => model.insert(member.clone(), score),
                    None => model.remove(member),
                };
            }
            if taken % 3 == 0 {
                let ranks = taken % (model.len() + 1)..model.len();
                let gone: Vec<_> = ranked(&model)[ranks.clone()].to_vec();
                model.retain(|member, _| gone.iter().all(|(other, _)| other != member));
                stored = bytes::<SortedSet>(SortedSet::parse(&stored).unwrap().without_ranks(ranks));
            }
            let set = SortedSet::parse(&stored).unwrap();
            let by_rank = (0..set.len()).map(|rank| set.ranked(rank));
            let by_rank: Vec<_> = by_rank.map(|(member, score)| (member.to_vec(), score)).collect();
            prop_assert_eq!(&by_rank, &ranked(&model));
            for (rank, (member, score)) in by_rank.iter().enumerate() {
                prop_assert_eq!((set.rank(member), set.score(member)), (Some(rank), Some(*score)));
            }
            prop_assert_eq!(set.rank(b"\xff"), None);
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(
        kind in 1_u8..5,
        marks in 0_u8..2,
        count in 0_u8..6,
        rest in vec(prop_oneof![Just(0_u8), 0_u8..8, any::<u8>()], 0..120),
    ) {
        let bytes = [&[1, kind, marks, 0, count, 0, 0, 0][..], &rest].concat();
        use_all(&bytes);
    }

    #[test]
    fn a_collection_with_a_wrong_byte_is_read_without_a_panic(at in any::<usize>(), byte in any::<u8>()) {
        for mut bytes in one_of_each() {
            let at = at % bytes.len();
            bytes[at] = byte;
            use_all(&bytes);
            use_all(&bytes[..at]);
        }
    }
}

/// Members by score, then by their bytes.
fn ranked(model: &BTreeMap<Vec<u8>, f64>) -> Vec<(Vec<u8>, f64)> {
    let mut all: Vec<_> = model.iter().map(|(member, score)| (member.clone(), *score)).collect();
    all.sort_by(|one, other| one.1.total_cmp(&other.1).then_with(|| one.0.cmp(&other.0)));
    all
}

/// A collection of each kind.
fn one_of_each() -> [Vec<u8>; 4] {
    let members = || [&b"a"[..], b"bc", b"", b"def"];
    [
        Hash::empty().with(&members().map(|it| (it, Some(it)))).into_bytes(),
        Set::empty().with(members().to_vec()).into_bytes(),
        SortedSet::empty()
            .with(members().map(|it| (it, Some(it.len() as f64))).to_vec())
            .into_bytes(),
        List::empty().with(0..0, members().into_iter()).into_bytes(),
    ]
}

#[test]
fn a_collection_is_its_drawing() {
    let [hash, set, sorted, list] = one_of_each();
    let header = |kind| [1, kind, 0, 0, 4, 0, 0, 0];
    let ends = |ends: &[u8]| ends.iter().flat_map(|end| [*end, 0, 0, 0]).collect::<Vec<u8>>();
    let expected = [&header(1)[..], &ends(&[0, 0, 1, 2, 4, 6, 9, 12]), b"aabcbcdefdef"].concat();
    assert_eq!(hash, expected);
    let expires = Hash::empty().with_expiring(std::iter::once((&b"a"[..], &b"b"[..])), Some(7));
    let drawn =
        [&[1, 1, 1, 0, 1, 0, 0, 0][..], &ends(&[1, 2]), &7_u64.to_le_bytes(), b"ab"].concat();
    assert_eq!(expires.into_bytes(), drawn);
    assert_eq!(set, [&header(2)[..], &ends(&[0, 1, 3, 6]), b"abcdef"].concat());
    let scores: Vec<u8> = [0.0_f64, 1.0, 2.0, 3.0].iter().flat_map(|it| it.to_le_bytes()).collect();
    let parts = [&header(3)[..], &ends(&[0, 1, 3, 6]), &scores, &ends(&[0, 1, 2, 3]), b"abcdef"];
    assert_eq!(sorted, parts.concat());
    assert_eq!(list, [&header(4)[..], &ends(&[1, 3, 3, 6]), b"abcdef"].concat());
}

#[test]
fn what_is_no_collection_is_refused() {
    let [hash, set, sorted, list] = one_of_each();
    assert!(
        Hash::parse(&set).is_err() && Set::parse(&list).is_err() && List::parse(&hash).is_err()
    );
    let mut longer = list.clone();
    longer.push(0);
    assert!(List::parse(&longer).is_err(), "the strings fill the data");
    let mut descending = list.clone();
    descending[12] = 0;
    assert!(List::parse(&descending).is_err(), "an end before the end of the string before");
    let mut beyond = sorted;
    beyond[8 + 16 + 32] = 4;
    assert!(SortedSet::parse(&beyond).is_err(), "a rank of no member");
    let mut huge = set;
    huge[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(Set::parse(&huge).is_err(), "a number of members that cannot be");
    assert!(List::parse(&[]).is_err() && List::parse(&[1, 4, 0, 0]).is_err());
    let mut newer = list;
    newer[0] = 2;
    assert!(List::parse(&newer).is_err(), "another version");
    let mut marked = set_of_one();
    marked[2] = 1;
    assert!(Set::parse(&marked).is_err(), "members of sets do not expire");
}

fn set_of_one() -> Vec<u8> {
    Set::empty().with(vec![b"a"]).into_bytes()
}

#[test]
fn kinds_are_flags() {
    for kind in [Kind::Hash, Kind::Set, Kind::SortedSet, Kind::List] {
        assert_eq!(ItemKind::of(kind.flags()), ItemKind::Collection(kind));
    }
    assert_eq!(ItemKind::of(0x4c61_72ff), ItemKind::Unknown);
    for flags in [0, 1, 0x4c61_7200, 0x4c61_7301, u32::MAX] {
        assert_eq!(ItemKind::of(flags), ItemKind::String, "{flags:x}");
    }
}

#[test]
fn encodings_are_told_by_size() {
    let set = |members: Vec<String>| {
        let members = members.iter().map(|member| member.as_bytes()).collect();
        encoding(Kind::Set, &Set::empty().with(members).into_bytes()).unwrap()
    };
    assert_eq!(set((0..100).map(|it| it.to_string()).collect()), "intset");
    assert_eq!(set(vec!["1".into(), "x".into()]), "listpack");
    assert_eq!(set((0..200).map(|it| format!("m{it}")).collect()), "hashtable");
    assert_eq!(set(vec!["x".repeat(65)]), "hashtable");
    assert!(encoding(Kind::Hash, b"").is_err());
}
