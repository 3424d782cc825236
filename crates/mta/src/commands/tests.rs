//! Requests as JSON.

use super::*;
use crate::control::{Filter, Lift, Scope, Select};
use crate::overrides::Overrides;
use mail::MessageId;

#[test]
fn requests_survive_json_and_unknown_fields_do_not() {
    let filter = Filter { domain: Some("a.example".into()), ..Filter::default() };
    let requests = [
        ControlRequest::QueueList(QueueList { filter: filter.clone(), limit: 5 }),
        ControlRequest::QueueHold(QueueHold {
            select: Select::Id(MessageId(42)),
            reason: "spam".into(),
        }),
        ControlRequest::QueueRetry(QueueRetry { select: Select::Filter(Box::new(filter.clone())) }),
        ControlRequest::QueueSummary(QueueSummary { filter, top: 3 }),
        ControlRequest::QueueFail(QueueFail {
            select: Select::All,
            status: None,
            reason: "no".into(),
            silent: true,
        }),
        ControlRequest::QueueMove(QueueMove {
            select: Select::Id(MessageId(42)),
            to: Overrides::parse("out\npool "),
            undo: false,
        }),
        ControlRequest::QueueMove(QueueMove {
            select: Select::All,
            to: Overrides::default(),
            undo: true,
        }),
        ControlRequest::QueueSuspend(QueueSuspend {
            scope: Scope { next_hop: Some("mx.example".into()), ..Scope::default() },
            reason: "asked".into(),
            until: Some(mail::Wall(1_795_262_469_000)),
        }),
        QueueResume { scope: Scope::default() }.into(),
        TrustClock {}.into(),
        SpoolSnapshot {}.into(),
        TableFlush { table: "users".into(), key: None }.into(),
        ShapingLift { lift: Lift::default() }.into(),
        ServerStatus {}.into(),
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
    assert!(serde_json::from_str::<ControlRequest>(r#"{"command":"shard_state"}"#).is_err());
    let with_more = r#"{"command":"reload","version":2}"#;
    assert_eq!(serde_json::from_str::<ControlRequest>(with_more).unwrap(), Reload {}.into());
    let of_table = r#"{"command":"table_flush","table":"users","keys":"a"}"#;
    assert!(serde_json::from_str::<ControlRequest>(of_table).is_err());
}
