//! Keys of listeners that stages own: every protocol for internet mail has them.

use config::{ProtocolSection, ProtocolSettings, Reader, Schema, Takes};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

/// A protocol that nobody knows but this test.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct LineText {
    /// What is said first.
    hello: String,
}

impl ProtocolSettings for LineText {}

impl ProtocolSection for LineText {
    const KIND: &'static str = "line";
    type Text = LineText;

    fn read(text: LineText, _: &mut Reader<'_, '_>) -> Option<Arc<dyn ProtocolSettings>> {
        Some(Arc::new(text))
    }
}

/// The same for something else than mail.
#[derive(Debug, Deserialize, JsonSchema)]
struct FaxText {}

impl ProtocolSettings for FaxText {}

impl ProtocolSection for FaxText {
    const KIND: &'static str = "fax";
    const TAKES: Takes = Takes::Foreign;
    type Text = FaxText;

    fn read(text: FaxText, _: &mut Reader<'_, '_>) -> Option<Arc<dyn ProtocolSettings>> {
        Some(Arc::new(text))
    }
}

fn schema() -> Schema {
    channels::sections().protocol::<LineText>().protocol::<FaxText>()
}

fn with(kind: &str, key: &str) -> String {
    format!(
        "[[listener]]\naddress = \"127.0.0.1:25\"\nkind = \"{kind}\"\n{key}\n[[route]]\ndiscard = {{}}\n"
    )
}

/// A key, and what `explain` shows of it; empty: what it does is not shown for strangers.
const KEYS: [(&str, &str); 6] = [
    ("checks = { spf = \"reject\" }", "spf refuses"),
    (
        "checks = { arc = \"mark\" }\nseal = { domain = \"a.test\", selector = \"s\", key = \"/k\" }",
        "ARC by s._domainkey.a.test",
    ),
    ("milters = [{ address = \"127.0.0.1:11332\" }]", "127.0.0.1:11332 (on failure: tempfail)"),
    ("sign = false", ""),
    ("unsigned = \"refuse\"", ""),
    ("encode_before_signing = \"never\"", ""),
];

#[test]
fn every_protocol_for_mail_has_the_keys_of_stages() {
    for (key, shown) in KEYS {
        for kind in ["smtp", "line"] {
            let text = with(kind, key);
            let config =
                schema().parse(&text, "f.toml").unwrap_or_else(|all| panic!("{key}: {all}"));
            let recipient = mail::Mailbox::parse("jo@a.test", false).unwrap();
            let request = config::ExplainRequest {
                recipient: &recipient,
                sender: None,
                listener: None,
                client: None,
                login: None,
                mx: None,
                tls: &[],
                in_tables: config::InTables::default(),
                rehearsal: None,
            };
            let told = config.explain(&request).unwrap().to_string();
            assert!(told.contains(shown), "{kind}, {key}: {told}");
        }
        let name = key.split(' ').next().unwrap();
        let errors = schema().parse(&with("fax", key), "f.toml").unwrap_err();
        let first = &errors.problems()[0];
        assert_eq!(first.message, format!("`{name}` on a listener with kind = \"fax\""));
        let kinds =
            "it needs a listener with kind = \"smtp\" or \"submission\" or \"local\" or \"line\"";
        assert_eq!(first.help.as_deref(), Some(kinds));
    }
}

#[test]
fn a_mistake_in_such_a_key_is_shown_at_its_place_whatever_is_spoken() {
    for kind in ["smtp", "line"] {
        for (key, expected) in [
            ("milters = [{ address = \"x\" }]", "4:24: \"x\" is not a milter address"),
            (
                "seal = { domain = \"a.test\", selector = \"s\", key = \"/k\" }",
                "4:1: `seal` without checks of ARC",
            ),
            (
                "sign = false\nunsigned = \"refuse\"",
                "5:12: sign = false, but the listener may relay only signed mail",
            ),
        ] {
            let errors = schema().parse(&with(kind, key), "f.toml").unwrap_err();
            let fatal = errors.problems().iter().find(|problem| problem.fatal).unwrap();
            let found = format!("{}:{}: {}", fatal.line, fatal.column, fatal.message);
            assert_eq!(found, expected, "{kind}");
        }
    }
}
