//! Shards that answer in parts.

use super::*;
use crate::commands::{QueueHold, QueueList, QueueRetry};
use crate::control::{Filter, QueueItem, Tally};
use mail::{MessageId, Wall};
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

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
        priority: None,
        headers: Default::default(),
        moved: None,
        client: None,
        login: None,
        recipients: Vec::new(),
        dialogues: Vec::new(),
        recipients_open: 1,
        recipients_count: 1,
    }
}

type Senders = Arc<Mutex<Vec<mpsc::Sender<ShardAnswer>>>>;

fn plane(shards: usize) -> (ControlPlane, Senders) {
    let senders = Senders::default();
    let port = |_| -> ShardPort {
        let senders = Arc::clone(&senders);
        Box::new(move |_, answer| senders.lock().unwrap().push(answer))
    };
    let (node, _) = mpsc::channel(1);
    (ControlPlane::new((0..shards).map(port).collect(), node), senders)
}

fn part(items: Vec<QueueItem>, messages: u64, is_last: bool) -> ShardAnswer {
    let tally = Tally { messages, ..Tally::default() };
    ShardAnswer { items, tally, is_last, ..ShardAnswer::default() }
}

#[test]
fn the_oldest_of_all_shards_come_first_as_pages_arrive_and_the_rest_is_counted() {
    let (plane, senders) = plane(2);
    let (out, mut responses) = mpsc::channel(32);
    let list = ControlRequest::QueueList(QueueList { filter: Filter::default(), limit: 3 });
    let mut handling = pin!(plane.handle(list, out));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(handling.as_mut().poll(&mut cx).is_pending());
    let shards = senders.lock().unwrap().clone();
    senders.lock().unwrap().clear();
    shards[0].try_send(part(vec![], 1, false)).unwrap();
    shards[0].try_send(part(vec![item(1, 10)], 7, false)).unwrap();
    shards[0].try_send(part(vec![item(3, 30)], 7, false)).unwrap();
    assert!(handling.as_mut().poll(&mut cx).is_pending());
    let progress = responses.try_recv().unwrap();
    assert!(matches!(progress, ControlResponse::Progress(Tally { messages: 1, .. })));
    assert!(responses.try_recv().is_err(), "the other shard may have an older one");
    shards[1].try_send(part(vec![item(2, 20), item(4, 30)], 2, true)).unwrap();
    assert!(handling.as_mut().poll(&mut cx).is_pending());
    shards[0].try_send(part(vec![], 7, true)).unwrap();
    assert!(handling.as_mut().poll(&mut cx).is_ready());
    let mut ids = Vec::new();
    loop {
        match responses.try_recv().unwrap() {
            ControlResponse::Item(item) => ids.push(item.id.0),
            last => {
                let done = ControlResponse::Done { matched: 9, tally: None, text: None };
                assert_eq!(last, done);
                break;
            }
        }
    }
    assert_eq!(ids, [1, 2, 3]);
}

#[test]
fn who_hangs_up_stops_the_shards() {
    let (plane, senders) = plane(2);
    let (out, responses) = mpsc::channel(1);
    let hold = ControlRequest::QueueHold(QueueHold {
        select: crate::control::Select::All,
        reason: String::new(),
    });
    {
        let mut handling = pin!(plane.handle(hold, out));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(handling.as_mut().poll(&mut cx).is_pending());
        drop(responses);
        let shards = senders.lock().unwrap().clone();
        shards[1].try_send(part(vec![], 1, false)).unwrap();
        assert!(handling.as_mut().poll(&mut cx).is_ready());
    }
    assert!(senders.lock().unwrap().iter().all(mpsc::Sender::is_closed));
}

#[test]
fn a_shard_that_is_stopping_says_so() {
    let (plane, senders) = plane(1);
    let (out, mut responses) = mpsc::channel(4);
    let retry = ControlRequest::QueueRetry(QueueRetry { select: crate::control::Select::All });
    let mut handling = pin!(plane.handle(retry, out));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(handling.as_mut().poll(&mut cx).is_pending());
    senders.lock().unwrap().clear();
    assert!(handling.as_mut().poll(&mut cx).is_ready());
    let said = responses.try_recv().unwrap();
    assert!(matches!(said, ControlResponse::Error { text, .. } if text.contains("stopping")));
}
