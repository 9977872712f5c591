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

use crate::args::{
    ChangedCoreArg, CleaningArg, CoreArg, CutOffArg, PromotionArg, ReadAheadArg, RoutingArg,
    TargetArg, UblkArg, sockets,
};
use crate::serve::LogLevel;

/// A cache in the file. Missing keys get their defaults.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BlockEntry {
    pub(super) cache: Text<TargetArg>,
    #[serde(default)]
    pub(super) core: Vec<Text<CoreArg>>,
    pub(super) unix: Option<PathBuf>,
    pub(super) tcp: Option<SocketAddr>,
    pub(super) ublk: Option<Text<UblkArg>>,
    pub(super) ublk_depth: Option<u16>,
    pub(super) control: Option<PathBuf>,
    pub(super) metrics: Option<SocketAddr>,
    pub(super) mode: Option<Text<Mode>>,
    pub(super) cut_off: Option<Text<CutOffArg>>,
    pub(super) read_ahead: Option<Text<ReadAheadArg>>,
    pub(super) promotion: Option<Text<PromotionArg>>,
    pub(super) cleaning: Option<Text<CleaningArg>>,
    pub(super) routing: Option<Text<RoutingArg>>,
    pub(super) bypass: Option<Text<BypassPolicy>>,
    pub(super) io_classes: Option<PathBuf>,
    pub(super) cache_errors_max: Option<u32>,
    pub(super) load_time: Option<u32>,
    pub(super) changed_core: Option<Text<ChangedCoreArg>>,
    pub(super) accept_loss: Option<bool>,
    pub(super) flush_on_stop: Option<bool>,
    pub(super) threads: Option<u16>,
    pub(super) sockets: Option<Text<SocketsText>>,
    pub(super) connections: Option<u32>,
    pub(super) log: Option<LogLevel>,
    pub(super) tls_certificate: Option<PathBuf>,
    pub(super) tls_key: Option<PathBuf>,
    pub(super) tls_client_ca: Option<PathBuf>,
}

/// A text or number that is parsed as on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Text<T>(pub(super) T);

/// "io_uring" or "epoll".
#[derive(Debug, Clone, Copy)]
pub(super) struct SocketsText(pub(super) SocketBackend);

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
