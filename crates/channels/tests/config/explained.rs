//! `explain` shows every key that the file sets at the listener and in the route, with its line. The keys are those of
//! the schema: one that is new is asked for here.

use channels::schema;
use config::{
    ConditionStep, ConditionSubject, ExplainRequest, ExplainedDecision, FoundRoutes, InTables,
};
use mail::Mailbox;
use serde_json::Value;

/// What the sections refer to.
const AROUND: &str = r#"
[[certificate]]
names = ["mx.example.org"]
chain = "/c.pem"
key = "/k.pem"
[[table]]
name = "t"
inline = { a = "b" }
[[source]]
name = "s"
address = "192.0.2.1"
[[pool]]
name = "p"
sources = [{ name = "s" }]
[srs]
domain = "srs.example.org"
secret_file = "/srs"
[x400]
mta = "relay"
domain = "/PRMD=Example/ADMD= /C=GB/"
gateway = { address = "/O=gw/PRMD=Example/ADMD= /C=GB/", domain = "gw.example.org" }
[[x400.peer]]
name = "hub"
hosts = ["192.0.2.7"]
their_name = "hub"
their_password = "x"
"#;

const LISTENER: &str = "[[listener]]\naddress = \"127.0.0.1:25\"\n";
const ROUTE: &str = "[[route]]\ndiscard = {}\n";

/// Values of keys that have no default, or one that does not do beside others: definition, key, value.
const VALUES: &[(&str, &str, &str)] = &[
    ("ListenerText", "add_missing_fields", "true"),
    ("ListenerText", "address", "\"127.0.0.1:2525\""),
    ("ListenerText", "authors", "\"any\""),
    ("ListenerText", "bare_newline", "\"reject\""),
    (
        "ListenerText",
        "checks",
        "{ arc = \"mark\", temporary = \"defer\", dnsbl = [\"bl.example\"] }",
    ),
    ("ListenerText", "client_certificates", "{ authorities = \"/ca.pem\" }"),
    ("ListenerText", "drop", "\"/var/spool/drop\""),
    ("ListenerText", "exempt_from_limits", "[\"192.0.2.0/24\"]"),
    ("ListenerText", "logins", "{ table = \"t\" }"),
    ("ListenerText", "milters", "[{ address = \"127.0.0.1:11332\", content_timeout = \"1m\" }]"),
    ("ListenerText", "name", "\"in\""),
    ("ListenerText", "origin", "\"example.org\""),
    ("ListenerText", "remove_bcc", "true"),
    ("ListenerText", "seal", "{ domain = \"a.test\", selector = \"s\", key = \"/k\" }"),
    ("ListenerText", "senders", "{ table = \"t\" }"),
    ("ListenerText", "socket", "\"/run/submit.sock\""),
    ("ListenerText", "tls", "\"starttls\""),
    ("RouteText", "aliases", "{ table = \"t\" }"),
    ("RouteText", "defer_classes", "[\"reputation\"]"),
    ("RouteText", "domains", "[\"b.test\", \"a.test\"]"),
    ("RouteText", "fallback", "\"backup\""),
    ("RouteText", "include", "[\"/lists\"]"),
    ("RouteText", "name", "\"out\""),
    ("RouteText", "or_addresses", "[\"/O=Beta/PRMD=TestB/ADMD= /C=GB/\"]"),
    ("RouteText", "pool", "\"p\""),
    ("RouteText", "recipients", "{ table = \"t\" }"),
    ("RouteText", "reports", "{ to = \"nobody\", returns = \"headers\" }"),
    ("RouteText", "retry", "{ first = \"1m\", factor = 3.0 }"),
    ("RouteText", "srs", "true"),
    ("RouteText", "when", "{ recipients = [\"@a.test\"] }"),
    ("SmtpText", "hosts", "[\"192.0.2.1\"]"),
    ("SmtpText", "login", "{ user = \"jo\", password_file = \"/p\" }"),
    ("SmtpText", "mx_of", "\"r.test\""),
    ("SmtpText", "tls", "\"required\""),
    ("LmtpText", "hosts", "[\"192.0.2.1\"]"),
    ("MaildirText", "group", "\"mail\""),
    ("MaildirText", "junk", "{ header = \"X-Spam-Flag\", value = \"YES\", folder = \".Junk\" }"),
    ("MaildirText", "path", "\"/m/{domain}/{local}\""),
    ("MaildirText", "quota", "\"1GiB\""),
    ("MaildirText", "quota_grace", "\"1d\""),
    ("MaildirText", "user", "\"mail\""),
    ("PipeText", "command", "[\"/bin/post\", \"{user}\"]"),
    ("PipeText", "group", "\"mail\""),
    ("PipeText", "user", "\"mail\""),
    ("X400RouteText", "peer", "\"hub\""),
];

/// The keys of a definition but for some, each with a value.
fn keys(definition: &str, but: &[&str]) -> Vec<(String, String)> {
    let properties = schema().json()["$defs"][definition]["properties"].as_object().unwrap();
    let value = |key: &str, property: &Value| {
        let mut known = VALUES.iter().filter(|(of, named, _)| *of == definition && *named == key);
        if let Some((_, _, value)) = known.next() {
            return (*value).to_owned();
        }
        let default = &property["default"];
        assert!(!default.is_null(), "{definition}: which value has `{key}`? A line in VALUES");
        match default.as_array().is_some_and(Vec::is_empty) {
            true => "[\"192.0.2.0/24\"]".to_owned(),
            false => default.to_string(),
        }
    };
    let known = properties.iter().filter(|(key, _)| !but.contains(&key.as_str()));
    known.map(|(key, property)| (key.clone(), value(key, property))).collect()
}

/// Each key on a line of its own behind what is there already; returns the lines with their keys.
fn write(text: &mut String, keys: &[(String, String)]) -> Vec<(usize, String)> {
    let mut lines = Vec::new();
    for (key, value) in keys {
        lines.push((text.lines().count() + 1, key.clone()));
        text.push_str(&format!("{key} = {value}\n"));
    }
    lines
}

fn explained(text: &str, recipient: &str) -> Vec<ExplainedDecision> {
    let config = schema().parse(text, "f.toml").unwrap_or_else(|all| panic!("{text}\n{all}"));
    let recipient = Mailbox::parse_any(recipient).unwrap();
    // Its conditions hold.
    let by_conditions = config.routes[0].when.as_ref().map(|_| 0);
    let routes = FoundRoutes { in_tables: None, by_conditions };
    let request = ExplainRequest {
        recipient: &recipient,
        sender: None,
        listener: Some(&config.listeners[0].name),
        client: None,
        login: None,
        mx: None,
        tls: &[],
        in_tables: InTables { routes, ..InTables::default() },
        rehearsal: None,
    };
    config.explain(&request).unwrap().steps
}

fn check(text: &str, recipient: &str, lines: &[(usize, String)]) {
    let steps = explained(text, recipient);
    for (line, key) in lines {
        let place = format!("f.toml:{line}");
        let is_shown = steps.iter().any(|step| step.decided_by.to_string() == place);
        assert!(is_shown, "`{key}` on line {line} is not shown:\n{text}\n{steps:#?}");
    }
}

#[test]
fn every_key_of_a_listener_is_shown_with_its_line() {
    // What a listener with this kind must not have.
    let never = |kind: &str, key: &str| match kind {
        "submission" => matches!(key, "relay_from" | "checks" | "seal"),
        "local" => matches!(key, "address" | "checks" | "seal" | "xclient_from"),
        "p1" => matches!(key, "tls" | "client_certificates"),
        _ => false,
    };
    for (kind, at_least) in [("smtp", 50), ("submission", 55), ("local", 45), ("p1", 15)] {
        let is_its = |key: &str, value: &str| {
            let text = format!("{LISTENER}kind = \"{kind}\"\n{key} = {value}\n{ROUTE}{AROUND}");
            let found = schema().parse(&text, "f.toml").err();
            let strange = format!("`{key}` on a listener with kind = \"{kind}\"");
            !found.is_some_and(|all| all.problems().iter().any(|one| one.message == strange))
        };
        let mut keys = keys("ListenerText", &[]);
        keys.retain(|(key, value)| key == "address" || key == "kind" || is_its(key, value));
        keys.retain(|(key, _)| !never(kind, key));
        for (key, value) in &mut keys {
            match key.as_str() {
                "kind" => *value = format!("\"{kind}\""),
                "t_selectors" => *value = "[\"x400\"]".to_owned(),
                _ => {}
            }
        }
        let mut text = "[[listener]]\n".to_owned();
        let lines = write(&mut text, &keys);
        assert!(lines.len() >= at_least, "{kind}: {}", lines.len());
        text.push_str(&format!("{ROUTE}{AROUND}"));
        check(&text, "jo@a.test", &lines);
    }
}

#[test]
fn every_key_of_a_route_is_shown_with_its_line() {
    let jo = "jo@a.test";
    for (channel, definition, recipient) in [
        ("smtp", "SmtpText", jo),
        ("lmtp", "LmtpText", jo),
        ("mx", "MxText", jo),
        ("maildir", "MaildirText", jo),
        ("pipe", "PipeText", jo),
        ("discard", "DiscardText", jo),
        ("x400", "X400RouteText", "/S=a/O=Beta/PRMD=TestB/ADMD= /C=GB/"),
    ] {
        let is_local = matches!(channel, "maildir" | "pipe" | "discard");
        let channels = ["smtp", "lmtp", "mx", "maildir", "pipe", "discard", "x400"];
        let mut keys_of_route = keys("RouteText", &channels);
        keys_of_route.retain(|(key, _)| match key.as_str() {
            // Only where mail leaves this server.
            "srs" | "pool" => !is_local,
            // Only where peers answer with SMTP replies.
            "defer_classes" => matches!(channel, "smtp" | "lmtp" | "mx"),
            "or_addresses" => matches!(channel, "discard" | "x400"),
            // Only for internet mail.
            "when" => !matches!(channel, "discard" | "x400"),
            "fallback" => matches!(channel, "smtp" | "lmtp" | "mx"),
            _ => true,
        });
        let mut text = format!("{LISTENER}[[route]]\n");
        let mut lines = write(&mut text, &keys_of_route);
        text.push_str(&format!("[route.{channel}]\n"));
        lines.extend(write(&mut text, &keys(definition, &["mx_of"])));
        if !is_local && channel != "x400" {
            text.push_str(
                "[[route]]\nname = \"backup\"\ndomains = []\nsmtp = { hosts = [\"h\"] }\n",
            );
        }
        text.push_str(AROUND);
        check(&text, recipient, &lines);
    }
}

#[test]
fn each_condition_is_shown_with_its_line() {
    let text = format!(
        "{LISTENER}relay_from = [\"192.0.2.0/24\"]\n[[route]]\n\
         when = {{ clients = [\"192.0.2.1\"] }}\ndiscard = {{}}\n[[route]]\n[route.when]\n\
         senders = [\"@news.test\"]\nrecipients = [\"@a.test\"]\n[route.discard]\n"
    );
    let config = schema().parse(&text, "f.toml").unwrap_or_else(|all| panic!("{text}\n{all}"));
    let recipient = Mailbox::parse_any("jo@a.test").unwrap();
    let step = |route, about, text: &str| ConditionStep { route, about, text: text.to_owned() };
    let conditions = [
        step(0, Some(ConditionSubject::Client), "does not hold for 192.0.2.7"),
        step(1, Some(ConditionSubject::Sender), "holds for x@news.test"),
        step(1, Some(ConditionSubject::Recipient), "holds for jo@a.test"),
    ];
    let routes = FoundRoutes { in_tables: None, by_conditions: Some(1) };
    let request = ExplainRequest {
        recipient: &recipient,
        sender: None,
        listener: None,
        client: Some("192.0.2.7".parse().unwrap()),
        login: None,
        mx: None,
        tls: &[],
        in_tables: InTables { routes, conditions: &conditions, ..InTables::default() },
        rehearsal: None,
    };
    let explanation = config.explain(&request).unwrap();
    assert!(explanation.accepted);
    assert_eq!(explanation.route.as_deref(), Some("route-2"));
    let shown = |what: &str| {
        let step = explanation.steps.iter().find(|step| step.what == what).unwrap();
        format!("{} {}", step.value, step.decided_by)
    };
    assert_eq!(shown("route 1: clients"), "does not hold for 192.0.2.7 f.toml:5");
    assert_eq!(shown("route 2: senders"), "holds for x@news.test f.toml:9");
    assert_eq!(shown("route 2: recipients"), "holds for jo@a.test f.toml:10");
    let route = "route 2 \"route-2\" (all domains, when senders @news.test; recipients @a.test)";
    assert_eq!(shown("route"), format!("{route} f.toml:7"));
    // The same for a client that may not send to any domain.
    let stranger = ExplainRequest { client: None, ..request };
    assert!(!config.explain(&stranger).unwrap().accepted);
    let user = ExplainRequest { client: None, login: Some("jo"), ..request };
    assert!(config.explain(&user).unwrap().accepted);
}

#[test]
fn mx_of_is_shown_in_place_of_hosts() {
    let text =
        format!("{LISTENER}[[route]]\ndomains = [\"a.test\"]\nsmtp = {{ mx_of = \"r.test\" }}\n");
    let steps = explained(&text, "jo@a.test");
    let shown = |step: &&ExplainedDecision| step.what == "mx_of";
    let step = steps.iter().find(shown).unwrap();
    assert_eq!((&*step.value, &*step.decided_by.to_string()), ("MX hosts of r.test", "f.toml:5"));
}

#[test]
fn keys_on_one_line_are_shown_each_with_what_is_written() {
    let set = "hosts = [\"192.0.2.1\"], pipelining = false, chunking = false, eight_bit = \"fail\", \
               adaptive = true, idle_timeout = \"1s\", final_timeout = \"1m\", port = 2525";
    let text = format!(
        "{LISTENER}checks = {{ spf = \"mark\", temporary = \"defer\" }}\n[[route]]\ndomains = [\"a.test\"]\nretry = {{ first = \"2m\", jitter = 0.2 }}\nsmtp = {{ {set} }}\n"
    );
    let steps = explained(&text, "jo@a.test");
    for (what, value, line) in [
        ("pipelining", "false", 7),
        ("chunking", "false", 7),
        ("eight_bit", "fail", 7),
        ("adaptive", "true", 7),
        ("idle_timeout", "1s", 7),
        ("final_timeout", "1m", 7),
        ("port", "2525", 7),
        ("retry.jitter", "0.2", 6),
        ("checks.temporary", "defer", 3),
    ] {
        let place = format!("f.toml:{line}");
        let found: Vec<&ExplainedDecision> =
            steps.iter().filter(|step| step.what == what).collect();
        let [step] = found.as_slice() else { panic!("{what}: {steps:#?}") };
        assert_eq!((&*step.value, step.decided_by.to_string()), (value, place), "{what}");
    }
    let once = steps.iter().filter(|step| step.what == "hosts").count();
    assert_eq!(once, 1, "what is shown already is not shown again");
}
