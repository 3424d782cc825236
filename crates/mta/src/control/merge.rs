//! Many shards' answers as one.

use super::{ControlRequest, ControlResponse, ErrorCode, QueueItem, Select, ShardAnswer};

/// What the asker gets to see: items in order, then `Done` or `Error`.
pub(super) fn responses(
    request: &ControlRequest,
    answers: Vec<ShardAnswer>,
) -> Vec<ControlResponse> {
    let mut matched = 0_u64;
    let mut items: Vec<QueueItem> = Vec::new();
    let mut errors: Vec<String> = Vec::new();
    for (shard, answer) in answers.into_iter().enumerate() {
        matched = matched.saturating_add(answer.matched.max(answer.items.len() as u64));
        items.extend(answer.items);
        errors.extend(answer.error.map(|error| format!("shard {shard}: {error}")));
    }
    items.sort_by_key(|item| (item.received_at, item.id));
    if let ControlRequest::QueueList { limit, .. } = request {
        items.truncate(usize::try_from(*limit).unwrap_or(usize::MAX));
    }
    let mut responses: Vec<ControlResponse> =
        items.into_iter().map(|item| ControlResponse::Item(Box::new(item))).collect();
    responses.push(last(request, matched, &errors));
    responses
}

fn last(request: &ControlRequest, matched: u64, errors: &[String]) -> ControlResponse {
    let verb = match request {
        ControlRequest::QueueRetry { .. } => Some("made due now"),
        ControlRequest::QueueHold { .. } => Some("held"),
        ControlRequest::QueueRelease { .. } => Some("released"),
        ControlRequest::QueueRemove { .. } => Some("removed"),
        _ => None,
    };
    if !errors.is_empty() {
        let mut text = errors.join("; ");
        if let Some(verb) = verb.filter(|_| matched > 0) {
            text = format!("{text} ({} {verb} nevertheless)", messages(matched));
        }
        return ControlResponse::Error { code: ErrorCode::Failed, text };
    }
    if matched == 0 && !matches!(request, ControlRequest::QueueList { .. }) {
        return ControlResponse::Error { code: ErrorCode::NotFound, text: not_found(request) };
    }
    let text = verb.map(|verb| format!("{} {verb}", messages(matched)));
    ControlResponse::Done { matched, text }
}

fn messages(count: u64) -> String {
    if count == 1 { "1 message".to_owned() } else { format!("{count} messages") }
}

fn not_found(request: &ControlRequest) -> String {
    match request {
        ControlRequest::QueueShow { id }
        | ControlRequest::QueueWhy { id }
        | ControlRequest::QueueRetry { select: Select::Id(id) }
        | ControlRequest::QueueHold { select: Select::Id(id), .. }
        | ControlRequest::QueueRelease { select: Select::Id(id) }
        | ControlRequest::QueueRemove { select: Select::Id(id) } => {
            format!("no message {id} in the queue: it is done with, or was never here")
        }
        _ => "nothing in the queue matches".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Filter;
    use mail::{MessageId, Wall};

    fn item(id: u64, received_at: u64) -> QueueItem {
        QueueItem {
            id: MessageId(id),
            sender: String::new(),
            unreadable: None,
            body_bytes: 1,
            received_at: Wall(received_at),
            age_ms: 0,
            shard: 0,
            held: None,
            client: None,
            recipients: Vec::new(),
            recipients_count: 1,
        }
    }

    fn list(limit: u32) -> ControlRequest {
        ControlRequest::QueueList { filter: Filter::default(), limit }
    }

    #[test]
    fn the_oldest_of_all_shards_come_first_and_the_rest_is_counted() {
        let a =
            ShardAnswer { items: vec![item(1, 10), item(3, 30)], matched: 7, ..Default::default() };
        let b =
            ShardAnswer { items: vec![item(2, 20), item(4, 30)], matched: 2, ..Default::default() };
        let merged = responses(&list(3), vec![a, b]);
        let ids: Vec<u64> = merged
            .iter()
            .filter_map(
                |r| if let ControlResponse::Item(item) = r { Some(item.id.0) } else { None },
            )
            .collect();
        assert_eq!(ids, [1, 2, 3]);
        assert_eq!(merged[3], ControlResponse::Done { matched: 9, text: None });
    }

    #[test]
    fn an_empty_queue_is_no_error_but_an_unknown_id_is() {
        let nothing = || vec![ShardAnswer::default(), ShardAnswer::default()];
        let done = ControlResponse::Done { matched: 0, text: None };
        assert_eq!(responses(&list(10), nothing()), [done]);
        let show = ControlRequest::QueueShow { id: MessageId(7) };
        let [ControlResponse::Error { code, text }] = &responses(&show, nothing())[..] else {
            panic!()
        };
        assert_eq!(*code, ErrorCode::NotFound);
        assert!(text.contains("0000000000000007"), "{text}");
    }

    #[test]
    fn one_shard_that_fails_shows_even_when_others_succeed() {
        let good = ShardAnswer { matched: 2, ..Default::default() };
        let bad = ShardAnswer { error: Some("spool is full".into()), ..Default::default() };
        let remove = ControlRequest::QueueRemove { select: Select::All };
        let [ControlResponse::Error { code, text }] = &responses(&remove, vec![good, bad])[..]
        else {
            panic!()
        };
        assert_eq!(*code, ErrorCode::Failed);
        assert_eq!(text, "shard 1: spool is full (2 messages removed nevertheless)");
    }

    #[test]
    fn requests_survive_json_and_unknown_fields_do_not() {
        let requests = [
            list(5),
            ControlRequest::QueueHold { select: Select::Id(MessageId(42)), reason: "spam".into() },
            ControlRequest::QueueRetry {
                select: Select::Filter(Filter {
                    domain: Some("a.example".into()),
                    ..Filter::default()
                }),
            },
            ControlRequest::Status,
        ];
        for request in requests {
            let json = serde_json::to_string(&request).unwrap();
            assert_eq!(serde_json::from_str::<ControlRequest>(&json).unwrap(), request, "{json}");
        }
        let typo = r#"{"command":"queue_remove","select":{"filter":{"domian":"a"}}}"#;
        assert!(serde_json::from_str::<ControlRequest>(typo).is_err());
        let all_by_accident = r#"{"command":"queue_remove"}"#;
        assert!(serde_json::from_str::<ControlRequest>(all_by_accident).is_err());
    }
}
