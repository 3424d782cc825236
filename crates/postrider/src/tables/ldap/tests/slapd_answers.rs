//! What slapd answers.

use super::directory::MANY;
use super::slapd::{Slapd, is_possible};
use super::{ask, backend, run, text};
use lookup::Backend as _;
use std::rc::Rc;

#[test]
fn keys_are_found_or_not() {
    if !is_possible() {
        return;
    }
    let slapd = Slapd::start();
    let url = slapd.url();
    run(async {
        let by_mail = backend(&[&url], "(mail=%s)", "");
        assert_eq!(by_mail.server(), None);
        for (key, answer) in [
            ("joe@example.test", "/srv/mail/joe"),
            ("JOE@Example.Test", "/srv/mail/joe"),
            ("zwei@example.test", "/srv/one,/srv/two"),
            ("nobody@example.test", "-"),
            // It has none of the attributes.
            ("bare@example.test", "-"),
            // Nobody in particular may not see it.
            ("hidden@example.test", "-"),
            // Keys without what makes a key.
            ("", "-"),
            ("@example.test", "-"),
        ] {
            assert_eq!(text(&by_mail, key).await, answer, "{key}");
        }
        assert_eq!(by_mail.server(), Some(url.clone()));

        let fields = "attributes = [\"mail\", \"description\", \"title\"]";
        let both = super::parse(&format!(
            "servers = [\"{url}\"], base = \"dc=example,dc=test\", filter = \"(uid=%u)\", {fields}"
        ));
        let settings = &both.tables[0].settings;
        assert_eq!(settings.fields(), ["mail", "description", "title"]);
        let both = super::LdapBackend::new(std::sync::Arc::new(
            settings.of::<super::LdapSettings>().expect("ours").clone(),
        ));
        let entry = ask(&both, "two@elsewhere.test").await.unwrap().unwrap();
        assert_eq!(entry.values("MAIL").len(), 2);
        assert_eq!(entry.field("description"), Some("/srv/one"));
        assert_eq!(entry.values("title").len(), 0);
        assert_eq!(&*entry.text, "two@example.test,zwei@example.test,/srv/one,/srv/two");
    });
}

#[test]
fn keys_are_values_and_nothing_else() {
    if !is_possible() {
        return;
    }
    let slapd = Slapd::start();
    run(async {
        let url = slapd.url();
        let by_name = backend(&[&url], "(cn=%s)", "");
        for (key, answer) in [
            ("*", "-"),
            ("j*", "-"),
            ("*)(uid=*", "star"),
            ("joe)(cn=*", "-"),
            ("joe\0", "-"),
            ("back\\slash", "slash"),
            ("back\\5cslash", "-"),
            ("grüße", "umlaut"),
            ("%s", "-"),
        ] {
            assert_eq!(text(&by_name, key).await, answer, "{key}");
        }
        let base = "base = \"uid=%s,ou=people,dc=example,dc=test\", scope = \"base\"";
        let by_base = backend(&[&url], "(objectClass=*)", base);
        for (key, answer) in [
            ("joe", "/srv/mail/joe"),
            ("grüße", "umlaut"),
            ("comma,ou=x", "comma"),
            ("nobody", "-"),
            ("joe,ou=people,dc=example,dc=test", "-"),
            ("joe+cn=joe", "-"),
            ("*", "-"),
            ("joe\0", "-"),
        ] {
            assert_eq!(text(&by_base, key).await, answer, "{key}");
        }
    });
}

#[test]
fn scopes_and_domains() {
    if !is_possible() {
        return;
    }
    let slapd = Slapd::start();
    run(async {
        let url = slapd.url();
        let one = backend(&[&url], "(mail=%s)", "scope = \"one\"");
        assert_eq!(text(&one, "joe@example.test").await, "-");
        let people = "scope = \"one\", base = \"ou=people,dc=example,dc=test\"";
        let one = backend(&[&url], "(mail=%s)", people);
        assert_eq!(text(&one, "joe@example.test").await, "/srv/mail/joe");

        let only = backend(&[&url], "(uid=%u)", "domains = [\"Example.test\"]");
        assert_eq!(text(&only, "joe@EXAMPLE.test").await, "/srv/mail/joe");
        for key in ["joe@other.test", "joe", "@example.test", "joe@"] {
            assert_eq!(text(&only, key).await, "-", "{key}");
        }
        let labels = "base = \"dc=%2,dc=%1\"";
        let by_domain = backend(&[&url], "(uid=%u)", labels);
        assert_eq!(text(&by_domain, "joe@example.test").await, "/srv/mail/joe");
        assert_eq!(text(&by_domain, "joe@other.test").await, "-");
        assert_eq!(text(&by_domain, "joe@test").await, "-");
        let nowhere = backend(&[&url], "(uid=%u)", "base = \"dc=nowhere,dc=test\"");
        let answer = text(&nowhere, "joe").await;
        assert!(answer.contains("no base entry \"dc=nowhere,dc=test\""), "{answer}");
    });
}

#[test]
fn more_entries_than_may_be_are_no_answer() {
    if !is_possible() {
        return;
    }
    let slapd = Slapd::start();
    run(async {
        let url = slapd.url();
        let exactly = backend(&[&url], "(cn=%s)", &format!("max_results = {MANY}"));
        assert_eq!(text(&exactly, "many").await.matches("many").count(), MANY);
        let fewer = backend(&[&url], "(cn=%s)", &format!("max_results = {}", MANY - 1));
        let answer = text(&fewer, "many").await;
        assert!(answer.starts_with("Key: the key finds more than 39 entries"), "{answer}");
        // The connection is none the worse.
        assert_eq!(text(&fewer, "joe").await, "/srv/mail/joe");
    });
}

#[test]
fn groups_come_to_their_leaves() {
    if !is_possible() {
        return;
    }
    let slapd = Slapd::start();
    run(async {
        let url = slapd.url();
        let groups =
            |more: &str| backend(&[&url], "(cn=%s)", &format!("members = [\"member\"]{more}"));
        let all = groups("");
        // Each once, though the groups are in each other.
        assert_eq!(text(&all, "all").await, "/srv/mail/joe,/srv/one,/srv/two");
        assert_eq!(text(&all, "joe").await, "/srv/mail/joe");
        assert_eq!(text(&all, "deep0").await, "/srv/mail/joe");
        assert_eq!(text(&all, "multitude").await.matches("many").count(), MANY);
        assert_eq!(text(&all, "nobody").await, "-");

        assert_eq!(text(&groups(", max_depth = 6"), "deep0").await, "/srv/mail/joe");
        let answer = text(&groups(", max_depth = 5"), "deep0").await;
        let wanted = "Key: cn=deep5,ou=groups,dc=example,dc=test: more than 5 nested groups";
        assert_eq!(answer, wanted);

        // The group counts, too.
        let enough = groups(&format!(", max_members = {}", MANY + 1));
        assert_eq!(text(&enough, "multitude").await.matches("many").count(), MANY);
        let few = groups(&format!(", max_members = {MANY}"));
        let answer = text(&few, "multitude").await;
        assert_eq!(answer, format!("Key: the group has more than {MANY} entries"));
    });
}

#[test]
fn many_questions_share_few_connections() {
    if !is_possible() {
        return;
    }
    let slapd = Slapd::start();
    run(async {
        let url = slapd.url();
        let shared = Rc::new(backend(&[&url], "(mail=%s)", "max_connections = 2"));
        let mut questions = tokio::task::JoinSet::new();
        for n in 0..500 {
            let shared = Rc::clone(&shared);
            questions.spawn_local(async move {
                let found = n % 2 == 0;
                let key = if found { "joe@example.test" } else { "nobody@example.test" };
                let wanted = if found { "/srv/mail/joe" } else { "-" };
                assert_eq!(text(&shared, key).await, wanted);
            });
        }
        while let Some(done) = questions.join_next().await {
            done.expect("an answer");
        }
        assert!(shared.connections() <= 2, "{}", shared.connections());
    });
}
