use super::*;
use crate::password::Stored;
use crate::password::scram_keys::{SaltForm, Salted};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

fn begun(mechanism: Mechanism) -> Exchange {
    Exchange::new(mechanism, Channel::Unbound, || "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0".to_owned())
}

fn check(step: ExchangeStep) -> Claim {
    match step {
        ExchangeStep::Check(claim) => claim,
        other => panic!("{other:?}"),
    }
}

fn challenge(step: ExchangeStep) -> String {
    match step {
        ExchangeStep::Challenge(text) => String::from_utf8(text).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn failure(step: ExchangeStep) -> LoginFailure {
    match step {
        ExchangeStep::Failed(failure) => failure,
        other => panic!("{other:?}"),
    }
}

fn claim(user: &str, password: &str) -> Claim {
    Claim { user: user.into(), password: Password::new(password.as_bytes()).unwrap() }
}

#[test]
fn plain_has_three_parts() {
    let say = |message: &[u8]| begun(Mechanism::Plain).start(Some(message));
    assert_eq!(check(say(b"\0jo\0secret")), claim("jo", "secret"));
    assert_eq!(check(say(b"jo\0jo\0secret")), claim("jo", "secret"));
    assert_eq!(claim("jo", "secret").plain().as_slice(), b"\0jo\0secret");
    assert_eq!(check(say("\0j\u{f6}@x\0p\u{e4}ss".as_bytes())), claim("j\u{f6}@x", "p\u{e4}ss"));
    assert_eq!(failure(say(b"al\0jo\0secret")), LoginFailure::OtherIdentity);
    for bad in
        [&b""[..], b"jo", b"\0jo", b"\0jo\0", b"\0\0x", b"\0jo\0a\0b", b"\0j\no\0x", b"\0\xff\0x"]
    {
        assert_eq!(failure(say(bad)), LoginFailure::Form, "{bad:?}");
    }
    let longest = |bytes: usize| say(format!("\0{}\0x", "u".repeat(bytes)).as_bytes());
    assert_eq!(check(longest(USER_BYTES_MAX)).user.len(), USER_BYTES_MAX);
    assert_eq!(failure(longest(USER_BYTES_MAX + 1)), LoginFailure::Form);
}

#[test]
fn plain_without_initial_response_is_asked_for_one_and_answered_once() {
    let mut exchange = begun(Mechanism::Plain);
    assert_eq!(challenge(exchange.start(None)), "");
    assert_eq!(check(exchange.handle_response(b"\0jo\0x")), claim("jo", "x"));
    assert_eq!(failure(exchange.handle_response(b"\0jo\0x")), LoginFailure::Form);
}

#[test]
fn login_asks_twice_or_once() {
    let mut exchange = begun(Mechanism::Login);
    assert_eq!(challenge(exchange.start(None)), "Username:");
    assert_eq!(challenge(exchange.handle_response(b"jo")), "Password:");
    assert_eq!(check(exchange.handle_response(b"secret")), claim("jo", "secret"));
    let mut exchange = begun(Mechanism::Login);
    assert_eq!(challenge(exchange.start(Some(b"jo"))), "Password:");
    assert_eq!(check(exchange.handle_response(b"secret")), claim("jo", "secret"));
    for bad in [&b""[..], b"a\0b", b"\xff"] {
        assert_eq!(failure(begun(Mechanism::Login).start(Some(bad))), LoginFailure::Form);
    }
    let mut exchange = begun(Mechanism::Login);
    exchange.start(Some(b"jo"));
    assert_eq!(failure(exchange.handle_response(b"")), LoginFailure::Form);
}

#[test]
fn a_token_that_is_refused_is_so_after_a_last_word() {
    let message = b"n,a=jo,\x01auth=Bearer x\x01\x01";
    let mut exchange = begun(Mechanism::OauthBearer);
    assert_eq!(challenge(exchange.start(None)), "");
    let ExchangeStep::Token(presented) = exchange.handle_response(message) else { panic!() };
    assert_eq!(presented.user.as_deref(), Some("jo"));
    let told = challenge(exchange.refuse_token(Some("mail")));
    assert!(told.contains("invalid_token") && told.contains("\"mail\""), "{told}");
    assert_eq!(failure(exchange.handle_response(b"\x01")), LoginFailure::Proof);
    assert_eq!(failure(exchange.handle_response(b"\x01")), LoginFailure::Form);
    assert_eq!(failure(begun(Mechanism::Xoauth2).start(Some(message))), LoginFailure::Form);
    assert_eq!(failure(begun(Mechanism::Plain).refuse_token(None)), LoginFailure::Form);
}

#[test]
fn external_names_somebody_or_nobody() {
    let named = |step: ExchangeStep| match step {
        ExchangeStep::External(user) => user,
        other => panic!("{other:?}"),
    };
    let say = |message: &[u8]| begun(Mechanism::External).start(Some(message));
    assert_eq!(named(say(b"")), None);
    assert_eq!(named(say(b"jo@x.test")).as_deref(), Some("jo@x.test"));
    let mut exchange = begun(Mechanism::External);
    assert_eq!(challenge(exchange.start(None)), "");
    assert_eq!(named(exchange.handle_response(b"")), None);
    assert_eq!(failure(exchange.handle_response(b"")), LoginFailure::Form);
    for bad in [&b"a\0b"[..], b"\xff", &[b'u'; USER_BYTES_MAX + 1]] {
        assert_eq!(failure(say(bad)), LoginFailure::Form);
    }
}

fn keys() -> Keys {
    Keys::parse("4096,W22ZaJ0SNY7soEsUEjb6gQ==,WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=,wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=").unwrap()
}

const NONCE: &str = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
const PROOF: &str = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

/// RFC 7677 §3, up to the server's first message.
fn challenged() -> Exchange {
    let mut exchange = begun(Mechanism::ScramSha256);
    let step = exchange.start(Some(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"));
    assert!(matches!(step, ExchangeStep::Keys(user) if user == "user"));
    let text = challenge(exchange.handle_keys(keys()));
    assert_eq!(text, format!("r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"));
    exchange
}

#[test]
fn scram_is_as_rfc_7677_shows_it() {
    let mut exchange = challenged();
    let last = exchange.handle_response(format!("c=biws,r={NONCE},p={PROOF}").as_bytes());
    assert_eq!(challenge(last), "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    assert!(matches!(exchange.handle_response(b""), ExchangeStep::Proved(user) if user == "user"));
}

#[test]
fn scram_keys_of_a_password_are_those_that_are_stored() {
    let pencil = Password::new(b"pencil").unwrap();
    assert!(keys().are_of(&pencil));
    assert!(!keys().are_of(&Password::new(b"pencils").unwrap()));
    let salted = Salted::for_user(b"secret", "user", SaltForm::default());
    assert!(salted.keys_of(&pencil).are_of(&pencil));
    assert!(!salted.keys_of_nobody(b"secret").are_of(&pencil));
    let made = Stored::parse("{PLAIN}pencil").unwrap().scram_keys(&salted).unwrap();
    assert_eq!(made, salted.keys_of(&pencil));
}

#[test]
fn nobody_stands_out_by_his_salt() {
    for salt_bytes in [8, 16, 40] {
        let key = STANDARD.encode([7; 32]);
        let salt = STANDARD.encode(vec![1; salt_bytes]);
        let keys = Keys::parse(&format!("9000,{salt},{key},{key}")).unwrap();
        let nobody = Salted::for_user(b"secret", "nobody", keys.form());
        let mut exchange = begun(Mechanism::ScramSha256);
        exchange.start(Some(b"n,,n=nobody,r=x"));
        let text = challenge(exchange.handle_keys(nobody.keys_of_nobody(b"secret")));
        assert!(text.ends_with(",i=9000"), "{text}");
        let shown = text.split(",s=").nth(1).and_then(|rest| rest.strip_suffix(",i=9000"));
        assert_eq!(STANDARD.decode(shown.unwrap()).unwrap().len(), salt_bytes);
    }
}

#[test]
fn what_is_no_proof_is_none() {
    let failed = |text: String| failure(challenged().handle_response(text.as_bytes()));
    let other = format!("A{}", &PROOF[1..]);
    assert_eq!(failed(format!("c=biws,r={NONCE},p={other}")), LoginFailure::Proof);
    // What was signed, with another extension in it.
    assert_eq!(failed(format!("c=biws,r={NONCE},x=y,p={PROOF}")), LoginFailure::Proof);
    for bad in [
        String::new(),
        format!("c=biws,r={NONCE}"),
        format!("c=biws,r={NONCE}x,p={PROOF}"),
        format!("c=biws,r=rOprNGfwEbeRWgbNEkqO,p={PROOF}"),
        format!("c=biws,r={NONCE},p={}", &PROOF[..40]),
        format!("r={NONCE},c=biws,p={PROOF}"),
        format!("c=*,r={NONCE},p=*"),
    ] {
        assert_eq!(failed(bad.clone()), LoginFailure::Form, "{bad}");
    }
    let mut exchange = challenged();
    exchange.handle_response(format!("c=biws,r={NONCE},p={PROOF}").as_bytes());
    assert_eq!(failure(exchange.handle_response(b"x")), LoginFailure::Form);
}

#[test]
fn first_messages_are_read_as_rfc_5802_has_them() {
    let first = |text: &str| begun(Mechanism::ScramSha256).start(Some(text.as_bytes()));
    let user = |text: &str| match first(text) {
        ExchangeStep::Keys(user) => user,
        other => panic!("{text}: {other:?}"),
    };
    assert_eq!(user("y,,n=jo,r=x"), "jo");
    assert_eq!(user("n,a=jo,n=jo,r=x,ext=1"), "jo");
    assert_eq!(user("n,,n=a=2Cb=3Dc,r=x"), "a,b=c");
    assert_eq!(failure(first("n,a=al,n=jo,r=x")), LoginFailure::OtherIdentity);
    let long = format!("n,,n=jo,r={}", "x".repeat(257));
    for bad in [
        "",
        "n",
        "n,,",
        "n,,n=jo",
        "n,,r=x,n=jo",
        "n,,m=x,n=jo,r=x",
        "n,,n=,r=x",
        "n,,n=jo,r=",
        "n,,n=jo,r=a b",
        "n,,n=a=2Db,r=x",
        "n,,n=a=,r=x",
        "p=tls-unique,,n=jo,r=x",
        "x,,n=jo,r=x",
        "n,b=jo,n=jo,r=x",
        &long,
    ] {
        assert_eq!(failure(first(bad)), LoginFailure::Form, "{bad}");
    }
    assert!(matches!(first(&long[..long.len() - 1]), ExchangeStep::Keys(_)));
    // No keys were asked for.
    assert_eq!(failure(begun(Mechanism::Plain).handle_keys(keys())), LoginFailure::Form);
}

#[test]
fn a_first_message_tells_whom_it_is_about() {
    let claimed = |mechanism, initial: &str| claimed_user(mechanism, initial.as_bytes());
    let is = |mechanism, initial, user: &str| {
        assert_eq!(claimed(mechanism, initial).as_deref(), Some(user), "{initial:?}");
    };
    is("SCRAM-SHA-1", "n,,n=a=2Cb,r=x", "a,b");
    is("SCRAM-SHA-256", "y,a=al,n=jo,r=x,e=f", "jo");
    is("XOAUTH2", "user=jo@x.test\x01auth=Bearer y\x01\x01", "jo@x.test");
    is("OAUTHBEARER", "n,a=jo@x.test,\x01auth=Bearer y\x01\x01", "jo@x.test");
    for (mechanism, initial) in [
        ("CRAM-MD5", "n,,n=jo,r=x"),
        ("SCRAM-SHA-1", "n,,jo"),
        ("SCRAM-SHA-1", "n,,n=,r=x"),
        ("XOAUTH2", "auth=Bearer y"),
        ("XOAUTH2", "user=\x01"),
        ("OAUTHBEARER", "n,,\x01auth=Bearer y\x01\x01"),
        ("OAUTHBEARER", ""),
    ] {
        assert_eq!(claimed(mechanism, initial), None, "{initial:?}");
    }
    assert_eq!(claimed_user("SCRAM-SHA-1", b"n,,n=\xff,r=x"), None);
}

/// The answer to the client's last message, which binds `bound`, where the channel exports 7s.
fn bound(begin: &str, channel: Channel, bound: &[u8]) -> ExchangeStep {
    let salted = Salted::for_user(b"secret", "jo", SaltForm::default());
    let pencil = Password::new(b"pencil").unwrap();
    let mut exchange = Exchange::new(Mechanism::ScramSha256Plus, channel, || "server".into());
    let bare = "n=jo,r=client";
    let ExchangeStep::Keys(_) = exchange.start(Some(format!("{begin}{bare}").as_bytes())) else {
        panic!()
    };
    let first = challenge(exchange.handle_keys(salted.keys_of(&pencil)));
    let binding = STANDARD.encode([begin.as_bytes(), bound].concat());
    let signed = format!("c={binding},r=clientserver");
    let proof = salted.proof(&pencil, &format!("{bare},{first},{signed}"));
    exchange.handle_response(format!("{signed},p={}", STANDARD.encode(proof)).as_bytes())
}

#[test]
fn a_proof_is_bound_to_its_channel() {
    let sevens = Channel::Bound([7; 32]);
    let last = bound("p=tls-exporter,,", sevens, &[7; 32]);
    assert!(challenge(last).starts_with("v="));
    for other in [&[8; 32][..], &[7; 31], b""] {
        assert_eq!(failure(bound("p=tls-exporter,,", sevens, other)), LoginFailure::Channel);
    }
    let first = |mechanism, channel, text: &str| {
        Exchange::new(mechanism, channel, || "server".into()).start(Some(text.as_bytes()))
    };
    let plus = |text| failure(first(Mechanism::ScramSha256Plus, sevens, text));
    for bad in [
        "n,,n=jo,r=x",
        "y,,n=jo,r=x",
        "p=tls-unique,,n=jo,r=x",
        "p=tls-server-end-point,,n=jo,r=x",
        "p=,,n=jo,r=x",
    ] {
        assert_eq!(plus(bad), LoginFailure::Form, "{bad}");
    }
    // Somebody has taken the offer away.
    let plain = |text| first(Mechanism::ScramSha256, Channel::Declined, text);
    assert_eq!(failure(plain("y,,n=jo,r=x")), LoginFailure::Channel);
    assert!(matches!(plain("n,,n=jo,r=x"), ExchangeStep::Keys(_)));
    assert_eq!(failure(plain("p=tls-exporter,,n=jo,r=x")), LoginFailure::Form);
    assert_eq!(failure(bound("n,,", Channel::Declined, b"x")), LoginFailure::Channel);
}
