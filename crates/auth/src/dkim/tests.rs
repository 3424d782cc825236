use super::*;
use crate::arc;
use crate::checks::{CheckSelection, Subject, check};
use crate::testing::{Zone, now};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const KEY: &str = "s._domainkey.a.example";

/// A message signed by a.example, with these tags beside the usual ones, and the zone with the key
/// under these tags.
fn signed(tags: &str, key_tags: &str, body: &str) -> (String, Zone) {
    let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
    let hash = {
        let mut hash = canonical::BodyHash::new(Canonicalization::Relaxed, None);
        hash.push(body.as_bytes());
        STANDARD.encode(hash.finish().hash)
    };
    let from = "From: a@a.example\r\n";
    let field = format!(
        "DKIM-Signature: v=1; a=ed25519-sha256; c=relaxed/relaxed; d=a.example; s=s; h=From;{tags} \
         bh={hash}; b="
    );
    let mut input = Vec::new();
    write_field(from.as_bytes(), Canonicalization::Relaxed, &mut input);
    write_last_field(format!("{field}\r\n").as_bytes(), Canonicalization::Relaxed, &mut input);
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &input);
    let signature = STANDARD.encode(pair.sign(digest.as_ref()));
    let key = STANDARD.encode(pair.public_key().as_ref());
    let record = format!("v=DKIM1; k=ed25519;{key_tags} p={key}");
    let zone = Zone { txt: vec![(KEY, record)], ..Zone::default() };
    (format!("{field}{signature}\r\n{from}\r\n{body}"), zone)
}

fn verdicts(zone: &Zone, message: &str, now_s: u64) -> (Vec<DkimVerification>, arc::ArcValidation) {
    let asked = CheckSelection { dkim: true, arc: true, ..CheckSelection::default() };
    let mut scan = asked.scan();
    scan.push(message.as_bytes());
    let message = scan.finish();
    let subject = Subject { question: None, message: &message, now: now_s, chance: 0 };
    let verdicts = now(check(zone, asked, subject));
    (verdicts.dkim.unwrap(), verdicts.arc.unwrap())
}

fn verdict(zone: &Zone, message: &str) -> DkimResult {
    overall(&verdicts(zone, message, 1_000).0)
}

#[test]
fn a_signature_fits_its_message_and_no_other() {
    let (message, zone) = signed("", "", "Hello  you\r\n");
    assert_eq!(verdict(&zone, &message), DkimResult::Pass);
    assert_eq!(verdict(&zone, &message.replace("Hello  you", "Hello you ")), DkimResult::Pass);
    assert_eq!(verdict(&zone, &message.replace("Hello", "Hallo")), DkimResult::Fail);
    assert_eq!(verdict(&zone, &message.replace("From: a@", "From: b@")), DkimResult::Fail);
    assert_eq!(verdict(&zone, "From: a@a.example\r\n\r\n"), DkimResult::None);
    // A second From below it is not the one that was signed, one above is not signed.
    let twice = message.replace("\r\n\r\nHello", "\r\nFrom: b@b.example\r\n\r\nHello");
    assert_eq!(verdict(&zone, &twice), DkimResult::Fail);
}

#[test]
fn what_is_beside_the_signature_counts() {
    for (tags, key_tags, expected) in [
        (" x=999;", "", DkimResult::Fail),
        (" x=1000;", "", DkimResult::Pass),
        (" l=3;", "", DkimResult::Fail),
        (" l=12;", "", DkimResult::Fail),
        (" i=me@x.a.example;", "", DkimResult::Pass),
        (" i=me@x.a.example;", " t=s;", DkimResult::PermError),
        (" i=me@b.example;", "", DkimResult::Neutral),
        ("", " s=chat;", DkimResult::PermError),
        ("", " h=sha1;", DkimResult::PermError),
    ] {
        let (message, zone) = signed(tags, key_tags, "Hello\r\n");
        assert_eq!(verdict(&zone, &message), expected, "{tags} {key_tags}");
    }
    let (message, _) = signed("", "", "Hello\r\n");
    assert_eq!(verdict(&Zone::of(&[(KEY, "?")]), &message), DkimResult::TempError);
    assert_eq!(verdict(&Zone::of(&[(KEY, "p=")]), &message), DkimResult::PermError);
    assert_eq!(verdict(&Zone::default(), &message), DkimResult::PermError);
}

#[test]
fn a_signature_of_the_bodys_beginning_is_not_one_of_the_message() {
    let (message, zone) = signed(" l=7;", "", "Hello\r\n");
    assert_eq!(verdict(&zone, &message), DkimResult::Pass);
    assert_eq!(verdict(&zone, &format!("{message}more\r\n")), DkimResult::Policy);
}

#[test]
fn a_good_signature_among_bad_ones_is_enough_if_it_is_looked_at() {
    let (message, zone) = signed("", "", "Hello\r\n");
    let bad = "DKIM-Signature: v=1\r\n";
    let (outcomes, _) = verdicts(&zone, &(bad.repeat(9) + &message), 0);
    assert_eq!((outcomes.len(), overall(&outcomes)), (10, DkimResult::Pass));
    let (outcomes, _) = verdicts(&zone, &(bad.repeat(10) + &message), 0);
    assert_eq!((outcomes.len(), overall(&outcomes)), (10, DkimResult::Neutral));
    assert_eq!(zone.asked.get(), 1);
}

#[test]
fn a_chain_has_at_most_fifty_sets() {
    let set = |i: u32| {
        let says = if i == 1 { "none" } else { "pass" };
        let seal = "a=rsa-sha256; d=far.test; s=s; b=YQ==";
        format!(
            "ARC-Seal: i={i}; cv={says}; {seal}\r\n\
             ARC-Message-Signature: i={i}; {seal}; h=From; bh=YQ==\r\n\
             ARC-Authentication-Results: i={i}; far.test; none\r\n"
        )
    };
    let chain = |count: u32| (1..=count).map(set).collect::<String>() + "\r\nbody\r\n";
    let reason = |message: &str| verdicts(&Zone::default(), message, 0).1.reason;
    assert_eq!(reason(&chain(arc::SETS_MAX)), "the body was changed");
    assert_eq!(reason(&chain(arc::SETS_MAX + 1)), "an instance outside 1 to 50");
    let chained = chain(3);
    assert_eq!(reason(&chained.replace("i=2;", "i=1;")), "an instance has several ARC-Seals");
    assert_eq!(reason(&chained.replace("i=1;", "i=4;")), "an instance is missing");
    let broken = chained.replace("cv=pass", "cv=fail");
    assert_eq!(reason(&broken), "seal 2 reports a broken chain");
    assert_eq!(reason("\r\n"), "");
}

#[test]
fn a_second_author_and_a_domain_that_is_testing() {
    let (message, zone) = signed("", "", "Hello you\r\n");
    let above = format!("From: c@bank.example\r\n{message}");
    assert_eq!(verdict(&zone, &above), DkimResult::Policy);
    let (message, zone) = signed("", " t=y;", "Hello you\r\n");
    assert_eq!(verdict(&zone, &message), DkimResult::Pass);
    let changed = message.replace("From: a@", "From: b@");
    let outcomes = verdicts(&zone, &changed, 1_000).0;
    assert_eq!(overall(&outcomes), DkimResult::None);
    assert!(outcomes[0].reason.contains("test mode"), "{}", outcomes[0].reason);
}

#[test]
fn names_of_keys_have_an_end() {
    let selector = |bytes: usize| {
        let label = "s".repeat(60);
        format!("{label}.{label}.{label}.{}", "s".repeat(bytes - 183))
    };
    let own = "._domainkey.a.example".len();
    for (bytes, expected) in [(253 - own, DkimResult::PermError), (254 - own, DkimResult::Neutral)]
    {
        let (message, zone) = signed("", "", "x\r\n");
        let message = message.replace("s=s;", &format!("s={};", selector(bytes)));
        assert_eq!(verdict(&zone, &message), expected, "{bytes}");
    }
}

/// A zone that gives no answer to the first question, as long as it is waited for.
struct Slow {
    zone: Zone,
    is_first: std::cell::Cell<bool>,
}

impl Records for Slow {
    async fn txt(&self, name: &str) -> crate::records::DnsAnswer<Vec<u8>> {
        if self.is_first.replace(false) {
            std::future::pending::<()>().await;
        }
        self.zone.txt(name).await
    }

    async fn addresses(
        &self,
        host: &str,
        family: crate::records::Family,
    ) -> crate::records::DnsAnswer<std::net::IpAddr> {
        self.zone.addresses(host, family).await
    }

    async fn mail_hosts(&self, domain: &str) -> crate::records::DnsAnswer<String> {
        self.zone.mail_hosts(domain).await
    }

    async fn names(&self, address: std::net::IpAddr) -> crate::records::DnsAnswer<String> {
        self.zone.names(address).await
    }
}

#[test]
fn a_slow_key_leaves_the_others_their_time() {
    let (message, zone) = signed("", "", "x\r\n");
    let other = message.split_inclusive("\r\n").next().unwrap().replace("a.example", "b.example");
    let mut scan = CheckSelection { dkim: true, ..CheckSelection::default() }.scan();
    scan.push(format!("{other}{message}").as_bytes());
    let message = scan.finish();
    let slow = Slow { zone, is_first: true.into() };
    let mut verifying = std::pin::pin!(verify(&slow, &message, 1_000));
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(verifying.as_mut().poll(&mut cx).is_pending());
    // The second key was asked for all the same.
    assert_eq!(slow.zone.asked.get(), 1);
}
