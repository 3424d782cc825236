//! Blocks of language `sh` run, and each of their commands must succeed.

use super::blocks::pages;
use super::stand_ins::Programs;
use crate::support::Files;
use crate::support::certificate::{EC, make_certificate, section};
use crate::support::client::Client;
use crate::support::server::{CONFIG, Server, program};
use crate::support::tool::{Tool, free_port};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Output, Stdio};

/// The page about the first steps, whose server has the built-in configuration: its data is where that has it, and
/// commands need no `--config`.
const FIRST_STEPS: &str = "README.md";

/// Files that commands read.
const READ: &[(&str, &str)] = &[
    ("message.eml", "From: jo@example.com\nTo: you@example.net\nSubject: Hello\n\nFirst light.\n"),
    ("reply.txt", "421 4.7.0 [TSS04] Messages from 192.0.2.11 temporarily deferred\n"),
    ("users.txt", "jo@example.org 4f/jo\n"),
];

/// Names and records of the documents' domains.
const ZONE: &str = r#"
$ORIGIN example.org.
@ MX 10 mail
@ TXT "v=spf1 ip4:192.0.2.11 -all"
mail A 192.0.2.1
mx A 192.0.2.11
mx TXT "v=spf1 ip4:192.0.2.11 -all"
_dmarc TXT "v=DMARC1; p=none; rua=mailto:dmarc@example.org"
$ORIGIN 2.0.192.in-addr.arpa.
11 PTR mx.example.org.
$ORIGIN com.
example MX 10 mail.example
mail.example A 192.0.2.1
gmail MX 10 gmail-smtp-in.l.google
gmail-smtp-in.l.google A 192.0.2.9
$ORIGIN example.
elsewhere MX 10 mail.elsewhere
mail.elsewhere A 192.0.2.2
"#;

/// A server like those of the documents, with its peers.
struct Scene<'a> {
    files: &'a Files,
    server: Server,
    admin: String,
    /// They answer while this lives.
    _peers: [Tool; 2],
}

impl<'a> Scene<'a> {
    fn new(files: &'a Files) -> Scene<'a> {
        for directory in ["own", "data", "work"] {
            fs::create_dir(files.path(directory)).expect("a directory");
        }
        make_certificate(&files.path("own"), "mx", EC, &["mx.example.org"]);
        let key = program(
            &files.path("own"),
            &["dkim", "new", "example.org", "s2026a", "--out", "s2026a.pem"],
        );
        assert_eq!(key.code, 0, "{key:?}");
        let zone = files.write("zone", &format!("{ZONE}{}", key.out)).display().to_string();
        let names = Tool::lab(&["dns", "--zone", &zone]);
        let hub = Tool::lab(&[
            "p1-sink",
            "--listen",
            "127.0.0.1:0",
            "--name",
            "hub",
            "--password",
            "secretb",
        ]);
        let admin = format!("127.0.0.1:{}", free_port());
        let server =
            Server::start(files, &configuration(files, &names.address, &hub.address, &admin));
        // The message that searches look for.
        Client::connect(server.address()).mail("jo@example.com", &["you@example.net"], "\r\n");
        for (name, text) in READ {
            fs::write(files.path("work").join(name), text).expect("a file");
        }
        fs::copy(files.path(CONFIG), files.path("work").join(CONFIG)).expect("a configuration");
        Scene { files, server, admin, _peers: [names, hub] }
    }

    /// Names and addresses of the documents, and those of the test.
    fn replacements(&self) -> Vec<(&'static str, String)> {
        let port = self.server.address().port();
        vec![
            ("/etc/postrider.toml", CONFIG.to_owned()),
            ("--config FILE", format!("--config {CONFIG}")),
            ("/etc/postrider/", "etc/".to_owned()),
            ("/var/spool/postrider", self.files.path("data/spool").display().to_string()),
            ("\"127.0.0.1\", 2525", format!("\"127.0.0.1\", {port}")),
            ("--server 127.0.0.1:25 ", format!("--server 127.0.0.1:{port} ")),
            ("mx.example.org:25 ", format!("127.0.0.1:{port} ")),
            ("127.0.0.1:8025", self.admin.clone()),
            ("127.0.0.1:9025", self.admin.clone()),
        ]
    }

    /// Makes the working directory a page's own.
    fn begin_page(&self, page: &str) {
        let etc = self.files.path("work/etc");
        let _ = fs::remove_dir_all(&etc);
        fs::create_dir(&etc).expect("a directory");
        let data = self.files.path("work/postrider-data");
        let _ = fs::remove_file(&data);
        if page == FIRST_STEPS {
            std::os::unix::fs::symlink(self.files.path("data"), &data).expect("a link");
        }
    }
}

/// A server of a `tcp_table` that has one value for every key.
fn serve_table() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let lines = BufReader::new(&stream).lines().map_while(Result::ok);
                lines.for_each(|_| drop((&stream).write_all(b"200 4f/jo\n")));
            });
        }
    });
    address
}

fn configuration(files: &Files, names: &str, hub: &str, admin: &str) -> String {
    let users = serve_table();
    let own = files.path("own").display().to_string();
    let data = files.path("data").display().to_string();
    let certificate = section(&format!("{own}/mx"), &["mx.example.org"]);
    format!(
        r#"hostname = "mx.example.org"
shaping = ["builtin"]

[spool]
path = "{data}/spool"
segment_bytes = "8MiB"
min_free_bytes = "16MiB"

[dns]
servers = ["{names}"]
timeout = "2s"
attempts = 1

[admin]
address = "{admin}"

{certificate}
[[listener]]
name = "in"
address = "127.0.0.1:0"
relay_from = ["127.0.0.0/8"]

[[signer]]
domains = ["example.org"]
selector = "s2026a"
key = "{own}/s2026a.pem"

[[table]]
name = "users"
tcp = {{ server = "{users}" }}

[x400]
mta = "relay"
domain = "/PRMD=Example/ADMD= /C=GB/"

[[x400.peer]]
name = "hub"
hosts = ["{hub}"]
their_name = "hub"
their_password = "secretb"
our_name = "relay"
our_password = "secreta"

[[route]]
or_addresses = ["/O=Beta/PRMD=TestB/ADMD= /C=GB/"]
x400 = {{ peer = "hub" }}

[[route]]
domains = ["example.net"]
maildir = {{ path = "{data}/mail/{{domain}}/{{local}}" }}

[[route]]
mx = {{}}
"#
    )
}

/// Runs a block; `bash` ends at the first command that fails, and names it.
fn run(programs: &Programs<'_>, script: &str) -> Output {
    let mut command = programs.shell();
    command.args(["-euxo", "pipefail", "-c", script]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.output().expect("bash runs")
}

#[test]
fn commands_of_documents_succeed() {
    let files = Files::new();
    let scene = Scene::new(&files);
    let programs = Programs::new(&files);
    let replacements = scene.replacements();
    let mut unused: Vec<_> = replacements.iter().map(|(from, _)| *from).collect();
    let mut failures = Vec::new();
    let mut count = 0;
    for page in pages("sh") {
        scene.begin_page(&page.name);
        for block in page.blocks {
            let mut script = block.text;
            for (from, to) in &replacements {
                if script.contains(from) {
                    unused.retain(|other| other != from);
                    script = script.replace(from, to);
                }
            }
            // `errexit` overlooks a failure before `&&`.
            let output = run(&programs, &script.replace(" && ", "\n"));
            let errors = String::from_utf8_lossy(&output.stderr);
            if !output.status.success() {
                let shown = String::from_utf8_lossy(&output.stdout);
                failures.push(format!("{}: {}\n{errors}{shown}", block.place, output.status));
            }
            count += 1;
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(unused.is_empty(), "no document has {unused:?}: remove them from the replacements");
    programs.finish();
    assert!(count >= 40, "{count} blocks");
    scene.server.stop();
}
