//! The table of keys that clients remember: its limit, its random order, and what is charged.

use std::sync::Arc;

use super::follower::Follower;
use super::table::Table;
use crate::account::Account;
use crate::channels::Post;

fn follower(account: &Arc<Account>, id: u64) -> Arc<Follower> {
    let post = Arc::<Post>::default();
    Arc::new(Follower::new(id, 0, &post, account.keep(account.tenant(0))))
}

fn ids(followers: &[Arc<Follower>]) -> Vec<u64> {
    followers.iter().map(|it| it.id()).collect()
}

#[test]
fn a_key_is_forgotten_by_all_when_it_changes() {
    let account = Arc::new(Account::new(16 << 20, 1));
    let (table, one, other) = (Table::new(2), follower(&account, 1), follower(&account, 2));
    for it in [&one, &one, &other] {
        assert!(table.remember(0, b"bread", it));
    }
    assert!(table.remember(1, b"bread", &one));
    assert_eq!(table.counts(), (2, 3));
    assert_eq!(ids(&table.take(0, b"bread")), [1, 2]);
    assert_eq!(ids(&table.take(0, b"bread")), [0; 0]);
    assert_eq!(ids(&table.take(1, b"bread")), [1], "another tenant's");
    assert_eq!((table.counts(), account.used()), ((0, 0), 0));
}

#[test]
fn what_is_charged_is_given_back() {
    let account = Arc::new(Account::new(16 << 20, 1));
    let (table, one, other) = (Table::new(1), follower(&account, 1), follower(&account, 2));
    let key = |number: u32| number.to_le_bytes();
    for number in 0..1000 {
        assert!(table.remember(0, &key(number), &one) && table.remember(0, &key(number), &other));
    }
    let all = account.used();
    assert!(all > 2 * 1000 * 100, "{all} bytes");
    while let Some((tenant, key)) = one.pop_key() {
        table.forget(tenant, &key, one.id());
    }
    assert_eq!((table.counts(), account.used()), ((1000, 1000), all / 2));
    let mut dropped = 0;
    while let Some((_, followers)) = table.drop_one() {
        assert_eq!(ids(&followers), [2]);
        dropped += 1;
    }
    assert_eq!((dropped, table.counts(), account.used()), (1000, (0, 0), 0));
}

#[test]
fn a_flush_takes_the_keys_of_one_tenant() {
    let account = Arc::new(Account::new(16 << 20, 1));
    let (table, one) = (Table::new(3), follower(&account, 1));
    for tenant in 0..3 {
        (0..100_u8).for_each(|number| assert!(table.remember(tenant, &[number], &one)));
    }
    let all = account.used();
    drop(table.take_all(1));
    assert_eq!(one.take_keys(1).len(), 100);
    assert_eq!((table.counts(), account.used()), ((200, 200), all / 3 * 2));
    assert_eq!(ids(&table.take(2, &[7])), [1], "the others stay");
}

#[test]
fn without_memory_nothing_is_remembered() {
    let account = Arc::new(Account::new(64 << 10, 1));
    let (table, one) = (Table::new(1), follower(&account, 1));
    let fits = (0..10_000_u32).take_while(|it| table.remember(0, &it.to_be_bytes(), &one)).count();
    assert!((10..1000).contains(&fits), "{fits} keys");
    assert_eq!(table.counts(), (fits, fits));
}
