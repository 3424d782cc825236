//! Login at smarthosts: the user name and the secret.

use auth::sasl::USER_BYTES_MAX;
use auth::sasl::client::{Credentials, Mechanism};
use config::{Reader, SecretFile, SecretSource, TableEntry, TokenSource, WebPlace};
use lookup::Entry;
use mta::tables::values_of;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Login at a host.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub(super) struct LoginText {
    /// The user name. Required, unless `table` is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    /// File with the password in its only line, not readable by all users. Read at start, and again after a change.
    /// `$CREDENTIALS_DIRECTORY/NAME` is a credential of systemd (`LoadCredential=NAME:…`), `env:NAME` an environment
    /// variable.
    #[serde(skip_serializing_if = "Option::is_none")]
    password_file: Option<String>,
    /// The same with an OAuth token (RFC 6750), which another program renews.
    #[serde(skip_serializing_if = "Option::is_none")]
    token_file: Option<String>,
    /// OAuth 2.0 server that issues tokens, which this server renews in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    oauth: Option<OauthText>,
    /// Name of the table of logins by host (`smtp.example.net:587`, without the port, or in brackets). Entries are
    /// `user:password`, as in Postfix (`smtp_sasl_password_maps`), or have the values `user` and `password`. Mail for a
    /// host without an entry is deferred.
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<String>,
    /// Lookup key in `table`. Default: `"host"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<LoginKey>,
    /// Permitted mechanisms. The strongest that the host offers is used. Default: all, in this order.
    #[serde(skip_serializing_if = "Option::is_none")]
    mechanisms: Option<Vec<MechanismText>>,
}

/// OAuth 2.0 server that issues tokens (RFC 6749 §6; without `refresh_token_file` §4.4).
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct OauthText {
    /// The token endpoint, `https://…`; `http://` is accepted for a loopback address only. Required.
    url: String,
    /// Client id of this server. Required.
    client_id: String,
    /// File with the client secret in its first line, or as with `password_file`. Read for each request.
    #[serde(skip_serializing_if = "Option::is_none")]
    client_secret_file: Option<PathBuf>,
    /// File with the refresh token in its first line, or as with `password_file`. Read for each request. A new refresh
    /// token from the server is written there.
    #[serde(skip_serializing_if = "Option::is_none")]
    refresh_token_file: Option<PathBuf>,
    /// Requested scope: names separated by blanks.
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
    /// PEM file with the certificate authorities for the server's certificate. Default: those of the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    ca_file: Option<PathBuf>,
}

impl OauthText {
    /// Returns `None` after an error, which `reader` has reported.
    fn read(self, reader: &mut Reader<'_, '_>) -> Option<TokenSource> {
        const AT: &str = "login.oauth";
        let place = WebPlace::parse(&self.url);
        if let Err(why) = &place {
            let help = "for example \"https://id.example.org/oauth2/token\"";
            let message = format!("\"{}\" is not a token endpoint: {why}", self.url.escape_debug());
            let key = if self.url.is_empty() { AT.to_owned() } else { format!("{AT}.url") };
            reader.error(&key, message, help);
        }
        reader.printable(&format!("{AT}.client_id"), &self.client_id, 255);
        if let Some(scope) = &self.scope {
            reader.printable(&format!("{AT}.scope"), scope, 1_024);
        }
        if self.client_secret_file.is_none() && self.refresh_token_file.is_none() {
            let help = "set `refresh_token_file`, `client_secret_file` or both";
            reader.error(AT, "no credentials for the token server", help);
            return None;
        }
        for (key, file) in [
            ("client_secret_file", &self.client_secret_file),
            ("refresh_token_file", &self.refresh_token_file),
            ("ca_file", &self.ca_file),
        ] {
            reader.named_file(&format!("{AT}.{key}"), file.as_deref());
        }
        Some(TokenSource {
            at: place.ok()?,
            client_id: self.client_id.into(),
            client_secret: self.client_secret_file,
            refresh_token: self.refresh_token_file,
            scope: self.scope.map(String::into_boxed_str),
            ca_file: self.ca_file,
        })
    }
}

/// Key of a login in its table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LoginKey {
    /// The host.
    #[default]
    Host,
    /// The sender (Postfix's `smtp_sender_dependent_authentication`): the address, then without its `+tag`, then
    /// `@domain`; without an entry for these, and for the null sender, the host. The sender is that of MAIL when the
    /// message was accepted, or the owner of the recipient's list. Connections are not shared between senders; limits of
    /// the route apply to all senders together.
    Sender,
}

/// SASL mechanism for logins at hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum MechanismText {
    /// RFC 7677: the password is not sent, and the host proves that it knows it.
    #[serde(rename = "scram-sha-256")]
    ScramSha256,
    /// RFC 4616: the password is sent.
    Plain,
    /// An older form of PLAIN.
    Login,
    /// RFC 7628: a token.
    Oauthbearer,
    /// An older form of OAUTHBEARER.
    Xoauth2,
}

impl MechanismText {
    fn mechanism(self) -> Mechanism {
        match self {
            MechanismText::ScramSha256 => Mechanism::ScramSha256,
            MechanismText::Plain => Mechanism::Plain,
            MechanismText::Login => Mechanism::Login,
            MechanismText::Oauthbearer => Mechanism::OauthBearer,
            MechanismText::Xoauth2 => Mechanism::XOauth2,
        }
    }
}

/// Login at hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct Login {
    /// User name and secret.
    pub identity: Identity,
    /// Permitted mechanisms, the strongest first.
    pub mechanisms: Vec<Mechanism>,
    /// Login without TLS, for hosts on this machine.
    pub in_clear: bool,
}

/// User name and secret.
#[derive(Clone, Debug)]
pub enum Identity {
    /// One login for all hosts.
    User { user: String, secret: Arc<SecretFile> },
    /// Logins by host or sender in a table.
    Table(Arc<TableEntry>, LoginKey),
}

impl PartialEq for Identity {
    fn eq(&self, other: &Identity) -> bool {
        match (self, other) {
            (
                Identity::User { user, secret },
                Identity::User { user: other_user, secret: other_secret },
            ) => user == other_user && secret == other_secret,
            // Table instances differ between configurations.
            (Identity::Table(table, key), Identity::Table(other, other_key)) => {
                key == other_key && Arc::ptr_eq(table, other)
            }
            _ => false,
        }
    }
}

/// For people: shows the source of the secret, never the secret itself.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Identity::User { user, secret } => write!(f, "{user}, by {}", secret.source()),
            Identity::Table(table, LoginKey::Host) => write!(f, "by table {} and host", table.name),
            Identity::Table(table, LoginKey::Sender) => {
                write!(f, "by table {} and sender, else host", table.name)
            }
        }
    }
}

impl Login {
    pub(super) fn read(
        text: LoginText,
        in_clear: bool,
        reader: &mut Reader<'_, '_>,
    ) -> Option<Login> {
        let mechanisms = text.mechanisms.clone();
        let (identity, key, all) = identity(text, reader)?;
        let mut allowed = all.to_vec();
        if let Some(mechanisms) = mechanisms {
            let wanted: Vec<Mechanism> = mechanisms.iter().map(|text| text.mechanism()).collect();
            if let Some(at) = wanted.iter().position(|mechanism| !all.contains(mechanism)) {
                let names: Vec<&str> = all.iter().map(|mechanism| mechanism.name()).collect();
                let message = format!("{} cannot be used with `{key}`", wanted[at].name());
                let help = format!("supported: {}", names.join(", "));
                reader.error(&format!("login.mechanisms[{at}]"), message, &help);
            }
            allowed.retain(|mechanism| wanted.contains(mechanism));
            if wanted.is_empty() {
                reader.error("login.mechanisms", "`mechanisms` is empty", "");
            }
        }
        Some(Login { identity, mechanisms: allowed, in_clear })
    }

    /// Returns true if the login depends on the sender.
    pub(super) fn is_by_sender(&self) -> bool {
        matches!(self.identity, Identity::Table(_, LoginKey::Sender))
    }

    /// The file with the secret, if all hosts share one.
    pub(super) fn secret(&self) -> Option<&Arc<SecretFile>> {
        match &self.identity {
            Identity::User { secret, .. } => Some(secret),
            Identity::Table(..) => None,
        }
    }
}

/// The identity, the configuration key that sets it, and the mechanisms for its secret.
fn identity(
    text: LoginText,
    reader: &mut Reader<'_, '_>,
) -> Option<(Identity, &'static str, &'static [Mechanism])> {
    let LoginText { user, password_file, token_file, oauth, table, key, mechanisms: _ } = text;
    if let Some(table) = table {
        if user.is_some() || password_file.is_some() || token_file.is_some() || oauth.is_some() {
            let help = "the table has user and password of each host: leave the other keys out";
            reader.error("login.table", "both `table` and a user or secret are set", help);
        }
        let table = reader.table("login.table", &table)?;
        let identity = Identity::Table(table, key.unwrap_or_default());
        return Some((identity, "login.table", &Mechanism::OF_PASSWORDS));
    }
    if key.is_some() {
        let help = "logins by sender or host are in a table: add `table`, or leave `key` out";
        reader.error("login.key", "`key` without `table`", help);
    }
    let user = user.unwrap_or_default();
    reader.printable("login.user", &user, USER_BYTES_MAX);
    let (key, source, all) = match (password_file, token_file, oauth) {
        (Some(file), None, None) => {
            let key = "login.password_file";
            let place = SecretSource::Place(reader.file_path(key, &file));
            (key, place, &Mechanism::OF_PASSWORDS[..])
        }
        (None, Some(file), None) => {
            let key = "login.token_file";
            let place = SecretSource::Place(reader.file_path(key, &file));
            (key, place, &Mechanism::OF_TOKENS[..])
        }
        (None, None, Some(oauth)) => {
            let source = SecretSource::Token(Box::new(oauth.read(reader)?));
            ("login.oauth", source, &Mechanism::OF_TOKENS[..])
        }
        _ => {
            let message = "`login` needs one of `password_file`, `token_file`, `oauth` and `table`";
            reader.error("login", message, "");
            return None;
        }
    };
    Some((Identity::User { user, secret: Arc::new(SecretFile::of(source)) }, key, all))
}

/// The login in an entry.
///
/// # Errors
/// A description without any part of the entry.
pub(super) fn credentials_of(entry: &Entry) -> Result<Credentials, &'static str> {
    let value = |name| values_of(entry, name).first().map(|value| &**value);
    let (user, password) = match (value("user"), value("password")) {
        (Some(user), Some(password)) => (user, password),
        _ => entry.text.split_once(':').ok_or("its entry is not user:password")?,
    };
    Credentials::new(user, password.as_bytes())
        .ok_or("its entry cannot be sent in an AUTH exchange")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_a_user_and_a_password() {
        let credentials = |user: &str, password: &str| {
            Ok(Credentials::new(user, password.as_bytes()).expect("they can be said"))
        };
        let of = |text: &str| credentials_of(&Entry::text(text));
        assert_eq!(of("relay@x:p:w d"), credentials("relay@x", "p:w d"));
        for (wrong, why) in [
            ("relay", "not user:password"),
            ("", "not user:password"),
            (":p", "cannot be sent"),
            ("relay:", "cannot be sent"),
            ("relay:a\u{7}", "cannot be sent"),
        ] {
            assert!(of(wrong).unwrap_err().contains(why), "{wrong}");
        }
        let field = |name: &str, value: &str| (Box::from(name), Box::from([Box::from(value)]));
        let named = Entry::fields(vec![field("user", "relay"), field("password", "p")]);
        assert_eq!(credentials_of(&named), credentials("relay", "p"));
    }
}
