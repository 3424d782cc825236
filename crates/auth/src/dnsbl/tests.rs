use super::*;
use proptest::prelude::*;

fn entry(text: &str) -> DnsblEntry {
    DnsblEntry::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"))
}

fn listed(text: &str, answers: &[&str]) -> Weighed {
    let answers: Vec<Ipv4Addr> = answers.iter().map(|answer| answer.parse().unwrap()).collect();
    DnsList::of([(DnsblIdentity::Client, entry(text))])[0].weigh(&answers)
}

#[test]
fn entries_are_read_as_postfix_reads_them() {
    assert_eq!(
        entry("Zen.Example."),
        DnsblEntry { zone: "zen.example".into(), wanted: AnswerFilter::Any, score: 1 }
    );
    assert_eq!(entry("a.example*-3").score, -3);
    assert_eq!(entry("a.example*100").score, SCORE_MAX);
    assert_eq!(entry("a.example=127.0.0.[2..11]*2").score, 2);
    for bad in [
        "",
        "example",
        "a..example",
        "a b.example",
        "a.example*",
        "a.example*0",
        "a.example*101",
        "a.example*2*x",
        "a.example=",
        "a.example=127.0.0",
        "a.example=127.0.0.256",
        "a.example=127.0.0.[4..2]",
        "a.example=127.0.0.[2",
        "a.example=127.0.0.[]",
        "a.example=127.0.0.2.3",
        "a.example=127.0.0.+2",
    ] {
        assert!(DnsblEntry::parse(bad).is_err(), "{bad}");
    }
    let longest = format!("{}example", "a.".repeat((ZONE_BYTES_MAX - 7) / 2));
    assert_eq!(longest.len(), ZONE_BYTES_MAX);
    assert!(DnsblEntry::parse(&longest).is_ok());
    assert!(DnsblEntry::parse(&format!("{longest}s")).is_err());
}

#[test]
fn answers_count_that_are_wanted() {
    let two = Some((Ipv4Addr::new(127, 0, 0, 2), 1));
    assert_eq!(listed("a.example", &["127.0.0.2"]).listed, two);
    assert_eq!(listed("a.example=127.0.0.[2..4;9]", &["127.0.0.10", "127.0.0.2"]).listed, two);
    assert_eq!(listed("a.example=127.0.0.[3..4;9]", &["127.0.0.2"]).listed, None);
    let nine = Some((Ipv4Addr::new(127, 0, 7, 9), -2));
    assert_eq!(listed("a.example=127.0.[0..255].[3..4;9]*-2", &["127.0.7.9"]).listed, nine);
    // A list that no longer is one says yes to everything, with the address of whoever sells names.
    for senseless in ["203.0.113.7", "127.0.0.1", "127.255.255.254"] {
        let weighed = listed("a.example", &[senseless]);
        assert_eq!(weighed, Weighed { listed: None, senseless: senseless.parse().ok() });
    }
    // Whoever asks for it gets it.
    let one = listed("a.example=127.0.0.1", &["127.0.0.1"]);
    assert_eq!((one.listed.map(|(_, score)| score), one.senseless), (Some(1), None));
    assert_eq!(listed("a.example", &[]), Weighed::default());
}

#[test]
fn a_zone_is_asked_once_and_each_of_its_entries_weighs() {
    let entries = ["a.example=127.0.0.2*3", "b.example", "a.example=127.0.0.[2..3]*2"].map(entry);
    let lists = DnsList::of(entries.into_iter().map(|entry| (DnsblIdentity::Client, entry)));
    assert_eq!(lists.len(), 2);
    let both: Vec<Ipv4Addr> = vec!["127.0.0.3".parse().unwrap(), "127.0.0.2".parse().unwrap()];
    assert_eq!(lists[0].weigh(&both).listed, Some((Ipv4Addr::new(127, 0, 0, 2), 5)));
    assert_eq!(lists[0].weigh(&both[..1]).listed, Some((Ipv4Addr::new(127, 0, 0, 3), 2)));
}

#[test]
fn names_are_those_of_the_standard() {
    let name = |address: &str| DnsblSubject::Address(address.parse().unwrap()).name_in("a.example");
    assert_eq!(name("192.0.2.99").as_deref(), Some("99.2.0.192.a.example"));
    assert_eq!(name("::ffff:192.0.2.99").as_deref(), Some("99.2.0.192.a.example"));
    assert_eq!(
        name("2001:db8:1:2:3:4:567:89ab").as_deref(),
        Some("b.a.9.8.7.6.5.0.4.0.0.0.3.0.0.0.2.0.0.0.1.0.0.0.8.b.d.0.1.0.0.2.a.example")
    );
    let domain = |name: &str| DnsblSubject::domain(name)?.name_in("a.example");
    assert_eq!(domain("Mail.Example.ORG.").as_deref(), Some("mail.example.org.a.example"));
    for none in
        ["", "localhost", "[192.0.2.1]", "192.0.2.1", "a b.example", "a..b", "\u{e9}.example"]
    {
        assert_eq!(domain(none), None, "{none}");
    }
    let long = |bytes: usize| format!("{}b", "a.".repeat(bytes / 2));
    assert!(domain(&long(NAME_BYTES_MAX - 11)).is_some());
    assert_eq!(domain(&long(NAME_BYTES_MAX - 9)), None);
    assert_eq!(TestPoint::Address.name_in("a.example"), "1.0.0.127.a.example");
    assert_eq!(TestPoint::Domain.name_in("a.example"), "invalid.a.example");
}

#[test]
fn scores_add_up_to_a_verdict() {
    let answer = Ipv4Addr::new(127, 0, 0, 2);
    let of = |scores: &[i32]| {
        let listing = |score: &i32| Listing {
            zone: format!("{score}.example").into(),
            by: DnsblIdentity::Client,
            answer,
            score: *score,
        };
        DnsblListings(scores.iter().map(listing).collect())
    };
    for (scores, verdict) in [
        (&[][..], DnsblResult::None),
        (&[1, 2], DnsblResult::Listed),
        (&[2], DnsblResult::Below),
        (&[5, -3], DnsblResult::Below),
        (&[2, -2], DnsblResult::Below),
        (&[2, -3], DnsblResult::Allowed),
    ] {
        assert_eq!(of(scores).verdict(3), verdict, "{scores:?}");
    }
    assert_eq!(of(&[-9, 1, 3, 3]).worst().map(|listing| &*listing.zone), Some("3.example"));
    assert_eq!(of(&[-9]).worst(), None);
}

#[test]
fn what_a_list_says_is_short_and_printable() {
    assert_eq!(printable(b" see https://a.example/ ").as_deref(), Some("see https://a.example/"));
    assert_eq!(printable(b"a\r\n550 b\xff").as_deref(), Some("a??550 b?"));
    assert_eq!(printable(b"  "), None);
    assert_eq!(printable(&[b'x'; 10_000]).map(|text| text.len()), Some(TEXT_BYTES_MAX));
}

proptest! {
    #[test]
    fn any_entry_and_any_name_is_read(text: String, name: String, bytes: Vec<u8>) {
        if let Ok(entry) = DnsblEntry::parse(&text) {
            prop_assert!(entry.zone.len() <= ZONE_BYTES_MAX);
        }
        if let Some(key) = DnsblSubject::domain(&name) {
            prop_assert!(key.name_in("a.example").is_none_or(|name| name.len() <= NAME_BYTES_MAX));
        }
        prop_assert!(printable(&bytes).is_none_or(|text| text.is_ascii()));
    }
}
