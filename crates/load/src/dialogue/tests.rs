//! Dialogues, whole and in pieces.

use super::{Dialogue, DialogueEvent, Offer};

const OFFER: Offer = Offer {
    chunking: true,
    pipelining: true,
    dsn: true,
    discards: true,
    starttls: false,
    requiretls: true,
};

/// Feeds `input` in pieces of `step` bytes, accepts all; gives contents and replies.
fn converse(input: &[u8], step: usize) -> (Vec<Vec<u8>>, String) {
    let (mut dialogue, mut content, mut messages) = (Dialogue::new(OFFER), Vec::new(), vec![]);
    for mut piece in input.chunks(step) {
        loop {
            let (used, event) = dialogue.advance(piece, &mut content);
            piece = &piece[used..];
            match event {
                DialogueEvent::Input => break,
                DialogueEvent::Message => messages.push(std::mem::take(&mut content)),
                DialogueEvent::Data => content.clear(),
                DialogueEvent::Quit => {
                    let replies = String::from_utf8(dialogue.output().clone());
                    return (messages, replies.expect("replies are ASCII"));
                }
                _ => {}
            }
            dialogue.accept();
        }
    }
    (messages, String::from_utf8(dialogue.output().clone()).expect("replies are ASCII"))
}

fn codes(replies: &str) -> Vec<&str> {
    replies.lines().filter(|line| line.as_bytes()[3] == b' ').map(|line| &line[..3]).collect()
}

#[test]
fn dots_are_unstuffed_however_the_input_is_split() {
    let wire = b"EHLO x\r\nMAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nDATA\r\n\
        ..one\r\ntwo\r\n..\r\n...\r\nbare\n.\nline\r.\r\n..\rx\r\n.\rx\r\n..\r\r\n\r\n.\r\nQUIT\r\n";
    let body = b".one\r\ntwo\r\n.\r\n..\r\nbare\n.\nline\r.\r\n.\rx\r\n\rx\r\n.\r\r\n\r\n";
    for step in 1..wire.len() {
        let (messages, replies) = converse(wire, step);
        assert_eq!(messages, [body.to_vec()], "pieces of {step}");
        assert_eq!(codes(&replies), ["220", "250", "250", "250", "354", "250", "221"]);
    }
}

#[test]
fn chunks_are_counted_not_read() {
    let wire = b"EHLO x\r\nMAIL FROM:<>\r\nRCPT TO:<c@d>\r\nBDAT 8\r\na\r\n.\r\n\r\n\
        BDAT 3 LAST\r\n.\r\nMAIL FROM:<>\r\nRCPT TO:<c@d>\r\nBDAT 0 LAST\r\nQUIT\r\n";
    for step in 1..wire.len() {
        let (messages, replies) = converse(wire, step);
        assert_eq!(messages, [b"a\r\n.\r\n\r\n.\r\n".to_vec(), vec![]], "pieces of {step}");
        let all = ["220", "250", "250", "250", "250", "250", "250", "250", "250", "221"];
        assert_eq!(codes(&replies), all);
    }
}

#[test]
fn wrong_order_is_refused() {
    let wire = b"RCPT TO:<a@b>\r\nDATA\r\nBDAT 2\r\nxxMAIL FROM:<a@b>\r\nDATA\r\nMAIL FROM:<x@y>\
        \r\nXYZZY\r\nMAIL\r\nRSET\r\nNOOP\r\n";
    let (messages, replies) = converse(wire, 7);
    assert!(messages.is_empty());
    let all = ["220", "503", "503", "503", "250", "554", "503", "500", "503", "250", "250"];
    assert_eq!(codes(&replies), all);
}

#[test]
fn a_refused_chunk_is_read_to_its_end() {
    let (mut dialogue, mut content) = (Dialogue::new(OFFER), Vec::new());
    let mut input: &[u8] = b"MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nBDAT 6 LAST\r\nNOOP\r\nNOOP\r\n";
    dialogue.output().clear();
    loop {
        let (used, event) = dialogue.advance(input, &mut content);
        input = &input[used..];
        match event {
            DialogueEvent::Input => break,
            DialogueEvent::Data => dialogue.refuse(452),
            _ => dialogue.accept(),
        }
    }
    assert!(content.is_empty());
    let replies = String::from_utf8(dialogue.output().clone()).expect("ASCII");
    assert_eq!(codes(&replies), ["250", "250", "452", "250"]);
}

#[test]
fn a_refused_chunk_may_be_read_as_commands() {
    let offer = Offer { discards: false, ..OFFER };
    let (mut dialogue, mut content) = (Dialogue::new(offer), Vec::new());
    let mut input: &[u8] = b"MAIL FROM:<a@b>\r\nBDAT 6 LAST\r\nNOOP\r\nX: y\r\n";
    dialogue.output().clear();
    loop {
        let (used, event) = dialogue.advance(input, &mut content);
        input = &input[used..];
        match event {
            DialogueEvent::Input => break,
            _ => dialogue.accept(),
        }
    }
    let replies = String::from_utf8(dialogue.output().clone()).expect("ASCII");
    assert_eq!(codes(&replies), ["250", "503", "250", "500"]);
    assert_eq!((dialogue.unasked_count(), dialogue.unknown_count()), (1, 1));
}

#[test]
fn a_line_without_end_ends_the_session() {
    let mut content = Vec::new();
    let (_, event) = Dialogue::new(OFFER).advance(&[b'x'; 5000], &mut content);
    assert_eq!(event, DialogueEvent::Quit);
}

#[test]
fn a_session_begins_anew_behind_the_handshake() {
    let mut dialogue = Dialogue::new(Offer { starttls: true, ..OFFER });
    let mut content = Vec::new();
    let mut say = |dialogue: &mut Dialogue, line: &str| {
        dialogue.output().clear();
        let (used, event) = dialogue.advance(line.as_bytes(), &mut content);
        if event != DialogueEvent::Input {
            dialogue.accept();
        }
        (used, event, String::from_utf8(dialogue.output().clone()).expect("replies are ASCII"))
    };
    let reply = say(&mut dialogue, "EHLO x\r\n").2;
    assert!(reply.contains("250-STARTTLS\r\n") && !reply.contains("REQUIRETLS"));
    say(&mut dialogue, "MAIL FROM:<a@b>\r\n");
    let (used, event, reply) = say(&mut dialogue, "STARTTLS\r\nNOOP\r\n");
    assert_eq!((used, event, &reply[..3]), (10, DialogueEvent::StartTls, "220"));
    dialogue.encrypted();
    assert!(!say(&mut dialogue, "EHLO x\r\n").2.contains("STARTTLS"));
    assert!(say(&mut dialogue, "EHLO x\r\n").2.contains("250-REQUIRETLS\r\n"));
    assert_eq!(say(&mut dialogue, "MAIL FROM:<a@b>\r\n").1, DialogueEvent::Mail);
    assert!(say(&mut dialogue, "STARTTLS\r\n").2.starts_with("500"));
}
