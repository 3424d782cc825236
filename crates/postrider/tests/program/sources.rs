//! Mail that goes from several addresses of this machine.

use crate::support::client::Client;
use crate::support::peer::Peer;
use crate::support::server::{Server, control};
use crate::support::{Files, wait_until};
use serde_json::Value;
use std::collections::BTreeMap;

const SOURCES: &str = "[[source]]\nname = \"ip-1\"\naddress = \"127.0.0.2\"\nehlo = \"m1.near.test\"\n\
                       [[source]]\nname = \"ip-2\"\naddress = \"127.0.0.3\"\n";

/// A next hop that tells who came.
pub(crate) fn far(files: &Files) -> Server {
    let config = "hostname = \"far.test\"\nspool = { path = \"spool\" }\n[[listener]]\n\
                  address = \"127.0.0.1:0\"\nrelay_from = [\"127.0.0.0/8\"]\n\
                  [[route]]\ndiscard = {}\n";
    Server::start(files, config)
}

pub(crate) fn near(files: &Files, far: &Server, more: &str, pool: &str) -> Server {
    near_to(files, &far.address().to_string(), more, pool)
}

fn near_to(files: &Files, far: &str, more: &str, pool: &str) -> Server {
    let config = format!(
        "hostname = \"near.test\"\nspool = {{ path = \"spool\" }}\n[[listener]]\naddress = \"127.0.0.1:0\"\n\
         relay_from = [\"127.0.0.0/8\"]\n{SOURCES}{more}[[pool]]\nname = \"bulk\"\nsources = [{pool}]\n\
         [[route]]\npool = \"bulk\"\nretry = {{ first = \"1s\", longest = \"1s\" }}\n\
         smtp = {{ hosts = [\"{far}\"] }}\n"
    );
    Server::start(files, &config)
}

pub(crate) fn send(near: &Server, count: usize) {
    let mut client = Client::connect(near.address());
    for n in 0..count {
        let to = format!("you{n}@there.test");
        client.mail("me@source.test", &[&to], "Subject: x\r\n\r\nx\r\n");
    }
}

/// How many messages came from whom, by address and name, once `count` have come: the next hop
/// writes its events after its answer, which may be known on the other side before.
pub(crate) fn came(files: &Files, count: usize) -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    for event in files.wait_events("received", count) {
        let word = |key: &str| event[key].as_str().unwrap_or("?").to_owned();
        *all.entry(format!("{} {}", word("client"), word("helo"))).or_default() += 1;
    }
    all
}

#[test]
fn a_pool_sends_from_its_sources_by_their_weights_and_each_has_its_name() {
    let (near_files, far_files) = (Files::new(), Files::new());
    let far = far(&far_files);
    let near = near(&near_files, &far, "", "{ name = \"ip-1\", weight = 3 }, { name = \"ip-2\" }");
    send(&near, 400);
    near_files.wait_events("relayed", 400);
    let came = came(&far_files, 400);
    let part = |who: &str| came.get(who).copied().unwrap_or_default();
    let (first, second) = (part("127.0.0.2 m1.near.test"), part("127.0.0.3 near.test"));
    assert_eq!(first + second, 400, "{came:?}");
    assert!((260..=340).contains(&first), "{came:?}");
    let of = |name: &str| {
        let events = near_files.events_of("relayed");
        events.iter().filter(|event| event["source"] == name).count()
    };
    assert_eq!((of("ip-1"), of("ip-2")), (first, second));
    near.stop();
}

#[test]
fn what_a_suspended_source_would_send_goes_from_others() {
    let (near_files, far_files) = (Files::new(), Files::new());
    let far = far(&far_files);
    let near = near(&near_files, &far, "", "{ name = \"ip-1\" }, { name = \"ip-2\" }");
    let queue = |words: &[&str]| control(near_files.dir(), &[&["queue"], words].concat());
    assert_eq!(queue(&["suspend", "--next-hop", &far.to(), "--reason", "later"]).code, 0);
    send(&near, 60);
    assert_eq!(queue(&["suspend", "--source", "ip-1", "--reason", "blocked"]).code, 0);
    assert_eq!(queue(&["resume", "--next-hop", &far.to()]).code, 0);
    near_files.wait_events("relayed", 60);
    assert_eq!(came(&far_files, 60), BTreeMap::from([("127.0.0.3 near.test".to_owned(), 60)]));
    // With none left mail waits, and says for whom.
    assert_eq!(queue(&["suspend", "--source", "ip-2", "--reason", "blocked too"]).code, 0);
    send(&near, 4);
    let told = || near.queue().iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
    wait_until("it waits", || {
        let told = told();
        told.contains("the source ip-1: blocked") || told.contains("the source ip-2: blocked too")
    });
    assert_eq!(near_files.events_of("relayed").len(), 60);
    assert_eq!(queue(&["resume", "--source", "ip-1"]).code, 0);
    near_files.wait_events("relayed", 64);
    let came = came(&far_files, 64);
    assert_eq!(came.get("127.0.0.2 m1.near.test"), Some(&4), "{came:?}");
    near.stop();
}

#[test]
fn a_source_whose_address_is_gone_is_out_and_others_send() {
    let (near_files, far_files) = (Files::new(), Files::new());
    let far = far(&far_files);
    let gone = "[[source]]\nname = \"gone\"\naddress = \"192.0.2.11\"\n\
                [[source]]\nname = \"six\"\naddress6 = \"::1\"\n";
    let pool = "{ name = \"gone\" }, { name = \"six\" }, { name = \"ip-1\" }";
    let near = near(&near_files, &far, gone, pool);
    send(&near, 60);
    near_files.wait_events("relayed", 60);
    assert_eq!(came(&far_files, 60), BTreeMap::from([("127.0.0.2 m1.near.test".to_owned(), 60)]));
    near.wait_console("it is told", |line| {
        line.contains("source: source gone disabled: its address 192.0.2.11 is not on this machine")
    });
    assert_eq!(near_files.events_of("deferred").len(), 0, "nothing was tried in vain");
    near.stop();
}

#[test]
fn with_all_sources_out_why_names_each_of_them() {
    let (near_files, far_files) = (Files::new(), Files::new());
    let far = far(&far_files);
    let out = "[[source]]\nname = \"gone\"\naddress = \"192.0.2.11\"\n\
               [[source]]\nname = \"lost\"\naddress = \"192.0.2.12\"\n";
    let pool = "{ name = \"gone\" }, { name = \"lost\" }, { name = \"ip-1\" }, { name = \"ip-2\" }";
    let near = near(&near_files, &far, out, pool);
    let queue = |words: &[&str]| control(near_files.dir(), &[&["queue"], words].concat());
    for source in ["ip-1", "ip-2"] {
        assert_eq!(queue(&["suspend", "--source", source, "--reason", "listed"]).code, 0);
    }
    // Enough of them that some go each way.
    send(&near, 40);
    let needed = [
        "the source gone to be of use again: its address 192.0.2.11 is not on this machine",
        "the source lost to be of use again: its address 192.0.2.12 is not on this machine",
        "an operator to resume the source ip-1: listed",
        "an operator to resume the source ip-2: listed",
    ];
    let blockers = || -> Vec<String> {
        let items = near.queue();
        let texts = items.iter().map(|item| item["recipients"][0]["blocker"]["text"].as_str());
        texts.map(|text| text.expect("a text").to_owned()).collect()
    };
    let is_named = |text: &String| needed.iter().all(|source| text.contains(source));
    wait_until("each is named", || {
        let all = blockers();
        all.len() == 40 && all.iter().all(is_named)
    });
    let id = near.queue()[0]["id"].as_str().expect("an id").to_owned();
    let why = queue(&["why", &id]).out;
    assert!(needed.iter().all(|source| why.contains(source)), "{why}");
    assert_eq!(queue(&["resume", "--source", "ip-1"]).code, 0);
    near_files.wait_events("relayed", 40);
    assert_eq!(came(&far_files, 40), BTreeMap::from([("127.0.0.2 m1.near.test".to_owned(), 40)]));
    near.stop();
}

#[test]
fn a_refused_source_is_named_where_its_mail_waits() {
    let files = Files::new();
    let peer = Peer::start(|line| {
        (line == "EHLO m1.near.test").then(|| "421 4.7.0 Too many messages from you".to_owned())
    });
    let near = near_to(&files, &peer.address, "", "{ name = \"ip-1\" }, { name = \"ip-2\" }");
    send(&near, 40);
    let relayed = || files.events_of("relayed");
    let is_named = |item: &Value| {
        let recipient = &item["recipients"][0];
        let text = recipient["blocker"]["text"].as_str().unwrap_or_default();
        text.contains(" from ip-1") && !text.contains("ip-2") && recipient["source"] == "ip-1"
    };
    wait_until("the rest waits for its source", || {
        let items = near.queue();
        relayed().len() + items.len() == 40 && items.iter().all(is_named)
    });
    assert!(relayed().len() >= 10 && relayed().len() <= 30, "{}", relayed().len());
    assert!(relayed().iter().all(|event| event["source"] == "ip-2"));
    let id = near.queue()[0]["id"].as_str().expect("an id").to_owned();
    let queue = |words: &[&str]| control(files.dir(), &[&["queue"], words].concat()).out;
    for words in [&["why", &id][..], &["show", &id], &["list"]] {
        let text = queue(words);
        assert!(text.contains(" from ip-1"), "{words:?}: {text}");
    }
    assert!(queue(&["show", &id]).contains("    source     ip-1\n"));
    near.stop();
}

#[test]
fn a_host_out_of_the_sources_reach_leaves_its_siblings_to_it() {
    let (near_files, far_files) = (Files::new(), Files::new());
    let far = far(&far_files);
    let config = "hostname = \"far6.test\"\nspool = { path = \"spool\" }\n[[listener]]\n\
                  address = \"[::1]:0\"\nrelay_from = [\"::1\"]\n[[route]]\ndiscard = {}\n";
    let far6_files = Files::new();
    let far6 = Server::start(&far6_files, config);
    let near = Server::start(
        &near_files,
        &format!(
            "hostname = \"near.test\"\nspool = {{ path = \"spool\" }}\n[[listener]]\n\
             address = \"127.0.0.1:0\"\nrelay_from = [\"127.0.0.0/8\"]\n\
             [[source]]\nname = \"six\"\naddress6 = \"::1\"\n\
             [[pool]]\nname = \"bulk\"\nsources = [{{ name = \"six\" }}]\n[[route]]\npool = \"bulk\"\n\
             smtp = {{ hosts = [\"{}\", \"{}\"] }}\n",
            far.address(),
            far6.address()
        ),
    );
    send(&near, 1);
    near_files.wait_events("relayed", 1);
    // A source that is out would be left alone for a minute.
    send(&near, 5);
    near_files.wait_events("relayed", 6);
    assert_eq!(far6_files.wait_events("received", 6).len(), 6);
    assert_eq!(far_files.events_of("received").len(), 0);
    assert_eq!(near_files.events_of("deferred").len(), 0);
    far6.stop();
    near.stop();
}

#[test]
fn explain_names_the_sources() {
    let (near_files, far_files) = (Files::new(), Files::new());
    let far = far(&far_files);
    let near = near(&near_files, &far, "", "{ name = \"ip-1\", weight = 3 }, { name = \"ip-2\" }");
    let told = near.command(&["explain", "you@there.test"]).out;
    assert!(told.contains("ip-1 (127.0.0.2 as m1.near.test, weight 3)"), "{told}");
    assert!(told.contains("ip-2 (127.0.0.3 as near.test, weight 1)"), "{told}");
    near.stop();
}
