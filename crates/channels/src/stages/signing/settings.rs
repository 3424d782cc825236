//! Settings of signers (`[[signer]]`).

use crate::stages::key_file::KeyFile;
use auth::dkim::SigningIdentity;
use config::{
    DomainPattern, Reader, StageSection, StageSettings, TableEntry, TableRefText, names_login,
};
use lookup::Requester;
use mail::{Domain, Wall};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// A DKIM signer (RFC 6376). All signers with the author's domain (From) sign, with relaxed canonicalization, the whole
/// body and SHA-256. Mail of clients that may relay, of logged-in users, and this server's reports are signed. See
/// `docs/signing.md`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub(crate) struct SignerText {
    /// Author domains: `example.org` itself, its subdomains (`*.example.org`), or all domains (`*`, which requires
    /// `sign_as`). Required, unless `keys` is set; then it limits the domains of the table (default: all).
    #[schemars(extend("items" = { "type": "string", "title": "domain" }))]
    domains: Vec<String>,
    /// Sign only mail of these tenants, and of `logins`. Default: mail of all clients that may relay.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tenants: Vec<String>,
    /// Sign only mail of these users, and of `tenants`. User names are those of `login` in events.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    logins: Vec<String>,
    /// Signing domain (`d=`). Default: the matching domain of `domains`, also for subdomains (`*.example.org` signs as
    /// `example.org`); with `keys`, the author's domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    sign_as: Option<String>,
    /// Selector of the public key in the TXT record `SELECTOR._domainkey.DOMAIN`. Required with `key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    selector: Option<String>,
    /// File with the private key in PEM: RSA of at least 2,048 bits, or Ed25519 (RFC 8463). It must be readable by its
    /// owner and group only. A changed file is read again within seconds. `postrider dkim new` creates one.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// Instead of `key`: table of selectors and keys by author domain, in fields of these names, or as one text
    /// `SELECTOR KEY`. The key is the path of a file, or the PEM text.
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<TableRefText>,
    /// The next key, which replaces this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<NextText>,
}

/// The next key of a signer.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NextText {
    /// Its selector, which must differ from the current one. Required.
    selector: String,
    /// Its file. Required.
    key: String,
    /// Time at which it replaces the current key, for example `"2027-01-01T00:00:00Z"`. Required.
    from: String,
}

/// A key, and the DNS name of its public key.
#[derive(Debug)]
pub struct SigningName<'a> {
    /// `SELECTOR._domainkey.DOMAIN`.
    pub name: String,
    pub file: &'a KeyFile,
    /// Time from which on it signs. `None`: now.
    pub from: Option<Wall>,
}

/// A `[[signer]]`.
#[derive(Debug)]
pub(crate) struct Signer {
    /// Empty for all.
    pub(super) domains: Vec<DomainPattern>,
    /// Only mail of these tenants, and of `logins`, is signed.
    tenants: Vec<Box<str>>,
    logins: Vec<Box<str>>,
    /// `None`: see [`Signer::domain_for`].
    pub(super) sign_as: Option<String>,
    pub(super) keys: Keys,
}

/// Source of the signing key.
#[derive(Debug)]
pub(super) enum Keys {
    Own(OwnKey, Option<RolloverKey>),
    /// Keys in a table.
    Table(Arc<TableEntry>),
}

#[derive(Debug)]
pub(super) struct OwnKey {
    selector: String,
    key: Arc<KeyFile>,
}

/// The next key of a signer.
#[derive(Debug)]
pub(super) struct RolloverKey {
    key: OwnKey,
    from: Wall,
}

/// Tenant and user that submitted a message.
#[derive(Debug)]
pub(super) struct HandedInBy<'a> {
    pub(super) tenant: Option<&'a str>,
    pub(super) login: Option<&'a str>,
    /// The client, for which tables are asked.
    pub(super) requester: Requester,
}

/// Reason for a missing key or signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NoKey(pub(super) Box<str>);

impl fmt::Display for NoKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StageSection for SignerText {
    const KEY: &'static str = "signer";
    const SUMMARY: &'static str = "DKIM signers by author domain.";
    type Text = SignerText;

    fn read(text: SignerText, reader: &mut Reader<'_, '_>) -> Option<Arc<dyn StageSettings>> {
        let keys = text.read_keys(reader);
        let has_table = text.keys.is_some();
        let is_all = text.domains.iter().any(|domain| domain == "*");
        if text.domains.is_empty() && !has_table {
            let help = "name the author domains, for example domains = [\"example.org\"]";
            reader.error("", "a signer without `domains`", help);
            return None;
        }
        if is_all && text.sign_as.is_none() && !has_table {
            let help = "name your domain, for example sign_as = \"esp.example\"";
            reader.error("domains", "a signer for all domains without `sign_as`", help);
            return None;
        }
        let sign_as = match &text.sign_as {
            Some(domain) => Some(name(reader, "sign_as", domain)?),
            None => None,
        };
        let mut domains = Vec::with_capacity(text.domains.len());
        for (index, domain) in text.domains.iter().enumerate().filter(|(_, domain)| *domain != "*")
        {
            match DomainPattern::parse(domain) {
                Ok(pattern) => domains.push(pattern),
                Err(why) => {
                    let help = "write, for example, \"example.org\", \"*.example.org\" or \"*\"";
                    let message = format!("\"{domain}\" is not a domain: {why}");
                    reader.error(&format!("domains[{index}]"), message, help);
                }
            }
        }
        if is_all {
            domains.clear();
        }
        reader.check_tenants("tenants", &text.tenants);
        let boxed = |names: &[String]| names.iter().map(|name| name.as_str().into()).collect();
        let (tenants, logins) = (boxed(&text.tenants), boxed(&text.logins));
        Some(Arc::new(Signer { domains, tenants, logins, sign_as, keys: keys? }))
    }
}

impl SignerText {
    fn read_keys(&self, reader: &mut Reader<'_, '_>) -> Option<Keys> {
        match (&self.key, &self.keys) {
            (Some(key), None) => {
                let Some(selector) = &self.selector else {
                    let help = "name it, for example selector = \"s2026a\"";
                    reader.error("", "a signer without `selector`", help);
                    return None;
                };
                let own = own_key(reader, "", selector, key);
                let next = match &self.next {
                    Some(next) => Some(next.read(selector, reader)?),
                    None => None,
                };
                Some(Keys::Own(own?, next))
            }
            (None, Some(table)) => {
                for (is_given, key) in
                    [(self.selector.is_some(), "selector"), (self.next.is_some(), "next")]
                {
                    if is_given {
                        reader.error(
                            key,
                            format!("both `{key}` and `keys` are set"),
                            "the table has it: leave `{key}` out",
                        );
                    }
                }
                reader.table("keys.table", &table.table).map(Keys::Table)
            }
            (Some(_), Some(_)) => {
                reader.error("keys", "both `keys` and `key` are set", "use one");
                None
            }
            (None, None) => {
                let help = "name the file, for example key = \"/etc/postrider/s2026a.pem\"; \
                 postrider dkim new creates one";
                reader.error("", "a signer without `key`", help);
                None
            }
        }
    }
}

impl NextText {
    fn read(&self, before: &str, reader: &mut Reader<'_, '_>) -> Option<RolloverKey> {
        if self.selector == before {
            let help = "both keys must be in the DNS while old mail is in transit";
            reader.error(
                "next.selector",
                "the next key has the selector of the previous key",
                help,
            );
            return None;
        }
        let key = own_key(reader, "next.", &self.selector, &self.key);
        let from = reader.moment("next.from", &self.from);
        Some(RolloverKey { key: key?, from: from? })
    }
}

fn own_key(reader: &mut Reader<'_, '_>, at: &str, selector: &str, key: &str) -> Option<OwnKey> {
    let selector = name(reader, &format!("{at}selector"), selector);
    let at = format!("{at}key");
    let key = KeyFile::new(reader.file_path(&at, key), reader.path(&at));
    Some(OwnKey { selector: selector?, key: Arc::new(key) })
}

fn name(reader: &mut Reader<'_, '_>, key: &str, text: &str) -> Option<String> {
    let name = Domain::dns_name(text);
    if name.is_none() {
        reader.error(key, format!("\"{text}\" is not a DNS name"), "");
    }
    name
}

impl StageSettings for Signer {
    fn explain_for_author(&self, domain: &Domain) -> Option<String> {
        let author = Domain::dns_name(domain.as_str())?;
        let signs_as = self.domain_for(&author)?;
        Some(match &self.keys {
            Keys::Own(key, next) => {
                let selector = &key.selector;
                let next = next.as_ref().map_or(String::new(), |next| {
                    format!(", from {} by {}", next.from, next.key.selector)
                });
                let whose = self.whose();
                format!(
                    "{selector}._domainkey.{signs_as}, if the author domain is \
                     {author}{whose}{next}"
                )
            }
            Keys::Table(table) => {
                let whose = self.whose();
                format!("as {signs_as}, if table \"{}\" has {author}{whose}", table.name)
            }
        })
    }
}

impl Signer {
    /// Returns true if mail submitted by this tenant and user may be signed.
    pub(super) fn serves(&self, by: &HandedInBy<'_>) -> bool {
        let is_for_all = self.tenants.is_empty() && self.logins.is_empty();
        let is_tenants = |name: &str| self.tenants.iter().any(|tenant| **tenant == *name);
        is_for_all
            || by.tenant.is_some_and(is_tenants)
            || by.login.is_some_and(|login| names_login(&self.logins, login))
    }

    /// Description of tenants and users, for people.
    fn whose(&self) -> String {
        let of = |what: &str, names: &[Box<str>]| match names {
            [] => String::new(),
            names => format!(" {what} {}", names.join(", ")),
        };
        match of("of tenants", &self.tenants) + &of("of users", &self.logins) {
            whose if whose.is_empty() => whose,
            whose => format!(", in mail{whose}"),
        }
    }

    /// The signing domain (d=) for an author of this domain. `None` if it does not sign.
    pub(crate) fn domain_for(&self, author: &str) -> Option<String> {
        let own = || self.sign_as.clone();
        if self.domains.is_empty() {
            return own().or_else(|| Some(author.to_owned()));
        }
        let domain = Domain::parse(author).ok()?;
        let pattern = self.domains.iter().find(|pattern| pattern.covers(&domain))?;
        own().or_else(|| match (&self.keys, pattern) {
            (Keys::Table(_), _) => Some(author.to_owned()),
            (_, DomainPattern::Exact(named) | DomainPattern::Below(named)) => {
                Domain::dns_name(named.as_str())
            }
        })
    }

    /// The keys that sign for an author of this domain, including the next one.
    pub(crate) fn names(&self, author: &str) -> Vec<SigningName<'_>> {
        self.domain_for(author).map_or_else(Vec::new, |domain| self.names_as(&domain))
    }

    /// The keys that sign with this signing domain. Empty if a table has them.
    pub(super) fn names_as(&self, domain: &str) -> Vec<SigningName<'_>> {
        let Keys::Own(own, next) = &self.keys else { return Vec::new() };
        let name = |key: &'_ OwnKey| format!("{}._domainkey.{domain}", key.selector);
        let own = SigningName { name: name(own), file: &own.key, from: None };
        let next = next.iter().map(|next| SigningName {
            name: name(&next.key),
            file: &next.key.key,
            from: Some(next.from),
        });
        std::iter::once(own).chain(next).collect()
    }

    /// The table with the keys for an author of this domain, if any.
    pub(crate) fn table(&self, author: &str) -> Option<&TableEntry> {
        match &self.keys {
            Keys::Table(table) if self.domain_for(author).is_some() => Some(table),
            _ => None,
        }
    }

    /// The files of its keys.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Arc<KeyFile>> {
        let (own, next) = match &self.keys {
            Keys::Own(own, next) => (Some(own), next.as_ref()),
            Keys::Table(_) => (None, None),
        };
        own.into_iter().chain(next.map(|next| &next.key)).map(|own| &own.key)
    }
}

impl OwnKey {
    /// The key in force at this time.
    pub(super) fn in_force<'k>(&'k self, next: Option<&'k RolloverKey>, now: Wall) -> &'k OwnKey {
        next.filter(|next| now >= next.from).map_or(self, |next| &next.key)
    }

    pub(super) fn identity(&self, domain: String) -> Result<SigningIdentity, NoKey> {
        let key = self.key.key();
        let key = key.ok_or_else(|| {
            NoKey(format!("{} has not been read", self.key.path().display()).into())
        })?;
        Ok(SigningIdentity { domain, selector: self.selector.clone(), key })
    }
}
