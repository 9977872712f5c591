//! Stored passwords: salted, and hashed so that guessing takes long.

use std::fmt;

use argon2::Argon2;
use argon2::password_hash::phc;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use blake2::Blake2sMac256;
use blake2::digest::{KeyInit, Mac};

use crate::error::{Error, ErrorKind};

/// A salted hash of a password: Argon2id, as text in the PHC format (`$argon2id$v=19$m=…,t=…,p=…$salt$hash`).
///
/// ```
/// use larder_server::PasswordHash;
///
/// let hash = PasswordHash::of(b"rye")?;
/// let again = PasswordHash::parse(&hash.to_string())?;
/// assert!(again.is_of(b"rye") && !again.is_of(b"oat"));
/// assert_ne!(hash, PasswordHash::of(b"rye")?, "each has a salt of its own");
/// # Ok::<(), larder_server::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash(phc::PasswordHash);

impl PasswordHash {
    /// Hashes a password with a new salt. Takes some tens of milliseconds and 19 MiB of memory.
    ///
    /// # Errors
    /// [`ErrorKind::System`] if the system has no random bytes or no memory.
    pub fn of(password: &[u8]) -> Result<Self, Error> {
        let hashed = Argon2::default().hash_password(password);
        let hash: phc::PasswordHash = hashed.map_err(|error| {
            Error::new(ErrorKind::System, format!("a password cannot be hashed: {error}"))
        })?;
        Ok(Self(hash))
    }

    /// Parses the printed form of a hash.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if the text is not such a hash.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let parsed = phc::PasswordHash::new(text).ok().filter(|hash| {
            // Otherwise the error would come only at the first login.
            hash.algorithm.as_str().starts_with("argon2")
                && hash.salt.is_some()
                && hash.hash.is_some()
        });
        parsed.map(Self).ok_or_else(|| {
            let message =
                "no hash of a password: it must look like $argon2id$v=19$m=19456,t=2,p=1$SALT$HASH";
            Error::new(ErrorKind::Config, message)
        })
    }

    /// Whether this is the hash of `password`. Takes as long as [`PasswordHash::of`].
    pub fn is_of(&self, password: &[u8]) -> bool {
        Argon2::default().verify_password(password, &self.0).is_ok()
    }
}

impl fmt::Display for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash(…)")
    }
}

/// A key for fast hashes. Only this process knows it, so the hashes reveal nothing about passwords.
pub(super) struct DigestKey([u8; 32]);

/// A fast hash of a password.
pub(super) struct Digest([u8; 32]);

impl DigestKey {
    pub(super) fn random() -> Result<Self, Error> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|error| {
            Error::new(ErrorKind::System, format!("the system has no random bytes: {error}"))
        })?;
        Ok(Self(key))
    }

    pub(super) fn digest(&self, password: &[u8]) -> Digest {
        Digest(self.mac(password).finalize().into_bytes().into())
    }

    /// Whether `digest` is that of `password`, in constant time.
    pub(super) fn agrees(&self, digest: &Digest, password: &[u8]) -> bool {
        self.mac(password).verify_slice(&digest.0).is_ok()
    }

    fn mac(&self, password: &[u8]) -> Blake2sMac256 {
        let mut mac =
            Blake2sMac256::new_from_slice(&self.0).expect("a key of 32 bytes is one of BLAKE2s");
        mac.update(password);
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_verified_is_a_hash() {
        let good = PasswordHash::of(b"x").unwrap().to_string();
        assert!(PasswordHash::parse(&good).is_ok());
        let short = &good[..good.rfind('$').unwrap()];
        for wrong in ["", "x", "$argon2id$", "$5$rounds=1000$salt$hash", short] {
            assert!(PasswordHash::parse(wrong).is_err(), "{wrong}");
        }
        assert!(!format!("{:?}", PasswordHash::parse(&good)).contains("argon2"));
    }

    #[test]
    fn digests_agree_with_their_password_under_their_key() {
        let (one, other) = (DigestKey::random().unwrap(), DigestKey::random().unwrap());
        let digest = one.digest(b"rye");
        assert!(one.agrees(&digest, b"rye"));
        assert!(!one.agrees(&digest, b"oat") && !one.agrees(&digest, b""));
        assert!(!other.agrees(&digest, b"rye"));
    }
}
