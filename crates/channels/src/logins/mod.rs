//! Login at a listener, for all protocols: the source of users and passwords, and the SASL mechanisms.

mod introspection;
mod mechanism;

pub(crate) use mechanism::{MechanismText, Speaker, is_offered, speaker};

use auth::password::scram_keys::SaltForm;
use config::quantity::DurationText;
use config::{HostPort, PasswordChecks, Reader, TableEntry};
use introspection::IntrospectionText;
use mta::ingress::{LoginSource, Logins};
use mta::seams::{Introspection, LoginServer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// Source of users and passwords. Exactly one key is set, or `introspection` in addition.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LoginsText {
    /// Name of the table with stored passwords by user, as printed by `doveadm pw` and `mkpasswd`:
    /// `{ARGON2ID}$argon2id$…`, `{BLF-CRYPT}$2y$…`, `{SHA512-CRYPT}$6$…`, `{SHA256-CRYPT}$5$…`, `{SCRAM-SHA-256}…`,
    /// `{PLAIN}…`. The scheme of crypt(3) hashes may be left out. If the entries have named values, the value
    /// `password` is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<String>,
    /// Name of a table of kind `ldap` that finds the user's entry. The password is verified by a bind as that entry
    /// (RFC 4513 §5.1.3).
    #[serde(skip_serializing_if = "Option::is_none")]
    ldap: Option<String>,
    /// Dovecot's authentication socket for clients (`auth-client`): the path of a Unix socket, or a host and port. No
    /// other program may be able to listen there.
    #[serde(skip_serializing_if = "Option::is_none")]
    dovecot: Option<String>,
    /// An OAuth 2.0 server that verifies tokens (OAUTHBEARER, XOAUTH2), alone or in addition to `table` or `ldap`.
    #[serde(skip_serializing_if = "Option::is_none")]
    introspection: Option<IntrospectionText>,
    /// SCRAM iteration count shown for users without a stored SCRAM salt: those with passwords in clear, and unknown
    /// ones. Default: 4096 for the former, the most frequent count in the table for the latter. Set this key and
    /// `scram_salt_bytes` if most users have another count than `doveadm pw` creates, so that the answer is the same
    /// right after a start.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 4096, max = 5_000_000))]
    scram_iterations: Option<u32>,
    /// Length of these salts in bytes. Default: 16 for the former, the most frequent length for the latter.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 8, max = 256))]
    scram_salt_bytes: Option<u32>,
    /// Timeout for a reply of the server; the client then gets 454 4.7.0. Dovecot itself delays failures, by 15 seconds
    /// and more under load.
    timeout: DurationText,
}

impl Default for LoginsText {
    fn default() -> LoginsText {
        LoginsText {
            table: None,
            ldap: None,
            dovecot: None,
            introspection: None,
            scram_iterations: None,
            scram_salt_bytes: None,
            timeout: "30s".into(),
        }
    }
}

/// Maximum timeout, as long as clients wait for a reply.
const TIMEOUT_MAX: Duration = Duration::from_secs(90);

impl LoginsText {
    /// Timeout for a server's reply.
    fn patience(&self, reader: &mut Reader<'_, '_>) -> Duration {
        let patience = reader.timeout("logins.timeout", &self.timeout);
        if patience > TIMEOUT_MAX {
            let message = "clients wait at most a minute and a half for a reply";
            reader.error("logins.timeout", message, "");
        }
        patience
    }

    /// Form of salts made up for unknown users. `None` for the default.
    fn salts(&self) -> Option<SaltForm> {
        if self.scram_iterations.is_none() && self.scram_salt_bytes.is_none() {
            return None;
        }
        let usual = SaltForm::default();
        Some(SaltForm {
            iterations: self.scram_iterations.unwrap_or(usual.iterations),
            bytes: self.scram_salt_bytes.map_or(usual.bytes, |bytes| bytes as usize),
        })
    }

    /// The introspection server, if one is configured. Returns `None` after an error, which `reader` has reported.
    fn tokens(&self, reader: &mut Reader<'_, '_>) -> Option<Option<Arc<Introspection>>> {
        let Some(text) = &self.introspection else { return Some(None) };
        if self.dovecot.is_some() {
            let help = "Dovecot verifies tokens itself (`passdb { driver = oauth2 … }`): leave \
                 `introspection` out";
            reader.error("logins.introspection", "`introspection` beside `dovecot`", help);
        }
        text.read(reader).map(Some)
    }

    /// Returns `None` after an error, which `reader` has reported.
    fn read(&self, reader: &mut Reader<'_, '_>) -> Option<LoginSource> {
        match (&self.table, &self.ldap, &self.dovecot) {
            (Some(table), None, None) => {
                Some(LoginSource::Table(reader.table("logins.table", table)?))
            }
            (None, Some(table), None) => {
                Some(LoginSource::Server(LoginServer::Directory(directory(table, reader)?)))
            }
            (None, None, Some(at)) => {
                let server = LoginServer::Dovecot(dovecot(at, reader)?);
                Some(LoginSource::Server(server))
            }
            (None, None, None) if self.introspection.is_some() => Some(LoginSource::Nobody),
            _ => {
                let help = "use one of { table = \"passwords\" }, { ldap = \"people\" }, { \
                 dovecot = \"/run/dovecot/auth-client\" }";
                reader.error("logins", "`logins` needs exactly one table or server", help);
                None
            }
        }
    }
}

/// Keys of a listener for logins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoginKeys<'a> {
    pub(crate) logins: Option<&'a LoginsText>,
    pub(crate) mechanisms: &'a [MechanismText],
    pub(crate) failures_per_hour: u32,
    pub(crate) failures_per_hour_of_user: u32,
    pub(crate) failure_delay: Duration,
}

impl LoginKeys<'_> {
    /// Returns true if users may log in by certificates.
    pub(crate) fn take_certificates(&self) -> bool {
        self.mechanisms.contains(&MechanismText::External)
    }

    /// Returns `None` after an error, which `reader` has reported.
    pub(crate) fn read(&self, reader: &mut Reader<'_, '_>) -> Option<Logins> {
        let is_external = |mechanism: &MechanismText| *mechanism == MechanismText::External;
        let patience = self.logins.map_or(Duration::ZERO, |one| one.patience(reader));
        let tokens = match self.logins {
            Some(logins) => logins.tokens(reader)?,
            None => None,
        };
        let source = match self.logins {
            Some(logins) => logins.read(reader)?,
            None if !self.mechanisms.is_empty() && self.mechanisms.iter().all(is_external) => {
                LoginSource::Nobody
            }
            None => {
                let help = "name the table of passwords: logins = { table = \"passwords\" }";
                reader.error("", "a submission listener without `logins`", help);
                return None;
            }
        };
        let logins = Logins {
            source,
            tokens,
            patience,
            failures_per_hour: self.failures_per_hour,
            failures_per_hour_of_user: self.failures_per_hour_of_user,
            salts: self.logins.and_then(LoginsText::salts),
            failure_delay: self.failure_delay,
        };
        MechanismText::check(self.mechanisms, &logins, reader);
        Some(logins)
    }
}

fn directory(name: &str, reader: &mut Reader<'_, '_>) -> Option<Arc<TableEntry>> {
    let table = reader.table("logins.ldap", name)?;
    let (message, help) = match table.settings.password_checks() {
        PasswordChecks::Sealed => return Some(table),
        PasswordChecks::InClear => (
            format!("table \"{name}\" connects to its directory in clear"),
            "passwords would cross the network unencrypted: set start_tls = true there, or use \
             ldaps://",
        ),
        PasswordChecks::None => (
            format!("table \"{name}\" is not a directory"),
            "name a table of kind `ldap`; for passwords stored in a table use logins = { table = \
             \"…\" }",
        ),
    };
    reader.error("logins.ldap", message, help);
    None
}

fn dovecot(text: &str, reader: &mut Reader<'_, '_>) -> Option<HostPort> {
    let help = "write the path of a socket, for example \"/run/dovecot/auth-client\", or a host and \
         port";
    // Postfix's form (`smtpd_sasl_path`).
    let place = text.strip_prefix("inet:").unwrap_or(text);
    let why = match HostPort::parse(place, 0) {
        Ok(at) if at.port != 0 || place.contains('/') => return Some(at),
        Ok(_) => "port missing".to_owned(),
        Err(why) => why,
    };
    reader.error("logins.dovecot", format!("\"{text}\" is not a server: {why}"), help);
    None
}
