//! Arbitrary bytes as a file of rules, and a reply that they are asked about.

use classes::{Classes, Classifier, MISTAKES_MAX, PeerReply, RuleFile, read_reply};
use std::sync::Arc;

/// The first line is a reply, the rest is the file.
pub fn run(data: &[u8]) {
    let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let reply = String::from_utf8_lossy(&data[..end]);
    let file = data.get(end + 1..).unwrap_or_default();
    ask(&Classes::builtin(), &reply);
    match Classes::read(&[RuleFile { name: "file", text: file }]) {
        Ok(classes) => ask(&Arc::new(classes), &reply),
        Err(mistakes) => {
            assert!(!mistakes.is_empty() && mistakes.len() <= MISTAKES_MAX);
            let lines = file.split(|byte| *byte == b'\n').count();
            for mistake in mistakes {
                // Of ours only where the file claims one of our hosts.
                assert!(&*mistake.file == "builtin" || mistake.line as usize <= lines, "{mistake}");
                assert!(mistake.line >= 1 && mistake.column >= 1, "{mistake}");
                assert!(!mistake.text.is_empty() && !mistake.text.contains('\n'), "{mistake}");
            }
        }
    }
}

/// A refusal has one class, whoever is asked and however often.
fn ask(classes: &Arc<Classes>, reply: &str) {
    let (code, status, words) = read_reply(reply).unwrap_or((550, None, reply.to_owned()));
    let said = PeerReply { code, status, provider: Some("google"), text: &words };
    let verdict = classes.classify(&said);
    assert_eq!(verdict.is_some(), (400..600).contains(&code));
    let mut classifier = Classifier::new(Arc::clone(classes));
    assert_eq!(classifier.classify(&said), verdict);
    assert_eq!(classifier.classify(&said), verdict);
    if let Some(rule) = verdict.and_then(|verdict| verdict.rule) {
        assert!(classes.place(rule).is_some_and(|place| place.line >= 1));
    }
}
