//! The configuration of a new server.

use super::new_server::{CertificateSource, NewServer, PasswordSource, Role, SmarthostLogin};
use crate::cli::{InitArgs, ServerKind};
use config::{HostPort, IpNet};
use std::path::{Path, PathBuf};

/// The file of the configuration.
pub(super) const CONFIGURATION: &str = "postrider.toml";
/// The selector of the signing key.
pub(super) const SELECTOR: &str = "s1";

/// The directories of a new server, absolute.
pub(super) struct Places {
    /// For the configuration and its files.
    pub(super) out: PathBuf,
    pub(super) spool: PathBuf,
    /// For mailboxes.
    pub(super) mail: PathBuf,
    /// Socket of the `local` listener.
    socket: Option<PathBuf>,
}

/// Socket that `sendmail` uses without a configuration.
const SOCKET: &str = "/run/postrider/submit.sock";

impl Places {
    /// # Errors
    /// Returns a path that a configuration cannot contain.
    pub(super) fn of(args: &InitArgs) -> Result<Places, String> {
        let absolute = |path: &Path| {
            let whole = std::path::absolute(path)
                .map_err(|error| format!("{}: {error}", path.display()))?;
            match whole.to_str() {
                // The placeholders of Maildir paths.
                Some(text) if !text.contains(['{', '}']) => Ok(whole),
                _ => Err(format!("{}: the path has a brace, or is not UTF-8", path.display())),
            }
        };
        let of_kind = (args.kind == Some(ServerKind::Local)).then_some(Path::new(SOCKET));
        let socket = args.socket.as_deref().or(of_kind);
        Ok(Places {
            out: absolute(&args.out)?,
            spool: absolute(&args.spool)?,
            mail: absolute(&args.mail)?,
            socket: socket.map(absolute).transpose()?,
        })
    }

    pub(super) fn configuration(&self) -> PathBuf {
        self.out.join(CONFIGURATION)
    }

    pub(super) fn smarthost_password(&self) -> PathBuf {
        self.out.join("smarthost.password")
    }

    /// A file of the configuration, as a TOML string.
    fn file(&self, name: &str) -> String {
        quoted(&self.out.join(name))
    }
}

/// A path as a TOML string. JSON's strings are TOML's, but for DEL.
fn quoted(path: &Path) -> String {
    text_of(&path.to_string_lossy())
}

fn text_of(text: &str) -> String {
    serde_json::json!(text).to_string().replace('\u{7f}', "\\u007f")
}

/// The whole file.
pub(super) fn text(server: &NewServer, places: &Places) -> String {
    match &server.role {
        Role::MailHost { certificate, .. } => mail_host(server, places, certificate),
        Role::Sender { certificate, .. } => sender(server, places, certificate),
        Role::Relay { smarthost, login, networks } => {
            relay(server, places, (smarthost, login.as_ref(), networks))
        }
        Role::Local => machine(server, places),
    }
}

/// The keys that every server has. `postmaster` is the address for mail about this server.
fn head(server: &NewServer, places: &Places, postmaster: &str) -> String {
    let (hostname, spool) = (&server.hostname, quoted(&places.spool));
    let shaping = match server.role {
        Role::Sender { .. } | Role::Local => {
            "shaping = [\"builtin\"]                # the pace of large providers\n"
        }
        _ => "",
    };
    let user = server.account.as_deref().map_or(String::new(), |user| {
        format!("user = {:<30}# after the start; docs/privileges.md\n", text_of(user))
    });
    [
        format!("hostname = \"{hostname}\"\n{user}postmaster = \"{postmaster}\"\n{shaping}"),
        format!("\n[spool]\npath = {spool}\n"),
        "\n[admin]                              # metrics and health checks, for this machine\n"
            .to_owned(),
        "address = \"127.0.0.1:8025\"\n".to_owned(),
        "\n[events]                             # events.jsonl in the spool directory\n".to_owned(),
        "rotate_bytes = \"500MiB\"\n".to_owned(),
    ]
    .concat()
}

fn certificate(server: &NewServer, source: &CertificateSource, postmaster: &str) -> String {
    let hostname = &server.hostname;
    match source {
        CertificateSource::Acme => format!(
            "\n[acme]                               # Let's Encrypt, which connects to port 80\n\
             contact = \"{postmaster}\"\n\
             terms_agreed = true\n\n\
             [[certificate]]\n\
             names = [\"{hostname}\"]\n\
             acme = true\n"
        ),
        CertificateSource::Files { chain, key } => format!(
            "\n[[certificate]]\n\
             names = [\"{hostname}\"]\n\
             chain = {}\n\
             key = {}\n",
            from_anywhere(chain),
            from_anywhere(key),
        ),
    }
}

/// A path that does not depend on the working directory.
fn from_anywhere(path: &Path) -> String {
    quoted(&std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
}

/// Users with their logins on ports 587 and 465.
fn submission(more: &str) -> String {
    let listener = |name: &str, port: u16, tls: &str, comment: &str| {
        [
            format!("\n[[listener]]                         # {comment}\n"),
            format!("name = \"{name}\"\nkind = \"submission\"\n"),
            format!("address = \"0.0.0.0:{port}\"\ntls = \"{tls}\"\n"),
            "logins = { table = \"passwords\" }\nsenders = { table = \"users\" }\n".to_owned(),
            "authors = \"senders\"                  # From as well\n".to_owned(),
            format!("hide_client = true\n{more}"),
        ]
        .concat()
    };
    listener("submission", 587, "starttls", "users")
        + &listener("submissions", 465, "implicit", "users, with TLS from the start")
}

/// Limits of each login.
fn limit(messages: &str, recipients: &str) -> String {
    format!(
        "\n[[limit]]                            # of each login: a stolen password sends no more\n\
         by = \"login\"\n\
         messages = \"{messages}\"\n\
         recipients = {recipients}\n"
    )
}

fn table(name: &str, places: &Places, comment: &str) -> String {
    let path = places.file(name);
    format!(
        "\n[[table]]                            # {comment}\n\
         name = \"{name}\"\n\
         file = {{ path = {path} }}\n"
    )
}

/// Programs on this machine, and in these networks.
fn local(
    places: &Places,
    (address, networks): (&str, &[IpNet]),
    comment: &str,
    more: &str,
) -> String {
    let networks = networks.iter().map(|network| format!(", \"{network}\""));
    let networks: String = networks.collect();
    format!(
        "\n[[listener]]                         # {comment}\n\
         name = \"local\"\n\
         address = \"{address}\"\n\
         relay_from = [\"127.0.0.0/8\"{networks}]\n\
         add_missing_fields = true\n\
         remove_bcc = true\n\
         {more}"
    ) + &sendmail(places, more)
}

/// Programs that run `sendmail`.
fn sendmail(places: &Places, more: &str) -> String {
    let Some(socket) = &places.socket else { return String::new() };
    let socket = quoted(socket);
    format!(
        "\n[[listener]]                         # sendmail(1), for cron and scripts\n\
         name = \"sendmail\"\n\
         kind = \"local\"\n\
         socket = {socket}\n\
         trusted = [\"root\", \"www-data\"]       # may name another sender\n\
         {more}"
    )
}

fn signer(server: &NewServer, places: &Places) -> String {
    let (domain, key) = (&server.domain, places.file(&format!("{SELECTOR}.pem")));
    format!(
        "\n[[signer]]                           # DKIM\n\
         domains = [\"{domain}\", \"*.{domain}\"]\n\
         selector = \"{SELECTOR}\"\n\
         key = {key}\n"
    )
}

/// Other servers, and the checks of their mail.
const EXTERNAL: [&str; 5] = [
    "\n[[listener]]                         # other servers; for IPv6 another one at [::]:25\n",
    "name = \"mx\"\naddress = \"0.0.0.0:25\"\n",
    "\n[listener.checks]                    # docs/checks.md: DNS lists, greylisting\n",
    "own_domains = \"reject\"\nsender_domain = \"reject\"\nclient_name = \"mark\"\n",
    "spf = \"mark\"\ndkim = \"mark\"\ndmarc = \"reject\"\narc = \"mark\"\n",
];

fn mail_host(server: &NewServer, places: &Places, source: &CertificateSource) -> String {
    let NewServer { domain, hostname, .. } = server;
    let login = server.login().unwrap_or_default();
    let (secret, path) = (places.file("srs.secret"), quoted(&places.mail.join("{domain}/{local}")));
    [
        format!(
            "# The mail host of {domain}, written by `postrider init`. Comments name the next steps;\n\
             # docs/config.md has every key.\n"
        ),
        head(server, places, &login),
        certificate(server, source, &login),
        EXTERNAL.concat(),
        submission(""),
        limit("200/h", "[\"1_000/d\", \"300/h\"]"),
        local(places, ("127.0.0.1:2525", &[]), "programs on this machine", ""),
        table("passwords", places, "a line for each user"),
        table("users", places, "a line for each mailbox"),
        table("aliases", places, "other addresses, and lists"),
        format!(
            "\n[srs]                                # senders of forwarded mail\n\
             domain = \"{hostname}\"\n\
             secret_file = {secret}\n"
        ),
        signer(server, places),
        format!(
            "\n[[route]]\n\
             name = \"mailboxes\"\n\
             domains = [\"{domain}\"]\n\
             recipients = {{ table = \"users\" }}\n\
             aliases = {{ table = \"aliases\" }}\n\
             maildir = {{ path = {path}, folders = \"tag\" }}\n"
        ),
        OUT.to_owned(),
    ]
    .concat()
}

/// The route of mail to other domains.
const OUT: &str = "\n[[route]]                            # all other domains\n\
                   name = \"out\"\n\
                   mx = { refuse_private = true }\n";

fn sender(server: &NewServer, places: &Places, source: &CertificateSource) -> String {
    let domain = &server.domain;
    let postmaster = format!("postmaster@{domain}");
    let signed = "unsigned = \"refuse\"                  # only mail of this domain\n";
    [
        format!(
            "# Sends mail of {domain}, written by `postrider init`. docs/sending.md describes several\n\
             # addresses, tenants and pace; docs/config.md has every key.\n"
        ),
        head(server, places, &postmaster),
        certificate(server, source, &postmaster),
        submission(signed),
        limit("2_000/h", "\"20_000/d\""),
        local(places, ("127.0.0.1:25", &[]), "programs on this machine", signed),
        table("passwords", places, "a line for each application"),
        table("users", places, "senders of each application"),
        signer(server, places),
        OUT.to_owned(),
    ]
    .concat()
}

fn relay(
    server: &NewServer,
    places: &Places,
    (smarthost, login, networks): (&HostPort, Option<&SmarthostLogin>, &[IpNet]),
) -> String {
    let domain = &server.domain;
    let address = if networks.is_empty() { "127.0.0.1:25" } else { "0.0.0.0:25" };
    let login = login.map_or(String::new(), |SmarthostLogin { user, password }| {
        let file = match password {
            PasswordSource::File(path) => from_anywhere(path),
            PasswordSource::Typed(_) => quoted(&places.smarthost_password()),
        };
        format!(", login = {{ user = {}, password_file = {file} }}", text_of(user))
    });
    // RFC 8314 §3.3: TLS from the start on port 465.
    let start = if smarthost.port == 465 { ", tls_start = \"implicit\"" } else { "" };
    [
        format!(
            "# A relay for machines of {domain}, written by `postrider init`. The smarthost signs.\n\
             # docs/config.md has every key.\n"
        ),
        head(server, places, &format!("postmaster@{domain}")),
        local(
            places,
            (address, networks),
            "programs on this machine; networks may follow",
            "",
        ),
        format!(
            "\n[[route]]                            # all mail\n\
             name = \"smarthost\"\n\
             smtp = {{ hosts = [\"{smarthost}\"], tls = \"verified\"{start}, max_connections = 5{login} }}\n"
        ),
    ]
    .concat()
}

/// Only for programs of the machine. Its domain is the machine's name.
fn machine(server: &NewServer, places: &Places) -> String {
    let domain = &server.domain;
    let path = quoted(&places.mail.join("{local}"));
    let also = if domain == "localhost" { "" } else { ", \"localhost\"" };
    [
        format!(
            "# Mail of {domain}, written by `postrider init`. Takes mail from programs of this machine\n\
             # only. docs/install.md names the next steps; docs/config.md has every key.\n"
        ),
        head(server, places, &format!("postmaster@{domain}")),
        local(places, ("127.0.0.1:25", &[]), "programs on this machine", ""),
        table("aliases", places, "the reader of root's mail"),
        format!(
            "\n[[route]]                            # mail to this machine\n\
             name = \"mailboxes\"\n\
             domains = [\"{domain}\"{also}]\n\
             aliases = {{ table = \"aliases\" }}\n\
             maildir = {{ path = {path} }}\n"
        ),
        OUT.to_owned(),
    ]
    .concat()
}
