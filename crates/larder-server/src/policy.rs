//! Policies of tenants: rate limits, weights, and key prefixes.

use std::time::Duration;

use crate::error::{Error, ErrorKind};

/// Highest weight; the lowest is 1.
const WEIGHT_MAX: u16 = 1000;
/// Longest burst time.
const BURST_MAX: Duration = Duration::from_secs(3600);
/// A prefix is at most as long as a memcached key.
const PREFIX_BYTES_MAX: usize = 250;

/// What happens to requests beyond a rate limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum OverLimit {
    /// The connection is not read until the request's turn has come, for one second at most. A request whose turn comes
    /// later is refused after that second.
    #[default]
    Delay,
    /// The requests are refused at once.
    Error,
}

/// The policy of a tenant. A tenant without one has no limits.
///
/// ```
/// use larder_server::TenantPolicy;
///
/// let policy = TenantPolicy { requests_per_second: 1000, ..TenantPolicy::new("photos") };
/// assert_eq!((policy.weight, policy.bytes_per_second), (1, 0));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantPolicy {
    /// The name of the tenant.
    pub tenant: String,
    /// Requests a second, of all its connections together; 0: no limit. A request is one command, however many keys it
    /// names.
    pub requests_per_second: u64,
    /// Bytes a second, of requests and answers of all its connections together; 0: no limit. A long value always passes
    /// whole: a connection that has used more than there was waits before its next request.
    pub bytes_per_second: u64,
    /// Unused rate is saved up for this long, so this many seconds' worth may come at once. At most one hour.
    pub burst: Duration,
    /// What happens to requests beyond either rate.
    pub over_limit: OverLimit,
    /// Its share of turns at flash when requests of several tenants wait: twice the weight gets twice the turns. 1 to
    /// 1000.
    pub weight: u16,
    /// Keys with this prefix belong to this tenant when they come from connections of the first tenant. The longest
    /// prefix counts. Empty: none.
    pub prefix: Vec<u8>,
}

impl TenantPolicy {
    /// A policy without limits.
    pub fn new(tenant: impl Into<String>) -> Self {
        Self {
            tenant: tenant.into(),
            requests_per_second: 0,
            bytes_per_second: 0,
            burst: Duration::from_secs(1),
            over_limit: OverLimit::default(),
            weight: 1,
            prefix: Vec::new(),
        }
    }

    /// Refuses values out of range, and values that conflict with the policies `before` it.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] with the tenant, what is wrong, and what it must be.
    pub fn check(&self, before: &[Self]) -> Result<(), Error> {
        if !(1..=WEIGHT_MAX).contains(&self.weight) {
            return self.refuse(format!("weight = {}: must be 1 to {WEIGHT_MAX}", self.weight));
        }
        if self.burst > BURST_MAX {
            return self.refuse(format!("burst = {:?}: must be at most {BURST_MAX:?}", self.burst));
        }
        if self.prefix.len() > PREFIX_BYTES_MAX {
            let bytes = self.prefix.len();
            return self
                .refuse(format!("prefix of {bytes} bytes: must be at most {PREFIX_BYTES_MAX}"));
        }
        if before.iter().any(|other| other.tenant == self.tenant) {
            return self.refuse("has two policies".to_owned());
        }
        match before.iter().find(|other| !self.prefix.is_empty() && other.prefix == self.prefix) {
            Some(other) => self.refuse(format!("has the prefix of tenant {:?}", other.tenant)),
            None => Ok(()),
        }
    }

    fn refuse(&self, why: String) -> Result<(), Error> {
        Err(Error::new(ErrorKind::Config, format!("tenant {:?}: {why}", self.tenant)))
    }
}

/// Checks the policies of tenants with these `names`. The first tenant has all keys without a prefix of another tenant.
pub(crate) fn check(policies: &[TenantPolicy], names: &[&str]) -> Result<(), Error> {
    for (number, policy) in policies.iter().enumerate() {
        policy.check(policies.get(..number).unwrap_or_default())?;
        if !names.contains(&&*policy.tenant) {
            return policy
                .refuse(format!("has a policy and is none: there are {}", names.join(", ")));
        }
        if !policy.prefix.is_empty() && names.first() == Some(&&*policy.tenant) {
            let why =
                "prefix: the first tenant has all keys that begin as no other's; give it none";
            return policy.refuse(why.to_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(policies: &[TenantPolicy]) -> String {
        check(policies, &["a", "b", "c"]).unwrap_err().to_string()
    }

    #[test]
    fn policies_that_cannot_be_are_refused() {
        let of = TenantPolicy::new;
        let with = |tenant, prefix: &[u8]| TenantPolicy { prefix: prefix.to_vec(), ..of(tenant) };
        assert!(check(&[of("a"), with("b", b"x:"), with("c", b"x:y:")], &["a", "b", "c"]).is_ok());
        assert!(refusal(&[of("d")]).contains("there are a, b, c"));
        assert!(refusal(&[of("a"), of("a")]).contains("two policies"));
        assert!(refusal(&[with("b", b"x:"), with("c", b"x:")]).contains("prefix of tenant \"b\""));
        assert!(refusal(&[with("a", b"x:")]).contains("the first tenant"));
        assert!(refusal(&[with("b", &[b'x'; 251])]).contains("251 bytes"));
        for weight in [0, 1001] {
            let policy = TenantPolicy { weight, ..of("a") };
            assert!(refusal(&[policy]).contains("must be 1 to 1000"));
        }
        let burst = Duration::from_secs(3601);
        assert!(refusal(&[TenantPolicy { burst, ..of("a") }]).contains("burst = 3601s"));
    }
}
