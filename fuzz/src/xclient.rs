//! Anything behind XCLIENT, from a client that is believed.

use mail::{Mono, Reply};
use smtp::server::{
    ContentSink, LoginRules, Need, ServerConfig, ServerSession, XCLIENT_VALUE_BYTES_MAX, Xclient,
    XclientName,
};
use std::sync::Arc;
use std::time::Duration;

struct Nowhere;

impl ContentSink for Nowhere {
    fn push(&mut self, _piece: &[u8]) {}
}

const NOW: Mono = Mono(0);

/// The first byte says whether users log in there; the rest is a dialogue that begins behind `XCLIENT `.
pub fn run(data: &[u8]) {
    let Some((flags, rest)) = data.split_first() else { return };
    let takes_login = flags & 1 != 0;
    if let Some(said) = std::str::from_utf8(rest).ok().and_then(|text| parsed(text, takes_login)) {
        check(&said);
    }
    let (mechanisms, timeout) = (vec!["PLAIN"], Duration::from_secs(180));
    let logins = takes_login.then(|| LoginRules { mechanisms, failures_max: 3, timeout });
    let config = Arc::new(ServerConfig { logins, ..ServerConfig::default() });
    let mut session = ServerSession::new(Arc::clone(&config), NOW);
    session.believe();
    let input = [b"XCLIENT ", rest, b"\r\n"].concat();
    let mut at = 0;
    loop {
        let progress = session.handle_input(NOW, &input[at..], &mut Nowhere);
        at += progress.consumed;
        match progress.need {
            Need::Xclient(said) => {
                check(&said);
                assert!(takes_login || said.login.is_none());
                session.answer_xclient(NOW, Arc::clone(&config), &said, true);
                assert_eq!(session.helo(), said.helo.as_deref().unwrap_or(""));
                assert!(!session.in_transaction());
            }
            Need::Mail(_) => session.answer_mail(NOW, Ok(())),
            Need::Rcpt { number, .. } => session.answer_rcpt(NOW, number, Ok(())),
            Need::Data { .. } => session.answer_data(NOW, Ok(())),
            Need::Message(_) => {
                session.answer_message(NOW, Reply::new(250, (2, 0, 0), "Queued"));
            }
            Need::Abandon | Need::DataRefused => {}
            Need::Input | Need::Answers | Need::StartTls | Need::Login(_) | Need::Close => break,
        }
    }
    let output = session.output();
    assert!(output.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\r' | b'\n')));
}

fn parsed(argument: &str, takes_login: bool) -> Option<Xclient> {
    match Xclient::parse(argument, takes_login) {
        Ok(said) => Some(said),
        Err(reply) => {
            assert_eq!(reply.code, 501);
            assert!(reply.text.len() < 100 && !reply.text.contains(['\r', '\n']));
            None
        }
    }
}

/// What is said may stand in headers and logs.
fn check(said: &Xclient) {
    let fits = |text: &str| (1..=XCLIENT_VALUE_BYTES_MAX).contains(&text.len());
    if let Some(XclientName::Is(name)) = &said.name {
        assert!(
            fits(name) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        );
    }
    if let Some(helo) = &said.helo {
        assert!(fits(helo) && helo.bytes().all(|byte| byte.is_ascii_graphic()));
    }
    if let Some(login) = &said.login {
        assert!(fits(login) && !login.contains(char::is_control));
    }
}
