//! Addresses to listen on; no two may be the same.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use larder_workload::Error;
use serde::Deserialize;
use serde::de::{self, Deserializer};
use toml::Spanned;

use super::one_or_many;
use super::source::Source;
use crate::args::{ListenArg, listen};

/// Addresses to listen on: one, or a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Places(pub(crate) Vec<ListenArg>);

/// An address, its setting, and its place in the file, if it comes from there.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) at: ListenArg,
    pub(crate) name: String,
    pub(crate) span: Option<Range<usize>>,
}

impl Place {
    /// All addresses of a list in the file.
    pub(crate) fn all(name: &str, places: Option<&Spanned<Places>>) -> Vec<Self> {
        let Some(places) = places else { return Vec::new() };
        let span = places.span();
        let place = |at: &ListenArg| Self {
            at: at.clone(),
            name: name.to_owned(),
            span: Some(span.clone()),
        };
        places.get_ref().0.iter().map(place).collect()
    }
}

/// Refuses addresses that are the same, or of which one includes another.
pub(crate) fn check(places: &[Place], source: Option<&Source>) -> Result<(), Error> {
    for (number, place) in places.iter().enumerate() {
        let before = places.iter().take(number);
        let Some(other) = before.into_iter().find(|other| overlap(&other.at, &place.at)) else {
            continue;
        };
        let message = format!(
            "{}: {} is where {} is too ({}); each needs an address of its own",
            place.name, place.at, other.name, other.at
        );
        let span = place.span.clone().or(other.span.clone());
        return Err(match (source, span) {
            (Some(source), Some(span)) => source.refuse(Some(span), &message),
            _ => Error::usage(message),
        });
    }
    Ok(())
}

fn overlap(one: &ListenArg, other: &ListenArg) -> bool {
    match (one, other) {
        (ListenArg::Tcp(one), ListenArg::Tcp(other)) => tcp_overlap(*one, *other),
        (ListenArg::Unix(one), ListenArg::Unix(other)) => one == other,
        _ => false,
    }
}

fn tcp_overlap(one: SocketAddr, other: SocketAddr) -> bool {
    // Port 0 is a different port each time.
    if one.port() != other.port() || one.port() == 0 {
        return false;
    }
    // A listener on [::] accepts IPv4 too.
    let takes = |all: IpAddr, ip: IpAddr| all.is_unspecified() && (all.is_ipv6() || ip.is_ipv4());
    let (one, other) = (one.ip(), other.ip());
    one == other || takes(one, other) || takes(other, one)
}

impl<'de> Deserialize<'de> for Places {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expecting = "an address such as \"127.0.0.1:11211\", or a list of them";
        let texts = one_or_many::texts(deserializer, expecting)?;
        let places = texts.iter().map(|text| {
            listen(text).map_err(|error| de::Error::custom(format!("{text:?}: {error}")))
        });
        places.collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_the_same_if_one_takes_what_comes_to_the_other() {
        let overlap = |one, other| {
            let (one, other) = (listen(one).unwrap(), listen(other).unwrap());
            assert_eq!(super::overlap(&one, &other), super::overlap(&other, &one));
            super::overlap(&one, &other)
        };
        assert!(overlap("127.0.0.1:1", "127.0.0.1:1"));
        assert!(overlap("0.0.0.0:1", "127.0.0.1:1"));
        assert!(overlap("[::]:1", "127.0.0.1:1") && overlap("[::]:1", "[::1]:1"));
        assert!(overlap("[::]:1", "0.0.0.0:1"));
        assert!(overlap("unix:/a", "unix:/a"));
        assert!(!overlap("0.0.0.0:1", "[::1]:1"));
        assert!(!overlap("127.0.0.1:1", "127.0.0.1:2") && !overlap("127.0.0.1:1", "127.0.0.2:1"));
        assert!(!overlap("127.0.0.1:0", "127.0.0.1:0"));
        assert!(!overlap("unix:/a", "unix:/b") && !overlap("none", "none"));
    }
}
