//! The page of a run of experiments: a table of verdicts, then a section for each experiment.
//!
//! It is made from results in their JSON form, so that it can be made later than the run, and from the results of
//! another version.
//!
//! | module | what it is |
//! |---|---|
//! | `result` | a result as the page needs it, from the run or from JSON |
//! | `spec` | the description of a chart |
//! | `specs` | the charts of each experiment, and their metrics |
//! | `array_specs` | those about the array engine |
//! | `inferred` | charts of experiments without such a description |
//! | `resolve` | turns a description and a result into a figure |
//! | `page` | the layout of the page, and its tables |

mod array_specs;
mod block_specs;
mod inferred;
mod page;
mod resolve;
mod result;
mod spec;
mod specs;
#[cfg(test)]
mod tests;

pub(super) use page::render;
pub use result::{LabResult, Mark, Range, read_results};
