//! Settings of `smtp` routes only: the start of TLS, and the login at smarthosts.

use super::hosts::Hosts;
use super::smarthost_login::{Login, LoginText};
use config::{Explainer, Reader};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Start of TLS with a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TlsStart {
    /// By STARTTLS after the greeting (RFC 3207).
    #[default]
    Starttls,
    /// Immediately, as on port 465 (RFC 8314 §3.3). Requires `tls` to be `"required"`, `"verified"` or `"dane"`.
    Implicit,
}

/// Keys of a smarthost.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub(super) struct SmarthostText {
    /// Start of TLS with the hosts.
    tls_start: TlsStart,
    /// Login at the hosts (RFC 4954): `user` with `password_file`, `token_file` or `oauth`, or a `table` of logins. If
    /// a host does not accept the login, mail is deferred, never sent without it. Requires `tls` to be `"required"`,
    /// `"verified"` or `"dane"`, unless all hosts are addresses of this machine. See `docs/tls.md`.
    #[serde(skip_serializing_if = "Option::is_none")]
    login: Option<LoginText>,
}

/// Smarthost settings of a route.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Smarthost {
    pub tls_start: TlsStart,
    /// Login at the hosts; `None` for none.
    pub login: Option<Login>,
}

impl Smarthost {
    /// Returns true if the hosts serve users, so that TLS is mandatory.
    #[must_use]
    pub fn is_for_users(&self) -> bool {
        self.login.is_some() || self.tls_start == TlsStart::Implicit
    }

    /// Reads the keys of a route with these hosts. `is_sure` is set if its `tls` never sends in clear.
    pub(super) fn read(
        text: SmarthostText,
        is_sure: bool,
        hosts: &Hosts,
        reader: &mut Reader<'_, '_>,
    ) -> Smarthost {
        if text.tls_start == TlsStart::Implicit && !is_sure {
            let message = "`tls_start = \"implicit\"` needs `tls` to be \"required\", \"verified\" or \"dane\"";
            reader.error("tls_start", message, "the port has no clear-text mode");
        }
        let here = hosts.are_here();
        if text.login.is_some() && !is_sure && !here {
            let message = "`login` needs `tls` to be \"required\", \"verified\" or \"dane\"";
            reader.error(
                "login",
                message,
                "without TLS an attacker on the path can read the password",
            );
        }
        let in_clear = here && !is_sure;
        let login = text.login.and_then(|login| Login::read(login, in_clear, reader));
        Smarthost { tls_start: text.tls_start, login }
    }

    /// Shows the settings. Of the secret only its file is shown.
    pub(super) fn explain(&self, explainer: &mut Explainer<'_>) {
        if self.tls_start == TlsStart::Implicit {
            explainer.own_key("tls_start", "implicit".to_owned());
        }
        if let Some(Login { identity, .. }) = &self.login {
            explainer.own_key("login", identity.to_string());
        }
    }
}
