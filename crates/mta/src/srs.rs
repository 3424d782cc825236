//! `[srs]`: sender rewriting of forwarded mail.

use config::{Area, Reader, Rest, Secret, Section};
use mail::Domain;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The Sender Rewriting Scheme for forwarded mail. If an alias forwards mail from a foreign sender to a foreign
/// recipient, the sender is rewritten to an address of this server, for which SPF passes. Bounces to that
/// address are forwarded to the original sender for 21 days. All domains are foreign except those named by routes other
/// than `mx`. Default: off, without `domain` and `secret_file`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SrsText {
    /// Domain of rewritten senders. Its MX must be this server; no route needs to name it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// File with secrets, one per line. The first is used for new addresses; addresses made with any listed secret are
    /// accepted. Read at start and at each reload; also `$CREDENTIALS_DIRECTORY/NAME`, see `docs/tls.md`. Servers that
    /// back up each other need the same secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_file: Option<String>,
}

/// `[srs]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RewrittenSenders {
    /// Domain of rewritten senders.
    pub domain: Domain,
    /// The file with the secrets.
    pub secret_file: PathBuf,
    /// The secrets, loaded from the file before the configuration is used. Without any, senders are not rewritten.
    pub secrets: Vec<Secret>,
}

impl Section for RewrittenSenders {
    const KEY: &'static str = "srs";
    const SUMMARY: &'static str = "Rewriting of envelope senders of forwarded mail (SRS).";
    const AREA: Area = Area::Intake;
    const IN_FORCE_BY: &'static str = "shards";
    type Text = SrsText;
    type Value = RewrittenSenders;

    fn read(text: SrsText, reader: &mut Reader<'_, '_>) -> Option<RewrittenSenders> {
        let (domain, file) = match (&text.domain, &text.secret_file) {
            (None, None) => return None,
            (Some(domain), Some(file)) => (domain, file),
            (Some(_), None) => {
                let help = "name a file with a secret, readable only by the server";
                reader.error("domain", "`domain` without `secret_file`", help);
                return None;
            }
            (None, Some(_)) => {
                let help = "name the domain of rewritten senders, for example domain = \
                 \"srs.example.org\"";
                reader.error("secret_file", "`secret_file` without `domain`", help);
                return None;
            }
        };
        let secret_file = reader.file_path("secret_file", file);
        let read = Domain::parse(domain).and_then(|domain| domain.to_ascii().map(|_| domain));
        match read {
            Ok(domain) => Some(RewrittenSenders { domain, secret_file, secrets: Vec::new() }),
            Err(error) => {
                let message = format!("\"{domain}\" is not a domain");
                reader.error("domain", message, &error.to_string());
                None
            }
        }
    }

    /// Routes define if senders are rewritten.
    fn review(_: Option<&RewrittenSenders>, rest: &Rest<'_>, reader: &mut Reader<'_, '_>) {
        let is_on = reader.is_written("domain");
        for route in rest.routes {
            let mut of_route = reader.elsewhere(&format!("route[{}]", route.index));
            if route.srs.is_some() && !is_on {
                let help = "add [srs] with `domain` and `secret_file`, or leave `srs` out";
                of_route.error("srs", "`srs` in a route without a section [srs]", help);
            } else if route.srs == Some(true) && route.channel.is_local() {
                let help = "only relayed mail gets rewritten senders: leave `srs` out";
                of_route.error("srs", "`srs = true` in a route that delivers locally", help);
            }
        }
    }

    fn own_domain(value: &RewrittenSenders) -> Option<&Domain> {
        Some(&value.domain)
    }
}
