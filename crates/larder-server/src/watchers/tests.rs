//! Limits, drops and wake-ups of watchers, and the form of lines.

use std::sync::atomic::AtomicUsize;
use std::task::{Context, Wake};

use larder_net::sockets::Peer;

use super::*;
use crate::account::Account;

fn account(bytes: usize) -> (Arc<Account>, impl Fn() -> KeptBytes) {
    let account = Arc::new(Account::new(bytes, 1));
    let of = Arc::clone(&account);
    (account, move || of.keep(of.tenant(0)))
}

fn heard(watcher: &Watcher) -> String {
    let mut out = Vec::new();
    watcher.take(usize::MAX, &mut out);
    String::from_utf8(out).unwrap()
}

struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_watcher_hears_its_streams_in_order() {
    let (account, kept) = account(16 << 20);
    let watchers = Watchers::default();
    let both = Streams::FETCHERS.and(Streams::EVICTIONS);
    let one = watchers.begin(Streams::FETCHERS, kept()).unwrap();
    let other = watchers.begin(both, kept()).unwrap();
    assert!(watchers.want(Streams::EVICTIONS) && !watchers.want(Streams::MUTATIONS));
    watchers.tell(Streams::FETCHERS, &"type=a");
    watchers.tell(Streams::EVICTIONS, &"type=b");
    let (first, all) = (heard(&one), heard(&other));
    assert!(first.starts_with("ts=") && first.ends_with(" gid=1 type=a\n"), "{first}");
    assert!(all.starts_with(&first) && all.ends_with(" gid=2 type=b\n"), "{all}");
    assert_eq!(watchers.counts(), (2, 3, 0));
    watchers.end(&other);
    assert!(!watchers.want(Streams::EVICTIONS) && watchers.want(Streams::FETCHERS));
    watchers.end(&one);
    drop((one, other));
    assert!(!watchers.want(both) && account.used() == 0);
}

#[test]
fn what_does_not_fit_is_dropped_counted_and_told() {
    let (account, kept) = account(16 << 20);
    let watchers = Watchers::default();
    let watcher = watchers.begin(Streams::FETCHERS, kept()).unwrap();
    let charged = account.used();
    let event = "x".repeat(900);
    (0..1000).for_each(|_| watchers.tell(Streams::FETCHERS, &event));
    let (_, sent, skipped) = watchers.counts();
    assert_eq!((sent + skipped, account.used()), (1000, charged), "nothing more is charged");
    assert!((250..300).contains(&sent), "{sent} lines");
    let text = heard(&watcher);
    assert!(text.len() <= BUFFER_BYTES && text.lines().count() as u64 == sent);
    watchers.tell(Streams::FETCHERS, &"type=a");
    let text = heard(&watcher);
    assert!(text.starts_with(&format!("skipped={skipped}\nts=")), "{text}");
    watchers.tell(Streams::FETCHERS, &"type=a");
    assert!(heard(&watcher).starts_with("ts="), "it is told once");
}

#[test]
fn the_watchers_are_limited_by_their_number_and_by_memory() {
    let (_account, kept) = account(64 << 20);
    let watchers = Watchers::default();
    let all: Vec<_> = (0..20).map(|_| watchers.begin(Streams::FETCHERS, kept()).unwrap()).collect();
    let refused = |watchers: &Watchers, kept| watchers.begin(Streams::FETCHERS, kept).err();
    assert_eq!(refused(&watchers, kept()), Some(WatchRefusal::TooMany));
    watchers.end(&all[7]);
    assert_eq!(refused(&watchers, kept()), None);
    let (_small, kept) = self::account(512 << 10);
    assert_eq!(refused(&Watchers::default(), kept()), Some(WatchRefusal::NoMemory));
}

#[test]
fn a_watcher_that_waits_is_woken() {
    let (_account, kept) = account(16 << 20);
    let (watchers, wakes) = (Watchers::default(), Arc::new(Wakes(AtomicUsize::new(0))));
    let watcher = watchers.begin(Streams::FETCHERS, kept()).unwrap();
    let waker = Arc::clone(&wakes).into();
    assert!(watcher.poll(&Context::from_waker(&waker)).is_pending());
    watchers.tell(Streams::MUTATIONS, &"type=a");
    assert_eq!(wakes.0.load(Ordering::SeqCst), 0, "it does not watch this");
    (0..2).for_each(|_| watchers.tell(Streams::FETCHERS, &"type=a"));
    assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
    assert!(watcher.poll(&Context::from_waker(&waker)).is_ready());
    let mut some = Vec::new();
    assert_eq!((watcher.take(3, &mut some), &*some), (3, &b"ts="[..]));
}

#[test]
fn an_expired_key_is_told_once() {
    let (_account, kept) = account(16 << 20);
    let watchers = Watchers::default();
    let _watcher = watchers.begin(Streams::FETCHERS, kept()).unwrap();
    watchers.note_expired(b"a");
    assert_eq!(watchers.status_of(b"a", None), FetchStatus::Expired);
    assert_eq!(watchers.status_of(b"a", None), FetchStatus::NotFound);
    watchers.note_expired(b"a");
    assert_eq!(watchers.status_of(b"b", None), FetchStatus::NotFound);
    assert_eq!(watchers.status_of(b"a", Some(1)), FetchStatus::Found);
}

/// As memcached 1.6 writes them, but for what is not known of an eviction.
#[test]
fn events_have_the_form_of_memcached() {
    let peer = Peer::Tcp(([127, 0, 0, 1], 5000).into());
    let mapped = Peer::Tcp("[::ffff:10.0.0.1]:7".parse().unwrap());
    let (closed, idle) = (Some(CloseReason::Normal), Some(CloseReason::IdleTimeout));
    let status = FetchStatus::Found;
    let table: [(&dyn Display, &str); 8] = [
        (
            &Fetch { key: b"x,y", status, cfd: 13, size: 3 },
            "type=item_get key=x%2Cy status=found clsid=1 cfd=13 size=3",
        ),
        (
            &Mutation {
                key: b"a",
                status: "stored",
                command: "set",
                ttl: 100,
                size: Some(5),
                cfd: 13,
            },
            "type=item_store key=a status=stored cmd=set ttl=100 clsid=1 cfd=13 size=5",
        ),
        (
            &Mutation {
                key: b"a",
                status: "too_large",
                command: "set",
                ttl: 0,
                size: None,
                cfd: 1,
            },
            "type=item_store key=a status=too_large cmd=set ttl=0 clsid=0 cfd=1 size=0",
        ),
        (
            &Deletion { key: b"a", command: "md", size: 4 },
            "type=deleted key=a cmd=md clsid=1 size=4",
        ),
        (
            &Eviction { key: b"n0", size: Some(500) },
            "type=eviction key=n0 fetch=na ttl=na la=na clsid=1 size=500",
        ),
        (
            &ConnectionEvent { peer, closed: None, cfd: 14 },
            "type=conn_new rip=127.0.0.1 rport=5000 transport=tcp cfd=14",
        ),
        (
            &ConnectionEvent { peer: mapped, closed, cfd: 14 },
            "type=conn_close rip=10.0.0.1 rport=7 transport=tcp reason=normal cfd=14",
        ),
        (
            &ConnectionEvent { peer: Peer::Unix, closed: idle, cfd: 14 },
            "type=conn_close rip=unix rport=0 transport=local reason=idle_timeout cfd=14",
        ),
    ];
    for (event, line) in table {
        assert_eq!(event.to_string(), line);
    }
}
