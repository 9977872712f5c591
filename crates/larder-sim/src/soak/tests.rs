//! Tests of the oracle with right and wrong histories.

use super::history::{Effect, KeyHistory, Need, Operation};
use super::oracle::{Judgement, judge};
use super::value::Content;

fn pieces(piece: u32) -> Content {
    Content::Pieces(vec![piece])
}

fn begin(history: &mut KeyHistory, need: Need, effect: Option<Effect>) -> usize {
    history.begin(Operation { need, effect, certain: true, ..Operation::begun(String::new(), 0) })
}

fn store(history: &mut KeyHistory, piece: u32) -> usize {
    begin(history, Need::Nothing, Some(Effect::Store(pieces(piece))))
}

fn see(history: &mut KeyHistory, piece: u32) -> usize {
    begin(history, Need::Content(pieces(piece)), None)
}

fn end(history: &mut KeyHistory, number: usize) {
    history.end(number, |_| {});
}

#[test]
fn a_replaced_value_is_wrong_only_once_it_must_be_replaced() {
    let mut history = KeyHistory::default();
    let first = store(&mut history, 1);
    end(&mut history, first);
    let second = store(&mut history, 2);
    for piece in [1, 2, 2] {
        let seen = see(&mut history, piece);
        end(&mut history, seen);
        assert_eq!(judge(&history), Judgement::Right);
    }
    let mut back = history.clone();
    let seen = see(&mut back, 1);
    end(&mut back, seen);
    assert_eq!(judge(&back), Judgement::Wrong(seen));
    end(&mut history, second);
    let seen = see(&mut history, 1);
    end(&mut history, seen);
    assert_eq!(judge(&history), Judgement::Wrong(seen));
}

#[test]
fn a_deleted_value_stays_deleted() {
    let mut history = KeyHistory::default();
    let first = store(&mut history, 1);
    end(&mut history, first);
    let delete = begin(&mut history, Need::Nothing, Some(Effect::Remove));
    let before = see(&mut history, 1);
    end(&mut history, before);
    end(&mut history, delete);
    assert_eq!(judge(&history), Judgement::Right);
    let after = see(&mut history, 1);
    end(&mut history, after);
    assert_eq!(judge(&history), Judgement::Wrong(after));
}

#[test]
fn what_was_given_up_happened_before_or_never() {
    let mut history = KeyHistory::default();
    let given_up = store(&mut history, 1);
    history.end(given_up, |operation| operation.certain = false);
    let mut seen_at_once = history.clone();
    let seen = see(&mut seen_at_once, 1);
    end(&mut seen_at_once, seen);
    assert_eq!(judge(&seen_at_once), Judgement::Right);
    let other = store(&mut history, 2);
    end(&mut history, other);
    let seen = see(&mut history, 1);
    end(&mut history, seen);
    assert_eq!(judge(&history), Judgement::Wrong(seen));
}

#[test]
fn two_swaps_on_one_version_cannot_both_succeed() {
    let mut history = KeyHistory::default();
    let first = store(&mut history, 1);
    end(&mut history, first);
    let swap = |piece| Some(Effect::Store(pieces(piece)));
    let a = begin(&mut history, Need::Content(pieces(1)), swap(2));
    let b = begin(&mut history, Need::Content(pieces(1)), swap(3));
    end(&mut history, a);
    assert_eq!(judge(&history), Judgement::Right);
    end(&mut history, b);
    assert_eq!(judge(&history), Judgement::Wrong(b));
}

#[test]
fn a_fill_that_was_overtaken_is_not_stored() {
    for overtaken in [false, true] {
        let mut history = KeyHistory::default();
        let fill = store(&mut history, 7);
        history.operations[fill].fill = true;
        history.operations[fill].certain = false;
        if overtaken {
            let delete = begin(&mut history, Need::Nothing, Some(Effect::Remove));
            end(&mut history, delete);
        }
        end(&mut history, fill);
        let seen = see(&mut history, 7);
        end(&mut history, seen);
        let right = if overtaken { Judgement::Wrong(seen) } else { Judgement::Right };
        assert_eq!(judge(&history), right);
    }
}

#[test]
fn nothing_is_seen_after_its_expiry() {
    for (begin_ns, right) in [(99, true), (100, false)] {
        let mut history = KeyHistory::default();
        let first = store(&mut history, 1);
        history.operations[first].expiry_ns = 100;
        end(&mut history, first);
        let seen = see(&mut history, 1);
        history.operations[seen].begin_ns = begin_ns;
        end(&mut history, seen);
        assert_eq!(judge(&history) == Judgement::Right, right);
    }
}
