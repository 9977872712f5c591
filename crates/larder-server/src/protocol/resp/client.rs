//! The state of a connection between its requests.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::queue::{Transaction, WatchedKeys};
use super::subscriptions::Subscriptions;
use super::tracked::Tracking;
use super::waiting::Waiting;
use crate::answers::Answers;
use crate::caller::Caller;
use crate::channels::Inbox;
use crate::databases::DatabaseIndex;
use crate::keyspace::{Batch, Event, SET};
use crate::resp_board::ClientEntry;

/// Which answers are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Replies {
    #[default]
    On,
    Off,
    /// All but that of the next request.
    SkipNext,
    /// All but that of this request.
    Skip,
}

/// The state of a connection between its requests.
pub(super) struct Client {
    /// Whether the client has asked for version 3 of the protocol.
    pub(super) is_resp3: bool,
    pub(super) replies: Replies,
    /// Close the connection after this answer.
    pub(super) closes: bool,
    /// Between MULTI and EXEC.
    pub(super) transaction: Option<Box<Transaction>>,
    pub(super) watched: WatchedKeys,
    /// Within EXEC, until something has been changed: the keys that must not have changed before that.
    pub(super) guarded: WatchedKeys,
    /// What it has subscribed to, once it has.
    pub(super) subscriptions: Option<Box<Subscriptions>>,
    /// How it tracks keys, while it does.
    pub(super) tracking: Option<Box<Tracking>>,
    /// What its request stores, as subscribers of events are told.
    pub(super) event: Event,
    /// Keys that its request has changed, for clients that follow prefixes.
    pub(super) changed: Option<Batch>,
    /// A request that waits for something to take. The next request is not begun before that has its answer.
    pub(super) waiting: Option<Box<Waiting>>,
    /// Its entry in the list of clients, once it has sent a request.
    pub(super) listed: Option<Arc<ClientEntry>>,
    /// The database that it has chosen.
    database: DatabaseIndex,
    /// The name in the cache of the key of a request that needs no future.
    pub(super) name: Vec<u8>,
    /// Keys still to answer of an MGET whose answer has begun.
    pub(super) mget_left: usize,
}

impl Default for Client {
    fn default() -> Self {
        Self {
            is_resp3: false,
            replies: Replies::On,
            closes: false,
            transaction: None,
            watched: WatchedKeys::default(),
            guarded: WatchedKeys::default(),
            subscriptions: None,
            tracking: None,
            event: SET,
            changed: None,
            waiting: None,
            listed: None,
            database: DatabaseIndex::default(),
            name: Vec::new(),
            mget_left: 0,
        }
    }
}

impl Client {
    /// Its inbox, if messages can come.
    pub(super) fn inbox(&self) -> Option<&Arc<Inbox>> {
        self.listed.as_ref()?.post.inbox()
    }

    /// Messages can come from now on.
    pub(super) fn opens_inbox(&self, caller: &Caller) -> Option<&Arc<Inbox>> {
        let listed = self.listed.as_ref()?;
        Some(listed.post.opens(|| Inbox::new(caller.id, caller.keep())))
    }

    /// The database that it has chosen.
    pub(super) fn database(&self) -> DatabaseIndex {
        self.database
    }

    /// It chooses a database.
    pub(super) fn selects(&mut self, database: DatabaseIndex) {
        self.database = database;
        if let Some(listed) = &self.listed {
            listed.database.store(database.index(), Ordering::Relaxed);
        }
    }

    /// Whether it has subscribed to anything.
    pub(super) fn hears(&self) -> bool {
        self.subscriptions.as_ref().is_some_and(|it| it.are_any())
    }

    /// Whether each request is answered as it comes: no transaction, and no answer is suppressed.
    pub(super) fn is_plain(&self) -> bool {
        self.transaction.is_none() && self.replies == Replies::On
    }

    /// Whether the answer of this request is suppressed. Call it once a request.
    pub(super) fn is_muted(&mut self) -> bool {
        match self.replies {
            Replies::On => false,
            Replies::Off => true,
            Replies::SkipNext => {
                self.replies = Replies::Skip;
                true
            }
            Replies::Skip => {
                self.replies = Replies::On;
                false
            }
        }
    }

    /// Writes a refusal for a request whose command has not begun.
    pub(super) fn refuse(&mut self, refusal: &super::write::Refusal, answers: &mut Answers<'_>) {
        if !self.is_muted() {
            super::write::Writer::new(answers.bytes(), self.is_resp3).refusal(refusal);
        }
    }

    /// Resets everything but the login and the subscriptions.
    pub(super) fn reset(&mut self) {
        (self.is_resp3, self.replies, self.transaction) = (false, Replies::On, None);
        self.watched = WatchedKeys::default();
        self.selects(DatabaseIndex::default());
        if let Some(listed) = &self.listed {
            listed.set_name(b"");
        }
    }
}
