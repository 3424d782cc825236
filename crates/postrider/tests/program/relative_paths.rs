//! Paths that are not absolute start where the server was started, whoever asks it to read them again, and from
//! wherever.

use crate::support::Files;
use crate::support::certificate::{EC, make_certificate};
use crate::support::server::{CONFIG, Server, command, program};
use crate::support::tool::free_port;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

/// The files that a configuration names, each by a path that is not absolute. `{spool}` is one that is: commands
/// find the socket by it.
const TEXT: &str = r#"
hostname = "relay.test"
shaping = ["f/shaping.toml"]
[spool]
path = "{spool}"
[events]
path = "f/events.jsonl"
[classes]
files = ["f/classes.toml"]
[srs]
domain = "srs.test"
secret_file = "f/secret"
[[certificate]]
names = ["relay.test"]
chain = "f/relay.pem"
key = "f/relay.key"
[[signer]]
domains = ["ours.test"]
selector = "s"
key = "f/dkim.pem"
[x400]
mta = "relay"
domain = "/PRMD=P/ADMD= /C=GB/"
gateway = { address = "/O=gw/PRMD=P/ADMD= /C=GB/", domain = "gw.test", mcgam = "f/mcgam", gateways = "f/gateways" }
[[x400.peer]]
name = "hub"
hosts = ["127.0.0.1:{port}"]
t_selector = "591"
their_name = "hub"
their_password_file = "f/secret"
our_name = "relay"
our_password_file = "f/secret"
[[listener]]
name = "in"
address = "127.0.0.1:0"
client_certificates = { authorities = "f/relay.pem" }
[[table]]
name = "users"
file = { path = "f/users" }
[[route]]
domains = ["ours.test"]
recipients = { table = "users" }
maildir = { path = "mail/{local}" }
[[route]]
domains = ["gw.test"]
x400 = { peer = "hub" }
[[route]]
smtp = { hosts = ["127.0.0.1:{port}"], tls = "required", login = { user = "us", password_file = "f/secret" } }
"#;

#[test]
fn check_serve_and_reload_read_the_same_files_from_wherever_they_are_called() {
    let (files, elsewhere) = (Files::new(), Files::new());
    fs::create_dir(files.path("f")).expect("a directory");
    make_certificate(&files.path("f"), "relay", EC, &["relay.test"]);
    for (name, text) in [
        ("f/shaping.toml", "[default]\nmax_connections = 7\n"),
        ("f/classes.toml", "5xx x.7.1 * policy/technical so it is\n"),
        ("f/secret", "0123456789abcdef0123456789abcdef\n"),
        ("f/mcgam", "PRMD$P.ADMD$ .C$GB#p.test#\n"),
        ("f/gateways", ""),
        ("f/users", "jo@ours.test x\n"),
    ] {
        files.write(name, text);
    }
    let made = program(&files.path("f"), &["dkim", "new", "ours.test", "s", "--out", "dkim.pem"]);
    assert_eq!(made.code, 0, "{made:?}");
    for name in ["f/secret", "f/relay.key"] {
        let private = fs::Permissions::from_mode(0o600);
        fs::set_permissions(files.path(name), private).expect("a file of ours");
    }
    let text = TEXT.replace("{spool}", &files.path("spool").display().to_string());
    let config = files.write(CONFIG, &text.replace("{port}", &free_port().to_string()));
    let checked = command(files.dir(), &["check"]);
    assert_eq!(checked.code, 0, "{checked:?}");
    let server = Server::start_again(&files);
    let config = config.display().to_string();
    let reloaded = program(elsewhere.dir(), &["reload", "--config", &config]);
    assert_eq!(reloaded.code, 0, "{reloaded:?}");
    // Each is read where the server was started, and nowhere else.
    for name in ["f/shaping.toml", "f/classes.toml", "f/mcgam", "f/gateways", "f/dkim.pem"] {
        fs::rename(files.path(name), files.path("away")).expect("a file of ours");
        for asked in [
            program(elsewhere.dir(), &["reload", "--config", &config]),
            command(files.dir(), &["reload"]),
        ] {
            assert!(asked.code != 0 && asked.err.contains(name), "{name}: {asked:?}");
        }
        fs::rename(files.path("away"), files.path(name)).expect("a file of ours");
    }
    let reloaded = program(elsewhere.dir(), &["reload", "--config", &config]);
    assert_eq!(reloaded.code, 0, "{reloaded:?}");
    server.stop();
}
