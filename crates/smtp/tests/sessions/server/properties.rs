//! What holds for any input at all.

use proptest::prelude::*;
use smtp::server::{BareNewline, Nul, ServerConfig};
use smtp::testing::escape::escape;
use smtp::testing::script::Script;
use smtp::testing::server::Driver;
use smtp::testing::transcript::reply;
use smtp::testing::{content, model};

/// Pieces of dialogue that, put together, get deep into a session now and then.
fn fragment() -> impl Strategy<Value = Vec<u8>> {
    let known = proptest::sample::select(vec![
        &b"EHLO client.example\r\n"[..],
        b"HELO client.example\r\n",
        b"LHLO client.example\r\n",
        b"MAIL FROM:<ann@a.example>\r\n",
        b"MAIL FROM:<> SIZE=30 BODY=8BITMIME SMTPUTF8 RET=HDRS ENVID=x+2B\r\n",
        b"RCPT TO:<bob@b.example>\r\n",
        b"RCPT TO:<no@b.example> NOTIFY=NEVER ORCPT=rfc822;x\r\n",
        b"RCPT TO:<postmaster>\r\n",
        b"RCPT TO:<team@b.example> NOTIFY=SUCCESS\r\n",
        b"RCPT TO:<nobody@b.example>\r\n",
        b"RCPT TO:<no@b.example>\r\nRCPT TO:<team@b.example>\r\nRCPT TO:<bob@b.example>\r\n",
        b"MAIL FROM:<ann@a.example>\r\nRCPT TO:<bob@b.example>\r\nDATA\r\n",
        b"MAIL FROM:<ann@a.example>\r\nRCPT TO:<bob@b.example>\r\nBDAT 7\r\n",
        b"DATA\r\n",
        b"text\r\n",
        b"..text\r\n",
        b"\r\n.\r\n",
        b".\r\n",
        b"\r",
        b"\n",
        b".",
        b"\0\xFF",
        b"BDAT 5\r\n",
        b"BDAT 9 LAST\r\n",
        b"BDAT 0 LAST\r\n",
        b"BDAT 99999999999999999999\r\n",
        b"BDAT\r\n",
        b"RSET\r\n",
        b"NOOP\r\n",
        b"STARTTLS\r\n",
        b"QUIT\r\n",
        b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    ]);
    prop_oneof![
        12 => known.prop_map(<[u8]>::to_vec),
        1 => proptest::collection::vec(any::<u8>(), 0..20),
    ]
}

fn config() -> impl Strategy<Value = ServerConfig> {
    (any::<[bool; 4]>(), 20_u64..60, 1_u32..12).prop_map(|(flags, small, errors_max)| {
        let [lmtp, normalize, starttls, limited] = flags;
        let mode = if normalize { BareNewline::Normalize } else { BareNewline::Reject };
        let mut config = ServerConfig { lmtp, bare_newline: mode, starttls, ..Default::default() };
        if limited {
            config.message_bytes_max = small;
            config.content_line_bytes_max = 10;
            config.command_line_bytes_max = 80;
            config.recipients_max = 2;
            config.recipients_open_max = (small % 4) as usize;
            config.refused_recipients_max = errors_max / 2;
            config.messages_max = 2;
            config.commands_max = 20;
            config.errors_max = errors_max;
        }
        config
    })
}

fn script() -> Script {
    let mut script = Script::default();
    script.rcpt.insert("no@b.example".to_owned(), reply("550 5.1.1 No such user"));
    script
}

fn play(config: &ServerConfig, input: &[u8], mut cut: impl FnMut() -> usize) -> Driver {
    let mut driver = Driver::new(config.clone(), script());
    let mut rest = input;
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(cut().clamp(1, rest.len()));
        driver.feed(piece);
        rest = behind;
    }
    driver.end_flight();
    driver
}

/// The same, but each recipient is left open for a while: behind a piece of input, as many are
/// answered as `choices` says, whichever it says, and all in the end.
fn play_late(
    config: &ServerConfig,
    input: &[u8],
    lengths: &[usize],
    choices: &[(usize, usize)],
) -> Driver {
    let late = [String::new()].into();
    let mut driver = Driver::new(config.clone(), Script { late, ..script() });
    let mut choices = choices.iter().cycle().copied();
    let mut answer = |driver: &mut Driver, all: bool| {
        let (count, which) = choices.next().unwrap_or((1, 0));
        for turn in 0..if all { usize::MAX } else { count } {
            let open: Vec<u32> = driver.open().collect();
            let Some(at) = which.wrapping_mul(turn + 1).checked_rem(open.len()) else { return };
            driver.answer_open(open[at]);
        }
    };
    let mut rest = input;
    for length in lengths.iter().cycle() {
        let (piece, behind) = rest.split_at(rest.len().min(*length));
        driver.feed(piece);
        rest = behind;
        if rest.is_empty() {
            break;
        }
        answer(&mut driver, false);
    }
    answer(&mut driver, true);
    driver.end_flight();
    driver
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn any_split_gives_the_same(
        config in config(),
        fragments in proptest::collection::vec(fragment(), 0..24),
        lengths in proptest::collection::vec(1_usize..40, 1..20),
    ) {
        let input = fragments.concat();
        let whole = play(&config, &input, || usize::MAX);
        let bytes = play(&config, &input, || 1);
        let mut lengths = lengths.iter().cycle();
        let pieces = play(&config, &input, || lengths.next().copied().unwrap_or(1));
        for other in [&bytes, &pieces] {
            prop_assert_eq!(&whole.trace, &other.trace);
            prop_assert_eq!(whole.closed, other.closed);
        }
    }

    #[test]
    fn any_order_of_answers_gives_the_same_as_answering_at_once(
        config in config(),
        fragments in proptest::collection::vec(fragment(), 0..24),
        lengths in proptest::collection::vec(1_usize..200, 1..10),
        choices in proptest::collection::vec((0_usize..4, any::<usize>()), 1..10),
    ) {
        let input = fragments.concat();
        let at_once = play(&config, &input, || usize::MAX);
        let late = play_late(&config, &input, &lengths, &choices);
        let is_of_lateness = |line: &&String| matches!(line.get(..6), Some("N: rcp" | "N: ans"));
        let trace: Vec<_> = late.trace.iter().filter(|line| !is_of_lateness(line)).collect();
        prop_assert_eq!(at_once.trace.iter().collect::<Vec<_>>(), trace);
        prop_assert_eq!(at_once.closed, late.closed);
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        config in config(),
        input in proptest::collection::vec(any::<u8>(), 0..2_000),
    ) {
        let driver = play(&config, &input, || 700);
        prop_assert!(driver.stored.is_empty());
    }

    #[test]
    fn stuffed_content_comes_through(
        lines in proptest::collection::vec(
            proptest::collection::vec(
                prop_oneof![2 => Just(b'.'), 5 => any::<u8>()]
                    .prop_filter("newlines are put in between", |b| !matches!(b, b'\r' | b'\n')),
                0..12,
            ),
            0..30,
        ),
        lengths in proptest::collection::vec(1_usize..20, 1..10),
    ) {
        let mut content = Vec::new();
        let mut wire = Vec::new();
        for line in &lines {
            if line.first() == Some(&b'.') {
                wire.push(b'.');
            }
            for out in [&mut content, &mut wire] {
                out.extend_from_slice(line);
                out.extend_from_slice(b"\r\n");
            }
        }
        wire.extend_from_slice(b".\r\nNOOP\r\n");
        let mut driver = content::ready(BareNewline::Reject, true);
        let mut lengths = lengths.iter().cycle();
        let mut rest = &wire[..];
        while let Some(length) = lengths.next().filter(|_| !rest.is_empty()) {
            let (piece, behind) = rest.split_at(rest.len().min(*length));
            driver.feed(piece);
            rest = behind;
        }
        prop_assert_eq!(driver.stored.len(), 1);
        prop_assert_eq!(&driver.stored[0].content, &content);
        let dots = lines.iter().filter(|line| line.first() == Some(&b'.')).count();
        prop_assert_eq!(driver.stored[0].facts.dot_lines, dots as u64);
        prop_assert_eq!(driver.trace.last().map(String::as_str), Some("S: 250 2.0.0 Ok"));
    }

    #[test]
    fn long_mixtures_of_newlines_and_dots_agree_with_the_model(
        wire in proptest::collection::vec(
            proptest::sample::select(b"\r\n.a\r\n.\r\n\xE9\0".to_vec()), 0..80),
        lengths in proptest::collection::vec(1_usize..9, 1..10),
        normalize in any::<bool>(),
    ) {
        let mode = if normalize { BareNewline::Normalize } else { BareNewline::Reject };
        let stream = [&wire[..], b"\r\n.\r\n"].concat();
        let verdict = model::data(&stream).expect("an end");
        let mut driver = content::ready(mode, true);
        let mut lengths = lengths.iter().cycle();
        let mut rest = &stream[..verdict.taken];
        while let Some(length) = lengths.next().filter(|_| !rest.is_empty()) {
            let (piece, behind) = rest.split_at(rest.len().min(*length));
            driver.feed(piece);
            rest = behind;
        }
        driver.feed(b"NOOP\r\n");
        content::check(&driver, &verdict, mode, &escape(&stream));
    }

    #[test]
    fn nuls_go_or_refuse_and_end_nothing(
        wire in proptest::collection::vec(
            proptest::sample::select(b"\r\n.a\0\r\n.\0".to_vec()), 0..60),
        piece in 1_usize..9,
        data in any::<bool>(),
    ) {
        let stream = if data { [&wire[..], b"\r\n.\r\n"].concat() } else { wire };
        let mut verdict =
            if data { model::data(&stream).expect("an end") } else { model::bdat(&stream) };
        let has_nul = verdict.stored.contains(&0);
        verdict.stored.retain(|&byte| byte != 0);
        for nul in [Nul::Strip, Nul::Reject] {
            let mut driver = content::ready_with(nul, BareNewline::Normalize, data);
            if !data {
                driver.feed(format!("BDAT {} LAST\r\n", stream.len()).as_bytes());
            }
            stream[..verdict.taken].chunks(piece).for_each(|piece| driver.feed(piece));
            driver.feed(b"NOOP\r\n");
            let stored: Vec<_> = driver.stored.iter().map(|stored| &stored.content).collect();
            let refused = has_nul && nul == Nul::Reject;
            prop_assert_eq!(stored, if refused { vec![] } else { vec![&verdict.stored] });
            prop_assert_eq!(driver.trace.last().map(String::as_str), Some("S: 250 2.0.0 Ok"));
        }
    }
}
