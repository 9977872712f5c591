//! The users of a server: how a client logs in, which tenant it uses then, and whether it is an administrator.
//!
//! An administrator sees and changes what belongs to the process and to all tenants. Any other client has its own
//! tenant alone. A server without users treats local clients as administrators.
//!
//! On a reload, users that have not changed stay logged in. The others are revoked: the server closes their
//! connections.
//!
//! Passwords are kept as salted hashes that take long to compute (Argon2id). They are computed on a separate thread
//! ([`Verifier`]), so that a login blocks no other connection. After a successful login the password is remembered as a
//! fast hash under a key of this process, for clients that connect again and again. An unknown user takes as long as a
//! known one, and a wrong password is answered late.

mod login;
mod password;
mod verifier;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use larder_device::Clock;

pub(crate) use login::Login;
pub use password::PasswordHash;
use password::{Digest, DigestKey};
pub(crate) use verifier::Asker;
use verifier::{ComparisonResult, Verifier};

use crate::error::{Error, ErrorKind};
use crate::tenant::Tenant;

/// Delay before the answer to a wrong password.
const WRONG_DELAY: Duration = Duration::from_millis(500);

/// Longest password.
const PASSWORD_BYTES_MAX: usize = 1024;

/// A user, as operators see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListedUser<'a> {
    pub(crate) name: &'a str,
    pub(crate) is_admin: bool,
    /// Whether it logs in, by a password or a certificate.
    pub(crate) has_password: bool,
}

/// Why a login is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoginRefusal {
    /// There is no such user, or the password is not the user's.
    Wrong,
    /// Too many passwords wait to be compared: this one was not. The client may try again.
    Busy,
}

/// A user as it is configured.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    /// Its name, as used by `AUTH`, SASL and memcached's ASCII login.
    pub name: String,
    /// Its password. Without one, the user can log in only by certificate.
    pub password: Option<PasswordHash>,
    /// The common name (CN) of the TLS certificates that identify the user, if any
    /// ([`TlsFiles::client_ca`](crate::TlsFiles::client_ca)).
    pub certificate: Option<String>,
    /// The tenant that it uses.
    pub tenant: String,
    /// Whether it sees and changes what belongs to the process and to all tenants: settings, slow requests and
    /// connections of others, counters of the server. Every other user has its own tenant alone.
    pub is_admin: bool,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User")
            .field("name", &self.name)
            .field("certificate", &self.certificate)
            .field("tenant", &self.tenant)
            .field("is_admin", &self.is_admin)
            .finish_non_exhaustive()
    }
}

/// The users of a server.
#[allow(clippy::large_enum_variant)] // a server has one
pub(crate) enum Users {
    /// The server has no users: clients need not log in.
    Open {
        /// The login of clients of this machine.
        local: Arc<Login>,
        /// The login of all other clients.
        remote: Arc<Login>,
    },
    /// Clients log in.
    Known(UserTable),
}

pub(crate) struct UserTable {
    users: Vec<KnownUser>,
    /// The hash to compare an unknown user's password with.
    decoy: PasswordHash,
    key: DigestKey,
    verifier: Verifier,
}

struct KnownUser {
    login: Arc<Login>,
    password: Option<PasswordHash>,
    certificate: Option<String>,
    /// Fast hash of the password of the last successful login.
    accepted: Mutex<Option<Digest>>,
}

impl Users {
    /// Takes the configured users. Each must name an existing tenant, and names must be unique.
    pub(crate) fn new(users: &[User], tenants: &[Arc<Tenant>]) -> Result<Self, Error> {
        let Some(first) = tenants.first().filter(|_| users.is_empty()) else {
            return Self::known(users, tenants);
        };
        let login = |is_admin| Arc::new(Login::new(String::new(), Arc::clone(first), is_admin));
        Ok(Self::Open { local: login(true), remote: login(false) })
    }

    fn known(users: &[User], tenants: &[Arc<Tenant>]) -> Result<Self, Error> {
        let mut known: Vec<KnownUser> = Vec::with_capacity(users.len());
        for user in users {
            let refuse = |why: String| {
                Err(Error::new(ErrorKind::Config, format!("user {:?}: {why}", user.name)))
            };
            if user.name.is_empty() || user.name.contains([' ', '\r', '\n', '\0']) {
                return refuse("a name needs characters, and none of them a space".to_owned());
            }
            if known.iter().any(|other| other.login.name() == user.name) {
                return refuse("there are two of this name; a user has one tenant".to_owned());
            }
            if user.password.is_none() && user.certificate.is_none() {
                return refuse("needs a password or a certificate to come in with".to_owned());
            }
            let same = known.iter().find(|it| it.certificate == user.certificate);
            if let (Some(other), Some(certificate)) = (same, &user.certificate) {
                let other = other.login.name();
                return refuse(format!("certificate {certificate:?} names {other:?} too"));
            }
            let Some(tenant) = tenants.iter().find(|tenant| tenant.name() == user.tenant) else {
                let names: Vec<&str> = tenants.iter().map(|tenant| tenant.name()).collect();
                return refuse(format!(
                    "no tenant {:?}: there are {}",
                    user.tenant,
                    names.join(", ")
                ));
            };
            let login = Login::new(user.name.clone(), Arc::clone(tenant), user.is_admin);
            known.push(KnownUser {
                login: Arc::new(login),
                password: user.password.clone(),
                certificate: user.certificate.clone(),
                accepted: Mutex::default(),
            });
        }
        let refused = |error| Error::system(ErrorKind::System, "no password can be checked", error);
        let decoy = PasswordHash::of(b"nobody's")?;
        let key = DigestKey::random()?;
        let verifier = Verifier::start().map_err(refused)?;
        Ok(Self::Known(UserTable { users: known, decoy, key, verifier }))
    }

    /// Takes over the logins of `before` that still hold: users that are the same in both keep theirs. All other logins
    /// of `before` are revoked.
    pub(crate) fn take_over(&mut self, before: &Self) {
        match (&mut *self, before) {
            (Self::Open { local, remote }, Self::Open { local: old_local, remote: old_remote }) => {
                (*local, *remote) = (Arc::clone(old_local), Arc::clone(old_remote));
            }
            (Self::Known(_), Self::Open { local, remote }) => {
                local.revoke();
                remote.revoke();
            }
            (Self::Open { .. }, Self::Known(old)) => {
                old.users.iter().for_each(|user| user.login.revoke());
            }
            (Self::Known(new), Self::Known(old)) => new.take_over(old),
        }
    }

    /// Whether the server has no users.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Self::Open { .. })
    }

    /// The login of a client that has not logged in, if it need not.
    pub(crate) fn without_login(&self, is_local: bool) -> Option<&Arc<Login>> {
        match self {
            Self::Open { local, remote } => Some(if is_local { local } else { remote }),
            Self::Known(_) => None,
        }
    }

    /// Whether a client can log in with a password.
    pub(crate) fn have_passwords(&self) -> bool {
        self.all().iter().any(|user| user.password.is_some())
    }

    /// The user identified by certificates with this common name.
    pub(crate) fn certified(&self, common_name: &str) -> Option<&Arc<Login>> {
        let named = |user: &&KnownUser| user.certificate.as_deref() == Some(common_name);
        self.all().iter().find(named).map(|user| &user.login)
    }

    /// All users; of a server without users, the one that every client is.
    pub(crate) fn listed(&self) -> Vec<ListedUser<'_>> {
        match self {
            Self::Open { local, .. } => {
                let is_admin = local.is_admin();
                vec![ListedUser { name: "default", is_admin, has_password: false }]
            }
            Self::Known(known) => {
                let logins = known.users.iter().map(|user| &user.login);
                let listed = logins.map(|login| ListedUser {
                    name: login.name(),
                    is_admin: login.is_admin(),
                    has_password: true,
                });
                listed.collect()
            }
        }
    }

    fn all(&self) -> &[KnownUser] {
        match self {
            Self::Open { .. } => &[],
            Self::Known(known) => &known.users,
        }
    }

    /// Checks a name and a password. Wrong ones are answered late.
    pub(crate) async fn admit(
        &self,
        clock: &dyn Clock,
        asker: Asker,
        (name, password): (&[u8], &[u8]),
    ) -> Result<Arc<Login>, LoginRefusal> {
        let Self::Known(UserTable { users, decoy, key, verifier }) = self else {
            return Err(LoginRefusal::Wrong);
        };
        let user = users.iter().find(|user| user.login.name().as_bytes() == name);
        // A password that is too long is wrong, and takes as long as any other.
        let password = password.get(..PASSWORD_BYTES_MAX + 1).unwrap_or(password);
        let digest = key.digest(password);
        if let Some(user) = user
            && user.lock().as_ref().is_some_and(|accepted| key.agrees(accepted, password))
        {
            return Ok(Arc::clone(&user.login));
        }
        // A user without a password takes as long as an unknown user.
        let user = user.filter(|user| user.password.is_some());
        let hash = user.and_then(|user| user.password.as_ref()).unwrap_or(decoy);
        let compared = verifier.verify(asker, hash, password).await;
        match (user, compared) {
            (_, ComparisonResult::Busy) => Err(LoginRefusal::Busy),
            (Some(user), ComparisonResult::Right) if password.len() <= PASSWORD_BYTES_MAX => {
                *user.lock() = Some(digest);
                Ok(Arc::clone(&user.login))
            }
            _ => {
                clock.sleep_until(clock.monotonic() + WRONG_DELAY).await;
                Err(LoginRefusal::Wrong)
            }
        }
    }
}

impl UserTable {
    fn take_over(&mut self, before: &Self) {
        for old in &before.users {
            let same = self.users.iter_mut().find(|new| new.is_the_same_as(old));
            match same {
                Some(new) => new.login = Arc::clone(&old.login),
                None => old.login.revoke(),
            }
        }
    }
}

impl KnownUser {
    /// Whether the configuration of both is the same.
    fn is_the_same_as(&self, other: &Self) -> bool {
        let (login, others) = (&self.login, &other.login);
        login.name() == others.name()
            && login.is_admin() == others.is_admin()
            && Arc::ptr_eq(login.tenant(), others.tenant())
            && self.password == other.password
            && self.certificate == other.certificate
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Digest>> {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
