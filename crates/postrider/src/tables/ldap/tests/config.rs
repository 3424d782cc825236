//! Mistakes in `ldap = { … }`: each with its place and its message.

use super::{LdapText, file, parse};

/// What is right, without what is tried.
const RIGHT: &str = "servers = [\"ldap://127.0.0.1\"], base = \"dc=test\", filter = \"(mail=%s)\", \
                     attributes = [\"a\"]";

/// Keys in place of those of the same name in [`RIGHT`], and the one line that must come of it. All
/// stands on line 7, and `ldap` begins at column 1.
const BAD: &[(&str, &str)] = &[
    ("servers = []", "7:1: error: a directory without `servers`"),
    (
        "servers = [\"ldap://a\", \"http://a\"]",
        "7:33: error: \"http://a\" is not a directory server: its scheme is not ldap, ldaps or ldapi",
    ),
    (
        "servers = [\"ldap://::1\"]",
        "7:21: error: \"ldap://::1\" is not a directory server: put an IPv6 address between [ and ]",
    ),
    ("base = ", "7:1: error: a directory without `base`"),
    ("base = \"people\"", "error: \"people\" is not a name: expected =, at character 7"),
    (
        "base = \"ou=%x\"",
        "is not a name: after % use s, u, d, a digit from 1 to 9, or %, at character 5",
    ),
    ("filter = ", "7:1: error: a directory without `filter`"),
    ("filter = \"(mail=%s\"", "error: \"(mail=%s\" is not a filter: expected ), at character 9"),
    (
        "filter = \"(mail=%q)\"",
        "is not a filter: after % use s, u, d, a digit from 1 to 9, or %, at character 8",
    ),
    ("filter = \"(mail=joe)\"", "error: the query does not depend on the key"),
    ("filter = \"(mail=%%s)\"", "error: the query does not depend on the key"),
    ("attributes = []", "7:1: error: a directory without `attributes`"),
    ("attributes = [\"mail address\"]", "error: \"mail address\" is not an attribute name"),
    ("members = [\"\"]", "error: \"\" is not an attribute name"),
    ("domains = [\"a..b\"]", "error: \"a..b\" is not a domain"),
    ("timeout = \"soon\"", "error: \"soon\" is not a duration"),
    ("connect_timeout = \"0s\"", "error: a timeout must be longer than 0"),
    ("max_connections = 0", "max_connections"),
    ("max_results = 0", "max_results"),
    ("scope = \"tree\"", "scope"),
    ("mode = \"copy\"", "mode"),
    ("snapshot_path = \"/a\"", "error: a snapshot file without a snapshot"),
    ("query_filter = \"(mail=%s)\"", "error: unknown key `query_filter`"),
    ("bind = { user = \"joe\" }", "error: unknown key `user`"),
    ("bind = {}", "error: a bind without `dn`"),
    ("bind = { dn = \"cn=a\" }", "error: a bind without a password"),
    ("bind = { dn = \"cn=a\", password = \"\" }", "error: a bind without a password"),
    (
        "bind = { dn = \"cn=a\", password = \"b\", password_file = \"/c\" }",
        "error: both `password` and `password_file` are set",
    ),
    ("bind = { external = true, dn = \"cn=a\" }", "error: `external` excludes name and password"),
    ("tls = { certificate_file = \"/a\" }", "error: a certificate without `key_file`"),
    ("tls = { key_file = \"/a\" }", "error: a key without `certificate_file`"),
];

/// [`RIGHT`] with these keys.
fn with(key: &str) -> String {
    let name = key.split(" = ").next().unwrap_or_default();
    let others = RIGHT.split(", ").filter(|pair| !pair.starts_with(&format!("{name} = ")));
    let mut keys: Vec<&str> = if key.ends_with(" = ") { Vec::new() } else { vec![key] };
    keys.extend(others);
    keys.join(", ")
}

#[test]
fn mistakes_are_told_with_their_place() {
    let mut wrong = String::new();
    for (key, message) in BAD {
        let text = file(&with(key));
        let said = match channels::sections().table::<LdapText>().parse(&text, "f.toml") {
            Ok(_) => "nothing".to_owned(),
            Err(errors) => errors.to_string(),
        };
        let errors: Vec<&str> = said.lines().filter(|line| line.contains(" error: ")).collect();
        if !matches!(&*errors, [one] if one.starts_with("f.toml:7:") && one.contains(message)) {
            wrong += &format!("{key}\n wanted {message}\n said   {said}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn what_a_snapshot_can_not_do_is_told() {
    for (more, message) in [
        ("refresh = \"0s\"", "longer than 0"),
        ("refresh = \"999ms\"", "less than 1s between two reads"),
        ("base = \"ou=%d\"", "the base of a snapshot depends on the key"),
        ("members = [\"member\"]", "groups are not supported in a snapshot"),
        (
            "filter = \"(mail=*%s)\"",
            "unsupported filter for a snapshot: the key is combined with *",
        ),
    ] {
        let text = file(&format!("{}, mode = \"snapshot\"", with(more)));
        let errors = channels::sections().table::<LdapText>().parse(&text, "f.toml").unwrap_err();
        assert!(errors.to_string().contains(message), "{more}: {errors}");
    }
    parse(&with("mode = \"snapshot\", refresh = \"1s\", snapshot_path = \"/a\""));
}

#[test]
fn start_tls_needs_a_plain_connection() {
    let more = "servers = [\"ldapi://\", \"ldaps://a\"], start_tls = true";
    let text = file(&with(more));
    let errors = channels::sections().table::<LdapText>().parse(&text, "f.toml").unwrap_err();
    assert!(errors.to_string().contains("no server has an `ldap://` URL"), "{errors}");
}

#[test]
fn a_password_that_others_can_read_is_warned_of() {
    let bind = "bind = { dn = \"cn=a\", password = \"hush\" }";
    let warnings = |more: &str| {
        let config = parse(&with(more));
        assert!(!format!("{:?}", config.tables).contains("hush"));
        config.warnings.iter().filter(|w| w.message.contains("unencrypted")).count()
    };
    assert_eq!(warnings(&format!("servers = [\"ldap://a.test\"], {bind}")), 1);
    assert_eq!(warnings(&format!("servers = [\"ldap://a.test\"], start_tls = true, {bind}")), 0);
    assert_eq!(warnings(&format!("servers = [\"ldaps://a.test\"], {bind}")), 0);
    assert_eq!(warnings(bind), 0);
}

#[test]
fn what_says_the_same_is_alike() {
    let settings = |more: &str| std::sync::Arc::clone(&parse(&with(more)).tables[0].settings);
    let one = settings("timeout = \"5s\"");
    assert!(one.is_like(&*settings("timeout = \"5000ms\"")));
    assert!(!one.is_like(&*settings("timeout = \"6s\"")));
    assert!(!one.is_like(&*settings("filter = \"(uid=%s)\"")));
    assert_eq!(one.fields(), ["a"]);
}
