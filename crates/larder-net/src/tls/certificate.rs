//! Facts in a certificate: its validity, and its name.

use std::time::{Duration, SystemTime};

use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::der::oid::ObjectIdentifier;
use x509_cert::ext::pkix::name::DirectoryString;
use x509_cert::time::Time;

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

/// Begin and end of a certificate's validity.
pub(crate) struct Validity {
    begins: Time,
    ends: Time,
}

impl Validity {
    /// The validity of a certificate in DER.
    pub(crate) fn of(der: &[u8]) -> Result<Self, String> {
        let certificate = Certificate::from_der(der).map_err(|error| error.to_string())?;
        let validity = certificate.tbs_certificate().validity();
        Ok(Self { begins: validity.not_before, ends: validity.not_after })
    }

    /// Why it is not valid at `now`, if it is not.
    pub(crate) fn why_not(&self, now: SystemTime) -> Option<String> {
        if now < system_time(self.begins) {
            Some(format!("the certificate holds from {} on, which has not come", self.begins))
        } else if now >= self.ends() {
            Some(format!("the certificate ended on {}", self.ends))
        } else {
            None
        }
    }

    pub(crate) fn ends(&self) -> SystemTime {
        system_time(self.ends)
    }
}

fn system_time(time: Time) -> SystemTime {
    SystemTime::UNIX_EPOCH + time.to_unix_duration().min(Duration::from_secs(1 << 40))
}

/// The common name (CN) of the subject of a certificate in DER. `None` if it has none, or several, since then it is not
/// clear which one counts.
pub(crate) fn common_name(der: &[u8]) -> Option<String> {
    let certificate = Certificate::from_der(der).ok()?;
    let subject = certificate.tbs_certificate().subject();
    let mut names = subject.iter().filter(|attribute| attribute.oid == COMMON_NAME);
    let name = names.next()?;
    if names.next().is_some() {
        return None;
    }
    DirectoryString::try_from(&name.value).ok().map(String::from)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};

    use super::*;

    fn with(change: impl FnOnce(&mut CertificateParams)) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name.remove(DnType::CommonName);
        change(&mut params);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn it_names_whom_its_common_name_says() {
        let name = |name: &str| {
            common_name(&with(|it| {
                it.distinguished_name.push(DnType::OrganizationName, "bakery");
                it.distinguished_name.push(DnType::CommonName, name);
            }))
        };
        assert_eq!(name("ann").as_deref(), Some("ann"));
        assert_eq!(name("Ännchen").as_deref(), Some("Ännchen"));
        assert_eq!(common_name(&with(|_| {})), None, "it has no common name");
        assert_eq!(common_name(b"no certificate"), None);
    }

    #[test]
    fn it_holds_between_its_beginning_and_its_end() {
        let at =
            |year: u64| SystemTime::UNIX_EPOCH + Duration::from_secs((year - 1970) * 365 * 86_400);
        let der = with(|it| {
            it.not_before = date_time_ymd(2020, 1, 1);
            it.not_after = date_time_ymd(2055, 1, 1);
        });
        let validity = Validity::of(&der).unwrap();
        assert!(validity.why_not(at(2030)).is_none());
        assert!(validity.why_not(at(2010)).unwrap().contains("from 2020-01-01T00:00:00Z on"));
        assert!(validity.why_not(at(2060)).unwrap().contains("ended on 2055-01-01T00:00:00Z"));
        assert!(Validity::of(b"no certificate").is_err());
    }
}
