//! The wear of drives whose virtual SSDs the tenants have. The admin address reports it along with the tenants.

use std::fmt;

use crate::metrics_text::MetricsText;

/// Asks the owner of the drives for their wear each time an operator requests it.
pub trait WearReports: fmt::Debug + Send + Sync {
    /// Wear, exchanges and their effect, as metrics. The names of the families begin with none of the server's
    /// prefixes. It must take about a second at most.
    fn metrics(&self) -> MetricsText;
}

/// A process has one owner of its drives, so all of its reports are the same.
impl PartialEq for dyn WearReports {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
