//! The resources of a drive under a clock: dies, channels, the host link, the write buffer. Each is a separate queue.
//! The operations of any firmware are booked here, in the order of their times.

use super::buffer::WriteBuffer;
use super::channel::Channel;
use super::die::Die;
use super::service::DieService;
use super::timing::{DriveTiming, Nanoseconds};
use crate::error::Error;
use crate::managed::PAGE_BYTES;
use crate::nand::{DieIndex, PhysicalOp};

/// Dies, channels, link and write buffer.
///
/// Invariant: nothing ends before it was requested, and a transfer booked on a channel or the link never moves to an
/// earlier time.
#[derive(Debug)]
pub struct Media {
    timing: DriveTiming,
    dies: Vec<Die>,
    channels: Vec<Channel>,
    link_in: Nanoseconds,
    link_out: Nanoseconds,
    buffer: WriteBuffer,
}

impl Media {
    /// Idle media.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for a drive without dies or rates, or whose write buffer could
    /// fill up with stripes that are never complete.
    pub fn new(timing: DriveTiming) -> Result<Self, Error> {
        timing.check()?;
        let dies = timing.dies() as usize;
        Ok(Self {
            dies: vec![Die::default(); dies],
            channels: vec![Channel::default(); timing.channels as usize],
            link_in: 0,
            link_out: 0,
            buffer: WriteBuffer::new(timing.write_buffer_bytes / PAGE_BYTES, dies),
            timing,
        })
    }

    /// The timing of the drive.
    pub fn timing(&self) -> &DriveTiming {
        &self.timing
    }

    /// When the controller starts on a command without data that arrives at `now`.
    pub fn command(&self, now: Nanoseconds) -> Nanoseconds {
        now + self.timing.command_ns
    }

    /// When `bytes` that the host sends with a command at `now` have arrived.
    pub fn receive(&mut self, now: Nanoseconds, bytes: u64) -> Nanoseconds {
        self.link_in = self.link_in.max(now) + self.timing.link_ns(bytes);
        self.link_in + self.timing.command_ns
    }

    /// When the write buffer has room for a page that arrives at `now`. Pages are admitted in the order of the calls.
    pub fn wait_for_room(&mut self, now: Nanoseconds) -> Nanoseconds {
        let room_at = self.buffer.wait_for_room(now);
        debug_assert!(room_at >= now);
        room_at
    }

    /// When a write is acknowledged that is in the buffer since `buffered`.
    pub fn acknowledge(&self, buffered: Nanoseconds) -> Nanoseconds {
        buffered + self.timing.buffer_ns
    }

    /// When the host has received `bytes`. The controller accepted the command at `begin`, and the bytes are through
    /// their channels at `ready`. The link sends whatever is ready first: data that waits for a die does not delay
    /// other data.
    pub fn send(&mut self, begin: Nanoseconds, ready: Nanoseconds, bytes: u64) -> Nanoseconds {
        debug_assert!(ready >= begin);
        let transfer = self.timing.link_ns(bytes);
        self.link_out = self.link_out.max(begin) + transfer;
        self.link_out.max(ready + transfer)
    }

    /// Books `op`, which can begin at `now`, and returns when it is done. Read data is then through the channel. The
    /// end of a program or an erase is an estimate, because later reads may delay it. A program releases its room in
    /// the write buffer at its end. For an erase between programs the result is when the die gets to it.
    pub fn book(&mut self, now: Nanoseconds, op: PhysicalOp) -> Nanoseconds {
        let done = match op {
            PhysicalOp::HostRead { die, bytes } => self.read(now, die, bytes),
            PhysicalOp::FirmwareRead { die, bytes } => {
                self.dies[die.at()].work(now, self.timing.nand.read_ns, false);
                let through = self.transfer(now, die, bytes);
                through.max(self.dies[die.at()].idle_at())
            }
            PhysicalOp::Program { die, bytes, urgent } => {
                let there = self.transfer(now, die, bytes);
                let end = self.dies[die.at()].program(there, &self.timing.nand, urgent);
                self.buffer.enter(die.at(), bytes.div_ceil(PAGE_BYTES), end);
                end
            }
            PhysicalOp::Erase { die, blocks, between_programs } => {
                let entry = &mut self.dies[die.at()];
                // A die that works in order does not erase in slices.
                if between_programs && self.timing.service != DieService::InOrder {
                    entry.erase(blocks, &self.timing.nand);
                } else {
                    entry.work(now, blocks * self.timing.nand.erase_ns, false);
                }
                entry.idle_at().max(now)
            }
        };
        debug_assert!(done >= now, "{op:?} ends before it begins");
        done
    }

    /// When all booked work is done, except for erases between programs.
    pub fn idle_at(&self) -> Nanoseconds {
        self.dies.iter().map(Die::idle_at).max().unwrap_or(0)
    }

    fn transfer(&mut self, now: Nanoseconds, die: DieIndex, bytes: u64) -> Nanoseconds {
        let duration = self.timing.channel_ns(bytes);
        let channel = &mut self.channels[self.timing.array().channel_of(die).at()];
        match self.timing.service {
            DieService::InOrder => channel.fit(now, now, duration),
            DieService::ReadsFirst | DieService::ReadsSuspend => channel.append(now, duration),
        }
    }

    fn read(&mut self, now: Nanoseconds, die: DieIndex, bytes: u64) -> Nanoseconds {
        let DriveTiming { nand, service, .. } = &self.timing;
        let (sensed, delayed_ns) = self.dies[die.at()].read(now, nand, *service);
        self.buffer.delay(die.at(), now, delayed_ns);
        let transfer = self.timing.channel_ns(bytes);
        let channel = &mut self.channels[self.timing.array().channel_of(die).at()];
        if self.timing.service == DieService::InOrder {
            return channel.fit(now, sensed, transfer);
        }
        // The few kilobytes of a read are inserted between the transfers of programs, which are delayed.
        channel.delay(transfer);
        sensed + transfer
    }
}

#[cfg(test)]
mod tests {
    use super::super::drives::small;
    use super::*;

    const DIE: DieIndex = DieIndex(2);

    fn media(service: DieService) -> Media {
        Media::new(DriveTiming { service, ..small() }).unwrap()
    }

    fn stripe(urgent: bool) -> PhysicalOp {
        let bytes = u64::from(small().stripe_pages()) * PAGE_BYTES;
        PhysicalOp::Program { die: DIE, bytes, urgent }
    }

    fn erase(between_programs: bool) -> PhysicalOp {
        PhysicalOp::Erase { die: DIE, blocks: 2, between_programs }
    }

    #[test]
    fn an_erase_is_done_whole_or_between_programs() {
        let whole = 2 * small().nand.erase_ns;
        assert_eq!(media(DieService::ReadsSuspend).book(500, erase(false)), 500 + whole);
        assert_eq!(media(DieService::ReadsSuspend).book(500, erase(true)), 500);
        assert_eq!(media(DieService::InOrder).book(500, erase(true)), 500 + whole);
    }

    #[test]
    fn dies_of_a_channel_share_it_and_others_do_not() {
        let (mut media, timing) = (media(DieService::ReadsSuspend), small());
        let there = timing.channel_ns(u64::from(timing.stripe_pages()) * PAGE_BYTES);
        assert_eq!(media.book(0, stripe(false)), there + timing.nand.program_ns);
        let on = |die| {
            let PhysicalOp::Program { bytes, urgent, .. } = stripe(false) else { unreachable!() };
            PhysicalOp::Program { die, bytes, urgent }
        };
        // Dies 0 and 2 are on channel 0, die 1 is on channel 1.
        assert_eq!(media.book(0, on(DieIndex(0))), 2 * there + timing.nand.program_ns);
        assert_eq!(media.book(0, on(DieIndex(1))), there + timing.nand.program_ns);
    }

    #[test]
    fn a_firmware_read_waits_for_the_programs_before_it_and_a_host_read_does_not() {
        let mut media = media(DieService::ReadsSuspend);
        let programmed = media.book(0, stripe(false));
        let read = PhysicalOp::FirmwareRead { die: DIE, bytes: PAGE_BYTES };
        assert_eq!(media.book(10, read), programmed + small().nand.read_ns);
        let read = PhysicalOp::HostRead { die: DIE, bytes: PAGE_BYTES };
        assert!(media.book(20, read) < programmed);
    }
}
