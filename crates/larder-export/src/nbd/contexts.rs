//! Contexts of block status: the contexts that a client selects, and their numbers in replies.

use std::sync::Arc;

use super::exports::Export;
use crate::volume::Context;

/// A context and its number in replies.
pub(super) type NumberedContext = (u32, Context);

/// Whether a query may name a whole namespace (`base:`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Naming {
    /// Listing: it may; without a query all contexts are meant.
    Any,
    /// Selecting: it may not.
    One,
}

/// The contexts that a client has selected for an export.
#[derive(Debug, Default)]
pub(super) struct SelectedContexts(Option<(Arc<Export>, Vec<NumberedContext>)>);

impl SelectedContexts {
    pub(super) fn of(export: &Arc<Export>, contexts: Vec<NumberedContext>) -> Self {
        Self(Some((Arc::clone(export), contexts)))
    }

    /// The selection for `export`: empty if the selection was for another export.
    pub(super) fn of_export(self, export: &Arc<Export>) -> Vec<NumberedContext> {
        let own = self.0.filter(|(of, _)| Arc::ptr_eq(of, export));
        own.map(|(_, contexts)| contexts).unwrap_or_default()
    }
}

/// The contexts of `all` that the queries name, each once. Unknown names are ignored, as the protocol requires.
pub(super) fn named(all: &[Context], queries: &[&str], naming: Naming) -> Vec<NumberedContext> {
    let is_named = |context: Context| {
        let name = context.name();
        let namespace = name.split_inclusive(':').next();
        let any = naming == Naming::Any;
        any && queries.is_empty()
            || queries.iter().any(|query| *query == name || any && Some(*query) == namespace)
    };
    let numbered = (1..).zip(all.iter().copied());
    numbered.filter(|(_, context)| is_named(*context)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_name_contexts_and_a_list_request_may_name_namespaces() {
        let all = [Context::Allocation, Context::Cached, Context::Dirty];
        let names = |queries: &[&str], naming| {
            let found = named(&all, queries, naming);
            found.iter().map(|(number, _)| *number).collect::<Vec<_>>()
        };
        assert_eq!(names(&[], Naming::Any), [1, 2, 3]);
        assert_eq!(names(&[], Naming::One), []);
        assert_eq!(names(&["x-larder:"], Naming::Any), [2, 3]);
        assert_eq!(names(&["x-larder:"], Naming::One), []);
        let twice = ["x-larder:dirty", "qemu:dirty-bitmap:b", "x-larder:dirty", "base:allocation"];
        assert_eq!(names(&twice, Naming::One), [1, 3]);
        assert_eq!(names(&["base"], Naming::Any), []);
    }
}
