#[path = "it/page_sets.rs"]
mod page_sets;
#[path = "it/rig.rs"]
mod rig;
