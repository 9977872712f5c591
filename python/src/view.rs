//! A value as a buffer that Python reads in place.
#![allow(unsafe_code)] // the buffer protocol is a protocol of pointers

use std::ffi::c_int;

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

/// A value of the cache, pinned in its memory as long as a view of it lives.
#[pyclass(frozen, module = "larder._larder")]
pub(crate) struct View {
    value: larder::Value,
}

impl View {
    /// A `memoryview` of a value.
    pub(crate) fn of(py: Python<'_>, value: larder::Value) -> PyResult<Bound<'_, PyMemoryView>> {
        PyMemoryView::from(Bound::new(py, Self { value })?.as_any())
    }
}

#[pymethods]
impl View {
    fn __len__(&self) -> usize {
        self.value.len()
    }

    /// Fills in the description of the value's memory.
    ///
    /// # Safety
    /// `view` is null, or points to a `Py_buffer` that this call may overwrite: the interpreter calls it so.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("there is no room for the view"));
        }
        let value: &[u8] = &slf.get().value;
        let bytes = ffi::Py_ssize_t::try_from(value.len())
            .map_err(|_| PyBufferError::new_err("the value is longer than a buffer"))?;
        // SAFETY: `view` may be overwritten, and `slf` is a live object. The memory is that of `value`, whose pin
        // keeps it in place, unchanged, until it is dropped: that is not before `slf` is, which the filled view owns a
        // reference to. The buffer is read-only, so nothing is written through the pointer.
        let failed = unsafe {
            ffi::PyBuffer_FillInfo(
                view,
                slf.as_ptr(),
                value.as_ptr().cast_mut().cast(),
                bytes,
                1,
                flags,
            )
        };
        match failed {
            0 => Ok(()),
            _ => Err(PyErr::fetch(slf.py())),
        }
    }
}
