//! `flush_all`, at once or later.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use larder::Error;

use super::lifetime::Lifetime;
use crate::caller::Caller;

/// Forgets all keys of the tenant after `delay`, which is interpreted like a lifetime. Cancels an earlier delayed
/// flush.
pub(super) async fn flush_all(caller: &Caller, delay: i64) -> Result<(), Error> {
    caller.worker.counters.cmd_flush.add(1);
    let tenant = Arc::clone(&caller.tenant);
    let number = tenant.plans_flush();
    let Lifetime::For(time) = Lifetime::new(delay, caller.cache_for(b"").moment(b"").wall()) else {
        let clear = caller.worker.shared.clear(&tenant);
        return caller.watch("flush_all", b"", pin!(clear)).await;
    };
    let worker = Rc::clone(&caller.worker);
    caller.worker.spawn(async move {
        let mut pause = pin!(worker.pause(time));
        let is_due = poll_fn(|cx| match tenant.still_plans(number, cx) {
            true => pause.as_mut().poll(cx).map(|()| true),
            false => Poll::Ready(false),
        });
        if is_due.await
            && let Err(error) = worker.shared.clear(&tenant).await
        {
            tracing::warn!(%error, "keys were to be forgotten, and are not");
        }
    });
    Ok(())
}
