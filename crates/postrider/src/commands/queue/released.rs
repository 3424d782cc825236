//! `postrider queue release --not-in EVENTS`: mail of a restored backup, without the recipients that were done with
//! between the backup and the loss of the spool.

use crate::cli::{ServerArgs, exit};
use crate::commands::asking;
use crate::history::{EventFiles, EventLine, UnreadFile};
use mail::MessageId;
use mta::commands::{ControlRequest, QueueList, QueueRelease, QueueRemove};
use mta::control::{
    ControlResponse, ErrorCode, Filter, ITEMS_MAX, QueuedRecipient, RecipientState, Select, Tally,
};
use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::process::ExitCode;

/// Recipients in one request: it has at most 64 KiB.
const RECIPIENTS_MAX: usize = 1_500;

/// Removes the recipients that the log at `events` knows as done, and releases the selection.
pub(super) fn run(select: Select, events: &Path, server: &ServerArgs) -> ExitCode {
    match release(select, events, server) {
        Ok((removed, released)) => {
            let Tally { messages, .. } = released;
            crate::commands::print(&if server.json {
                let value = serde_json::json!({ "removed": removed, "released": messages });
                format!("{value:#}\n")
            } else {
                format!("recipients removed: {removed}, messages released: {messages}\n")
            });
            ExitCode::SUCCESS
        }
        Err(code) => code,
    }
}

fn release(select: Select, events: &Path, server: &ServerArgs) -> Result<(u64, Tally), ExitCode> {
    let selected = match &select {
        Select::Filter(filter) => Filter { state: Some(RecipientState::Held), ..*filter.clone() },
        _ => Filter { state: Some(RecipientState::Held), ..Filter::default() },
    };
    let wanted = match &select {
        Select::Id(id) => Some(HashSet::from([*id])),
        _ => held(&selected, server)?,
    };
    let done = done_in(events, wanted.as_ref())?;
    let mut removed = 0;
    let done: Vec<QueuedRecipient> = done.into_iter().collect();
    for recipients in done.chunks(RECIPIENTS_MAX) {
        let filter = Filter { recipients: recipients.to_vec(), ..selected.clone() };
        let request = QueueRemove { select: Select::Filter(Box::new(filter)) };
        removed += change(&request.into(), server)?.recipients;
    }
    Ok((removed, change(&QueueRelease { select }.into(), server)?))
}

/// The ids of the selected messages; `None` if they are too many to be listed.
fn held(filter: &Filter, server: &ServerArgs) -> Result<Option<HashSet<MessageId>>, ExitCode> {
    let request = QueueList { filter: filter.clone(), limit: ITEMS_MAX }.into();
    let (mut ids, mut all) = (HashSet::new(), 0);
    ask(&request, server, |response| match response {
        ControlResponse::Item(item) => _ = ids.insert(item.id),
        ControlResponse::Done { matched, .. } => all = *matched,
        _ => {}
    })?;
    Ok((ids.len() as u64 >= all).then_some(ids))
}

/// Makes a change. Nothing to change is no error.
fn change(request: &ControlRequest, server: &ServerArgs) -> Result<Tally, ExitCode> {
    let mut changed = Tally::default();
    ask(request, server, |response| {
        if let ControlResponse::Done { tally: Some(tally), .. } = response {
            changed = *tally;
        }
    })?;
    Ok(changed)
}

fn ask(
    request: &ControlRequest,
    server: &ServerArgs,
    mut take: impl FnMut(&ControlResponse),
) -> Result<(), ExitCode> {
    let mut error = None;
    asking::ask(server, request, |response| {
        match &response {
            ControlResponse::Error { code: ErrorCode::NotFound, .. } => {}
            ControlResponse::Error { code, text } => error = Some((*code, text.clone())),
            response => take(response),
        }
        Ok(())
    })?;
    error.map_or(Ok(()), |(code, text)| Err(asking::refused(code, &text)))
}

/// The recipients that the log knows as done, of the `wanted` messages.
///
/// # Errors
/// Returns the exit code if a file cannot be read: it may name further recipients.
fn done_in(
    events: &Path,
    wanted: Option<&HashSet<MessageId>>,
) -> Result<BTreeSet<QueuedRecipient>, ExitCode> {
    let mut done = BTreeSet::new();
    let take = |line: &[u8]| {
        let ended = EventLine::parse(line).and_then(|event| event.ended());
        done.extend(ended.filter(|one| wanted.is_none_or(|wanted| wanted.contains(&one.id))));
        Ok(())
    };
    let unread = match EventFiles::find(events, None) {
        Ok(files) if files.is_empty() => {
            eprintln!("postrider: there are no events in {}", events.display());
            return Err(ExitCode::from(exit::FAILED));
        }
        Ok(files) => files.read(take).unwrap_or_default(),
        Err(unread) => vec![unread],
    };
    let Some(UnreadFile { path, error }) = unread.first() else { return Ok(done) };
    eprintln!("postrider: cannot read {}: {error}; nothing was released", path.display());
    Err(ExitCode::from(exit::FAILED))
}
