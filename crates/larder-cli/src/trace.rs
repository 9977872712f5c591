//! How a trace is read.

use larder_workload::Error;
use larder_workload::trace::TraceOptions;

use crate::args::FormatArgs;

/// The options of the command line, as the reader takes them.
pub(crate) fn trace_options(arguments: &FormatArgs) -> Result<TraceOptions, Error> {
    let object_bytes = u32::try_from(arguments.object_size).map_err(|_| {
        Error::usage(format!("--object-size {}: must be less than 4 GiB", arguments.object_size))
    })?;
    Ok(TraceOptions { format: arguments.format, object_bytes })
}
