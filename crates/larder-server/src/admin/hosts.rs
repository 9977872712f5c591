//! Checks the host name of a request.
//!
//! An attacker's page may use a name that resolves to the attacker's server first, and to this server a moment later
//! (DNS rebinding). To the browser both are one origin, so the page could read our data. The name reveals the attack:
//! the browser sends it as `Host`. An address cannot be redirected, so we accept the address at which the request
//! arrived; a name is accepted only if it is configured.

use std::net::IpAddr;

/// Whether a request for `host` that arrived at `local` is meant for this server; `names` are its configured names.
pub(super) fn is_ours(host: &str, local: IpAddr, names: &[String]) -> bool {
    let name = without_port(host);
    let bare = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    if let Ok(address) = bare.parse::<IpAddr>() {
        let address = address.to_canonical();
        if address.is_loopback() || address == local.to_canonical() {
            return true;
        }
    }
    let is_named = |own: &String| own.eq_ignore_ascii_case(name) || own.eq_ignore_ascii_case(host);
    name.eq_ignore_ascii_case("localhost") || names.iter().any(is_named)
}

/// The host without its port.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_at_which_it_arrived_and_configured_names_are_ours() {
        let names = ["cache.example".to_owned(), "other.example:9180".to_owned()];
        let ours = |host: &str| is_ours(host, IpAddr::from([10, 0, 0, 5]), &names);
        for host in [
            "localhost",
            "LocalHost:9180",
            "127.0.0.1:9180",
            "127.0.0.2",
            "[::1]:9180",
            "[::1]",
            "10.0.0.5:9180",
            "10.0.0.5",
            "[::ffff:10.0.0.5]:1",
            "Cache.Example",
            "cache.example:80",
            "other.example:9180",
        ] {
            assert!(ours(host), "{host}");
        }
        for host in [
            "",
            ":9180",
            "evil.example",
            "evil.example:9180",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.6:9180",
            "other.example",
            "cache.example.",
            "cache.example@evil.example",
            "[::1",
        ] {
            assert!(!ours(host), "{host}");
        }
    }
}
