//! What came out of an experiment, as a page to look at.
