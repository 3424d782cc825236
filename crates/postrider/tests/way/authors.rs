//! From fields that readers read alike, and those that they don't: the forms of attacks on mail programs and
//! libraries ("composition kills"), and what honest programs write.

use super::author_forms::{READ_ALIKE, READ_DIFFERENTLY};
use super::client::{Client, STRANGER};
use super::node::{Node, play};

const CONFIG: &str = "hostname = \"relay.test\"\n\
     [[listener]]\nname = \"in\"\naddress = \"192.0.2.250:25\"\n\
     exempt_from_limits = [\"0.0.0.0/0\"]\nchecks = { spf = \"mark\", dmarc = \"reject\" }\n\
     [[route]]\ndomains = [\"here.test\"]\nmaildir = { path = \"/mail/{local}\" }\n";

/// bank.test is whom the forger would like to be; evil.test is his own, and lets everybody send.
async fn node() -> Node {
    let node = Node::start(CONFIG).await;
    node.world.set_txt("bank.test", b"v=spf1 -all");
    node.world.set_txt("_dmarc.bank.test", b"v=DMARC1; p=reject");
    node.world.set_txt("evil.test", b"v=spf1 +all");
    node.world.set_txt("_dmarc.evil.test", b"v=DMARC1; p=reject");
    node
}

async fn reply_to(node: &Node, header: &str) -> String {
    let mut client = Client::connect(node, STRANGER).await;
    let content = format!("{header}Subject: x\r\n\r\nx\r\n");
    client.send("u@evil.test", &["b@here.test"], &content).await
}

/// By the policy of the author's domain, or because there is not one author's domain.
fn is_refused(reply: &str) -> bool {
    reply.starts_with("550 5.7.1 Rejected by the DMARC policy of bank.test")
        || reply.starts_with("550 5.7.1 DMARC validation failed: ")
}

#[test]
fn an_author_whom_readers_read_differently_is_refused() {
    play(|| async {
        let node = node().await;
        for from in READ_DIFFERENTLY {
            let reply = reply_to(&node, &format!("From: {from}\r\n")).await;
            assert!(is_refused(&reply), "{from}: {reply}");
        }
        for header in [
            "From: u@evil.test\r\nFrom: u@bank.test\r\n",
            "From: u@evil.test\r\nfrom : u@bank.test\r\n",
            "From \t: u@bank.test\r\n",
        ] {
            let reply = reply_to(&node, header).await;
            assert!(is_refused(&reply), "{header:?}: {reply}");
        }
    });
}

#[test]
fn what_honest_programs_write_is_taken() {
    play(|| async {
        let node = node().await;
        for from in READ_ALIKE {
            let reply = reply_to(&node, &format!("From: {from}\r\n")).await;
            assert!(reply.starts_with("250"), "{from}: {reply}");
        }
    });
}
