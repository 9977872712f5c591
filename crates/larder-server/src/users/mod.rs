//! Who may come in, and for which tenant it speaks then.
//!
//! Passwords are kept as salted hashes that take long to compute (Argon2id). They are computed on a thread of their own
//! ([`Verifier`]), so that a login blocks no other connection; what a user has come in with once is remembered as a
//! fast hash under a key of this process, for clients that connect again and again. Who is unknown takes as long as who
//! is known, and a wrong password is answered late.

mod password;
mod verifier;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use larder_device::Clock;

pub use password::PasswordHash;
use password::{Digest, DigestKey};
pub(crate) use verifier::Asker;
use verifier::{Compared, Verifier};

use crate::error::{Error, ErrorKind};
use crate::tenant::Tenant;

/// A wrong password is answered after so long.
const WRONG_DELAY: Duration = Duration::from_millis(500);

/// No password is longer.
const PASSWORD_BYTES_MAX: usize = 1024;

/// Why a client may not come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// There is no such user, or that is not its password.
    Wrong,
    /// Too many passwords wait to be compared: this one was not. It may be tried again.
    Busy,
}

/// A user as it is configured.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    /// Its name: what `AUTH`, SASL and memcached's ASCII login say.
    pub name: String,
    /// Its password. Without one, it comes in by its certificate alone.
    pub password: Option<PasswordHash>,
    /// The common name (CN) of the TLS certificates by which it is known, if there are some
    /// ([`TlsFiles::client_ca`](crate::TlsFiles::client_ca)).
    pub certificate: Option<String>,
    /// The tenant whose keys it has.
    pub tenant: String,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User")
            .field("name", &self.name)
            .field("certificate", &self.certificate)
            .field("tenant", &self.tenant)
            .finish_non_exhaustive()
    }
}

/// A user who is known by a certificate.
pub(crate) struct CertifiedUser {
    pub(crate) name: String,
    pub(crate) tenant: Arc<Tenant>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Users(Option<Known>);

struct Known {
    users: Vec<KnownUser>,
    /// Whose password an unknown user's is compared with.
    decoy: PasswordHash,
    key: DigestKey,
    verifier: Verifier,
}

struct KnownUser {
    name: String,
    password: Option<PasswordHash>,
    certificate: Option<String>,
    tenant: Arc<Tenant>,
    /// Of the password that it came in with last.
    accepted: Mutex<Option<Digest>>,
}

impl Users {
    /// Knows those that are configured; each must name a tenant, and no two have one name.
    pub(crate) fn new(users: &[User], tenants: &[Arc<Tenant>]) -> Result<Self, Error> {
        if users.is_empty() {
            return Ok(Self::default());
        }
        let mut known: Vec<KnownUser> = Vec::with_capacity(users.len());
        for user in users {
            let refuse = |why: String| {
                Err(Error::new(ErrorKind::Config, format!("user {:?}: {why}", user.name)))
            };
            if user.name.is_empty() || user.name.contains([' ', '\r', '\n', '\0']) {
                return refuse("a name needs characters, and none of them a space".to_owned());
            }
            if known.iter().any(|other| other.name == user.name) {
                return refuse("there are two of this name; a user has one tenant".to_owned());
            }
            if user.password.is_none() && user.certificate.is_none() {
                return refuse("needs a password or a certificate to come in with".to_owned());
            }
            let same = known.iter().find(|it| it.certificate == user.certificate);
            if let (Some(other), Some(certificate)) = (same, &user.certificate) {
                return refuse(format!("certificate {certificate:?} names {:?} too", other.name));
            }
            let Some(tenant) = tenants.iter().find(|tenant| tenant.name() == user.tenant) else {
                let names: Vec<&str> = tenants.iter().map(|tenant| tenant.name()).collect();
                return refuse(format!(
                    "no tenant {:?}: there are {}",
                    user.tenant,
                    names.join(", ")
                ));
            };
            known.push(KnownUser {
                name: user.name.clone(),
                password: user.password.clone(),
                certificate: user.certificate.clone(),
                tenant: Arc::clone(tenant),
                accepted: Mutex::default(),
            });
        }
        let refused = |error| Error::system(ErrorKind::System, "no password can be checked", error);
        let decoy = PasswordHash::of(b"nobody's")?;
        let key = DigestKey::random()?;
        let verifier = Verifier::start().map_err(refused)?;
        Ok(Self(Some(Known { users: known, decoy, key, verifier })))
    }

    /// Whether everybody is let in, as no one is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Whether somebody can come in with a password.
    pub(crate) fn have_passwords(&self) -> bool {
        self.0.as_ref().is_some_and(|known| known.users.iter().any(|user| user.password.is_some()))
    }

    /// The user whom certificates with this common name name.
    pub(crate) fn certified(&self, common_name: &str) -> Option<CertifiedUser> {
        let users = &self.0.as_ref()?.users;
        let user = users.iter().find(|user| user.certificate.as_deref() == Some(common_name))?;
        Some(CertifiedUser { name: user.name.clone(), tenant: Arc::clone(&user.tenant) })
    }

    /// The tenant of a user, if that is its password. What is wrong is answered late.
    pub(crate) async fn admit(
        &self,
        clock: &dyn Clock,
        asker: Asker,
        (name, password): (&[u8], &[u8]),
    ) -> Result<Arc<Tenant>, Denied> {
        let Some(Known { users, decoy, key, verifier }) = &self.0 else {
            return Err(Denied::Wrong);
        };
        let user = users.iter().find(|user| user.name.as_bytes() == name);
        // What is too long is wrong, and takes as long as what is not.
        let password = password.get(..PASSWORD_BYTES_MAX + 1).unwrap_or(password);
        let digest = key.digest(password);
        if let Some(user) = user
            && user.lock().as_ref().is_some_and(|accepted| key.agrees(accepted, password))
        {
            return Ok(Arc::clone(&user.tenant));
        }
        // Who has none takes as long as who is unknown.
        let user = user.filter(|user| user.password.is_some());
        let hash = user.and_then(|user| user.password.as_ref()).unwrap_or(decoy);
        let compared = verifier.verify(asker, hash, password).await;
        match (user, compared) {
            (_, Compared::Busy) => Err(Denied::Busy),
            (Some(user), Compared::Right) if password.len() <= PASSWORD_BYTES_MAX => {
                *user.lock() = Some(digest);
                Ok(Arc::clone(&user.tenant))
            }
            _ => {
                clock.sleep_until(clock.monotonic() + WRONG_DELAY).await;
                Err(Denied::Wrong)
            }
        }
    }
}

impl KnownUser {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Digest>> {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
