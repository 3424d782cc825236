//! Whether mail to a sender could go anywhere (RFC 5321 §2.3.5: the domain resolves to MX or addresses).

use auth::records::{Family, Records, Unanswered};
use mail::Refusal;

/// RFC 3463 §3.2: X.1.8, the sender's address can't be answered.
const NO_DOMAIN: Refusal =
    Refusal::permanent((1, 8), "The domain of the sender does not exist, or has no mail server");
/// RFC 7505 §4.2.
const NULL_MX: Refusal =
    Refusal::permanent((7, 27), "The domain of the sender says that it takes no mail");
/// RFC 3463 §3.5: X.4.3, a directory server fails.
const NO_ANSWER: Refusal = Refusal::transient(
    (4, 3),
    "The DNS does not answer for the domain of the sender; try again later",
)
.with_code(450);

/// What is known of a domain that senders name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SenderDomain {
    Found,
    /// It does not exist, or nothing in it takes mail.
    Missing,
    /// It says that it takes no mail (RFC 7505).
    TakesNone,
    Unanswered,
}

impl SenderDomain {
    /// Why mail from there is refused.
    ///
    /// # Errors
    /// It is.
    pub(super) fn check(self) -> Result<(), Refusal> {
        match self {
            SenderDomain::Found => Ok(()),
            SenderDomain::Missing => Err(NO_DOMAIN),
            SenderDomain::TakesNone => Err(NULL_MX),
            SenderDomain::Unanswered => Err(NO_ANSWER),
        }
    }
}

/// Looks a domain up, which is in ASCII.
pub(super) async fn look_up<R: Records>(records: &R, domain: &str) -> SenderDomain {
    match found(records, domain).await {
        Ok(found) => found,
        Err(_) => SenderDomain::Unanswered,
    }
}

async fn found<R: Records>(records: &R, domain: &str) -> Result<SenderDomain, Unanswered> {
    let hosts = records.mail_hosts(domain).await?;
    if !hosts.is_empty() {
        let takes_none = hosts.iter().all(|host| host.is_empty());
        return Ok(if takes_none { SenderDomain::TakesNone } else { SenderDomain::Found });
    }
    // RFC 5321 §5.1: without MX its addresses are its mail server.
    for family in [Family::V4, Family::V6] {
        if !records.addresses(domain, family).await?.is_empty() {
            return Ok(SenderDomain::Found);
        }
    }
    Ok(SenderDomain::Missing)
}
