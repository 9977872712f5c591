//! `flush_all`, at once or later.

use std::rc::Rc;
use std::sync::Arc;

use larder::Error;

use super::lifetime::Lifetime;
use crate::caller::Caller;

/// Forgets all keys of the tenant, when `delay` is over, which is meant as lifetimes are. What was said before of a
/// later moment does not count any more.
pub(super) async fn flush_all(caller: &Caller, delay: i64) -> Result<(), Error> {
    caller.worker.counters.cmd_flush.add(1);
    let tenant = Arc::clone(&caller.tenant);
    let number = tenant.plans_flush();
    let Lifetime::For(time) = Lifetime::new(delay, caller.cache_for(b"").moment(b"").wall()) else {
        return caller.watch("flush_all", b"", tenant.clear()).await;
    };
    let worker = Rc::clone(&caller.worker);
    caller.worker.spawn(async move {
        worker.pause(time).await;
        if tenant.still_plans(number)
            && let Err(error) = tenant.clear().await
        {
            tracing::warn!(%error, "keys were to be forgotten, and are not");
        }
    });
    Ok(())
}
