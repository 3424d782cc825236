use super::*;

fn answer(syntax: PatternSyntax, content: &str, key: &str) -> Option<String> {
    let table = match PatternTable::read(content.as_bytes(), syntax) {
        Ok(table) => table,
        Err(mistakes) => panic!("{content}: {mistakes:?}"),
    };
    table.find(key).expect("an answer").map(|entry| entry.text.into())
}

fn mistakes(syntax: PatternSyntax, content: &str) -> Vec<String> {
    match PatternTable::read(content.as_bytes(), syntax) {
        Ok(_) => Vec::new(),
        Err(mistakes) => mistakes.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn what_cannot_be_done_is_told_with_its_place() {
    for (pattern, column, part) in [
        ("(a)\\1", 5, "back references"),
        ("\\k<n>", 2, "back references"),
        ("(?P<n>a)(?P=n)", 10, "back references"),
        ("é(?=a)", 3, "look ahead"),
        ("(?!a)", 2, "look ahead"),
        ("a(?<=a)", 3, "look behind"),
        ("a(?<!a)", 3, "look behind"),
        ("(?>a)", 2, "atomic"),
        ("a++", 4, "possessive"),
        ("a{2}+", 6, "possessive"),
        ("(?R)", 2, "call groups"),
        ("(a)(?1)", 5, "call groups"),
        ("(a)(?-1)", 5, "call groups"),
        ("(a)(?(1)b)", 5, "conditions"),
        ("(?|a)", 2, "number groups"),
        ("(*ACCEPT)", 2, "verbs"),
        ("a\\Kb", 3, "`\\K`"),
        ("\\p{L}", 2, "`\\p`"),
        ("\\X", 2, "`\\X`"),
        ("a\\y", 3, "unknown escape"),
        ("(a", 2, "not closed"),
        ("a)", 3, "unmatched"),
        ("[a", 2, "not closed"),
        ("[[:foo:]]", 3, "unknown character class"),
        ("a{3,2}", 3, "exceeds its maximum"),
        ("a{70000}", 3, "65535"),
        ("a**", 4, "nothing to repeat"),
        ("(?<1>a)", 2, "invalid group name"),
        ("(?z)", 2, "unknown kind"),
        ("\\x{100}", 2, "without a byte"),
        ("[\\Qa\\E]", 3, "is not allowed in brackets"),
    ] {
        let told = mistakes(PatternSyntax::Perl, &format!("# first\n/{pattern}/ x\n"));
        assert_eq!(told.len(), 1, "{pattern}: {told:?}");
        assert!(told[0].starts_with(&format!("2:{column}: ")), "{pattern}: {told:?}");
        assert!(told[0].contains(part), "{pattern}: {told:?}");
    }
    let told =
        mistakes(PatternSyntax::Posix, "/(a)\\1/ x\n/a\n b(/ y\nif /a/\n!\nb\n/a/q x\n/a/\n");
    assert_eq!(
        told,
        [
            "1:5: back references are not supported",
            "3:3: this group is not closed",
            "4:1: `if` without `endif`",
            "5:2: pattern missing",
            "6:1: expected a pattern (for example `/^user@/`), `if` or `endif`",
            "7:4: unknown flag `q`; put white space before the value",
            "8:4: the pattern has no value",
        ]
    );
}

#[test]
fn a_pattern_that_would_take_too_much_memory_is_refused() {
    for syntax in [PatternSyntax::Posix, PatternSyntax::Perl] {
        let told = mistakes(syntax, "/ok/ x\n/((a{1,100}){1,100}){1,100}/ x\n");
        assert_eq!(told.len(), 1);
        assert!(told[0].starts_with("2:1: the compiled pattern needs more"), "{told:?}");
        let deep = format!("/{}a{}/ x", "(".repeat(5000), ")".repeat(5000));
        let told = mistakes(syntax, &deep);
        assert!(told[0].starts_with("1:1: unsupported pattern"), "{told:?}");
    }
}

#[test]
fn a_file_has_so_many_patterns_and_bytes() {
    let most = "/a/ x\n".repeat(PATTERNS_MAX);
    assert!(mistakes(PatternSyntax::Posix, &most).is_empty());
    let told = mistakes(PatternSyntax::Posix, &format!("{most}/a/ x\n/b/ x\n"));
    assert_eq!(told, ["20001:1: at most 20000 patterns in a file"]);
    let told = mistakes(PatternSyntax::Posix, &"#".repeat(RULES_BYTES_MAX + 1));
    assert!(told[0].contains("too many"), "{told:?}");
}

#[test]
fn a_group_that_cuts_a_character_gives_no_answer() {
    let table = PatternTable::read("/^(.)/ <$1>\n".as_bytes(), PatternSyntax::Perl).expect("right");
    assert!(table.find("é").is_err());
    assert!(table.find("e").is_ok_and(|entry| entry.is_some_and(|e| &*e.text == "<e>")));
}

#[test]
fn options_hold_until_their_group_ends() {
    let perl = |pattern: &str, key: &str| {
        answer(PatternSyntax::Perl, &format!("/^(?:{pattern})$/ yes"), key).is_some()
    };
    assert!(perl("a(?-i)b|c", "Ab") && !perl("a(?-i)b|c", "AB"));
    assert!(perl("a(?-i)b|c", "c") && !perl("a(?-i)b|c", "C"), "other alternatives too");
    assert!(perl("(a(?-i)b)c", "AbC"));
    assert!(perl("(?-i:a)b", "aB") && !perl("(?-i:a)b", "Ab"));
    assert!(perl("(?x) a b (?#c) ", "ab"));
    assert!(perl("a\\Q.*\\E", "a.*") && !perl("a\\Q.*\\E", "abc"));
    assert!(perl("\\x41\\101\\o{101}\\x{41}\\cA", "AAAA\u{1}"));
}
