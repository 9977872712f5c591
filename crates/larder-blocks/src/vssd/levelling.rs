//! Levelling that runs by itself: a thread for an array, which does what [`WearService`] decides.
//!
//! The process that holds the array starts it. It takes the lock of the array for one piece of work at a time: a part
//! of a block is copied, or a block is erased. So a request of a tenant waits for at most one of these.
//!
//! Nothing is lost if the thread or the process ends: the next one goes on where the catalogue says.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use larder_device::{Clock, Error, ErrorKind, RealClock};
use larder_ssd::nand::{ChannelIndex, DieIndex};
use larder_vssd::service::{ServiceOptions, ServiceReport, Step, WearService};
use larder_vssd::{VssdInfo, channel_pairs};

use super::array::VssdArray;
use super::errors::of_model;
use super::load::{TenantDies, unix_s};
use super::state::ArrayState;

const SECOND: Duration = Duration::from_secs(1);

/// Levelling of an array, until it is dropped.
///
/// ```
/// use larder_blocks::VssdArray;
/// use larder_blocks::vssd::Levelling;
/// use larder_vssd::service::ServiceOptions;
///
/// fn serve(array: &VssdArray) -> Result<(), larder_device::Error> {
///     let levelling = Levelling::start(array.clone(), ServiceOptions::default())?;
///     // … tenants work …
///     for drive in levelling.report()?.drives {
///         println!("drive {}: {} exchanges", drive.drive, drive.exchanges);
///     }
///     Ok(()) // the end of `levelling` stops it
/// }
/// ```
pub struct Levelling {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    array: VssdArray,
    /// Locked before the array.
    service: Mutex<WearService>,
    control: Mutex<Control>,
    wake: Condvar,
}

#[derive(Default)]
struct Control {
    stop: bool,
    /// Why it has ended by itself.
    failed: Option<String>,
    /// Something was asked for: do not rest.
    asked: bool,
}

impl fmt::Debug for Levelling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Levelling").finish_non_exhaustive()
    }
}

impl Levelling {
    /// Starts levelling of `array`.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] for options that make no sense; [`ErrorKind::Io`] if the system has no thread left.
    pub fn start(array: VssdArray, options: ServiceOptions) -> Result<Self, Error> {
        let service = WearService::new(options).map_err(|error| of_model("levelling", &error))?;
        let shared = Arc::new(Shared {
            array,
            service: Mutex::new(service),
            control: Mutex::new(Control::default()),
            wake: Condvar::new(),
        });
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("levelling".to_owned());
        let thread = thread
            .spawn(move || of_thread.run())
            .map_err(|error| Error::from_os("thread of levelling".to_owned(), error))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Wear, exchanges and forecasts.
    ///
    /// # Errors
    /// [`ErrorKind::Gone`] if the array has no power; [`ErrorKind::Io`] if levelling has ended by an error.
    pub fn report(&self) -> Result<ServiceReport, Error> {
        if let Some(why) = &self.shared.control().failed {
            let context = format!("levelling has ended: {why}; open the array anew");
            return Err(Error::new(ErrorKind::Io, context));
        }
        let service = self.shared.service();
        self.shared.array.look(|array| service.report(array, unix_s()))
    }

    /// Stops moving data until [`Self::resume`], also in later processes.
    ///
    /// # Errors
    /// Those of the storage below.
    pub fn pause(&self) -> Result<(), Error> {
        self.shared.array.pause_levelling(true)
    }

    /// Goes on.
    ///
    /// # Errors
    /// Those of the storage below.
    pub fn resume(&self) -> Result<(), Error> {
        self.shared.array.pause_levelling(false)?;
        self.shared.wake();
        Ok(())
    }

    /// Begins an exchange of two channels of `drive`, whatever is due. It goes on in the thread, at its pace.
    ///
    /// # Errors
    /// [`ErrorKind::InUse`] if an exchange is in progress; [`ErrorKind::OutOfRange`] for channels that cannot be
    /// exchanged.
    pub fn exchange(
        &self,
        drive: u32,
        one: ChannelIndex,
        other: ChannelIndex,
    ) -> Result<(), Error> {
        let array = self.shared.array.look(|array| Some(array.drive(drive)?.geometry().array))?;
        let Some(array) = array else {
            let context = format!("exchange of channels: there is no drive {drive}");
            return Err(Error::new(ErrorKind::OutOfRange, context));
        };
        let pairs: Vec<(DieIndex, DieIndex)> = channel_pairs(array, one, other, None)
            .map_err(|error| of_model("exchange of channels", &error))?;
        let mut service = self.shared.service();
        let mut state = self.shared.array.lock();
        state.operate("exchange of channels", |array| {
            array.swap_begin(drive, &pairs)?;
            service.began(now_ns(), array);
            Ok(())
        })?;
        drop((state, service));
        self.shared.wake();
        Ok(())
    }

    /// Takes the exchange in progress back: what has moved goes home.
    ///
    /// # Errors
    /// Those of the storage below.
    pub fn take_back(&self) -> Result<(), Error> {
        self.shared.array.swap_abandon()?;
        self.shared.wake();
        Ok(())
    }
}

impl Drop for Levelling {
    fn drop(&mut self) {
        self.shared.control().stop = true;
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            // A thread that has panicked has told so.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn service(&self) -> MutexGuard<'_, WearService> {
        self.service.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        self.control().asked = true;
        self.wake.notify_all();
    }

    fn run(&self) {
        if let Err(error) = self.level() {
            self.control().failed = Some(error.to_string());
        }
    }

    /// Works and rests until it is stopped.
    fn level(&self) -> Result<(), Error> {
        let mut second_at = RealClock.monotonic() + SECOND;
        loop {
            let now = RealClock.monotonic();
            if now >= second_at {
                second_at = now + SECOND;
                let p99_ns = self.array.lock().load.take_second();
                self.service().second(unix_s(), &p99_ns);
            }
            let until = self.step(now)?;
            let mut control = self.control();
            if control.stop {
                drop(control);
                return self.array.lock().operate("levelling", |array| array.keep_levelling());
            }
            let rest = until.min(second_at).saturating_sub(RealClock.monotonic());
            if !rest.is_zero() && !control.asked {
                let waited = self.wake.wait_timeout(control, rest);
                control = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            control.asked = false;
        }
    }

    /// Does one piece of work. Returns when the next may come.
    fn step(&self, now: Duration) -> Result<Duration, Error> {
        let mut service = self.service();
        let mut state: MutexGuard<'_, ArrayState> = self.array.lock();
        state.tend_loans(now)?;
        let tenants = state.dies_of_tenants()?;
        let idle = state.load.idle(now, &tenants);
        let step =
            state.operate("levelling", |array| service.step(nanoseconds(now), array, &idle))?;
        match step {
            Step::Copied { block, pages } => {
                let bytes = u64::from(pages) * u64::from(state.page_bytes);
                state.media_written(block.vssd(), bytes, bytes);
                Ok(now)
            }
            Step::Rest { until } => Ok(Duration::from_nanos(until)),
            Step::Begun | Step::Erased | Step::Ended => Ok(now),
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn now_ns() -> u64 {
    nanoseconds(RealClock.monotonic())
}

impl ArrayState {
    /// The dies of each vSSD; during an exchange also those that its data goes to.
    pub(super) fn dies_of_tenants(&mut self) -> Result<Vec<TenantDies>, Error> {
        let array = self.array()?;
        let swap = array.swap_under_way();
        let dies = |info: VssdInfo| {
            let mut dies = info.dies;
            for at in 0..dies.len() {
                let (drive, die) = dies[at];
                let partner = swap.filter(|swap| swap.drive == drive);
                if let Some(partner) = partner.and_then(|swap| swap.partner(die)) {
                    dies.push((drive, partner));
                }
            }
            (info.id, dies)
        };
        Ok(array.list().map(dies).collect())
    }
}
