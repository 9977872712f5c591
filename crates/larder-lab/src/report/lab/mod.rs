//! The page of a run of experiments: a table of verdicts, then a section an experiment.
//!
//! It is made from results as their JSON form has them, so that a run of minutes can become a page
//! later, and a page can be made of the results of another version.
//!
//! | module | what it is |
//! |---|---|
//! | `result` | a result as the page needs it, from the run or from JSON |
//! | `specs` | which metrics of which experiment make a chart |
//! | `array_specs` | those about the array engine |
//! | `inferred` | charts of experiments that have no such description |
//! | `resolve` | a description and a result, made ready to draw |
//! | `page` | the order of things on the page, and its tables |

mod array_specs;
mod block_specs;
mod inferred;
mod page;
mod resolve;
mod result;
mod specs;
#[cfg(test)]
mod tests;

pub(super) use page::render;
pub use result::{LabResult, PaperMark, Range, read_results};
