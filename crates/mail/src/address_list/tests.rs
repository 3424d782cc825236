//! What is read of lists, and what is not.

use super::*;

/// The domains of the addresses in their order, or why there are none.
fn domains(value: &str) -> String {
    match read(value.as_bytes()) {
        None => "?".into(),
        Some(found) => found.iter().map(|address| &*address.domain).collect::<Vec<_>>().join(" "),
    }
}

#[test]
fn forms_of_the_grammar_are_read() {
    for (value, expected) in [
        (" u@a.test", "a.test"),
        ("Jo Doe <u@a.test>", "a.test"),
        ("\"x@b.test, <y@b.test>\" <u@a.test>", "a.test"),
        ("Jo Q. Doe <u@a.test> (work)", "a.test"),
        ("J\u{f6} <u@a.test>", "a.test"),
        ("=?utf-8?q?u=40b.test?= <u@a.test>", "a.test"),
        ("(c) u (d) @ (e) a.test (f)", "a.test"),
        ("u@a.test (x@b.test)", "a.test"),
        ("<@x.test,,@y.test:u@a.test>", "a.test"),
        ("\"x@b.test\"@a.test", "a.test"),
        ("\"a b\".c@a.test", "a.test"),
        ("u@[192.0.2.1]", "[192.0.2.1]"),
        ("<u@[IPv6:2001:db8::1]>", "[IPv6:2001:db8::1]"),
        ("u@a.test,\r\n\tv@b.test", "a.test b.test"),
        ("u@a.test,,", "a.test"),
        ("Us: u@a.test, V <v@b.test>;", "a.test b.test"),
        ("a: u@a.test;, b: v@b.test;", "a.test b.test"),
        ("Nobody:;", ""),
        ("", ""),
        ("<>", ""),
    ] {
        assert_eq!(domains(value), expected, "{value}");
    }
    let found = read(b"\"a \\\"b\"@a.test").unwrap();
    assert_eq!(found[0].local, "a \"b");
}

#[test]
fn what_misleads_nobody_is_read() {
    for (value, expected) in [
        ("x@b.test <u@a.test>", "a.test"),
        ("[List] Jo <u@a.test>", "a.test"),
        ("[x@b.test] <u@a.test>", "a.test"),
        ("CORP\\jo <u@a.test>", "a.test"),
        ("Doe, Jo <u@a.test>", "a.test"),
        ("Doe, J\u{f6}, Dr. <u@a.test>", "a.test"),
        ("Jo; x <u@a.test>", "a.test"),
        ("Doe <u@a.test>, Inc.", "a.test"),
        ("u@a.test;", "a.test"),
        ("u..v.@a.test", "a.test"),
        ("jo", ""),
    ] {
        assert_eq!(domains(value), expected, "{value}");
    }
}

#[test]
fn what_readers_read_differently_is_not_read() {
    for value in [
        "u@b.test u@a.test",
        "u@b.test\r\n\tu@a.test",
        "u@b.test@a.test",
        "<u@b.test@a.test>",
        "<u@b.test u@a.test>",
        "<u@b.test:u@a.test>",
        "<u@b.test,u@a.test>",
        "<u@b.test;u@a.test>",
        "<u@b.test<u@a.test>>",
        "<<u@b.test>>",
        "<u@b.test><u@a.test>",
        "<u@b.test>:u@a.test",
        "<u@a.test>u@b.test",
        "<u@a.test> \"u@b.test\"",
        "<u@a.test>\\,<u@b.test>",
        "<> u@a.test",
        "u@b.test <> u@a.test",
        "u@b.test\"x\"u@a.test",
        "\"u\"@b.test \"v\"@a.test",
        "\"u@b.test\" u@a.test",
        "u@b.test =?utf-8?q?x?= u@a.test",
        "u@b.test) u@a.test",
        "(u@b.test)) u@a.test",
        "u@a.test (u@b.test",
        "u@b.test > u@a.test",
        "u@b.test < u@a.test",
        "u@b.test\\@a.test",
        "u@b.test\\,u@a.test",
        "\\<u@b.test> <u@a.test>",
        "(c)u@b.test(c)u@a.test",
        "u@b.test [u@a.test]",
        "u@[b.test]@a.test",
        "u@b .test",
        "u@b.(c)test",
        "u v@a.test",
        "u . v@a.test",
        "\"u\"v@a.test",
        "u@b.test\u{b}",
        "u\u{a0}@a.test",
        "u@b.test\u{2028}x",
        "u@b.test:",
        "u@b.test:;",
        ":;u@b.test <u@a.test>",
        "a: b: u@a.test;",
        "=?utf-8?B?dUBiLnRlc3Q=?=,<u@a.test>",
        "\"=?utf-8?B?dUBiLnRlc3Q=?=\",<u@a.test>",
        "\"u@b.test\",<u@a.test>",
        "(u@b.test),<u@a.test>",
        "(u@b.test)",
        "<=?utf-8?q?u=40b.test?=@a.test>",
        "=?utf-8?q?u=40b.test=2C?=@a.test",
        "\"=?utf-8?q?u=40b.test?=\"@a.test",
        "u.=?utf-8?q?x?=@a.test",
        "<u@=?utf-8?q?b.test?=.a.test>",
        "\"u@a.test",
        "@a.test",
        "u@",
        "<@x.test>",
        "<x.test:u@a.test>",
    ] {
        assert_eq!(domains(value), "?", "{value}");
    }
}

/// The names and addresses, or why there are none.
fn named(text: &str) -> String {
    let Some(all) = members(text, Limits { members: 9, tokens: 20 }) else { return "?".into() };
    let one = |Member { name, address }: &Member| {
        let address = address.as_ref().map(Address::to_text);
        format!("{}={}", name.as_deref().unwrap_or("-"), address.as_deref().unwrap_or("-"))
    };
    all.iter().map(one).collect::<Vec<_>>().join(";")
}

#[test]
fn names_and_addresses_are_written_anew() {
    for (text, expected) in [
        ("", ""),
        ("u@a.test", "-=u@a.test"),
        ("Jo Q.  Doe <u@a.test>, v@b.test", "Jo Q. Doe=u@a.test;-=v@b.test"),
        ("\"B, \\\"A\" <u@a.test> (c(d))", "B, \"A (c(d))=u@a.test"),
        ("Jo (x) Doe(y)<u@a.test>", "Jo Doe (x) (y)=u@a.test"),
        ("\"a b\"@a.test (x)", "(x)=\"a b\"@a.test"),
        ("\"a\\\"\\\\b\"@a.test", "-=\"a\\\"\\\\b\"@a.test"),
        ("<@r.test,@s.test:u@a.test>", "-=u@a.test"),
        ("g: u@a.test, v@b.test;, w@c.test", "-=u@a.test;-=v@b.test;-=w@c.test"),
        ("Nobody here:;, u@a.test", "Nobody here=-;-=u@a.test"),
        ("x@[IPv6:::1]", "-=x@[IPv6:::1]"),
    ] {
        assert_eq!(named(text), expected, "{text}");
    }
    // What `read` reads, but would be lost.
    for text in
        ["jo", "Doe, Jo <u@a.test>", "u@a.test;", "g: u@a.test", "<>", "u@a.test, (x@b.test)"]
    {
        assert_eq!(named(text), "?", "{text}");
    }
    assert_eq!(named("u@b.test u@a.test"), "?");
    assert_ne!(named(&"u@a.test,".repeat(9)), "?");
    assert_eq!(named(&("u@a.test,".repeat(9) + "u@a.test")), "?");
    let of_tokens = |count: usize| "A ".repeat(count - 7) + "<u@a.test>";
    assert_ne!(named(&of_tokens(20)), "?");
    assert_eq!(named(&of_tokens(21)), "?");
}

#[test]
fn nothing_makes_it_panic_or_slow() {
    for value in ["[", "[]", "\"\\", "(\\", "<", "@", ":", "[\u{e9}]<a@b>", "\u{e9}\\"] {
        let _ = read(value.as_bytes());
        let _ = read(value.repeat(20_000).as_bytes());
    }
    let _ = read(&[0xff, b'<', 0xfe, b'@', 0xfd]);
}
