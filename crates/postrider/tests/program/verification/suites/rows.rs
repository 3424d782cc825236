//! Rows in the manner of suites that no package carries: the ARC test suite, those of Mail::DKIM, mailauth, rspamd and
//! dkim_verifier for signatures and keys, espoofer's for authors.

use super::{Envelope, NOBODY, Played, Stand, made, octets, verdicts};
use crate::support::Files;
use serde_json::Value;

const SCRIPT: &str = include_str!("rows.py");

/// Plays the rows of a group; `outcome` says what became of a message in the words of the rows.
fn play(group: &str, least: usize, checks: &str, outcome: impl Fn(Played) -> String) {
    let keys = Files::new();
    let made = made(SCRIPT, &[&keys.dir().display().to_string()]);
    let rows: Vec<&Value> = made.as_array().expect("rows").iter().collect();
    let rows: Vec<&Value> = rows.into_iter().filter(|row| row[0] == group).collect();
    assert!(rows.len() >= least, "{}", rows.len());
    let mut stand = Stand::start("relay.test", checks);
    let mut wrong = Vec::new();
    for row in rows {
        stand.publish(&row[3]);
        let of = |key: &str, otherwise| row[4][key].as_str().unwrap_or(otherwise);
        let envelope = Envelope {
            client: NOBODY.client,
            helo: of("helo", NOBODY.helo),
            sender: of("sender", NOBODY.sender),
        };
        let (found, wanted) = (outcome(stand.play(&envelope, &octets(&row[2]))), &row[5]);
        if *wanted != *found {
            wrong.push(format!("{}: {found}, not {wanted}", row[1]));
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
    stand.server.stop();
}

/// What the field has of a check.
fn words(check: &str) -> impl Fn(Played) -> String {
    move |played| match played {
        Ok(message) => verdicts(&message, check).join(" "),
        Err(reply) => reply,
    }
}

#[test]
fn signatures_and_keys_get_the_verdicts_of_the_standard() {
    play("dkim", 80, "dkim = \"mark\"", words("dkim"));
}

#[test]
fn chains_get_the_verdicts_of_the_standard() {
    play("arc", 75, "arc = \"mark\"", words("arc"));
}

#[test]
fn a_forger_is_not_taken_for_the_author() {
    let checks = "spf = \"mark\", dkim = \"mark\", dmarc = \"reject\"";
    play("author", 15, checks, |played| match played {
        Ok(message) => {
            let of = |check| verdicts(&message, check).join(" ");
            format!("250 {} {}", of("dmarc"), author(&message)).trim_end().to_owned()
        }
        Err(reply) if reply.starts_with("501") => "501".to_owned(),
        Err(reply) => reply.chars().take("550 5.7.1".len()).collect(),
    });
}

/// Whom DMARC took for the author's domain.
pub(super) fn author(message: &[u8]) -> String {
    verdicts(message, "header.from").pop().unwrap_or_default()
}
