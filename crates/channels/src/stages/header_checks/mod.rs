//! Header and body checks by patterns (`[[header_check]]`), as Postfix's header_checks(5) and body_checks(5).

mod action;
mod content_type;
mod settings;
mod walk;

use super::edits::Edits;
use action::{LineAction, rejected};
use config::{Config, StageSection as _};
use lookup::{EntryText, LookupErrorKind};
use mail::{Mailbox, Notify, Recipient, Refusal};
use mta::answer::{Answer, Decision};
use mta::console::Console;
use mta::ingress::{Draft, Observer, Placed, Stage, StageKind, TransactionView, no_answer};
use mta::pressure::Pressures;
use mta::seams::{Time as _, World};
use mta::tables;
pub(crate) use settings::HeaderCheckText;
pub(super) use settings::lines_of;
use settings::{HeaderCheck, entries};
use std::fmt;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;
use walk::{Line, LineKind, LineWalk};

/// Octets of one message that are compared with patterns; the rest is not checked.
const COMPARED_BYTES_MAX: usize = 2 << 20;
/// Text of the refusal of parts within each other beyond the limit.
const TOO_DEEP: &str = "5.6.0 MIME nesting exceeds limit";
/// Console lines for one message.
const LOGGED_MAX: u32 = 10;
/// Octets compared before a pause, in which other sessions run.
const BETWEEN_PAUSES_BYTES: usize = 16 * 1024;
/// Length of the pause.
const PAUSE: Duration = Duration::from_millis(1);
/// Octets of a line that a console line shows.
const SHOWN_BYTES_MAX: usize = 200;

/// Checks an entry of a table for lines of headers, bodies, or both.
///
/// # Errors
/// The reason for which it is no action.
pub(super) fn check_entry(
    entry: &EntryText<'_>,
    [of_headers, of_bodies]: [bool; 2],
) -> Result<(), String> {
    if of_headers || of_bodies { LineAction::check(entry, of_headers) } else { Ok(()) }
}

/// The stage of `[[header_check]]`.
pub(crate) struct HeaderChecks;

impl<W: World> StageKind<W> for HeaderChecks {
    fn stages(
        &self,
        config: &Config,
        world: &W,
        console: &Rc<dyn Console>,
        _pools: &Pressures,
    ) -> Vec<Placed> {
        let Some(first) = entries(config).next() else { return Vec::new() };
        // One stage for all checks: the first match of a line decides.
        let rules = entries(config).filter_map(|entry| entry.settings.of::<HeaderCheck>().cloned());
        let (rules, world, console) = (rules.collect(), world.clone(), Rc::clone(console));
        vec![Placed { line: first.line, stage: Rc::new(CheckStage { rules, world, console }) }]
    }
}

struct CheckStage<W: World> {
    rules: Vec<HeaderCheck>,
    world: W,
    console: Rc<dyn Console>,
}

impl<W: World> Stage for CheckStage<W> {
    fn name(&self) -> &'static str {
        HeaderCheckText::KEY
    }

    fn content<'a>(
        &'a self,
        transaction: &'a Rc<TransactionView>,
        draft: &'a mut Draft,
        _observer: Option<Box<dyn Observer>>,
    ) -> Decision<'a, ()> {
        let listener = &*transaction.session.listener().name;
        let rules: Vec<&HeaderCheck> =
            self.rules.iter().filter(|rule| rule.is_for(listener)).collect();
        if rules.is_empty() {
            return Decision::pass();
        }
        let id = draft.id().to_string();
        let inspection = Inspection {
            stage: self,
            rules,
            id,
            tables: self.world.tables(transaction.session.client().requester()),
            outcome: Outcome::default(),
            logged: 0,
            compared: 0,
            unpaused: 0,
        };
        Answer::later(inspection.run(draft))
    }
}

/// Changes that the checks request.
#[derive(Debug, Default)]
struct Outcome {
    edits: Edits,
    hold: Option<String>,
    discard: Option<String>,
    redirect: Option<Mailbox>,
    copies: Vec<Mailbox>,
}

impl Outcome {
    fn put(&mut self, line: &Line, range: &Range<u64>, text: Vec<u8>) -> Result<(), Refusal> {
        self.edits.put(range.clone(), text, line.is_in_own_header)
    }
}

/// The inspection of one message.
struct Inspection<'a, W: World> {
    stage: &'a CheckStage<W>,
    rules: Vec<&'a HeaderCheck>,
    id: String,
    tables: W::Tables,
    outcome: Outcome,
    logged: u32,
    /// Octets compared, and those since the last pause.
    compared: usize,
    unpaused: usize,
}

/// Continuation of an inspection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    End,
}

impl<W: World> Inspection<'_, W> {
    async fn run(mut self, draft: &mut Draft) -> Result<(), Refusal> {
        self.inspect(draft).await?;
        let Outcome { edits, hold, discard, redirect, copies } = self.outcome;
        if let Some(reason) = discard {
            draft.discard(&reason);
            return Ok(());
        }
        edits.apply(draft).await?;
        if let Some(reason) = hold {
            draft.hold(&reason);
        }
        if let Some(mailbox) = redirect {
            draft.redirect(Recipient { mailbox, notify: Notify::UNSPECIFIED, orcpt: None });
        }
        for mailbox in copies {
            // The sender does not know of the copy, and gets no DSN about it.
            draft.add_recipient(Recipient { mailbox, notify: Notify::NEVER, orcpt: None });
        }
        Ok(())
    }

    /// Inspects the lines of the message.
    async fn inspect(&mut self, draft: &Draft) -> Result<(), Refusal> {
        let is_of_header =
            |rule: &&HeaderCheck| rule.parts.iter().all(|part| *part == LineKind::Header);
        let is_header_only = self.rules.iter().all(is_of_header);
        let (mut walk, mut lines, mut offset) = (LineWalk::new(), Vec::new(), 0);
        loop {
            let piece = draft.read(offset).await?;
            offset += piece.len() as u64;
            for part in piece.chunks(BETWEEN_PAUSES_BYTES) {
                walk.push(part, &mut lines);
                if self.take(&mut lines).await? == Flow::End {
                    return Ok(());
                }
                // Headers of deeper parts would pass unseen.
                if walk.is_too_deep() {
                    return Err(rejected(TOO_DEEP));
                }
                if is_header_only && walk.is_past_header() {
                    return Ok(());
                }
            }
            if piece.is_empty() {
                walk.finish(&mut lines);
                return self.take(&mut lines).await.map(drop);
            }
        }
    }

    async fn take(&mut self, lines: &mut Vec<Line>) -> Result<Flow, Refusal> {
        for line in lines.drain(..) {
            if self.compared >= COMPARED_BYTES_MAX {
                self.log(true, format_args!("more than {COMPARED_BYTES_MAX} octets; not checked"));
                return Ok(Flow::End);
            }
            if self.compare(&line).await? == Flow::End {
                return Ok(Flow::End);
            }
        }
        Ok(Flow::Next)
    }

    /// Looks up a line in the tables until one has it.
    async fn compare(&mut self, line: &Line) -> Result<Flow, Refusal> {
        // As in Postfix, an empty line matches no pattern.
        if line.text.is_empty() {
            return Ok(Flow::Next);
        }
        let mut rules = self.rules.iter().filter(|rule| rule.parts.contains(&line.kind)).peekable();
        if rules.peek().is_none() {
            return Ok(Flow::Next);
        }
        let bytes = line.text.len() + 1;
        (self.compared, self.unpaused) = (self.compared + bytes, self.unpaused + bytes);
        let key = String::from_utf8_lossy(&line.text);
        let mut found = None;
        for rule in rules {
            match tables::find(&self.tables, &rule.table, &key).get().await {
                Ok(Some(entry)) => {
                    found = Some((entry, *rule));
                    break;
                }
                // A group that splits a character: this line only.
                Ok(None) => {}
                Err(trouble) if trouble.kind == LookupErrorKind::Key => {}
                Err(trouble) => return Err(no_answer(&*self.stage.console, &trouble)),
            }
        }
        if self.unpaused >= BETWEEN_PAUSES_BYTES {
            self.unpaused = 0;
            let time = self.stage.world.time();
            time.sleep_until(time.now() + PAUSE).await;
        }
        let Some((entry, rule)) = found else { return Ok(Flow::Next) };
        match LineAction::parse(&entry.text, line.kind != LineKind::Body) {
            Ok(action) => self.act(action, line),
            Err(why) => {
                self.log(true, format_args!("table {}: {why}: {}", rule.table.name, shown(line)));
                Ok(Flow::Next)
            }
        }
    }

    fn act(&mut self, action: LineAction, line: &Line) -> Result<Flow, Refusal> {
        let outcome = &mut self.outcome;
        match action {
            LineAction::Next => {}
            LineAction::Pass => return Ok(Flow::End),
            LineAction::Refuse(refusal) => return Err(refusal),
            LineAction::Discard(reason) => {
                outcome.discard = Some(reason);
                return Ok(Flow::End);
            }
            LineAction::Hold(reason) => outcome.hold = outcome.hold.take().or(Some(reason)),
            LineAction::Remove { is_logged } => {
                outcome.put(line, &line.range, Vec::new())?;
                if is_logged {
                    self.log(false, format_args!("removed {}", shown(line)));
                }
            }
            LineAction::Replace(text) => outcome.put(line, &line.range, line_of(&text))?,
            LineAction::Prepend(text) => {
                let before = line.range.start..line.range.start;
                outcome.put(line, &before, line_of(&text))?;
            }
            // The last one applies, as in Postfix.
            LineAction::Redirect(mailbox) => outcome.redirect = Some(mailbox),
            LineAction::Copy(mailbox) => {
                if !outcome.copies.contains(&mailbox) && outcome.copies.len() < COPIES_MAX {
                    outcome.copies.push(mailbox);
                }
            }
            LineAction::Log { text, is_warning } => {
                self.log(is_warning, format_args!("{}: {text}", shown(line)));
            }
        }
        Ok(Flow::Next)
    }

    /// Logs a line for this message, unless there were too many.
    fn log(&mut self, is_warning: bool, text: fmt::Arguments<'_>) {
        let (console, id) = (&*self.stage.console, &self.id);
        if self.logged < LOGGED_MAX {
            match is_warning {
                true => console.warn(HeaderCheckText::KEY, format_args!("{id}: {text}")),
                false => console.info(HeaderCheckText::KEY, format_args!("{id}: {text}")),
            }
        }
        self.logged = self.logged.saturating_add(1);
    }
}

/// Recipients that `BCC` adds to one message.
const COPIES_MAX: usize = 100;

/// The start of a line, for the console.
fn shown(line: &Line) -> String {
    let text = line.text.get(..SHOWN_BYTES_MAX).unwrap_or(&line.text);
    format!("{:?}", String::from_utf8_lossy(text))
}

/// The text as one line: other control characters than tabs become spaces.
fn line_of(text: &str) -> Vec<u8> {
    let clean = |byte: u8| if byte.is_ascii_control() && byte != b'\t' { b' ' } else { byte };
    text.bytes().map(clean).chain(*b"\r\n").collect()
}
