//! The model of a drive.

use std::sync::{Mutex, MutexGuard, PoisonError};

use larder_ssd::managed::{Geometry, ManagedConfig, ManagedSsd};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors;

/// An ordinary SSD that counts what it writes to its media. Sizes are in bytes; a page has 4096.
#[pyclass(frozen, subclass, module = "larder._larder")]
pub(crate) struct Ssd(Mutex<ManagedSsd>);

impl Ssd {
    fn drive(&self) -> MutexGuard<'_, ManagedSsd> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refused(py: Python<'_>, error: &larder_ssd::Error) -> PyErr {
    let class = match error.kind() {
        larder_ssd::ErrorKind::Config => "ConfigError",
        _ => "InvalidInputError",
    };
    errors::new(py, class, error.to_string())
}

#[pymethods]
impl Ssd {
    #[new]
    fn new(
        py: Python<'_>,
        capacity: u64,
        unit: u64,
        op_percent: f64,
        handles: u16,
        fdp: bool,
        seed: u64,
    ) -> PyResult<Self> {
        let geometry = Geometry::with_overprovisioning(capacity, unit, op_percent);
        let geometry = geometry.map_err(|error| refused(py, &error))?;
        let config = ManagedConfig { handles, fdp, seed, ..ManagedConfig::new(geometry) };
        let drive = ManagedSsd::new(config).map_err(|error| refused(py, &error))?;
        Ok(Self(Mutex::new(drive)))
    }

    /// The number of pages that the host can address.
    #[getter]
    fn pages(&self) -> u64 {
        self.drive().config().geometry.logical_pages
    }

    /// Write `count` pages from `page` on, with a placement handle.
    #[pyo3(signature = (page, count = 1, handle = 0))]
    fn write(&self, py: Python<'_>, page: u64, count: u64, handle: u16) -> PyResult<()> {
        py.detach(|| self.drive().write(page, count, handle)).map_err(|error| refused(py, &error))
    }

    /// Write single pages, in this order, with a placement handle.
    #[pyo3(signature = (pages, handle = 0))]
    fn write_pages(&self, py: Python<'_>, pages: Vec<u32>, handle: u16) -> PyResult<()> {
        py.detach(|| self.drive().write_scattered(&pages, handle))
            .map_err(|error| refused(py, &error))
    }

    /// Deallocate `count` pages from `page` on.
    #[pyo3(signature = (page, count = 1))]
    fn trim(&self, py: Python<'_>, page: u64, count: u64) -> PyResult<()> {
        py.detach(|| self.drive().deallocate(page, count)).map_err(|error| refused(py, &error))
    }

    /// Counters since the drive was made, and its wear.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (stats, wear) = {
            let drive = self.drive();
            (drive.stats().clone(), drive.wear())
        };
        let told = PyDict::new(py);
        told.set_item("host_pages", stats.host_pages)?;
        told.set_item("media_pages", stats.media_pages)?;
        told.set_item("copied_pages", stats.copied_pages)?;
        told.set_item("erased_units", stats.erased_units)?;
        told.set_item("deallocated_pages", stats.deallocated_pages)?;
        told.set_item("host_pages_by_handle", stats.host_pages_by_handle)?;
        told.set_item("copied_pages_by_owner", stats.copied_pages_by_owner)?;
        told.set_item("erases_min", wear.min_erases)?;
        told.set_item("erases_mean", wear.mean_erases)?;
        told.set_item("erases_max", wear.max_erases)?;
        Ok(told)
    }
}
