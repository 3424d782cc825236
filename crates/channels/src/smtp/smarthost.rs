//! What only `smtp` routes are told: how TLS begins, and the login where hosts take mail of their users only.

use super::hosts::Hosts;
use super::settings::RouteTls;
use auth::sasl::USER_BYTES_MAX;
use auth::sasl::client::Mechanism;
use config::{Explainer, Reader, SecretFile};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How TLS with a host begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TlsStart {
    /// By STARTTLS, behind the greeting (RFC 3207).
    #[default]
    Starttls,
    /// At once, as on port 465 (RFC 8314 §3.3): with `tls` of `"required"`, `"verified"` or `"dane"`.
    Implicit,
}

/// The keys.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub(super) struct SmarthostText {
    /// How TLS with the hosts begins.
    tls_start: TlsStart,
    /// The login at hosts that take mail of their users only (RFC 4954): `user`, and `password_file` or
    /// `token_file`. Mail waits, and is never sent without, where a host does not take it. Only with `tls`
    /// of `"required"`, `"verified"` or `"dane"`, or where all hosts are addresses of this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    login: Option<LoginText>,
}

/// How to log in.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
struct LoginText {
    /// The user's name there. Required.
    user: String,
    /// A file with the password in its only line, which not everybody may read. It is read at the start,
    /// and again when it changes. `$CREDENTIALS_DIRECTORY/NAME` is what systemd hands over by
    /// `LoadCredential=NAME:…`.
    #[serde(skip_serializing_if = "Option::is_none")]
    password_file: Option<String>,
    /// The same with a token of OAuth (RFC 6750) instead, which somebody else renews.
    #[serde(skip_serializing_if = "Option::is_none")]
    token_file: Option<String>,
    /// The mechanisms that may be used, of those that the host offers the strongest. Without it: all, in this
    /// order.
    #[serde(skip_serializing_if = "Option::is_none")]
    mechanisms: Option<Vec<MechanismText>>,
}

/// How to prove who we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum MechanismText {
    /// RFC 7677: the password is not sent, and the host proves that it knows it.
    #[serde(rename = "scram-sha-256")]
    ScramSha256,
    /// RFC 4616: the password is sent.
    Plain,
    /// The same in an older form.
    Login,
    /// RFC 7628: a token.
    Oauthbearer,
    /// The same in an older form.
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

/// What a route is told of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Smarthost {
    /// How TLS begins.
    pub tls_start: TlsStart,
    /// Who we are there; `None`: nobody.
    pub login: Option<Login>,
}

/// Who we are at a host.
#[derive(Clone, Debug, PartialEq)]
pub struct Login {
    /// Our name.
    pub user: String,
    /// What proves it.
    pub secret: Arc<SecretFile>,
    /// Those that may be used, the strongest first.
    pub mechanisms: Vec<Mechanism>,
    /// The hosts are on this machine: nobody can listen.
    pub in_clear: bool,
}

impl Smarthost {
    /// Its hosts take mail of users: TLS is not left to chance there.
    #[must_use]
    pub fn is_for_users(&self) -> bool {
        self.login.is_some() || self.tls_start == TlsStart::Implicit
    }

    /// Reads the keys of a route with these hosts.
    pub(super) fn read(
        text: SmarthostText,
        tls: RouteTls,
        hosts: &Hosts,
        reader: &mut Reader<'_, '_>,
    ) -> Smarthost {
        let is_sure = matches!(tls, RouteTls::Required | RouteTls::Verified | RouteTls::Dane);
        if text.tls_start == TlsStart::Implicit && !is_sure {
            let message = "`tls_start = \"implicit\"` needs `tls` to be \"required\", \"verified\" or \"dane\"";
            reader.error("tls_start", message, "nothing is said in clear on such a port");
        }
        let here = hosts.are_here();
        if text.login.is_some() && !is_sure && !here {
            let message = "`login` needs `tls` to be \"required\", \"verified\" or \"dane\"";
            reader.error("login", message, "without it whoever is between can have the password");
        }
        let in_clear = here && !is_sure;
        let login = text.login.and_then(|login| Login::read(login, in_clear, reader));
        Smarthost { tls_start: text.tls_start, login }
    }

    /// Shows them; of the secret nothing but its file.
    pub(super) fn explain(&self, explainer: &mut Explainer<'_>) {
        if self.tls_start == TlsStart::Implicit {
            explainer.own_key("tls_start", "implicit".to_owned());
        }
        if let Some(Login { user, secret, .. }) = &self.login {
            explainer.own_key("login", format!("{user}, by {}", secret.path().display()));
        }
    }
}

impl Login {
    fn read(text: LoginText, in_clear: bool, reader: &mut Reader<'_, '_>) -> Option<Login> {
        let LoginText { user, password_file, token_file, mechanisms } = text;
        reader.printable("login.user", &user, USER_BYTES_MAX);
        let (key, file, all) = match (&password_file, &token_file) {
            (Some(file), None) => ("login.password_file", file, &Mechanism::OF_PASSWORDS[..]),
            (None, Some(file)) => ("login.token_file", file, &Mechanism::OF_TOKENS[..]),
            _ => {
                let message = "either `password_file` or `token_file` is wanted";
                reader.error("login", message, "");
                return None;
            }
        };
        let secret = Arc::new(SecretFile::new(reader.file_path(key, file)));
        let mut allowed = all.to_vec();
        if let Some(mechanisms) = mechanisms {
            let wanted: Vec<Mechanism> = mechanisms.iter().map(|text| text.mechanism()).collect();
            if let Some(at) = wanted.iter().position(|mechanism| !all.contains(mechanism)) {
                let names: Vec<&str> = all.iter().map(|mechanism| mechanism.name()).collect();
                let message = format!("{} is not for what `{key}` has", wanted[at].name());
                let help = format!("there are: {}", names.join(", "));
                reader.error(&format!("login.mechanisms[{at}]"), message, &help);
            }
            allowed.retain(|mechanism| wanted.contains(mechanism));
            if wanted.is_empty() {
                reader.error("login.mechanisms", "at least one is wanted", "");
            }
        }
        Some(Login { user, secret, mechanisms: allowed, in_clear })
    }
}
