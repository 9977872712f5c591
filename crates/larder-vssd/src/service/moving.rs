//! The work of an exchange, piece by piece, and its reports.

use larder_ssd::nand::{ChannelIndex, DieIndex};
use larder_ssd::timed::Nanoseconds;
use larder_ssd::{Error, ErrorKind};

use super::exchange::{Cause, Exchange};
use super::load::{Noticed, idle_second};
use super::report::{ExchangeReport, ServiceReport};
use super::{IDLE_NS, Idle, Step, WearService};
use crate::array::{Copied, OpenParts, Vssds};
use crate::images::Images;
use crate::kind::VssdId;
use crate::levelling::{AdaptivePace, PausedBy};

/// Retry interval while tenants have to fill or free a block.
const WAIT_NS: Nanoseconds = 100_000_000;

impl WearService {
    /// Prepares for the exchange that `array` has begun.
    pub(super) fn begin_exchange<I: Images>(
        &mut self,
        now: Nanoseconds,
        array: &Vssds<I>,
        cause: Cause,
    ) {
        let Some(swap) = array.swap_under_way() else { return };
        let Ok(pace) = AdaptivePace::new(self.options.pace) else { return };
        let involved = |dies: &[(u32, DieIndex)]| {
            dies.iter().any(|&(drive, die)| drive == swap.drive && swap.partner(die).is_some())
        };
        let moving = array.list().filter(|info| involved(&info.dies)).map(|info| info.id);
        let noticed = Noticed { moving: moving.collect(), ..Noticed::default() };
        let dies = array.shape().geometry.array;
        let first = swap.pairs.first().map(|&(a, b)| (dies.channel_of(a), dies.channel_of(b)));
        self.exchange = Some(Exchange {
            drive: swap.drive,
            channels: first.unwrap_or((ChannelIndex(0), ChannelIndex(0))),
            cause,
            began_at: now,
            pace,
            noticed,
            copied_bytes: 0,
            spent_before: array.levelling(swap.drive).map_or(0, |state| state.spent()),
            seconds: 0,
            slowed_seconds: 0,
            copy_at: now,
            open_since: None,
        });
    }

    /// Records the p99 in nanoseconds of the tenants that had requests in the last second, and adapts the pace. Called
    /// once a second.
    pub fn second(&mut self, unix_s: u64, p99_ns: &[(VssdId, u64)]) {
        self.unix_s = unix_s;
        let Some(exchange) = &mut self.exchange else {
            return idle_second(&mut self.load, p99_ns);
        };
        let slowdown = exchange.noticed.second(&self.load, p99_ns);
        exchange.pace.second(slowdown);
        exchange.seconds += 1;
        exchange.slowed_seconds += u64::from(exchange.pace.is_slowed());
    }

    /// Does one piece of work of the exchange.
    pub(super) fn exchange_step<I: Images>(
        &mut self,
        now: Nanoseconds,
        array: &mut Vssds<I>,
        idle: &dyn Idle,
    ) -> Result<Step, Error> {
        if self.exchange.is_none() {
            self.begin_exchange(now, array, Cause::Resumed);
        }
        for (drive, die) in array.old_copies() {
            if self.may_erase(now, idle, drive, die) {
                array.erase_old_copy(drive, die)?;
                self.erased_at.insert((drive, die), now);
                self.keep(array)?;
                return Ok(Step::Erased);
            }
        }
        let Some(exchange) = &mut self.exchange else {
            return Ok(Step::Rest { until: now + WAIT_NS });
        };
        let paused = array.levelling(exchange.drive).and_then(|state| state.paused);
        if paused == Some(PausedBy::Operator) {
            return Ok(Step::Rest { until: now + WAIT_NS });
        }
        if now < exchange.copy_at {
            return Ok(Step::Rest { until: exchange.copy_at.min(next_erase(now, array)) });
        }
        let wait = self.options.open_wait_ns;
        let waited = exchange.open_since.is_some_and(|since| now >= since + wait);
        let open = if waited { OpenParts::Move } else { OpenParts::Leave };
        match array.swap_copy(open) {
            Ok(Copied::Part { block, pages, .. }) => {
                let bytes = u64::from(pages) * u64::from(array.shape().geometry.mapping_bytes);
                exchange.copied(now, bytes);
                // Further open parts need not wait again, unless full ones come in between.
                exchange.open_since = exchange.open_since.filter(|_| waited);
                Ok(Step::Copied { block, pages })
            }
            Ok(Copied::OldCopy(_)) => Ok(Step::Rest { until: next_erase(now, array) }),
            Ok(Copied::Open) => {
                exchange.open_since.get_or_insert(now);
                Ok(Step::Rest { until: now + WAIT_NS })
            }
            Ok(Copied::Full) => Ok(Step::Rest { until: now + WAIT_NS }),
            Ok(Copied::Done) => {
                self.end_exchange(now, array);
                Ok(Step::Ended)
            }
            Err(error) if error.kind() == ErrorKind::ReadOnly => self.take_back(array, error),
            Err(error) => Err(error),
        }
    }

    /// A die of the exchange wore out: the data goes back, and levelling pauses until an operator has looked at it.
    fn take_back<I: Images>(&mut self, array: &mut Vssds<I>, error: Error) -> Result<Step, Error> {
        let Some(swap) = array.swap_under_way().filter(|swap| !swap.back) else {
            return Err(error);
        };
        let drive = swap.drive;
        array.change_levelling(drive, |state| state.paused = Some(PausedBy::WornDie));
        array.swap_abandon()?;
        Ok(Step::Begun)
    }

    /// Ends the exchange, and keeps its report.
    pub(super) fn end_exchange<I: Images>(&mut self, now: Nanoseconds, array: &Vssds<I>) {
        let exchange = self.exchange.take();
        self.last = exchange.map(|exchange| ExchangeReport::of(&exchange, array, Some(now)));
    }

    /// The state of levelling. `unix_s` is the time in seconds since 1970.
    pub fn report<I: Images>(&self, array: &Vssds<I>, unix_s: u64) -> ServiceReport {
        let exchange =
            self.exchange.as_ref().map(|exchange| ExchangeReport::of(exchange, array, None));
        ServiceReport { exchange, last: self.last.clone(), ..ServiceReport::of(array, unix_s) }
    }
}

/// When an old copy may be erased at the earliest.
fn next_erase<I: Images>(now: Nanoseconds, array: &Vssds<I>) -> Nanoseconds {
    let waits = !array.old_copies().is_empty();
    now + if waits { IDLE_NS } else { WAIT_NS }
}
