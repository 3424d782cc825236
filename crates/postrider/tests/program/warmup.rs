//! Sources that warm up, with a real file, real addresses and processes that end where they stand.

use crate::sources::{came, far};
use crate::support::client::Client;
use crate::support::http::get;
use crate::support::server::{CONFIG, Server, control};
use crate::support::{Files, wait_until};
use std::time::{Duration, Instant};

/// An hour's worth of it, which may go at once, is 20; then one goes every three minutes.
const PER_DAY: u32 = 480;
const AT_ONCE: usize = 20;
const EVERY: Duration = Duration::from_secs(180);

/// A server whose mail goes to `far` from `new`, which warms up, and if `pool` says so from `old`.
fn config(far: &Server, per_day: &str, pool: &str) -> String {
    format!(
        "hostname = \"near.test\"\nspool = {{ path = \"spool\" }}\nshards = 4\n\
         [admin]\naddress = \"127.0.0.1:0\"\n\
         [[listener]]\naddress = \"127.0.0.1:0\"\nrelay_from = [\"127.0.0.0/8\"]\n\
         [[source]]\nname = \"new\"\naddress = \"127.0.0.2\"\nehlo = \"new.test\"\n\
         warmup = {{ start = \"2026-01-01\", per_day = {per_day}, hold_above = 0.05 }}\n\
         [[source]]\nname = \"old\"\naddress = \"127.0.0.3\"\nehlo = \"old.test\"\n\
         [[pool]]\nname = \"bulk\"\nsources = [{pool}]\n\
         [[route]]\npool = \"bulk\"\nretry = {{ first = \"1s\", longest = \"1s\" }}\n\
         smtp = {{ hosts = [\"{}\"] }}\n",
        far.address()
    )
}

const BOTH: &str = "{ name = \"new\", weight = 3 }, { name = \"old\" }";

/// Messages by connections of their own: they come to all shards.
fn send(near: &Server, count: usize) {
    for n in 0..count {
        let mut client = Client::connect(near.address());
        client.mail("me@source.test", &[&format!("you{n}@there.test")], "Subject: x\r\n\r\nx\r\n");
    }
}

/// Messages that came from a source.
fn from(far: &Files, who: &str) -> usize {
    came(far, 0).get(who).copied().unwrap_or_default()
}

const NEW: &str = "127.0.0.2 new.test";
const OLD: &str = "127.0.0.3 old.test";

#[test]
fn a_source_never_sends_more_than_it_may_however_often_its_server_is_killed() {
    let (near_files, far_files) = (Files::new(), Files::new());
    let far = far(&far_files);
    let begun = Instant::now();
    let text = config(&far, &format!("[{PER_DAY}, 960]"), BOTH);
    let mut near = Server::start(&near_files, &text);
    for round in 0..6 {
        send(&near, 12);
        std::thread::sleep(Duration::from_millis(7 * round));
        near.kill();
        near = Server::start_again(&near_files);
    }
    send(&near, 28);
    // What a kill left unsettled comes twice.
    came(&far_files, 100);
    wait_until("nothing waits", || near.queue().is_empty());
    let (new, old) = (from(&far_files, NEW), from(&far_files, OLD));
    let may = AT_ONCE + begun.elapsed().div_duration_f64(EVERY) as usize + 1;
    assert!(new <= may, "{new} from the new address, {may} may");
    assert!(new >= 5 && old >= 100 - may, "{new} {old}");
    let [answer, ..] = &near.json(&["sources"])[..] else { panic!("no sources") };
    let course = &answer["courses"][0];
    assert_eq!((&answer["name"], &course["count"]), (&"new".into(), &PER_DAY.into()), "{answer}");
    assert_eq!((&course["stage"], &course["stages"]), (&1.into(), &2.into()), "{answer}");
    let used = course["used"].as_u64().expect("a number");
    assert!(used >= new as u64 && used <= may as u64, "{answer}: {new} came");
    near.stop();
}

#[test]
fn what_a_spent_source_does_not_send_goes_from_the_other_within_a_second() {
    let (near_files, far_files) = (Files::new(), Files::new());
    let far = far(&far_files);
    let near = Server::start(&near_files, &config(&far, "[20]", BOTH));
    send(&near, 1);
    near_files.wait_events("relayed", 1);
    let begun = Instant::now();
    send(&near, 40);
    let sent = begun.elapsed();
    near_files.wait_events("relayed", 41);
    // Not counting how long handing them in took, and how often this test looks.
    let took = begun.elapsed().saturating_sub(sent);
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert_eq!(came(&far_files, 41).values().sum::<usize>(), 41);
    let new = from(&far_files, NEW);
    assert!((1..=2).contains(&new), "{new}");
    near.stop();
}

#[test]
fn what_waits_for_a_warm_up_says_so_and_a_reload_ends_it() {
    let (near_files, far_files) = (Files::new(), Files::new());
    let far = far(&far_files);
    let text = config(&far, "[20, 50]", "{ name = \"new\" }");
    let near = Server::start(&near_files, &text);
    send(&near, 5);
    near_files.wait_events("relayed", 1);
    wait_until("four wait", || near.queue().len() == 4);
    let told = format!("warm-up of source new towards {}: 1 of 20 recipients today", far.address());
    wait_until("it is told", || {
        let queue = near.queue();
        queue.iter().all(|item| item["recipients"][0]["blocker"]["text"] == *told)
    });
    let shown = control(near_files.dir(), &["sources"]);
    let line = shown
        .out
        .lines()
        .find(|line| line.trim_start().starts_with("new"))
        .expect("its line")
        .to_owned();
    let words: Vec<&str> = line.split_whitespace().collect();
    let towards = far.address().to_string();
    assert_eq!((words[1], words[2], words[4]), (&*towards, "1/2", "1/20"), "{}", shown.out);
    assert!(shown.out.contains("(no warm-up)"), "{}", shown.out);
    let explained = near.command(&["explain", "you@there.test"]).out;
    let plan = "20, 50 recipients a day and provider, from 2026-01-01 on";
    assert!(explained.contains("warm-up of new") && explained.contains(plan), "{explained}");
    let admin = near.wait_console("admin", |line| line.contains("metrics and health on"));
    let metrics = get(admin.rsplit(' ').next().expect("an address"), "/metrics");
    let of_source = "postrider_warmup_recipients_total{source=\"new\"} 1";
    assert!(metrics.lines().any(|line| line == of_source), "{metrics}");
    // Another list of days, the first of which is nearly used: still counted.
    near_files.write(CONFIG, &text.replace("[20, 50]", "[1]"));
    assert_eq!(near.command(&["reload"]).code, 0);
    wait_until("the day is spent", || {
        let queue = near.queue();
        let is_spent = |text: &str| text.ends_with(": 1 of 1 recipients today");
        queue
            .iter()
            .all(|item| item["recipients"][0]["blocker"]["text"].as_str().is_some_and(is_spent))
    });
    let line = text.lines().find(|line| line.starts_with("warmup")).expect("there is one");
    near_files.write(CONFIG, &text.replace(line, ""));
    assert_eq!(near.command(&["reload"]).code, 0);
    near_files.wait_events("relayed", 5);
    near.stop();
}

#[test]
fn an_orderly_stop_loses_nothing_of_the_day() {
    let (near_files, far_files) = (Files::new(), Files::new());
    let far = far(&far_files);
    let text = config(&far, &format!("[{PER_DAY}]"), "{ name = \"new\" }");
    let mut near = Server::start(&near_files, &text);
    for round in 1..4 {
        send(&near, 4);
        near_files.wait_events("relayed", 4 * round);
        near.stop();
        near = Server::start_again(&near_files);
    }
    let [answer, ..] = &near.json(&["sources"])[..] else { panic!("no sources") };
    let course = &answer["courses"][0];
    assert_eq!((&course["used"], &course["delivered"]), (&12.into(), &12.into()), "{answer}");
    near.stop();
}
