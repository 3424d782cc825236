//! `ldap` in `[[table]]` as it is written.

use super::server::LdapServer;
use super::settings::{BindSettings, LdapSettings, Secret, SnapshotSettings, TlsSettings};
use config::quantity::Period;
use config::{Reader, TableSection, TableSettings};
use ldap::{DnTemplate, Filter, Keyed, Scope};
use mail::Domain;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The shortest time between two readings of a directory.
const REFRESH_MIN: Duration = Duration::from_secs(1);

/// An LDAP directory. Placeholders in `filter` and `base`: `%s` is the key, `%u` the local part of an address (else the
/// whole key), `%d` the domain, `%1` to `%9` labels of the domain from its end, and `%%` a percent sign. Values are
/// escaped. A key without the required part is not in the table.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LdapText {
    /// Servers, in the order to try: `ldap://HOST[:PORT]`, `ldaps://HOST[:PORT]`, or `ldapi://` and the path of a Unix
    /// socket. At least one.
    #[schemars(extend("items" = { "type": "string", "title": "URL" }))]
    servers: Vec<String>,
    /// Base of searches. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    base: Option<String>,
    /// Scope of searches.
    scope: ScopeText,
    /// Search filter (RFC 4515), for example `(mail=%s)`. Required.
    filter: String,
    /// Result attributes: the values of these attributes in all entries found. An entry without any value is not in the
    /// table. At least one.
    attributes: Vec<String>,
    /// Attributes that name other entries. An entry with a value is a group; its result is the `attributes` of its
    /// members instead of its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    members: Vec<String>,
    /// Maximum nesting of groups, including the outermost. Lookups of deeper groups fail.
    #[schemars(range(min = 1, max = 1000))]
    max_depth: u32,
    /// Maximum number of entries in a group. Lookups of larger groups fail.
    #[schemars(range(min = 1, max = 1_000_000))]
    max_members: u32,
    /// Look up only addresses in these domains. All other keys are not in the table.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    domains: Vec<String>,
    /// Use StartTLS on a plain connection, before all other requests.
    start_tls: bool,
    /// Certificates in PEM files: `ca_file` (authorities for the server's certificate; default: those of the system),
    /// `certificate_file` and `key_file` (for servers that request a client certificate).
    #[serde(skip_serializing_if = "Option::is_none")]
    tls: Option<LdapTlsText>,
    /// Bind at the directory: `dn` (the name of an entry) with `password` or `password_file`, or `external = true`
    /// (SASL EXTERNAL: the user of a Unix socket or of the client certificate). The first line of `password_file` is
    /// read at each bind; also `env:NAME` or `$CREDENTIALS_DIRECTORY/NAME`, see `docs/tls.md`. Default: anonymous.
    #[serde(skip_serializing_if = "Option::is_none")]
    bind: Option<LdapBindText>,
    /// Timeout for a connection, for TLS on it and for the bind, each.
    connect_timeout: Period,
    /// Timeout for a reply to a search.
    timeout: Period,
    /// Maximum number of connections. Each carries up to 32 concurrent searches.
    #[schemars(range(min = 1, max = 1000))]
    max_connections: u32,
    /// Maximum number of entries found by one search. Lookups with more fail.
    #[schemars(range(min = 1, max = 1_000_000))]
    max_results: u32,
    /// Lookup mode: search the directory for each key, or in a local copy.
    mode: ModeText,
    /// Interval of a snapshot's updates, at least a second. If the server reports changes, interval of writes to the
    /// snapshot file.
    refresh: Period,
    /// File of a snapshot. Default: `tables/NAME.snapshot` in the spool directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot_path: Option<PathBuf>,
}

impl Default for LdapText {
    fn default() -> LdapText {
        LdapText {
            servers: Vec::new(),
            base: None,
            scope: ScopeText::Sub,
            filter: String::new(),
            attributes: Vec::new(),
            members: Vec::new(),
            max_depth: 10,
            max_members: 10_000,
            domains: Vec::new(),
            start_tls: false,
            tls: None,
            bind: None,
            connect_timeout: "5s".into(),
            timeout: "5s".into(),
            max_connections: 4,
            max_results: 100,
            mode: ModeText::Live,
            refresh: "5m".into(),
            snapshot_path: None,
        }
    }
}

/// Lookup mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum ModeText {
    /// Search the directory for each key.
    Live,
    /// Copy the directory and follow its changes. Lookups take microseconds, and work while the directory is down.
    Snapshot,
}

/// Scope of searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum ScopeText {
    /// The base and all entries below it.
    Sub,
    /// The entries directly below the base.
    One,
    /// The base only.
    Base,
}

/// Certificates.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct LdapTlsText {
    /// PEM file with the certificate authorities for the server's certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    ca_file: Option<PathBuf>,
    /// PEM file with the client certificate and its intermediate certificates.
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate_file: Option<PathBuf>,
    /// PEM file with its private key.
    #[serde(skip_serializing_if = "Option::is_none")]
    key_file: Option<PathBuf>,
}

/// Bind at a directory: `dn` with a password, or `external`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct LdapBindText {
    /// Name of an entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    dn: Option<String>,
    /// Its password.
    #[serde(skip_serializing_if = "Option::is_none")]
    password: Option<String>,
    /// File with its password in the first line, read at each bind.
    #[serde(skip_serializing_if = "Option::is_none")]
    password_file: Option<PathBuf>,
    /// Use SASL EXTERNAL: the user of a Unix socket or of the client certificate.
    external: bool,
}

impl TableSection for LdapText {
    const KEY: &'static str = "ldap";
    const SUMMARY: &'static str = "An LDAP directory.";
    const EXAMPLE: &'static str = "[[table]]\nldap = { servers = [\"ldap://127.0.0.1\"], … }";
    const IS_REMOTE: bool = true;
    const REQUESTS_MAX: u32 = 64;
    type Text = LdapText;

    fn read(text: LdapText, reader: &mut Reader<'_, '_>) -> Option<Arc<dyn TableSettings>> {
        reader.check_timeout("connect_timeout", &text.connect_timeout);
        reader.check_timeout("timeout", &text.timeout);
        let servers = text.servers(reader);
        let base = text.base(reader);
        let filter = text.filter(reader);
        if let (Some(base), Some(filter)) = (&base, &filter)
            && !base.has_parts()
            && !filter.has_parts()
        {
            let help = "put %s in place of the key, for example \"(mail=%s)\"";
            reader.error("filter", "the query does not depend on the key", help);
        }
        let attributes = names("attributes", &text.attributes, reader);
        if text.attributes.is_empty() {
            let help = "name the result attributes, for example attributes = [\"mail\"]";
            reader.error("", "a directory without `attributes`", help);
        }
        let members = names("members", &text.members, reader);
        let domains = text.domains(reader);
        let tls = text.tls(reader);
        let bind = text.bind(reader, &servers);
        text.check_start_tls(reader, &servers);
        let snapshot = text.snapshot(reader, base.as_ref(), filter.as_ref());
        Some(Arc::new(LdapSettings {
            servers,
            base: base?,
            scope: match text.scope {
                ScopeText::Sub => Scope::Sub,
                ScopeText::One => Scope::One,
                ScopeText::Base => Scope::Base,
            },
            filter: filter?,
            attributes,
            members,
            depth_max: text.max_depth,
            members_max: usize::try_from(text.max_members).unwrap_or(usize::MAX),
            domains,
            start_tls: text.start_tls,
            tls,
            bind,
            connect_timeout: text.connect_timeout.get(),
            timeout: text.timeout.get(),
            connections_max: usize::try_from(text.max_connections).unwrap_or(usize::MAX),
            results_max: usize::try_from(text.max_results).unwrap_or(usize::MAX),
            snapshot,
        }))
    }
}

impl LdapText {
    fn servers(&self, reader: &mut Reader<'_, '_>) -> Vec<LdapServer> {
        if self.servers.is_empty() {
            let help = "name the servers, for example servers = [\"ldap://127.0.0.1\"]";
            reader.error("", "a directory without `servers`", help);
        }
        let mut servers = Vec::with_capacity(self.servers.len());
        for (n, text) in self.servers.iter().enumerate() {
            match LdapServer::parse(text) {
                Ok(server) => servers.push(server),
                Err(reason) => {
                    let message = format!("\"{text}\" is not a directory server: {reason}");
                    let help = "write \"ldap://host\", \"ldaps://host:port\" or \"ldapi:///path\"";
                    reader.error(&format!("servers[{n}]"), message, help);
                }
            }
        }
        servers
    }

    fn base(&self, reader: &mut Reader<'_, '_>) -> Option<DnTemplate> {
        let Some(base) = &self.base else {
            let help = "name the search base, for example base = \"ou=people,dc=example,dc=org\"";
            reader.error("", "a directory without `base`", help);
            return None;
        };
        let parsed = DnTemplate::parse(base);
        if let Err(error) = &parsed {
            let help = "for example \"ou=people,dc=example,dc=org\" (RFC 4514)";
            reader.error("base", format!("\"{base}\" is not a name: {error}"), help);
        }
        parsed.ok()
    }

    fn filter(&self, reader: &mut Reader<'_, '_>) -> Option<Filter> {
        if self.filter.is_empty() {
            let help = "add a filter, for example filter = \"(mail=%s)\"";
            reader.error("", "a directory without `filter`", help);
            return None;
        }
        let parsed = Filter::parse(&self.filter);
        if let Err(error) = &parsed {
            let message = format!("\"{}\" is not a filter: {error}", self.filter);
            reader.error("filter", message, "for example \"(mail=%s)\" (RFC 4515)");
        }
        parsed.ok()
    }

    fn domains(&self, reader: &mut Reader<'_, '_>) -> Vec<Domain> {
        let mut domains = Vec::with_capacity(self.domains.len());
        for (n, text) in self.domains.iter().enumerate() {
            match Domain::parse(text) {
                Ok(domain) => domains.push(domain),
                Err(_) => {
                    let message = format!("\"{text}\" is not a domain");
                    reader.error(&format!("domains[{n}]"), message, "");
                }
            }
        }
        domains
    }

    fn tls(&self, reader: &mut Reader<'_, '_>) -> TlsSettings {
        let Some(tls) = &self.tls else { return TlsSettings::default() };
        let own = match (&tls.certificate_file, &tls.key_file) {
            (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
            (None, None) => None,
            (Some(_), None) => {
                reader.error("tls.certificate_file", "a certificate without `key_file`", "");
                None
            }
            (None, Some(_)) => {
                reader.error("tls.key_file", "a key without `certificate_file`", "");
                None
            }
        };
        for (key, file) in [
            ("ca_file", &tls.ca_file),
            ("certificate_file", &tls.certificate_file),
            ("key_file", &tls.key_file),
        ] {
            reader.named_file(&format!("tls.{key}"), file.as_deref());
        }
        TlsSettings { ca_file: tls.ca_file.clone(), own }
    }

    fn bind(&self, reader: &mut Reader<'_, '_>, servers: &[LdapServer]) -> Option<BindSettings> {
        let bind = self.bind.as_ref()?;
        if bind.external {
            if bind.dn.is_some() || bind.password.is_some() || bind.password_file.is_some() {
                let help = "the connection identifies the client: leave name and password out";
                reader.error("bind.external", "`external` excludes name and password", help);
            }
            return Some(BindSettings::External);
        }
        let Some(dn) = bind.dn.clone().filter(|dn| !dn.is_empty()) else {
            reader.error("bind", "a bind without `dn`", "add `dn`, or external = true");
            return None;
        };
        reader.named_file("bind.password_file", bind.password_file.as_deref());
        // An empty password is an anonymous bind, which succeeds (RFC 4513 §5.1.2).
        let password = match (&bind.password, &bind.password_file) {
            (Some(password), None) if !password.is_empty() => Secret::Here(password.clone()),
            (None, Some(file)) => Secret::File(file.clone()),
            (Some(_), Some(_)) => {
                let help = "keep one";
                reader.error("bind.password", "both `password` and `password_file` are set", help);
                return None;
            }
            _ => {
                let help = "add `password` or `password_file`";
                reader.error("bind", "a bind without a password", help);
                return None;
            }
        };
        let plain = servers.iter().find(|server| server.is_readable_by_others());
        if let Some(server) = plain.filter(|_| !self.start_tls) {
            let message = format!("the password would be sent to {server} unencrypted");
            reader.warn("bind", message, "set start_tls = true, or use ldaps://");
        }
        Some(BindSettings::Simple { dn, password })
    }

    fn snapshot(
        &self,
        reader: &mut Reader<'_, '_>,
        base: Option<&DnTemplate>,
        filter: Option<&Filter>,
    ) -> Option<SnapshotSettings> {
        reader.check_timeout("refresh", &self.refresh);
        if self.mode == ModeText::Live {
            if self.snapshot_path.is_some() {
                let help = "set mode = \"snapshot\", or leave it out";
                reader.error("snapshot_path", "a snapshot file without a snapshot", help);
            }
            return None;
        }
        let refresh = self.refresh.get();
        if !refresh.is_zero() && refresh < REFRESH_MIN {
            let message = format!("less than {REFRESH_MIN:?} between two reads");
            reader.error("refresh", message, "minutes are usual");
        }
        if base.is_some_and(DnTemplate::has_parts) {
            let help = "use the key only in the filter, or set mode = \"live\"";
            reader.error("base", "the base of a snapshot depends on the key", help);
        }
        if !self.members.is_empty() {
            let help = "add a separate table for groups, with mode = \"live\"";
            reader.error("members", "groups are not supported in a snapshot", help);
        }
        let keyed = Keyed::new(filter?).map_err(|why| {
            let message = format!("unsupported filter for a snapshot: {why}");
            let help = "compare attributes with the key, for example \"(|(mail=%s)(alias=%s))\", \
             or set mode = \"live\"";
            reader.error("filter", message, help);
        });
        reader.named_file("snapshot_path", self.snapshot_path.as_deref());
        let path = self.snapshot_path.clone();
        Some(SnapshotSettings { keyed: keyed.ok()?, refresh, path })
    }

    fn check_start_tls(&self, reader: &mut Reader<'_, '_>, servers: &[LdapServer]) {
        let plain = servers.iter().any(|server| matches!(server, LdapServer::Plain(_)));
        if self.start_tls && !plain && !servers.is_empty() {
            let help = "ldaps:// already uses TLS, and a Unix socket has none: leave it out";
            reader.error("start_tls", "no server has an `ldap://` URL", help);
        }
    }
}

/// The names of attributes in `key`, without options.
fn names(key: &str, written: &[String], reader: &mut Reader<'_, '_>) -> Vec<Box<str>> {
    for (n, name) in written.iter().enumerate() {
        let is_name = name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "-.;".contains(c));
        if !is_name {
            let message = format!("\"{name}\" is not an attribute name");
            reader.error(&format!("{key}[{n}]"), message, "for example \"mail\"");
        }
    }
    written.iter().map(|name| name.as_str().into()).collect()
}
