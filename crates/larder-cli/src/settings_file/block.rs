//! `[[block]]` of `larder.toml`: a cache in front of slow devices, with the options of `larder block start`.

use std::fmt;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use larder_block::cache::Mode;
use larder_block::policy::pressure::BypassPolicy;
use larder_server::SocketBackend;
use serde::de::{self, Deserialize, Deserializer, Visitor};

use super::log_level::LogLevel;
use crate::args::{
    ChangedCoreArg, CleaningArg, CoreArg, CutOffArg, PromotionArg, ReadAheadArg, RoutingArg,
    TargetArg, UblkArg, sockets,
};

/// A cache in the file. Missing keys get their defaults.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BlockEntry {
    pub(crate) cache: Text<TargetArg>,
    #[serde(default)]
    pub(crate) core: Vec<Text<CoreArg>>,
    pub(crate) unix: Option<PathBuf>,
    pub(crate) tcp: Option<SocketAddr>,
    pub(crate) ublk: Option<Text<UblkArg>>,
    pub(crate) ublk_depth: Option<u16>,
    pub(crate) control: Option<PathBuf>,
    pub(crate) metrics: Option<SocketAddr>,
    pub(crate) mode: Option<Text<Mode>>,
    pub(crate) cut_off: Option<Text<CutOffArg>>,
    pub(crate) read_ahead: Option<Text<ReadAheadArg>>,
    pub(crate) promotion: Option<Text<PromotionArg>>,
    pub(crate) cleaning: Option<Text<CleaningArg>>,
    pub(crate) routing: Option<Text<RoutingArg>>,
    pub(crate) bypass: Option<Text<BypassPolicy>>,
    pub(crate) io_classes: Option<PathBuf>,
    pub(crate) cache_errors_max: Option<u32>,
    pub(crate) load_time: Option<u32>,
    pub(crate) changed_core: Option<Text<ChangedCoreArg>>,
    pub(crate) accept_loss: Option<bool>,
    pub(crate) flush_on_stop: Option<bool>,
    pub(crate) threads: Option<u16>,
    pub(crate) sockets: Option<Text<SocketsText>>,
    pub(crate) connections: Option<u32>,
    pub(crate) log: Option<LogLevel>,
    pub(crate) tls_certificate: Option<PathBuf>,
    pub(crate) tls_key: Option<PathBuf>,
    pub(crate) tls_client_ca: Option<PathBuf>,
}

/// A text or number that is parsed as on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Text<T>(pub(crate) T);

/// "io_uring" or "epoll".
#[derive(Debug, Clone, Copy)]
pub(crate) struct SocketsText(pub(crate) SocketBackend);

impl FromStr for SocketsText {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        sockets(text).map(Self)
    }
}

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Texts<T>(PhantomData<T>);
        impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for Texts<T> {
            type Value = Text<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Text<T>, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text<T>, E> {
                text.parse().map(Text).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Texts(PhantomData))
    }
}
