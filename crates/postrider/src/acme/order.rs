//! One order: the account, names that are shown to be ours, the certificate (RFC 8555 §7).

use super::challenges::{Challenges, PublishedChallenge};
use super::directory::{AcmeClient, in_words, problem_in_words};
use super::disk::DiskWork;
use super::settings::AcmeChallenge;
use super::store;
use super::{Job, Plan};
use crate::pem;
use crate::world::clock::wall_now;
use config::{KeyType, Ordered};
use instant_acme::{
    Account, AccountCredentials, AuthorizationStatus, ChallengeType, Error, ExternalAccountKey,
    Identifier, NewAccount, NewOrder, Order, OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair, PKCS_RSA_SHA256, RsaKeySize};
use std::path::Path;
use std::time::Duration;

/// So long an authority may look at names, and so long make a certificate.
const POLL: RetryPolicy = RetryPolicy::new().timeout(Duration::from_secs(120));

/// Bytes that are sent on for an address as they are (RFC 6068 §2, RFC 3986 §2.3).
const UNRESERVED: &[u8] = b"-._~@+!$'*";

/// Why there is no certificate.
#[derive(Debug)]
pub(super) enum OrderError {
    /// Nobody was there who could have taken the order.
    Unreached(String),
    /// In the authority's words, where it has some.
    Refused(String),
}

impl From<Error> for OrderError {
    fn from(error: Error) -> OrderError {
        OrderError::Refused(in_words(&error))
    }
}

impl From<String> for OrderError {
    fn from(why: String) -> OrderError {
        OrderError::Refused(why)
    }
}

/// Orders a certificate; it is not stored yet.
pub(super) async fn obtain(
    plan: &Plan,
    job: &mut Job,
    directory: &AcmeClient,
    (challenges, disk): (&Challenges, &DiskWork),
) -> Result<(Vec<u8>, store::Issued), OrderError> {
    let acme = &plan.acme;
    directory.reach(&acme.directory).await.map_err(OrderError::Unreached)?;
    // From here on it counts: nothing is asked of an authority that a crash would make us forget.
    job.note_ordered(disk, &plan.store, wall_now()).await?;
    let account = account(plan, directory, disk).await?;
    let names: Vec<Identifier> = job.names.iter().cloned().map(Identifier::Dns).collect();
    let mut order = match account.new_order(&NewOrder::new(&names)).await {
        Ok(order) => order,
        Err(error) => {
            if is_gone(&error) {
                let (store, url) = (plan.store.clone(), acme.directory.clone());
                let forgotten = disk.run(move || store.forget_account(&url)).await;
                forgotten.map_err(|error| format!("cannot move the account aside: {error}"))?;
            }
            return Err(error.into());
        }
    };
    let standing = answer(&mut order, acme.challenge, &job.names, challenges).await?;
    if let Err(why) = ready(&mut order).await {
        return Err(why_not(&mut order).await.unwrap_or(why).into());
    }
    drop(standing);
    let (path, ordered) = (job.path.clone(), job.ordered);
    let key = disk.run(move || key(&path, ordered)).await?;
    order.finalize_csr(&request(&job.names, &key)?).await?;
    let chain = order.poll_certificate(&POLL).await?;
    let key = key.serialize_der();
    Ok(store::content(&acme.directory, (&key, &chain), &job.names, wall_now())?)
}

/// The account with the authority: that which is kept, or another one.
async fn account(
    plan: &Plan,
    directory: &AcmeClient,
    disk: &DiskWork,
) -> Result<Account, OrderError> {
    let (url, store, at) = (&plan.acme.directory, plan.store.clone(), plan.acme.directory.clone());
    let told = |why: &dyn std::fmt::Display| OrderError::Refused(format!("the account: {why}"));
    let builder = || Account::builder_with_http(Box::new(directory.clone()));
    let kept = disk.run(move || store.account(&at)).await;
    if let Some(kept) = kept.map_err(|error| told(&error))? {
        let credentials: AccountCredentials =
            serde_json::from_slice(&kept).map_err(|error| told(&error))?;
        return Ok(builder().from_credentials(credentials).await?);
    }
    let contact = plan.acme.contact.as_deref().map(mailto);
    let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
    let new = NewAccount {
        contact: &contact,
        terms_of_service_agreed: true,
        only_return_existing: false,
    };
    let external =
        plan.external.as_ref().map(|(id, key)| ExternalAccountKey::new(id.to_string(), &key.0));
    let (account, credentials) = builder().create(&new, url.to_string(), external.as_ref()).await?;
    let kept = serde_json::to_vec(&credentials).map_err(|error| told(&error))?;
    let (store, at) = (plan.store.clone(), url.clone());
    let put = disk.run(move || store.put_account(&at, &kept)).await;
    put.map_err(|error| told(&error))?;
    Ok(account)
}

/// Why the account that is kept is none; `None`: it is one, there is none, or it can't be read just now.
pub(super) fn wrong_account(plan: &Plan) -> Option<String> {
    match plan.store.account(&plan.acme.directory) {
        Ok(Some(kept)) => {
            serde_json::from_slice::<AccountCredentials>(&kept).err().map(|error| error.to_string())
        }
        Err(error) if error.kind() == std::io::ErrorKind::Other => Some(error.to_string()),
        _ => None,
    }
}

/// RFC 8555 §7.3: one address, and no header fields behind it.
fn mailto(address: &str) -> String {
    let mut uri = "mailto:".to_owned();
    for byte in address.bytes() {
        match byte.is_ascii_alphanumeric() || UNRESERVED.contains(&byte) {
            true => uri.push(char::from(byte)),
            false => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

/// RFC 8555 §6.7: the authority has forgotten the account.
fn is_gone(error: &Error) -> bool {
    let Error::Api(problem) = error else { return false };
    problem.r#type.as_deref() == Some("urn:ietf:params:acme:error:accountDoesNotExist")
}

/// Has each name looked at that was not looked at lately. The answers stand until they are dropped.
async fn answer(
    order: &mut Order,
    challenge: AcmeChallenge,
    names: &[String],
    challenges: &Challenges,
) -> Result<Vec<PublishedChallenge>, OrderError> {
    let kind = match challenge {
        AcmeChallenge::Http01 => ChallengeType::Http01,
        AcmeChallenge::TlsAlpn01 => ChallengeType::TlsAlpn01,
    };
    let mut standing = Vec::new();
    let mut authorizations = order.authorizations();
    let mut left = names.len();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        let name = match authorization.identifier().identifier {
            Identifier::Dns(name) if names.contains(name) && left > 0 => name.clone(),
            _ => return Err("it has an authorization that was not ordered".to_owned().into()),
        };
        left -= 1;
        match authorization.status {
            AuthorizationStatus::Valid => continue,
            AuthorizationStatus::Pending => {}
            status => return Err(format!("its authorization of {name} is {status:?}").into()),
        }
        let none = || format!("it does not offer {} for {name}", challenge.as_str());
        let mut offered = authorization.challenge(kind.clone()).ok_or_else(none)?;
        let proof = offered.key_authorization();
        standing.push(match challenge {
            AcmeChallenge::Http01 => challenges.page(&offered.token, proof.as_str())?,
            AcmeChallenge::TlsAlpn01 => challenges.certificate(&name, proof.digest().as_ref())?,
        });
        // It may have looked before it answers.
        let about = |error| of_name(&name, &in_words(&error));
        offered.set_ready().await.map_err(about)?;
    }
    Ok(standing)
}

/// Waits until all names were looked at.
async fn ready(order: &mut Order) -> Result<(), String> {
    match order.poll_ready(&POLL).await {
        Ok(OrderStatus::Ready) => Ok(()),
        Ok(status) => Err(format!("the order is {status:?}")),
        Err(error) => Err(in_words(&error)),
    }
}

/// What the authority found wrong with a name.
async fn why_not(order: &mut Order) -> Option<String> {
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization.ok()?;
        let state = authorization.refresh().await.ok()?;
        let name = state.identifier().to_string();
        let problem = state.challenges.iter().find_map(|challenge| challenge.error.as_ref());
        if let Some(problem) = problem {
            return Some(of_name(&name, &problem_in_words(problem)));
        }
    }
    None
}

fn of_name(name: &str, why: &str) -> String {
    format!("{}: {why}", super::directory::short(name))
}

/// The key of the certificate: the one that it has, where that is to stay.
fn key(path: &Path, Ordered { key_type, reuse_key }: Ordered) -> Result<KeyPair, String> {
    if reuse_key && let Ok(key) = pem::key(path) {
        return KeyPair::try_from(&key).map_err(|error| format!("{}: {error}", path.display()));
    }
    let made = match key_type {
        KeyType::Ecdsa => KeyPair::generate(),
        KeyType::Rsa => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048),
    };
    made.map_err(|error| format!("cannot generate a key: {error}"))
}

/// A request for a certificate (RFC 2986) of these names and nothing else.
fn request(names: &[String], key: &KeyPair) -> Result<Vec<u8>, String> {
    let made = || {
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name = DistinguishedName::new();
        Ok(params.serialize_request(key)?.der().to_vec())
    };
    made().map_err(|error: rcgen::Error| format!("cannot create a certificate request: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contact_is_one_address_and_nothing_behind_it() {
        assert_eq!(mailto("post+x@a.test"), "mailto:post+x@a.test");
        assert_eq!(mailto("a?subject=x&b,c%@a.test"), "mailto:a%3Fsubject%3Dx%26b%2Cc%25@a.test");
    }
}
