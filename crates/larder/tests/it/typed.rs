//! The typed layer: values in, values out, and bytes that no codec understands.

use std::sync::Arc;

use larder::{
    Codec, Config, Larder, Route, Routed, SetOptions, Shards, Typed, TypedError, VirtualClock,
    block_on,
};

/// Numbers below 1000, as decimal digits.
#[derive(Clone, Copy)]
struct Digits;

#[derive(Debug, PartialEq)]
struct NotDigits;

impl std::fmt::Display for NotDigits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("not a number below 1000")
    }
}

impl std::error::Error for NotDigits {}

impl Codec<u32> for Digits {
    type Error = NotDigits;

    fn encode(&self, value: &u32, out: &mut Vec<u8>) -> Result<(), NotDigits> {
        if *value >= 1000 {
            return Err(NotDigits);
        }
        out.extend_from_slice(value.to_string().as_bytes());
        Ok(())
    }

    fn decode(&self, bytes: &[u8]) -> Result<u32, NotDigits> {
        std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()).ok_or(NotDigits)
    }
}

fn cache() -> Arc<Larder> {
    let config = Config { dram_bytes: 1 << 20, ..Config::default() };
    Arc::new(block_on(Larder::open(config, None, Arc::new(VirtualClock::default()))).unwrap())
}

fn numbers(cache: &Arc<Larder>) -> Typed<str, u32, Digits, Arc<Larder>> {
    Typed::new(Arc::clone(cache), Digits)
}

const PLAIN: SetOptions = of_tiers(larder::Tiers::Both);

const fn of_tiers(tiers: larder::Tiers) -> SetOptions {
    SetOptions {
        ttl: None,
        flags: 0,
        tiers,
        version: None,
        stale: false,
        won: false,
        binary_key: false,
    }
}

#[test]
fn values_go_in_and_come_out() {
    let cache = cache();
    let numbers = numbers(&cache);
    assert_eq!(block_on(numbers.get("a")).unwrap(), None);
    block_on(numbers.set("a", &42, SetOptions { flags: 5, ..PLAIN })).unwrap();
    assert_eq!(block_on(numbers.get("a")).unwrap(), Some(42));
    let bytes = block_on(numbers.bytes().get(b"a")).unwrap().unwrap();
    assert_eq!((&bytes[..], bytes.flags()), (&b"42"[..], 5));
    assert!(block_on(numbers.contains("a")).unwrap());
    assert!(block_on(numbers.delete("a")).unwrap());
    assert!(!block_on(numbers.contains("a")).unwrap());
}

/// Keys go to their shards, without the typed layer being involved.
#[test]
fn values_go_to_shards_too() {
    let devices = (0..2).map(|_| Some(crate::rig::drive() as _)).collect();
    let config = Config { dram_bytes: 1 << 20, ..crate::rig::config() };
    let shards = Shards::open(config, devices, Arc::new(VirtualClock::default()));
    let shards = block_on(shards).unwrap();
    let numbers: Typed<str, u32, Digits, _> = Typed::new(&shards, Digits);
    for number in 0..100 {
        let key = number.to_string();
        block_on(numbers.set(&key, &number, PLAIN)).unwrap();
        let of = shards.shards().nth(shards.home_of(key.as_bytes()));
        let of = of.unwrap().cache().unwrap();
        assert!(block_on(of.contains(key.as_bytes())).unwrap());
        assert_eq!(block_on(numbers.get(&key)).unwrap(), Some(number));
        let there = async || Err::<u32, _>(NotDigits);
        assert_eq!(block_on(numbers.get_or_fetch(&key, PLAIN, there)).unwrap(), number);
        assert!(
            block_on(numbers.delete(&key)).unwrap() && !block_on(numbers.contains(&key)).unwrap()
        );
    }
    assert!(
        shards.shards().all(|shard| shard.cache().unwrap().stats().sets > 20),
        "both have some"
    );
}

/// Generic code over any route may use a work-stealing runtime: the futures are `Send`.
#[test]
fn futures_over_any_route_can_be_sent() {
    fn sent<T>(future: impl Future<Output = T> + Send) -> T {
        block_on(future)
    }
    fn use_all<R: Route>(cache: &Routed<R>) {
        sent(cache.set(b"a", b"1", None)).unwrap();
        assert!(sent(cache.get(b"a")).unwrap().is_some());
        assert_eq!(sent(cache.get_many(&["a"])).unwrap().len(), 1);
        assert_eq!(sent(cache.flush()).unwrap().objects, 0);
        assert_eq!(sent(cache.close()).unwrap().sets, 1);
    }
    use_all(&Routed::new(cache()));
}

#[test]
fn what_cannot_be_encoded_changes_nothing() {
    let cache = cache();
    let numbers = numbers(&cache);
    block_on(numbers.set("a", &1, PLAIN)).unwrap();
    let refused = block_on(numbers.set("a", &1000, PLAIN));
    assert!(matches!(refused, Err(TypedError::Encode(NotDigits))));
    assert_eq!(block_on(numbers.get("a")).unwrap(), Some(1));
    let refused = block_on(numbers.set(&"x".repeat(65_536), &1, PLAIN));
    assert!(matches!(refused, Err(TypedError::Cache(_))));
}

#[test]
fn what_cannot_be_decoded_is_an_error_and_is_fetched_anew() {
    let cache = cache();
    let numbers = numbers(&cache);
    block_on(cache.set(b"a", b"rye", None)).unwrap();
    let refused = block_on(numbers.get("a"));
    assert!(matches!(refused, Err(TypedError::Decode(NotDigits))));
    assert!(block_on(numbers.contains("a")).unwrap(), "the caller decides");
    let fetch = async || Ok::<_, NotDigits>(7);
    assert_eq!(block_on(numbers.get_or_fetch("a", PLAIN, fetch)).unwrap(), 7);
    assert_eq!(block_on(numbers.get("a")).unwrap(), Some(7));
}

#[test]
fn a_fetch_is_stored_or_its_error_told() {
    let cache = cache();
    let numbers = numbers(&cache);
    let fails = async || Err::<u32, _>("the baker is ill");
    let failed = block_on(numbers.get_or_fetch("a", PLAIN, fails)).unwrap_err();
    assert!(failed.to_string().contains("the baker is ill"), "{failed}");
    let too_much = async || Ok::<_, NotDigits>(1000);
    let failed = block_on(numbers.get_or_fetch("a", PLAIN, too_much)).unwrap_err();
    assert!(failed.to_string().contains("below 1000"), "{failed}");
    assert_eq!(block_on(numbers.get("a")).unwrap(), None);
    let once = async || Ok::<_, NotDigits>(3);
    assert_eq!(block_on(numbers.get_or_fetch("a", PLAIN, once)).unwrap(), 3);
    assert_eq!(block_on(numbers.get_or_fetch("a", PLAIN, fails)).unwrap(), 3);
}

#[cfg(feature = "serde")]
#[test]
fn postcard_takes_what_serde_takes_and_refuses_the_rest() {
    use larder::Postcard;

    type Loaf = (String, Vec<u32>, Option<bool>);
    let cache = cache();
    let loaves: Typed<str, Loaf, Postcard, _> = Typed::new(&*cache, Postcard);
    let loaf = ("rye".to_owned(), vec![1, 1 << 30], Some(true));
    block_on(loaves.set("a", &loaf, PLAIN)).unwrap();
    assert_eq!(block_on(loaves.get("a")).unwrap(), Some(loaf));
    let bytes = block_on(cache.get(b"a")).unwrap().unwrap().to_vec();
    for end in 0..bytes.len() {
        block_on(cache.set(b"a", &bytes[..end], None)).unwrap();
        assert!(matches!(block_on(loaves.get("a")), Err(TypedError::Decode(_))), "{end}");
    }
    block_on(cache.set(b"a", &[&bytes[..], b"!"].concat(), None)).unwrap();
    assert!(matches!(block_on(loaves.get("a")), Err(TypedError::Decode(_))));
}

/// Invalid bytes on flash: all tasks that cannot decode them share one fetch.
#[test]
fn what_cannot_be_decoded_is_fetched_once() {
    use std::sync::atomic::{AtomicU32, Ordering};

    let drive = crate::rig::drive();
    let rig = crate::rig::Rig::open(crate::rig::config(), &drive);
    block_on(rig.cache.set(b"bread", b"\xff\xfe", None)).unwrap();
    (1000..1300).for_each(|key| rig.set(key, 1, 200));
    let fetches = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let typed: Typed<str, u32, Digits, _> = Typed::new(&rig.cache, Digits);
                let fetch = async || {
                    fetches.fetch_add(1, Ordering::SeqCst);
                    std::thread::sleep(std::time::Duration::from_millis(20));
                    Ok::<_, std::io::Error>(7)
                };
                let value = block_on(typed.get_or_fetch("bread", Default::default(), fetch));
                assert_eq!(value.unwrap(), 7);
            });
        }
    });
    assert_eq!(fetches.load(Ordering::SeqCst), 1);
}
