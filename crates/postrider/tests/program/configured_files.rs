//! Every key of the configuration that names a file, and what comes of a file that does not answer, or can't be read.

use crate::hanging_files::{AT_ONCE, all_else_goes_on, pipe, release};
use crate::support::certificate::{EC, make_certificate};
use crate::support::client::Client;
use crate::support::server::{CONFIG, Server, control, program};
use crate::support::tool::free_port;
use crate::support::{Files, config, wait_until};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

/// Keys whose file is read by the start and by each reload, and sections that name `pipe` there; what of them is a
/// top-level key goes first.
pub(crate) const READ: [(&[&str], &str, &str); 22] = [
    (&["table.file.path"], "", "[[table]]\nname = \"t\"\nfile = { path = \"pipe\" }\n"),
    (&["table.cidr.path"], "", "[[table]]\nname = \"t\"\ncidr = { path = \"pipe\" }\n"),
    (&["table.pcre.path"], "", "[[table]]\nname = \"t\"\npcre = { path = \"pipe\" }\n"),
    (&["table.regexp.path"], "", "[[table]]\nname = \"t\"\nregexp = { path = \"pipe\" }\n"),
    (&["table.database.path"], "", "[[table]]\nname = \"t\"\ndatabase = { path = \"pipe\" }\n"),
    (
        &["table.ldap.snapshot_path"],
        "",
        "[[table]]\nname = \"t\"\nldap = { mode = \"snapshot\", servers = [\"ldap://127.0.0.1:1\"], base = \"dc=x\", \
         filter = \"(mail=%s)\", attributes = [\"cn\"], snapshot_path = \"pipe\" }\n",
    ),
    (
        &["certificate.chain"],
        "",
        "[[certificate]]\nnames = [\"x.test\"]\nchain = \"pipe\"\nkey = \"mx.key\"\n",
    ),
    (
        &["certificate.key"],
        "",
        "[[certificate]]\nnames = [\"x.test\"]\nchain = \"mx.pem\"\nkey = \"pipe\"\n",
    ),
    (
        &["listener.client_certificates.authorities"],
        "",
        "client_certificates = { authorities = \"pipe\", relay = true }\n\
         [[certificate]]\nnames = [\"x.test\"]\nchain = \"mx.pem\"\nkey = \"mx.key\"\n",
    ),
    (
        &["listener.seal.key"],
        "",
        "checks = { arc = \"mark\" }\nseal = { domain = \"x.test\", selector = \"s\", key = \"pipe\" }\n",
    ),
    (&["signer.key"], "", "[[signer]]\ndomains = [\"x.test\"]\nselector = \"s\"\nkey = \"pipe\"\n"),
    (
        &["signer.next.key"],
        "",
        "[[signer]]\ndomains = [\"x.test\"]\nselector = \"s\"\nkey = \"dkim.key\"\n\
         next = { selector = \"t\", key = \"pipe\", from = \"2026-01-01T00:00:00Z\" }\n",
    ),
    (&["srs.secret_file"], "", "[srs]\ndomain = \"srs.test\"\nsecret_file = \"pipe\"\n"),
    (&["classes.files"], "", "[classes]\nfiles = [\"pipe\"]\n"),
    (&["shaping"], "shaping = [\"pipe\"]\n", ""),
    (
        &[
            "route.smtp.login.password_file",
            "route.lmtp.login.password_file",
            "route.mx.login.password_file",
        ],
        "",
        "[[route]]\ndomains = [\"y.test\"]\nsmtp = { hosts = [\"127.0.0.1:9\"], tls = \"required\", \
         login = { user = \"u\", password_file = \"pipe\" } }\n",
    ),
    (
        &[
            "route.smtp.login.token_file",
            "route.lmtp.login.token_file",
            "route.mx.login.token_file",
        ],
        "",
        "[[route]]\ndomains = [\"y.test\"]\nsmtp = { hosts = [\"127.0.0.1:9\"], tls = \"required\", \
         login = { user = \"u\", token_file = \"pipe\" } }\n",
    ),
    (
        &["x400.peer.their_password_file"],
        "",
        "[x400]\nmta = \"m\"\ndomain = \"/PRMD=A/ADMD= /C=GB/\"\n[[x400.peer]]\nname = \"p\"\ntheir_name = \"m2\"\n\
         their_password_file = \"pipe\"\nour_password = \"x\"\n",
    ),
    (
        &["x400.peer.our_password_file"],
        "",
        "[x400]\nmta = \"m\"\ndomain = \"/PRMD=A/ADMD= /C=GB/\"\n[[x400.peer]]\nname = \"p\"\ntheir_name = \"m2\"\n\
         our_password_file = \"pipe\"\ntheir_password = \"x\"\n",
    ),
    (
        &["x400.gateway.mcgam"],
        "",
        "[x400]\nmta = \"m\"\ndomain = \"/PRMD=A/ADMD= /C=GB/\"\n\
         gateway = { address = \"/O=gw/PRMD=A/ADMD= /C=GB/\", domain = \"gw.test\", mcgam = \"pipe\" }\n",
    ),
    (
        &["x400.gateway.gateways"],
        "",
        "[x400]\nmta = \"m\"\ndomain = \"/PRMD=A/ADMD= /C=GB/\"\n\
         gateway = { address = \"/O=gw/PRMD=A/ADMD= /C=GB/\", domain = \"gw.test\", gateways = \"pipe\" }\n",
    ),
    (
        &["acme.ca_file", "acme.external_account.key_file"],
        "",
        "[acme]\ndirectory = \"https://127.0.0.1:1/\"\nterms_agreed = true\naddress = \"127.0.0.1:0\"\n\
         external_account = { key_id = \"k\", key_file = \"pipe\" }\nca_file = \"mx.pem\"\n\
         [[certificate]]\nnames = [\"x.test\"]\nacme = true\n",
    ),
];

/// Keys whose file is read when it is needed, sections that name `pipe` there and the port of a server that takes
/// connections (`PORT`), and how it comes to be needed.
const USED: [(&[&str], &str, Need); 8] = [
    (
        &["table.redis.password_file"],
        "[[table]]\nname = \"t\"\nredis = { server = \"redis://127.0.0.1:PORT/0\", key = \"%s\", password_file = \"pipe\" }\n",
        Need::Lookup,
    ),
    (
        &["table.ldap.bind.password_file"],
        "[[table]]\nname = \"t\"\nldap = { servers = [\"ldap://127.0.0.1:PORT\"], base = \"dc=x\", filter = \"(mail=%s)\", \
         attributes = [\"cn\"], bind = { dn = \"cn=x\", password_file = \"pipe\" } }\n",
        Need::Lookup,
    ),
    (
        &["table.ldap.tls.ca_file"],
        "[[table]]\nname = \"t\"\nldap = { servers = [\"ldaps://127.0.0.1:PORT\"], base = \"dc=x\", filter = \"(mail=%s)\", \
         attributes = [\"cn\"], tls = { ca_file = \"pipe\" } }\n",
        Need::Lookup,
    ),
    (
        &["table.ldap.tls.certificate_file", "table.ldap.tls.key_file"],
        "[[table]]\nname = \"t\"\nldap = { servers = [\"ldaps://127.0.0.1:PORT\"], base = \"dc=x\", filter = \"(mail=%s)\", \
         attributes = [\"cn\"], tls = { certificate_file = \"pipe\", key_file = \"pipe\" } }\n",
        Need::Lookup,
    ),
    (
        &[
            "route.smtp.login.oauth.client_secret_file",
            "route.lmtp.login.oauth.client_secret_file",
            "route.mx.login.oauth.client_secret_file",
        ],
        "[[route]]\ndomains = [\"y.test\"]\nsmtp = { hosts = [\"127.0.0.1:9\"], tls = \"required\", login = { user = \"u\", \
         oauth = { url = \"https://127.0.0.1:PORT/t\", client_id = \"c\", client_secret_file = \"pipe\" } } }\n",
        Need::Nothing,
    ),
    (
        &[
            "route.smtp.login.oauth.refresh_token_file",
            "route.lmtp.login.oauth.refresh_token_file",
            "route.mx.login.oauth.refresh_token_file",
        ],
        "[[route]]\ndomains = [\"y.test\"]\nsmtp = { hosts = [\"127.0.0.1:9\"], tls = \"required\", login = { user = \"u\", \
         oauth = { url = \"https://127.0.0.1:PORT/t\", client_id = \"c\", refresh_token_file = \"pipe\" } } }\n",
        Need::Nothing,
    ),
    (
        &[
            "route.smtp.login.oauth.ca_file",
            "route.lmtp.login.oauth.ca_file",
            "route.mx.login.oauth.ca_file",
        ],
        "[[route]]\ndomains = [\"y.test\"]\nsmtp = { hosts = [\"127.0.0.1:9\"], tls = \"required\", login = { user = \"u\", \
         oauth = { url = \"https://127.0.0.1:PORT/t\", client_id = \"c\", client_secret_file = \"secret\", ca_file = \"pipe\" } } }\n",
        Need::Nothing,
    ),
    (
        &["listener.logins.introspection.secret_file", "listener.logins.introspection.ca_file"],
        "[[certificate]]\nnames = [\"x.test\"]\nchain = \"mx.pem\"\nkey = \"mx.key\"\n\
         [[listener]]\nname = \"submission\"\nkind = \"submission\"\naddress = \"127.0.0.1:0\"\nmechanisms = [\"oauthbearer\"]\n\
         logins = { introspection = { url = \"https://127.0.0.1:PORT/i\", client_id = \"c\", secret_file = \"pipe\" } }\n",
        Need::Login,
    ),
];

/// Keys of files and directories that have tests of their own.
const ELSEWHERE: [(&str, &str); 10] = [
    ("alerts.webhook.ca_file", "read aside for each request (alerts.rs)"),
    ("route.pipe.command", "missing_programs_and_users_are_reported"),
    ("events.path", "an_event_log_that_hangs_is_seen_and_holds_up_neither_mail_nor_a_stop"),
    ("spool.path", "a_start_whose_disk_hangs_says_so_and_heeds_signals"),
    ("spool.paths", "a_start_whose_disk_hangs_says_so_and_heeds_signals"),
    ("route.maildir.path", "a_disk_that_does_not_answer_stops_what_lies_on_it_alone"),
    ("reports.directory", "a_disk_that_does_not_answer_stops_what_lies_on_it_alone"),
    ("route.include", "what is read there is no pipe, is read aside, and is a problem (lists.rs)"),
    ("table.sql.password_file", "read as redis reads it, where the program has databases"),
    ("table.sql.tls.ca_file", "the same"),
];

/// Texts of the configuration that speak of files and name none.
const NO_FILES: [&str; 26] = [
    "acme.directory",
    "admin.control",
    "listener.drop",
    "listener.socket",
    "listener.logins.dovecot",
    "listener.logins.ldap",
    "listener.milters",
    "listener.milters.address",
    "policy.service",
    "postmaster",
    "recipient_delimiter",
    "route.lmtp.hosts",
    "route.maildir.group",
    "route.maildir.junk.folder",
    "route.maildir.user",
    "route.or_addresses",
    "table.call_ahead.route",
    "table.ldap.base",
    "table.ldap.servers",
    "table.redis.server",
    "table.socketmap.server",
    "table.sql.url",
    "table.tcp.server",
    "route.maildir.quota",
    "events.headers",
    "table.redis.key",
];

/// What has a file read.
#[derive(Clone, Copy)]
enum Need {
    /// The start.
    Nothing,
    Lookup,
    Login,
}

/// Whether a text of the configuration is about a file, by its name and its description.
fn is_about_a_file(name: &str, description: &str) -> bool {
    let words = ["file", "directory", "directories", "PEM", "Maildir", "path"];
    let of_name = ["file", "files", "path", "paths", "chain", "key"];
    words.iter().any(|word| description.contains(word))
        || of_name.iter().any(|end| name == *end || name.ends_with(&format!("_{end}")))
}

/// Texts, and lists of them, of a schema that are about files, as `section.key`.
fn keys_about_files(schema: &Value) -> BTreeSet<String> {
    fn walk<'s>(
        (schema, node): (&'s Value, &'s Value),
        path: &str,
        above: &[&'s str],
        found: &mut BTreeSet<String>,
    ) {
        if let Some(name) = node["$ref"].as_str().and_then(|name| name.rsplit('/').next()) {
            if !above.contains(&name) {
                let above: Vec<&str> = above.iter().copied().chain([name]).collect();
                walk((schema, &schema["$defs"][name]), path, &above, found);
            }
            return;
        }
        let ways = ["anyOf", "oneOf", "allOf"];
        let parts = ways.iter().filter_map(|way| node[way].as_array()).flatten();
        parts.chain(node.get("items")).for_each(|part| walk((schema, part), path, above, found));
        for (name, of) in node["properties"].as_object().into_iter().flatten() {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            let kinds = of["type"].to_string() + &of["anyOf"].to_string();
            let is_text = kinds.contains("string") || kinds.contains("array");
            let description = of["description"].as_str().unwrap_or_default();
            if is_text && is_about_a_file(name, description) {
                found.insert(path.clone());
            }
            walk((schema, of), &path, above, found);
        }
    }
    let mut found = BTreeSet::new();
    walk((schema, schema), "", &[], &mut found);
    found
}

#[test]
fn every_key_that_names_a_file_has_its_test() {
    let files = Files::new();
    let answer = program(files.dir(), &["config", "schema"]);
    let schema: Value = serde_json::from_str(&answer.out).expect("a schema");
    let read = READ.iter().flat_map(|(keys, ..)| keys.iter());
    let used = USED.iter().flat_map(|(keys, ..)| keys.iter());
    let elsewhere = ELSEWHERE.iter().map(|(key, _)| key);
    let known: BTreeSet<String> =
        read.chain(used).chain(elsewhere).chain(&NO_FILES).map(|key| (*key).to_owned()).collect();
    let found = keys_about_files(&schema);
    let forgotten: Vec<_> = found.difference(&known).collect();
    assert!(forgotten.is_empty(), "{forgotten:#?}");
    assert!(found.len() > 40, "{found:?}");
}

/// What rows name beside the pipe.
pub(crate) fn make_files(files: &Files) {
    make_certificate(files.dir(), "mx", EC, &["x.test"]);
    files.write("secret", "secret\n");
    for name in ["secret", "mx.key"] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(files.path(name), mode).expect("a file");
    }
    let dkim = ["dkim", "new", "--out", "dkim.key", "x.test", "s"];
    let made = program(files.dir(), &dkim);
    assert!(files.path("dkim.key").exists(), "{made:?}");
}

/// A configuration with a row of [`READ`].
pub(crate) fn with(plain: &str, (first, rest): (&str, &str)) -> String {
    // Keys of the listener go to the end of its section.
    match rest.starts_with('[') || rest.is_empty() {
        true => format!("{first}{plain}{rest}"),
        false => {
            let (keys, sections) = rest.split_once("\n[").unwrap_or((rest.trim_end(), ""));
            let sections = if sections.is_empty() { String::new() } else { format!("[{sections}") };
            let text = plain.replacen("relay_from", &format!("{keys}\nrelay_from"), 1);
            format!("{first}{text}{sections}")
        }
    }
}

#[test]
fn a_reload_with_a_file_that_can_not_be_read_names_it_and_changes_nothing() {
    let files = Files::new();
    make_files(&files);
    let plain = config("[[route]]\ndomains = [\"far.test\"]\ndiscard = {}\n");
    let server = Server::start(&files, &plain);
    fs::create_dir(files.path("pipe")).expect("room");
    for (keys, first, rest) in READ {
        files.write(CONFIG, &with(&plain, (first, rest)));
        let reload = server.command(&["reload"]);
        let told = format!("{}{}", reload.out, reload.err);
        // What is only a copy is made anew.
        let is_copy = keys.contains(&"table.ldap.snapshot_path");
        assert_eq!(reload.code, i32::from(!is_copy), "{keys:?}: {told}");
        assert!(is_copy || told.contains("pipe"), "{keys:?}: {told}");
        all_else_goes_on(&server, || server.command(&["status"]), &format!("{keys:?}"));
        files.write(CONFIG, &plain);
        assert_eq!(server.command(&["reload"]).code, 0);
    }
    server.stop();
}

/// Has somebody try to log in whose token is asked for.
fn log_in(server: &Server) {
    let at = server.addresses[1].to_string();
    let script = "import smtplib, sys, threading\n\
                  s = smtplib.SMTP(*sys.argv[1].split(':')); s.ehlo()\n\
                  import ssl\n\
                  c = ssl.create_default_context(); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE\n\
                  s.starttls(context=c); s.ehlo(); s.sock.settimeout(1)\n\
                  s.putcmd('AUTH', 'OAUTHBEARER bixhPW1lLAFhdXRoPUJlYXJlciB4AQE=')\n\
                  try: s.getreply()\n\
                  except Exception: pass\n";
    let words = ["-c", script, &at];
    let ran = std::process::Command::new("/usr/bin/python3").args(words).output();
    let ran = ran.expect("python");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn a_file_that_hangs_when_it_is_needed_is_named_and_stops_nothing_else() {
    let peer = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = peer.local_addr().expect("it is bound").port().to_string();
    let port = port.as_str();
    thread::scope(|scope| {
        for (keys, rest, need) in USED {
            scope.spawn(move || {
                one_file_hangs(&format!("{keys:?}"), &rest.replace("PORT", port), need)
            });
        }
    });
}

/// Has the file needed.
fn need_it(server: &Server, files: &Files, need: Need) {
    match need {
        Need::Nothing => {}
        Need::Login => log_in(server),
        Need::Lookup => {
            // It waits as long as it likes.
            let dir = files.dir().to_owned();
            thread::spawn(move || control(&dir, &["table", "get", "t", "a@x.test"]));
        }
    }
}

fn one_file_hangs(what: &str, rest: &str, need: Need) {
    let files = Files::new();
    make_files(&files);
    pipe(&files, "pipe");
    let plain = config("[[route]]\ndomains = [\"far.test\"]\ndiscard = {}\n");
    // Whose driver lives where all such drivers do.
    let other = format!(
        "[[table]]\nname = \"other\"\ntcp = {{ server = \"127.0.0.1:{}\" }}\n",
        free_port()
    );
    let text = format!("{plain}{other}{rest}");
    let mut server = Server::start(&files, &text);
    need_it(&server, &files, need);
    thread::sleep(Duration::from_millis(300));
    all_else_goes_on(&server, || server.command(&["status"]), what);
    let begun = Instant::now();
    let found = server.command(&["table", "get", "other", "k"]);
    assert!(begun.elapsed() < AT_ONCE, "{what}: {:?}: {found:?}", begun.elapsed());
    wait_until(&format!("{what}: the file is named"), || {
        server.command(&["status"]).out.contains("pipe has not responded")
    });
    let begun = Instant::now();
    server.signal(Signal::TERM);
    // Whoever waits for it waits as the process ends: until then the file is open.
    assert!(server.wait().success(), "{what}");
    assert!(begun.elapsed() < AT_ONCE, "{what}: {:?}", begun.elapsed());
    // That it was read at all: with somebody who writes there, the next start reads it.
    let mut server = Server::start(&files, &text);
    need_it(&server, &files, need);
    wait_until(&format!("{what}: somebody reads the file"), || release(&files, "pipe"));
    drop(Client::connect(server.address()));
    server.signal(Signal::KILL);
    server.wait();
}
