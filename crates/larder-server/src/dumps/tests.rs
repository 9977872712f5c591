//! Dumps next to those of another server, and damaged ones.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const MAX: Longest = Longest { string: 1 << 20, collection: 1 << 20 };

/// From a text of hexadecimal digits.
fn bytes_of(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

fn restored(hex: &str) -> (ItemKind, Vec<u8>) {
    restore(&bytes_of(hex), MAX).unwrap()
}

/// What Valkey 8.0.1 has dumped.
#[test]
fn dumps_of_another_server_are_read() {
    let string = |hex| match restored(hex) {
        (ItemKind::String, value) => value,
        other => panic!("{other:?}"),
    };
    assert_eq!(string("00c139300b00f44b57546e63e130"), b"12345");
    assert_eq!(string("000568656c6c6f0b000aad620598abc983"), b"hello");
    let packed = "00c30b40780361626361e069020162630b00ad4b1c03d77dd78f";
    assert_eq!(string(packed), b"abc".repeat(40));

    let list = "120102c32d406d196d0000000700816102dfff02cfa002f290eefe04f4351cdcdf0220180309e04678e03c000648f200\
                ee8504ff0b00afff18047ddb79ac";
    let (kind, bytes) = restored(list);
    assert_eq!(kind, ItemKind::Collection(Kind::List));
    let long = [b'x'; 70];
    let elements = [&b"a"[..], b"-1", b"4000", b"-70000", b"12345678901", &long, b"-8000000"];
    assert_eq!(List::parse(&bytes).unwrap().iter().collect::<Vec<_>>(), elements);

    for (hex, members) in [
        ("0b0e0200000003000000feff01002c010b0032d515110a0b8983", [&b"-2"[..], b"1", b"300"]),
        ("140f0f00000003008161028162020501ff0b0056cf442ff9111eb0", [b"5", b"a", b"b"]),
        ("0203c005016201610b008e94d161d71f3b73", [b"5", b"a", b"b"]),
    ] {
        let (kind, bytes) = restored(hex);
        assert_eq!(kind, ItemKind::Collection(Kind::Set));
        assert_eq!(Set::parse(&bytes).unwrap().iter().collect::<Vec<_>>(), members, "{hex}");
    }

    let hash = "0403046c6f6e67c3094046017979e03900017979016601760167c0110b000cae7b54f308530b";
    let (_, bytes) = restored(hash);
    let fields = [(&b"f"[..], &b"v"[..]), (b"g", b"17"), (b"long", &[b'y'; 70])];
    assert_eq!(Hash::parse(&bytes).unwrap().iter().collect::<Vec<_>>(), fields);

    for hex in [
        "111d1d0000000600816202842d696e660581610283312e35048163020301ff0b0040af78fc307915b8",
        "0503016300000000000008400161000000000000f83f0162000000000000f0ff0b00f37dee569c930372",
    ] {
        let (kind, bytes) = restored(hex);
        assert_eq!(kind, ItemKind::Collection(Kind::SortedSet));
        let set = SortedSet::parse(&bytes).unwrap();
        let ranked: Vec<_> = (0..set.len()).map(|rank| set.ranked(rank)).collect();
        assert_eq!(ranked, [(&b"b"[..], f64::NEG_INFINITY), (b"a", 1.5), (b"c", 3.0)], "{hex}");
    }
}

#[test]
fn what_no_server_has_dumped_is_refused() {
    let good = bytes_of("000568656c6c6f0b000aad620598abc983");
    for at in 0..good.len() {
        let mut wrong = good.clone();
        wrong[at] ^= 0x40;
        assert_eq!(restore(&wrong, MAX), Err(Wrong::Version), "{at}");
        assert!(restore(&good[..at], MAX).is_err());
    }
    let with_version = |body: &[u8], version: u16| {
        [body, &version.to_le_bytes(), &[0; 8]].concat() // without a sum
    };
    assert_eq!(restore(&with_version(b"\x00\x01a", 12), MAX).unwrap().1, b"a");
    assert_eq!(restore(&with_version(b"\x00\x01a", 80), MAX).unwrap().1, b"a");
    assert_eq!(restore(&with_version(b"\x00\x01a", 13), MAX), Err(Wrong::Version));
    for body in [&b"\x00\x01ab"[..], b"\x01\x00", b"\x07\x01a", b"\x04\x01\x01a", b"\x00\x02a", b""]
    {
        assert_eq!(restore(&with_version(body, 9), MAX), Err(Wrong::Format), "{body:?}");
    }
    // A few bytes that would become many.
    let bomb = [&[0, 0xc3, 3, 0x80], &[0xff; 4][..], &[0xe0, 0xff, 0]].concat();
    assert_eq!(restore(&with_version(&bomb, 9), MAX), Err(Wrong::StringTooLong));
    // Strings have a bound of their own.
    let zeros = [&[0, 0xc3, 5, 0x43, 0x00, 0, 0], &[0xe0, 0xff, 0][..]].concat();
    let string_of = |string| Longest { string, collection: 100 };
    assert_eq!(restore(&with_version(&zeros, 9), string_of(0x2ff)), Err(Wrong::StringTooLong));
    assert_eq!(restore(&with_version(&zeros, 9), string_of(0x300)), Err(Wrong::Format));
    let many = [&[2, 0x80], &[0xff; 4][..], &[0; 2000]].concat();
    let few = Longest { collection: 1000, ..MAX };
    assert_eq!(restore(&with_version(&many, 9), few), Err(Wrong::CollectionTooLong));
    assert_eq!(restore(&with_version(&many, 9), MAX), Err(Wrong::Format));
}

fn words() -> impl Strategy<Value = Vec<Vec<u8>>> {
    vec(
        prop_oneof![vec(any::<u8>(), 0..100), vec(b'0'..=b'9', 1..4), vec(Just(7_u8), 60..20_000)],
        1..20,
    )
}

proptest! {
    #[test]
    fn what_is_dumped_is_restored(words in words(), times in vec(proptest::option::of(1_u64..1 << 40), 20)) {
        let slices = || words.iter().map(|word| &word[..]);
        let pairs = || slices().map(|word| (word, word));
        let all = [
            (ItemKind::String, words[0].clone()),
            (ItemKind::Collection(Kind::List), {
                let elements = slices().collect::<Vec<_>>().into_iter();
                List::empty().with(0..0, elements).into_bytes()
            }),
            (ItemKind::Collection(Kind::Set), Set::empty().with(slices().collect()).into_bytes()),
            (ItemKind::Collection(Kind::Hash), Hash::empty().with_expiring(pairs(), None).into_bytes()),
            (ItemKind::Collection(Kind::Hash), {
                let plain = Hash::empty().with_expiring(pairs(), None).into_bytes();
                let times: Vec<_> = times.into_iter().enumerate().collect();
                Hash::parse(&plain).unwrap().with_expiries(&times).into_bytes()
            }),
            (ItemKind::Collection(Kind::SortedSet), {
                let scored = slices().map(|word| (word, Some(word.len() as f64 / 3.0)));
                let scored: std::collections::BTreeMap<_, _> = scored.collect();
                SortedSet::empty().with(scored.into_iter().collect()).into_bytes()
            }),
        ];
        for (kind, bytes) in all {
            let dump = dump(kind, &bytes).unwrap();
            prop_assert_eq!(restore(&dump, MAX), Ok((kind, bytes)));
        }
    }

    #[test]
    fn any_dump_is_read_without_a_panic(
        kind in prop_oneof![0_u8..6, Just(11), Just(16), Just(17), Just(18), Just(20), Just(24), Just(25), any::<u8>()],
        body in vec(prop_oneof![0_u8..8, any::<u8>()], 0..60),
    ) {
        let dump = [&[kind][..], &body, &[9, 0], &[0; 8]].concat();
        if let Ok((kind, value)) = restore(&dump, Longest { string: 10_000, collection: 10_000 }) {
            prop_assert!(super::dump(kind, &value).is_ok());
        }
        let length = u32::try_from(body.len() + 7).unwrap().to_le_bytes();
        let listpack = [&length[..], &[0xff, 0xff], &body, &[0xff]].concat();
        let _ = listpack::read(&listpack, &mut Strings::new(10_000));
    }
}
