//! `when` of each section that has it: tables, and conditions that no mail of the section meets.

use channels::schema;

/// The sections with `when`; `{when}` is its place.
const USERS: [(&str, &str); 4] = [
    ("route", "[[route]]\nwhen = {when}\ndiscard = {}\n"),
    ("limit", "[[limit]]\nby = \"sender\"\nmessages = \"1/h\"\nwhen = {when}\n"),
    ("copy", "[[copy]]\nto = \"archive@here.test\"\nwhen = {when}\n"),
    ("rewrite", "[[rewrite]]\ntable = \"t\"\nwhen = {when}\n"),
];
const SUBJECTS: [&str; 6] = ["senders", "recipients", "logins", "clients", "listeners", "tenants"];
const TENANT: &str = "[[tenant]]\nname = \"acme\"\n";
const TENANT_OF_JO: &str = "[[tenant]]\nname = \"acme\"\nlogins = [\"jo\"]\n";
/// A listener with logins, and one for X.400.
const OTHERS: &str = "[[certificate]]\nnames = [\"relay.test\"]\nchain = \"c.pem\"\nkey = \"c.key\"\n\
    [[listener]]\nname = \"users\"\nkind = \"submission\"\naddress = \"127.0.0.1:587\"\n\
    tls = \"implicit\"\nlogins = { table = \"t\" }\n\
    [[listener]]\nname = \"p1\"\nkind = \"p1\"\naddress = \"127.0.0.1:102\"\n\
    [x400]\nmta = \"relay\"\ndomain = \"/ADMD= /C=GB/\"\n\
    [[x400.peer]]\nname = \"hub\"\ntheir_name = \"hub\"\ntheir_password = \"x\"\n";

/// The messages of errors and warnings about `section`, with the marks of errors.
fn problems(listener: &str, more: &str, section: &str) -> Vec<String> {
    let before = format!(
        "[[listener]]\nname = \"in\"\naddress = \"127.0.0.1:25\"\n{listener}{more}\
         [[table]]\nname = \"t\"\ninline = {{}}\n\
         [[route]]\nname = \"here\"\ndomains = [\"here.test\"]\ndiscard = {{}}\n"
    );
    let lines = |text: &str| u32::try_from(text.lines().count()).unwrap();
    let of_section = lines(&before) + 1..=lines(&before) + lines(section);
    let text = format!("{before}{section}[[route]]\nname = \"rest\"\ndiscard = {{}}\n");
    let all = match schema().parse(&text, "f.toml") {
        Ok(config) => config.warnings,
        Err(errors) => errors.problems().to_vec(),
    };
    let strange = all.iter().find(|problem| problem.fatal && !of_section.contains(&problem.line));
    assert!(strange.is_none(), "{strange:?}\n{text}");
    let shown = |problem: &config::Problem| {
        let kind = if problem.fatal { "error" } else { "warning" };
        format!("{kind}: {}", problem.message)
    };
    all.iter().filter(|problem| of_section.contains(&problem.line)).map(shown).collect()
}

fn of_user(section: &str, when: &str) -> String {
    section.replace("{when}", &format!("{{ {when} }}"))
}

#[test]
fn every_condition_may_be_a_table_in_every_section() {
    for (user, section) in USERS {
        for subject in SUBJECTS {
            let (listener, more) =
                ("relay_from = [\"10.0.0.0/8\"]\n", [TENANT_OF_JO, OTHERS].concat());
            // A copy names its listeners beside one for X.400.
            let section = match user {
                "copy" => section.replace("to =", "listeners = [\"in\", \"users\"]\nto ="),
                _ => section.to_owned(),
            };
            let found = |table: &str| {
                let when = format!("{subject} = {{ table = \"{table}\" }}");
                problems(listener, &more, &of_user(&section, &when))
            };
            let unknown = "error: a condition about recipients, which are not known";
            match (user, subject) {
                ("limit", "recipients") => assert_eq!(found("t"), [unknown]),
                _ => assert_eq!(found("t"), [""; 0], "{user} {subject}"),
            }
            let missing = found("no");
            let message = "error: unknown table \"no\"".to_owned();
            assert!(missing.contains(&message), "{user} {subject}: {missing:?}");
        }
    }
}

#[test]
fn conditions_that_no_mail_meets_are_errors_in_every_section() {
    let steers = "steering_from = [\"10.0.0.0/8\"]\n";
    let no_login = "no listener has logins, so the condition never holds";
    let no_tenant = "no mail has a tenant, so the condition never holds";
    let not_these = "no mail has one of these tenants, so the condition never holds";
    let foreign = "messages of listener \"p1\", which is not for internet mail, cannot be ";
    let is_limit = |user: &str, message: &str| (user == "limit").then(|| message.to_owned());
    let all = |_: &str, message: &str| Some(message.to_owned());
    type Expected<'a> = &'a dyn Fn(&str) -> Option<String>;
    let rows: [(&str, &str, &str, Expected<'_>); 13] = [
        ("", "", "logins = [\"jo\"]", &|user| all(user, no_login)),
        ("", "", "logins = { table = \"t\" }", &|user| all(user, no_login)),
        ("", OTHERS, "logins = [\"jo\"]", &|_| None),
        ("", OTHERS, "logins = [\"jo\"], listeners = [\"in\"]", &|user| all(user, no_login)),
        ("", "", "tenants = [\"acme\"]", &|user| all(user, no_tenant)),
        ("", "", "tenants = { table = \"t\" }", &|user| all(user, no_tenant)),
        // A message names its tenant after MAIL.
        (steers, "", "tenants = [\"acme\"]", &|user| is_limit(user, no_tenant)),
        (steers, TENANT, "tenants = [\"acme\"]", &|user| is_limit(user, not_these)),
        ("", TENANT, "tenants = [\"acme\"]", &|user| all(user, not_these)),
        // Without a listener with logins, those of a tenant mean nothing.
        ("", TENANT_OF_JO, "tenants = [\"acme\"]", &|user| all(user, not_these)),
        ("", &[TENANT_OF_JO, OTHERS].concat(), "tenants = [\"acme\"]", &|_| None),
        (
            "",
            &[TENANT_OF_JO, OTHERS].concat(),
            "tenants = [\"acme\"], listeners = [\"in\"]",
            &|user| all(user, not_these),
        ),
        // Mail of a gateway is queued with the listener for X.400.
        ("", OTHERS, "listeners = [\"p1\"]", &|user| {
            let does = match user {
                "limit" => "limited",
                "copy" => "copied",
                "rewrite" => "rewritten",
                _ => return None,
            };
            Some(format!("{foreign}{does}"))
        }),
    ];
    for (listener, more, when, expected) in rows {
        for (user, section) in USERS {
            let relays = format!("relay_from = [\"10.0.0.0/8\"]\n{listener}");
            // Without it a copy must name its listeners beside one for X.400.
            let when = match (user, more.contains("p1"), when.contains("listeners")) {
                ("copy", true, false) => format!("{when}, listeners = [\"in\", \"users\"]"),
                _ => when.to_owned(),
            };
            let found = problems(&relays, more, &of_user(section, &when));
            let expected = expected(user).map(|message| format!("error: {message}"));
            assert_eq!(found, Vec::from_iter(expected), "{user} {listener} {more} {when}");
        }
    }
}

#[test]
fn other_keys_of_a_section_exclude_conditions() {
    let excludes =
        |key: &str| vec![format!("error: `{key}` excludes this, so the condition never holds")];
    let second = "[[listener]]\nname = \"other\"\naddress = \"127.0.0.1:26\"\n";
    let limit = |keys: &str| format!("[[limit]]\nmessages = \"1/h\"\n{keys}");
    let copy = |keys: &str| format!("[[copy]]\nto = \"archive@here.test\"\n{keys}");
    let rewrite = |keys: &str| format!("[[rewrite]]\ntable = \"t\"\n{keys}");
    let outside = "error: the recipients are outside the `domains` of the route, so the condition never holds";
    for (section, expected) in [
        (copy("listeners = [\"in\"]\nwhen = { listeners = [\"other\"] }\n"), excludes("listeners")),
        (copy("listeners = [\"in\"]\nwhen = { listeners = [\"other\", \"in\"] }\n"), vec![]),
        (copy("senders = [\"a.test\"]\nwhen = { senders = [\"@b.test\"] }\n"), excludes("senders")),
        (copy("senders = [\"a.test\"]\nwhen = { senders = [\"<>\"] }\n"), excludes("senders")),
        (copy("senders = [\"a.test\"]\nwhen = { senders = [\"jo@a.test\"] }\n"), vec![]),
        // Another recipient may match each.
        (copy("recipients = [\"a.test\"]\nwhen = { recipients = [\"@b.test\"] }\n"), vec![]),
        (
            limit("by = \"sender\"\nlisteners = [\"in\"]\nwhen = { listeners = [\"other\"] }\n"),
            excludes("listeners"),
        ),
        (
            limit("by = \"listener\"\nnames = [\"in\"]\nwhen = { listeners = [\"other\"] }\n"),
            excludes("names"),
        ),
        (
            limit("by = \"sender\"\nnames = [\"jo@a.test\"]\nwhen = { senders = [\"@b.test\"] }\n"),
            excludes("names"),
        ),
        (
            limit(
                "by = \"sender_domain\"\nnames = [\"a.test\"]\nwhen = { senders = [\"jo@a.test\"] }\n",
            ),
            vec![],
        ),
        (
            rewrite("routes = [\"here\"]\nwhen = { recipients = [\"@there.test\"] }\n"),
            vec![outside.to_owned()],
        ),
        (
            rewrite("routes = [\"here\", \"rest\"]\nwhen = { recipients = [\"@there.test\"] }\n"),
            vec![],
        ),
        (rewrite("routes = [\"rest\"]\nwhen = { clients = [\"192.0.2.1\"] }\n"), vec![]),
    ] {
        assert_eq!(problems("", second, &section), expected, "{section}");
    }
    // Only clients that may relay use a route with conditions alone.
    let route = "[[route]]\nname = \"hub\"\nwhen = { senders = [\"@a.test\"] }\ndiscard = {}\n";
    let relays = "relay_from = [\"10.0.0.0/8\"]\n";
    for (clients, expected) in [
        ("10.1.0.0/16", vec![]),
        (
            "192.0.2.1",
            vec![
                "warning: no listener lets these clients use a route without `domains`, so the \
                 condition never holds"
                    .to_owned(),
            ],
        ),
    ] {
        let keys = format!("routes = [\"hub\"]\nwhen = {{ clients = [\"{clients}\"] }}\n");
        assert_eq!(problems(relays, route, &rewrite(&keys)), expected, "{clients}");
    }
}

#[test]
fn only_channels_with_smtp_replies_have_classes_of_them() {
    let peer = "[x400]\nmta = \"relay\"\ndomain = \"/ADMD= /C=GB/\"\n[[x400.peer]]\nname = \"hub\"\n\
                their_name = \"hub\"\ntheir_password = \"x\"\nhosts = [\"192.0.2.1\"]\n";
    for (channel, keys, has_replies) in [
        ("smtp", "{ hosts = [\"h\"] }", true),
        ("lmtp", "{ hosts = [\"h\"] }", true),
        ("mx", "{}", true),
        ("maildir", "{ path = \"/mail/{local}\" }", false),
        ("pipe", "{ command = [\"/bin/true\"], user = \"mail\" }", false),
        ("discard", "{}", false),
        ("x400", "{ peer = \"hub\" }", false),
    ] {
        let of = match channel {
            "x400" => "or_addresses = [\"/C=FR/\"]",
            _ => "domains = [\"b.test\"]",
        };
        let section =
            format!("[[route]]\n{of}\ndefer_classes = [\"policy\"]\n{channel} = {keys}\n");
        let message = format!(
            "error: `defer_classes` in a route to `{channel}`, which gets no SMTP replies to classify"
        );
        let found = problems("", if channel == "x400" { peer } else { "" }, &section);
        let is_refused = found.contains(&message);
        assert_eq!(is_refused, !has_replies, "{channel}: {found:?}");
        assert!(is_refused || found.is_empty(), "{channel}: {found:?}");
    }
}
