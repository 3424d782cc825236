//! Tenants: whose mail it is, and what each may have.

use crate::support::certificate::{EC, make_certificate, section};
use crate::support::client::Client;
use crate::support::http::get;
use crate::support::server::{CONFIG, Server, control};
use crate::support::{Files, tool, wait_until};
use serde_json::Value;
use std::time::{Duration, Instant};

/// A next hop that takes what comes.
fn far(files: &Files) -> Server {
    crate::sources::far(files)
}

fn near(files: &Files, far: &Server, tenants: &str) -> Server {
    make_certificate(files.dir(), "mx", EC, &["mail.here.test", "localhost"]);
    let text = format!(
        "hostname = \"mail.here.test\"\nspool = {{ path = \"spool\" }}\n{}\
         [[listener]]\nname = \"submissions\"\nkind = \"submission\"\naddress = \"127.0.0.1:0\"\n\
         tls = \"implicit\"\nlogins = {{ table = \"passwords\" }}\n\
         [[table]]\nname = \"passwords\"\n[table.inline]\nacme-app = \"{{PLAIN}}pencil\"\n\
         other = \"{{PLAIN}}pencil\"\n{tenants}\
         [[route]]\nsmtp = {{ hosts = [\"{}\"] }}\n",
        section("mx", &["mail.here.test"]),
        far.address()
    );
    Server::start(files, &text)
}

/// What the server says to each of so many messages of a user, in one session.
fn submit(near: &Server, user: &str, count: usize) -> Vec<String> {
    let script = "import smtplib, ssl, sys\n\
        port, user, count = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])\n\
        context = ssl._create_unverified_context()\n\
        s = smtplib.SMTP_SSL('127.0.0.1', port, context=context)\n\
        s.login(user, 'pencil')\n\
        for n in range(count):\n\
        \x20   s.mail('me@source.test'); s.rcpt('you%d@there.test' % n)\n\
        \x20   code, text = s.data(b'From: me@source.test\\r\\nSubject: x\\r\\n\\r\\nx\\r\\n')\n\
        \x20   print(code, text.decode())\n";
    let (port, count) = (near.address().port().to_string(), count.to_string());
    let said = tool::run("python3", &["-c", script, &port, user, &count]);
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    String::from_utf8_lossy(&said.stdout).lines().map(str::to_owned).collect()
}

fn are_queued(said: &[String]) -> bool {
    said.iter().all(|line| line.starts_with("250 2.0.0"))
}

#[test]
fn a_tenant_s_rate_holds_for_its_mail_alone_and_is_named() {
    let (near_files, far_files) = (Files::new(), Files::new());
    let far = far(&far_files);
    let tenants =
        "[[tenant]]\nname = \"acme\"\nlogins = [\"acme-app\"]\nrate = [\"1000/s\", \"10/s\"]\n";
    let near = near(&near_files, &far, tenants);
    let begun = Instant::now();
    assert!(are_queued(&submit(&near, "acme-app", 40)));
    let told = || near.queue().iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
    wait_until("the rate is named", || {
        told().contains("the message rate limit of tenant acme at 10/s")
    });
    // Nobody else waits for it.
    assert!(are_queued(&submit(&near, "other", 5)));
    wait_until("that of the other has come", || {
        let events = near_files.events_of("received");
        let ids = events.iter().filter(|event| event["login"] == "other").map(|event| &event["id"]);
        let relayed = near_files.events_of("relayed");
        ids.filter(|id| relayed.iter().any(|event| event["id"] == **id)).count() == 5
    });
    assert!(near_files.events_of("relayed").len() < 45, "the tenant's still waits");
    near_files.wait_events("relayed", 45);
    // 40 by 10 a second, two of them at once at first.
    assert!(begun.elapsed() >= Duration::from_millis(3_700), "{:?}", begun.elapsed());
    near.stop();
}

#[test]
fn a_tenant_has_so_many_queued_and_no_more_also_after_a_crash() {
    let (near_files, far_files) = (Files::new(), Files::new());
    let far = far(&far_files);
    let tenants = "[[tenant]]\nname = \"acme\"\nlogins = [\"acme-app\"]\nqueued_max = 3\n";
    let near = near(&near_files, &far, tenants);
    let queue = |words: &[&str]| control(near_files.dir(), &[&["queue"], words].concat());
    assert_eq!(queue(&["suspend", "--next-hop", &far.to(), "--reason", "later"]).code, 0);
    let said = submit(&near, "acme-app", 5);
    assert!(are_queued(&said[..3]), "{said:?}");
    for line in &said[3..] {
        assert_eq!(line, "452 4.3.1 Tenant queue limit reached; try again later");
    }
    assert!(are_queued(&submit(&near, "other", 5)), "others may");
    near.kill();
    let near = Server::start_again(&near_files);
    wait_until("what was queued is known", || near.queue().len() == 8);
    assert!(submit(&near, "acme-app", 1)[0].starts_with("452 4.3.1"));
    assert_eq!(queue(&["resume", "--next-hop", &far.to()]).code, 0);
    near_files.wait_events("relayed", 8);
    wait_until("there is room again", || are_queued(&submit(&near, "acme-app", 1)));
    near.stop();
}

#[test]
fn a_tenant_has_a_pool_of_its_own_and_nothing_unsigned() {
    let (near_files, far_files) = (Files::new(), Files::new());
    let far = far(&far_files);
    let tenants = "[[source]]\nname = \"ip-1\"\naddress = \"127.0.0.2\"\n\
                   [[pool]]\nname = \"bulk\"\nsources = [{ name = \"ip-1\" }]\n\
                   [[tenant]]\nname = \"acme\"\nlogins = [\"acme-app\"]\npool = \"bulk\"\n";
    let near = near(&near_files, &far, tenants);
    assert!(are_queued(&submit(&near, "acme-app", 3)));
    assert!(are_queued(&submit(&near, "other", 2)));
    near_files.wait_events("relayed", 5);
    let came = crate::sources::came(&far_files, 5);
    assert_eq!(came.get("127.0.0.2 mail.here.test"), Some(&3), "{came:?}");
    // A reload reaches it.
    let text = std::fs::read_to_string(near_files.path(CONFIG)).expect("it is there");
    let stricter = text.replace("pool = \"bulk\"\n", "unsigned = \"refuse\"\n");
    near_files.write(CONFIG, &stricter);
    assert_eq!(control(near_files.dir(), &["reload"]).code, 0);
    let said = submit(&near, "acme-app", 1);
    assert_eq!(said, ["550 5.7.20 No DKIM signer configured for the author domain"]);
    assert!(are_queued(&submit(&near, "other", 1)));
    near.stop();
}

#[test]
fn who_may_steer_names_tenants_that_there_are() {
    let (near_files, far_files) = (Files::new(), Files::new());
    let far = far(&far_files);
    let near = Server::start(
        &near_files,
        &format!(
            "hostname = \"mail.here.test\"\nspool = {{ path = \"spool\" }}\n\
             [[listener]]\naddress = \"127.0.0.1:0\"\nrelay_from = [\"127.0.0.0/8\"]\n\
             steering_from = [\"127.0.0.1\"]\n\
             [admin]\naddress = \"127.0.0.1:0\"\n[steering]\ntenant = \"X-Tenant\"\n\
             [[tenant]]\nname = \"acme\"\nqueued_max = 1_000\n\
             [[tenant]]\nname = \"small\"\nqueued_max = 1\n\
             [[route]]\nsmtp = {{ hosts = [\"{}\"] }}\n",
            far.address()
        ),
    );
    let queue = |words: &[&str]| control(near_files.dir(), &[&["queue"], words].concat());
    assert_eq!(queue(&["suspend", "--next-hop", &far.to(), "--reason", "later"]).code, 0);
    let mut client = Client::connect(near.address());
    let mut give = |tenant: &str| {
        let content = format!("X-Tenant: {tenant}\r\nSubject: x\r\n\r\nx\r\n");
        client.say("MAIL FROM:<me@source.test>", "250");
        client.say("RCPT TO:<you@there.test>", "250");
        client.say("DATA", "354");
        client.send(content);
        client.say(".", "")
    };
    assert!(give("acme").starts_with("250 "));
    assert_eq!(give("unknown").trim_end(), "550 5.7.1 Unknown tenant");
    assert!(give("small").starts_with("250 "));
    assert!(give("small").starts_with("452 4.3.1 "));
    assert!(give("acme").starts_with("250 "));
    // What is stopped of one goes on for others, and orders find it by its name.
    let count = |words: &[&str]| {
        let listed = near.json(&[&["queue", "list"], words].concat());
        listed.iter().filter(|response| response["response"] == "item").count()
    };
    assert_eq!((count(&["--tenant", "acme"]), count(&["--tenant", "small"])), (2, 1));
    assert_eq!(queue(&["suspend", "--tenant", "acme", "--reason", "unpaid"]).code, 0);
    assert_eq!(queue(&["resume", "--next-hop", &far.to()]).code, 0);
    let relayed = near_files.wait_events("relayed", 1);
    assert_eq!(relayed[0]["tenant"], "small", "{relayed:?}");
    let told = || near.queue().iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
    wait_until("it is told", || told().matches("the tenant acme: unpaid").count() == 2);
    assert_eq!(queue(&["resume", "--tenant", "acme"]).code, 0);
    near_files.wait_events("relayed", 3);
    let received = near_files.events_of("received");
    let tenants: Vec<&str> = received.iter().filter_map(|event| event["tenant"].as_str()).collect();
    assert_eq!(tenants, ["acme", "small", "acme"]);
    let line = near.wait_console("admin", |line| line.contains("metrics and health on "));
    let metrics = get(line.rsplit(' ').next().expect("an address"), "/metrics");
    for line in [
        "postrider_tenant_sent_total{tenant=\"acme\"} 2",
        "postrider_tenant_sent_total{tenant=\"small\"} 1",
        "postrider_tenant_queue_full_refusals_total 1",
    ] {
        assert!(metrics.lines().any(|said| said == line), "{line}: {metrics}");
    }
    near.stop();
}
