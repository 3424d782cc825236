use super::*;
use crate::ber::BerReader;
use proptest::prelude::*;

/// A filter that is sent, in writing: a reader of its own, to compare with.
fn show(bytes: &[u8]) -> String {
    let mut reader = BerReader::new(bytes);
    let shown = show_next(&mut reader);
    assert!(reader.is_empty());
    shown
}

fn show_next(reader: &mut BerReader<'_>) -> String {
    let (tag, body) = reader.element().unwrap();
    let mut inner = BerReader::new(body);
    let all = |mut inner: BerReader<'_>| {
        let mut out = String::new();
        while !inner.is_empty() {
            out += &show_next(&mut inner);
        }
        out
    };
    match tag {
        0xa0 => format!("AND[{}]", all(inner)),
        0xa1 => format!("OR[{}]", all(inner)),
        0xa2 => format!("NOT[{}]", all(inner)),
        0xa3 | 0xa5 | 0xa6 | 0xa8 => {
            let sign = match tag {
                0xa3 => "=",
                0xa5 => ">=",
                0xa6 => "<=",
                _ => "~=",
            };
            let attribute = inner.text(OCTETS).unwrap();
            format!("{attribute}{sign}{:?};", inner.text(OCTETS).unwrap())
        }
        0xa4 => {
            let attribute = inner.text(OCTETS).unwrap();
            let mut pieces = BerReader::new(inner.expect(SEQUENCE).unwrap());
            let mut out = format!("{attribute}=");
            while !pieces.is_empty() {
                let (tag, piece) = pieces.element().unwrap();
                out += match tag {
                    0x80 => "first",
                    0x81 => "any",
                    _ => "last",
                };
                out += &format!("{:?}", String::from_utf8_lossy(piece));
            }
            out + ";"
        }
        0x87 => format!("{}=*;", String::from_utf8_lossy(body)),
        0xa9 => {
            let mut out = String::new();
            while !inner.is_empty() {
                let (tag, piece) = inner.element().unwrap();
                out += &format!("{tag:x}{:?}", String::from_utf8_lossy(piece));
            }
            out + ";"
        }
        tag => panic!("{tag:x}"),
    }
}

fn sent(filter: &str, key: &str) -> String {
    let mut writer = BerWriter::default();
    Filter::parse(filter).unwrap().write(&Key::new(key), &mut writer);
    show(&writer.into_bytes())
}

#[test]
fn filters_are_sent_as_trees() {
    let cases = [
        ("(mail=%s)", "mail=\"joe@a.test\";"),
        ("mail=%s", "mail=\"joe@a.test\";"),
        ("(uid=%u)", "uid=\"joe\";"),
        ("(dc=%d)", "dc=\"a.test\";"),
        ("(&(dc=%1)(dc=%2))", "AND[dc=\"test\";dc=\"a\";]"),
        ("(discount=5%%)", "discount=\"5%\";"),
        ("(cn=*)", "cn=*;"),
        ("(cn=)", "cn=\"\";"),
        ("(cn=a\\2a\\28\\29\\5cb)", "cn=\"a*()\\\\b\";"),
        ("(cn=Müller)", "cn=\"Müller\";"),
        ("(cn=%u*)", "cn=first\"joe\";"),
        ("(cn=*%u)", "cn=last\"joe\";"),
        ("(cn=a*%u*c*d)", "cn=first\"a\"any\"joe\"any\"c\"last\"d\";"),
        ("(n>=1)", "n>=\"1\";"),
        ("(n<=1)", "n<=\"1\";"),
        ("(n~=1)", "n~=\"1\";"),
        ("(!(cn=%s))", "NOT[cn=\"joe@a.test\";]"),
        ("(|(a=1)(&(b=2)(!(c=3))))", "OR[a=\"1\";AND[b=\"2\";NOT[c=\"3\";]]]"),
        ("(cn;lang-de=%s)", "cn;lang-de=\"joe@a.test\";"),
        ("(2.5.4.3=%s)", "2.5.4.3=\"joe@a.test\";"),
        ("(cn:caseExactMatch:=%u)", "81\"caseExactMatch\"82\"cn\"83\"joe\";"),
        ("(cn:dn:2.4.6:=x)", "81\"2.4.6\"82\"cn\"83\"x\"84\"\u{fffd}\";"),
        ("(:2.4.6:=x)", "81\"2.4.6\"83\"x\";"),
    ];
    for (filter, tree) in cases {
        assert_eq!(sent(filter, "joe@a.test"), tree, "{filter}");
    }
}

#[test]
fn mistakes_are_told_with_their_place() {
    let cases = [
        ("", 1),
        ("(", 2),
        ("()", 2),
        ("(mail=%s", 9),
        ("(mail=%s))", 10),
        ("(mail=%x)", 8),
        ("(mail=%", 8),
        ("(mail=%0)", 8),
        ("(mail=\\2)", 8),
        ("(mail=\\zz)", 8),
        ("(mail)", 6),
        ("(=x)", 2),
        ("(%s=x)", 2),
        ("(mail=a(b)", 8),
        ("(mail=a\0b)", 8),
        ("(&)", 3),
        ("(&(a=1)(b=2)", 13),
        ("(!(a=1)(b=2))", 8),
        ("(cn=a**b)", 9),
        ("(n>=a*)", 6),
        ("(:=x)", 5),
        ("(cn:a:b:=x)", 8),
        ("(cn:a)", 6),
        ("(cn=x) ", 7),
    ];
    for (filter, at) in cases {
        let error = Filter::parse(filter).unwrap_err();
        assert_eq!(error.at, at, "{filter:?}: {error}");
    }
    let deep = |n: usize| format!("{}(a=1){}", "(!".repeat(n), ")".repeat(n));
    assert!(Filter::parse(&deep(DEPTH_MAX - 1)).is_ok());
    assert!(Filter::parse(&deep(DEPTH_MAX)).is_err());
}

#[test]
fn what_stands_in_a_key_is_a_value_and_nothing_else() {
    for key in
        ["*", "*)(uid=*", "a)(|(uid=*", "\\2a", "a\0b", "%s", "Grüße@ü.test", "\u{202e}@\u{0}"]
    {
        assert_eq!(sent("(mail=%s)", key), format!("mail={key:?};"));
        assert_eq!(sent("(mail=*%s*)", key), format!("mail=any{key:?};"));
    }
}

#[test]
fn a_key_without_a_part_does_not_fit() {
    let fits = |filter: &str, key: &str| Filter::parse(filter).unwrap().fits(&Key::new(key));
    assert!(fits("(mail=%s)", "joe"));
    assert!(!fits("(mail=%s)", ""));
    assert!(fits("(uid=%u)", "joe"));
    assert!(fits("(uid=%u)", "joe@a.test"));
    assert!(!fits("(uid=%u)", "@a.test"));
    assert!(!fits("(dc=%d)", "joe"));
    assert!(!fits("(dc=%d)", "joe@"));
    assert!(fits("(&(dc=%1)(dc=%2))", "joe@a.test"));
    assert!(!fits("(dc=%3)", "joe@a.test"));
    assert!(Filter::parse("(a=%u)").unwrap().has_parts());
    assert!(Filter::parse("(a=x*%u*)").unwrap().has_parts());
    assert!(!Filter::parse("(&(a=%%s)(b=*))").unwrap().has_parts());
}

proptest! {
    #[test]
    fn no_text_panics(text in "[(&|!)a=*:%s\\\\2<>~]{0,40}", key in ".{0,20}") {
        if let Ok(filter) = Filter::parse(&text) {
            let mut writer = BerWriter::default();
            filter.write(&Key::new(&key), &mut writer);
            show(&writer.into_bytes());
        }
    }

    #[test]
    fn any_key_is_one_value(key in ".{1,60}") {
        prop_assert_eq!(sent("(mail=%s)", &key), format!("mail={key:?};"));
    }
}
