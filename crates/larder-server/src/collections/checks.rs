//! Uses any bytes as a collection of each kind: what the fuzzer and the tests run.

use super::{Encoded, Hash, List, Set, Shape, SortedSet};

/// Reads the bytes as each kind of collection, and changes those that are one. What is written must be readable.
pub(crate) fn use_all(bytes: &[u8]) {
    let wanted = bytes.get(bytes.len() / 2..).unwrap_or_default();
    if let Ok(hash) = Hash::parse(bytes) {
        let all: Vec<_> = hash.iter().collect();
        assert_eq!(all.len(), hash.len());
        let _ = hash.get(wanted);
        reads::<Hash>(hash.with(&[(wanted, Some(b"value"))]));
        reads::<Hash>(hash.with_values(all.iter().copied()));
        reads::<Hash>(hash.with_expiries(&[(0, Some(1)), (hash.len(), None)]));
        if let Some(left) = Hash::without_expired(hash, || u64::MAX / 2) {
            reads::<Hash>(left);
        }
        reads::<Hash>(hash.with(&all.iter().map(|(field, _)| (*field, None)).collect::<Vec<_>>()));
    }
    if let Ok(set) = Set::parse(bytes) {
        assert_eq!(set.iter().count(), set.len());
        let _ = set.has(wanted);
        reads::<Set>(set.with(vec![wanted]));
        reads::<Set>(set.without(&(0..set.len()).step_by(2).collect::<Vec<_>>()));
    }
    if let Ok(list) = List::parse(bytes) {
        assert_eq!(list.iter().rev().count(), list.len());
        reads::<List>(list.with(list.len() / 2..list.len(), [wanted].into_iter()));
        reads::<List>(list.part(list.len() / 2..list.len()));
    }
    if let Ok(set) = SortedSet::parse(bytes) {
        for rank in 0..set.len() {
            let (member, _) = set.ranked(rank);
            let _ = (set.rank(member), set.score(member));
        }
        reads::<SortedSet>(set.with(vec![(wanted, Some(1.5))]));
        reads::<SortedSet>(set.with(vec![(wanted, None)]));
        reads::<SortedSet>(set.without_ranks(0..set.len() / 2));
    }
}

fn reads<S: Shape>(encoded: Encoded) {
    let members = encoded.members();
    let bytes = encoded.into_bytes();
    let view = S::parse(&bytes).expect("what is written is readable");
    assert_eq!(S::len(view), members);
}
