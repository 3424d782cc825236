//! slapd that is away, is back, or doesn't let us in.

use super::slapd::{Slapd, is_possible};
use super::{ask, backend, becomes, kind, run, text};
use crate::tables::testing::unprivileged::free_port;
use lookup::{Backend as _, LookupErrorKind};

#[test]
fn a_server_is_stopped_and_back() {
    if !is_possible() {
        return;
    }
    let mut slapd = Slapd::start();
    run(async {
        let users = backend(&[&slapd.url()], "(mail=%s)", "");
        assert_eq!(text(&users, "joe@example.test").await, "/srv/mail/joe");
        slapd.stop();
        let answer = ask(&users, "joe@example.test").await;
        assert_eq!(kind(&answer), Some(LookupErrorKind::Unreachable), "{answer:?}");
        let text = answer.unwrap_err().text;
        assert!(text.starts_with(&slapd.url()) && text.contains("refused"), "{text}");
        assert_eq!(users.server(), None);
        slapd.run();
        becomes(&users, "joe@example.test", "/srv/mail/joe").await;

        // A connection that died without a search under way costs nothing.
        slapd.stop();
        slapd.run();
        assert_eq!(super::text(&users, "joe@example.test").await, "/srv/mail/joe");
    });
}

#[test]
fn the_next_server_answers_while_the_first_is_away() {
    if !is_possible() {
        return;
    }
    let mut first = Slapd::start();
    let second = Slapd::start();
    run(async {
        let nobody = format!("ldap://127.0.0.1:{}", free_port());
        let urls = [first.url(), nobody, second.url()];
        let users = backend(&[&urls[0], &urls[1], &urls[2]], "(mail=%s)", "");
        assert_eq!(text(&users, "joe@example.test").await, "/srv/mail/joe");
        assert_eq!(users.server(), Some(urls[0].clone()));
        first.stop();
        assert_eq!(text(&users, "joe@example.test").await, "/srv/mail/joe");
        assert_eq!(users.server(), Some(urls[2].clone()));
        first.run();
        // The first is asked again, without anybody having waited for it.
        for _ in 0..200 {
            assert_eq!(text(&users, "joe@example.test").await, "/srv/mail/joe");
            if users.server() == Some(urls[0].clone()) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        panic!("{:?}", users.server());
    });
}

#[test]
fn binds_by_password() {
    if !is_possible() {
        return;
    }
    let slapd = Slapd::start();
    slapd.write("password", "open\nsecond line\n");
    slapd.write("empty", "\n");
    run(async {
        let url = slapd.url();
        let hidden = async |bind: &str| {
            let dn = "uid=joe,ou=people,dc=example,dc=test";
            let bind = format!("bind = {{ dn = \"{dn}\", {bind} }}");
            text(&backend(&[&url], "(mail=%s)", &bind), "hidden@example.test").await
        };
        assert_eq!(hidden("password = \"open\"").await, "hidden");
        let file = slapd.file("password");
        assert_eq!(hidden(&format!("password_file = \"{file}\"")).await, "hidden");
        let wrong = hidden("password = \"shut\"").await;
        assert!(
            wrong.starts_with("Unreachable: ldap://") && wrong.contains("invalid name or password"),
            "{wrong}"
        );
        assert!(!wrong.contains("shut"), "{wrong}");
        let file = slapd.file("empty");
        let empty = hidden(&format!("password_file = \"{file}\"")).await;
        assert!(empty.contains("its first line is empty"), "{empty}");
        let missing = hidden("password_file = \"/nonexistent\"").await;
        assert!(missing.contains("password_file /nonexistent: No such file"), "{missing}");
    });
}

#[test]
fn tls_from_the_start_and_later() {
    if !is_possible() {
        return;
    }
    let slapd = Slapd::start();
    run(async {
        let (url, tls_url, ca) = (slapd.url(), slapd.tls_url(), slapd.file("ca.pem"));
        let tls = format!("tls = {{ ca_file = \"{ca}\" }}");
        for (url, more) in [(&url, "start_tls = true, "), (&tls_url, "")] {
            let users = backend(&[url], "(mail=%s)", &format!("{more}{tls}"));
            assert_eq!(text(&users, "joe@example.test").await, "/srv/mail/joe");
            // The system's authorities did not sign it.
            let stranger = backend(&[url], "(mail=%s)", &format!("{more}timeout = \"5s\""));
            let answer = text(&stranger, "joe@example.test").await;
            assert!(answer.contains("TLS: invalid peer certificate"), "{answer}");
            // It was made out for an address.
            let named = url.replace("127.0.0.1", "localhost");
            let named = backend(&[&named], "(mail=%s)", &format!("{more}{tls}"));
            let answer = text(&named, "joe@example.test").await;
            assert!(answer.contains("certificate not valid for name"), "{answer}");
        }
        let plain = url.replace("ldap:", "ldaps:");
        let answer = text(&backend(&[&plain], "(mail=%s)", &tls), "joe@example.test").await;
        assert!(answer.starts_with("Unreachable: ldaps://127.0.0.1:"), "{answer}");
        let missing = "start_tls = true, tls = { ca_file = \"/nonexistent\" }";
        let answer = text(&backend(&[&url], "(mail=%s)", missing), "joe@example.test").await;
        assert!(answer.contains("/nonexistent: "), "{answer}");
    });
}

#[test]
fn binds_as_the_connection_shows() {
    if !is_possible() {
        return;
    }
    let slapd = Slapd::start();
    run(async {
        let socket = format!("ldapi://{}", slapd.socket());
        let nobody = backend(&[&socket], "(mail=%s)", "");
        assert_eq!(text(&nobody, "joe@example.test").await, "/srv/mail/joe");
        assert_eq!(text(&nobody, "hidden@example.test").await, "-");
        let user = backend(&[&socket], "(mail=%s)", "bind = { external = true }");
        assert_eq!(text(&user, "hidden@example.test").await, "hidden");

        let tls = format!(
            "bind = {{ external = true }}, tls = {{ ca_file = \"{}\", certificate_file = \"{}\", \
             key_file = \"{}\" }}",
            slapd.file("ca.pem"),
            slapd.file("client.pem"),
            slapd.file("client.key")
        );
        let shown = backend(&[&slapd.tls_url()], "(mail=%s)", &tls);
        assert_eq!(text(&shown, "hidden@example.test").await, "hidden");
        let plain = backend(&[&slapd.url()], "(mail=%s)", "bind = { external = true }");
        let answer = text(&plain, "hidden@example.test").await;
        assert!(answer.contains("the bind as EXTERNAL: "), "{answer}");
    });
}
