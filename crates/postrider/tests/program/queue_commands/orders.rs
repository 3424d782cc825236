//! Orders for mail by whose it is and where it goes.

use super::stuck::text;
use crate::support::client::Client;
use crate::support::peer::Peer;
use crate::support::server::{self, Server};
use crate::support::tool::free_port;
use crate::support::{Files, config, wait_until};

/// Two next hops that nobody is at: by the routes `far`, which takes all, and `aside`.
fn routes(far: &str, aside: &str) -> String {
    config(&format!(
        "[events]\nheaders = [\"Subject\"]\n\
         [[route]]\nname = \"aside\"\ndomains = [\"aside.test\"]\nsmtp = {{ hosts = [\"{aside}\"] }}\n\
         [[route]]\nname = \"far\"\nsmtp = {{ hosts = [\"{far}\"] }}\n\
         [retry]\nfirst = \"1s\"\nlongest = \"1s\"\n"
    ))
}

/// A server with two messages that wait for `far`, its two next hops and the ids.
fn waiting(files: &Files) -> (Server, [String; 2], [String; 2]) {
    let hops = [0; 2].map(|_| format!("127.0.0.1:{}", free_port()));
    let server = Server::start(files, &routes(&hops[0], &hops[1]));
    let mut client = Client::connect(server.address());
    let ids = ["x@far.test", "y@near.test"]
        .map(|to| client.mail("a@one.test", &[to], "Subject: =?utf-8?q?one?=\r\n\r\n"));
    (server, hops, ids)
}

#[test]
fn what_is_moved_goes_another_way_over_a_kill_and_a_reload() {
    let files = Files::new();
    let (server, [far, aside], [x, y]) = waiting(&files);
    // So that it waits there, too.
    assert_eq!(server.command(&["queue", "suspend", "--route", "aside"]).code, 0);
    let order = ["queue", "move", "--all", "--to-route", "aside", "--to-priority", "-3"];
    let moved = server.command(&order);
    assert_eq!(moved.out, "2 messages moved to the route aside, priority -3\n", "{moved:?}");
    let back = server.command(&["queue", "move", &y, "--undo"]);
    assert_eq!(back.out, "1 message moved back\n", "{back:?}");
    // What a kill costs are events of the last moments.
    let events = files.wait_events("moved", 3);
    server.kill();
    let server = Server::start_again(&files);
    let shown = &server.json(&["queue", "show", &x])[0];
    assert_eq!((text(shown, "/moved/route"), &shown["moved"]["priority"]), ("aside", &(-3).into()));
    assert_eq!(text(shown, "/recipients/0/route"), "aside");
    let shown = server.command(&["queue", "show", &x]).out;
    assert!(shown.contains("Moved to    the route aside, priority -3\n"), "{shown}");
    let why = server.command(&["queue", "why", &x]).out;
    assert!(why.contains("; moved by an operator to the route aside, priority -3\n"), "{why}");
    assert_eq!(server.json(&["queue", "show", &y])[0].get("moved"), None);
    assert_eq!(server.command(&["reload"]).code, 0);
    let (there, elsewhere) =
        (Peer::start_at(&aside, "250 HELP", |_| None), Peer::start_at(&far, "250 HELP", |_| None));
    assert_eq!(elsewhere.wait_taken(1)[0].rcpt, ["RCPT TO:<y@near.test>"]);
    assert!(there.taken().is_empty());
    assert_eq!(server.command(&["queue", "resume", "--route", "aside"]).code, 0);
    assert_eq!(there.wait_taken(1)[0].rcpt, ["RCPT TO:<x@far.test>"]);
    wait_until("an empty queue", || server.queue().is_empty());
    let of_x = events.iter().find(|event| event["id"] == *x).expect("an event");
    assert_eq!((&of_x["to_route"], &of_x["to_priority"]), (&"aside".into(), &(-3).into()));
    let received = files.wait_events("received", 2);
    assert_eq!(received[0]["headers"]["Subject"], "=?utf-8?q?one?=");
    server.stop();
}

#[test]
fn a_move_to_what_is_not_there_is_refused_by_its_name() {
    let files = Files::new();
    let (server, _, [x, _]) = waiting(&files);
    for (words, told) in [
        (["--to-route", "nowhere"], "unknown route \"nowhere\""),
        (["--to-pool", "none"], "unknown pool \"none\""),
        (["--to-campaign", "<a>"], "\"<a>\" is not a campaign name"),
    ] {
        let answer = server.command(&[&["queue", "move", &*x], &words[..]].concat());
        assert!(answer.code == 2 && answer.err.contains(told), "{answer:?}");
    }
    let unknown = ["queue", "move", "00000000ffffffff", "--undo"];
    assert!(server.command(&unknown).err.contains("no message 00000000ffffffff in the queue"));
    assert!(files.events_of("moved").is_empty());
    server.stop();
}

#[test]
fn what_is_failed_silently_is_gone_after_a_restart_and_nobody_is_told() {
    let files = Files::new();
    let (server, [far, _], [x, y]) = waiting(&files);
    let words = ["queue", "fail", "--domain", "far.test", "--silent", "--reason", "a mistake"];
    let failed = server.command(&words);
    assert_eq!(failed.out, "1 message failed, no DSN sent\n", "{failed:?}");
    let events = files.wait_events("failed", 1);
    assert_eq!((&events[0]["id"], &events[0]["reason"]), (&(*x).into(), &"a mistake".into()));
    assert_eq!(files.wait_events("dsn_suppressed", 1)[0]["why"], "operator");
    server.kill();
    let server = Server::start_again(&files);
    let peer = Peer::start_at(&far, "250 HELP", |_| None);
    assert_eq!(peer.wait_taken(1)[0].rcpt, ["RCPT TO:<y@near.test>"]);
    wait_until("an empty queue", || server.queue().is_empty());
    assert!(x != y && peer.taken().len() == 1 && files.events_of("failed").len() == 1);
    server.stop();
}

#[test]
fn what_is_suspended_by_several_parts_waits_across_a_restart() {
    let files = Files::new();
    let (server, [far, _], [x, _]) = waiting(&files);
    let parts = ["--route", "far", "--domain", "far.test"];
    let answer = server.command(&[&["queue", "suspend"], &parts[..]].concat());
    let told = "suspended the route far, the domain far.test, until it is resumed\n";
    assert_eq!(answer.out, told, "{answer:?}");
    server.stop();
    let server = Server::start_again(&files);
    let peer = Peer::start_at(&far, "250 HELP", |_| None);
    assert_eq!(peer.wait_taken(1)[0].rcpt, ["RCPT TO:<y@near.test>"]);
    let words = "waiting for an operator to resume the route far, the domain far.test";
    wait_until("why it waits", || server.command(&["queue", "why", &x]).out.contains(words));
    let status = &server.json(&["status"])[0];
    assert_eq!(
        status["suspensions"][0]["scope"],
        serde_json::json!({ "route": "far", "domain": "far.test" })
    );
    assert!(server.command(&["queue", "resume", "--domain", "far.test"]).code != 0);
    assert_eq!(server.command(&[&["queue", "resume"], &parts[..]].concat()).code, 0);
    peer.wait_taken(2);
    server.stop();
}

#[test]
fn a_reload_changes_the_header_fields_of_events_at_once() {
    let files = Files::new();
    let (server, _, _) = waiting(&files);
    assert_eq!(files.wait_events("received", 2)[1]["headers"]["Subject"], "=?utf-8?q?one?=");
    let whole = std::fs::read_to_string(files.path(server::CONFIG)).expect("a configuration");
    files.write(server::CONFIG, &whole.replace("[\"Subject\"]", "[\"X-Job\"]"));
    let reloaded = server.command(&["reload"]);
    assert!(reloaded.code == 0 && !reloaded.out.contains("next start"), "{reloaded:?}");
    let mut client = Client::connect(server.address());
    client.mail("a@one.test", &["z@far.test"], "Subject: two\r\nX-Job: 7\r\n\r\n");
    let received = files.wait_events("received", 3);
    assert_eq!(received[2]["headers"], serde_json::json!({ "X-Job": "7" }));
    server.stop();
}
