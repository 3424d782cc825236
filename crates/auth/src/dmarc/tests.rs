use super::*;
use crate::scan::{Scan, ScanOptions};
use crate::testing::{Zone, now};

/// A message by this author.
fn by(from: &str) -> Scanned {
    let mut scan = Scan::new(ScanOptions::default());
    scan.push(format!("From: {from}\r\n\r\n").as_bytes());
    scan.finish()
}

fn spf(verdict: spf::SpfResult, domain: &str) -> spf::SpfEvaluation {
    spf::SpfEvaluation { verdict, domain: domain.into(), ..spf::SpfEvaluation::unknown() }
}

fn dkim(verdict: dkim::DkimResult, domain: &str) -> dkim::DkimVerification {
    let algorithm = dkim::Algorithm::Ed25519Sha256;
    let signer = dkim::Signer { domain: domain.into(), selector: "s".into(), algorithm };
    dkim::DkimVerification { verdict, reason: String::new(), signer: Some(signer) }
}

fn outcome(
    zone: &Zone,
    from: &str,
    spf: &spf::SpfEvaluation,
    dkim: &[dkim::DkimVerification],
    chance: u8,
) -> DmarcEvaluation {
    match now(discover(zone, &by(from))) {
        Ok(found) => now(evaluate(zone, found, spf, dkim, chance)),
        Err(outcome) => outcome,
    }
}

/// The verdict and what is wished, without a good SPF or DKIM.
fn wish_for(zone: &Zone, from: &str) -> (DmarcResult, RequestedPolicy) {
    let none = spf(spf::SpfResult::None, "");
    let outcome = outcome(zone, from, &none, &[], 0);
    (outcome.verdict, outcome.wish)
}

#[test]
fn the_policy_is_the_domains_own_or_that_of_its_organization() {
    let zone = Zone::of(&[
        ("_dmarc.a.example", "v=DMARC1; p=reject; sp=quarantine"),
        ("_dmarc.own.a.example", "v=DMARC1; p=none"),
        ("_dmarc.reg", "v=DMARC1; p=reject; sp=quarantine; psd=y"),
        ("_dmarc.b.reg", "v=DMARC1; p=none"),
        ("_dmarc.dead.test", "?"),
    ]);
    for (from, expected) in [
        ("a@a.example", (DmarcResult::Fail, RequestedPolicy::Reject)),
        ("a@x.y.a.example", (DmarcResult::Fail, RequestedPolicy::Quarantine)),
        ("a@own.a.example", (DmarcResult::Fail, RequestedPolicy::None)),
        ("a@b.reg", (DmarcResult::Fail, RequestedPolicy::None)),
        ("a@c.reg", (DmarcResult::Fail, RequestedPolicy::Quarantine)),
        ("a@none.test", (DmarcResult::None, RequestedPolicy::None)),
        ("a@dead.test", (DmarcResult::TempError, RequestedPolicy::None)),
        ("a@a.example, b@none.test", (DmarcResult::PermError, RequestedPolicy::None)),
        ("a@a.example, b@A.example", (DmarcResult::Fail, RequestedPolicy::Reject)),
        ("Nobody:;", (DmarcResult::None, RequestedPolicy::None)),
    ] {
        assert_eq!(wish_for(&zone, from), expected, "{from}");
    }
}

#[test]
fn a_long_name_is_walked_in_eight_steps() {
    let zone = Zone::of(&[("_dmarc.d.e.f.g.h.i.test", "v=DMARC1; p=reject")]);
    assert_eq!(wish_for(&zone, "a@1.2.3.4.5.a.b.c.d.e.f.g.h.i.test").0, DmarcResult::Fail);
    assert_eq!(zone.asked.get(), STEPS_MAX as u32);
    let zone = Zone::of(&[("_dmarc.c.d.e.f.g.h.i.test", "v=DMARC1; p=reject")]);
    assert_eq!(wish_for(&zone, "a@1.2.3.4.5.a.b.c.d.e.f.g.h.i.test").0, DmarcResult::None);
}

#[test]
fn a_pass_counts_for_the_authors_organization_only() {
    let relaxed = "v=DMARC1; p=reject";
    let zone = Zone::of(&[
        ("_dmarc.a.example", relaxed),
        ("_dmarc.s.example", "v=DMARC1; p=reject; adkim=s; aspf=s"),
        ("_dmarc.other.a.example", "v=DMARC1; p=reject; psd=n"),
    ]);
    let (pass, fail) = (DmarcResult::Pass, DmarcResult::Fail);
    for (from, domain, expected) in [
        ("a@a.example", "a.example", pass),
        ("a@a.example", "x.a.example", pass),
        ("a@x.a.example", "a.example", pass),
        ("a@a.example", "other.a.example", fail),
        ("a@a.example", "example", fail),
        ("a@a.example", "aa.example", fail),
        ("a@s.example", "s.example", pass),
        ("a@s.example", "x.s.example", fail),
    ] {
        let none = spf(spf::SpfResult::None, "");
        let by_spf = outcome(&zone, from, &spf(spf::SpfResult::Pass, domain), &[], 0);
        let signed = [dkim(dkim::DkimResult::Fail, from), dkim(dkim::DkimResult::Pass, domain)];
        let by_dkim = outcome(&zone, from, &none, &signed, 0);
        assert_eq!((by_spf.verdict, by_dkim.verdict), (expected, expected), "{from} {domain}");
        let by_others = outcome(
            &zone,
            from,
            &spf(spf::SpfResult::SoftFail, domain),
            &[dkim(dkim::DkimResult::Policy, domain)],
            0,
        );
        assert_eq!(by_others.verdict, fail, "{from} {domain}");
    }
}

#[test]
fn what_may_yet_pass_does_not_fail() {
    let zone = Zone::of(&[("_dmarc.a.example", "v=DMARC1; p=reject")]);
    let open = dkim(dkim::DkimResult::TempError, "a.example");
    let elsewhere = dkim(dkim::DkimResult::TempError, "b.example");
    let none = spf(spf::SpfResult::None, "");
    let verdict = |spf: &spf::SpfEvaluation, dkim: &[dkim::DkimVerification]| {
        outcome(&zone, "a@a.example", spf, dkim, 0).verdict
    };
    assert_eq!(verdict(&none, std::slice::from_ref(&open)), DmarcResult::TempError);
    assert_eq!(verdict(&none, &[elsewhere]), DmarcResult::Fail);
    assert_eq!(verdict(&spf(spf::SpfResult::TempError, "a.example"), &[]), DmarcResult::TempError);
    assert_eq!(verdict(&spf(spf::SpfResult::Pass, "a.example"), &[open]), DmarcResult::Pass);
}

#[test]
fn a_part_of_all_messages_gets_what_is_milder() {
    let zone = Zone::of(&[
        ("_dmarc.a.example", "v=DMARC1; p=reject; pct=30"),
        ("_dmarc.t.example", "v=DMARC1; p=quarantine; t=y"),
    ]);
    let none = spf(spf::SpfResult::None, "");
    let wish = |from, chance| outcome(&zone, from, &none, &[], chance).wish;
    assert_eq!(
        [29, 30].map(|chance| wish("a@a.example", chance)),
        [RequestedPolicy::Reject, RequestedPolicy::Quarantine]
    );
    assert_eq!(wish("a@t.example", 0), RequestedPolicy::None);
}

#[test]
fn names_that_do_not_exist_may_have_a_policy_of_their_own() {
    let zone = Zone {
        hosts: vec!["there.a.example"],
        ..Zone::of(&[("_dmarc.a.example", "v=DMARC1; p=none; sp=quarantine; np=reject")])
    };
    assert_eq!(wish_for(&zone, "a@a.example").1, RequestedPolicy::None);
    assert_eq!(wish_for(&zone, "a@there.a.example").1, RequestedPolicy::Quarantine);
    assert_eq!(wish_for(&zone, "a@x.a.example").1, RequestedPolicy::Reject);
}

#[test]
fn what_is_wanted_to_be_heard_of_has_both_alignments() {
    let zone = Zone::of(&[
        ("_dmarc.a.example", "v=DMARC1; p=reject; pct=0; rua=mailto:r@a.example"),
        ("_dmarc.b.example", "v=DMARC1; p=reject"),
    ]);
    let pass = spf(spf::SpfResult::Pass, "a.example");
    let signed = [dkim(dkim::DkimResult::Pass, "a.example")];
    let applied = |from, spf: &spf::SpfEvaluation, dkim: &[dkim::DkimVerification]| {
        outcome(&zone, from, spf, dkim, 0).applied
    };
    let both = applied("x@y.a.example", &pass, &signed).unwrap();
    assert!(both.is_spf_aligned && both.is_dkim_aligned && both.is_milder);
    assert_eq!((both.of.as_str(), both.report_to()), ("a.example", "mailto:r@a.example"));
    let one = applied("x@a.example", &pass, &[]).unwrap();
    assert!(one.is_spf_aligned && !one.is_dkim_aligned);
    assert_eq!(applied("x@b.example", &pass, &signed), None);
}

#[test]
fn the_authors_own_signature_is_not_hidden_by_others() {
    let zone = Zone::of(&[("_dmarc.a.example", "v=DMARC1; p=reject")]);
    let none = spf(spf::SpfResult::None, "");
    let pass = |domain: &str| dkim(dkim::DkimResult::Pass, domain);
    let mut signers: Vec<_> = (0..6).map(|n| pass(&format!("esp{n}.example"))).collect();
    signers.extend((0..6).map(|n| dkim(dkim::DkimResult::TempError, &format!("x{n}.a.example"))));
    signers.push(pass("a.example"));
    assert_eq!(outcome(&zone, "a@a.example", &none, &signers, 0).verdict, DmarcResult::Pass);
}
