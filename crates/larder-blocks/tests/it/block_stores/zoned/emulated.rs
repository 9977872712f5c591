//! A zoned device in memory, as strict as a real one: a write that does not begin at the write pointer fails, as does
//! one that would make too many zones active. A test can decide when requests end, and can cut the power: of a write in
//! flight a random number of blocks is then there.

use std::sync::{Mutex, MutexGuard, PoisonError};

use larder_device::{
    CheckedIo, Completer, Device, DeviceInfo, DeviceStats, Error, ErrorKind, Io, IoFailure,
    IoFuture, IoResult, Zone, ZoneLimits, ZoneState, ZonedDevice,
};

pub(super) const BLOCK: u64 = 512;

#[derive(Debug)]
pub(super) struct EmulatedZones {
    info: DeviceInfo,
    limits: ZoneLimits,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    bytes: Vec<u8>,
    zones: Vec<Zone>,
    rng: fastrand::Rng,
    /// Whether requests wait for [`EmulatedZones::release`].
    holds: bool,
    held: Vec<(Io, Completer)>,
    /// Operations until power is lost.
    left: u64,
    /// One write in this number fails; 0 means none.
    fail_one_in: u32,
    written_bytes: u64,
    most_active: usize,
    /// A write that no store may send.
    violation: Option<String>,
}

/// The parameters of the device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) zones: u64,
    pub(super) zone_bytes: u64,
    pub(super) capacity_bytes: u64,
    pub(super) active: Option<u32>,
}

impl EmulatedZones {
    pub(super) fn new(shape: Shape, seed: u64) -> Self {
        let zone = |number: u64| Zone {
            start: number * shape.zone_bytes,
            bytes: shape.zone_bytes,
            capacity_bytes: shape.capacity_bytes,
            write_pointer: number * shape.zone_bytes,
            state: ZoneState::Empty,
        };
        let bytes = shape.zones * shape.zone_bytes;
        let state = State {
            bytes: vec![0; usize::try_from(bytes).unwrap()],
            zones: (0..shape.zones).map(zone).collect(),
            rng: fastrand::Rng::with_seed(seed),
            holds: false,
            held: Vec::new(),
            left: u64::MAX,
            fail_one_in: 0,
            written_bytes: 0,
            most_active: 0,
            violation: None,
        };
        let info = DeviceInfo::new("emulated zones", bytes, 512, 8192);
        let limits = ZoneLimits { open: None, active: shape.active };
        Self { info, limits, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the state and the write pointer of a zone. If the power is lost at this operation, it happens or not, at
    /// random.
    fn manage(&self, zone: &Zone, becomes: (ZoneState, u64)) -> Result<(), Error> {
        let mut state = self.lock();
        let had_power = state.left > 0;
        let happens = had_power && (state.has_power() || state.rng.bool());
        let has_power = state.left > 0;
        if happens {
            let zone = state.zone(zone);
            (zone.state, zone.write_pointer) = becomes;
        }
        if has_power { Ok(()) } else { Err(Error::new(ErrorKind::Gone, "power was lost")) }
    }

    fn checked<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let Some(violation) = state.violation.take() else { return state };
        // Unwinding drops values that lock the state again.
        drop(state);
        panic!("{violation}");
    }

    pub(super) fn hold(&self, holds: bool) {
        self.lock().holds = holds;
    }

    /// Completes one of the held requests, chosen at random.
    pub(super) fn release(&self) {
        let mut state = self.lock();
        assert!(!state.held.is_empty(), "a caller waits, but no request is in flight");
        let held = state.held.len();
        let at = state.rng.usize(..held);
        let (io, completer) = state.held.swap_remove(at);
        let ended = state.carry_out(io, self.limits);
        state = self.checked(state);
        drop(state);
        completer.complete(ended);
    }

    pub(super) fn lose_power_after(&self, operations: u64) {
        self.lock().left = operations;
    }

    pub(super) fn fail_one_in(&self, writes: u32) {
        self.lock().fail_one_in = writes;
    }

    pub(super) fn is_down(&self) -> bool {
        self.lock().left == 0
    }

    /// Fails all held requests, and those that follow from them, then restores the power.
    pub(super) fn restart(&self) {
        self.lock().left = 0;
        loop {
            let Some((io, completer)) = self.lock().held.pop() else { break };
            completer.complete(Err(gone(io)));
        }
        let mut state = self.lock();
        state.left = u64::MAX;
        for zone in state.zones.iter_mut().filter(|zone| zone.state == ZoneState::Open) {
            zone.state = ZoneState::Closed;
        }
    }

    pub(super) fn change_zone(&self, number: usize, change: impl FnOnce(&mut Zone, &mut [u8])) {
        let state = &mut *self.lock();
        let zone = &mut state.zones[number];
        let start = usize::try_from(zone.start).unwrap();
        let end = start + usize::try_from(zone.bytes).unwrap();
        change(zone, &mut state.bytes[start..end]);
    }

    pub(super) fn zones(&self) -> Vec<Zone> {
        self.lock().zones.clone()
    }

    /// The highest number of zones that were active at the same time.
    pub(super) fn most_active(&self) -> usize {
        self.lock().most_active
    }
}

fn gone(io: Io) -> IoFailure {
    IoFailure { error: Error::new(ErrorKind::Gone, "power was lost"), buffer: io.into_buffer() }
}

impl State {
    /// Counts an operation; whether the power lasts for it.
    fn has_power(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.left > 0
    }

    fn carry_out(&mut self, io: Io, limits: ZoneLimits) -> IoResult {
        match io {
            Io::Write { offset, buffer, .. } => self.write(offset, buffer, limits),
            Io::Read { .. } if self.left == 0 => Err(gone(io)),
            Io::Read { offset, mut buffer } => {
                let at = usize::try_from(offset).unwrap();
                let bytes = self.bytes[at..at + buffer.len()].to_vec();
                buffer.copy_in(0, &bytes);
                Ok(buffer)
            }
            io => Ok(io.into_buffer()),
        }
    }

    fn write(
        &mut self,
        offset: u64,
        buffer: larder_device::IoBuffer,
        limits: ZoneLimits,
    ) -> IoResult {
        let fail = |what: String, buffer| {
            Err(IoFailure { error: Error::new(ErrorKind::Io, what), buffer })
        };
        if self.left == 0 {
            return Err(IoFailure { error: Error::new(ErrorKind::Gone, "no power"), buffer });
        }
        let mut bytes = vec![0; buffer.len()];
        buffer.copy_out(0, &mut bytes);
        let number = self
            .zones
            .iter()
            .position(|zone| (zone.start..zone.start + zone.capacity_bytes).contains(&offset));
        let number = number.expect("a write is in a zone");
        let zone = self.zones[number];
        let end = offset + bytes.len() as u64;
        let active = self.active();
        let most = limits.active.map_or(usize::MAX, |most| most as usize);
        let wrong = [
            (end > zone.start + zone.capacity_bytes, "crosses its end"),
            (zone.state == ZoneState::Full, "is to a full zone"),
            (offset != zone.write_pointer, "is not at the write pointer"),
            (zone.state == ZoneState::Empty && active >= most, "makes too many zones active"),
        ];
        if let Some((_, what)) = wrong.iter().find(|(is_so, _)| *is_so) {
            let what = format!("a write at {offset} {what}: {zone:?}, {active} active");
            self.violation = Some(what.clone());
            return fail(what, buffer);
        }
        if self.fail_one_in > 0 && self.rng.u32(..self.fail_one_in) == 0 {
            let part = self.rng.u64(..bytes.len() as u64 / BLOCK);
            self.land(number, &bytes[..usize::try_from(part * BLOCK).unwrap()]);
            return fail("a medium error, by plan".to_owned(), buffer);
        }
        if !self.has_power() {
            let part = self.rng.u64(..=bytes.len() as u64 / BLOCK);
            self.land(number, &bytes[..usize::try_from(part * BLOCK).unwrap()]);
            return Err(IoFailure { error: Error::new(ErrorKind::Gone, "power was lost"), buffer });
        }
        self.land(number, &bytes);
        Ok(buffer)
    }

    fn active(&self) -> usize {
        let is_active = |zone: &&Zone| matches!(zone.state, ZoneState::Open | ZoneState::Closed);
        self.zones.iter().filter(is_active).count()
    }

    fn land(&mut self, number: usize, bytes: &[u8]) {
        let zone = &mut self.zones[number];
        if bytes.is_empty() {
            return;
        }
        let at = usize::try_from(zone.write_pointer).unwrap();
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self.written_bytes += bytes.len() as u64;
        zone.write_pointer += bytes.len() as u64;
        let is_full = zone.write_pointer == zone.start + zone.capacity_bytes;
        zone.state = if is_full { ZoneState::Full } else { ZoneState::Open };
        self.most_active = self.most_active.max(self.active());
    }

    fn zone(&mut self, zone: &Zone) -> &mut Zone {
        self.zones.iter_mut().find(|it| it.start == zone.start).unwrap()
    }
}

impl Device for EmulatedZones {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        let io = io.into_inner();
        let mut state = self.lock();
        if state.holds && state.left > 0 {
            let (future, completer) = IoFuture::pending();
            state.held.push((io, completer));
            return future;
        }
        let ended = state.carry_out(io, self.limits);
        drop(self.checked(state));
        IoFuture::ready(ended)
    }

    fn stats(&self) -> DeviceStats {
        let written = self.lock().written_bytes;
        DeviceStats { host_written_bytes: written, ..DeviceStats::default() }
    }
}

impl ZonedDevice for EmulatedZones {
    fn limits(&self) -> ZoneLimits {
        self.limits
    }

    fn report(&self) -> Result<Vec<Zone>, Error> {
        Ok(self.lock().zones.clone())
    }

    fn reset(&self, zone: &Zone) -> Result<(), Error> {
        self.manage(zone, (ZoneState::Empty, zone.start))
    }

    /// The standard leaves the write pointer of a full zone undefined.
    fn finish(&self, zone: &Zone) -> Result<(), Error> {
        self.manage(zone, (ZoneState::Full, u64::MAX))
    }
}
