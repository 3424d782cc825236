use super::of_recipients::{RecipientFacts, part};
use super::*;
use bytes::Bytes;
use mail::{Mailbox, Refusal};
use std::net::IpAddr;
use std::rc::Rc;

fn address(text: &str) -> Mailbox {
    Mailbox::parse(text, false).unwrap()
}

/// The encoded lists of these recipients.
fn kept(records: &RecipientRecords) -> Meta {
    let lists = records.lists();
    Facts {
        postmasters: lists.postmasters(),
        forwarded: lists.forwarded(),
        owners: lists.owners(),
        refused: lists.refused(),
        ..Facts::default()
    }
    .to_meta()
}

/// Records of recipients with these indexes.
fn records(places: &[u32], mut make: impl FnMut(u32, &mut RecipientFacts)) -> RecipientRecords {
    let mut records = RecipientRecords::default();
    places.iter().for_each(|index| make(*index, records.get_mut(*index)));
    records
}

/// The only field, truncated at each octet.
fn cuts(meta: &Meta) -> impl Iterator<Item = Meta> {
    let [(tag, whole)] = &meta.fields[..] else { panic!("{meta:?}") };
    (0..whole.len()).map(|end| Meta { fields: vec![(*tag, whole.slice(..end))] })
}

#[test]
fn facts_are_kept_in_the_order_of_their_tags_and_nothing_of_those_that_are_not_there() {
    assert!(Facts::default().to_meta().fields.is_empty());
    assert!(kept(&RecipientRecords::default()).fields.is_empty());
    let forwarded = records(&[1], |_, record| record.from = SentFrom::Rewritten);
    let lists = forwarded.lists();
    let facts = Facts {
        held: None,
        helo: Some("client.test"),
        omitted: Some(Ranges(&[0; 16])),
        forwarded: lists.forwarded(),
        tenant: Some("acme"),
        tls_report: Some(Present),
        alert: Some(Present),
        require_tls: Some(RequireTls::No),
        ..Facts::default()
    };
    let meta = facts.to_meta();
    let tags: Vec<u16> = meta.fields.iter().map(|(tag, _)| *tag).collect();
    let expected = [
        tag::TENANT,
        tag::CLIENT_EHLO,
        tag::FORWARDED,
        tag::OMITTED,
        tag::REQUIRE_TLS,
        tag::TLS_REPORT,
        tag::ALERT,
    ];
    assert_eq!(tags, expected);
    assert!(tags.is_sorted());
}

#[test]
fn the_postmasters_recipients_are_found_again() {
    let meta = kept(&records(&[1, 300], |_, record| record.is_for_postmaster = true));
    let found: Vec<u32> =
        (0..400).filter(|index| StoredFacts::of(&meta).is_for_postmaster(*index)).collect();
    assert_eq!(found, [1, 300]);
    assert!(!StoredFacts::of(&Meta::default()).is_for_postmaster(0));
}

#[test]
fn what_is_asked_of_tls_is_found_again() {
    for asked in [RequireTls::Yes, RequireTls::No] {
        let meta = Facts { require_tls: Some(asked), ..Facts::default() }.to_meta();
        assert_eq!(StoredFacts::of(&meta).require_tls(), Some(asked));
    }
    for unknown in [&[][..], &[3], &[2, 0]] {
        let meta = Meta { fields: vec![(tag::REQUIRE_TLS, Bytes::from_static(unknown))] };
        assert_eq!(StoredFacts::of(&meta).require_tls(), Some(RequireTls::Yes), "{unknown:?}");
    }
}

#[test]
fn hold_of_a_check_is_found_again() {
    let reason = "DMARC:\nquarantine";
    let of_client = Hold { is_returnable: true, peer: "", sender: "a.test", author: "", reason };
    let of_peer = Hold { is_returnable: false, peer: "hub", sender: "", ..of_client };
    for told in [of_client, of_peer] {
        let meta = Facts { held: Some(told), ..Facts::default() }.to_meta();
        assert_eq!(StoredFacts::of(&meta).held(), Some(told));
    }
    for torn in [&b""[..], b"\x01", b"\x01a\nb", b"\x01\xff\n\n"] {
        let meta = Meta { fields: vec![(tag::HELD, Bytes::from_static(torn))] };
        assert_eq!(StoredFacts::of(&meta).held(), None);
    }
}

#[test]
fn client_is_found_again() {
    for ip in ["192.0.2.1", "2001:db8::1"] {
        let mut written = Vec::new();
        let ip: IpAddr = ip.parse().unwrap();
        mail::received::write_address(&mut written, ip);
        let client = Some(ClientAddress(std::str::from_utf8(&written).unwrap()));
        let meta = Facts { client, ..Facts::default() }.to_meta();
        assert_eq!(StoredFacts::of(&meta).client().and_then(ClientAddress::ip), Some(ip));
    }
}

#[test]
fn strangers_are_found_again() {
    for is_vouched in [true, false] {
        let stranger = Some(Stranger { is_vouched });
        let meta = Facts { stranger, ..Facts::default() }.to_meta();
        assert!(StoredFacts::of(&meta).is_from_stranger());
        assert_eq!(StoredFacts::of(&meta).is_unvouched(), !is_vouched);
    }
    assert!(!StoredFacts::of(&Meta::default()).is_from_stranger());
    assert!(!StoredFacts::of(&Meta::default()).is_unvouched());
}

#[test]
fn forwarded_recipients_are_found_again() {
    let meta = kept(&records(&[1, 2, 3, 7, 300], |_, record| record.from = SentFrom::Rewritten));
    assert_eq!(meta.fields[0].1.len(), 3 * 8);
    let found: Vec<u32> =
        (0..400).filter(|index| StoredFacts::of(&meta).is_forwarded(*index)).collect();
    assert_eq!(found, [1, 2, 3, 7, 300]);
    let torn = Meta { fields: vec![(tag::FORWARDED, Bytes::from_static(&[1; 7]))] };
    assert!(
        !StoredFacts::of(&torn).is_forwarded(1)
            && !StoredFacts::of(&Meta::default()).is_forwarded(0)
    );
}

#[test]
fn owners_are_found_by_the_recipients_of_their_lists() {
    let owner = |name: &str, to: &[&str]| {
        let reports_to = to.iter().map(|to| address(to)).collect();
        Arc::new(Owner { address: address(name), reports_to })
    };
    let (a, b) = (owner("owner-a@x", &["jo@x", "al@y"]), owner("owner-b@x", &["bo@x"]));
    let of = |index: u32, record: &mut RecipientFacts| {
        record.from = SentFrom::Owner(Arc::clone(if index == 3 { &b } else { &a }));
    };
    let meta = kept(&records(&[1, 2, 3, 7], of));
    let found = |index| {
        StoredFacts::of(&meta).owner_of(index).map(|owner| (owner.address, owner.reports_to))
    };
    for index in [1, 2, 7] {
        assert_eq!(found(index), Some(("owner-a@x", "jo@x\nal@y")));
    }
    assert_eq!(found(3), Some(("owner-b@x", "bo@x")));
    assert_eq!(StoredFacts::of(&meta).owner_of(7).and_then(KeptOwner::read).as_ref(), Some(&*a));
    assert_eq!((found(0), found(4), found(8)), (None, None, None));
    for torn in cuts(&meta) {
        assert_eq!(StoredFacts::of(&torn).owner_of(3), None);
    }
}

#[test]
fn who_was_refused_is_found_again_with_the_reason() {
    let (of_loop, of_name) =
        (Refusal::permanent((4, 6), "it loops"), Refusal::permanent((1, 1), "nobody"));
    let of = |index: u32, record: &mut RecipientFacts| {
        record.refused = Some(if index == 2 { of_name.clone() } else { of_loop.clone() });
    };
    let meta = kept(&records(&[0, 2, 3], of));
    assert_eq!(StoredFacts::of(&meta).refusal_of(1), None);
    let failure = |index| failure_of_refused(StoredFacts::of(&meta).refusal_of(index)?);
    let status = |index| failure(index).map(|failure| failure.status.to_string());
    assert_eq!(
        (status(0), status(2), status(3)),
        (Some("5.4.6".to_owned()), Some("5.1.1".to_owned()), Some("5.4.6".to_owned()))
    );
    assert_eq!(failure(2).map(|failure| failure.text), Some("nobody".into()));
    for route in ["", "far", "postmaster", "<refused> ", "<refused> 5.x.1 y"] {
        assert!(failure_of_refused(route).is_none(), "{route}");
    }
    for torn in cuts(&meta) {
        assert!(StoredFacts::of(&torn).refusal_of(1).is_none());
    }
    assert_eq!(part(&[4, 0, 0, 0, b'a']), None);
}

#[test]
fn a_field_that_is_cut_short_is_none() {
    let fields = vec![(tag::NOT_BEFORE, Bytes::from_static(&[1, 2, 3]))];
    assert_eq!(StoredFacts::of(&Meta { fields }).not_before(), None);
    let fields = vec![(tag::CLIENT_EHLO, Bytes::from_static(&[0xff]))];
    let meta = Meta { fields };
    assert_eq!((StoredFacts::of(&meta).helo(), StoredFacts::of(&meta).listener()), (None, None));
}

#[test]
fn records_follow_their_recipients_when_one_is_removed() {
    let recipient = |name: &str| mail::Recipient {
        mailbox: address(name),
        notify: mail::Notify::UNSPECIFIED,
        orcpt: None,
    };
    let (list, other) = (Rc::new(address("list@x")), Rc::new(address("other@x")));
    let mut recipients: Vec<_> = ["a@x", "b@x", "c@x", "d@x"].map(recipient).into();
    let mut all = records(&[1, 2], |index, record| {
        record.stands_for.push(Rc::clone(&list));
        if index == 2 {
            record.stands_for.push(Rc::clone(&other));
            record.from = SentFrom::Rewritten;
        }
    });
    assert!(all.remove(&mut recipients, &list));
    let names = |recipients: &[mail::Recipient]| -> Vec<String> {
        recipients.iter().map(|recipient| recipient.mailbox.to_string()).collect()
    };
    assert_eq!(names(&recipients), ["a@x", "c@x", "d@x"], "b stood for the list alone");
    assert_eq!(all.stands_for(1), [Rc::clone(&other)]);
    assert!(StoredFacts::of(&kept(&all)).is_forwarded(1));
    // A recipient that stands for other addresses is not removed by its own name.
    assert!(all.remove(&mut recipients, &address("c@x")));
    assert_eq!(names(&recipients), ["a@x", "c@x", "d@x"]);
    assert!(all.remove(&mut recipients, &address("a@x")) && all.remove(&mut recipients, &other));
    assert!(!all.remove(&mut recipients, &address("d@x")), "one is left");
    assert_eq!(names(&recipients), ["d@x"]);
}
