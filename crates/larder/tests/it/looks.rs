//! Reads values without keeping them, with and without flash.

use larder::{ErrorKind, SetOptions, block_on};

use crate::updates::both;

fn flagged(flags: u32) -> SetOptions {
    SetOptions { flags, ..SetOptions::default() }
}

#[test]
fn a_look_shows_value_and_meta() {
    both(|rig, push_out| {
        let cache = &rig.cache;
        block_on(cache.set_with(b"k", b"rye", flagged(7))).unwrap();
        for _ in 0..2 {
            let seen = block_on(cache.get_with(b"k", |value, meta| (value.to_vec(), meta.flags)));
            assert_eq!(seen.unwrap(), Some((b"rye".to_vec(), 7)));
            push_out();
        }
        let none = block_on(cache.get_with(b"no", |_, _| panic!("there is none"))).unwrap();
        assert_eq!(none, None);
        let error = block_on(cache.get_with(&[7; 65_536], |_, _| ())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    });
}

#[test]
fn a_value_is_appended_whole_or_not_at_all() {
    both(|rig, push_out| {
        let cache = &rig.cache;
        block_on(cache.set_with(b"k", b"rye", flagged(7))).unwrap();
        push_out();
        let mut reply = b"VALUE ".to_vec();
        let meta = block_on(cache.get_into(b"k", &mut reply)).unwrap().unwrap();
        assert_eq!((&reply[..], meta.flags), (&b"VALUE rye"[..], 7));
        assert_eq!(block_on(cache.get_into(b"no", &mut reply)).unwrap(), None);
        let mut room = [0; 2];
        let error = block_on(cache.get_into(b"k", &mut &mut room[..])).unwrap_err();
        assert_eq!((error.kind(), room), (ErrorKind::InvalidInput, [0; 2]));
        assert!(error.to_string().contains("2 bytes") && error.to_string().contains("has 3"));
        let mut room = [0; 3];
        assert!(block_on(cache.get_into(b"k", &mut &mut room[..])).unwrap().is_some());
        assert_eq!((&room, reply.len()), (b"rye", 9));
    });
}

#[test]
fn many_looks_show_each_hit_once() {
    both(|rig, push_out| {
        (0..100).for_each(|key| rig.set(key, key, 100));
        push_out();
        rig.set(200, 200, 100);
        // Some on flash, one in DRAM, some missing, one twice.
        let numbers: Vec<u32> = (0..100).chain([200, 7000, 3, 7001]).collect();
        let keys: Vec<_> = numbers.iter().map(|&key| crate::rig::key_of(key)).collect();
        let mut seen = vec![0; keys.len()];
        let look = |at: usize, value: &[u8], _| {
            assert_eq!(crate::rig::version_in(numbers[at], value), numbers[at]);
            seen[at] += 1;
        };
        assert_eq!(block_on(rig.cache.get_many_with(&keys, look)).unwrap(), 102);
        let expected: Vec<_> = numbers.iter().map(|&key| u32::from(key < 7000)).collect();
        assert_eq!(seen, expected);
        let none = block_on(rig.cache.get_many_with(&[&b"a"[..], &[7; 65_536]], |_, _, _| ()));
        assert_eq!(none.unwrap_err().kind(), ErrorKind::InvalidInput);
    });
}

/// Memory of a value that was only looked at may be reused at once; memory of a value that is kept is not.
#[test]
fn a_look_leaves_nothing_behind() {
    both(|rig, push_out| {
        let cache = &rig.cache;
        block_on(cache.set(b"k", b"rye", None)).unwrap();
        let place = |value: &[u8], _| value.as_ptr().addr();
        let first = block_on(cache.get_with(b"k", place)).unwrap();
        block_on(cache.set(b"k", b"oat", None)).unwrap();
        assert_eq!(block_on(cache.get_with(b"k", place)).unwrap(), first);
        let kept = block_on(cache.get(b"k")).unwrap().unwrap();
        block_on(cache.set(b"k", b"bun", None)).unwrap();
        assert_ne!(block_on(cache.get_with(b"k", place)).unwrap(), first);
        push_out();
        assert_eq!(*kept, *b"oat");
        assert_eq!(block_on(cache.get(b"k")).unwrap().as_deref(), Some(&b"bun"[..]));
    });
}
