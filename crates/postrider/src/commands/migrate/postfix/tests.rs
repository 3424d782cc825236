//! Whole configurations.

use super::*;
use crate::commands::migrate::report::{Remark, Verdict};
use std::fs;
use tempfile::TempDir;

/// A directory with these files; `{dir}` in them is its path.
fn site(files: &[(&str, &str)]) -> TempDir {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().display().to_string();
    for (name, text) in files {
        fs::write(place.path().join(name), text.replace("{dir}", &dir)).unwrap();
    }
    place
}

const MASTER: &str = "smtp inet n - y - - smtpd\n";

fn translated(files: &[(&str, &str)]) -> Result<(String, Vec<Remark>, Vec<String>), Vec<String>> {
    let place = site(files);
    let accounts = place.path().join("passwd");
    let out = place.path().join("out");
    let around = Surroundings { out: &out, accounts: &accounts, host: "mail.example.org" };
    let migrated = migrate(place.path(), &around)?;
    let dir = place.path().display().to_string();
    let text = migrated.config.text("").replace(&dir, "{dir}");
    let made = migrated.config.files.iter().map(|file| file.content.clone()).collect();
    Ok((text, migrated.report.remarks().to_vec(), made))
}

fn text_of(files: &[(&str, &str)]) -> String {
    translated(files).unwrap().0
}

#[test]
fn null_client_relays_by_its_smarthost() {
    let main =
        "relayhost = [smart.example.net]:587\nmydestination =\ninet_interfaces = loopback-only\n";
    let text = text_of(&[("main.cf", main), ("master.cf", MASTER)]);
    assert!(
        text.contains("smtp = { hosts = [\"smart.example.net:587\"], tls = \"off\" }"),
        "{text}"
    );
    assert!(text.contains("address = \"127.0.0.1:25\""), "{text}");
    assert!(text.contains("relay_from = [\"127.0.0.0/8\", \"::1/128\"]"), "{text}");
    assert!(text.contains("recipient_delimiter = \"\""), "{text}");
    assert!(
        text.contains("give_up_after = \"5d\"") && text.contains("warn_after = \"0s\""),
        "{text}"
    );
}

#[test]
fn unknown_parameters_are_reported() {
    let main = "mydestination =\nmynetwork = 10.0.0.0/8\nsmtp_line_length_limit = 9\nbiff = no\n";
    let (_, remarks, _) = translated(&[("main.cf", main), ("master.cf", MASTER)]).unwrap();
    let of = |name: &str| remarks.iter().find(|remark| remark.subject == name).cloned();
    let unknown = of("mynetwork").unwrap();
    assert_eq!((unknown.verdict, unknown.origin.line), (Verdict::Missing, 2));
    assert!(unknown.why.contains("unknown to Postfix"), "{unknown:?}");
    assert_eq!(of("smtp_line_length_limit").unwrap().verdict, Verdict::Missing);
    assert_eq!(of("biff").unwrap().verdict, Verdict::Missing);
}

#[test]
fn own_domains_pass_the_refusal_of_all_others() {
    let main = "mydestination =\nrelay_domains = b.test\nrelay_transport = smtp:[c.test]\n\
                default_transport = error\nrelay_recipient_maps =\nparent_domain_matches_subdomains =\n";
    let (text, _, made) = translated(&[("main.cf", main), ("master.cf", MASTER)]).unwrap();
    assert!(text.contains("table = \"outside\""), "{text}");
    let lines = ["/@b\\.test$/ DUNNO\n", "/^/ REJECT 5.7.1 No relaying\n"].concat();
    assert!(made.iter().any(|file| file.ends_with(&lines)), "{made:?}");
}

#[test]
fn size_below_the_minimum_is_reported_as_open() {
    let main = "mydestination =\nmessage_size_limit = 20000\n";
    let (text, remarks, _) = translated(&[("main.cf", main), ("master.cf", MASTER)]).unwrap();
    assert!(text.contains("max_message_bytes = 65536"), "{text}");
    let row = remarks.iter().find(|remark| remark.subject == "message_size_limit").unwrap();
    assert!(row.is_open && row.origin.line == 2, "{row:?}");
}

#[test]
fn report_names_differences_without_a_parameter() {
    let plain = "mydestination =\nalias_maps =\nrelayhost = [a.test]\n";
    let rich = "mydestination = b.test\nalias_maps = texthash:{dir}/a\nsmtp_fallback_relay = [c.test]\n\
                transport_maps = texthash:{dir}/t\nsmtpd_sender_restrictions = reject_unknown_sender_domain\n";
    let files = [
        ("master.cf", MASTER),
        ("a", "root jo\n"),
        ("t", "far.test smtp:[d.test]\n"),
        ("passwd", "jo:x:1000:1000::/home/jo:/bin/sh\n"),
    ];
    let subjects = |main: &str| {
        let files = [&[("main.cf", main)][..], &files].concat();
        let (_, remarks, _) = translated(&files).unwrap();
        remarks.into_iter().map(|remark| (remark.subject, remark.origin.line)).collect::<Vec<_>>()
    };
    let (plain, rich) = (subjects(plain), subjects(rich));
    let of = |all: &[(String, u32)], subject: &str| {
        all.iter().find(|(one, _)| one == subject).map(|(_, line)| *line)
    };
    for all in [&plain, &rich] {
        assert_eq!(of(all, "malformed addresses"), Some(0), "{all:?}");
    }
    for (subject, line) in [
        ("an alias of an unknown address", 2),
        ("tags of local aliases", 2),
        ("a fallback relay, and a domain without a mail host", 3),
        // The entry in the map's file.
        ("far.test", 1),
        ("unknown domain of the sender", 5),
    ] {
        assert_eq!((of(&plain, subject), of(&rich, subject)), (None, Some(line)), "{rich:?}");
    }
}

#[test]
fn unreadable_input_names_file_and_line() {
    let bad = |files: &[(&str, &str)]| {
        let mut errors = translated(files).unwrap_err();
        assert_eq!(errors.len(), 1, "{errors:?}");
        errors.remove(0)
    };
    let why =
        bad(&[("main.cf", "a = b\nmyhostname = $a\na = $myhostname\n"), ("master.cf", MASTER)]);
    assert!(why.contains("main.cf:") && why.contains("leads in a circle"), "{why}");
    let long = format!("mydestination =\n{}", "# x\n".repeat(3_000_000));
    let why = bad(&[("main.cf", &long), ("master.cf", MASTER)]);
    assert!(
        why.contains("main.cf:") && why.ends_with("the file is longer than 1048576 bytes"),
        "{why}"
    );
    let why = bad(&[("master.cf", MASTER)]);
    assert!(why.contains("main.cf: No such file"), "{why}");
    let main =
        "mydestination =\nrelay_domains = example.net\nrelay_recipient_maps = hash:{dir}/x\n";
    let why = bad(&[("main.cf", main), ("master.cf", MASTER)]);
    assert!(
        why.contains("main.cf:3: relay_recipient_maps: ") && why.contains("No such file"),
        "{why}"
    );
    let why = bad(&[("main.cf", main), ("master.cf", MASTER), ("x.db", "\0")]);
    assert!(why.contains("x.db is there, but its source is needed"), "{why}");
    let why = bad(&[("main.cf", main), ("master.cf", MASTER), ("x", "a@b c\nd\0e")]);
    assert!(why.contains("main.cf:3: ") && why.contains("/x:2: binary data"), "{why}");
    let why = bad(&[("main.cf", "mydestination =\n"), ("master.cf", "smtp inet\n")]);
    assert!(why.ends_with("master.cf:1: a service has eight fields"), "{why}");
}

#[test]
fn own_domains_have_recipients_and_transports() {
    let main = "mydestination =\nrelay_domains = example.net\nrelay_recipient_maps = texthash:{dir}/r\n\
                transport_maps = texthash:{dir}/t\n";
    let transport = "jo@example.net smtp:[a.test]\nexample.net smtp:[b.test]:26\n.example.net lmtp:unix:/l\n\
                     other.test smtp:c.test\n";
    let text = text_of(&[
        ("main.cf", main),
        ("master.cf", MASTER),
        ("r", "jo@example.net x\n"),
        ("t", transport),
    ]);
    let places: Vec<usize> = [
        "when = { recipients = { table = \"to-smtp\" } }\nrecipients = { table = \"r\" }\nsmtp = { hosts = [\"a.test\"]",
        "domains = [\"example.net\"]\nrecipients = { table = \"r\" }\nsmtp = { hosts = [\"b.test:26\"]",
        "domains = [\"*.example.net\"]\nrecipients = { table = \"r\" }\nlmtp = { hosts = [\"/l\"]",
        "when = { recipients = [\"@other.test\"] }\nsmtp = { mx_of = \"c.test\"",
        "mx = {",
    ]
    .iter()
    .map(|part| text.find(part).unwrap_or_else(|| panic!("{part}: {text}")))
    .collect();
    assert!(places.is_sorted(), "{places:?}: {text}");
    assert!(text.contains("file = { path = \"{dir}/r\" }"), "{text}");
}

#[test]
fn accounts_and_aliases_get_domains() {
    let main = "myorigin = here.test\nmydestination = here.test\nalias_maps = hash:{dir}/aliases\n";
    let aliases =
        "root: jo, \"|/bin/x y\"\npostmaster: root\nlist: :include:{dir}/list\nlog: /var/log/x\n";
    let passwd = "root:x:0:0::/root:/bin/sh\njo:x:1000:1000::/home/jo:/bin/sh\nwww:x:33:33::/var/www:/bin/sh\n";
    let (text, remarks, made) = translated(&[
        ("main.cf", main),
        ("master.cf", MASTER),
        ("aliases", aliases),
        ("passwd", passwd),
    ])
    .unwrap();
    assert!(made.iter().any(|file| file.ends_with("jo@here.test jo\n")), "{made:?}");
    assert!(
        made.iter().any(|file| file.contains("root@here.test jo\npostmaster@here.test root\n"))
    );
    assert!(
        text.contains("postmaster = \"jo@here.test\"")
            || text.contains("postmaster = \"root@here.test\""),
        "{text}"
    );
    assert!(text.contains("include = [\"{dir}\"]"), "{text}");
    let lines: Vec<u32> = remarks
        .iter()
        .filter(|remark| {
            remark.verdict == Verdict::Missing && remark.origin.file.ends_with("aliases")
        })
        .map(|remark| remark.origin.line)
        .collect();
    assert_eq!(lines, [1, 4]);
    assert!(remarks.iter().any(|remark| remark.subject.contains(".forward")));
}

#[test]
fn restrictions_become_rules_checks_and_services() {
    let main = "mydestination =\nmynetworks = 10.0.0.0/8\nrelay_domains = example.net\nrelay_recipient_maps =\n\
                smtpd_client_restrictions = permit_mynetworks, reject_rbl_client zen.test\n\
                smtpd_recipient_restrictions = check_recipient_access texthash:{dir}/all, permit_mynetworks,\n  \
                check_policy_service { inet:127.0.0.1:10023, timeout=5s, default_action=DUNNO },\n  \
                reject_unknown_reverse_client_hostname\n";
    let (text, remarks, _) =
        translated(&[("main.cf", main), ("master.cf", MASTER), ("all", "x@example.net REJECT\n")])
            .unwrap();
    assert!(text.contains("checks = { dnsbl = { lists = [\"zen.test\"] } }"), "{text}");
    let rule = "by = \"recipient\"\nclients = \"all\"\nlist = \"recipient\"\nparent_domains = true";
    assert!(text.contains(rule), "{text}");
    let service = "service = \"127.0.0.1:10023\"\nclients = \"strangers\"\non_failure = \"accept\"\ntimeout = \"5s\"";
    assert!(text.contains(service), "{text}");
    let open: Vec<&str> = remarks.iter().filter(|r| r.is_open).map(|r| &*r.subject).collect();
    assert_eq!(open, ["smtpd_recipient_restrictions: reject_unknown_reverse_client_hostname"]);
}

#[test]
fn submission_listeners_have_neither_networks_nor_checks() {
    let main = "mydestination =\nmynetworks = 10.0.0.0/8\ncompatibility_level = 3.6\n\
                smtpd_tls_cert_file = {dir}/c\nsmtpd_tls_security_level = may\n\
                smtpd_sasl_type = dovecot\nsmtpd_sasl_path = private/auth\n\
                smtpd_recipient_restrictions = permit_mynetworks, permit_sasl_authenticated,\n  \
                check_policy_service inet:127.0.0.1:10023, reject_rbl_client zen.test\n";
    let master = "127.0.0.1:587 inet n - y - - smtpd -o smtpd_sasl_auth_enable=yes\n\
                  127.0.0.1:25 inet n - y - - smtpd\n";
    let text = text_of(&[("main.cf", main), ("master.cf", master)]);
    let (users, others) = text.split_once("address = \"127.0.0.1:25\"").unwrap();
    assert!(users.contains("logins = { dovecot = \"/var/spool/postfix/private/auth\" }"), "{text}");
    assert!(!users.contains("relay_from") && !users.contains("checks"), "{text}");
    assert!(others.contains("relay_from") && others.contains("zen.test"), "{text}");
    assert!(text.contains("timeout = \"90s\""), "{text}");
}
