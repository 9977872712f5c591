//! Typed keys and values over a cache of bytes.
//!
//! A [`Codec`] turns values into bytes and back. A key is any type with a byte representation: two keys are equal if
//! their bytes are.
//!
//! Bytes that the codec refuses are an error, not a miss: they exist and were written by another writer (another type
//! under the same key, or an older version of the program). The caller decides whether to delete or replace them.
//! [`Typed::get_or_fetch`] decides by itself: it fetches the value and stores it anew.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;

use crate::base::error::Error;
use crate::cache::{FetchError, SetOptions};
use crate::dram::value::Value;
use crate::fleet::front::{Route, Routed};

/// Converts values to bytes and bytes to values.
///
/// ```
/// use larder::Codec;
///
/// struct LittleEndian;
///
/// impl Codec<u64> for LittleEndian {
///     type Error = std::array::TryFromSliceError;
///
///     fn encode(&self, value: &u64, out: &mut Vec<u8>) -> Result<(), Self::Error> {
///         out.extend_from_slice(&value.to_le_bytes());
///         Ok(())
///     }
///
///     fn decode(&self, bytes: &[u8]) -> Result<u64, Self::Error> {
///         Ok(u64::from_le_bytes(bytes.try_into()?))
///     }
/// }
///
/// assert_eq!(LittleEndian.decode(&[1, 0, 0, 0, 0, 0, 0, 0]).unwrap(), 1);
/// assert!(LittleEndian.decode(b"rye").is_err());
/// ```
pub trait Codec<V> {
    /// Why a value cannot be encoded, or bytes cannot be decoded.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Appends the bytes of `value` to `out`.
    ///
    /// # Errors
    /// If the value cannot be encoded.
    fn encode(&self, value: &V, out: &mut Vec<u8>) -> Result<(), Self::Error>;

    /// Decodes a value. The cache returns the bytes that were set, but another codec may have made them: check them.
    ///
    /// # Errors
    /// If the bytes are not a valid value.
    fn decode(&self, bytes: &[u8]) -> Result<V, Self::Error>;
}

/// The errors of a [`Typed`] cache.
///
/// ```
/// use larder::TypedError;
///
/// fn is_worth_a_retry<E>(error: &TypedError<E>) -> bool {
///     matches!(error, TypedError::Cache(error) if error.kind() == larder::ErrorKind::Busy)
/// }
/// assert!(!is_worth_a_retry(&TypedError::Decode(std::fmt::Error)));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum TypedError<E> {
    /// The cache refused the key or the value.
    Cache(Error),
    /// The codec refused the value; the cache was not called.
    Encode(E),
    /// The codec refused the bytes that the cache has under the key.
    Decode(E),
    /// The fetch failed.
    Fetch(FetchError),
}

impl<E: fmt::Display> fmt::Display for TypedError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cache(error) => error.fmt(f),
            Self::Encode(error) => write!(f, "the value cannot be encoded: {error}"),
            Self::Decode(error) => write!(f, "the key's bytes are no such value: {error}"),
            Self::Fetch(error) => error.fmt(f),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for TypedError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Cache(error) => Some(error),
            Self::Encode(error) | Self::Decode(error) => Some(error),
            Self::Fetch(error) => Some(error),
        }
    }
}

impl<E> From<Error> for TypedError<E> {
    fn from(error: Error) -> Self {
        Self::Cache(error)
    }
}

/// A cache whose keys are `K` and whose values are `V`, encoded by `C`. Several of them, with different types, may
/// share one cache if their keys differ.
///
/// `R` is the cache: a [`Larder`](crate::Larder), [`Shards`](crate::Shards), or a type that borrows or shares one.
///
/// ```
/// use std::sync::Arc;
/// use larder::{Config, Larder, RealClock, Typed, block_on};
/// # use larder::Codec;
/// # struct Text;
/// # impl Codec<String> for Text {
/// #     type Error = std::str::Utf8Error;
/// #     fn encode(&self, value: &String, out: &mut Vec<u8>) -> Result<(), Self::Error> {
/// #         out.extend_from_slice(value.as_bytes());
/// #         Ok(())
/// #     }
/// #     fn decode(&self, bytes: &[u8]) -> Result<String, Self::Error> {
/// #         Ok(std::str::from_utf8(bytes)?.to_owned())
/// #     }
/// # }
///
/// let cache = Arc::new(block_on(Larder::open(Config::default(), None, Arc::new(RealClock)))?);
/// let flours: Typed<str, String, Text, _> = Typed::new(Arc::clone(&cache), Text);
/// block_on(flours.set("bread", &"rye".to_owned(), Default::default()))?;
/// assert_eq!(block_on(flours.get("bread"))?.as_deref(), Some("rye"));
///
/// block_on(cache.set(b"cake", b"\xff", None))?; // another writer: not text
/// assert!(block_on(flours.get("cake")).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Typed<K: ?Sized, V, C, R> {
    cache: R,
    codec: C,
    types: PhantomData<fn(&K) -> V>,
}

impl<K: ?Sized, V, C, R> fmt::Debug for Typed<K, V, C, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Typed").finish_non_exhaustive()
    }
}

impl<K, V, C, R> Typed<K, V, C, R>
where
    K: AsRef<[u8]> + ?Sized,
    C: Codec<V>,
    R: Route,
{
    /// Adds types to `cache`.
    pub fn new(cache: R, codec: C) -> Self {
        Self { cache, codec, types: PhantomData }
    }

    /// The underlying cache of bytes.
    pub fn bytes(&self) -> &R {
        &self.cache
    }

    /// Looks `key` up: see [`Larder::get`](crate::Larder::get).
    ///
    /// # Errors
    /// [`TypedError::Decode`] if the codec refuses the bytes; as [`Larder::get`](crate::Larder::get).
    pub async fn get(&self, key: &K) -> Result<Option<V>, TypedError<C::Error>> {
        let key = key.as_ref();
        let Some(bytes) = self.calls().get(key).await? else { return Ok(None) };
        self.codec.decode(&bytes).map(Some).map_err(TypedError::Decode)
    }

    /// Stores `value`: see [`Larder::set_with`](crate::Larder::set_with).
    ///
    /// # Errors
    /// [`TypedError::Encode`], which leaves the older value as it is; as [`Larder::set`](crate::Larder::set).
    pub async fn set(
        &self,
        key: &K,
        value: &V,
        options: SetOptions,
    ) -> Result<(), TypedError<C::Error>> {
        let bytes = self.encode(value).map_err(TypedError::Encode)?;
        let key = key.as_ref();
        Ok(self.calls().set_with(key, &bytes, options).await?)
    }

    /// Removes `key`: see [`Larder::delete`](crate::Larder::delete).
    ///
    /// # Errors
    /// As [`Larder::delete`](crate::Larder::delete).
    pub async fn delete(&self, key: &K) -> Result<bool, Error> {
        self.calls().delete(key.as_ref()).await
    }

    /// Whether `key` has a value, decodable or not: see [`Larder::contains`](crate::Larder::contains).
    ///
    /// # Errors
    /// As [`Larder::contains`](crate::Larder::contains).
    pub async fn contains(&self, key: &K) -> Result<bool, Error> {
        self.calls().contains(key.as_ref()).await
    }

    /// Looks `key` up and fetches a missing value, once for all callers that miss it: see
    /// [`Larder::get_or_fetch`](crate::Larder::get_or_fetch). Bytes that the codec refuses count as missing: the
    /// fetched value replaces them. Each waiting caller decodes for itself.
    ///
    /// # Errors
    /// [`TypedError::Fetch`] if the fetch failed, or its value could not be encoded or stored; [`TypedError::Decode`]
    /// if the codec refuses what it has just encoded.
    pub async fn get_or_fetch<F, E>(
        &self,
        key: &K,
        options: SetOptions,
        fetch: impl FnOnce() -> F,
    ) -> Result<V, TypedError<C::Error>>
    where
        F: Future<Output = Result<V, E>>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let fetched = async || {
            let value = fetch().await.map_err(Into::into)?;
            self.encode(&value).map_err(Box::<dyn std::error::Error + Send + Sync>::from)
        };
        // Decode during the look-up, so that one fetch serves all callers that cannot decode the bytes.
        let mut there = None;
        let decodes = |bytes: &Value| {
            there = self.codec.decode(bytes).ok();
            there.is_some()
        };
        let key = key.as_ref();
        let bytes = self.calls().get_or_replace(key, options, decodes, fetched).await;
        let bytes = bytes.map_err(TypedError::Fetch)?;
        there.map_or_else(|| self.codec.decode(&bytes).map_err(TypedError::Decode), Ok)
    }

    fn calls(&self) -> Routed<&R> {
        Routed::new(&self.cache)
    }

    fn encode(&self, value: &V) -> Result<Vec<u8>, C::Error> {
        let mut bytes = Vec::new();
        self.codec.encode(value, &mut bytes)?;
        Ok(bytes)
    }
}

/// A codec for everything that serde can serialize, in postcard's wire format, which is compact and does not change
/// between versions of that crate. The bytes do not carry the type: a value of another type may decode as this one.
/// Needs the feature `serde`.
///
/// ```
/// use larder::{Codec, Postcard};
///
/// let mut bytes = Vec::new();
/// Postcard.encode(&("rye".to_owned(), 3_u32), &mut bytes)?;
/// let decoded: (String, u32) = Postcard.decode(&bytes)?;
/// assert_eq!(decoded, ("rye".to_owned(), 3));
/// assert!(Codec::<u32>::decode(&Postcard, &bytes).is_err(), "bytes are left over");
/// # Ok::<(), larder::PostcardError>(())
/// ```
#[cfg(feature = "serde")]
#[derive(Debug, Clone, Copy, Default)]
pub struct Postcard;

/// Why postcard refused a value or its bytes.
///
/// ```
/// use larder::{Codec, Postcard, PostcardError};
///
/// let refused: Result<String, PostcardError> = Postcard.decode(&[200, 1]);
/// assert!(refused.unwrap_err().to_string().contains("postcard"));
/// ```
#[cfg(feature = "serde")]
#[derive(Debug)]
#[non_exhaustive]
pub enum PostcardError {
    /// An error of postcard.
    Postcard(postcard::Error),
    /// This number of bytes is left over behind the value.
    Trailing(usize),
}

#[cfg(feature = "serde")]
impl fmt::Display for PostcardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Postcard(error) => write!(f, "postcard: {error}"),
            Self::Trailing(bytes) => write!(f, "{bytes} bytes are left over behind the value"),
        }
    }
}

#[cfg(feature = "serde")]
impl std::error::Error for PostcardError {}

#[cfg(feature = "serde")]
impl<V: serde::Serialize + serde::de::DeserializeOwned> Codec<V> for Postcard {
    type Error = PostcardError;

    fn encode(&self, value: &V, out: &mut Vec<u8>) -> Result<(), PostcardError> {
        let written = postcard::to_extend(value, std::mem::take(out));
        *out = written.map_err(PostcardError::Postcard)?;
        Ok(())
    }

    fn decode(&self, bytes: &[u8]) -> Result<V, PostcardError> {
        match postcard::take_from_bytes(bytes).map_err(PostcardError::Postcard)? {
            (value, []) => Ok(value),
            (_, rest) => Err(PostcardError::Trailing(rest.len())),
        }
    }
}
