//! Merges the answers of all shards.

use super::command::{Worded, counted};
use crate::control::{
    ControlResponse, Counting, ErrorCode, QueueItem, ShardAnswer, ShardStatus, Tally,
};

/// The merged answers of the shards.
#[derive(Debug, Default)]
pub(super) struct MergedAnswer {
    pub(super) tally: Tally,
    pub(super) items: Vec<QueueItem>,
    pub(super) shards: Vec<ShardStatus>,
    pub(super) errors: Vec<String>,
    refused: Option<String>,
    summary: Option<Counting>,
}

impl MergedAnswer {
    /// Adds the last part of a shard's answer.
    pub(super) fn take(&mut self, shard: usize, part: ShardAnswer) {
        self.items.extend(part.items);
        self.shards.extend(part.status);
        self.errors.extend(part.error.map(|error| format!("shard {shard}: {error}")));
        self.refused = self.refused.take().or(part.refused);
        if let Some(summary) = part.summary {
            self.summary.get_or_insert_default().add(&summary);
        }
    }
}

/// The responses for the client: items, then `Done` or `Error`.
pub(super) fn responses(worded: &dyn Worded, mut gathering: MergedAnswer) -> Vec<ControlResponse> {
    let items = std::mem::take(&mut gathering.items);
    let mut responses: Vec<ControlResponse> =
        items.into_iter().map(|item| ControlResponse::Item(Box::new(item))).collect();
    if let Some(counting) = gathering.summary.take() {
        let summary = counting.finish(worded.rows());
        responses.push(ControlResponse::Summary(Box::new(summary)));
    }
    responses.push(last(worded, &gathering));
    responses
}

/// The last response.
pub(super) fn last(worded: &dyn Worded, gathering: &MergedAnswer) -> ControlResponse {
    if let Some(text) = &gathering.refused {
        return ControlResponse::Error { code: ErrorCode::BadRequest, text: text.clone() };
    }
    let tally = gathering.tally;
    let told = told(worded, tally);
    if !gathering.errors.is_empty() {
        let mut text = gathering.errors.join("; ");
        if let Some(told) = told.filter(|_| tally.messages > 0) {
            text = format!("{text} (done nevertheless: {told})");
        }
        return ControlResponse::Error { code: ErrorCode::Failed, text };
    }
    let nothing = tally.messages == 0 && tally.held == 0 && tally.in_flight == 0;
    if nothing && !worded.may_be_empty() {
        return ControlResponse::Error { code: ErrorCode::NotFound, text: not_found(worded) };
    }
    let tally = Some(tally).filter(|_| told.is_some());
    let told = if nothing { told.map(|_| worded.nothing().to_owned()) } else { told };
    ControlResponse::Done { matched: gathering.tally.messages, tally, text: told }
}

/// The text about the changes. `None` for a command that only reads.
fn told(worded: &dyn Worded, tally: Tally) -> Option<String> {
    let mut text = worded.done(tally)?;
    if tally.held > 0 {
        let held = counted(tally.held, "recipient");
        text.push_str(&format!("; {held} on hold left there (release them first)"));
    }
    if tally.in_flight > 0 {
        let flying = counted(tally.in_flight, "recipient");
        text.push_str(&format!("; {flying} {}", worded.in_flight()));
    }
    Some(text)
}

fn not_found(worded: &dyn Worded) -> String {
    let of_one = worded.id().map(|id| worded.not_found(id));
    of_one.unwrap_or_else(|| "nothing in the queue matches".to_owned())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::commands::{QueueList, QueueMove, QueueRemove, QueueShow};
    use crate::control::{Filter, Select};
    use crate::overrides::Overrides;
    use mail::MessageId;

    fn gathered(parts: Vec<ShardAnswer>) -> MergedAnswer {
        let mut gathering = MergedAnswer::default();
        for (shard, part) in parts.into_iter().enumerate() {
            gathering.tally = gathering.tally.and(part.tally);
            gathering.take(shard, part);
        }
        gathering
    }

    /// What is answered to a command of which this came.
    pub(in crate::commands) fn text_of(worded: &dyn Worded, tally: Tally) -> String {
        let part = ShardAnswer { tally, ..ShardAnswer::default() };
        match last(worded, &gathered(vec![part])) {
            ControlResponse::Done { text, .. } => text.unwrap_or_default(),
            ControlResponse::Error { text, .. } => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_empty_queue_is_no_error_but_an_unknown_id_is() {
        let nothing = || gathered(vec![ShardAnswer::default(), ShardAnswer::default()]);
        let done = ControlResponse::Done { matched: 0, tally: None, text: None };
        let list = QueueList { filter: Filter::default(), limit: 5 };
        assert_eq!(responses(&list, nothing()), [done]);
        let show = QueueShow { id: MessageId(7) };
        let [ControlResponse::Error { code, text }] = &responses(&show, nothing())[..] else {
            panic!()
        };
        assert_eq!(*code, ErrorCode::NotFound);
        assert!(text.contains("0000000000000007"), "{text}");
    }

    #[test]
    fn one_shard_that_fails_shows_even_when_others_succeed() {
        let tally = Tally { messages: 2, recipients: 2, ..Tally::default() };
        let good = ShardAnswer { tally, ..Default::default() };
        let bad = ShardAnswer { error: Some("spool is full".into()), ..Default::default() };
        let remove = QueueRemove { select: Select::All };
        let all = responses(&remove, gathered(vec![good, bad]));
        let [ControlResponse::Error { code, text }] = &all[..] else { panic!() };
        assert_eq!(*code, ErrorCode::Failed);
        assert_eq!(text, "shard 1: spool is full (done nevertheless: 2 messages removed)");
    }

    #[test]
    fn what_makes_no_sense_is_told_once() {
        let part = || ShardAnswer { refused: Some("no such route".into()), ..Default::default() };
        let undo = QueueMove { select: Select::All, to: Overrides::default(), undo: true };
        let all = responses(&undo, gathered(vec![part(), part()]));
        let text = "no such route".to_owned();
        assert_eq!(all, [ControlResponse::Error { code: ErrorCode::BadRequest, text }]);
    }
}
