//! What a milter says: any bytes, as a connection reads them.

use crate::stream::{Cut, in_pieces};
use milter::{
    Answer, Change, DATA_BYTES_MAX, Dialogue, FilterDecision, Header, MilterCommand, frame,
};

/// A header that filters change.
const ADDED: &[u8] = b"X-Ours: 1\r\n";
const CONTENT: &[u8] = b"From: a@b.test\r\nX-A: 1\r\n\tfolded\r\nx-a:2\r\n";

/// The first byte says to which step the rest is the answer, and how it is cut; with the highest bit
/// it is the answer to our offer.
pub fn run(data: &[u8]) {
    let Some((&order, said)) = data.split_first() else { return };
    check_frames(said);
    if order & 0x80 != 0 {
        let mut dialogue = Dialogue::default();
        dialogue.handle_input(said);
        let _ = dialogue.poll_agreed();
        return;
    }
    let step = match order % 8 {
        0 => MilterCommand::Helo("client.test"),
        1 => MilterCommand::Rcpt("a@b.test"),
        2 => MilterCommand::Header { name: b"A", value: b" b" },
        3 => MilterCommand::Body(b"body"),
        _ => MilterCommand::EndOfBody,
    };
    let whole = answers(&step, said, Cut::Whole);
    assert_eq!(whole, answers(&step, said, Cut::Bytes), "{step:?}");
    assert_eq!(whole, answers(&step, said, Cut::Seeded(order)), "{step:?}");
    check_changes(&whole);
}

/// Packets end where they say, whatever stands behind, and none is longer than it may be.
fn check_frames(bytes: &[u8]) {
    let measured = frame(bytes);
    if let Ok(Some(length)) = measured {
        assert!((5..=DATA_BYTES_MAX + 5).contains(&length) && length <= bytes.len());
        assert_eq!(frame(&bytes[..length]), Ok(Some(length)));
        assert_eq!(frame(&bytes[..length - 1]), Ok(None));
    }
    for length in 0..bytes.len().min(4) {
        assert_eq!(frame(&bytes[..length]), Ok(None));
    }
}

/// What is heard before the verdict.
fn answers(step: &MilterCommand<'_>, said: &[u8], cut: Cut) -> Vec<Answer> {
    let mut dialogue = agreed();
    let mut out = Vec::new();
    let is_due = dialogue.tell(step, &|name| Some(name.to_owned()), &mut out);
    assert_eq!(is_due, Ok(true));
    assert!(matches!(frame(&out), Ok(Some(_))));
    let (mut heard, mut is_over) = (Vec::new(), false);
    in_pieces(said, cut, |piece| {
        if is_over {
            return;
        }
        dialogue.handle_input(piece);
        while !is_over {
            match dialogue.poll_answer() {
                Ok(Some(Answer::Verdict(verdict))) => {
                    if let FilterDecision::Refuse(refusal) = verdict {
                        assert!((400..600).contains(&refusal.code()), "{refusal:?}");
                    }
                    is_over = true;
                }
                Ok(Some(other)) => heard.push(other),
                Ok(None) => return,
                // With more behind it a verdict is none, as far as that is there.
                Err(_) => is_over = true,
            }
        }
    });
    heard
}

/// Everything was agreed on.
fn agreed() -> Dialogue {
    let mut dialogue = Dialogue::default();
    let numbers = [6_u32, 0x1ff, 0x10_0400].map(u32::to_be_bytes).concat();
    dialogue.handle_input(&[&13_u32.to_be_bytes()[..], b"O", &numbers].concat());
    assert_eq!(dialogue.poll_agreed(), Ok(true));
    dialogue
}

/// Whatever is changed, a header stays one: no value ends it, or begins a field.
fn check_changes(answers: &[Answer]) {
    for leading_space in [false, true] {
        let mut header = Header::read(ADDED, CONTENT).expect("a header");
        for answer in answers {
            let Answer::Change(change) = answer else { continue };
            assert!(change.bytes() <= DATA_BYTES_MAX + size_of::<Change>());
            header.apply(change, leading_space);
        }
        let added = header.added().unwrap_or_else(|| ADDED.to_vec());
        let content = header.content();
        let again = Header::read(&added, &content).expect("a header");
        assert!(again.fields().eq(header.fields()));
        let ends = [&added, &content].map(|text| text.is_empty() || text.ends_with(b"\r\n"));
        assert_eq!(ends, [true, true]);
        if !header.is_content_changed() {
            assert_eq!(content, CONTENT);
        }
    }
}
