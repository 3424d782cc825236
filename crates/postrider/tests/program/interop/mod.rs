//! Mail through other people's servers: from a client by one Postrider to Postfix, Exim, OpenSMTPD,
//! go-smtp or aiosmtpd, from there to another Postrider, and from that to a peer that keeps every octet.
//! So each of them is a next hop and a client of ours, and one table of cases is played over all.
//!
//! Each test starts its servers once. They need root: on a machine of one's own, others skip.

mod aiosmtpd;
mod cases;
mod chain;
mod checked_lines;
mod contents;
mod dovecot;
mod exim;
mod first_mail;
mod go_smtp;
mod greylist;
mod haproxy;
mod header_checks;
mod junk;
pub(crate) mod milters;
mod nginx;
mod opensmtpd;
pub(crate) mod place;
mod policy;
pub(crate) mod postfix;
mod proxies;
mod redis;
mod restrictions;
mod rewriting;
mod set_ups;

use crate::support::client::Client;
use crate::support::foreign::is_installed;
use crate::support::server::{Answer, Server, command, program};
use crate::support::{Files, config, wait_until};
use cases::play;
use chain::Chain;
use place::is_possible;

#[test]
fn postfix_takes_and_passes_on() {
    if is_possible(&["postgrey"]) {
        play(&Chain::start(postfix::start));
    }
}

#[test]
fn postfix_judges_access_rules() {
    if postfix::is_startable() {
        restrictions::rules_mean_what_they_mean_in_postfix();
    }
}

#[test]
fn postfix_judges_forms_of_names() {
    if postfix::is_startable() {
        restrictions::forms_are_refused_as_by_postfix();
    }
}

#[test]
fn haproxy_passes_connections_on() {
    if is_possible(&["haproxy"]) {
        haproxy::clients_are_known_behind_it();
    }
}

#[test]
fn nginx_passes_strangers_and_users_on() {
    if is_possible(&["nginx-light", "libnginx-mod-mail"]) {
        nginx::clients_behind_it_stay_who_they_are();
    }
}

#[test]
fn proxies_send_in_place_of_this_server() {
    if is_possible(&["dante-server", "haproxy"]) {
        proxies::mail_goes_from_where_the_proxies_are();
    }
}

#[test]
fn dead_proxies_are_left_out() {
    if is_possible(&["dante-server"]) {
        proxies::a_source_whose_proxy_is_dead_is_out();
        proxies::what_a_proxy_says_of_the_peer_is_the_peer_s();
    }
}

#[test]
fn postfix_is_put_off_and_remembered() {
    if is_possible(&["postgrey"]) {
        greylist::postfix_comes_again_and_is_remembered();
    }
}

#[test]
fn redis_knows_where_mailboxes_are() {
    if is_possible(&["redis-server"]) {
        redis::entries_name_mailboxes();
    }
}

#[test]
fn postgrey_is_asked_about_recipients() {
    if is_possible(&["postgrey"]) {
        policy::postgrey_puts_off_and_then_takes();
    }
}

#[test]
fn postfwd_is_asked_about_recipients() {
    if is_possible(&["postfwd"]) {
        policy::postfwd_goes_by_its_rules();
    }
}

#[test]
fn rspamd_is_asked_about_messages() {
    if is_possible(&["rspamd"]) {
        milters::rspamd_marks_and_refuses();
    }
}

#[test]
fn rspamd_verifies_the_first_mail_after_init() {
    if is_possible(&["rspamd"]) && postfix::is_startable() {
        first_mail::init_leads_to_signed_mail();
    }
}

#[test]
fn rspamd_fills_the_junk_folder() {
    if is_possible(&["rspamd"]) {
        junk::marked_mail_goes_to_the_junk_folder();
        junk::checks_remove_forged_marks();
    }
}

#[test]
fn opendkim_signs_and_verifies_as_a_milter() {
    if is_possible(&["opendkim"]) {
        milters::opendkim_signs_and_verifies();
    }
}

#[test]
fn libmilter_changes_messages() {
    if is_possible(&["python3-milter"]) {
        milters::libmilter_changes_what_it_may();
    }
}

#[test]
fn exim_takes_and_passes_on() {
    if is_possible(&["exim4-daemon-light"]) {
        play(&Chain::start(exim::start));
    }
}

#[test]
fn opensmtpd_takes_and_passes_on() {
    if is_possible(&["opensmtpd"]) {
        play(&Chain::start(opensmtpd::start));
    }
}

#[test]
fn aiosmtpd_takes_and_smtplib_passes_on() {
    play(&Chain::start(aiosmtpd::start));
}

#[test]
fn go_smtp_takes_and_passes_on() {
    if is_installed("go") {
        play(&Chain::start(go_smtp::start));
    }
}

#[test]
fn dovecot_takes_lmtp_on_a_unix_socket() {
    if !is_possible(&["dovecot-lmtpd"]) {
        return;
    }
    let (dovecot, files) = (dovecot::start(), Files::new());
    let route = |domain: &str, path: &str| {
        format!("[[route]]\ndomains = [\"{domain}\"]\nlmtp = {{ hosts = [\"{path}\"] }}\n")
    };
    let stale = files.path("stale").display().to_string();
    drop(std::os::unix::net::UnixListener::bind(&stale).expect("a socket"));
    let routes = [
        route("box.test", &dovecot.socket()),
        route("gone.test", "/nonexistent/lmtp"),
        route("stale.test", &stale),
        "[[route]]\nmaildir = { path = \"mail/{local}\" }\n".to_owned(),
    ];
    let server = Server::start(&files, &config(&routes.concat()));
    let mut client = Client::connect(server.address());
    let to = ["a@box.test", "full@box.test", "nobody@box.test", "b@box.test"];
    client.mail("me@source.test", &to, "Subject: x\r\n\r\nto several\r\n.. dots\r\n");
    wait_until("both mailboxes", || ["a", "b"].iter().all(|user| dovecot.mail(user).len() == 1));
    // RFC 2033 §4.2: one reply for each.
    let told = |kind: &str, count: usize| {
        let events = files.wait_events(kind, count).into_iter();
        let mut of: Vec<_> = events.filter(|event| event["route"] == "route-1").collect();
        of.sort_by_key(|event| event["recipient"].to_string());
        of
    };
    // RFC 2033 §2: an LMTP server doesn't relay.
    let delivered = told("delivered", 2);
    assert_eq!(delivered.len(), 2, "{delivered:#?}");
    assert_eq!(delivered[0]["next_hop"], dovecot.socket(), "{delivered:#?}");
    let failed = told("failed", 2);
    assert_eq!(failed[0]["recipient"], "full@box.test", "{failed:#?}");
    assert_eq!(failed[0]["status"], "5.2.2", "{failed:#?}");
    assert_eq!(failed[1]["recipient"], "nobody@box.test", "{failed:#?}");
    assert_eq!(failed[1]["status"], "5.1.1", "{failed:#?}");
    assert!(dovecot.mail("a")[0].ends_with(b"\nto several\n. dots\n"));
    // What can't be reached is named.
    for (domain, path, why) in [
        ("gone.test", "/nonexistent/lmtp", "No such file or directory"),
        ("stale.test", stale.as_str(), "Connection refused"),
    ] {
        client.mail("me@source.test", &[&format!("u@{domain}")], "Subject: x\r\n\r\nx\r\n");
        wait_until("it is told why", || {
            let mut events = files.events_of("suspended").into_iter();
            events.any(|event| {
                event["culprit_name"] == path && event["reason"].to_string().contains(why)
            })
        });
    }
    server.stop();
}

#[test]
fn dovecots_have_the_users_that_a_table_says() {
    if !is_possible(&["dovecot-lmtpd"]) {
        return;
    }
    let (one, two, files) = (dovecot::start(), dovecot::start(), Files::new());
    let build = |users: &[(&str, &str)]| {
        let line = |(user, host): &(&str, &str)| format!("{user}@box.test\t{host}\n");
        let lines: String = users.iter().map(line).collect();
        std::fs::write(files.path("users.tsv"), lines).expect("a file");
        let words =
            ["table", "build", "--format", "tsv", "--from", "users.tsv", "--to", "users.db"];
        let Answer { code, err, .. } = program(files.dir(), &words);
        assert_eq!(code, 0, "{err}");
    };
    build(&[("a", &one.socket()), ("b", &two.socket())]);
    let text = "[[table]]\nname = \"users\"\ndatabase = { path = \"users.db\" }\n\
                [[route]]\nname = \"backends\"\ndomains = [\"box.test\"]\n\
                recipients = { table = \"users\" }\nlmtp = { hosts = [\"{value}\"] }\n\
                [[route]]\ndiscard = {}\n";
    let server = Server::start(&files, &config(text));
    let mut client = Client::connect(server.address());
    let to = ["a@box.test", "b@box.test"];
    client.mail("me@source.test", &to, "Subject: x\r\n\r\nto both\r\n");
    wait_until("both mailboxes", || one.mail("a").len() == 1 && two.mail("b").len() == 1);
    assert_eq!((one.mail("b").len(), two.mail("a").len()), (0, 0));
    let explained = command(files.dir(), &["explain", "a@box.test"]).out;
    let wanted = format!("lmtp:backends:{}", one.socket());
    assert!(explained.contains(&wanted), "{wanted} in\n{explained}");
    // A machine goes, and its user is moved to the other while mail waits.
    let gone = one.socket();
    drop(one);
    client.mail("me@source.test", &["a@box.test"], "Subject: y\r\n\r\nmoved\r\n");
    let suspended = files.wait_events("suspended", 1).remove(0);
    assert_eq!(suspended["next_hop"], format!("lmtp:backends:{gone}"), "{suspended}");
    let listed = server.command(&["queue", "list"]).out;
    assert!(listed.contains(&gone), "{gone} in\n{listed}");
    build(&[("a", &two.socket()), ("b", &two.socket())]);
    server.wait_console("a new database", |line| line.contains("reloaded"));
    server.command(&["queue", "retry", "--all"]);
    wait_until("the mailbox elsewhere", || two.mail("a").len() == 1);
    assert!(two.mail("a")[0].ends_with(b"\nmoved\n"));
    let delivered = files.wait_events("delivered", 3).remove(2);
    assert_eq!(delivered["next_hop"], two.socket(), "{delivered}");
    server.stop();
}

#[test]
fn dovecot_is_asked_for_its_users() {
    if !is_possible(&["dovecot-lmtpd"]) {
        return;
    }
    let (mut dovecot, files) = (dovecot::start(), Files::new());
    let text = format!(
        "[[table]]\nname = \"ahead\"\ncall_ahead = {{ route = \"boxes\" }}\n\
         cache = {{ positive = \"2s\", negative = \"2s\", stale = \"1h\" }}\n\
         [[route]]\nname = \"boxes\"\ndomains = [\"box.test\"]\n\
         recipients = {{ table = \"ahead\" }}\nlmtp = {{ hosts = [\"{}\"] }}\n\
         [[route]]\ndiscard = {{}}\n",
        dovecot.socket()
    );
    let server = Server::start(&files, &config(&text));
    let mut client = Client::connect(server.address());
    let mut asks = |user: &str, reply: &str| {
        client.say("MAIL FROM:<me@source.test>", "250");
        client.say(&format!("RCPT TO:<{user}@box.test>"), reply);
        client.say("RSET", "250");
    };
    asks("a", "250");
    asks("a+tag", "250");
    asks("nobody", "550 5.1.1 Recipient unknown");
    // Over quota for good: Dovecot says 552 5.2.2 at the end of the content only.
    asks("full", "250");
    assert!(dovecot.mail("a").is_empty(), "it was asked, and given nothing");
    let listed = server.command(&["table", "list"]).out;
    assert!(listed.contains("ahead") && listed.contains(&dovecot.socket()), "{listed}");
    let got = server.command(&["table", "get", "ahead", "nobody@box.test"]);
    assert_ne!(got.code, 0, "{}", got.out);
    // While it is away, what it said serves, and who was never asked for waits.
    dovecot.end();
    std::thread::sleep(std::time::Duration::from_secs(3));
    asks("a", "250");
    asks("nobody", "550 5.1.1 Recipient unknown");
    asks("b", "451 4.4.3");
    dovecot.start_again();
    wait_until("it is asked again", || {
        server.command(&["table", "get", "ahead", "b@box.test"]).code == 0
    });
    asks("b", "250");
    drop(client);
    let mut client = Client::connect(server.address());
    client.mail("me@source.test", &["b@box.test"], "Subject: x\r\n\r\nfor b\r\n");
    wait_until("the mailbox", || dovecot.mail("b").len() == 1);
    server.stop();
}

#[test]
fn dovecot_reads_our_maildirs() {
    if !is_possible(&["dovecot-lmtpd"]) {
        return;
    }
    let (dovecot, files) = (dovecot::start(), Files::new());
    let (mail, user) = (dovecot.mailboxes(), dovecot::USER);
    let keys = "folders = \"tag\", create_folders = true, quota = \"100MiB\"";
    let route = format!(
        "[[route]]\nmaildir = {{ path = \"{mail}/{{local}}\", user = \"{user}\", group = \"{user}\", {keys} }}\n"
    );
    let server = Server::start(&files, &config(&route));
    let mut client = Client::connect(server.address());
    client.say("MAIL FROM:<me@source.test> SMTPUTF8", "250");
    for to in ["a@box.test", "a+Lists.Größe@box.test"] {
        client.say(&format!("RCPT TO:<{to}>"), "250");
    }
    client.say("DATA", "354");
    client.send("Subject: ours\r\n\r\nBody.\r\n.\r\n");
    client.expect("250");
    files.wait_events("delivered", 2);
    for mailbox in ["INBOX", "Lists.Größe"] {
        let text = dovecot.read(&["fetch", "-u", "a", "text", "mailbox", mailbox, "all"]);
        assert!(text.contains("Return-Path: <me@source.test>"), "{mailbox}: {text}");
        assert!(text.contains("Subject: ours") && text.contains("Body."), "{mailbox}: {text}");
    }
    // What it has read it moves to cur; more comes to new, and both keep one sum.
    client.mail("me@source.test", &["a@box.test"], "Subject: more\r\n\r\n");
    files.wait_events("delivered", 3);
    let subjects = dovecot.read(&["fetch", "-u", "a", "hdr.subject", "mailbox", "INBOX", "all"]);
    assert!(subjects.contains("ours") && subjects.contains("more"), "{subjects}");
    let quota = dovecot.read(&["-f", "flow", "quota", "get", "-u", "a"]);
    assert!(quota.contains("Type=MESSAGE Value=3 "), "{quota}");
    server.stop();
}

#[test]
fn dovecots_quota_status_refuses_full_mailboxes() {
    if !is_possible(&["dovecot-lmtpd"]) {
        return;
    }
    let (dovecot, files) = (dovecot::start(), Files::new());
    let route = |domain: &str, path: &str| {
        format!("[[route]]\ndomains = [\"{domain}\"]\nlmtp = {{ hosts = [\"{path}\"] }}\n")
    };
    let text = format!(
        "[[policy]]\nservice = \"unix:{}\"\nclients = \"all\"\non_failure = \"accept\"\n{}",
        dovecot.quota_status(),
        route("box.test", &dovecot.socket())
    );
    let server = Server::start(&files, &config(&text));
    let mut client = Client::connect(server.address());
    client.say("MAIL FROM:<me@source.test> SIZE=1000", "250");
    client.say("RCPT TO:<full@box.test>", "452 4.2.2 Mailbox full");
    client.say("RCPT TO:<a@box.test>", "250");
    client.say("RCPT TO:<nobody@box.test>", "250");
    client.say("RSET", "250");
    server.stop();
}

#[test]
fn header_checks_give_the_result_of_postfix() {
    if is_possible(&["postgrey"]) {
        header_checks::give_the_result_of_postfix();
    }
}

#[test]
fn postfix_checks_the_same_lines_of_random_messages() {
    if postfix::is_startable() {
        checked_lines::random_messages_are_checked_as_by_postfix();
    }
}

#[test]
fn canonical_and_generic_addresses_are_those_of_postfix() {
    if postfix::is_startable() {
        rewriting::canonical_addresses_are_those_of_postfix();
        rewriting::generic_addresses_are_those_of_postfix();
    }
}
