//! What a copy of a large directory costs. Run by hand, with 2 GB free in /tmp:
//! `cargo test -p postrider --bin postrider ldap::tests::cost -- --ignored --nocapture`.

use super::run;
use super::slapd::{Slapd, is_possible};
use super::snapshots::{Stand, text, until_within};
use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, Instant};

const USERS: usize = 500_000;

/// A number of `/proc/self/status`, in MiB.
fn status(field: &str) -> f64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with(field)).expect("the field");
    let kib = line.split_whitespace().nth(1).and_then(|n| n.parse::<f64>().ok());
    kib.expect("a number") / 1024.0
}

fn ldif() -> String {
    let mut out = "dn: dc=example,dc=test\nobjectClass: domain\ndc: example\n\n".to_owned();
    for n in 0..USERS {
        let _ = write!(
            out,
            "dn: uid=user{n},dc=example,dc=test\nobjectClass: inetOrgPerson\nuid: user{n}\n\
             cn: user{n}\nsn: user{n}\nmail: user{n}@example.test\n\
             description: /srv/mail/{}/user{n}\n\n",
            n % 256
        );
    }
    out
}

#[test]
#[ignore = "measures"]
fn half_a_million_users() {
    assert!(is_possible());
    for telling in [false, true] {
        let begun = Instant::now();
        let slapd = Slapd::start_large(&ldif(), telling);
        println!("telling of changes: {telling}; slapadd and start: {:.1?}", begun.elapsed());
        run(async {
            let stand = Stand::new();
            // From here on the peak counts.
            fs::write("/proc/self/clear_refs", "5").expect("our own");
            let before = status("RssAnon:");
            let begun = Instant::now();
            let more = "refresh = \"1h\", timeout = \"60s\"";
            let users = stand.open(&[&slapd.url()], "(mail=%s)", more);
            let wait = Duration::from_secs(300);
            until_within(wait, "it is read", || users.status().entries > 0).await;
            println!(
                "{} entries in {:.1?}; {:.0} MiB at the peak, {before:.0} before, {:.0} afterwards; \
                 a file of {} MB",
                users.status().entries,
                begun.elapsed(),
                status("VmHWM:"),
                status("RssAnon:"),
                fs::metadata(stand.path()).expect("a file").len() / 1_000_000
            );
            let keys: Vec<String> = (0..100_000)
                .map(|n: usize| format!("user{}@example.test", n * 7_919 % USERS))
                .collect();
            for round in 0..3 {
                let begun = Instant::now();
                for key in &keys {
                    assert!(text(&users, key).starts_with("/srv/mail/"));
                }
                let each = begun.elapsed().as_nanos() / keys.len() as u128;
                println!("round {round}: {each} ns for a lookup");
            }
            drop(users);
            let begun = Instant::now();
            let users = stand.open(&[&slapd.url()], "(mail=%s)", more);
            assert!(text(&users, &keys[1]).starts_with("/srv/mail/"));
            println!("after a restart: the first answer in {:.1?}", begun.elapsed());
        });
    }
}
