//! Wear levelling across units: the state of a leveller compared with a simple model, and the results of its rules for
//! known loads.

use larder_ssd::analytic::levelling::Rotation;
use larder_vssd::levelling::{
    Leveller, LiteralRule, PairRule, SwapRule, Taper, Tenant, Trigger, Turns,
};
use proptest::prelude::*;

const PLAIN: Trigger = Trigger::Erases { gamma: 100, taper: None };
const RULE: PairRule = PairRule { migration_erases: 10 };

fn leveller(turns: Turns) -> Leveller<PairRule> {
    Leveller::new(4, PLAIN, turns, RULE).unwrap()
}

fn erases(leveller: &Leveller<impl SwapRule>) -> Vec<u64> {
    leveller.wear().iter().map(|unit| unit.erases).collect()
}

#[test]
fn a_turn_comes_when_a_tenant_has_erased_enough() {
    let mut leveller = leveller(Turns::OneByOne);
    leveller.erased(2, 99);
    assert_eq!(leveller.due(0), None);
    leveller.erased(2, 1);
    assert_eq!(leveller.due(0), Some((2, 0)));
    assert_eq!(leveller.due(0), None, "the turn is over, whether or not it was made use of");
}

#[test]
fn rates_move_with_their_tenants_and_migrations_are_nobodys() {
    let mut leveller = leveller(Turns::OneByOne);
    leveller.erased(0, 75);
    leveller.erased(1, 100);
    let pair = leveller.due(0).unwrap();
    assert_eq!(pair, (1, 2));
    let before = leveller.wear();
    leveller.swapped(pair, 10);
    let after = leveller.wear();
    assert_eq!((after[1].rate, after[2].rate), (before[2].rate, before[1].rate));
    assert_eq!(erases(&leveller), [75, 110, 10, 0]);
    assert_eq!(after[1].since_turn + after[2].since_turn, 0, "migrations bring no turn nearer");
    leveller.seat(2, Tenant::default());
    assert_eq!(leveller.wear()[2].rate, None, "nothing is known of a new tenant");
}

/// Two busy units: together they get one swap per turn; one by one each gets its own.
#[test]
fn turns_one_by_one_serve_every_busy_unit() {
    for (turns, expected) in [(Turns::Together, 1), (Turns::OneByOne, 2)] {
        let mut leveller = leveller(turns);
        leveller.erased(0, 100);
        leveller.erased(1, 100);
        let mut exchanges = 0;
        while let Some(pair) = leveller.due(0) {
            leveller.swapped(pair, 10);
            exchanges += 1;
        }
        assert_eq!(exchanges, expected, "{turns:?}");
    }
}

#[test]
fn periods_go_by_the_time_they_are_told() {
    let trigger = Trigger::Period { length: 7 };
    let mut leveller = Leveller::new(3, trigger, Turns::Together, RULE).unwrap();
    leveller.erased(1, 500);
    assert_eq!(leveller.due(6), None);
    assert_eq!(leveller.due(7), Some((1, 0)));
    leveller.swapped((1, 0), 10);
    leveller.erased(0, 500);
    assert_eq!(leveller.due(13), None);
    assert_eq!(leveller.due(14), Some((0, 2)));
}

#[test]
fn what_was_erased_before_a_restart_counts() {
    let worn = [500, 0, 0];
    let mut leveller = Leveller::resume(&worn, PLAIN, Turns::OneByOne, RULE).unwrap();
    assert_eq!(leveller.due(0), None, "nothing is known of the tenants");
    leveller.erased(0, 100);
    leveller.erased(2, 10);
    assert_eq!(leveller.due(0), Some((0, 1)));
}

#[test]
fn levellers_that_make_no_sense_are_refused() {
    let refused = |units, trigger| {
        Leveller::new(units, trigger, Turns::OneByOne, RULE).unwrap_err().to_string()
    };
    assert!(refused(0, PLAIN).contains("0 units"));
    assert!(refused(4, Trigger::Erases { gamma: 0, taper: None }).contains("gamma of 0"));
    assert!(refused(4, Trigger::Period { length: 0 }).contains("period of 0"));
    let taper = Some(Taper { rated_erases: 1000, gamma_min: 101 });
    assert!(refused(4, Trigger::Erases { gamma: 100, taper }).contains("gamma_min of 101"));
}

/// Runs until the first of `units` has erased `rated` blocks; the tenant of unit 0 does all erases. Returns the share
/// of all units' rated erases that it used, and the number of swaps.
fn one_busy(
    rule: impl SwapRule,
    turns: Turns,
    (divisor, taper): (u32, bool),
    (rated, migration): (u64, u64),
) -> (f64, u32) {
    let units = 16;
    let rotation = Rotation::new(units, 0.1).unwrap();
    let Trigger::Erases { gamma, taper: given } =
        Trigger::of(&rotation, 0.9, divisor, rated, migration).unwrap()
    else {
        panic!("by erases")
    };
    let trigger = Trigger::Erases { gamma, taper: given.filter(|_| taper) };
    let mut leveller = Leveller::new(units as usize, trigger, turns, rule).unwrap();
    let (mut busy, mut written, mut exchanges) = (0, 0u64, 0);
    while erases(&leveller).into_iter().max() < Some(rated) {
        leveller.erased(busy, 50);
        written += 50;
        while let Some((i, j)) = leveller.due(0) {
            leveller.swapped((i, j), migration);
            exchanges += 1;
            busy = if busy == i {
                j
            } else if busy == j {
                i
            } else {
                busy
            };
        }
    }
    (written as f64 / (u64::from(units) * rated) as f64, exchanges)
}

/// The guarantee of the pair rule and the weakness of the literal one, for drives of several sizes.
#[test]
fn one_busy_channel_wears_all_of_them() {
    let literal =
        |migration| one_busy(LiteralRule, Turns::Together, (1, false), (300_000, migration)).0;
    assert!(literal(0) > 0.95, "{}", literal(0));
    assert!(literal(100) < 0.5 && literal(1) < 0.5, "{} {}", literal(100), literal(1));
    for rated in [200_000, 287_500, 300_000, 311_000, 470_000, 1_000_000] {
        let rule = PairRule { migration_erases: 100 };
        let (life, exchanges) = one_busy(rule, Turns::OneByOne, (2, true), (rated, 100));
        assert!(life >= 0.95 && exchanges < 480, "{rated}: {life} {exchanges}");
    }
}

/// Without the taper, the loss depends on where the last turn happens to end.
#[test]
fn the_taper_is_worth_its_turns() {
    let worst = |taper| {
        let rule = PairRule { migration_erases: 100 };
        let lives = (0..12)
            .map(|k| one_busy(rule, Turns::OneByOne, (2, taper), (300_000 + 7_000 * k, 100)));
        lives.map(|(life, _)| life).fold(1.0, f64::min)
    };
    let (with, without) = (worst(true), worst(false));
    assert!(with > 0.975 && without < 0.975, "{with} with it, {without} without");
}

#[derive(Debug, Clone)]
enum Step {
    Erase(usize, u64),
    Due,
    Seat(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0usize..5, 0u64..60).prop_map(|(unit, blocks)| Step::Erase(unit, blocks)),
        3 => Just(Step::Due),
        1 => (0usize..5).prop_map(Step::Seat),
    ];
    prop::collection::vec(step, 1..300)
}

proptest! {
    /// Erases are the sum of the reports; a chosen pair has the busier tenant on the more worn unit; there are no more
    /// swaps than turns that erases paid for.
    #[test]
    fn a_leveller_keeps_its_books(steps in steps(), together: bool) {
        let turns = if together { Turns::Together } else { Turns::OneByOne };
        let mut leveller = Leveller::new(5, PLAIN, turns, RULE).unwrap();
        let (mut told, mut all, mut exchanges) = (vec![0u64; 5], 0, 0u64);
        for step in steps {
            match step {
                Step::Erase(unit, blocks) => {
                    leveller.erased(unit, blocks);
                    told[unit] += blocks;
                    all += blocks;
                }
                Step::Seat(unit) => leveller.seat(unit, Tenant::default()),
                Step::Due => while let Some((i, j)) = leveller.due(0) {
                    let wear = leveller.wear();
                    prop_assert!(wear[i].erases > wear[j].erases + 20);
                    prop_assert!(wear[i].rate > wear[j].rate);
                    leveller.swapped((i, j), 10);
                    told[i] += 10;
                    told[j] += 10;
                    exchanges += 1;
                    prop_assert!(exchanges * 100 <= all);
                }
            }
            let wear = leveller.wear();
            prop_assert_eq!(erases(&leveller), told.clone());
            prop_assert!(wear.iter().all(|unit| unit.since_turn <= unit.erases));
            prop_assert!(wear.iter().flat_map(|unit| unit.rate).all(|rate| (0.0..=1.0).contains(&rate)));
        }
    }
}
