//! Clients that end their lines with LF, where they may, and those that don't, where others could profit from it.

use mail::{Mono, Reply};
use smtp::server::{BareNewline, ContentSink, Need, ServerConfig, ServerSession};
use std::sync::Arc;

const NOW: Mono = Mono(7_000_000);

#[derive(Default)]
struct Kept(Vec<u8>);

impl ContentSink for Kept {
    fn push(&mut self, piece: &[u8]) {
        self.0.extend_from_slice(piece);
    }
}

/// The contents of the messages that come of this input, in pieces of that size, and the replies' codes.
fn play(config: &ServerConfig, input: &[u8], piece_bytes: usize) -> (Vec<String>, Vec<String>) {
    let mut session = ServerSession::new(Arc::new(config.clone()), NOW);
    let (mut sink, mut contents) = (Kept::default(), Vec::new());
    for piece in input.chunks(piece_bytes) {
        let mut rest = piece;
        loop {
            let progress = session.handle_input(NOW, rest, &mut sink);
            rest = &rest[progress.consumed..];
            match progress.need {
                Need::Input | Need::Answers if rest.is_empty() => break,
                Need::Mail(_) => session.answer_mail(NOW, Ok(())),
                Need::Rcpt { number, .. } => session.answer_rcpt(NOW, number, Ok(())),
                Need::Data { .. } => session.answer_data(NOW, Ok(())),
                Need::Message(transaction) => {
                    assert_eq!(transaction.facts.body_bytes as usize, sink.0.len());
                    contents.push(String::from_utf8(std::mem::take(&mut sink.0)).expect("text"));
                    session.answer_message(NOW, Reply::new(250, (2, 0, 0), "Queued"));
                }
                Need::Close => break,
                _ => sink.0.clear(),
            }
        }
    }
    let said = String::from_utf8(std::mem::take(session.output())).expect("ASCII");
    let last = said.lines().filter(|line| line.as_bytes().get(3) == Some(&b' '));
    (contents, last.map(|line| line[..3].to_owned()).collect())
}

fn lenient() -> ServerConfig {
    let bare_newline = BareNewline::Normalize;
    ServerConfig { is_lenient: true, bare_newline, ..ServerConfig::default() }
}

const LF: &str = "HELO x\nMAIL FROM:<a@a.test>\nRCPT TO:<b@b.test>\nDATA\n";
const CRLF: &str = "HELO x\r\nMAIL FROM:<a@a.test>\r\nRCPT TO:<b@b.test>\r\nDATA\r\n";

#[test]
fn a_client_of_lf_alone_is_understood() {
    for (content, kept) in [
        ("A: b\n\nhi\n.\n", "A: b\r\n\r\nhi\r\n"),
        ("A: b\n\nhi\r\n.\r\n", "A: b\r\n\r\nhi\r\n"),
        ("A: b\r\n\r\nhi\n.\r\n", "A: b\r\n\r\nhi\r\n"),
        ("A: b\n\n..dot\n. x\n.\n", "A: b\r\n\r\n.dot\r\n x\r\n"),
        (".\n", ""),
        ("A: b\n\n\n.\n", "A: b\r\n\r\n\r\n"),
    ] {
        let input = format!("{LF}{content}QUIT\n");
        for piece_bytes in [1, 2, 3, 5, 1_000] {
            let (contents, codes) = play(&lenient(), input.as_bytes(), piece_bytes);
            assert_eq!(contents, [kept], "{content:?} by {piece_bytes}");
            assert_eq!(codes, ["220", "250", "250", "250", "354", "250", "221"], "{content:?}");
        }
    }
}

#[test]
fn a_stranger_s_lf_ends_no_content_of_a_client_with_crlf() {
    // What a relay of the house passes on, with an end in it that a stranger chose.
    for end in ["\n.\n", "\n.\r\n", "\r\n.\n", "\r.\r\n", "\r\n.\r", "\n.\r", "\r.\n", "\n..\n"] {
        let content = format!("A: b\r\n\r\none{end}MAIL FROM:<c@c.test>\r\n.\r\n");
        let input = format!("{CRLF}{content}QUIT\r\n");
        for piece_bytes in [1, 2, 3, 1_000] {
            let (contents, codes) = play(&lenient(), input.as_bytes(), piece_bytes);
            assert_eq!(contents.len(), 1, "{end:?}");
            assert!(contents[0].ends_with("MAIL FROM:<c@c.test>\r\n"), "{end:?} {contents:?}");
            assert_eq!(codes, ["220", "250", "250", "250", "354", "250", "221"], "{end:?}");
        }
    }
}

#[test]
fn lf_ends_no_command_of_anybody_else() {
    let strict = ServerConfig { bare_newline: BareNewline::Reject, ..lenient() };
    let stranger = ServerConfig { is_lenient: false, ..lenient() };
    for config in [strict, stranger, ServerConfig::default()] {
        let (contents, codes) = play(&config, format!("{LF}x\n.\n\r\nQUIT\r\n").as_bytes(), 1_000);
        assert_eq!((contents.len(), codes), (0, vec!["220".into(), "500".into(), "221".into()]));
    }
}

#[test]
fn client_has_a_name_even_if_it_is_odd() {
    for (hello, code) in
        [("HELO", "501"), ("EHLO ", "501"), ("HELO a b", "250"), ("EHLO gr\u{fc}n", "250")]
    {
        let (_, codes) = play(&lenient(), format!("{hello}\r\n").as_bytes(), 1_000);
        assert_eq!(codes, ["220", code], "{hello}");
    }
}

/// Repeated recipients of one transaction count, also for stages that limit bounces.
#[test]
fn repeated_recipients_are_counted_until_the_transaction_ends() {
    let mut session = ServerSession::new(Arc::new(ServerConfig::default()), NOW);
    let mut say = |line: &str| {
        let need = session.handle_input(NOW, line.as_bytes(), &mut Kept::default()).need;
        match need {
            Need::Mail(_) => session.answer_mail(NOW, Ok(())),
            Need::Rcpt { number, .. } => session.answer_rcpt(NOW, number, Ok(())),
            _ => {}
        }
        session.repeated()
    };
    for (line, count) in [
        ("EHLO a.test\r\n", 0),
        ("MAIL FROM:<>\r\n", 0),
        ("RCPT TO:<b@b.test>\r\n", 0),
        ("RCPT TO:<c@b.test>\r\n", 0),
        ("RCPT TO:<b@B.test>\r\n", 1),
        ("RCPT TO:<\"b\"@b.test>\r\n", 2),
        ("RSET\r\n", 0),
    ] {
        assert_eq!(say(line), count, "{line}");
    }
}
