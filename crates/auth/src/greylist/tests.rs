use super::*;
use mail::Wall;
use proptest::prelude::*;
use std::net::IpAddr;

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);
const RULES: GreylistPolicy = GreylistPolicy {
    delay: Duration::from_secs(300),
    retry_window: Duration::from_secs(2 * 86_400),
    remember: Duration::from_secs(35 * 86_400),
    clients_after: 2,
};
static PLUS: std::sync::LazyLock<mail::TagDelimiters> = std::sync::LazyLock::new(Default::default);
const BEGIN: Wall = Wall(1_800_000_000_000);

fn triplet(client: &'static str, local: &'static str) -> Triplet<'static> {
    let address: IpAddr = client.parse().unwrap();
    Triplet {
        client: ClientIdentity::Network(network(address, 24, 64)),
        sender: Some((local, "far.test")),
        recipient: "b@here.test",
        tags: &PLUS,
    }
}

#[test]
fn who_comes_again_in_time_is_known_from_then_on() {
    let mut book = GreylistLedger::default();
    let mut at =
        |after: Duration| book.judge(&RULES, &triplet("192.0.2.1", "a"), BEGIN.after(after));
    assert_eq!(at(Duration::ZERO), GreylistResult::New(RULES.delay));
    assert_eq!(at(MINUTE), GreylistResult::Early(4 * MINUTE));
    let almost = RULES.delay - Duration::from_millis(1);
    assert_eq!(at(almost), GreylistResult::Early(Duration::from_millis(1)));
    assert_eq!(at(RULES.delay), GreylistResult::Passed(RULES.delay));
    assert_eq!(at(RULES.delay), GreylistResult::Known);
    // It is known as long as it is seen now and then.
    assert_eq!(at(30 * DAY), GreylistResult::Known);
    assert_eq!(at(64 * DAY), GreylistResult::Known);
    assert_eq!(at(64 * DAY + RULES.remember), GreylistResult::New(RULES.delay));
}

#[test]
fn who_comes_again_too_late_is_new() {
    let mut book = GreylistLedger::default();
    let mut at =
        |after: Duration| book.judge(&RULES, &triplet("192.0.2.1", "a"), BEGIN.after(after));
    assert_eq!(at(Duration::ZERO), GreylistResult::New(RULES.delay));
    assert_eq!(at(RULES.retry_window), GreylistResult::New(RULES.delay));
    let last = RULES.retry_window * 2 - Duration::from_millis(1);
    assert_eq!(at(last), GreylistResult::Passed(RULES.retry_window - Duration::from_millis(1)));
    // A clock that was put back makes nothing older, and breaks nothing.
    let mut book = GreylistLedger::default();
    assert_eq!(
        book.judge(&RULES, &triplet("192.0.2.1", "a"), BEGIN),
        GreylistResult::New(RULES.delay)
    );
    let before = Wall(BEGIN.0 - 1);
    assert_eq!(
        book.judge(&RULES, &triplet("192.0.2.1", "a"), before),
        GreylistResult::Early(RULES.delay)
    );
}

#[test]
fn what_differs_between_tries_is_the_same_triplet() {
    let mut book = GreylistLedger::default();
    book.judge(&RULES, &triplet("192.0.2.1", "list-1"), BEGIN);
    let later = BEGIN.after(RULES.delay);
    let passed = GreylistResult::Passed(RULES.delay);
    assert_eq!(book.judge(&RULES, &triplet("192.0.2.200", "list-2"), later), passed);
    assert_eq!(
        book.judge(&RULES, &triplet("192.0.3.1", "list-1"), later),
        GreylistResult::New(RULES.delay)
    );
    // A pool is known by the domain that it sends for.
    let of_pool =
        |domain| Triplet { client: ClientIdentity::Domain(domain), ..triplet("192.0.2.1", "a") };
    book.judge(&RULES, &of_pool("far.test"), BEGIN);
    assert_eq!(book.judge(&RULES, &of_pool("Far.test"), later), passed);
    assert_eq!(book.judge(&RULES, &of_pool("near.test"), later), GreylistResult::New(RULES.delay));
}

#[test]
fn a_client_that_often_comes_again_is_let_through() {
    let mut book = GreylistLedger::default();
    let mut pass = |sender, after: Duration| {
        let at = BEGIN.after(after);
        book.judge(&RULES, &triplet("192.0.2.1", sender), at);
        book.judge(&RULES, &triplet("192.0.2.1", sender), at.after(RULES.delay))
    };
    let passed = GreylistResult::Passed(RULES.delay);
    assert_eq!(pass("a", Duration::ZERO), passed);
    // In the same hour nothing more is shown.
    assert_eq!(pass("b", MINUTE), passed);
    assert_eq!(pass("c", 2 * MINUTE), passed);
    assert_eq!(pass("d", 61 * MINUTE), passed);
    assert_eq!(pass("e", 70 * MINUTE), GreylistResult::Client);
    assert_eq!(pass("f", 30 * DAY), GreylistResult::Client);
    assert_eq!(pass("f", 60 * DAY), GreylistResult::Client);
    assert_eq!(pass("g", 100 * DAY), passed);
    let never = GreylistPolicy { clients_after: 0, ..RULES };
    assert_eq!(
        book.judge(&never, &triplet("192.0.2.1", "h"), BEGIN),
        GreylistResult::New(RULES.delay)
    );
}

#[test]
fn a_flood_of_new_ones_takes_no_more_than_there_is_and_none_of_what_is_known() {
    let mut book = GreylistLedger::of_room(200);
    let passed = triplet("192.0.2.1", "a");
    book.judge(&RULES, &passed, BEGIN);
    let later = BEGIN.after(RULES.delay);
    assert_eq!(book.judge(&RULES, &passed, later), GreylistResult::Passed(RULES.delay));
    for n in 0..2_000_u32 {
        let recipient = format!("r{n}@here.test");
        let new = Triplet { recipient: &recipient, ..passed };
        let new = Triplet { client: ClientIdentity::Domain("flood.test"), ..new };
        assert_eq!(book.judge(&RULES, &new, later), GreylistResult::New(RULES.delay), "{n}");
        assert!(book.len() <= 200, "{n}");
    }
    assert_eq!(book.judge(&RULES, &passed, later), GreylistResult::Known);
    // What no longer holds makes room by itself.
    for n in 0..200 {
        let recipient = format!("s{n}@here.test");
        let new = Triplet { recipient: &recipient, ..passed };
        book.judge(&RULES, &new, later.after(36 * DAY));
    }
    assert!(book.len() <= 200);
}

#[test]
fn what_is_written_down_is_known_again() {
    let mut book = GreylistLedger::default();
    let (one, other) = (triplet("192.0.2.1", "a"), triplet("192.0.2.1", "b"));
    book.judge(&RULES, &one, BEGIN);
    book.judge(&RULES, &other, BEGIN);
    let later = BEGIN.after(RULES.delay);
    book.judge(&RULES, &one, later);
    let mut changes = book.take_changes(2);
    changes.extend(book.take_changes(100));
    assert_eq!(changes.len(), 3);
    assert!(book.take_changes(100).is_empty());
    // Seen again within a day: not worth writing.
    assert_eq!(book.judge(&RULES, &one, later.after(MINUTE)), GreylistResult::Known);
    assert!(book.take_changes(100).is_empty());
    let written = changes.iter().map(|(key, record)| {
        let bytes = record.expect("it is known").to_bytes();
        (*key, Record::read(&bytes))
    });
    let mut again = GreylistLedger::default();
    again.read(written.clone(), later);
    assert_eq!(again.judge(&RULES, &one, later), GreylistResult::Known);
    assert_eq!(again.judge(&RULES, &other, later), GreylistResult::Passed(RULES.delay));
    let mut too_late = GreylistLedger::default();
    too_late.read(written, later.after(36 * DAY));
    assert!(too_late.is_empty());
    assert_eq!(too_late.take_changes(100).len(), 3, "they are taken out of the file");
}

#[test]
fn what_is_no_record_is_none() {
    let record = Record::read(&[0; RECORD_BYTES]);
    assert_eq!(record, None);
    assert_eq!(Record::read(&[1; RECORD_BYTES - 1]), None);
    assert_eq!(Record::read(&[1; RECORD_BYTES + 1]), None);
    assert!(Record::read(&[1; RECORD_BYTES]).is_some());
}

proptest! {
    #[test]
    fn any_sender_and_any_record_is_read(
        local: String, domain: String, recipient: String, bytes: Vec<u8>, now: u64, later: u64,
    ) {
        let mut book = GreylistLedger::default();
        let triplet = Triplet {
            client: ClientIdentity::Domain(&domain),
            sender: Some((&local, &domain)),
            recipient: &recipient,
            tags: &PLUS,
        };
        book.read([(Key::default(), Record::read(&bytes))], Wall(now));
        book.judge(&RULES, &triplet, Wall(now));
        book.judge(&RULES, &triplet, Wall(later));
        if let Some(record) = Record::read(&bytes) {
            prop_assert_eq!(Record::read(&record.to_bytes()).map(|r| r.until), Some(record.until));
        }
    }
}
