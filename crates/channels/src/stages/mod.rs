//! Stages: processing of mail before it is durable.

mod access;
mod action;
mod asked_clients;
mod checks;
mod copy;
mod edits;
mod event_headers;
mod header_checks;
pub(crate) mod key_file;
mod keys;
mod lookups;
mod milters;
mod policy;
mod rewrite;
mod signing;
mod steering;
mod strangers;

pub(crate) use access::Beside;
pub use access::{AccessDryRun, AccessQuestion, EntryJudge, consult_access, entry_judge};
use auth::scan::{Scan, Scanned};
pub(crate) use checks::CheckRules;
use config::{Config, Listener, Schema, StageSection as _};
use mail::Refusal;
use mail::header::HeaderBoundary;
pub use milters::milter_connections;
use mta::ingress::{Draft, StageKinds};
use mta::seams::World;
pub use rewrite::{RewriteDryRun, consult_rewriting};
pub(crate) use signing::Signer;
pub use signing::{SigningName, SigningScope};
use std::rc::Rc;
pub use strangers::asks_for_greylisting;

/// Adds the sections and listener keys of stages.
pub(crate) fn keys(schema: Schema) -> Schema {
    schema
        .section::<steering::SteeringFields>()
        .listener::<milters::MilterKeys>()
        .listener::<CheckRules>()
        .listener::<signing::SigningRules>()
        .stage::<access::AccessText>()
        .stage::<copy::CopyText>()
        .stage::<header_checks::HeaderCheckText>()
        .stage::<policy::PolicyText>()
        .stage::<rewrite::RewriteText>()
        .stage::<signing::SignerText>()
}

/// All stages, for one shard.
pub(crate) fn kinds<W: World>() -> StageKinds<W> {
    vec![
        Rc::new(steering::Steerings),
        Rc::new(checks::Checking),
        Rc::new(strangers::StrangerChecks),
        Rc::new(access::Accesses),
        Rc::new(copy::Copies),
        Rc::new(header_checks::HeaderChecks),
        Rc::new(milters::Milters),
        Rc::new(policy::Policies),
        Rc::new(rewrite::Rewrites),
        Rc::new(signing::Signing),
        Rc::new(event_headers::EventHeaders),
    ]
}

/// The stages that decide up to RCPT without another service and without a state that the running server keeps. With
/// greylisting, the world's greylist decides.
#[must_use]
pub fn rehearsed_stages<W: World>() -> StageKinds<W> {
    vec![Rc::new(strangers::StrangerChecks), Rc::new(access::Accesses)]
}

/// The checks at a listener that decide up to RCPT and are left out.
#[must_use]
pub fn unrehearsed(config: &Config, listener: &Listener) -> Vec<String> {
    let strangers = CheckRules::strangers_at(listener);
    let has_policies = config.stages.iter().any(|entry| entry.key == policy::PolicyText::KEY);
    let left_out = [
        (strangers.is_some_and(|strangers| strangers.greylist.is_some()), "greylisting"),
        (has_policies, "policy services"),
        (!milters::MilterKeys::at(listener).is_empty(), "milters"),
    ];
    left_out.into_iter().filter(|(is_set, _)| *is_set).map(|(_, name)| name.to_owned()).collect()
}

/// Maximum number of concurrent lookups of checks on each shard.
#[must_use]
pub fn lookups_at_once(config: &Config) -> u32 {
    checks::lookups_at_once(config) + strangers::lookups_at_once(config)
}

/// Returns true if a rule with these `listeners` applies to this one. An empty list applies to all.
fn is_for_listener(names: &[String], listener: &str) -> bool {
    names.is_empty() || names.iter().any(|name| name == listener)
}

/// The result of `scan` for the current content.
///
/// # Errors
/// It can't be read.
async fn scanned(draft: &mut Draft, mut scan: Scan) -> Result<Scanned, Refusal> {
    let mut offset = 0;
    loop {
        let piece = draft.read(offset).await?;
        if piece.is_empty() {
            return Ok(scan.finish());
        }
        scan.push(&piece);
        offset += piece.len() as u64;
    }
}

/// Maximum header length for stages that need the whole header. A message with a longer one is refused.
const HEADER_BYTES_MAX: usize = 1024 * 1024;

/// See [`HEADER_BYTES_MAX`] and [`milter::FIELDS_MAX`].
const HEADER_TOO_LARGE: Refusal = Refusal::permanent((3, 4), "Message header too large");

/// The start of a draft's content with its whole header, and the header's end.
///
/// # Errors
/// The content can't be read, or the header is too large.
async fn header_text(draft: &Draft) -> Result<(Vec<u8>, HeaderBoundary), Refusal> {
    let mut text = Vec::new();
    loop {
        let piece = draft.read(text.len() as u64).await?;
        let room = HEADER_BYTES_MAX - text.len().min(HEADER_BYTES_MAX);
        text.extend_from_slice(piece.get(..piece.len().min(room)).unwrap_or_default());
        match mail::header::end(&text) {
            Some(end) => return Ok((text, end)),
            None if piece.is_empty() => {
                let end = all_header(&text);
                return Ok((text, end));
            }
            None if piece.len() >= room => return Err(HEADER_TOO_LARGE),
            None => {}
        }
    }
}

/// End of a header without a body. An invalid field at the end counts as body.
fn all_header(text: &[u8]) -> HeaderBoundary {
    let last = mail::header::fields(text).last();
    let end = last.map_or(0, |field| field.range.end);
    HeaderBoundary { fields_end: end, body_start: end }
}
