//! The step table: whatever a host does at whatever step, unless it gives a verdict on the message, the message is
//! not returned while a host that is well waits for it, and not sent twice unless the final reply was lost.
//!
//! The columns: one host, which behaves the next time; two hosts, and two addresses of one host, of which the first
//! never behaves; one host that was encrypted before, takes no mail in clear, and behaves the next time; and one that
//! is logged in to, and behaves the next time.
//!
//! `docs/internals/bad-peers-steps.md` is rendered from what becomes of the mail: with the environment variable
//! `STEP_TABLE=write` it is written, for review.

use super::client::{Client, FRIEND};
use super::node::{Node, config, play, wait_until};
use super::peer::Peer;
use mta::seams::Mx;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

const ONE: &str = "192.0.2.1";
const TWO: &str = "192.0.2.2";
const TO: &str = "u@far.test";

/// A reply to EHLO of a host that requires authentication.
const WITH_AUTH: &str = "250-peer.test\r\n250-STARTTLS\r\n250-AUTH PLAIN\r\n250 PIPELINING";

/// Steps, as the scripted peer names them; `AUTH` is where there is a login, `RSET` and `next MAIL` are those of a connection that carried one.
const STEPS: [&str; 14] = [
    "connect",
    "CONNECT",
    "EHLO",
    "STARTTLS",
    "(HANDSHAKE)",
    "second EHLO",
    "AUTH",
    "MAIL",
    "RCPT",
    "DATA",
    "content",
    ".",
    "RSET",
    "next MAIL",
];

/// What happens there. In this world a reset is a connection that ends.
const KINDS: [&str; 8] = [
    "421 4.3.2 shutting down",
    "451 4.3.0 disk trouble",
    "450 not now",
    "550 5.3.0 no",
    "554 5.7.1 blocked",
    "what?",
    "hang up",
    "silence",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    OneHost,
    TwoHosts,
    /// The address that fails comes first, or last.
    TwoAddresses(bool),
    EncryptedBefore,
    /// It is logged in to.
    Login,
}

const COLUMNS: [Column; 6] = [
    Column::OneHost,
    Column::TwoHosts,
    Column::TwoAddresses(true),
    Column::TwoAddresses(false),
    Column::EncryptedBefore,
    Column::Login,
];

#[derive(Clone, Copy, Debug)]
struct Cell {
    step: &'static str,
    kind: &'static str,
    column: Column,
}

impl Cell {
    fn needs_tls(self) -> bool {
        matches!(self.step, "STARTTLS" | "(HANDSHAKE)" | "second EHLO")
            || matches!(self.column, Column::EncryptedBefore | Column::Login)
    }

    /// There is such a cell.
    fn is_one(self) -> bool {
        match self.step {
            "connect" => self.kind == "hang up",
            "AUTH" => self.column == Column::Login,
            _ => true,
        }
    }

    fn config(self) -> String {
        let route = match self.column {
            Column::Login => {
                "[[table]]\nname = \"logins\"\ninline = {}\n[[route]]\ndomains = [\"far.test\"]\n\
                 smtp = { hosts = [\"192.0.2.1:25\"], tls = \"required\", \
                 login = { table = \"logins\" } }\n"
            }
            _ => "[[route]]\nmx = {}\n",
        };
        config(&format!("[retry]\njitter = 0\n{route}"))
    }

    fn needs_two(self) -> bool {
        matches!(self.step, "RSET" | "next MAIL")
    }

    /// A refusal for good of what the message says: of its sender, its recipient, or its content.
    fn is_verdict(self) -> bool {
        self.kind.starts_with('5')
            && matches!(self.step, "MAIL" | "next MAIL" | "RCPT" | "DATA" | "content" | ".")
    }

    /// The reply to the whole content did not come, or was none.
    fn loses_the_final_reply(self) -> bool {
        matches!(self.step, "." | "content") && matches!(self.kind, "hang up" | "silence" | "what?")
    }

    /// Has the peer fail, once or always.
    fn spoil(self, node: &Node, peer: &Peer, always: bool) {
        let (step, kind) = (self.step, self.kind);
        match step {
            "connect" => node.world.unserve(format!("{ONE}:25").parse().expect("an address")),
            "second EHLO" | "next MAIL" => {
                let (verb, usual) = match step {
                    "second EHLO" => ("EHLO", "250-peer.test\r\n250-STARTTLS\r\n250 PIPELINING"),
                    _ => ("MAIL", "250 2.0.0 good"),
                };
                for _ in 0..if always { 40 } else { 1 } {
                    peer.once(verb, usual).once(verb, kind);
                }
            }
            _ if always => {
                peer.always(step, kind);
            }
            _ => {
                peer.once(step, kind);
            }
        }
    }
}

async fn hand_in(node: &Node) {
    let mut client = Client::connect(node, FRIEND).await;
    let reply = client.send("me@source.test", &[TO], "Subject: one\r\n\r\nbody\r\n").await;
    assert!(reply.starts_with("250 2.0.0"), "{reply}");
}

fn taken(peers: &[&Peer]) -> usize {
    peers.iter().map(|peer| peer.messages().len()).sum()
}

async fn played(cell: Cell) -> Result<String, String> {
    let node = Node::start(&cell.config()).await;
    let world = &node.world;
    world.speak_tls();
    world.set_entry("logins", "192.0.2.1:25", Ok("jo:secret"));
    let (bad, well) =
        (Peer::at(world, &format!("{ONE}:25")), Peer::at(world, &format!("{TWO}:25")));
    let mx = |preference, host: &str| Mx { preference, host: host.to_owned() };
    let ip = |text: &str| text.parse().expect("an address");
    let (mut hosts, mut first) = (vec![mx(10, "a.far.test")], vec![ip(ONE)]);
    match cell.column {
        Column::TwoHosts => hosts.push(mx(20, "b.far.test")),
        Column::TwoAddresses(true) => first.push(ip(TWO)),
        Column::TwoAddresses(false) => first.insert(0, ip(TWO)),
        Column::OneHost | Column::EncryptedBefore | Column::Login => {}
    }
    world.set_mx("far.test", Ok(hosts));
    world.set_addresses("a.far.test", Ok(first));
    world.set_addresses("b.far.test", Ok(vec![ip(TWO)]));
    if cell.needs_tls() {
        bad.insist_on_tls();
        well.insist_on_tls();
    }
    if cell.column == Column::Login {
        bad.always("EHLO", WITH_AUTH);
    }
    let mut wanted = 1;
    if cell.column == Column::EncryptedBefore {
        hand_in(&node).await;
        wait_until("one is taken over TLS", || taken(&[&bad]) == 1).await;
        wanted += 1;
        // Its connection is idle no longer.
        tokio::time::sleep(Duration::from_secs(120)).await;
    }
    let has_another = matches!(cell.column, Column::TwoHosts | Column::TwoAddresses(_));
    cell.spoil(&node, &bad, has_another);
    if cell.step == "RSET" {
        bad.once("RCPT", "550 5.1.1 nobody").once("RCPT", "550 5.1.1 nobody");
        well.once("RCPT", "550 5.1.1 nobody").once("RCPT", "550 5.1.1 nobody");
    }
    hand_in(&node).await;
    if cell.needs_two() {
        hand_in(&node).await;
        wanted += 1;
    }
    if cell.step == "connect" && !has_another {
        tokio::time::sleep(Duration::from_secs(90)).await;
        bad.serve_at(world, &format!("{ONE}:25"));
    }
    // A report to the sender finds nobody: its route has no host.
    let fates = || node.count("relayed") + of_mine(&node, "failed") + of_mine(&node, "expired");
    wait_until("each has its fate", || fates() == wanted).await;
    tokio::time::sleep(Duration::from_secs(1_800)).await;
    verdict(cell, &node, wanted, &[&bad, &well])?;
    Ok(fate(cell, &node, &bad, &well))
}

/// What became of the mail, for the page.
fn fate(cell: Cell, node: &Node, bad: &Peer, well: &Peer) -> String {
    // Of two messages the first came before the fault.
    let before = usize::from(matches!(cell.column, Column::EncryptedBefore));
    let (here, there) = (taken(&[bad]) - before, taken(&[well]));
    let failed = node.of("failed");
    let statuses: BTreeSet<&str> = failed
        .iter()
        .filter(|event| event["recipient"] == TO)
        .filter_map(|event| event["status"].as_str())
        .collect();
    let mut fates = Vec::new();
    if here > 0 {
        fates.push("sent".to_owned());
    }
    if there > 0 {
        fates.push("**other**".to_owned());
    }
    fates.extend(statuses.into_iter().map(|status| format!("*{status}*")));
    let contents = bad.contents() + well.contents();
    if contents > taken(&[bad, well]) + of_mine(node, "failed") {
        fates.push("content again".to_owned());
    }
    fates.join(", ")
}

/// Events of this name about the message, and not about its reports.
fn of_mine(node: &Node, name: &str) -> usize {
    node.of(name).iter().filter(|event| event["recipient"] == TO).count()
}

fn verdict(cell: Cell, node: &Node, wanted: usize, peers: &[&Peer]) -> Result<(), String> {
    let (relayed, failed) = (node.count("relayed"), of_mine(node, "failed"));
    let contents: usize = peers.iter().map(|peer| peer.contents()).sum();
    let returned_max = match cell.step {
        "RSET" => 2,
        _ => usize::from(cell.is_verdict()),
    };
    let extra = if cell.loses_the_final_reply() { 2 } else { usize::from(cell.step == ".") };
    let is_right = relayed + failed == wanted
        && failed <= returned_max
        && of_mine(node, "expired") == 0
        && taken(peers) == relayed
        && contents <= wanted + extra;
    let in_clear = peers.iter().flat_map(|peer| peer.messages()).any(|sent| !sent.is_encrypted);
    if is_right && !(cell.needs_tls() && in_clear) {
        return Ok(());
    }
    let events = node.events(&["recipient", "status", "attempts", "reply", "reason", "peer"]);
    Err(format!("{cell:?}: {contents} contents, {in_clear}: {events:#?}"))
}

#[test]
fn no_message_is_returned_without_a_verdict_while_a_host_is_well() {
    let (mut wrong, mut rows) = (Vec::new(), Vec::new());
    let mut count = 0;
    for step in STEPS {
        for kind in KINDS {
            let mut fates = Vec::new();
            for column in COLUMNS {
                let cell = Cell { step, kind, column };
                if !cell.is_one() {
                    fates.push(String::new());
                    continue;
                }
                count += 1;
                let outcome = Rc::new(RefCell::new(Ok(String::new())));
                let told = Rc::clone(&outcome);
                play(|| async move { *told.borrow_mut() = played(cell).await });
                let outcome = outcome.borrow().clone();
                match outcome {
                    Ok(fate) => fates.push(fate),
                    Err(text) => wrong.push(text),
                }
            }
            rows.push((step, kind, fates));
        }
    }
    let of_all = (STEPS.len() - 2) * KINDS.len() * COLUMNS.len();
    assert_eq!(count, of_all + COLUMNS.len() + KINDS.len());
    assert!(wrong.is_empty(), "{} of {count} cells:\n{}", wrong.len(), wrong.join("\n"));
    compare_page(&page(&rows));
}

const PAGE_HEAD: &str = "\
# Bad peers, step by step

<!-- Generated by crates/postrider/tests/way/step_table.rs: `STEP_TABLE=write cargo test --workspace --test way step_table`. -->

What becomes of a message when its next hop fails at one step, in each way. Each cell is a test that is played at every change, on a
virtual clock. `target/docs/bad-peers.md` (`make docs`) has rows of what peers do beside that.

The columns:

- *one host*: it fails the first time, and is well from then on.
- *two hosts*: the preferred one always fails, the other one is well.
- *address first*, *address last*: of two addresses of one host the first, or the last, always fails.
- *encrypted before*: one host, to which mail went over TLS before, and which takes none in clear.
- *login*: one host that is logged in to.

The cells:

- `sent`: the host that failed has the message later, or at once in another session.
- **other**: the other host, or address, has it.
- *5.3.0*: it is returned with this status: a verdict on the message.
- `content again`: the content went out once more than it was taken, as the reply to it was no final one, or was lost.

RSET comes behind a recipient that was refused, whose message is returned. Kinds of failure that come to the same stand in one row. `silence` lasts until the time of the step is up; `hang up` is a connection
that ends there.
";

type PageRow = (&'static str, &'static str, Vec<String>);

fn page(rows: &[PageRow]) -> String {
    let mut page = PAGE_HEAD.to_owned();
    page.push_str(
        "\n| step | what comes | one host | two hosts | address first | address last | encrypted before | login |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for step in STEPS {
        let mut by_fate: Vec<(Vec<&str>, &[String])> = Vec::new();
        for (_, kind, fates) in rows
            .iter()
            .filter(|(of, _, fates)| *of == step && fates.iter().any(|fate| !fate.is_empty()))
        {
            match by_fate.iter_mut().find(|(_, same)| *same == fates.as_slice()) {
                Some((kinds, _)) => kinds.push(kind),
                None => by_fate.push((vec![kind], fates)),
            }
        }
        for (kinds, fates) in by_fate {
            let kinds: Vec<_> = kinds.iter().map(|kind| format!("`{kind}`")).collect();
            let (step, kinds, fates) = (called(step), kinds.join(", "), fates.join(" | "));
            page.push_str(&format!("| {step} | {kinds} | {fates} |\n"));
        }
    }
    page
}

/// A step, for people.
fn called(step: &str) -> &str {
    match step {
        "connect" => "connecting",
        "CONNECT" => "greeting",
        "(HANDSHAKE)" => "handshake",
        "second EHLO" => "EHLO within TLS",
        "content" => "within the content",
        "." => "behind the content",
        "next MAIL" => "MAIL of a second message",
        _ => step,
    }
}

fn compare_page(page: &str) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/internals/bad-peers-steps.md");
    if std::env::var("STEP_TABLE").is_ok_and(|value| value == "write") {
        return std::fs::write(path, page).expect("it is written");
    }
    let kept = std::fs::read_to_string(path).expect("the page");
    assert!(kept == page, "{path} is another now; STEP_TABLE=write writes it:\n{page}");
}
