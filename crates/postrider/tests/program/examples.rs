//! Every configuration in `examples/` starts, as it is but for ports and directories.

use crate::support::certificate::{EC, make_certificate};
use crate::support::server::{CONFIG, Server, command, program};
use crate::support::tool::free_port;
use crate::support::{Files, config};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The directories that examples name, which only a package may use.
const DIRECTORIES: [&str; 3] = ["/var/spool/postrider", "/srv/mail", "/var/log/postrider"];

/// The example with ports that are free here, each of its own the same wherever it stands, and with
/// directories of the test's.
fn made_startable(text: &str, directory: &Path) -> String {
    let mut ports = BTreeMap::new();
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut line = line.to_owned();
        if let Some((before, port)) = address_of(&line) {
            let free = *ports.entry(port.to_owned()).or_insert_with(free_port);
            line = format!("{before}:{free}\"");
        }
        for path in DIRECTORIES {
            let name = path.rsplit('/').next().expect("a name");
            line = line.replace(path, &format!("{}/{name}", directory.join("d").display()));
        }
        // A quiet server would not say that it serves.
        lines.push(line.replace("level = \"warn\"", "level = \"info\""));
    }
    lines.join("\n")
}

/// `address = "IP:PORT"`: what stands before the port, and the port.
fn address_of(line: &str) -> Option<(&str, &str)> {
    let rest = line.strip_suffix('"').filter(|rest| rest.starts_with("address = \""))?;
    rest.rsplit_once(':')
}

/// `postrider check` finds nothing to say about the example once its directories are there.
fn is_checked(files: &Files, path: &Path) {
    let checked = command(files.dir(), &["check"]);
    let is_quiet = ![&checked.out, &checked.err].iter().any(|said| said.contains("warning"));
    assert!(checked.code == 0 && is_quiet, "{}: {checked:?}", path.display());
}

#[test]
fn every_example_starts() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut count = 0;
    for entry in fs::read_dir(directory).expect("the examples") {
        let path = entry.expect("an entry").path();
        // What stands beside them is for other programs.
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        // `init` starts what `postrider init` writes.
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("init-")) {
            continue;
        }
        let text = fs::read_to_string(&path).expect("an example");
        let files = Files::new();
        fs::create_dir_all(files.path("d/mail")).expect("a directory");
        let listeners = text.matches("[[listener]]").count();
        make_certificate(files.dir(), "mail", EC, &["mail.example.org"]);
        files.write("relay.password", "secret\n");
        let made =
            program(files.dir(), &["dkim", "new", "example.org", "s2026a", "--out", "s2026a.pem"]);
        assert_eq!(made.code, 0, "{made:?}");
        let private = fs::Permissions::from_mode(0o600);
        fs::set_permissions(files.path("relay.password"), private).expect("a file of ours");
        let certificates = files.dir().display().to_string();
        let startable = made_startable(&text, files.dir());
        files.write(CONFIG, &startable.replace("/etc/postrider", &certificates));
        is_checked(&files, &path);
        let server = Server::start_again(&files);
        assert_eq!(server.addresses.len(), listeners, "{}", path.display());
        server.stop();
        count += 1;
    }
    assert!(count >= 4, "{count} examples");
}

#[test]
fn the_spool_is_private() {
    let files = Files::new();
    files.write(CONFIG, &config("[[route]]\ndomains = [\"x.test\"]\ndiscard = {}"));
    // Before it is made, nobody misses it: the postmaster's mail is kept in it.
    let checked = command(files.dir(), &["check"]);
    assert!(checked.code == 0 && !checked.err.contains("cannot store"), "{checked:?}");
    let server = Server::start_again(&files);
    let mode = fs::metadata(files.path("spool")).expect("the spool").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    server.stop();
}
