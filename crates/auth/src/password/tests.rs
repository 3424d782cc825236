use super::*;
use scram_keys::SaltForm;

fn password(text: &str) -> Password {
    Password::new(text.as_bytes()).unwrap()
}

/// Each scheme with a value that another program has made, and its password.
const MADE_ELSEWHERE: &[(&str, &str)] = &[
    ("{PLAIN}pencil", "pencil"),
    ("{plain}a {b} $6$", "a {b} $6$"),
    ("{PLAIN}!pencil", "!pencil"),
    ("{CLEARTEXT}p\u{e9}", "p\u{e9}"),
    // The reference's own tests.
    (
        "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "password",
    ),
    (
        "{ARGON2I}$argon2i$m=65536,t=2,p=1$c29tZXNhbHQ$9sTbSlTio3Biev89thdrlKKiCaYsjjYVJxGAL3swxpQ",
        "password",
    ),
    // U. Drepper's specification of SHA-crypt.
    (
        "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1",
        "Hello world!",
    ),
    (
        "{SHA512-CRYPT}$6$rounds=10000$saltstringsaltst$OW1/O6BYHV6BcXZu8QVeXbDWra3Oeqh0sbHbbMCVNSnCM/UrjmM0Dp8vOuZeHBy/YTBmSK6H9qs/y3RnOaw5v.",
        "Hello world!",
    ),
    ("{SHA256-CRYPT}$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5", "Hello world!"),
    ("{CRYPT}$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5", "Hello world!"),
    // libxcrypt.
    (BCRYPT, "pencil"),
    // Made of what RFC 7677 §3 has.
    (SCRAM, "pencil"),
];

const BCRYPT: &str = "{BLF-CRYPT}$2b$05$abcdefghijklmnopqrstuu680Yiaj5hFUaJTH/rTAcbA2PQEGfiZu";
const SCRAM: &str = "{SCRAM-SHA-256}4096,W22ZaJ0SNY7soEsUEjb6gQ==,WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=,wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";

#[test]
fn what_others_have_made_is_that_password_and_no_other() {
    for (stored, right) in MADE_ELSEWHERE {
        let read = Stored::parse(&format!("{stored}\n")).expect(stored);
        assert!(read.is(&password(right)), "{stored}");
        for wrong in [&format!("{right}x"), &right[1..], "x"] {
            assert!(!read.is(&password(wrong)), "{stored}: {wrong}");
        }
    }
}

#[test]
fn what_is_no_stored_password_lets_nobody_in() {
    let long = |rounds: u32| format!("$6$rounds={rounds}$s${}", "a".repeat(86));
    let argon = |costs: &str| format!("$argon2id$v=19${costs}$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5Q");
    for (text, wrong) in [
        (String::new(), Unusable::NoScheme),
        ("!".into(), Unusable::Locked),
        ("*".into(), Unusable::Locked),
        ("*LK*".into(), Unusable::Locked),
        ("!!".into(), Unusable::Locked),
        (format!("!$6$salt${}", "a".repeat(86)), Unusable::Locked),
        ("{CRYPT}!$6$salt$x".into(), Unusable::Locked),
        ("{SHA512-CRYPT}!$6$salt$x".into(), Unusable::Locked),
        ("{blf-crypt}*".into(), Unusable::Locked),
        ("{ARGON2ID}!".into(), Unusable::Locked),
        ("{SCRAM-SHA-256}!".into(), Unusable::Form),
        ("x".into(), Unusable::NoScheme),
        ("secret".into(), Unusable::NoScheme),
        ("$1$salt$hash".into(), Unusable::NoScheme),
        ("{CRYPT}ab01FAX.bQRSU".into(), Unusable::NoScheme),
        ("{PLAIN}".into(), Unusable::Form),
        ("{SSHA}abc".into(), Unusable::Scheme("SSHA".into())),
        (format!("{{{}\n}}x", "x".repeat(99)), Unusable::Scheme("x".repeat(24))),
        ("{BLF-CRYPT}$6$salt$x".into(), Unusable::Form),
        ("$2y$05$short".into(), Unusable::Form),
        (format!("$2y$17${}", "a".repeat(53)), Unusable::Cost),
        ("$6$salt$short".into(), Unusable::Form),
        (format!("$6$s:lt${}", "a".repeat(86)), Unusable::Form),
        (format!("$6$salt${}$x", "a".repeat(86)), Unusable::Form),
        (long(999), Unusable::Form),
        (long(CRYPT_ROUNDS_MAX + 1), Unusable::Cost),
        (argon("m=262145,t=1,p=1"), Unusable::Cost),
        (argon("m=64,t=65,p=1"), Unusable::Cost),
        (argon("m=64,t=1"), Unusable::Form),
        (argon("m=64,t=1,p=1,x=1"), Unusable::Form),
        ("$argon2id$v=20$m=64,t=1,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5Q".into(), Unusable::Form),
        ("{SCRAM-SHA-256}4095,c2FsdA==,AA==,AA==".into(), Unusable::Form),
    ] {
        assert_eq!(Stored::parse(&text).unwrap_err(), wrong, "{text}");
    }
    for right in [long(CRYPT_ROUNDS_MAX), argon("m=262144,t=64,p=16")] {
        assert!(Stored::parse(&right).is_ok(), "{right}");
    }
}

#[test]
fn a_password_has_a_length_and_is_shown_nowhere() {
    assert_eq!(Password::new(b""), None);
    assert!(Password::new(&[b'x'; PASSWORD_BYTES_MAX]).is_some());
    assert_eq!(Password::new(&[b'x'; PASSWORD_BYTES_MAX + 1]), None);
    let shown = format!("{:?} {:?}", password("pencil"), Stored::parse("{PLAIN}pencil").unwrap());
    assert!(!shown.contains("pencil"), "{shown}");
}

#[test]
fn only_what_has_keys_serves_scram() {
    let form = SaltForm::default();
    let salted = Salted::for_user(b"secret", "jo", form);
    for (stored, right) in MADE_ELSEWHERE {
        let keys = Stored::parse(stored).unwrap().scram_keys(&salted);
        let has_keys = stored.starts_with("{SCRAM") || stored.to_lowercase().contains("{plain}");
        assert_eq!(keys.is_some(), has_keys || stored.starts_with("{CLEAR"), "{stored}");
        assert!(keys.is_none_or(|keys| keys.are_of(&password(right))));
    }
    assert_ne!(salted, Salted::for_user(b"secret", "al", form));
    assert_ne!(salted, Salted::for_user(b"other", "jo", form));
    assert_eq!(salted, Salted::for_user(b"secret", "jo", form));
}

#[test]
fn no_password_is_nobodys() {
    let nobody = Stored::of_nobody();
    for text in ["x", "nobody", "pencil"] {
        assert!(!nobody.is(&password(text)));
    }
}

#[test]
fn stored_form_is_of_its_password_only() {
    let password = |text: &str| Password::new(text.as_bytes()).unwrap();
    let salted = Salted::for_user(b"secret", "jo", SaltForm::default());
    let stored = salted.stored(&password("pencil"));
    assert!(stored.starts_with("{SCRAM-SHA-256}4096,"), "{stored}");
    let stored = Stored::parse(&stored).unwrap();
    assert!(stored.is(&password("pencil")) && !stored.is(&password("pen")));
}
