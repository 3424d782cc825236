//! What providers say, and what our own rules make of it.

use classes::{Classes, PeerReply, ReplyClass, read_reply};

/// A line of a file: who said it, what it is, what was said.
fn rows(text: &'static str) -> impl Iterator<Item = (&'static str, ReplyClass, &'static str)> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|line| {
        let mut parts = line.splitn(3, " | ");
        let mut part = || parts.next().unwrap_or_else(|| panic!("three parts: {line}"));
        let (who, class, reply) = (part(), part(), part());
        (who, class.parse().unwrap_or_else(|why| panic!("{why}: {line}")), reply)
    })
}

/// How many rows there are, and a sentence for each that is taken for something else.
fn measure(text: &'static str) -> (usize, Vec<String>) {
    let classes = Classes::builtin();
    let mut count = 0;
    let mut wrong = Vec::new();
    for (who, class, reply) in rows(text) {
        count += 1;
        let (code, status, words) =
            read_reply(reply).unwrap_or_else(|| panic!("no reply: {reply}"));
        let said = PeerReply { code, status, provider: Some(who), text: &words };
        let verdict = classes.classify(&said).unwrap_or_else(|| panic!("no failure: {reply}"));
        if verdict.class != class {
            let line =
                verdict.rule.and_then(|rule| classes.place(rule)).map_or(0, |place| place.line);
            wrong.push(format!("{}, not {class}, by line {line}: {who}: {reply}", verdict.class));
        }
    }
    (count, wrong)
}

#[test]
fn every_reply_that_the_rules_were_written_by_has_its_class() {
    let (count, wrong) = measure(include_str!("replies/replies.txt"));
    assert!(count >= 200 && wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn nine_of_ten_replies_that_were_kept_aside_have_their_class() {
    let (count, wrong) = measure(include_str!("replies/kept_aside.txt"));
    let right = count - wrong.len();
    println!("{right} of {count} kept aside are right");
    assert!(count >= 50 && right * 10 >= count * 9, "{right} of {count}:\n{}", wrong.join("\n"));
}
