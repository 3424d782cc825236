//! An operator's files: what they may say, what is wrong with them, and that they go first.

use classes::{
    BUILTIN, Classes, FILE_BYTES_MAX, FailureKind, MISTAKES_MAX, Named, PeerReply, RULES_MAX,
    ReplyClass, ReplyClassification, RuleFile, read_reply,
};
use proptest::prelude::*;

fn read(text: &str) -> Result<Classes, Vec<String>> {
    let read = Classes::read(&[RuleFile { name: "my", text: text.as_bytes() }]);
    read.map_err(|mistakes| mistakes.iter().map(ToString::to_string).collect())
}

fn ask(classes: &Classes, provider: Option<&str>, reply: &str) -> ReplyClassification {
    let (code, status, words) = read_reply(reply).unwrap();
    classes.classify(&PeerReply { code, status, provider, text: &words }).unwrap()
}

#[test]
fn an_operators_rules_go_first_and_ours_behind_them() {
    let classes = read(
        "# ours in the company\n\
         \n\
         550 5.7.1  acme mailbox_full/technical  quota of the (?:day|week)\n\
         5xx *      *    policy                  gar nicht\n",
    )
    .unwrap();
    let named = classes.providers().find(|(name, _)| *name == "acme").map(|(_, named)| named);
    assert_eq!(named, Some(Named { file: "my", line: 3, column: 12 }));
    let reply = "550 5.7.1 The Quota of the  WEEK\nis gone";
    let verdict = ask(&classes, Some("acme"), reply);
    assert_eq!((verdict.class, verdict.kind), (ReplyClass::MailboxFull, FailureKind::Technical));
    let place = classes.place(verdict.rule.unwrap()).unwrap();
    assert_eq!((place.file, place.line), ("my", 3));
    // Another's words, another's status: not this rule.
    for (provider, reply) in [(None, reply), (Some("acme"), "550 5.7.2 quota of the day")] {
        assert_ne!(ask(&classes, provider, reply).kind, FailureKind::Technical);
    }
    assert_eq!(ask(&classes, None, "554 Gar nicht").class, ReplyClass::Policy);
    let ours = ask(&classes, None, "454 gar nicht, mailbox full");
    assert_eq!(ours.class, ReplyClass::MailboxFull);
    assert_eq!(classes.place(ours.rule.unwrap()).unwrap().file, BUILTIN);
}

#[test]
fn what_no_rule_knows_is_unclassified_and_what_is_not_final_not_hard() {
    let classes = Classes::builtin();
    let nothing = ask(&classes, None, "599 lorem ipsum");
    assert_eq!((nothing.class, nothing.rule), (ReplyClass::Unclassified, None));
    assert_eq!(nothing.kind, FailureKind::Technical);
    let unknown = |reply| (ask(&classes, None, reply).class, ask(&classes, None, reply).kind);
    let class = ReplyClass::UnknownRecipient;
    assert_eq!(unknown("550 5.1.1 no such user"), (class, FailureKind::Hard));
    assert_eq!(unknown("450 4.1.1 no such user"), (class, FailureKind::Soft));
    for code in [200, 250, 354, 399, 600] {
        let said = PeerReply { code, status: None, provider: None, text: "no such user" };
        assert_eq!(classes.classify(&said), None, "{code}");
    }
}

#[test]
fn mistakes_have_file_line_and_column() {
    for (text, told) in [
        ("250 * * policy x", "my:1:1: `250` is not a failure: codes begin with 4 or 5"),
        ("5x * * policy x", "my:1:1: `5x` is not a code: use 550, 55x, 5xx or *"),
        (
            "\n550 5.1 * policy x",
            "my:2:5: `5.1` is not a status: use 5.1.1, x.1.1, 5.7.606-649 or *",
        ),
        ("550 * ac+me policy x", "my:1:7: `ac+me` is not a provider name"),
        ("550 * * spam x", "my:1:9: unknown class `spam`"),
        (
            "550 * * unclassified x",
            "my:1:9: `unclassified` is for failures without a matching rule",
        ),
        (
            "550 * * policy/harsh x",
            "my:1:9: unknown kind `harsh`: use hard, soft, block or technical",
        ),
        ("550 *", "my:1:6: the line ends before a provider, or *"),
        (
            "* * * policy",
            "my:1:1: this matches every failure: add a code, status, provider or pattern",
        ),
        (
            "5xx x.x.x * policy",
            "my:1:1: this matches every failure: add a code, status, provider or pattern",
        ),
        ("550 * * policy .*", "my:1:16: this pattern matches everything"),
        ("550 * * policy .{3,}", "my:1:16: this pattern matches everything"),
        ("550 * * policy (?:spam)?", "my:1:16: this pattern matches everything"),
        ("550 * * policy é (open", "my:1:18: the pattern: unclosed group"),
        ("550 * * policy x[é]", "my:1:18: the pattern: Unicode not allowed here"),
        (
            "550 * * policy (?:a{1000}){1000}",
            "my:1:16: the compiled pattern needs more than 262144 octets",
        ),
    ] {
        assert_eq!(read(text).map(|_| ()).unwrap_err(), [told], "{text}");
    }
    let both = Classes::read(&[
        RuleFile { name: "one", text: b"550 * * nothing x\n" },
        RuleFile { name: "two", text: b"550 * * policy x\n\xff 550\n" },
    ]);
    let both: Vec<String> = both.unwrap_err().iter().map(ToString::to_string).collect();
    assert_eq!(both, ["one:1:9: unknown class `nothing`", "two:2:1: not UTF-8"]);
}

#[test]
fn files_have_limits() {
    let line = "550 * * policy x1\n";
    assert!(read(&line.repeat(RULES_MAX)).is_ok());
    let more = read(&line.repeat(RULES_MAX + 1)).map(|_| ()).unwrap_err();
    assert_eq!(more, [format!("my:{}:1: at most {RULES_MAX} rules", RULES_MAX + 1)]);
    // Each pattern fits, all together don't.
    let large = "550 * * policy [a-q]{1500}\n";
    assert!(read(large).is_ok());
    let more = read(&large.repeat(600)).map(|_| ()).unwrap_err();
    assert_eq!(more, ["my:1:1: the compiled patterns need more than 16777216 octets"]);
    let comment = format!("#{}", "x".repeat(FILE_BYTES_MAX - 1));
    assert!(read(&comment).is_ok());
    let long = read(&(comment + "x")).map(|_| ()).unwrap_err();
    assert_eq!(long, [format!("my:1:1: a file of rules has at most {FILE_BYTES_MAX} octets")]);
    assert_eq!(read(&"x\n".repeat(MISTAKES_MAX * 2)).map(|_| ()).unwrap_err().len(), MISTAKES_MAX);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn whatever_a_peer_says_has_one_answer(
        code in 400_u16..600,
        text in "\\PC{0,300}",
        known in 0_usize..4,
    ) {
        let provider = [None, Some("google"), Some("microsoft-consumer"), Some("nobody")][known];
        let classes = Classes::builtin();
        let said = PeerReply { code, status: None, provider, text: &text };
        let verdict = classes.classify(&said);
        prop_assert!(verdict.is_some());
        prop_assert_eq!(classes.classify(&said), verdict);
    }

    #[test]
    fn no_file_panics(text in "(?s)(provider|550|\\*|5\\.1\\.1|policy|[ a-z0-9.*/\\[\\]()\n]){0,60}") {
        let _ = read(&text);
    }
}
