//! Orders that reach mail by whose it is and where it goes: moved, failed, suspended, counted.

use super::client::{Client, FRIEND};
use super::node::{Node, config, play, wait_until};
use super::peer::Peer;
use mta::commands::{
    ControlRequest, QueueCensus, QueueFail, QueueHold, QueueList, QueueMove, QueueRelease,
    QueueShow, QueueSummary, ShardState,
};
use mta::control::{BlockerKind, CensusRows, Filter, QueueItem, Select, Tally};
use mta::overrides::Overrides;
use mta::seams::Mx;
use std::time::Duration;

const HOP: &str = "192.0.2.1:25";
const BACK: &str = "192.0.2.2:25";
const OTHER: &str = "192.0.2.3:25";

/// Clients of 198.51.100.0/24 may steer.
const STEERED: &str = "steering_from = [\"198.51.100.0/24\"]\n\
    [steering]\ntenant = \"X-Tenant\"\ncampaign = \"X-Campaign\"\npool = \"X-Pool\"\n\
    [retry]\njitter = 0\n";

/// Mail for `source.test` goes to `BACK`, for `other.test` to `OTHER`, all other to `HOP` from the pool `usual`.
fn routes() -> String {
    config(&format!(
        "{STEERED}\
         [[source]]\nname = \"one\"\naddress = \"192.0.2.101\"\n\
         [[source]]\nname = \"two\"\naddress = \"192.0.2.102\"\n\
         [[pool]]\nname = \"usual\"\nsources = [{{ name = \"one\" }}]\n\
         [[pool]]\nname = \"bulk\"\nsources = [{{ name = \"two\" }}]\n\
         [[route]]\ndomains = [\"source.test\"]\nsmtp = {{ hosts = [\"{BACK}\"] }}\n\
         [[route]]\nname = \"aside\"\ndomains = [\"other.test\"]\nsmtp = {{ hosts = [\"{OTHER}\"] }}\n\
         [[route]]\nname = \"out\"\npool = \"usual\"\n\
         smtp = {{ hosts = [\"{HOP}\"], max_connections = 1 }}"
    ))
}

async fn sent(node: &Node, to: &[&str], fields: &str) {
    let mut client = Client::connect(node, FRIEND).await;
    let content = format!("{fields}Subject: one\r\n\r\nbody\r\n");
    let reply = client.send("me@source.test", to, &content).await;
    assert!(reply.starts_with("250 2.0.0"), "{fields}: {reply}");
    client.say("QUIT").await;
}

async fn items(node: &Node, request: ControlRequest) -> Vec<QueueItem> {
    node.ask(request).await.into_iter().flat_map(|part| part.items).collect()
}

async fn tally(node: &Node, request: ControlRequest) -> Tally {
    let parts = node.ask(request).await;
    let last = parts.last().expect("an answer");
    assert_eq!((&last.error, &last.refused), (&None, &None));
    last.tally
}

/// All is moved to what the spool would keep as this text.
fn move_to(text: &str) -> ControlRequest {
    ControlRequest::QueueMove(QueueMove {
        select: Select::All,
        to: Overrides::parse(text),
        undo: false,
    })
}

fn undo() -> ControlRequest {
    ControlRequest::QueueMove(QueueMove {
        select: Select::All,
        to: Overrides::default(),
        undo: true,
    })
}

fn fail(silent: bool) -> ControlRequest {
    let reason = "a mistake".to_owned();
    ControlRequest::QueueFail(QueueFail { select: Select::All, status: None, reason, silent })
}

fn filtered(filter: Filter) -> ControlRequest {
    ControlRequest::QueueList(QueueList { filter, limit: 100 })
}

#[test]
fn what_is_moved_goes_from_another_pool_also_after_a_restart() {
    play(|| async {
        for is_restarted in [false, true] {
            let mut node = Node::start(&routes()).await;
            sent(&node, &["a@x.test"], "X-Campaign: spring\r\n").await;
            node.wait_for("suspended", 1).await;
            let id = node.last_id();
            assert_eq!(tally(&node, move_to("\npool bulk")).await.recipients, 1);
            // What is left out of an order stays as it is.
            assert_eq!(tally(&node, move_to("\npriority 3\ncampaign late")).await.recipients, 1);
            let told = node.of("moved");
            assert_eq!(
                (&told[0]["to_pool"], &told[0]["campaign"]),
                (&"bulk".into(), &"spring".into())
            );
            assert_eq!(
                (&told[1]["to_pool"], &told[1]["campaign"]),
                (&"bulk".into(), &"late".into())
            );
            assert_eq!(told[1]["to_priority"], 3);
            if is_restarted {
                node = node.restart().await;
            }
            let shown = items(&node, ControlRequest::QueueShow(QueueShow { id })).await.remove(0);
            let moved = shown.moved.map(|moved| moved.to_string());
            assert_eq!(moved.as_deref(), Some("the pool bulk, the campaign late, priority 3"));
            let filter = Filter {
                pool: Some("bulk".to_owned()),
                campaign: Some("late".to_owned()),
                ..Filter::default()
            };
            assert_eq!(items(&node, filtered(filter)).await.len(), 1);
            let _hop = Peer::at(&node.world, HOP);
            node.wait_for("relayed", 1).await;
            let relayed = node.of("relayed").remove(0);
            let said =
                ["source", "pool", "campaign"].map(|key| relayed[key].as_str().unwrap_or("?"));
            assert_eq!(said, ["two", "bulk", "late"]);
        }
    });
}

#[test]
fn what_is_moved_back_goes_as_it_would_have_gone() {
    play(|| async {
        for is_restarted in [false, true] {
            let mut node = Node::start(&routes()).await;
            sent(&node, &["a@x.test"], "").await;
            node.wait_for("suspended", 1).await;
            tally(&node, move_to("aside\npool bulk")).await;
            assert_eq!(tally(&node, undo()).await.recipients, 1);
            // Nothing was chosen any more: nothing changes.
            assert_eq!(tally(&node, undo()).await.recipients, 0);
            assert_eq!(node.count("moved"), 2);
            if is_restarted {
                node = node.restart().await;
            }
            let aside = Peer::at(&node.world, OTHER);
            let _hop = Peer::at(&node.world, HOP);
            node.wait_for("relayed", 1).await;
            assert_eq!(node.of("relayed")[0]["source"], "one");
            assert!(aside.messages().is_empty());
        }
    });
}

#[test]
fn a_message_takes_another_route_and_again_its_own() {
    play(|| async {
        let node = Node::start(&routes()).await;
        sent(&node, &["a@x.test", "b@y.test"], "").await;
        sent(&node, &["c@x.test"], "").await;
        node.wait_for("suspended", 1).await;
        let moved = tally(&node, move_to("aside")).await;
        assert_eq!((moved.messages, moved.recipients), (2, 3));
        let aside = Peer::at(&node.world, OTHER);
        node.wait_for("relayed", 3).await;
        assert_eq!(aside.messages().iter().map(|sent| sent.to.len()).sum::<usize>(), 3);
        node.world.unserve(OTHER.parse().expect("an address"));
        // Until no connection is left.
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        sent(&node, &["d@x.test"], "").await;
        tally(&node, move_to("aside")).await;
        // What an order says of a route is taken back by naming none.
        let none = serde_json::from_str(r#"{"route":""}"#).expect("an order");
        let back =
            ControlRequest::QueueMove(QueueMove { select: Select::All, to: none, undo: false });
        assert_eq!(tally(&node, back).await.recipients, 1);
        let hop = Peer::at(&node.world, HOP);
        node.wait_for("relayed", 4).await;
        assert_eq!(hop.messages().len(), 1);
    });
}

#[test]
fn what_is_being_tried_is_left_alone_and_counted() {
    play(|| async {
        let node = Node::start(&routes()).await;
        let hop = Peer::at(&node.world, HOP);
        hop.always("RCPT", "silence");
        for to in ["a@x.test", "b@x.test"] {
            sent(&node, &[to], "").await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let moved = tally(&node, move_to("aside")).await;
        assert_eq!((moved.messages, moved.recipients, moved.in_flight), (1, 1, 1));
        let aside = Peer::at(&node.world, OTHER);
        node.wait_for("relayed", 1).await;
        assert_eq!(aside.messages()[0].to, ["b@x.test"]);
        hop.heal();
        node.wait_for("relayed", 2).await;
        assert_eq!(hop.messages()[0].to, ["a@x.test"]);
    });
}

#[test]
fn what_is_held_is_moved_and_stays_held() {
    play(|| async {
        let node = Node::start(&routes()).await;
        sent(&node, &["a@x.test"], "X-Tenant: acme\r\n").await;
        let reason = "wait".to_owned();
        tally(&node, ControlRequest::QueueHold(QueueHold { select: Select::All, reason })).await;
        assert_eq!(node.of("held")[0]["tenant"], "acme");
        assert_eq!(tally(&node, move_to("aside")).await.recipients, 1);
        let aside = Peer::at(&node.world, OTHER);
        tokio::time::sleep(Duration::from_secs(86_400)).await;
        assert!(aside.messages().is_empty());
        tally(&node, ControlRequest::QueueRelease(QueueRelease { select: Select::All })).await;
        node.wait_for("relayed", 1).await;
        assert_eq!(aside.messages().len(), 1);
    });
}

#[test]
fn a_move_to_what_is_not_there_changes_nothing() {
    play(|| async {
        let node = Node::start(&routes()).await;
        sent(&node, &["a@x.test"], "").await;
        let long = format!("\ncampaign {}", "x".repeat(129));
        for (text, told) in [
            ("nowhere", "unknown route \"nowhere\""),
            ("\npool none", "unknown pool \"none\""),
            ("\ncampaign <reports>", "\"<reports>\" is not a campaign name"),
            (&*long, "is not a campaign name"),
            ("", "name a route, pool, campaign or priority"),
        ] {
            let parts = node.ask(move_to(text)).await;
            let refused = parts.last().and_then(|part| part.refused.clone()).unwrap_or_default();
            assert!(refused.contains(told), "{text}: {refused}");
        }
        let to: Overrides = serde_json::from_str(r#"{"priority":10}"#).expect("an order");
        for undo in [false, true] {
            let order =
                ControlRequest::QueueMove(QueueMove { select: Select::All, to: to.clone(), undo });
            assert!(node.ask(order).await.iter().any(|part| part.refused.is_some()), "{undo}");
        }
        assert_eq!(node.count("moved"), 0);
    });
}

#[test]
fn a_route_that_a_reload_takes_away_leaves_the_domain_s_own() {
    play(|| async {
        let node = Node::start(&routes()).await;
        sent(&node, &["a@x.test"], "").await;
        tally(&node, move_to("aside")).await;
        node.reload(&routes().replace("name = \"aside\"", "name = \"renamed\""));
        let _hop = Peer::at(&node.world, HOP);
        node.wait_for("relayed", 1).await;
        assert_eq!(node.of("relayed")[0]["route"], "out");
    });
}

#[test]
fn what_is_failed_silently_is_settled_and_nobody_is_told() {
    play(|| async {
        let node = Node::start(&routes()).await;
        sent(&node, &["a@x.test", "b@y.test"], "X-Campaign: spring\r\n").await;
        node.wait_for("suspended", 1).await;
        let failed = tally(&node, fail(true)).await;
        assert_eq!((failed.messages, failed.recipients), (1, 2));
        node.wait_for("failed", 2).await;
        let told = node.of("failed").remove(0);
        assert_eq!((&told["campaign"], &told["status"]), (&"spring".into(), &"5.0.0".into()));
        assert_eq!(node.of("dsn_suppressed")[0]["why"], "operator");
        let back = Peer::at(&node.world, BACK);
        let node = node.restart().await;
        let _hop = Peer::at(&node.world, HOP);
        tokio::time::sleep(Duration::from_secs(86_400)).await;
        assert_eq!((node.count("relayed"), node.count("failed")), (0, 0), "it does not come back");
        assert!(back.messages().is_empty());
    });
}

#[test]
fn no_more_reports_wait_for_the_spool_than_may() {
    play(|| async {
        let node = Node::start(&routes()).await;
        let mut client = Client::connect(&node, FRIEND).await;
        for n in 0..1_300 {
            let reply = client.send("me@source.test", &[&format!("{n}@x.test")], "\r\nx\r\n").await;
            assert!(reply.starts_with("250 2.0.0"), "{reply}");
        }
        node.wait_for("suspended", 1).await;
        node.log_stands.set(true);
        let looking = async {
            tokio::time::sleep(Duration::from_secs(60)).await;
            let parts = node.ask(ShardState {}.into()).await;
            node.log_stands.set(false);
            parts.into_iter().find_map(|part| part.status).map(|status| status.unreported)
        };
        let (failed, waiting) = tokio::join!(tally(&node, fail(false)), looking);
        let waiting = waiting.expect("a status");
        assert!((1_024..1_024 + 64).contains(&waiting), "{waiting} reports wait at once");
        assert_eq!((failed.messages, failed.recipients), (1_300, 1_300));
        node.wait_for("dsn_queued", 1_300).await;
        assert_eq!(node.count("failed"), 1_300);
    });
}

/// A route by DNS, and a provider whose hosts are below `big.test`.
fn shaped() -> String {
    let text = "[provider.big]\nmx = [\"*.big.test\"]\n";
    let routes = config(&format!("{STEERED}[[route]]\nname = \"out\"\nmx = {{}}"));
    format!("shaping = [\'\'\'{text}\'\'\']\n{routes}")
}

/// `domain` has one MX host, at 192.0.2.`last`.
fn host(node: &Node, domain: &str, host: &str, last: u8) -> Peer {
    node.world.set_mx(domain, Ok(vec![Mx { preference: 10, host: host.to_owned() }]));
    let address = format!("192.0.2.{last}");
    node.world.set_addresses(host, Ok(vec![address.parse().expect("an address")]));
    Peer::at(&node.world, &format!("{address}:25"))
}

/// What the only message that is queued waits for, once all has come to rest.
async fn waits_for(node: &Node) -> (BlockerKind, String) {
    tokio::time::sleep(Duration::from_secs(5)).await;
    let listed = items(node, filtered(Filter::default())).await;
    assert_eq!(listed.len(), 1, "{listed:?}");
    let blocker = &listed[0].recipients[0].blocker;
    (blocker.kind, blocker.text.clone())
}

#[test]
fn a_tenant_s_mail_to_a_provider_waits_and_no_other() {
    play(|| async {
        let node = Node::start(&shaped()).await;
        let big = host(&node, "a.test", "mx.big.test", 1);
        let other = host(&node, "b.test", "mx.other.test", 2);
        // Some is known of before, and some comes later.
        for is_known in [false, true] {
            let before = node.count("relayed");
            node.suspend(&[r#"{"tenant":"acme","provider":"big"}"#]);
            sent(&node, &["x@a.test"], "X-Tenant: acme\r\n").await;
            sent(&node, &["x@b.test"], "X-Tenant: acme\r\n").await;
            sent(&node, &["x@a.test"], "X-Tenant: other\r\n").await;
            node.wait_for("relayed", before + 2).await;
            let (kind, text) = waits_for(&node).await;
            assert_eq!(kind, BlockerKind::Suspended, "known: {is_known}");
            assert!(text.contains("resume the tenant acme for the provider big: asked"), "{text}");
            node.suspend(&[r#"{"provider":"big"}"#]);
            let (_, text) = waits_for(&node).await;
            assert!(text.contains("resume the provider big: asked by them"), "{text}");
            node.suspend(&[]);
            node.wait_for("relayed", before + 3).await;
        }
        assert_eq!((big.messages().len(), other.messages().len()), (4, 2));
    });
}

#[test]
fn mail_is_found_and_counted_by_whose_it_is_and_where_it_goes() {
    play(|| async {
        let node = Node::start(&shaped()).await;
        host(&node, "a.test", "mx.big.test", 1).always("RCPT", "450 4.2.1 later");
        host(&node, "b.test", "mx.other.test", 2).always("RCPT", "450 4.2.1 later");
        for (to, fields) in [
            ("x@a.test", "X-Tenant: acme\r\nX-Campaign: spring\r\n"),
            ("y@a.test", "X-Tenant: other\r\n"),
            ("z@b.test", "X-Tenant: acme\r\n"),
        ] {
            sent(&node, &[to], fields).await;
        }
        node.wait_for("deferred", 3).await;
        let name = |name: &str| Some(name.to_owned());
        let big = Filter { provider: name("big"), ..Filter::default() };
        let found = async |filter: Filter| {
            let listed = items(&node, filtered(filter)).await;
            listed.into_iter().map(|item| item.recipients[0].address.clone()).collect::<Vec<_>>()
        };
        assert_eq!(found(big.clone()).await, ["x@a.test", "y@a.test"]);
        assert_eq!(found(Filter { tenant: name("acme"), ..big.clone() }).await, ["x@a.test"]);
        assert_eq!(found(Filter { campaign: name("autumn"), ..big }).await, [""; 0]);
        let none = Filter { pool: name("bulk"), ..Filter::default() };
        assert_eq!(found(none).await, [""; 0]);
        let request =
            ControlRequest::QueueSummary(QueueSummary { filter: Filter::default(), top: 5 });
        let parts = node.ask(request).await;
        let summary = parts.into_iter().find_map(|part| part.summary).expect("a summary");
        let rows = |groups: &[mta::control::SummaryRow]| {
            groups.iter().map(|group| (group.name.clone(), group.recipients)).collect::<Vec<_>>()
        };
        assert_eq!(rows(&summary.tenants), [("acme".to_owned(), 2), ("other".to_owned(), 1)]);
        assert_eq!(rows(&summary.campaigns), [("spring".to_owned(), 1)]);
        assert_eq!(rows(&summary.providers), [("big".to_owned(), 2)]);
        assert!(summary.sources.is_empty());
        let census = census(&node).await;
        assert_eq!(rows(&census.tenants), [("acme".to_owned(), 2), ("other".to_owned(), 1)]);
        assert_eq!(rows(&census.providers), [("big".to_owned(), 2)]);
        assert_eq!(census.states[0].recipients + census.states[1].recipients, 3);
        assert_eq!(rows(&census.next_hops), rows(&summary.next_hops));
    });
}

/// The counts for metrics.
async fn census(node: &Node) -> CensusRows {
    let parts = node.ask(ControlRequest::QueueCensus(QueueCensus {})).await;
    let census = parts.into_iter().find_map(|part| part.census).expect("a census");
    census.finish(5)
}

#[test]
fn census_counts_a_thousand_recipients_between_two_pauses() {
    play(|| async {
        let node = Node::start(&routes()).await;
        node.suspend(&["\"all\""]);
        for message in 0..3 {
            let to: Vec<String> = (0..1_000).map(|n| format!("x@d{message}-{n}.test")).collect();
            sent(&node, &to.iter().map(String::as_str).collect::<Vec<_>>(), "").await;
        }
        let before = node.age();
        let rows = census(&node).await;
        assert_eq!(rows.states.iter().map(|state| state.recipients).sum::<u64>(), 3_000);
        // Two pauses between three pieces, in which deliveries run.
        assert!(node.age() - before >= Duration::from_millis(2), "{:?}", node.age() - before);
    });
}

#[test]
fn census_has_the_age_of_the_oldest() {
    play(|| async {
        let node = Node::start(&routes()).await;
        node.suspend(&["\"all\""]);
        sent(&node, &["x@far.test"], "").await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        sent(&node, &["y@far.test"], "").await;
        sent(&node, &["z@other.test"], "").await;
        let rows = census(&node).await;
        let oldest = rows.states.iter().map(|state| state.oldest_ms).max();
        assert!(oldest.is_some_and(|ms| (600_000..602_000).contains(&ms)), "{oldest:?}");
        let of = |hop: &str| {
            let row = rows.next_hops.iter().find(|row| row.name.contains(hop)).expect("a row");
            (row.recipients, row.oldest_ms)
        };
        let (count, oldest) = of(HOP);
        assert!(count == 2 && (600_000..602_000).contains(&oldest), "{count} {oldest}");
        let (count, oldest) = of(OTHER);
        assert!(count == 1 && oldest < 2_000, "{count} {oldest}");
    });
}

#[test]
fn a_source_is_suspended_for_one_provider_only() {
    play(|| async {
        let pool = "[[source]]\nname = \"one\"\naddress = \"192.0.2.101\"\n\
            [[pool]]\nname = \"usual\"\nsources = [{ name = \"one\" }]\n[[route]]\npool = \"usual\"\n";
        let node = Node::start(&shaped().replace("[[route]]\n", pool)).await;
        let (big, other) =
            (host(&node, "a.test", "mx.big.test", 1), host(&node, "b.test", "mx.other.test", 2));
        node.suspend(&[r#"{"source":"one","provider":"big"}"#]);
        for to in ["x@a.test", "x@b.test"] {
            sent(&node, &[to], "").await;
        }
        node.wait_for("relayed", 1).await;
        let (_, text) = waits_for(&node).await;
        assert!(text.contains("the source one for the provider big"), "{text}");
        assert_eq!((big.messages().len(), other.messages().len()), (0, 1));
        node.suspend(&[]);
        wait_until("it has gone", || big.messages().len() == 1).await;
    });
}

#[test]
fn an_event_has_the_header_fields_that_are_asked_for() {
    play(|| async {
        let found = serde_json::json!({ "subject": "one", "X-Job": "7 \"a\"" });
        for (events, expected) in [
            ("headers = [\"subject\", \"X-Job\", \"List-Id\"]", found),
            ("headers = [\"List-Id\"]", serde_json::Value::Null),
            ("", serde_json::Value::Null),
        ] {
            let text = format!("[events]\n{events}\n[[route]]\nsmtp = {{ hosts = [\"{HOP}\"] }}");
            let node = Node::start(&config(&text)).await;
            sent(&node, &["a@x.test"], "X-JOB: 7\r\n \"a\"\r\n").await;
            assert_eq!(node.of("received")[0]["headers"], expected, "{events}");
        }
    });
}

#[test]
fn what_is_found_out_of_a_domain_serves_all_tenants_until_the_next_reload() {
    play(|| async {
        let node = Node::start(&shaped()).await;
        let first = host(&node, "a.test", "mx.big.test", 1);
        let questions = || node.world.asked().iter().filter(|name| *name == "a.test").count();
        for tenant in 0..5 {
            sent(&node, &["x@a.test"], &format!("X-Tenant: t{tenant}\r\n")).await;
        }
        node.wait_for("relayed", 5).await;
        assert_eq!((first.messages().len(), questions()), (5, 1));
        // After five minutes it is asked again, and so it is after a reload.
        tokio::time::sleep(Duration::from_secs(301)).await;
        let second = host(&node, "a.test", "mx.other.test", 2);
        sent(&node, &["x@a.test"], "X-Tenant: t5\r\n").await;
        node.wait_for("relayed", 6).await;
        assert_eq!((second.messages().len(), questions()), (1, 2));
        node.reload(&shaped());
        sent(&node, &["x@a.test"], "X-Tenant: t6\r\n").await;
        node.wait_for("relayed", 7).await;
        assert_eq!(questions(), 3);
    });
}
