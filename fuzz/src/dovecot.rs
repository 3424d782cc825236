//! What Dovecot's authentication server says: any bytes, as a connection reads them.

use auth::dovecot::{ANSWER_BYTES_MAX, Answer, Answers, DovecotEvent, MECHANISMS_MAX};
use auth::sasl::USER_BYTES_MAX;

/// The first byte says where the rest is cut in two.
pub fn run(data: &[u8]) {
    let Some((&cut, rest)) = data.split_first() else { return };
    let (events, is_well) = read(&[rest]);
    let (first, second) = rest.split_at(usize::from(cut).min(rest.len()));
    assert_eq!(read(&[first, second]), (events.clone(), is_well), "cut at {cut}");
    let ready = events.iter().filter(|event| matches!(event, DovecotEvent::Ready(_))).count();
    assert!(ready <= 1 && (events.is_empty() || matches!(events[0], DovecotEvent::Ready(_))));
    events.iter().for_each(check);
}

/// All that is said, and whether nothing was wrong up to the end.
fn read(pieces: &[&[u8]]) -> (Vec<DovecotEvent>, bool) {
    let mut answers = Answers::default();
    let is_well = pieces.iter().all(|piece| answers.handle_input(piece).is_ok());
    (std::iter::from_fn(|| answers.poll_event()).collect(), is_well)
}

/// Names may be logged, and nothing is longer than a line.
fn check(event: &DovecotEvent) {
    match event {
        DovecotEvent::Ready(mechanisms) => assert!(mechanisms.len() <= MECHANISMS_MAX),
        DovecotEvent::Answer(_, Answer::Continue(challenge)) => {
            assert!(challenge.len() <= ANSWER_BYTES_MAX);
        }
        DovecotEvent::Answer(_, Answer::Accepted(user) | Answer::Refused(Some(user))) => {
            assert!((1..=USER_BYTES_MAX).contains(&user.len()));
            assert!(!user.chars().any(char::is_control));
        }
        DovecotEvent::Answer(_, Answer::Refused(None) | Answer::Unavailable) => {}
    }
}
