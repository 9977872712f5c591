//! `lru_crawler metadump`: all keys, page by page.

use std::fmt::Write;

use larder::{Moment, ScanPage, Scanned};

use super::say::say;
use crate::answers::Answers;
use crate::caller::Caller;
use crate::escaped_key::EscapedKey;
use crate::protocol::memcached::lifetime::left_s;

/// Items of a page.
const PAGE_ITEMS: usize = 256;

/// A walk over all keys of a tenant.
#[derive(Debug)]
pub(super) struct Dump {
    keys_only: bool,
    /// Where it continues; `None` at the end.
    cursor: Option<u64>,
}

impl Dump {
    pub(super) fn new(keys_only: bool) -> Self {
        Self { keys_only, cursor: Some(0) }
    }

    /// Answers with a page. Returns whether there are more.
    pub(super) async fn step(&mut self, caller: &Caller, answers: &mut Answers<'_>) -> bool {
        answers.settle().await;
        let Some(cursor) = self.cursor else {
            say(answers, if self.keys_only { "EN" } else { "END" });
            return false;
        };
        let page = caller.tenant.scan_from(cursor, PAGE_ITEMS).await;
        let Ok(ScanPage { items, next, .. }) = page else {
            say(answers, "SERVER_ERROR the server is ending");
            return false;
        };
        for item in items {
            self.line(answers.bytes(), &item, caller.tenant.calls().moment(item.key()));
        }
        self.cursor = (next != 0).then_some(next);
        true
    }

    fn line(&self, out: &mut Vec<u8>, item: &Scanned, moment: Moment) {
        let mut text = String::new();
        let key = EscapedKey(item.key());
        let meta = item.value().meta();
        let size = item.key().len() + item.value().len();
        let written = if self.keys_only {
            write!(text, "mg {key}\r\n")
        } else {
            let expires = meta.expires_at.map_or(-1, |end| left_s(Some(moment.wall_time_of(end))));
            let idle = meta.since_access(moment.now()).unwrap_or_default();
            let accessed = moment.wall().saturating_sub(idle).as_secs();
            let fetched = if meta.fetched { "yes" } else { "no" };
            let cas = meta.version;
            write!(
                text,
                "key={key} exp={expires} la={accessed} cas={cas} fetch={fetched} cls=1 size={size}\r\n"
            )
        };
        debug_assert!(written.is_ok(), "a string takes everything");
        out.extend_from_slice(text.as_bytes());
    }
}
