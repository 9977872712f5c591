//! Delivery, limits and wake-ups of inboxes.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::*;
use crate::account::Account;

fn message(payload: &[u8]) -> Message {
    Message {
        kind: Kind::Channel,
        pattern: None,
        channel: (*b"news").into(),
        payload: payload.into(),
    }
}

fn mail(payload: &[u8]) -> Mail {
    Mail::Message(message(payload))
}

/// An account, and a function that makes inboxes in it.
fn account(bytes: usize) -> (Arc<Account>, impl Fn(u64) -> Arc<Inbox>) {
    let account = Arc::new(Account::new(bytes, 1));
    let of = Arc::clone(&account);
    let holder = account.tenant(0);
    (account, move |id| Arc::new(Inbox::new(id, of.keep(holder))))
}

#[test]
fn each_subscriber_hears_a_message_once_and_in_order() {
    let (_, inbox) = account(16 << 20);
    let channels = Channels::new(2, OutputLimit::of(1 << 20));
    let all: Vec<_> = (0..PAGE as u64 + 3).map(inbox).collect();
    for inbox in all.iter().chain(&all[..5]) {
        channels.subscribe(0, Kind::Channel, b"news", inbox);
    }
    for payload in [b"1", b"2"] {
        let name = (Kind::Channel, &b"news"[..]);
        let first = channels.deliver(0, name, None, &message(payload));
        assert_eq!(first, Delivered { to: PAGE, more_behind: Some(PAGE as u64 - 1) });
        let rest = channels.deliver(0, name, first.more_behind, &message(payload));
        assert_eq!(rest, Delivered { to: 3, more_behind: None });
    }
    for inbox in &all {
        let heard = std::iter::from_fn(|| inbox.take()).map(|it| match it {
            Mail::Message(message) => message.payload.to_vec(),
            other => panic!("{other:?}"),
        });
        assert_eq!(heard.collect::<Vec<_>>(), [b"1", b"2"]);
    }
}

#[test]
fn tenants_kinds_and_names_do_not_meet() {
    let (_, inbox) = account(16 << 20);
    let channels = Channels::new(2, OutputLimit::of(1 << 20));
    let it = inbox(7);
    channels.subscribe(0, Kind::Channel, b"news", &it);
    let to =
        |tenant, kind, name: &[u8]| channels.deliver(tenant, (kind, name), None, &message(b"x")).to;
    assert_eq!(to(1, Kind::Channel, b"news"), 0);
    assert_eq!(to(0, Kind::Shard, b"news"), 0);
    assert_eq!(to(0, Kind::Channel, b"new"), 0);
    assert_eq!(to(0, Kind::Channel, b"news"), 1);
    assert_eq!(channels.names_behind(0, Kind::Channel, None), [((*b"news").into(), 1)]);
    channels.unsubscribe(0, Kind::Channel, b"news", 7);
    assert_eq!((to(0, Kind::Channel, b"news"), channels.names(0, Kind::Channel)), (0, 0));
}

#[test]
fn an_inbox_above_its_limit_ends_and_gives_back_its_memory() {
    let (account, inbox) = account(16 << 20);
    let limit = OutputLimit { hard_bytes: 1000, soft_bytes: 0, soft_time: Duration::ZERO };
    let it = inbox(1);
    assert!(it.put(mail(&[0; 500]), limit));
    assert!(account.used() > 500 && !it.is_over());
    assert!(!it.put(mail(&[0; 500]), limit));
    assert!(it.is_over() && it.take().is_none());
    assert_eq!(account.used(), 0);
    assert!(!it.put(mail(b""), limit), "it stays over");
}

#[test]
fn an_inbox_above_the_soft_limit_for_too_long_ends() {
    let (_, inbox) = account(16 << 20);
    let limit = OutputLimit { hard_bytes: 0, soft_bytes: 100, soft_time: Duration::ZERO };
    let it = inbox(1);
    assert!(it.put(mail(&[0; 10]), limit), "below");
    assert!(it.put(mail(&[0; 100]), limit), "its time begins");
    std::thread::sleep(Duration::from_millis(2));
    assert!(!it.put(mail(b""), limit));
    let it = inbox(2);
    assert!(it.put(mail(&[0; 100]), limit));
    it.take();
    std::thread::sleep(Duration::from_millis(2));
    assert!(it.put(mail(b""), limit), "it was below in between");
}

#[test]
fn an_inbox_ends_when_the_account_has_no_room() {
    let (account, inbox) = account(64 << 10);
    let it = inbox(1);
    let fits = (0..1000).take_while(|_| it.put(mail(&[0; 1000]), OutputLimit::of(32 << 20)));
    // Half of the share may be kept.
    assert!((20..30).contains(&fits.count()));
    assert!(it.is_over());
    assert_eq!(account.used(), 0);
}

#[test]
fn a_message_wakes_the_connection_that_waits() {
    let (_, inbox) = account(1 << 20);
    let it = inbox(1);
    let cx = Context::from_waker(Waker::noop());
    assert!(it.poll(&cx).is_pending());
    assert!(it.put(mail(b""), OutputLimit::of(32 << 20)));
    assert_eq!(it.poll(&cx), Poll::Ready(()));
    assert!(it.poll_over(&cx).is_pending(), "it may go on");
    it.take();
    assert!(it.poll(&cx).is_pending());
}
