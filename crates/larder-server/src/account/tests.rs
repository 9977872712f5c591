//! Tests of shares, refusals and evictions.

use std::task::{Context, Waker};

use super::*;

const KIB: usize = 1 << 10;

fn account(tenants: usize) -> Arc<Account> {
    Arc::new(Account::new(800 * KIB, tenants))
}

fn passing(account: &Arc<Account>, holder: Holder, bytes: usize) -> Passing {
    let passing = Passing::new(account, holder);
    assert!(passing.set(bytes));
    passing
}

#[test]
fn shares_follow_weights_and_strangers_have_an_eighth() {
    let account = account(2);
    account.set_weight(0, 6);
    let share = |number| account.share(account.tenant(number));
    assert_eq!((share(0), share(1)), (600 * KIB, 100 * KIB));
    assert_eq!(account.share(account.strangers()), 100 * KIB);
}

#[test]
fn what_is_kept_ends_at_half_of_the_share_and_is_given_back() {
    let account = account(2);
    let mut kept = account.keep(account.tenant(0));
    assert!(kept.grow(100 * KIB) && kept.grow(75 * KIB) && !kept.grow(1));
    assert!(account.keep(account.tenant(1)).grow(175 * KIB), "another tenant has its own");
    assert_eq!(account.used(), 175 * KIB);
    drop(kept);
    assert_eq!(account.used(), 0);
}

#[test]
fn what_passes_may_have_what_others_leave_and_gives_it_back_slowest_first() {
    let account = account(2);
    let (greedy, modest) = (account.tenant(0), account.tenant(1));
    let slow = passing(&account, greedy, 300 * KIB);
    std::thread::sleep(Duration::from_millis(30));
    let fast = passing(&account, greedy, 500 * KIB);
    assert!(!Passing::new(&account, greedy).set(KIB), "it is full, and none of its own is old");
    let other = passing(&account, modest, 200 * KIB);
    assert!(slow.was_evicted() && !fast.was_evicted() && !other.was_evicted());
    assert_eq!((slow.bytes(), account.used(), account.evicted()), (0, 700 * KIB, 1));
    // A tenant that asks for more than its share takes nothing from a tenant within its own share.
    assert!(!other.set(400 * KIB), "fast is above its share, but not old, and other would be too");
    assert!(!slow.set(10), "it is told that it was evicted");
    slow.clear();
    assert!(slow.set(10), "and may begin anew");
    drop((slow, fast, other));
    assert_eq!(account.used(), 0);
}

#[test]
fn what_is_evicted_wakes_its_owner() {
    let account = account(2);
    let cx = Context::from_waker(Waker::noop());
    let first = passing(&account, account.tenant(0), 800 * KIB);
    assert!(!first.is_evicted(&cx));
    assert!(account.keep(account.tenant(1)).grow(KIB), "kept bytes make room too");
    assert!(first.is_evicted(&cx));
}

#[test]
fn a_tenant_gets_its_own_old_bytes_back() {
    let account = account(1);
    let own = account.tenant(0);
    let old = passing(&account, own, 800 * KIB);
    assert!(!Passing::new(&account, own).set(KIB));
    old.ages(GRACE);
    assert!(Passing::new(&account, own).set(KIB) && old.was_evicted());
}

#[test]
fn requests_are_not_read_where_the_account_is_full_of_those_that_wait() {
    let account = account(2);
    let (busy_one, other) = (account.tenant(0), account.tenant(1));
    let mut waiting = Vec::new();
    while account.may_begin(busy_one) {
        waiting.push(account.is_busy(busy_one));
    }
    assert!((9..=11).contains(&waiting.len()), "{}", waiting.len());
    assert!(account.may_begin(other) && account.used() <= account.bytes_max());
    waiting.pop();
    waiting.pop();
    assert!(account.may_begin(busy_one));
}
