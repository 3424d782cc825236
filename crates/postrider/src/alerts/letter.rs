//! An alert as a message, and as JSON.

use super::plan::{Alert, AlertKind, LISTED_MAX};
use crate::console::one_line;
use crate::terminal::clean;
use mail::{Mailbox, Wall};
use mta::alert_reserve::ALERT_BYTES_MAX;
use mta::problems::Problem;
use serde::Serialize;
use std::collections::BTreeSet;

/// Maximum length of a line of text in octets (RFC 5322 §2.1.1), without the indentation.
const LINE_BYTES_MAX: usize = 900;
/// Room for a last line.
const LAST_BYTES: usize = 256;
/// Maximum number of kinds in a subject.
const SUBJECT_KINDS_MAX: usize = 4;

/// The message around an alert.
pub(super) struct Letter<'a> {
    pub(super) hostname: &'a str,
    pub(super) from: &'a Mailbox,
    pub(super) to: &'a Mailbox,
    pub(super) now: Wall,
    /// Unique within a millisecond.
    pub(super) number: u64,
}

impl Letter<'_> {
    /// The message, with CRLF at line ends, at most [`ALERT_BYTES_MAX`].
    pub(super) fn compose(&self, alert: &Alert) -> Vec<u8> {
        let Letter { hostname, from, to, now, number } = self;
        let mut out = format!(
            "From: Postrider <{from}>\r\nTo: <{to}>\r\nSubject: {hostname}: {}\r\nDate: {}\r\n\
             Message-ID: <alert.{:x}.{number:x}@{hostname}>\r\nAuto-Submitted: auto-generated\r\n\
             MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\
             Content-Transfer-Encoding: 8bit\r\n\r\n",
            subject(alert),
            now.rfc5322(),
            now.0,
        );
        let lists = [
            ("New problems", &alert.begun),
            ("Problems reported before", &alert.current),
            ("Ended", &alert.ended),
            ("Begun and ended since the last alert", &alert.passed),
        ];
        for (title, problems) in lists.into_iter().filter(|(_, problems)| !problems.is_empty()) {
            let title = format!("{title}:\r\n\r\n");
            out.push_str(&title);
            for (problem, at) in problems.iter().zip(0..) {
                let text = paragraph(problem);
                if at == LISTED_MAX || out.len() + text.len() + LAST_BYTES * 4 > ALERT_BYTES_MAX {
                    let more = problems.len() - at;
                    out.push_str(&format!("- {more} more: see `postrider status`\r\n\r\n"));
                    break;
                }
                out.push_str(&text);
            }
        }
        if alert.kind == AlertKind::AllClear {
            out.push_str("No problem is left.\r\n\r\n");
        }
        out.push_str("`postrider status` lists the current problems.\r\n");
        out.into_bytes()
    }
}

/// A subject of ASCII: numbers and kinds.
fn subject(alert: &Alert) -> String {
    let current = alert.begun.len() + alert.current.len();
    match (alert.kind, current) {
        (AlertKind::AllClear, _) | (_, 0) => "no problem is left".to_owned(),
        (_, 1) => format!("1 problem: {}", kinds(alert)),
        _ => format!("{current} problems: {}", kinds(alert)),
    }
}

fn kinds(alert: &Alert) -> String {
    let all: BTreeSet<&str> =
        alert.begun.iter().chain(&alert.current).map(|problem| problem.kind.as_str()).collect();
    let mut text = all.iter().take(SUBJECT_KINDS_MAX).copied().collect::<Vec<_>>().join(", ");
    if all.len() > SUBJECT_KINDS_MAX {
        text.push_str(", …");
    }
    text.replace('…', "...")
}

/// A problem as lines of text.
fn paragraph(problem: &Problem) -> String {
    let Problem { kind, severity, about, text, next_step, since } = problem;
    let line = |text: &str| {
        let text = clean(&one_line(format_args!("{text}")));
        text[..text.floor_char_boundary(LINE_BYTES_MAX)].to_owned()
    };
    let about = match about.is_empty() || text.contains(about.as_str()) {
        true => String::new(),
        false => format!("{about}: "),
    };
    let mut lines = format!(
        "- {} ({kind}, since {})\r\n  {}\r\n",
        severity.as_str(),
        since,
        line(&format!("{about}{text}"))
    );
    if !next_step.is_empty() {
        lines.push_str(&format!("  {}\r\n", line(next_step)));
    }
    lines.push_str("\r\n");
    lines
}

/// An alert for a web server.
#[derive(Serialize)]
struct Posted<'a> {
    version: u8,
    kind: AlertKind,
    host: &'a str,
    time: String,
    begun: &'a [Problem],
    current: &'a [Problem],
    ended: &'a [Problem],
    passed: &'a [Problem],
    /// Number of problems that the lists leave out.
    omitted: usize,
}

/// The alert as JSON, each list cut to [`LISTED_MAX`].
pub(super) fn json(alert: &Alert, hostname: &str, now: Wall) -> Vec<u8> {
    let lists = [&alert.begun, &alert.current, &alert.ended, &alert.passed];
    let [begun, current, ended, passed] = lists.map(|list| &list[..list.len().min(LISTED_MAX)]);
    let omitted = lists.map(|list| list.len().saturating_sub(LISTED_MAX)).iter().sum();
    let (kind, time) = (alert.kind, now.to_string());
    let posted =
        Posted { version: 1, kind, host: hostname, time, begun, current, ended, passed, omitted };
    // Texts and numbers always serialize.
    serde_json::to_vec(&posted).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mta::problems::Severity;

    fn problem(at: usize, text: &str) -> Problem {
        Problem {
            kind: format!("kind_{at}"),
            severity: Severity::Error,
            about: format!("/spool/{at}"),
            text: text.to_owned(),
            next_step: "make room".to_owned(),
            since: Wall(0),
        }
    }

    fn composed(alert: &Alert) -> String {
        let mailbox = |text| Mailbox::parse(text, false).unwrap();
        let (from, to) = (mailbox("postmaster@mx.test"), mailbox("ops@far.test"));
        let letter =
            Letter { hostname: "mx.test", from: &from, to: &to, now: Wall(1_000), number: 7 };
        String::from_utf8(letter.compose(alert)).unwrap()
    }

    fn alert(begun: Vec<Problem>) -> Alert {
        let none = Vec::new;
        Alert { kind: AlertKind::Alert, begun, current: none(), ended: none(), passed: none() }
    }

    #[test]
    fn message_names_each_problem_with_its_next_step() {
        let text = composed(&alert(vec![problem(1, "its disk is full\r\nSubject: x\u{1b}")]));
        assert!(text.contains("\r\nSubject: mx.test: 1 problem: kind_1\r\n"), "{text}");
        assert!(
            text.contains("\r\n- error (kind_1, since 1970-01-01T00:00:00.000Z)\r\n"),
            "{text}"
        );
        assert!(text.contains("\r\n  make room\r\n"), "{text}");
        assert_eq!(text.matches("\r\nSubject:").count(), 1, "{text}");
        let bare = text.replace("\r\n", "");
        assert!(!bare.contains(['\r', '\n', '\u{1b}']), "{text}");
        let all_clear =
            Alert { kind: AlertKind::AllClear, ended: vec![problem(1, "x")], ..alert(Vec::new()) };
        let text = composed(&all_clear);
        assert!(text.contains("\r\nSubject: mx.test: no problem is left\r\n"), "{text}");
        assert!(text.contains("\r\nEnded:\r\n\r\n- error (kind_1"), "{text}");
    }

    #[test]
    fn message_of_many_long_problems_fits_into_the_reserve() {
        let many: Vec<_> = (0..256).map(|at| problem(at, &"\u{fffd}".repeat(170))).collect();
        let full = Alert {
            kind: AlertKind::Digest,
            current: many.clone(),
            ended: many.clone(),
            passed: many.clone(),
            begun: many.clone(),
        };
        let text = composed(&full);
        assert!(text.len() <= ALERT_BYTES_MAX, "{}", text.len());
        assert!(
            text.contains("512 problems: kind_0, kind_1, kind_10, kind_100, ...\r\n"),
            "{text}"
        );
        assert!(text.contains(" more: see `postrider status`\r\n"), "{text}");
        assert!(text.lines().all(|line| line.len() <= 998));
        let posted: serde_json::Value =
            serde_json::from_slice(&json(&full, "mx.test", Wall(0))).unwrap();
        assert_eq!(posted["omitted"], 4 * (256 - LISTED_MAX));
        assert_eq!(posted["begun"].as_array().unwrap().len(), LISTED_MAX);
        assert_eq!((&posted["kind"], &posted["host"]), (&"digest".into(), &"mx.test".into()));
    }
}
