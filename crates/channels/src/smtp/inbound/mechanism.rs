//! How users may prove who they are, and who speaks with them about it.

use auth::sasl::Mechanism;
use config::Reader;
use mta::ingress::LoginSource;
use mta::seams::LoginServer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a user may prove who he is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum MechanismText {
    /// RFC 4616: the password is sent.
    Plain,
    /// The same in an older form; some clients have no other.
    Login,
    /// RFC 7677: the password is not sent.
    #[serde(rename = "scram-sha-256")]
    ScramSha256,
    /// RFC 4422 appendix A: the certificate that was shown in the TLS handshake says who it is
    /// (`client_certificates`).
    External,
    /// RFC 5802: the same as `scram-sha-256` with an older hash. Here and below: Dovecot's.
    #[serde(rename = "scram-sha-1")]
    ScramSha1,
    /// RFC 2195, from before TLS.
    CramMd5,
    /// RFC 7628: a token of an OAuth 2.0 server is sent.
    #[serde(rename = "oauthbearer")]
    OauthBearer,
    /// The same as Google and Microsoft have it.
    #[serde(rename = "xoauth2")]
    Xoauth2,
    /// RFC 4752: Kerberos.
    Gssapi,
}

impl MechanismText {
    /// As it is registered and offered.
    pub(super) fn name(self) -> &'static str {
        match self {
            MechanismText::Plain => Mechanism::Plain.name(),
            MechanismText::Login => Mechanism::Login.name(),
            MechanismText::ScramSha256 => Mechanism::ScramSha256.name(),
            MechanismText::External => Mechanism::External.name(),
            MechanismText::ScramSha1 => "SCRAM-SHA-1",
            MechanismText::CramMd5 => "CRAM-MD5",
            MechanismText::OauthBearer => "OAUTHBEARER",
            MechanismText::Xoauth2 => "XOAUTH2",
            MechanismText::Gssapi => "GSSAPI",
        }
    }

    /// Those that users of this source can't use are mistakes.
    pub(super) fn check(all: &[MechanismText], source: &LoginSource, reader: &mut Reader<'_, '_>) {
        for (index, mechanism) in all.iter().enumerate() {
            let name = mechanism.name();
            if speaker(name, source).is_some() {
                continue;
            }
            let (message, help) = match source {
                LoginSource::Table(_) => (
                    format!("{name} is not spoken here"),
                    "with passwords of a table there are \"plain\", \"login\" and \"scram-sha-256\"; \
                     Dovecot has more: logins = { dovecot = \"…\" }",
                ),
                LoginSource::Nobody => (
                    format!("{name} without `logins`"),
                    "name the table of passwords: logins = { table = \"passwords\" }",
                ),
                LoginSource::Server(_) => (
                    format!("a directory is told passwords: {name} has none"),
                    "with logins = { ldap = \"…\" } there are \"plain\" and \"login\"",
                ),
            };
            reader.error(&format!("mechanisms[{index}]"), message, help);
        }
    }
}

/// Who speaks with a client.
#[derive(Clone, Copy, Debug)]
pub(super) enum Speaker<'a> {
    /// We do.
    Here(Mechanism),
    /// What it says is carried to and fro.
    There(&'a LoginServer),
}

/// Who speaks with clients by a mechanism; `None`: nobody can.
pub(super) fn speaker<'a>(name: &str, source: &'a LoginSource) -> Option<Speaker<'a>> {
    let ours = Mechanism::ALL.into_iter().find(|mechanism| mechanism.name() == name);
    match (source, ours) {
        (_, Some(Mechanism::External)) => Some(Speaker::Here(Mechanism::External)),
        (LoginSource::Nobody, _) => None,
        (_, Some(ours @ (Mechanism::Plain | Mechanism::Login)))
        | (LoginSource::Table(_), Some(ours)) => Some(Speaker::Here(ours)),
        (LoginSource::Server(server @ LoginServer::Dovecot(_)), _) => Some(Speaker::There(server)),
        _ => None,
    }
}

/// Whether a mechanism can be used with a server that offers these.
pub(super) fn is_offered(name: &str, offered: &[Box<str>]) -> bool {
    // A password that a client has told is told the server in one way.
    let asked = if name == Mechanism::Login.name() { Mechanism::Plain.name() } else { name };
    offered.iter().any(|one| **one == *asked)
}
