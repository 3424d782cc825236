//! Who can be measured: a file each, and a line each in [`all`].

pub(crate) mod adapter;
mod exim;
mod floor;
mod opensmtpd;
mod p1_floor;
mod postfix;
mod postfix_opendkim;
mod postfix_virtual;
mod postrider;
pub(crate) mod target;

use super::contender::Contender;
use super::directory::Lookup;
use super::error::{Error, Result};
use super::ways::Protocol;
use crate::stand::place::ServerSetup;
use auth::dkim::{Algorithm, SigningKey};
use floor::Floor;
use load::file::FileError;
use p1_floor::P1Floor;
use postfix_virtual::PostfixVirtual;
use postrider::Postrider;
use std::os::unix::fs::PermissionsExt as _;
use std::rc::Rc;

/// All that have a name of their own, in the order in which they are listed.
pub(crate) fn all() -> Vec<Rc<dyn Contender>> {
    vec![
        Rc::new(Postrider::durable("postrider", "sync")),
        Rc::new(Postrider::in_flight("postrider-in-flight", 8)),
        Rc::new(Postrider::guessed("postrider-guessed")),
        Rc::new(Postrider::signing("postrider-signed", &[Algorithm::RsaSha256])),
        Rc::new(Postrider::signing(
            "postrider-ed25519",
            &[Algorithm::RsaSha256, Algorithm::Ed25519Sha256],
        )),
        Rc::new(Postrider::shaping("postrider-shaped")),
        Rc::new(Postrider::durable("postrider-os", "os")),
        Rc::new(Postrider::all_by("postrider-smtp", Protocol::Smtp)),
        Rc::new(Postrider::all_by("postrider-p1", Protocol::P1)),
        Rc::new(P1Floor),
        Rc::new(Floor::in_memory()),
        Rc::new(Floor::with_log()),
        Rc::new(Floor::hasty()),
        Rc::new(postfix::Postfix),
        Rc::new(postfix_opendkim::PostfixOpendkim),
        Rc::new(exim::Exim),
        Rc::new(opensmtpd::OpenSmtpd),
        Rc::new(Floor::of_known_cost()),
        Rc::new(Postrider::durable("postrider-memory", "memory")),
        Rc::new(Postrider::keeping_mail("postrider-file", Lookup::Text)),
        Rc::new(Postrider::keeping_mail("postrider-database", Lookup::Database)),
        Rc::new(Postrider::keeping_mail("postrider-ldap", Lookup::Ldap)),
        Rc::new(Postrider::keeping_mail("postrider-snapshot", Lookup::Snapshot)),
        Rc::new(PostfixVirtual::with("postfix-texthash", Lookup::Text)),
        Rc::new(PostfixVirtual::with("postfix-lmdb", Lookup::Database)),
        Rc::new(PostfixVirtual::with("postfix-ldap", Lookup::Ldap)),
        Rc::new(PostfixVirtual::with("postfix-ldap-proxy", Lookup::LdapProxy)),
    ]
}

/// The one of this name, among those that the command line gives and those that have one of their own.
///
/// # Errors
/// An unknown name; the text lists the known ones.
pub(crate) fn named(name: &str, given: &[Rc<dyn Contender>]) -> Result<Rc<dyn Contender>> {
    let all = all();
    if let Some(found) = given.iter().chain(&all).find(|contender| contender.name() == name) {
        return Ok(Rc::clone(found));
    }
    let known: Vec<&str> = all.iter().chain(given).map(|contender| contender.name()).collect();
    Err(Error::Missing(format!("unknown contender {name:?}; known are {}", known.join(", "))))
}

/// In whose name they sign, whoever the author is.
const DOMAIN: &str = "esp.bench.grey";

/// Makes a key, which nobody but its user can read; gives where it is.
fn make_key(place: &ServerSetup, name: &str, algorithm: Algorithm) -> Result<String> {
    let lacking = || Error::Missing(format!("no key for {} could be made", algorithm.as_str()));
    let key = SigningKey::generate(algorithm).map_err(|_| lacking())?;
    let pem = key.pem().ok_or_else(lacking)?;
    place.write(name, &pem)?;
    let path = place.directory.join(name);
    let own = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&path, own).map_err(FileError::at(&path))?;
    Ok(path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::{adapter::Adapter, all, named, target::Target};
    use crate::stand::contender::Contender;
    use std::rc::Rc;

    #[test]
    fn names_are_unique_and_lead_back() {
        let contenders = all();
        for contender in &contenders {
            let found = named(contender.name(), &[]).expect("known");
            assert_eq!(found.title(), contender.title());
            let same = contenders.iter().filter(|other| other.name() == contender.name());
            assert_eq!(same.count(), 1, "{}", contender.name());
        }
        let error = named("sendmail", &[]).expect_err("unknown").to_string();
        assert!(error.contains("\"sendmail\"") && error.contains("postfix"), "{error}");
    }

    #[test]
    fn what_the_command_line_gives_goes_by_the_name_it_has_there() {
        let target: Target = "mine=127.0.0.1:25,pid=7".parse().expect("well-formed");
        let adapter: Adapter = "other=script".parse().expect("well-formed");
        let given: [Rc<dyn Contender>; 2] = [Rc::new(target), Rc::new(adapter)];
        assert_eq!(named("other", &given).expect("known").name(), "other");
        assert_eq!(named("mine", &given).expect("known").name(), "mine");
    }
}
