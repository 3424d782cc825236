use super::*;
use proptest::prelude::*;

fn ascii(text: &str) -> Result<Mailbox, AddressError> {
    Mailbox::parse(text, false)
}

#[test]
fn ordinary_addresses() {
    for good in [
        "a@b",
        "User.Name+tag@Example.COM",
        "!#$%&'*+-/=?^_`{|}~@example.org",
        "\"\"@example.org",
        "\"john doe\"@example.org",
        "\"a\\\"b\\\\c@d\"@example.org",
        "x@[192.0.2.1]",
        "x@[192.000.002.001]",
        "x@[IPv6:2001:db8::1]",
        "x@[ipv6:::ffff:192.0.2.1]",
        "x@[x400:any-printable!text]",
        "x@192.0.2.1",
        "x@mail_server._tcp.example.com",
        "x@a-b.c--d.xn--mller-kva",
        "postmaster",
        "PostMaster",
    ] {
        let mailbox = ascii(good).unwrap_or_else(|e| panic!("{good}: {e}"));
        assert_eq!(mailbox.as_str(), good);
        assert_eq!(mailbox.to_string(), good);
    }
}

#[test]
fn what_the_grammar_forbids() {
    for bad in [
        "",
        "a",
        "@",
        "a@",
        "@b",
        ".@b",
        "..@b",
        "a b@c",
        "a@b c",
        "<a@b>",
        "a@b>",
        "a@b@c",
        "a,b@c",
        "a:b@c",
        "a@b.",
        "a@.b",
        "a@b..c",
        "a@-b",
        "a@b-",
        "\"a@b",
        "\"a\"b@c",
        "a\"b\"@c",
        "\"a\\\"@b",
        "\"\\",
        "a@[",
        "a@[]",
        "a@[192.0.2]",
        "a@[192.0.2.256]",
        "a@[192.0.2.1",
        "a@[192.0.2.1]x",
        "a@[192.0.2.+1]",
        "a@[IPv6:]",
        "a@[IPv6:2001:db8::1%eth0]",
        "a@[IPv6:1:2:3:4:5:6:7::]",
        "a@[IPv6:192.0.2.1]",
        "a@[x-:y]",
        "a@[:y]",
        "a@[x:]",
        "a@[x:a b]",
        "a@[x:a]b]",
        "a@[x:a\\]",
        "postmaster@",
        "@a:postmaster",
        "postmaste",
        "a@\u{7f}",
        "\u{7f}@a",
    ] {
        assert!(ascii(bad).is_err(), "{bad:?} was accepted");
        assert!(Mailbox::parse(bad, true).is_err(), "{bad:?} was accepted with SMTPUTF8");
    }
}

#[test]
fn control_characters_never_pass() {
    for c in (0..0x20u8).chain([0x7f]).map(char::from).chain('\u{80}'..='\u{9f}') {
        for pattern in
            ["a_b@c", "\"a_b\"@c", "\"a\\_b\"@c", "a@b_c", "a@[x:b_c]", "@a_:b@c", "a@b_"]
        {
            let text = pattern.replace('_', &c.to_string());
            assert!(Mailbox::parse(&text, true).is_err(), "{text:?} was accepted");
        }
    }
}

#[test]
fn lengths() {
    let local = "l".repeat(250);
    assert!(ascii(&format!("{local}@b.c")).is_ok());
    let error = ascii(&format!("{local}l@b")).unwrap_err();
    assert_eq!(error.reason, "local part is longer than 250 octets");
    assert!(ascii(&format!("{local}@b.cd")).is_err(), "a path has 254 octets");
    assert!(ascii(&format!("\"{}\"@b", "l".repeat(248))).is_ok());
    assert!(ascii(&format!("\"{}\"@b", "l".repeat(249))).is_err());
    let label = "d".repeat(63);
    assert!(ascii(&format!("a@{label}")).is_ok());
    assert!(ascii(&format!("a@{label}d")).is_err());
    // 254 octets and the two brackets are the longest path.
    let domain = [&*label, &label, &label, &"d".repeat(60)].join(".");
    assert_eq!(domain.len(), 252);
    assert!(ascii(&format!("a@{domain}")).is_ok());
    assert!(ascii(&format!("aa@{domain}")).is_err());
    assert!(Domain::parse(&format!("{domain}ddd")).is_ok());
    assert!(Domain::parse(&format!("{domain}.ddd")).is_err());
}

#[test]
fn one_mailbox_is_the_same_however_it_is_written() {
    let same = |a: &str, b: &str| {
        let parse = |text: &str| Mailbox::parse(text, true).unwrap();
        let (a, b) = (parse(a), parse(b));
        assert_eq!(a.is_same(&b), b.is_same(&a));
        a.is_same(&b)
    };
    for (a, b) in [
        ("a@b.example", "a@B.Example"),
        ("\"a\"@b", "a@b"),
        ("\"a\\ b\"@b", "\"a b\"@b"),
        ("a@[IPv6:2001:db8:0::1]", "a@[ipv6:2001:DB8::1]"),
        ("a@[192.0.2.001]", "a@[192.0.2.1]"),
        ("a@BÜCHER.example", "a@bücher.example"),
        ("postmaster", "Postmaster"),
        ("@x:a@b", "a@b"),
    ] {
        assert!(same(a, b), "{a} {b}");
    }
    for (a, b) in
        [("a@b", "A@b"), ("a@b", "a@c"), ("postmaster", "postmaster@b"), ("a@[x:y]", "a@b")]
    {
        assert!(!same(a, b), "{a} {b}");
    }
}

#[test]
fn source_routes_are_dropped() {
    assert_eq!(ascii("@a,@b.example:user@c").unwrap().as_str(), "user@c");
    assert_eq!(ascii("@a:\"x:y\"@c").unwrap().local(), "\"x:y\"");
    for bad in ["@a,b:c@d", "@a,:c@d", "@:c@d", "@a:", "@a@b:c@d", "@[192.0.2.1]:c@d", "@a,@b"] {
        assert!(ascii(bad).is_err(), "{bad}");
    }
}

#[test]
fn dots_may_stand_anywhere_in_a_local_part() {
    for address in ["taro..y@far.test", "hanako.@far.test", ".a@b", "...a...@b"] {
        let parsed = ascii(address).unwrap();
        assert_eq!(parsed.as_str(), address);
        let (local, domain) = address.split_once('@').unwrap();
        let quoted = ascii(&format!("\"{local}\"@{domain}")).unwrap();
        assert!(parsed.is_same(&quoted), "{address}");
    }
}

#[test]
fn errors_point_at_the_place() {
    let offset = |text| ascii(text).unwrap_err().offset;
    assert_eq!(offset("a b@c"), 1);
    assert_eq!(offset("ab@c!d"), 4);
    assert_eq!(offset("@a,@b!:c@d"), 5);
    assert_eq!(offset("@a,@b:c@d!"), 9);
    assert_eq!(offset("ab"), 2);
    assert_eq!(offset("..@c"), 0);
    assert_eq!(offset("x\u{e4}@c"), 1);
    let reason = |text| ascii(text).unwrap_err().reason;
    assert_eq!((offset("@a.example"), reason("@a.example")), (0, "empty local part"));
    assert_eq!((offset("@a,@b"), reason("@a,@b")), (5, "source route without an address"));
}

#[test]
fn parts() {
    let mailbox = ascii("\"a\\@b\"@Example.COM").unwrap();
    assert_eq!(mailbox.local(), "\"a\\@b\"");
    assert_eq!(mailbox.local_unquoted(), "a@b");
    assert_eq!(mailbox.domain_str(), "Example.COM");
    assert_eq!(mailbox.domain().as_str(), "example.com");
    let bare = ascii("PostMaster").unwrap();
    assert_eq!((bare.local(), bare.domain_str()), ("PostMaster", ""));
    assert_eq!(bare.domain().as_str(), "");
    assert_eq!(ascii("\"a b\"@c").unwrap().local_unquoted(), "a b");
    assert_eq!(ascii("\"\"@c").unwrap().local_unquoted(), "");
    assert_eq!(ascii("a@c").unwrap().local_unquoted(), "a");
}

#[test]
fn internationalised_addresses() {
    let mailbox = Mailbox::parse("Jörg@MÜLLER.example", true).unwrap();
    assert!(mailbox.needs_smtputf8());
    assert_eq!(mailbox.domain().as_str(), "müller.example");
    assert_eq!(mailbox.domain().to_ascii().unwrap(), "xn--mller-kva.example");
    assert_eq!(mailbox.local(), "Jörg");
    assert!(Mailbox::parse("用户@例え.テスト", true).is_ok());
    assert!(Mailbox::parse("\"用 户\"@example.com", true).is_ok());
    assert!(Mailbox::parse("\"\\ü\"@example.com", true).is_err());
    assert!(ascii("jörg@example.com").is_err());
    assert!(ascii("joerg@müller.example").is_err());
    // What IDNA would map away is refused: other dots, wide letters, decomposed accents.
    for bad in ["a\u{3002}example", "\u{ff45}xample.com", "mu\u{308}ller.example", "\u{ad}a.b"] {
        assert!(Mailbox::parse(&format!("a@{bad}"), true).is_err(), "{bad}");
    }
    let long = format!("a@{}.example", "ü".repeat(63));
    assert!(Mailbox::parse(&long, true).is_err());
}

#[test]
fn literals() {
    let literal = |text| Domain::parse(text).unwrap().literal().map(|ip| ip.to_string());
    assert_eq!(literal("[192.0.2.1]").as_deref(), Some("192.0.2.1"));
    assert_eq!(literal("[IPv6:2001:DB8::1]").as_deref(), Some("2001:db8::1"));
    assert_eq!(literal("[tag:x]"), None);
    let reason = |text| Domain::parse(text).unwrap_err().reason;
    assert_eq!(reason("[2001:db8::1]"), "IPv6 address literal must begin with IPv6:");
    assert_eq!(literal("192.0.2.1"), None);
    assert_eq!(Domain::parse("[192.0.2.010]").unwrap().as_str(), "[192.0.2.10]");
    assert_eq!(
        Domain::parse("[IPv6:2001:DB8:0:0:0:0:0:1]").unwrap().as_str(),
        "[ipv6:2001:db8::1]"
    );
    assert!(Domain::parse("[192.0.2.1]").unwrap().to_ascii().is_err());
    assert!(Domain::parse("").is_err());
}

#[test]
fn names_too_long_for_the_dns() {
    let label = "d".repeat(63);
    let domain = [&*label, &label, &label, &"d".repeat(61)].join(".");
    assert_eq!(Domain::parse(&domain).unwrap().to_ascii().unwrap().len(), 253);
    assert!(Domain::parse(&format!("{domain}d")).unwrap().to_ascii().is_err());
}

/// Addresses of every kind that the grammar allows.
fn any_valid() -> impl Strategy<Value = String> {
    let atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~äßж用-]{1,8}";
    let local = prop_oneof![
        (atom, atom).prop_map(|(a, b)| format!("{a}.{b}")),
        "\"([ !#-Z^-~ü]|\\\\[ -~]){0,12}\"",
    ];
    let domain = prop_oneof![
        "[A-Za-z0-9]([A-Za-z0-9-]{0,8}[A-Za-z0-9])?(\\.[A-Za-z0-9]{1,8}){0,3}",
        "[A-Za-z]{1,3}[ÄÖÜäöüßéжш]{1,5}\\.[a-z]{2}",
        any::<[u8; 4]>().prop_map(|o| format!("[{}]", Ipv4Addr::from(o))),
        any::<[u16; 8]>().prop_map(|g| format!("[IPv6:{}]", Ipv6Addr::from(g))),
        "\\[x-y:[!-Z^-~]{1,10}\\]",
    ];
    (local, domain).prop_map(|(l, d)| format!("{l}@{d}"))
}

proptest! {
    #[test]
    fn valid_addresses_parse_and_read_back(text in any_valid()) {
        let mailbox = Mailbox::parse(&text, true).map_err(|e| TestCaseError::fail(e.to_string()))?;
        prop_assert_eq!(mailbox.as_str(), &text);
        prop_assert_eq!(format!("{}@{}", mailbox.local(), mailbox.domain_str()), text);
        let domain = mailbox.domain();
        prop_assert_eq!(&Domain::parse(domain.as_str()), &Ok(domain));
        prop_assert_eq!(mailbox.needs_smtputf8(), ascii(mailbox.as_str()).is_err());
    }

    #[test]
    fn whatever_parses_is_clean_and_parses_again(
        text in prop_oneof![
            any::<String>(),
            "[a@\\.:,\"\\\\\\[\\]<> \r\n\0é\u{85}-]{0,20}",
            "(@[a-z.]{0,4}[,:]){0,3}[a\\.\"\\\\]{0,6}@[a\\.\\[\\]:0-9ÜİΣẞ-]{0,9}",
        ],
        smtputf8: bool,
    ) {
        if let Ok(mailbox) = Mailbox::parse(&text, smtputf8) {
            prop_assert!(!mailbox.as_str().contains(char::is_control));
            prop_assert!(smtputf8 || mailbox.as_str().is_ascii());
            let again = Mailbox::parse(mailbox.as_str(), smtputf8);
            prop_assert_eq!(again.as_ref(), Ok(&mailbox));
            let domain = mailbox.domain();
            if !domain.as_str().is_empty() {
                let again = Domain::parse(domain.as_str());
                prop_assert_eq!(again.as_ref(), Ok(&domain));
                let _ = domain.to_ascii();
            }
            prop_assert!(!mailbox.local_unquoted().contains(char::is_control));
        }
    }

    #[test]
    fn domains_read_back(text in prop_oneof![any::<String>(), "[aA0\\.\\[\\]:ÜİΣςẞ-]{0,12}"]) {
        if let Ok(domain) = Domain::parse(&text) {
            prop_assert_eq!(Domain::parse(domain.as_str()), Ok(domain));
        }
    }
}
