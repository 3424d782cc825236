//! Many shards' answers as one.

use super::summary::Counting;
use super::{
    ControlRequest, ControlResponse, ErrorCode, QueueItem, Select, ShardAnswer, ShardStatus, Tally,
};

/// What the shards have answered.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    pub(super) tally: Tally,
    pub(super) items: Vec<QueueItem>,
    pub(super) shards: Vec<ShardStatus>,
    pub(super) errors: Vec<String>,
    refused: Option<String>,
    summary: Option<Counting>,
}

impl Gathering {
    /// Takes the last part of a shard's answer.
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

/// What the asker gets to see: items, then `Done` or `Error`.
pub(super) fn responses(
    request: &ControlRequest,
    mut gathering: Gathering,
) -> Vec<ControlResponse> {
    let items = std::mem::take(&mut gathering.items);
    let mut responses: Vec<ControlResponse> =
        items.into_iter().map(|item| ControlResponse::Item(Box::new(item))).collect();
    if let (ControlRequest::QueueSummary { top, .. }, Some(counting)) =
        (request, gathering.summary.take())
    {
        let summary = counting.finish(usize::try_from(*top).unwrap_or(usize::MAX));
        responses.push(ControlResponse::Summary(Box::new(summary)));
    }
    responses.push(last(request, &gathering));
    responses
}

/// The last response.
pub(super) fn last(request: &ControlRequest, gathering: &Gathering) -> ControlResponse {
    if let Some(text) = &gathering.refused {
        return ControlResponse::Error { code: ErrorCode::BadRequest, text: text.clone() };
    }
    let tally = gathering.tally;
    let told = told(request, tally);
    if !gathering.errors.is_empty() {
        let mut text = gathering.errors.join("; ");
        if let Some(told) = told.filter(|_| tally.messages > 0) {
            text = format!("{text} (nevertheless: {told})");
        }
        return ControlResponse::Error { code: ErrorCode::Failed, text };
    }
    let nothing = tally.messages == 0 && tally.held == 0 && tally.in_flight == 0;
    if nothing && !may_be_empty(request) {
        return ControlResponse::Error { code: ErrorCode::NotFound, text: not_found(request) };
    }
    let tally = Some(tally).filter(|_| told.is_some());
    let told = if nothing { told.map(|_| all_of_nothing(request).to_owned()) } else { told };
    ControlResponse::Done { matched: gathering.tally.messages, tally, text: told }
}

/// Whether it is no error that no message is concerned. What is asked for all of them is done when
/// the last has just left.
fn may_be_empty(request: &ControlRequest) -> bool {
    match request {
        ControlRequest::QueueList { .. } | ControlRequest::QueueSummary { .. } => true,
        ControlRequest::QueueRetry { select }
        | ControlRequest::QueueHold { select, .. }
        | ControlRequest::QueueRelease { select }
        | ControlRequest::QueueFail { select, .. }
        | ControlRequest::QueueMove { select, .. }
        | ControlRequest::QueueRemove { select } => *select == Select::All,
        _ => false,
    }
}

fn all_of_nothing(request: &ControlRequest) -> &'static str {
    match request {
        ControlRequest::QueueRelease { .. } => "nothing is on hold",
        _ => "the queue is empty",
    }
}

/// What was done, for people.
fn told(request: &ControlRequest, tally: Tally) -> Option<String> {
    let messages = counted(tally.messages, "message");
    let recipients = counted(tally.recipients, "recipient");
    let of = if tally.recipients == tally.messages {
        messages.clone()
    } else {
        format!("{recipients} of {messages}")
    };
    let mut text = match request {
        ControlRequest::QueueRetry { .. } if tally.messages == 0 => "nothing made due".to_owned(),
        ControlRequest::QueueRetry { .. } => format!("{of} made due now"),
        ControlRequest::QueueHold { .. } => format!("{messages} held"),
        ControlRequest::QueueRelease { .. } => format!("{messages} released"),
        ControlRequest::QueueRemove { .. } => format!("{of} removed"),
        ControlRequest::QueueFail { .. } if tally.messages == 0 => "nothing given up".to_owned(),
        ControlRequest::QueueFail { silent: true, .. } => format!("{of} given up, nobody is told"),
        ControlRequest::QueueFail { .. } => format!("{of} given up, their senders are told"),
        ControlRequest::QueueMove { .. } if tally.recipients == 0 => "nothing moved".to_owned(),
        ControlRequest::QueueMove { undo: true, .. } => format!("{of} moved back"),
        ControlRequest::QueueMove { to, .. } => format!("{of} moved to {to}"),
        _ => return None,
    };
    if tally.held > 0 {
        let held = counted(tally.held, "recipient");
        text.push_str(&format!("; {held} on hold left there (release them first)"));
    }
    if tally.in_flight > 0 {
        let flying = counted(tally.in_flight, "recipient");
        let what = match request {
            ControlRequest::QueueRemove { .. } => "being tried: removed unless delivered",
            _ => "being tried left alone",
        };
        text.push_str(&format!("; {flying} {what}"));
    }
    Some(text)
}

fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

fn not_found(request: &ControlRequest) -> String {
    match request {
        ControlRequest::QueueRelease { select: Select::Id(id) } => {
            format!("no message {id} is on hold")
        }
        ControlRequest::QueueShow { id }
        | ControlRequest::QueueWhy { id }
        | ControlRequest::QueueRetry { select: Select::Id(id) }
        | ControlRequest::QueueHold { select: Select::Id(id), .. }
        | ControlRequest::QueueFail { select: Select::Id(id), .. }
        | ControlRequest::QueueMove { select: Select::Id(id), .. }
        | ControlRequest::QueueRemove { select: Select::Id(id) } => {
            format!("no message {id} in the queue: it is done with, or was never here")
        }
        _ => "nothing in the queue matches".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{Filter, Scope};
    use crate::overrides::Overrides;
    use mail::MessageId;

    fn gathered(parts: Vec<ShardAnswer>) -> Gathering {
        let mut gathering = Gathering::default();
        for (shard, part) in parts.into_iter().enumerate() {
            gathering.tally = gathering.tally.and(part.tally);
            gathering.take(shard, part);
        }
        gathering
    }

    fn text_of(request: &ControlRequest, tally: Tally) -> String {
        let part = ShardAnswer { tally, ..ShardAnswer::default() };
        match last(request, &gathered(vec![part])) {
            ControlResponse::Done { text, .. } => text.unwrap_or_default(),
            ControlResponse::Error { text, .. } => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_empty_queue_is_no_error_but_an_unknown_id_is() {
        let nothing = || gathered(vec![ShardAnswer::default(), ShardAnswer::default()]);
        let done = ControlResponse::Done { matched: 0, tally: None, text: None };
        let list = ControlRequest::QueueList { filter: Filter::default(), limit: 5 };
        assert_eq!(responses(&list, nothing()), [done]);
        let show = ControlRequest::QueueShow { id: MessageId(7) };
        let [ControlResponse::Error { code, text }] = &responses(&show, nothing())[..] else {
            panic!()
        };
        assert_eq!(*code, ErrorCode::NotFound);
        assert!(text.contains("0000000000000007"), "{text}");
    }

    #[test]
    fn what_was_done_is_told_in_messages_and_recipients() {
        let retry = ControlRequest::QueueRetry { select: Select::All };
        let of =
            |messages, recipients, held| Tally { messages, recipients, held, ..Tally::default() };
        assert_eq!(text_of(&retry, of(1, 1, 0)), "1 message made due now");
        assert_eq!(
            text_of(&retry, of(300, 300_000, 0)),
            "300000 recipients of 300 messages made due now"
        );
        assert_eq!(
            text_of(&retry, of(0, 0, 2)),
            "nothing made due; 2 recipients on hold left there (release them first)"
        );
        assert_eq!(text_of(&retry, of(0, 0, 0)), "the queue is empty");
        let nowhere = Filter { domain: Some("nowhere.test".into()), ..Filter::default() };
        let some = ControlRequest::QueueRetry { select: Select::Filter(Box::new(nowhere)) };
        assert_eq!(text_of(&some, of(0, 0, 0)), "nothing in the queue matches");
        let release = ControlRequest::QueueRelease { select: Select::All };
        assert_eq!(text_of(&release, of(0, 0, 0)), "nothing is on hold");
        let select = Select::All;
        let fail = |silent| ControlRequest::QueueFail {
            select: Select::All,
            status: None,
            reason: "x".into(),
            silent,
        };
        let flying = Tally { in_flight: 1, ..of(2, 2, 0) };
        assert_eq!(
            text_of(&fail(false), flying),
            "2 messages given up, their senders are told; 1 recipient being tried left alone"
        );
        assert_eq!(text_of(&fail(true), of(2, 2, 0)), "2 messages given up, nobody is told");
        let moved = |undo| {
            let to = Overrides::parse("\npriority 3");
            ControlRequest::QueueMove { select: Select::All, to, undo }
        };
        assert_eq!(
            text_of(&moved(false), flying),
            "2 messages moved to priority 3; 1 recipient being tried left alone"
        );
        assert_eq!(text_of(&moved(true), of(1, 1, 0)), "1 message moved back");
        assert_eq!(text_of(&moved(true), of(0, 0, 0)), "the queue is empty");
        let hold = ControlRequest::QueueHold { select: select.clone(), reason: "x".into() };
        assert_eq!(text_of(&hold, of(2, 0, 0)), "2 messages held");
        let remove = ControlRequest::QueueRemove { select };
        assert_eq!(text_of(&remove, of(1, 3, 0)), "3 recipients of 1 message removed");
    }

    #[test]
    fn one_shard_that_fails_shows_even_when_others_succeed() {
        let tally = Tally { messages: 2, recipients: 2, ..Tally::default() };
        let good = ShardAnswer { tally, ..Default::default() };
        let bad = ShardAnswer { error: Some("spool is full".into()), ..Default::default() };
        let remove = ControlRequest::QueueRemove { select: Select::All };
        let all = responses(&remove, gathered(vec![good, bad]));
        let [ControlResponse::Error { code, text }] = &all[..] else { panic!() };
        assert_eq!(*code, ErrorCode::Failed);
        assert_eq!(text, "shard 1: spool is full (nevertheless: 2 messages removed)");
    }

    #[test]
    fn what_makes_no_sense_is_told_once() {
        let part = || ShardAnswer { refused: Some("no such route".into()), ..Default::default() };
        let undo =
            ControlRequest::QueueMove { select: Select::All, to: Overrides::default(), undo: true };
        let all = responses(&undo, gathered(vec![part(), part()]));
        let text = "no such route".to_owned();
        assert_eq!(all, [ControlResponse::Error { code: ErrorCode::BadRequest, text }]);
    }

    #[test]
    fn requests_survive_json_and_unknown_fields_do_not() {
        let filter = Filter { domain: Some("a.example".into()), ..Filter::default() };
        let requests = [
            ControlRequest::QueueList { filter: filter.clone(), limit: 5 },
            ControlRequest::QueueHold { select: Select::Id(MessageId(42)), reason: "spam".into() },
            ControlRequest::QueueRetry { select: Select::Filter(Box::new(filter.clone())) },
            ControlRequest::QueueSummary { filter, top: 3 },
            ControlRequest::QueueFail {
                select: Select::All,
                status: None,
                reason: "no".into(),
                silent: true,
            },
            ControlRequest::QueueMove {
                select: Select::Id(MessageId(42)),
                to: Overrides::parse("out\npool "),
                undo: false,
            },
            ControlRequest::QueueMove { select: Select::All, to: Overrides::default(), undo: true },
            ControlRequest::QueueSuspend {
                scope: Scope { next_hop: Some("mx.example".into()), ..Scope::default() },
                reason: "asked".into(),
                until: Some(mail::Wall(1_795_262_469_000)),
            },
            ControlRequest::QueueResume { scope: Scope::default() },
            ControlRequest::TrustClock,
            ControlRequest::Status,
        ];
        for request in requests {
            let json = serde_json::to_string(&request).unwrap();
            assert_eq!(serde_json::from_str::<ControlRequest>(&json).unwrap(), request, "{json}");
        }
        let typo = r#"{"command":"queue_remove","select":{"filter":{"domian":"a"}}}"#;
        assert!(serde_json::from_str::<ControlRequest>(typo).is_err());
        let earlier = r#"{"command":"queue_fail","select":"all","reason":"no"}"#;
        assert!(serde_json::from_str::<ControlRequest>(earlier).is_ok());
        let all_by_accident = r#"{"command":"queue_remove"}"#;
        assert!(serde_json::from_str::<ControlRequest>(all_by_accident).is_err());
        assert!(serde_json::from_str::<ControlRequest>(r#"{"command":"unrouted"}"#).is_err());
    }
}
