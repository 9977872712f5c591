//! Publishes the events of keys (`notify-keyspace-events`).

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;

use larder_net::sockets::yield_now;

use super::glob::Matcher;
use crate::channels::{Kind, Message};
use crate::config::KeyspaceEvents;
use crate::keyspace::Notice;
use crate::worker::Worker;

/// Steps of a comparison with a pattern, and deliveries, between two turns of other connections.
const STEPS_A_TURN: usize = 16_384;
const DELIVERY_STEPS: usize = 64;

/// Publishes events as they come, until the worker ends.
pub(crate) async fn publish(worker: Rc<Worker>) {
    let keyspace = Arc::clone(&worker.shared.keyspace);
    let mut publisher = Publisher { worker, steps: STEPS_A_TURN };
    loop {
        let notice = poll_fn(|cx| keyspace.poll_notice(cx)).await;
        let Notice { tenant, database, key, event, events } = notice;
        if events.has(KeyspaceEvents::OF_KEY) {
            let channel = [format!("__keyspace@{database}__:").as_bytes(), &*key].concat();
            publisher.deliver(tenant, &channel, event.as_bytes()).await;
        }
        if events.has(KeyspaceEvents::OF_EVENT) {
            let channel = format!("__keyevent@{database}__:{event}");
            publisher.deliver(tenant, channel.as_bytes(), &key).await;
        }
        publisher.works(DELIVERY_STEPS).await;
    }
}

struct Publisher {
    worker: Rc<Worker>,
    /// What is left of this turn.
    steps: usize,
}

impl Publisher {
    async fn works(&mut self, steps: usize) {
        if self.steps <= steps {
            self.steps = STEPS_A_TURN;
            return yield_now().await;
        }
        self.steps -= steps;
    }

    /// Gives a message to the subscribers of its channel, and of all patterns that describe it.
    async fn deliver(&mut self, tenant: usize, channel: &[u8], payload: &[u8]) {
        let message = Message {
            kind: Kind::Channel,
            pattern: None,
            channel: channel.into(),
            payload: payload.into(),
        };
        self.deliver_to(tenant, &message).await;
        let mut behind: Option<Box<[u8]>> = None;
        loop {
            let channels = Arc::clone(&self.worker.shared.channels);
            let page = channels.names_behind(tenant, Kind::Pattern, behind.as_deref());
            let Some((last, _)) = page.last() else { return };
            behind = Some(last.clone());
            for (pattern, _) in page {
                if self.describes(&pattern, channel).await {
                    let pattern = Some(pattern.into());
                    let by = Message { kind: Kind::Pattern, pattern, ..message.clone() };
                    self.deliver_to(tenant, &by).await;
                }
            }
        }
    }

    async fn deliver_to(&mut self, tenant: usize, message: &Message) {
        let mut behind = None;
        loop {
            let name = (message.kind, message.name());
            let done = self.worker.shared.channels.deliver(tenant, name, behind, message);
            self.worker.counters.pubsub_delivered.add(done.to as u64);
            self.works(DELIVERY_STEPS * (1 + done.to)).await;
            if done.more_behind.is_none() {
                return;
            }
            behind = done.more_behind;
        }
    }

    async fn describes(&mut self, pattern: &[u8], name: &[u8]) -> bool {
        let mut matcher = Matcher::new(pattern, name);
        loop {
            let mut steps = STEPS_A_TURN / 4;
            let fits = matcher.run(&mut steps);
            self.works(STEPS_A_TURN / 4 - steps).await;
            if let Some(fits) = fits {
                return fits;
            }
        }
    }
}
