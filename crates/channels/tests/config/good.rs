//! Files that are right: what they resolve to and what they decide.

use channels::schema;
use channels::settings::Relay;
use config::{Config, Decision, Durability, EMBEDDED, ExplainRequest, InTables, POSTMASTER_ROUTE};
use mail::{Domain, Mailbox};
use mta::event::EventSettings;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

const DESIGN: &str = include_str!("design.toml");

fn config(text: &str) -> Config {
    schema()
        .parse(text, "postrider.toml")
        .unwrap_or_else(|errors| panic!("{}", errors.render(false)))
}

fn mailbox(text: &str) -> Mailbox {
    Mailbox::parse(text, true).unwrap()
}

fn decide(config: &Config, client: &str, rcpt: &str) -> Decision {
    let client: IpAddr = client.parse().unwrap();
    config.decide(&config.listeners[0], Some(client), &mailbox(rcpt), None)
}

fn example(name: &str) -> String {
    let path = format!("{}/../../examples/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

#[test]
fn the_documented_example_means_what_it_says() {
    let config = config(DESIGN);
    assert_eq!(config.hostname.as_str(), "relay.example.org");
    assert_eq!(config.spool.paths, [PathBuf::from("/var/spool/postrider")]);
    assert_eq!(config.spool.durability, Durability::Sync);
    assert_eq!(config.spool.unsettled_max, 1_024);
    assert_eq!(config.listeners[0].max_message_bytes, 52_428_800);
    assert_eq!(config.listeners[0].max_hops, 100);
    assert_eq!(config.retry.first, Duration::from_secs(60));
    assert_eq!(config.retry.give_up_after, Duration::from_secs(5 * 86_400));
    assert_eq!(config.admin.address, Some("127.0.0.1:8025".parse().unwrap()));
    assert_eq!(config.admin.control, PathBuf::from("/var/spool/postrider/control.sock"));
    assert!(config.of::<EventSettings>().is_some());
    let names: Vec<&str> = config.routes.iter().map(|route| route.channel.key()).collect();
    assert_eq!(names, ["smtp", "maildir", "lmtp", "discard", "mx", "maildir"]);
    let relay: &Relay = config.routes[0].channel.of().unwrap();
    assert_eq!(config.routes[0].host_groups(), [["127.0.0.1:55225"]]);
    assert_eq!(relay.peer.max_connections, 50);
    assert_eq!(config.routes[4].line, 29);
}

#[test]
fn clients_name_no_way_beyond_a_next_hop() {
    let config = config(DESIGN);
    let (friend, stranger) = ("127.0.0.5", "192.0.2.1");
    let routes = DESIGN.replace("[[listener]]", "[[listener]]\nallow_routed_recipients = true");
    let allowed = self::config(&routes);
    let relay = Decision::Relay { route: 4, network: Some(0) };
    for local in ["u%else.example", "else.example!u", "\"u@else.example\""] {
        let relayed = format!("{local}@domain1.grey");
        assert_eq!(decide(&config, stranger, &relayed), Decision::Routed { route: 0 });
        assert_eq!(decide(&config, friend, &relayed), Decision::Routed { route: 0 });
        assert_eq!(decide(&config, friend, &format!("{local}@elsewhere.example")), relay);
        for client in [friend, stranger] {
            assert_eq!(decide(&allowed, client, &relayed), Decision::Named { route: 0 });
        }
        let kept = format!("{local}@example.net");
        assert_eq!(decide(&config, stranger, &kept), Decision::Named { route: 1 });
    }
}

#[test]
fn ipv4_networks_in_ipv6_clothes_are_ipv4_networks() {
    let text = DESIGN.replace("127.0.0.0/8", "::ffff:10.0.0.0/104");
    assert_ne!(text, DESIGN);
    let config = config(&text);
    let relay = Decision::Relay { route: 4, network: Some(0) };
    for client in ["10.1.2.3", "::ffff:10.1.2.3"] {
        assert_eq!(decide(&config, client, "a@elsewhere.example"), relay, "{client}");
    }
}

#[test]
fn strangers_reach_named_domains_and_friends_all() {
    let config = config(DESIGN);
    let (friend, stranger) = ("127.0.0.5", "192.0.2.1");
    assert_eq!(decide(&config, stranger, "a@Domain1.grey"), Decision::Named { route: 0 });
    assert_eq!(decide(&config, stranger, "a@example.net"), Decision::Named { route: 1 });
    assert_eq!(decide(&config, stranger, "a@elsewhere.example"), Decision::Denied { route: 4 });
    let relay = Decision::Relay { route: 4, network: Some(0) };
    assert_eq!(decide(&config, friend, "a@elsewhere.example"), relay);
    assert_eq!(decide(&config, "::ffff:127.0.0.5", "a@elsewhere.example"), relay);
    let nobody = config.decide(&config.listeners[0], None, &mailbox("a@elsewhere.example"), None);
    assert_eq!(nobody, Decision::Denied { route: 4 });
    let refusal = nobody.refusal().unwrap();
    assert_eq!((refusal.code(), &*refusal.text), (550, "Relay access denied"));
    // A mailbox that smuggles another domain past the @ is still judged by its own.
    assert_eq!(decide(&config, stranger, "\"a@domain1.grey\"@evil.example"), nobody);
    assert_eq!(decide(&config, stranger, "a%domain1.grey@evil.example"), nobody);
}

#[test]
fn where_users_log_in_they_may_send_anywhere() {
    let config = config(&example("submission.toml"));
    assert!(config.listeners.iter().all(|listener| listener.needs_login()));
    let relay = Decision::Relay { route: 1, network: None };
    assert_eq!(decide(&config, "192.0.2.1", "a@elsewhere.example"), relay);
    assert_eq!(decide(&config, "192.0.2.1", "a%b@elsewhere.example"), relay);
    assert_eq!(decide(&config, "192.0.2.1", "a@example.org"), Decision::Named { route: 0 });
    // No network may do more than others.
    assert!(!config.has_relay());
}

#[test]
fn without_a_catch_all_nothing_else_is_taken() {
    let text = DESIGN.replace("mx = {}", "domains = [\"x.example\"]\nmx = {}");
    let config = config(&text);
    let stranger = decide(&config, "192.0.2.1", "a@elsewhere.example");
    assert_eq!(stranger, Decision::NoRoute { may_relay: false });
    let friend = decide(&config, "127.0.0.1", "a@elsewhere.example");
    assert_eq!(friend, Decision::NoRoute { may_relay: true });
    assert_eq!(friend.refusal().unwrap().status.to_string(), "5.1.2");
}

#[test]
fn the_postmaster_is_always_reached() {
    let config = config(DESIGN);
    let built_in = Decision::Postmaster { route: 5 };
    assert_eq!(decide(&config, "192.0.2.1", "postmaster"), built_in);
    assert_eq!(decide(&config, "192.0.2.1", "PostMaster"), built_in);
    assert_eq!(decide(&config, "192.0.2.1", "Postmaster@Relay.Example.org"), built_in);
    assert!(!decide(&config, "192.0.2.1", "root@relay.example.org").is_accepted());
    assert_eq!(&*config.routes[5].name, POSTMASTER_ROUTE);
    for address in ["postmaster", "POSTMASTER@relay.example.org"] {
        assert_eq!(config.route_of(&mailbox(address), None).unwrap().0, 5, "{address}");
    }
    assert_eq!(config.route_of(&mailbox("root@relay.example.org"), None).unwrap().0, 4);
    assert_eq!(config.warnings.len(), 1);

    let routed = self::config(&DESIGN.replace(
        "hostname = \"relay.example.org\"",
        "hostname = \"relay.example.org\"\npostmaster = \"admin@example.net\"",
    ));
    assert_eq!(decide(&routed, "192.0.2.1", "postmaster"), Decision::Postmaster { route: 1 });
    assert_eq!(routed.postmaster.address, mailbox("admin@example.net"));
    assert_eq!(routed.routes.len(), 5);
    assert!(routed.warnings.is_empty());
}

#[test]
fn own_literals_have_no_mailbox_but_the_postmasters() {
    let keys = "hostname = \"relay.example.org\"\nproxy_addresses = [\"192.0.2.7\"]";
    let text = DESIGN.replace("hostname = \"relay.example.org\"", keys);
    let config = config(&text);
    let own = config.listeners[0].address.ip();
    let relay = Decision::Relay { route: 4, network: Some(0) };
    for client in ["127.0.0.5", "192.0.2.1"] {
        for literal in ["[192.0.2.7]", "[IPv6:::ffff:192.0.2.7]", "[0.0.0.0]"] {
            let decision = decide(&config, client, &format!("al@{literal}"));
            assert_eq!(decision, Decision::OwnLiteral, "{client} {literal} {own}");
            let decision = decide(&config, client, &format!("PostMaster@{literal}"));
            assert_eq!(decision, Decision::Postmaster { route: 5 }, "{client} {literal}");
        }
    }
    assert_eq!(decide(&config, "127.0.0.5", "al@[192.0.2.8]"), relay);
    let refusal = Decision::OwnLiteral.refusal().unwrap();
    assert_eq!((refusal.code(), &*refusal.status.to_string()), (550, "5.1.2"));
}

#[test]
fn the_embedded_default_keeps_everything_and_relays_nothing() {
    let config = schema().embedded();
    assert!(config.warnings.is_empty());
    assert_eq!(config.listeners[0].address, "127.0.0.1:2525".parse().unwrap());
    assert!(config.routes.iter().all(|route| route.channel.is_local()));
    assert!(config.listeners.iter().all(|l| l.address.ip().is_loopback()));
    assert_eq!(decide(&config, "127.0.0.1", "a@any.example"), Decision::Local { route: 0 });
    let recipient = mailbox("Jo@Any.example");
    let request = ExplainRequest {
        recipient: &recipient,
        sender: None,
        listener: None,
        client: None,
        login: None,
        mx: None,
        tls: &[],
        in_tables: InTables::default(),
        rehearsal: None,
    };
    let steps = config.explain(&request).unwrap().steps;
    let path = steps.iter().find(|step| step.what == "path").unwrap();
    assert_eq!(path.value, "./postrider-data/mail/any.example/jo");
    assert_eq!(config.spool.paths, [PathBuf::from("./postrider-data/spool")]);
    assert!(EMBEDDED.lines().count() < 20);
}

#[test]
fn who_believes_everybody_is_warned() {
    for key in ["proxy_protocol_from", "xclient_from"] {
        for (networks, warns) in [("10.0.0.0/8", false), ("10.0.0.0/8\", \"::/0", true)] {
            let keys = format!("{key} = [\"{networks}\"]\nrelay_from");
            let config = config(&DESIGN.replace("relay_from", &keys));
            let found = |w: &config::Problem| w.message.contains("trusts every client");
            assert_eq!(config.warnings.iter().any(found), warns, "{key} {networks}");
            let recipient = mailbox("jo@any.example");
            let request = ExplainRequest {
                recipient: &recipient,
                sender: None,
                listener: None,
                client: None,
                login: None,
                mx: None,
                tls: &[],
                in_tables: InTables::default(),
                rehearsal: None,
            };
            let steps = config.explain(&request).unwrap().steps;
            let shown = steps.iter().find(|step| step.what == key).unwrap();
            assert!(shown.value.starts_with("10.0.0.0/8"), "{shown:?}");
        }
    }
}

#[test]
fn an_open_relay_is_warned_of() {
    for network in ["0.0.0.0/0", "::/0", "192.0.2.7/0"] {
        let text = DESIGN.replace("127.0.0.0/8", network);
        let config = config(&text);
        let warned =
            config.warnings.iter().any(|w| w.message.contains("open relay") && w.line == 10);
        assert!(warned, "{network}");
    }
}

#[test]
fn routes_to_the_same_hosts_have_queues_and_limits_of_their_own() {
    let routes = |first: &str, second: &str| {
        format!(
            "[[listener]]\naddress = \"127.0.0.1:25\"\n[[route]]\ndomains = [\"a.example\"]\n\
             smtp = {{ hosts = [\"h2\", \"h1\"]{first} }}\n[[route]]\n\
             domains = [\"b.example\"]\nsmtp = {{ hosts = [\"h1\", \"h2\"]{second} }}\n"
        )
    };
    let keys =
        |config: &Config| [0, 1].map(|index: usize| config.routes[index].next_hop().unwrap());
    let alike = config(&routes("", ", max_connections = 1"));
    assert_eq!(keys(&alike), ["smtp:route-1:h1:25,h2:25", "smtp:route-2:h1:25,h2:25"]);
    let failover = ", balance = \"failover\"";
    let ordered = config(&routes(failover, failover));
    assert_eq!(keys(&ordered), ["smtp:route-1:h2:25>h1:25", "smtp:route-2:h1:25>h2:25"]);
    assert!(ordered.warnings.iter().all(|w| !w.message.contains("hosts")));
}

#[test]
fn a_route_into_a_listener_of_ones_own_is_warned_of() {
    let routes = |listener: &str, host: &str| {
        config(&format!(
            "proxy_addresses = [\"::ffff:192.0.2.9\"]\n[[listener]]\naddress = \"{listener}\"\n\
             [[route]]\nsmtp = {{ hosts = [\"{host}\"] }}\n"
        ))
    };
    let is_warned = |listener: &str, host: &str| {
        let config = routes(listener, host);
        config.warnings.iter().any(|w| w.line == 5 && w.message.contains("own listener"))
    };
    assert!(is_warned("192.0.2.1:25", "192.0.2.1"));
    assert!(is_warned("0.0.0.0:2525", "127.0.0.1:2525"));
    assert!(!is_warned("0.0.0.0:2525", "127.0.0.1:2526"));
    assert!(!is_warned("192.0.2.1:25", "192.0.2.2:25"));
    let own = "192.0.2.9".parse::<std::net::IpAddr>().unwrap();
    assert_eq!(routes("192.0.2.1:25", "192.0.2.2").proxy_addresses, [own]);
}

#[test]
fn ten_thousand_domains_are_found_as_quickly_as_one() {
    let mut text = String::from("[[listener]]\naddress = \"127.0.0.1:25\"\n");
    for route in 0..100 {
        let names: Vec<String> = (0..100).map(|n| format!("\"d{n}.r{route}.example\"")).collect();
        writeln!(
            text,
            "[[route]]\ndomains = [{}, \"*.w{route}.example\"]\ndiscard = {{}}",
            names.join(",")
        )
        .unwrap();
    }
    let config = config(&text);
    for route in 0..100 {
        let domain = |text: String| Domain::parse(&text).unwrap();
        let found = |text: String| config.route_for(&domain(text), None).map(|(index, _)| index);
        assert_eq!(found(format!("d{route}.r{route}.example")), Some(route));
        assert_eq!(found(format!("a.b.w{route}.example")), Some(route));
        assert_eq!(found(format!("w{route}.example")), None);
    }
}

#[test]
fn routes_change_the_retry_they_name_and_nothing_else() {
    let config = config(&example("mx-outbound.toml"));
    let careful = &config.routes[0];
    assert_eq!(careful.retry.first, Duration::from_secs(300));
    assert_eq!(careful.retry.give_up_after, config.retry.give_up_after);
    assert_eq!(config.routes[1].retry, config.retry);
}

#[test]
fn the_benchmark_has_the_settings_that_it_is_published_with() {
    let benchmark = config(&example("benchmark-relay.toml"));
    assert_eq!(benchmark.spool.durability, Durability::Sync);
    assert_eq!(decide(&benchmark, "192.0.2.1", "a@domain5.grey"), Decision::Named { route: 0 });
}

#[test]
fn an_explanation_names_the_line_of_each_decision() {
    let config = config(DESIGN);
    let recipient = mailbox("someone@domain2.grey");
    let sender = mailbox("news@example.org");
    let request = ExplainRequest {
        recipient: &recipient,
        sender: Some(&sender),
        listener: None,
        client: None,
        login: None,
        mx: None,
        tls: &[],
        in_tables: InTables::default(),
        rehearsal: None,
    };
    let explanation = config.explain(&request).unwrap();
    insta::assert_snapshot!(explanation.to_string());
    let json = serde_json::to_value(&explanation).unwrap();
    assert_eq!(json["ready_queue"], "smtp:route-1:127.0.0.1:55225");
    assert_eq!(json["steps"][6]["decided_by"], "postrider.toml:13");
    assert!(config.explain(&ExplainRequest { listener: Some("no"), ..request }).is_err());
}

#[test]
fn what_is_checked_of_strangers_is_explained() {
    let text = "[[listener]]\naddress = \"127.0.0.1:25\"\n[listener.checks]\nspf = \"mark\"\n\
                own_domains = \"reject\"\ngreylist = true\n[listener.checks.dnsbl]\n\
                lists = [\"a.example*2\", \"b.example*-1\"]\naction = \"hold\"\n\
                [[route]]\ndiscard = {}\n";
    let config = config(text);
    let recipient = mailbox("someone@example.org");
    let request = ExplainRequest {
        recipient: &recipient,
        sender: None,
        listener: None,
        client: None,
        login: None,
        mx: None,
        tls: &[],
        in_tables: InTables::default(),
        rehearsal: None,
    };
    let steps = config.explain(&request).unwrap().steps;
    let checks = steps.iter().find(|step| step.what == "checks").map(|step| step.value.as_str());
    let told = "own_domains refuses, dnsbl (a.example b.example) holds, \
                greylist defers for 300 s, spf marks";
    assert_eq!(checks, Some(told));
}

#[test]
fn an_explanation_of_a_refusal_and_of_mx() {
    let config = config(DESIGN);
    let recipient = mailbox("someone@elsewhere.example");
    let group = |host: &str| vec![host.to_owned()];
    let hosts = ["mx2.elsewhere.example", "mx1.elsewhere.example"].map(group);
    let mut request = ExplainRequest {
        recipient: &recipient,
        sender: None,
        listener: Some("relay"),
        client: None,
        login: None,
        mx: Some(Ok(&hosts)),
        tls: &[],
        in_tables: InTables::default(),
        rehearsal: None,
    };
    let refused = config.explain(&request).unwrap();
    assert!(!refused.accepted);
    let acceptance = &refused.steps[1];
    assert_eq!(
        acceptance.value,
        "rejected for an unauthenticated client: 550 5.7.1 Relay access denied"
    );
    assert_eq!(acceptance.decided_by.to_string(), "postrider.toml:10");
    request.client = Some("127.0.0.1".parse().unwrap());
    let accepted = config.explain(&request).unwrap();
    assert!(accepted.accepted);
    let key = "mx:mx2.elsewhere.example:25>mx1.elsewhere.example:25";
    let key = key.replacen("mx:", &format!("mx:{}:", accepted.route.as_deref().unwrap()), 1);
    assert_eq!(accepted.ready_queue, Some(key));
}

#[test]
fn an_explanation_names_the_milters_for_everybody() {
    let text = "[[listener]]\naddress = \"127.0.0.1:25\"\nrelay_from = [\"127.0.0.0/8\"]\n\
                milters = [{ address = \"127.0.0.1:1\", on_failure = \"accept\" },\n\
                { address = \"unix:/m\" }]\n[[route]]\ndiscard = {}\n";
    let config = config(text);
    let recipient = mailbox("someone@example.org");
    for client in [None, Some("127.0.0.1".parse().unwrap())] {
        let request = ExplainRequest {
            recipient: &recipient,
            sender: None,
            listener: None,
            client,
            login: None,
            mx: None,
            tls: &[],
            in_tables: InTables::default(),
            rehearsal: None,
        };
        let steps = config.explain(&request).unwrap().steps;
        let step = steps.iter().find(|step| step.what == "milters").unwrap();
        let value = "127.0.0.1:1 (on failure: accept), then unix:/m (on failure: tempfail)";
        assert_eq!(step.value, value);
        assert_eq!(step.decided_by.to_string(), "postrider.toml:4");
    }
}

#[test]
fn dotted_keys_and_inline_sections_are_found_too() {
    let text = "spool.path = \"/a\"\nlistener = [{ address = \"127.0.0.1:25\" }]\n\
                route = [{ domains = [\".example.org\"], mx = { max_connections = 7 } }]\n";
    let config = config(text);
    assert_eq!(config.spool.paths, [PathBuf::from("/a")]);
    let domain = Domain::parse("x.example.org").unwrap();
    assert_eq!(config.route_for(&domain, None).map(|(index, _)| index), Some(0));
    assert_eq!(config.routes[0].line, 3);
    assert_eq!(config.routes[0].channel.of::<Relay>().unwrap().peer.max_connections, 7);
}

#[test]
fn a_machine_without_a_name_is_called_localhost() {
    let text = "[[listener]]\naddress = \"127.0.0.1:25\"\n[[route]]\ndiscard = {}\n";
    let name = |machine: &str| schema().parse_on(text, "f", machine).unwrap().hostname.to_string();
    assert_eq!(name("Mail.example.org"), "mail.example.org");
    assert_eq!(name("not a name"), "localhost");
}

#[test]
fn name_servers_have_port_53_unless_another_is_given() {
    let text = "[[listener]]\naddress = \"127.0.0.1:25\"\n[[route]]\ndiscard = {}\n\
                [dns]\nservers = [\"192.0.2.53\", \"::1\", \"127.0.0.1:5353\"]\n";
    let servers = config(text).dns.servers;
    let expected = ["192.0.2.53:53", "[::1]:53", "127.0.0.1:5353"];
    assert_eq!(servers, expected.map(|text| text.parse().unwrap()));
}

#[test]
fn what_is_legal_and_hardly_meant_is_warned_of() {
    let text = "hostname = \"vm\"\n[spool]\npath = \"~/spool\"\n\
                [[listener]]\naddress = \"127.0.0.1:25\"\n[[route]]\nmx = {}\n";
    let warnings = |text: &str| -> Vec<String> {
        let config = config(text);
        let shown = |p: &config::Problem| format!("{}: {}", p.line, p.message);
        config.warnings.iter().map(shown).collect()
    };
    let expected = [
        "1: no route for the postmaster's mail (postmaster@vm)",
        "1: \"vm\" is a name without a domain",
        "3: \"~/spool\" is a directory named ~",
        "6: no client may use the route for all other domains",
    ];
    assert_eq!(warnings(text), expected);
    let meant = text
        .replace("\"vm\"", "\"vm.example\"")
        .replace("~/", "/")
        .replace(":25\"", ":25\"\nrelay_from = [\"127.0.0.0/8\"]");
    assert_eq!(warnings(&meant), ["1: no route for the postmaster's mail (postmaster@vm.example)"]);
}

#[test]
fn conditions_that_no_mail_meets_are_warned_of() {
    let warnings = |listener: &str, route: &str| -> Vec<String> {
        let text = format!(
            "[[listener]]\naddress = \"127.0.0.1:25\"\n{listener}\n[[route]]\n{route}\ndiscard = {{}}\n\
             [[route]]\ndomains = [\"last.example\"]\ndiscard = {{}}\n"
        );
        let shown = |p: &config::Problem| format!("{}: {}", p.line, p.message);
        let all = config(&text).warnings;
        all.iter().filter(|p| p.line > 1).map(shown).collect()
    };
    let inside = "relay_from = [\"192.0.2.0/24\", \"2001:db8::/32\"]";
    let clients = |list: &str| format!("when = {{ clients = [{list}] }}");
    let outside = "5: no listener lets these clients use a route without `domains`, so the \
                   condition never holds";
    for (listener, route, expected) in [
        (inside, clients("\"192.0.2.7\""), vec![]),
        (inside, clients("\"192.0.0.0/16\""), vec![]),
        (inside, clients("\"10.0.0.0/8\", \"2001:db8:1::/48\""), vec![]),
        (inside, clients("\"10.0.0.0/8\", \"192.0.3.0/24\""), vec![outside]),
        (inside, clients("\"10.0.0.0/8\"") + "\ndomains = [\"a.example\"]", vec![]),
        (
            "",
            clients("\"10.0.0.0/8\""),
            vec!["5: no client may use this route, because it has no `domains`"],
        ),
        (
            inside,
            "domains = [\"a.example\"]\nwhen = { recipients = [\"@a.example\", \"@b.example\"] }"
                .into(),
            vec!["6: @b.example is outside the `domains` of the route"],
        ),
        // Without [[tenant]], clients name tenants as they like.
        (
            "steering_from = [\"192.0.2.0/24\"]\nrelay_from = [\"192.0.2.0/24\"]",
            "when = { tenants = [\"acme\"] }".into(),
            vec![],
        ),
    ] {
        assert_eq!(warnings(listener, &route), expected, "{listener} {route}");
    }
}

#[test]
fn limits_name_listeners_of_the_file() {
    let text = "[[listener]]\nname = \"in\"\naddress = \"127.0.0.1:25\"\n\
        [[listener]]\naddress = \"127.0.0.1:26\"\nrelay_from = [\"127.0.0.1\"]\n\
        [[route]]\ndiscard = {}\n\
        [[limit]]\nby = \"sender\"\nmessages = \"1/h\"\nlisteners = [\"in\"]\n\
        [[limit]]\nby = \"sender\"\nmessages = \"2/h\"\nlisteners = [\"127.0.0.1:26\"]\n\
        when = { listeners = [\"127.0.0.1:26\"] }\n";
    assert_eq!(config(text).listeners.len(), 2);
}

#[test]
fn access_rules_without_clients_are_warned_of() {
    let rule = |by: &str, more: &str| format!("[[access]]\ntable = \"t\"\nby = \"{by}\"\n{more}");
    let warnings = |rules: String| -> Vec<String> {
        let text = format!(
            "[[listener]]\naddress = \"127.0.0.1:25\"\n[[route]]\ndiscard = {{}}\n\
             [[table]]\nname = \"t\"\ninline = {{}}\n{rules}"
        );
        let shown = |p: &config::Problem| format!("{}: {}", p.line, p.message);
        config(&text).warnings.iter().map(shown).collect()
    };
    let changed = "an access rule without `clients`: it no longer applies to clients that may \
                   relay or have logged in";
    let lists = ", and its OK ends only the rules of its list";
    assert_eq!(warnings(rule("helo", "")), [format!("8: {changed}")]);
    assert_eq!(
        warnings(rule("helo", "") + &rule("sender", "clients = \"all\"\n") + &rule("client", "")),
        [format!("8: {changed}{lists}"), format!("15: {changed}{lists}")]
    );
    for clients in ["clients = \"strangers\"\n", "clients = \"all\"\nlist = \"helo\"\n"] {
        assert!(warnings(rule("helo", clients) + &rule("sender", clients)).is_empty());
    }
}

#[test]
fn certificates_for_names_that_anybody_may_have_forged_are_warned_of() {
    for (channel, warns) in [
        ("mx = { tls = \"verified\" }", true),
        ("mx = { tls = \"dane\" }", false),
        ("mx = { tls = \"mta-sts\" }", false),
        ("mx = {}", false),
        ("smtp = { hosts = [\"mx.example\"], tls = \"verified\" }", false),
    ] {
        let listener = "[[listener]]\naddress = \"127.0.0.1:25\"\n";
        let config = config(&format!("{listener}[[route]]\n{channel}\n"));
        let found = |w: &config::Problem| w.message.contains("come from the DNS") && w.line == 4;
        assert_eq!(config.warnings.iter().any(found), warns, "{channel}");
    }
}

#[test]
fn a_path_may_have_what_all_parts_of_a_table_have() {
    let routes = |kind: &str, name: &str| {
        schema().parse(
            &format!(
                "[[listener]]\naddress = \"127.0.0.1:25\"\n[[table]]\nname = \"a\"\ninline = {{}}\n\
                 [[table]]\nname = \"b\"\ninline = {{}}\n[[table]]\nname = \"c\"\n\
                 {kind} = {{ tables = [\"a\", \"b\"] }}\n[[route]]\n\
                 recipients = {{ table = \"c\" }}\nmaildir = {{ path = \"/m/{{{name}}}\" }}\n"
            ),
            "test.toml",
        )
    };
    for kind in ["first", "union"] {
        assert!(routes(kind, "Value").is_ok(), "{kind}");
        let errors = routes(kind, "mailbox").unwrap_err();
        let told = errors.problems()[0].help.clone().unwrap_or_default();
        assert!(told.contains("entries of table \"c\" have {value}"), "{kind}: {told}");
    }
}
