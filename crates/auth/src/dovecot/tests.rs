use super::*;
use proptest::prelude::*;

const HELLO: &str = "VERSION\t1\t2\nMECH\tPLAIN\tplaintext\nMECH\tscram-sha-256\tmutual-auth\n\
                     MECH\tX-OWN\tprivate\nSPID\t7\nCUID\t1\nCOOKIE\tab\nDONE\n";

fn ready() -> Answers {
    let mut answers = Answers::default();
    answers.handle_input(HELLO.as_bytes()).unwrap();
    let offered = vec!["PLAIN".into(), "SCRAM-SHA-256".into()];
    assert_eq!(answers.poll_event(), Some(DovecotEvent::Ready(offered)));
    answers
}

fn answer(line: &str) -> Result<Option<DovecotEvent>, Malformed> {
    let mut answers = ready();
    answers.handle_input(format!("{line}\n").as_bytes())?;
    Ok(answers.poll_event())
}

#[test]
fn requests_are_lines() {
    assert_eq!(hello(7), "VERSION\t1\t1\nCPID\t7\n");
    let login = Login {
        id: 3,
        mechanism: "PLAIN",
        initial: Some(b"\0jo\0x"),
        remote: "[::ffff:192.0.2.7]:50000".parse().unwrap(),
        local: Some("[2001:db8::1]:587".parse().unwrap()),
    };
    assert_eq!(
        login.line().unwrap(),
        "AUTH\t3\tPLAIN\tservice=smtp\tnologin\tsecured\tlip=2001:db8::1\tlport=587\t\
         rip=192.0.2.7\trport=50000\tresp=AGpvAHg=\n"
    );
    let bare = Login { initial: None, local: None, ..login };
    assert_eq!(
        bare.line().unwrap(),
        "AUTH\t3\tPLAIN\tservice=smtp\tnologin\tsecured\trip=192.0.2.7\trport=50000\n"
    );
    let empty = Login { initial: Some(b""), ..bare };
    assert!(empty.line().unwrap().ends_with("\tresp=\n"));
    assert_eq!(response(3, b"x").unwrap(), "CONT\t3\teA==\n");
    assert_eq!(cancel(3), "CANCEL\t3\n");
    // CONT, two tabs and a digit stand before base64: 8,184 bytes of 6,138.
    let longest = vec![0; 6_138];
    assert_eq!(response(3, &longest).unwrap().len(), REQUEST_BYTES_MAX + 1);
    assert_eq!(response(3, &[&longest[..], b"x"].concat()), Err(TooLong));
}

#[test]
fn answers_are_told_from_trouble() {
    for (line, expected) in [
        ("OK\t5\tuser=jo@x.test\toriginal_user=JO", Answer::Accepted("jo@x.test".into())),
        ("OK\t5\tnologin\tuser=\u{f6}", Answer::Accepted("\u{f6}".into())),
        ("FAIL\t5\tuser=jo\treason=no", Answer::Refused(Some("jo".into()))),
        ("FAIL\t5", Answer::Refused(None)),
        ("FAIL\t5\tuser=a\u{1}nb", Answer::Refused(None)),
        ("FAIL\t5\tuser=jo\ttemp", Answer::Unavailable),
        ("FAIL\t5\tcode=temp_fail\tuser=jo", Answer::Unavailable),
        ("CONT\t5\t", Answer::Continue(Vec::new())),
        ("CONT\t5\tcj1h", Answer::Continue(b"r=a".to_vec())),
    ] {
        assert_eq!(answer(line), Ok(Some(DovecotEvent::Answer(5, expected))), "{line}");
    }
    for line in ["SPID\t8", "LATER\tx", ""] {
        assert_eq!(answer(line), Ok(None), "{line}");
    }
    for line in [
        "OK\t5",
        "OK\t5\tuser=",
        "OK\t5\tuser=a\u{1}nb",
        "OK\t5\tuser=a\u{1}x",
        "OK\tx\tuser=jo",
        "OK",
        "FAIL\t-1",
        "CONT\t5\t*",
        "CONT\t99999999999\t",
    ] {
        assert!(answer(line).is_err(), "{line}");
    }
}

#[test]
fn a_handshake_comes_first() {
    for start in [
        "MECH\tPLAIN\n",
        "VERSION\t2\t0\n",
        "VERSION\n",
        "220 mail.test ESMTP\r\n",
        "VERSION\t1\t2\nOK\t1\tuser=jo\n",
        "VERSION\t1\t2\nMECH\n",
        "VERSION\t1\t2\nCONT\t1\t\n",
    ] {
        assert!(Answers::default().handle_input(start.as_bytes()).is_err(), "{start}");
    }
    assert!(Answers::default().handle_input(b"VERSION\t1\t2\n\xff\n").is_err());
    let many = |count: usize| {
        let text = format!("VERSION\t1\t2\n{}", "MECH\tX\n".repeat(count));
        Answers::default().handle_input(text.as_bytes())
    };
    assert!(many(MECHANISMS_MAX).is_ok() && many(MECHANISMS_MAX + 1).is_err());
}

#[test]
fn a_line_has_an_end() {
    let mut answers = ready();
    assert!(answers.handle_input(&vec![b'x'; ANSWER_BYTES_MAX]).is_ok());
    assert!(answers.handle_input(b"x").is_err());
}

proptest! {
    #[test]
    fn pieces_say_what_the_whole_says(cut in 0..HELLO.len(), rest in "(OK\t5\tuser=jo\n){0,3}") {
        let whole = format!("{HELLO}{rest}");
        let mut answers = Answers::default();
        answers.handle_input(whole.get(..cut).unwrap().as_bytes()).unwrap();
        answers.handle_input(whole.get(cut..).unwrap().as_bytes()).unwrap();
        let events = std::iter::from_fn(|| answers.poll_event()).count();
        prop_assert_eq!(events, 1 + rest.lines().count());
    }

    #[test]
    fn nothing_panics(input in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Answers::default().handle_input(&input);
        let _ = ready().handle_input(&input);
    }
}
