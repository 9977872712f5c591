//! Weighted deficit round robin (Shreedhar, Varghese, SIGCOMM'95) over the operations of tenants on one die, in device
//! time, or on a device, in bytes: each round adds to a tenant's credit by its weight, and the tenant is served while
//! the credit lasts.
//!
//! A tenant without requests has no turn and accumulates no credit, so the others get all of the die. An operation that
//! must not wait is charged before its tenant's turn comes, up to the value of a turn, and is paid off in later turns.

use std::collections::VecDeque;

/// The operations that wait for a die, or for a device. Costs are nanoseconds there, and bytes here.
#[derive(Debug)]
pub struct DeficitQueue<T> {
    tenants: Vec<Tenant<T>>,
    /// Tenants that wait or are in debt, in the order of their turns; the first is being served.
    turns: VecDeque<usize>,
    /// Whether the first has received its credit for this turn.
    credited: bool,
    quantum: u64,
}

#[derive(Debug)]
struct Tenant<T> {
    weight: u32,
    /// A negative value is a debt.
    credit: i64,
    /// Whether it is in `turns`.
    listed: bool,
    /// Waiting operations, each with its cost.
    waiting: VecDeque<(u64, T)>,
}

impl<T> DeficitQueue<T> {
    /// An empty queue for tenants of these weights. A turn of weight 1 is worth `quantum`.
    ///
    /// # Panics
    /// If the quantum or a weight is 0.
    pub fn new(weights: &[u32], quantum: u64) -> Self {
        assert!(quantum > 0 && !weights.contains(&0), "each turn is worth something");
        let tenant =
            |&weight| Tenant { weight, credit: 0, listed: false, waiting: VecDeque::new() };
        let tenants = weights.iter().map(tenant).collect();
        Self { tenants, turns: VecDeque::new(), credited: false, quantum }
    }

    /// Adds an operation of `tenant`.
    ///
    /// # Panics
    /// If the tenant has no weight.
    pub fn push(&mut self, tenant: usize, cost: u64, item: T) {
        self.tenants[tenant].waiting.push_back((cost, item));
        self.list(tenant);
    }

    fn list(&mut self, tenant: usize) {
        let entry = &mut self.tenants[tenant];
        if !entry.listed {
            debug_assert!(entry.credit <= 0, "an idle tenant has no credit");
            entry.listed = true;
            self.turns.push_back(tenant);
        }
    }

    /// Charges `tenant` for an operation that must not wait. Returns false if other operations of the tenant wait or
    /// its debt would be too large: then this one must wait too.
    pub fn charge(&mut self, tenant: usize, cost: u64) -> bool {
        let most = self.turn_value(tenant);
        let entry = &mut self.tenants[tenant];
        let credit = entry.credit - i64::try_from(cost).unwrap_or(i64::MAX / 2);
        let goes = entry.waiting.is_empty() && credit >= -most;
        if goes {
            entry.credit = credit;
            self.list(tenant);
        }
        goes
    }

    /// Value of a turn.
    fn turn_value(&self, tenant: usize) -> i64 {
        let value = self.quantum.saturating_mul(u64::from(self.tenants[tenant].weight));
        i64::try_from(value).unwrap_or(i64::MAX / 2)
    }

    /// The next tenant to serve, and its operation. If no operation waits, debts are cleared.
    pub fn pop(&mut self) -> Option<(usize, T)> {
        loop {
            let &turn = self.turns.front()?;
            let value = self.turn_value(turn);
            let tenant = &mut self.tenants[turn];
            if !self.credited {
                tenant.credit += value;
                self.credited = true;
            }
            let cost = tenant.waiting.front().map(|(cost, _)| i64::try_from(*cost));
            let cost = cost.map(|cost| cost.unwrap_or(i64::MAX / 2));
            if cost.unwrap_or(0) > tenant.credit {
                self.turns.rotate_left(1);
                self.credited = false;
                continue;
            }
            tenant.credit -= cost.unwrap_or(0);
            let item = tenant.waiting.pop_front().map(|(_, item)| (turn, item));
            if tenant.waiting.is_empty() {
                (tenant.credit, tenant.listed) = (0, false);
                self.turns.pop_front();
                self.credited = false;
            }
            if item.is_some() {
                return item;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Time of the die that each tenant was served, while all wait.
    fn served(weights: &[u32], costs: &[u64], total: u64) -> Vec<u64> {
        let mut queue = DeficitQueue::new(weights, 100);
        let mut served = vec![0; weights.len()];
        for (tenant, &cost) in costs.iter().enumerate() {
            queue.push(tenant, cost, cost);
            queue.push(tenant, cost, cost);
        }
        while served.iter().sum::<u64>() < total {
            let (tenant, cost) = queue.pop().unwrap();
            served[tenant] += cost;
            queue.push(tenant, cost, cost);
        }
        served
    }

    #[test]
    fn time_goes_by_weight_whatever_each_thing_takes() {
        let shares = served(&[1, 3], &[700, 100], 1_000_000);
        assert!(shares[1].abs_diff(3 * shares[0]) < 10_000, "{shares:?}");
        let shares = served(&[2, 1, 1], &[10, 5_000, 1_000], 1_000_000);
        assert!(shares[0].abs_diff(500_000) < 15_000, "{shares:?}");
        assert!(shares[1].abs_diff(250_000) < 15_000, "{shares:?}");
    }

    #[test]
    fn an_idle_tenant_earns_no_credit() {
        let mut queue = DeficitQueue::new(&[1, 1], 100);
        for _ in 0..50 {
            queue.push(0, 100, ());
        }
        queue.push(1, 10, ());
        let mut turns: Vec<usize> = (0..20).map(|_| queue.pop().unwrap().0).collect();
        assert_eq!(turns.iter().filter(|&&tenant| tenant == 1).count(), 1);
        (0..5).for_each(|_| queue.push(1, 100, ()));
        turns = (0..8).map(|_| queue.pop().unwrap().0).collect();
        assert_eq!(turns.iter().filter(|&&tenant| tenant == 1).count(), 4, "{turns:?}");
        while queue.pop().is_some() {}
        assert!(queue.turns.is_empty());
    }

    /// A tenant that is charged before its turn gets its share, and no more.
    #[test]
    fn a_tenant_that_goes_first_pays_in_its_turns() {
        let mut queue = DeficitQueue::new(&[1, 1], 100);
        let mut served = [0_u64, 0];
        (0..2).for_each(|_| queue.push(0, 100, ()));
        for _ in 0..10_000 {
            while queue.charge(1, 20) {
                served[1] += 20;
            }
            let (tenant, ()) = queue.pop().unwrap();
            assert_eq!(tenant, 0);
            served[0] += 100;
            queue.push(0, 100, ());
        }
        assert!(served[0].abs_diff(served[1]) * 20 < served[0], "{served:?}");
        (0..2).for_each(|_| assert_eq!(queue.pop().unwrap().0, 0));
        assert!(queue.pop().is_none() && queue.turns.is_empty(), "debts are forgotten");
        assert!((0..5).all(|_| queue.charge(1, 20)) && !queue.charge(1, 20));
        queue.push(1, 20, ());
        assert!(!queue.charge(1, 0), "it would go before what waits");
    }
}
