//! Limits that a dialogue cannot show: memory, exact moments, answers that come too late.

use mail::Mono;
use smtp::server::{ContentSink, LoginRules, Need, ServerConfig, ServerSession};
use smtp::testing::server::Driver;
use smtp::testing::transcript::reply;
use std::sync::Arc;
use std::time::Duration;

struct Nowhere;

impl ContentSink for Nowhere {
    fn push(&mut self, _piece: &[u8]) {}
}

const START: Mono = Mono(7_000_000);

fn session(config: ServerConfig) -> ServerSession {
    let mut session = ServerSession::new(Arc::new(config), START);
    let progress = session.handle_input(START, b"EHLO client.example\r\n", &mut Nowhere);
    assert!(matches!(progress.need, Need::Input));
    session.output().clear();
    session
}

fn said(session: &mut ServerSession) -> String {
    String::from_utf8(std::mem::take(session.output())).expect("ASCII")
}

#[test]
fn an_idle_session_is_small() {
    assert!(size_of::<ServerSession>() <= 512, "{} bytes", size_of::<ServerSession>());
    let mut session = session(ServerConfig::default());
    session.handle_input(START, b"NOOP\r\n".repeat(10_000).as_slice(), &mut Nowhere);
    assert!(session.output().capacity() > 100_000);
    session.output().clear();
    session.handle_input(START, b"", &mut Nowhere);
    assert!(session.output().capacity() <= 4_096, "the output is given back once it is written");
}

#[test]
fn refused_content_does_not_grow_the_sink() {
    for max in [0, 1, 9, 10, 4_095] {
        let config = ServerConfig { message_bytes_max: max, ..ServerConfig::default() };
        for (length, fits) in [(max, true), (max + 1, false), (max + 100_000, false)] {
            let mut driver = Driver::greeted(config.clone());
            driver.feed(b"MAIL FROM:<>\r\nRCPT TO:<bob@b.example>\r\n");
            driver.feed(format!("BDAT {length} LAST\r\n").as_bytes());
            driver.feed(&vec![b'x'; usize::try_from(length).expect("small")]);
            assert_eq!(driver.stored.len(), usize::from(fits), "{length} of {max}");

            let mut driver = Driver::greeted(config.clone());
            driver.feed(b"MAIL FROM:<>\r\nRCPT TO:<bob@b.example>\r\nDATA\r\n");
            let Some(text) = length.checked_sub(2) else { continue };
            for piece in vec![b'x'; usize::try_from(text).expect("small")].chunks(1_000) {
                driver.feed(piece);
            }
            driver.feed(b"\r\n.\r\n");
            assert_eq!(driver.stored.len(), usize::from(fits), "{length} of {max}");
        }
    }
}

#[test]
fn recipients_up_to_the_limit() {
    let config = ServerConfig { recipients_max: 1_000, ..ServerConfig::default() };
    let mut driver = Driver::greeted(config);
    driver.feed(b"MAIL FROM:<>\r\n");
    for number in 0..1_001 {
        driver.feed(format!("RCPT TO:<b{number}@b.example>\r\n").as_bytes());
    }
    assert_eq!(driver.trace[1_000], "S: 250 2.1.5 Recipient ok");
    assert!(driver.trace[1_001].starts_with("S: 452 4.5.3 "));
    driver.feed(b"BDAT 0 LAST\r\n");
    assert_eq!(driver.stored[0].transaction.envelope.recipients.len(), 1_000);
}

#[test]
fn deadlines_to_the_microsecond() {
    let config = ServerConfig {
        command_timeout: Duration::from_secs(300),
        content_timeout: Duration::from_secs(180),
        transfer_timeout: Duration::from_secs(200),
        session_timeout: Duration::from_secs(1_000),
        ..ServerConfig::default()
    };
    let seconds = |count| START + Duration::from_secs(count);
    let mut session = session(config);
    assert_eq!(session.deadline(), seconds(300));
    session.handle_input(seconds(100), b"NOO", &mut Nowhere);
    assert_eq!(session.deadline(), seconds(300), "half a line does not count");
    session.handle_input(seconds(200), b"P\r\n", &mut Nowhere);
    assert_eq!(session.deadline(), seconds(500));
    let need = session.handle_input(seconds(210), b"MAIL FROM:<>\r\n", &mut Nowhere).need;
    assert!(matches!(need, Need::Mail(_)));
    assert_eq!(session.deadline(), Mono::NEVER, "the client is not to blame now");
    assert!(!session.handle_timeout(Mono(u64::MAX)));
    session.answer_mail(seconds(220), Ok(()));
    assert_eq!(session.deadline(), seconds(520));
    session.handle_input(seconds(220), b"RCPT TO:<bob@b.example>\r\n", &mut Nowhere);
    session.answer_rcpt(seconds(220), 0, Ok(()));
    session.handle_input(seconds(230), b"DATA\r\n", &mut Nowhere);
    session.answer_data(seconds(240), Ok(()));
    assert_eq!(session.deadline(), seconds(420), "180 s for the first piece");
    session.handle_input(seconds(300), b"x\r\n", &mut Nowhere);
    assert_eq!(session.deadline(), seconds(440), "200 s for all");
    session.output().clear();
    assert!(!session.handle_timeout(seconds(440) - Duration::from_micros(1)));
    assert!(session.handle_timeout(seconds(440)));
    assert!(said(&mut session).starts_with("421 4.4.2 "));
    assert_eq!(session.deadline(), seconds(440), "it is over");
    assert!(session.handle_timeout(seconds(441)));
    assert_eq!(said(&mut session), "", "one 421 is enough");
    let progress = session.handle_input(seconds(441), b"x\r\n.\r\n", &mut Nowhere);
    assert!(matches!(progress.need, Need::Close));
    assert_eq!(said(&mut session), "");
}

#[test]
fn the_session_deadline_ends_even_a_busy_one() {
    let config =
        ServerConfig { session_timeout: Duration::from_secs(50), ..ServerConfig::default() };
    let mut session = session(config);
    session.handle_input(START + Duration::from_secs(49), b"NOOP\r\n", &mut Nowhere);
    assert_eq!(session.deadline(), START + Duration::from_secs(50));
    assert!(session.handle_timeout(START + Duration::from_secs(50)));
}

#[test]
fn input_behind_a_need_waits() {
    let mut session = session(ServerConfig::default());
    let input = b"MAIL FROM:<>\r\nRCPT TO:<bob@b.example>\r\nDATA\r\n";
    let progress = session.handle_input(START, input, &mut Nowhere);
    assert_eq!(progress.consumed, 14);
    assert!(matches!(progress.need, Need::Mail(_)));
    assert!(!session.in_transaction());
    session.answer_mail(START, Ok(()));
    assert!(session.in_transaction());
    let progress = session.handle_input(START, &input[14..], &mut Nowhere);
    assert_eq!(progress.consumed, 25);
    assert!(matches!(progress.need, Need::Rcpt { number: 0, .. }));
    session.answer_rcpt(START, 0, Err(reply("550 5.1.1 no\r250 yes")));
    let progress = session.handle_input(START, &input[39..], &mut Nowhere);
    assert_eq!(progress.consumed, 6);
    assert!(matches!(progress.need, Need::DataRefused));
    let expected =
        "250 2.1.0 Sender ok\r\n550 5.1.1 no?250 yes\r\n554 5.5.1 No valid recipients\r\n";
    assert_eq!(said(&mut session), expected);
    // Whatever came with that DATA is no command.
    session.end_early_content();
    let progress = session.handle_input(START, b"MAIL FROM:<>\r\n", &mut Nowhere);
    assert!(matches!(progress.need, Need::Close));
    assert_eq!(
        said(&mut session),
        "421 4.7.0 localhost Protocol error: input after a rejected DATA\r\n"
    );
}

#[test]
fn shutdown_while_an_answer_is_owed() {
    let mut session = session(ServerConfig::default());
    let input = b"MAIL FROM:<>\r\nRCPT TO:<bob@b.example>\r\nBDAT 1 LAST\r\nx";
    let mut rest = &input[..];
    let mut needs = 0;
    loop {
        let progress = session.handle_input(START, rest, &mut Nowhere);
        rest = &rest[progress.consumed..];
        needs += 1;
        match progress.need {
            Need::Mail(_) => session.answer_mail(START, Ok(())),
            Need::Rcpt { number, .. } => {
                session.answer_rcpt(START, number, Ok(()));
            }
            Need::Data { recipients: 1, .. } => session.answer_data(START, Ok(())),
            Need::Message(_) => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(needs, 4);
    assert!(session.in_transaction());
    session.output().clear();
    session.handle_shutdown();
    session.handle_shutdown();
    assert_eq!(said(&mut session), "421 4.3.2 localhost Server shutting down\r\n");
    session.answer_message(START, reply("250 2.0.0 Queued"));
    assert_eq!(said(&mut session), "", "the 421 was the reply");
    assert!(!session.in_transaction());
    assert!(matches!(session.handle_input(START, b"", &mut Nowhere).need, Need::Close));
}

/// A session with `count` recipients open, its output emptied.
fn with_open(config: ServerConfig, count: u32) -> ServerSession {
    let mut session = session(config);
    session.handle_input(START, b"MAIL FROM:<>\r\n", &mut Nowhere);
    session.answer_mail(START, Ok(()));
    for expected in 0..count {
        let input = format!("RCPT TO:<b{expected}@b.example>\r\n");
        match session.handle_input(START, input.as_bytes(), &mut Nowhere).need {
            Need::Rcpt { number, .. } => assert_eq!(number, expected),
            other => panic!("{other:?}"),
        }
    }
    session.output().clear();
    session
}

const OK: Result<(), mail::Reply> = Ok(());

#[test]
fn as_many_recipients_are_open_as_the_listener_lets() {
    assert_eq!(ServerConfig::default().recipients_open_max, 100);
    let mut session = with_open(ServerConfig::default(), 100);
    let input = b"RCPT TO:<one@b.example>\r\nRCPT TO:<two@b.example>\r\n";
    let progress = session.handle_input(START, input, &mut Nowhere);
    assert!(matches!(progress.need, Need::Answers));
    let rest = &input[progress.consumed..];
    for number in 1..100 {
        session.answer_rcpt(START, number, OK);
        assert!(matches!(session.handle_input(START, rest, &mut Nowhere).need, Need::Answers));
        assert_eq!(said(&mut session), "", "the first is not answered");
    }
    session.answer_rcpt(START, 0, OK);
    assert_eq!(said(&mut session).lines().count(), 100);
    let progress = session.handle_input(START, rest, &mut Nowhere);
    assert!(matches!(progress.need, Need::Rcpt { number: 100, .. }));
    let rest = &rest[progress.consumed..];
    let progress = session.handle_input(START, rest, &mut Nowhere);
    assert!(matches!(progress.need, Need::Rcpt { number: 101, .. }));
    assert_eq!(rest.len(), progress.consumed);
}

#[test]
fn deadlines_while_recipients_are_open() {
    let seconds = |count| START + Duration::from_secs(count);
    let config =
        ServerConfig { session_timeout: Duration::from_secs(1_000), ..ServerConfig::default() };
    let mut session = with_open(config, 2);
    assert_eq!(session.deadline(), seconds(1_000), "the client waits for us");
    session.answer_rcpt(seconds(10), 1, OK);
    assert_eq!(session.deadline(), seconds(1_000));
    session.answer_rcpt(seconds(20), 0, OK);
    assert_eq!(session.deadline(), seconds(320), "now we wait for the client");
    let need = session.handle_input(seconds(30), b"RCPT TO:<c@b.example>\r\n", &mut Nowhere).need;
    assert!(matches!(need, Need::Rcpt { number: 2, .. }));
    session.output().clear();
    assert!(!session.handle_timeout(seconds(1_000) - Duration::from_micros(1)));
    assert!(session.handle_timeout(seconds(1_000)));
    assert!(said(&mut session).starts_with("421 4.4.2 "));
    session.answer_rcpt(seconds(1_000), 2, OK);
    assert_eq!(said(&mut session), "", "it comes too late");
    assert!(!session.in_transaction());
}

#[test]
fn refused_recipients_are_told_of_in_the_order_of_their_commands() {
    let mut session = with_open(ServerConfig::default(), 3);
    for number in [2, 0] {
        session.answer_rcpt(START, number, Err(reply(&format!("550 5.1.1 No {number}"))));
        let refused = session.take_refusals();
        assert_eq!(refused.len(), usize::from(number == 0), "{number}");
    }
    session.answer_rcpt(START, 1, OK);
    let refused = session.take_refusals();
    assert_eq!(refused[0].recipient.as_deref(), Some("b2@b.example"));
    let expected = "550 5.1.1 No 0\r\n250 2.1.5 Recipient ok\r\n550 5.1.1 No 2\r\n";
    assert_eq!(said(&mut session), expected);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "an answer for 2, which is not open")]
fn an_answer_for_nobody_is_an_error_of_the_driver() {
    with_open(ServerConfig::default(), 2).answer_rcpt(START, 2, OK);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "an answer for 1, which is not open")]
fn a_second_answer_is_an_error_of_the_driver() {
    let mut session = with_open(ServerConfig::default(), 2);
    session.answer_rcpt(START, 1, OK);
    session.answer_rcpt(START, 1, OK);
}

#[test]
#[cfg(not(debug_assertions))]
fn an_answer_for_nobody_is_ignored() {
    let mut session = with_open(ServerConfig::default(), 2);
    session.answer_rcpt(START, 2, OK);
    session.answer_rcpt(START, 1, OK);
    session.answer_rcpt(START, 1, Err(reply("550 5.1.1 No")));
    assert_eq!(said(&mut session), "");
    session.answer_rcpt(START, 0, OK);
    assert_eq!(said(&mut session), "250 2.1.5 Recipient ok\r\n".repeat(2));
}

fn login_rules(mechanism: &'static str, timeout: Duration) -> LoginRules {
    LoginRules { mechanisms: vec![mechanism], failures_max: 3, timeout }
}

/// RFC 4954 §4.
#[test]
fn a_line_of_an_exchange_has_12288_octets() {
    for (octets, reply) in [(12_288, "501 5.5.2 "), (12_289, "500 5.5.6 ")] {
        let logins = login_rules("PLAIN", Duration::from_secs(600));
        let config =
            ServerConfig { starttls: true, logins: Some(logins), ..ServerConfig::default() };
        let mut driver = Driver::greeted(config);
        driver.feed(b"STARTTLS\r\n");
        driver.end_flight();
        driver.feed(b"EHLO c\r\nAUTH PLAIN\r\n");
        driver.trace.clear();
        // No base64 has this length; that it is seen says that the line was taken.
        let line = ["A".repeat(octets - 2).as_bytes(), b"\r\n"].concat();
        driver.feed(&line);
        let said = driver.trace.iter().find(|line| line.starts_with("S: "));
        assert!(said.is_some_and(|line| line[3..].starts_with(reply)), "{octets}: {said:?}");
    }
}

#[test]
fn a_client_that_answers_no_challenge_times_out() {
    let logins = login_rules("LOGIN", Duration::from_secs(600));
    let config = ServerConfig { starttls: true, logins: Some(logins), ..ServerConfig::default() };
    let mut driver = Driver::greeted(config);
    driver.feed(b"STARTTLS\r\n");
    driver.end_flight();
    driver.feed(b"EHLO c\r\nAUTH LOGIN\r\n");
    driver.advance(Duration::from_secs(299));
    assert!(!driver.closed);
    driver.feed(b"dXNl");
    driver.advance(Duration::from_secs(1));
    assert!(driver.closed);
    assert!(driver.trace.iter().any(|line| line.starts_with("S: 421 4.4.2 ")));
}

#[test]
fn whoever_has_to_log_in_has_so_long_for_that_whatever_it_says() {
    let logins = login_rules("PLAIN", Duration::from_secs(180));
    let config = ServerConfig { starttls: true, logins: Some(logins), ..ServerConfig::default() };
    let login = b"EHLO c\r\nAUTH PLAIN cmlnaHQ=\r\n";
    for logs_in in [false, true] {
        let mut driver = Driver::greeted(config.clone());
        driver.feed(b"STARTTLS\r\n");
        driver.end_flight();
        for _ in 0..179 {
            driver.advance(Duration::from_secs(1));
            driver.feed(b"NOOP\r\n");
        }
        if logs_in {
            driver.feed(login);
        }
        driver.advance(Duration::from_secs(1));
        let last = driver.trace.iter().rev().find(|line| line.starts_with("S: ")).cloned();
        let last = last.unwrap_or_default();
        assert_eq!(driver.closed, !logs_in, "{last}");
        assert_eq!(
            last.contains("421 4.4.2 localhost Authentication time limit exceeded"),
            !logs_in,
            "{last}"
        );
        // Who is in has the usual time for each command.
        driver.advance(Duration::from_secs(298));
        assert_eq!(driver.closed, !logs_in);
        driver.advance(Duration::from_secs(2));
        assert!(driver.closed);
    }
}
