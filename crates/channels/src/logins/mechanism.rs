//! SASL mechanisms, and the party that runs the exchange with the client: this server, or an authentication server.

use auth::sasl::Mechanism;
use config::Reader;
use mta::ingress::{LoginSource, Logins};
use mta::seams::LoginServer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// SASL mechanism for users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum MechanismText {
    /// RFC 4616: the client sends the password.
    Plain,
    /// An older form of PLAIN, the only one that some clients have.
    Login,
    /// RFC 7677: the password is not sent.
    #[serde(rename = "scram-sha-256")]
    ScramSha256,
    /// The same with channel binding (RFC 9266, `tls-exporter`), which detects a man in the middle. Offered over TLS
    /// 1.3 only, and only with passwords in a table. Requires `scram-sha-256` in the list.
    #[serde(rename = "scram-sha-256-plus")]
    ScramSha256Plus,
    /// RFC 7628: the client sends a token of an OAuth 2.0 server (`introspection`, or Dovecot's).
    #[serde(rename = "oauthbearer")]
    OauthBearer,
    /// The same in the form of Google and Microsoft.
    #[serde(rename = "xoauth2")]
    Xoauth2,
    /// RFC 4422 appendix A: the user is identified by the client certificate (`client_certificates`).
    External,
    /// RFC 5802: `scram-sha-256` with an older hash. This and the following mechanisms are available with Dovecot only.
    #[serde(rename = "scram-sha-1")]
    ScramSha1,
    /// RFC 2195, from before TLS.
    CramMd5,
    /// RFC 4752: Kerberos.
    Gssapi,
}

impl MechanismText {
    /// The registered name, as offered.
    pub(crate) fn name(self) -> &'static str {
        match self {
            MechanismText::Plain => Mechanism::Plain.name(),
            MechanismText::Login => Mechanism::Login.name(),
            MechanismText::ScramSha256 => Mechanism::ScramSha256.name(),
            MechanismText::External => Mechanism::External.name(),
            MechanismText::ScramSha1 => "SCRAM-SHA-1",
            MechanismText::CramMd5 => "CRAM-MD5",
            MechanismText::ScramSha256Plus => Mechanism::ScramSha256Plus.name(),
            MechanismText::OauthBearer => Mechanism::OauthBearer.name(),
            MechanismText::Xoauth2 => Mechanism::Xoauth2.name(),
            MechanismText::Gssapi => "GSSAPI",
        }
    }

    /// Reports mechanisms that can't be used with the configured source.
    pub(super) fn check(all: &[MechanismText], logins: &Logins, reader: &mut Reader<'_, '_>) {
        for (index, mechanism) in all.iter().enumerate() {
            let name = mechanism.name();
            if speaker(name, logins).is_some() {
                continue;
            }
            let (message, help) = match &logins.source {
                _ if matches!(mechanism, MechanismText::OauthBearer | MechanismText::Xoauth2) => (
                    format!("{name} without a token server"),
                    "add one: logins = { introspection = { url = \"https://…\", … } }",
                ),
                LoginSource::Table(_) => (
                    format!("{name} is not supported with a table"),
                    "a table of passwords allows \"plain\", \"login\" and \"scram-sha-256\"; \
                     Dovecot has more: logins = { dovecot = \"…\" }",
                ),
                LoginSource::Nobody => (
                    format!("{name} without `logins`"),
                    "name the table of passwords: logins = { table = \"passwords\" }",
                ),
                LoginSource::Server(_) => (
                    format!("{name} is not supported with a directory: it sends no password"),
                    "logins = { ldap = \"…\" } allows \"plain\" and \"login\"",
                ),
            };
            reader.error(&format!("mechanisms[{index}]"), message, help);
        }
    }
}

/// The party that runs the exchange with a client.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Speaker<'a> {
    /// This server.
    Here(Mechanism),
    /// Messages are forwarded between the client and the server.
    There(&'a LoginServer),
}

/// The party that runs this mechanism with clients. `None` if the mechanism is unavailable.
pub(crate) fn speaker<'a>(name: &str, logins: &'a Logins) -> Option<Speaker<'a>> {
    let ours = Mechanism::ALL.into_iter().find(|mechanism| mechanism.name() == name);
    let here = |is_known: bool| ours.filter(|_| is_known).map(Speaker::Here);
    match (ours, &logins.source) {
        (Some(Mechanism::External), _) => here(true),
        (Some(Mechanism::Plain | Mechanism::Login), source) => {
            here(!matches!(source, LoginSource::Nobody))
        }
        (Some(Mechanism::OauthBearer | Mechanism::Xoauth2), _) if logins.tokens.is_some() => {
            here(true)
        }
        // The binding is to this server's TLS connection, so the password must be verified here.
        (Some(Mechanism::ScramSha256Plus), source) => here(matches!(source, LoginSource::Table(_))),
        (_, LoginSource::Server(server @ LoginServer::Dovecot(_))) => Some(Speaker::There(server)),
        (Some(Mechanism::ScramSha256), source) => here(matches!(source, LoginSource::Table(_))),
        _ => None,
    }
}

/// Returns true if a mechanism can be used with a server that offers these.
pub(crate) fn is_offered(name: &str, offered: &[Box<str>]) -> bool {
    // LOGIN of a client is passed to the server as PLAIN.
    let asked = if name == Mechanism::Login.name() { Mechanism::Plain.name() } else { name };
    offered.iter().any(|one| **one == *asked)
}
