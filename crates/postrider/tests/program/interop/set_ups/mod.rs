//! Whole set-ups side by side with Postfix: the same conversations must get the same replies, and each recipient must
//! reach the same next hop, or a row of `docs/from-postfix.md` names the difference.
//!
//! `SETUP_TALKS` is the number of conversations with each set-up, `SETUP_SEED` the seed, and `SETUP` a part of the
//! names of set-ups to play.

mod differences;
mod hops;
mod hosting;
mod relaying;
mod rewriting;
mod rules;
mod senders;
mod set_up;
mod sites;
mod stage;
mod talk;

use super::place::is_possible;
use super::postfix::is_startable;
use super::restrictions::number;
use crate::support::WAIT_MAX;
use differences::{Difference, ROWS, ROWS_MAX, What};
use mail::random::Random;
use set_up::SetUp;
use stage::{Stage, Way};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use talk::{Kind, Step, Talk};

const PAGE: &str = include_str!("../../../../../../docs/from-postfix.md");

/// Set-ups that run at once.
const AT_ONCE: usize = 6;

/// Time without a change after which mail that has not arrived counts as lost.
const QUIET: Duration = Duration::from_secs(5);

/// What a run has seen.
#[derive(Default)]
struct Seen {
    talks: u64,
    /// Postfix's codes, with their number.
    codes: BTreeMap<String, u64>,
    /// Messages that both accepted, and their recipients at next hops.
    messages: u64,
    arrivals: u64,
    /// Differences by row of the page.
    rows: BTreeMap<&'static str, u64>,
    unexplained: Vec<String>,
}

/// A message that both have accepted.
struct Accepted {
    talk: Talk,
    /// Marks and ids, Postfix's and ours.
    marks: [String; 2],
    ids: [String; 2],
}

/// One set-up's run.
struct Run<'a> {
    set_up: &'a SetUp,
    stage: Stage,
    seen: Seen,
    accepted: Vec<Accepted>,
    marks: u64,
}

impl Run<'_> {
    fn play(set_up: &SetUp, talks: u64, seed: u64, is_translated: bool) -> Seen {
        let mut random = Random::new(seed ^ u64::from_le_bytes(name_bytes(set_up.name)));
        let (stage, accepted) = (Stage::start(set_up, is_translated), Vec::new());
        let mut run = Run { set_up, stage, seen: Seen::default(), accepted, marks: 0 };
        for _ in 0..talks {
            run.seen.talks += 1;
            run.converse(Talk::new(&mut random, set_up));
        }
        run.follow();
        run.stage.stop();
        run.seen
    }

    /// Plays a conversation with both, and again without the recipients that only one of them accepts, so that the
    /// rest can be compared.
    fn converse(&mut self, mut talk: Talk) {
        loop {
            self.marks += 1;
            let marks = ["postfix", "ours"].map(|side| format!("{side}-{}", self.marks));
            let authorities = self.stage.authorities();
            let postfix = talk.play(self.stage.postfix_port, &authorities, &marks[0]);
            let ours = talk.play(self.stage.port, &authorities, &marks[1]);
            let Some(refused) = self.compare(&talk, &postfix, &ours) else { return };
            if refused.is_empty() {
                let id = |steps: &[Step]| {
                    let end = steps.iter().find(|step| step.kind == Kind::End);
                    end.filter(|step| step.reply.starts_with('2'))
                        .map(|step| last_word(&step.reply))
                };
                if let (Some(first), Some(second)) = (id(&postfix), id(&ours)) {
                    self.accepted.push(Accepted { talk, marks, ids: [first, second] });
                }
                return;
            }
            talk = talk.without(&refused);
            if talk.recipients.is_empty() {
                return;
            }
        }
    }

    /// Compares the replies. The recipients that only one server accepts; nothing if the rest of the conversation can't
    /// be compared.
    fn compare(&mut self, talk: &Talk, postfix: &[Step], ours: &[Step]) -> Option<Vec<usize>> {
        let mut refused = Vec::new();
        for (n, theirs) in postfix.iter().enumerate() {
            let (there, here) =
                (theirs.reply.as_str(), ours.get(n).map_or("", |step| step.reply.as_str()));
            *self.seen.codes.entry(code(there).to_owned()).or_default() += 1;
            if code(there) == code(here) {
                continue;
            }
            // A transaction with other recipients is another one.
            if !refused.is_empty() && !matches!(theirs.kind, Kind::Rcpt(_)) {
                break;
            }
            let what = What::Reply { kind: theirs.kind, postfix: there, ours: here };
            let context = || format!("Postfix: {postfix:#?}\nhere: {ours:#?}");
            if !explain((&mut self.seen, &self.stage), self.set_up, talk, what, context) {
                return None;
            }
            if there.starts_with('2') == here.starts_with('2')
                && !here.is_empty()
                && !there.is_empty()
            {
                continue;
            }
            match theirs.kind {
                Kind::Rcpt(n) => refused.push(n),
                _ => return None,
            }
        }
        Some(refused)
    }

    /// Waits until all accepted mail has gone its way, and compares the ways.
    fn follow(&mut self) {
        let mut ids = BTreeMap::new();
        for accepted in &self.accepted {
            ids.extend(accepted.ids.iter().cloned().zip(accepted.marks.iter().cloned()));
        }
        let (begun, mut changed) = (Instant::now(), Instant::now());
        let mut ways = self.stage.ways(&ids);
        while self.accepted.iter().any(|one| differ(&ways, one)) || !self.stage.is_postfix_idle() {
            std::thread::sleep(Duration::from_millis(200));
            let now = self.stage.ways(&ids);
            if now != ways {
                changed = Instant::now();
            }
            ways = now;
            let is_idle = self.stage.is_postfix_idle();
            if is_idle && changed.elapsed() > QUIET || begun.elapsed() > WAIT_MAX * 10 {
                break;
            }
        }
        for one in std::mem::take(&mut self.accepted) {
            let [postfix, ours] =
                one.marks.each_ref().map(|mark| ways.get(mark).cloned().unwrap_or_default());
            self.seen.messages += 1;
            self.seen.arrivals += postfix.arrivals.len() as u64;
            if postfix == ours {
                continue;
            }
            let what = What::Way { postfix: &postfix, ours: &ours };
            let context = || {
                let [there, here] = &one.ids;
                format!("{}{}", self.stage.log_of(there), self.stage.events_of(here))
            };
            explain((&mut self.seen, &self.stage), self.set_up, &one.talk, what, context);
        }
    }
}

fn differ(ways: &BTreeMap<String, Way>, accepted: &Accepted) -> bool {
    ways.get(&accepted.marks[0]) != ways.get(&accepted.marks[1])
}

/// Counts a difference by its row; returns false if no row explains it, or the report of the migration lacks the row.
fn explain(
    (seen, stage): (&mut Seen, &Stage),
    set_up: &SetUp,
    talk: &Talk,
    what: What<'_>,
    context: impl Fn() -> String,
) -> bool {
    let difference = Difference { set_up: set_up.name, talk, what };
    // The report of a migration has said so before.
    let is_reported = |row: &&str| stage.is_reported(row.trim_matches(['|', ' ']));
    let Some(row) = difference.row().filter(is_reported) else {
        seen.unexplained.push(format!("{difference}\n{}", context()));
        return false;
    };
    *seen.rows.entry(row).or_default() += 1;
    true
}

fn code(reply: &str) -> &str {
    reply.get(..3).unwrap_or("none")
}

fn last_word(reply: &str) -> String {
    reply.rsplit(' ').next().unwrap_or_default().to_owned()
}

/// A number for each name, so that set-ups have different conversations.
fn name_bytes(name: &str) -> [u8; 8] {
    let mut bytes = [0; 8];
    for (n, byte) in name.bytes().enumerate() {
        bytes[n % 8] ^= byte;
    }
    bytes
}

fn all() -> Vec<SetUp> {
    let mut all = Vec::new();
    all.extend(relaying::SET_UPS);
    all.extend(hosting::SET_UPS);
    all.extend(senders::SET_UPS);
    all.extend(rules::SET_UPS);
    all.extend(rewriting::SET_UPS);
    all
}

/// Plays these set-ups, several at once.
fn play(
    set_ups: &[SetUp],
    talks: u64,
    seed: u64,
    is_translated: bool,
) -> Vec<(&'static str, Seen)> {
    let (next, seen) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(set_up) = set_ups.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let one = Run::play(set_up, talks, seed, is_translated);
                    seen.lock().expect("no panic").push((set_up.name, one));
                }
            });
        }
    });
    seen.into_inner().expect("no panic")
}

#[test]
fn postfix_judges_whole_set_ups() {
    judge_all(&all(), false);
}

#[test]
fn postfix_judges_translated_set_ups() {
    judge_all(&all(), true);
}

/// `SETUP_TALKS=300` plays as many conversations with each.
#[test]
fn postfix_judges_translated_sites() {
    judge_all(&sites::SET_UPS, true);
}

fn judge_all(set_ups: &[SetUp], is_translated: bool) {
    if !is_possible(&["dovecot-lmtpd"]) || !is_startable() {
        return;
    }
    assert!(ROWS.len() <= ROWS_MAX, "{} rows", ROWS.len());
    for row in ROWS {
        assert!(PAGE.contains(row.begins), "docs/from-postfix.md lacks {}", row.begins);
    }
    let (talks, seed) = (number("SETUP_TALKS", 4), number("SETUP_SEED", 1));
    let part = std::env::var("SETUP").unwrap_or_default();
    let mut set_ups = set_ups.to_vec();
    assert!(set_ups.len() >= 25, "{}", set_ups.len());
    set_ups.retain(|set_up| set_up.name.contains(&part));
    let (mut rows, mut failures) = (BTreeMap::new(), Vec::new());
    for (name, seen) in play(&set_ups, talks, seed, is_translated) {
        let Seen { talks, codes, messages, arrivals, .. } = &seen;
        eprintln!(
            "{name}: {talks} conversations, {codes:?}, {messages} messages, {arrivals} arrivals"
        );
        if *talks >= 100 {
            assert!(
                *messages > 9 && *arrivals > 9,
                "{name}: {messages} messages, {arrivals} arrivals"
            );
        }
        for (row, count) in seen.rows {
            *rows.entry(row).or_insert(0) += count;
        }
        failures.extend(seen.unexplained);
    }
    eprintln!("{} set-ups, differences: {rows:#?}", set_ups.len());
    let shown = number("SETUP_SHOW", 5) as usize;
    let text: String = failures.iter().take(shown).map(|one| one.clone() + "\n").collect();
    assert!(failures.is_empty(), "{} unexplained differences:\n{text}", failures.len());
    // Other seeds may miss a rare difference.
    if talks >= 300 && seed == 1 && part.is_empty() && !is_translated {
        for row in ROWS {
            assert!(rows.contains_key(row.begins), "no difference by {}", row.begins);
        }
    }
}
