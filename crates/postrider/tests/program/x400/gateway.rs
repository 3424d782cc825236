//! Internet mail over X.400 to internet mail, and what comes back when it can't be delivered.

use crate::support::server::{Server, command};
use crate::support::tool::{free_port, python};
use crate::support::{Files, wait_until};
use std::path::Path;

const SEND: &str = r#"
import smtplib, sys
client = smtplib.SMTP("127.0.0.1", int(sys.argv[1]))
client.sendmail("alice@near.test", sys.argv[2:], "From: Alice <alice@near.test>\r\nTo: bob@far.test\r\n"
    "Subject: Across\r\nMessage-ID: <1@near.test>\r\nDate: Wed, 25 Nov 2026 09:00:00 +0000\r\n\r\nHello, Bob.\r\n")
client.quit()
"#;

/// A server with a listener for mail, one for P1, and a gateway. It is at home in `<name>.test`, and everything
/// else is its peer's.
fn config(name: &str, port: u16, peer: &str, peer_port: u16, rest: &str) -> String {
    let title = name[..1].to_uppercase() + &name[1..];
    format!(
        r#"hostname = "{name}.test"

[spool]
path = "spool"
segment_bytes = "8MiB"
min_free_bytes = "16MiB"

[[listener]]
name = "smtp"
address = "127.0.0.1:0"
relay_from = ["127.0.0.0/8"]

[[listener]]
name = "p1"
kind = "p1"
address = "127.0.0.1:{port}"

[x400]
mta = "mta.{name}"
domain = "/PRMD={title}/ADMD= /C=GB/"
gateway = {{ address = "/O=Gate/PRMD={title}/ADMD= /C=GB/", domain = "gw.{name}.test", gateways = "gateways" }}

[[x400.peer]]
name = "{peer}"
hosts = ["127.0.0.1:{peer_port}"]
their_name = "mta.{peer}"
their_password = "of-{peer}"
our_password = "of-{name}"

[[route]]
domains = ["{name}.test"]
maildir = {{ path = "mail/{{local}}" }}

{rest}
"#
    )
}

/// The only message in a mailbox.
fn delivered(mailbox: &Path) -> String {
    let files = || std::fs::read_dir(mailbox.join("new")).ok().into_iter().flatten().flatten();
    wait_until("a message in a mailbox", || files().next().is_some());
    let path = files().next().expect("a message").path();
    std::fs::read_to_string(path).expect("text")
}

#[test]
fn mail_goes_across_and_reports_come_back() {
    let (near_files, far_files) = (Files::new(), Files::new());
    let (near_port, far_port) = (free_port(), free_port());
    // Near knows who leads to these domains, Far does not know Near's.
    let gateways = "# domain#gateway#\nfar.test#O$Gate.PRMD$Far.ADMD$ .C$GB#\nnowhere.test#O$Gate.PRMD$Far.ADMD$ .C$GB#\n";
    near_files.write("gateways", gateways);
    far_files.write("gateways", "");
    let back =
        "[[route]]\nor_addresses = [\"/PRMD=Near/ADMD= /C=GB/\"]\nx400 = { peer = \"near\" }\n";
    let far = Server::start(&far_files, &config("far", far_port, "near", near_port, back));
    let across =
        "[[route]]\ndomains = [\"far.test\", \"nowhere.test\"]\nx400 = { peer = \"far\" }\n";
    let near = Server::start(&near_files, &config("near", near_port, "far", far_port, across));
    python(SEND, &[&near.address().port().to_string(), "bob@far.test", "nobody@nowhere.test"]);

    let message = delivered(&far_files.path("mail/bob"));
    for part in ["Subject: Across", "Hello, Bob.", "alice@near.test", "<1@near.test>"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let report = delivered(&near_files.path("mail/alice"));
    for part in ["multipart/report", "nobody@nowhere.test", "Action: failed"] {
        assert!(report.contains(part), "{part}: {report}");
    }
    assert!(!report.contains("bob@far.test\r\nAction"), "{report}");
    wait_until("empty queues", || near.queue().is_empty() && far.queue().is_empty());
    near.stop();
    far.stop();
}

#[test]
fn the_commands_use_the_gateway_and_its_tables() {
    let files = Files::new();
    files.write("gateways", "far.test#O$Gate.PRMD$Far.ADMD$ .C$GB#\n");
    files.write("postrider.toml", &config("near", 102, "far", 9, ""));
    let bob = "/DD.RFC-822=bob(a)near.test/O=Gate/PRMD=Near/ADMD= /C=GB/";
    let explained = command(files.dir(), &["explain", bob]);
    for part in ["internet mail for bob@near.test", "maildir", "p1"] {
        assert!(explained.out.contains(part), "{part}: {explained:?}");
    }
    let shown = command(files.dir(), &["x400", "address", bob]);
    assert!(shown.out.contains("as internet mail for bob@near.test"), "{shown:?}");
    for (address, part) in [
        // By a table of others' gateways, and below our own.
        ("joe@far.test", "/DD.RFC-822=joe(a)far.test/O=Gate/PRMD=Far/"),
        ("joe@x.test", "/DD.RFC-822=joe(a)x.test/O=Gate/PRMD=Near/"),
        ("/S=Smith/O=Beta/ADMD= /C=FR/", "@gw.near.test"),
    ] {
        let shown = command(files.dir(), &["x400", "address", address]);
        assert!(shown.out.contains(part), "{part}: {shown:?}");
    }
    // Whom another gateway sends to is no mail of ours, and mail is explained where mail comes in.
    let other = "/DD.RFC-822=bob(a)near.test/O=Gate/PRMD=Far/ADMD= /C=GB/";
    assert!(command(files.dir(), &["explain", other]).out.contains("refused"));
    let mail = command(files.dir(), &["explain", "bob@near.test"]);
    assert!(mail.out.contains("\"smtp\""), "{mail:?}");
}
