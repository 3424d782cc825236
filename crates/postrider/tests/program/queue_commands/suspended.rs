//! What an operator suspends waits, and what he resumes goes on.

use super::stuck::stuck;
use crate::support::client::Client;
use crate::support::peer::Peer;
use crate::support::server::Server;
use crate::support::{Files, config, wait_until};

#[test]
fn what_is_suspended_waits_across_a_restart_until_it_is_resumed() {
    let files = Files::new();
    let (server, hop, [a, _, c]) = stuck(&files);
    let suspend = ["queue", "suspend", "--domain", "far.test", "--reason", "they are moving"];
    let answer = server.command(&suspend);
    assert_eq!(answer.out, "suspended the domain far.test, until it is resumed\n", "{answer:?}");
    server.stop();
    let server = Server::start_again(&files);
    let peer = Peer::start_at(&hop, "250 HELP", |_| None);
    // What comes later is stopped as well; other mail goes.
    let late = Client::connect(server.address()).mail("c@one.test", &["w@far.test"], "x\r\n");
    assert_eq!(peer.wait_taken(1)[0].rcpt, ["RCPT TO:<z@other.test>"]);
    wait_until("the rest", || server.queue().len() == 3);
    for id in [&a, &late] {
        let words = "waiting for an operator to resume the domain far.test: they are moving";
        wait_until("why it waits", || server.command(&["queue", "why", id]).out.contains(words));
    }
    let kind = |id: &str| {
        server.json(&["queue", "why", id])[0]["recipients"][0]["blocker"]["kind"].clone()
    };
    assert_eq!(kind(&late), "suspended");
    assert_eq!(server.command(&["queue", "retry", "--all"]).code, 0);
    let status = server.command(&["status"]).out;
    assert!(status.contains("Suspended: the domain far.test, since "), "{status}");
    assert_eq!(peer.taken().len(), 1);
    assert!(server.command(&["queue", "resume", "--route", "far"]).code != 0);
    assert_eq!(server.command(&["queue", "resume", "--domain", "far.test"]).code, 0);
    peer.wait_taken(4);
    wait_until("an empty queue", || server.queue().is_empty());
    assert!(c != late && !server.command(&["status"]).out.contains("Suspended"));
    server.stop();
}

#[test]
fn a_route_and_a_next_hop_are_suspended_for_a_while() {
    let files = Files::new();
    let peer = Peer::start(|_| None);
    let server = Server::start(
        &files,
        &config(&format!(
            "[[route]]\nname = \"out\"\nsmtp = {{ hosts = [\"{}\"] }}\n",
            peer.address
        )),
    );
    let host = peer.address.to_string();
    for scope in [&["--route", "out"][..], &["--next-hop", &host], &["--all"]] {
        let before = peer.taken().len();
        let words = [&["queue", "suspend"], scope, &["--for", "1h"]].concat();
        assert_eq!(server.command(&words).code, 0);
        let mut client = Client::connect(server.address());
        let id = client.mail("a@one.test", &["b@far.test"], "x\r\n");
        wait_until("it is stopped", || {
            let why = &server.json(&["queue", "why", &id])[0];
            let blocker = &why["recipients"][0]["blocker"];
            blocker["kind"] == "suspended" && blocker["until"].is_string()
        });
        assert_eq!(peer.taken().len(), before);
        assert_eq!(server.command(&[&["queue", "resume"], scope].concat()).code, 0);
        peer.wait_taken(before + 1);
        wait_until("an empty queue", || server.queue().is_empty());
    }
    server.stop();
}
