//! Policies of authors' domains as they are found in the DNS, and what follows for mail that SPF vouches for or not.

use super::client::{Client, STRANGER};
use super::node::{Node, play};

const CONFIG: &str = "hostname = \"relay.test\"\n\
     [[listener]]\nname = \"in\"\naddress = \"192.0.2.250:25\"\n\
     exempt_from_limits = [\"0.0.0.0/0\"]\nchecks = { spf = \"mark\", dmarc = \"mark\" }\n\
     [[route]]\ndomains = [\"here.test\"]\nmaildir = { path = \"/mail/{local}\" }\n";

/// The records at `_dmarc.` of these names, the author's domain, the domain that SPF passes for, and what comes of
/// it: a verdict, and what the policy asks for.
type Row = (&'static [(&'static str, &'static str)], &'static str, &'static str, &'static str);

const REJECT: &str = "v=DMARC1; p=reject";

/// By RFC 9989: where the policy stands, and where the organization ends.
const DISCOVERY: &[Row] = &[
    (&[("a.test", "v=DMARC1; p=reject; aspf=s")], "a.test", "a.test", "pass"),
    (&[("a.test", "v=DMARC1; p=reject; aspf=s")], "a.test", "mail.a.test", "fail reject"),
    (&[("a.test", REJECT)], "mail.a.test", "a.test", "pass"),
    (&[("a.test", REJECT)], "a.test", "mail.a.test", "pass"),
    (&[("a.test", REJECT)], "a.test", "bada.test", "fail reject"),
    (&[("a.test", REJECT)], "a.test", "test", "fail reject"),
    (&[], "a.test", "a.test", "none"),
    (&[("a.test", REJECT)], "x.y.a.test", "", "fail reject"),
    (&[("a.test", "v=DMARC1; p=none; sp=reject")], "x.a.test", "", "fail reject"),
    (&[("a.test", "v=DMARC1; p=reject; sp=none")], "x.a.test", "", "fail none"),
    (&[("x.a.test", "v=DMARC1; p=reject; sp=none")], "x.a.test", "", "fail reject"),
    (&[("a.test", REJECT), ("x.a.test", "v=DMARC1; p=none")], "x.a.test", "", "fail none"),
    (
        &[("a.test", "v=DMARC1; p=none"), ("b.a.test", "v=DMARC1; p=reject; psd=n")],
        "c.b.a.test",
        "",
        "fail reject",
    ),
    (
        &[("reg", "v=DMARC1; p=reject; psd=y"), ("a.reg", "v=DMARC1; p=none")],
        "a.reg",
        "",
        "fail none",
    ),
    (
        &[("reg", "v=DMARC1; p=reject; psd=y"), ("a.reg", "v=DMARC1; p=quarantine")],
        "a.reg",
        "mail.a.reg",
        "pass",
    ),
    (
        &[("reg", "v=DMARC1; p=reject; psd=y"), ("a.reg", "v=DMARC1; p=quarantine")],
        "a.reg",
        "b.reg",
        "fail quarantine",
    ),
    (
        &[("a.test", "v=DMARC1; p=reject; sp=none; np=quarantine")],
        "x.a.test",
        "",
        "fail quarantine",
    ),
    (&[("a.test", "v=DMARC1; p=reject; sp=none; np=quarantine")], "host.a.test", "", "fail none"),
    (&[("a.test", "v=DMARC1; p=reject; t=y")], "a.test", "", "fail quarantine"),
    (&[("a.test", "v=DMARC1; p=quarantine; t=y")], "a.test", "", "fail none"),
    (&[("a.test", "v=DMARC1; p=reject; pct=0")], "a.test", "b.test", "fail quarantine"),
    (&[("a.test", "v=DMARC1; p=reject; pct=0")], "a.test", "a.test", "pass"),
    (&[("a.test", REJECT)], "a.b.c.d.e.f.g.h.i.j.a.test", "a.test", "pass"),
];

/// Records as they are found in the wild, of an author whom nothing vouches for.
const RECORDS: &[(&str, &str)] = &[
    ("v=DMARC1; p=REJECT", "fail reject"),
    ("v = DMARC1 ; p = reject ;", "fail reject"),
    ("v=DMARC1;p=reject", "fail reject"),
    ("v=DMARC1; rua=mailto:a@b.test; p=reject", "fail reject"),
    ("v=DMARC1;; p=reject", "fail reject"),
    ("v=DMARC1; p=reject; rua=d@a.test", "fail reject"),
    ("v=DMARC1; p=reject; pct=100%", "fail reject"),
    ("v=DMARC1; p=reject; sp=foo", "fail reject"),
    ("v=DMARC1; p=reject; fo:1", "fail reject"),
    ("v=DMARC1; p=reject; hello world", "fail reject"),
    ("v=DMARC1; p=reject;\r\n", "fail reject"),
    ("v=DMARC1; p=foo; rua=mailto:d@a.test", "fail none"),
    ("v=DMARC1; rua=mailto:d@a.test", "fail none"),
    ("v=DMARC1; adkim=s", "none"),
    ("v=dmarc1; p=reject", "none"),
    ("\"v=DMARC1; p=reject\"", "none"),
    ("v=DMARC1, p=reject", "none"),
    ("v=DMARC1\\; p=reject", "none"),
    ("v=spf1 -all", "none"),
];

/// The verdict for a message of this author, and what the policy asks for if it fails.
async fn verdict(records: &[(&str, &str)], author: &str, spf: &str) -> String {
    let node = Node::start(CONFIG).await;
    for (name, record) in records {
        node.world.set_txt(&format!("_dmarc.{name}"), record.as_bytes());
    }
    node.world.set_addresses("host.a.test", Ok(vec![std::net::IpAddr::from([192, 0, 2, 1])]));
    let sender = if spf.is_empty() { "none.example" } else { spf };
    node.world.set_txt(sender, b"v=spf1 +all");
    let mut client = Client::connect(&node, STRANGER).await;
    let content = format!("From: u@{author}\r\nSubject: x\r\n\r\nx\r\n");
    let reply = client.send(&format!("b@{sender}"), &["b@here.test"], &content).await;
    assert!(reply.starts_with("250"), "{reply}");
    node.wait_for("delivered", 1).await;
    let mailboxes = node.world.mailboxes();
    let message = mailboxes.values().flatten().next().expect("a message");
    let message = message.replace('\r', "").replace("\n\t", " ");
    let (_, found) = message.split_once("dmarc=").expect("a verdict");
    let found = found.lines().next().expect("a line");
    let verdict = found.split([' ', ';']).next().expect("a word");
    match found.split_once("policy.dmarc=") {
        Some((_, wish)) => format!("{verdict} {wish}"),
        None => verdict.to_owned(),
    }
}

#[test]
fn policies_are_found_and_applied_by_the_tree_of_names() {
    play(|| async {
        for (records, author, spf, expected) in DISCOVERY {
            let found = verdict(records, author, spf).await;
            assert_eq!(found, *expected, "{records:?} {author} {spf}");
        }
    });
}

#[test]
fn records_are_read_as_they_are_found() {
    play(|| async {
        for (record, expected) in RECORDS {
            let found = verdict(&[("a.test", record)], "a.test", "").await;
            assert_eq!(found, *expected, "{record}");
        }
    });
}
