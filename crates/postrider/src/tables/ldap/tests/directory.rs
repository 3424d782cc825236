//! The entries of the tests' directory.

use std::fmt::Write as _;

/// How many entries have the surname "many".
pub(super) const MANY: usize = 40;

pub(super) fn ldif() -> String {
    let mut out = "dn: dc=example,dc=test\nobjectClass: domain\ndc: example\n\n".to_owned();
    for unit in ["people", "groups", "closed", "many"] {
        let _ = write!(
            out,
            "dn: ou={unit},dc=example,dc=test\nobjectClass: organizationalUnit\nou: {unit}\n\n"
        );
    }
    person(&mut out, "uid=joe,ou=people", "joe", "joe", &["joe@example.test"], &["/srv/mail/joe"]);
    let two = ["two@example.test", "zwei@example.test"];
    person(&mut out, "uid=two,ou=people", "two", "two", &two, &["/srv/one", "/srv/two"]);
    person(&mut out, "uid=star,ou=people", "star", "*)(uid=*", &["*)(uid=*"], &["star"]);
    person(
        &mut out,
        "uid=comma\\2Cou=x,ou=people",
        "comma,ou=x",
        "comma",
        &["comma@example.test"],
        &["comma"],
    );
    person(
        &mut out,
        "uid=gr\\C3\\BC\\C3\\9Fe,ou=people",
        "grüße",
        "grüße",
        &["g@example.test"],
        &["umlaut"],
    );
    person(
        &mut out,
        "uid=slash,ou=people",
        "slash",
        "back\\slash",
        &["s@example.test"],
        &["slash"],
    );
    person(&mut out, "uid=bare,ou=people", "bare", "bare", &["bare@example.test"], &[]);
    person(
        &mut out,
        "uid=hidden,ou=closed",
        "hidden",
        "hidden",
        &["hidden@example.test"],
        &["hidden"],
    );
    for n in 0..MANY {
        person(
            &mut out,
            &format!("uid=m{n},ou=many"),
            &format!("m{n}"),
            "many",
            &[&format!("m{n}@many.test")],
            &["many"],
        );
    }
    groups(&mut out);
    out
}

/// Groups, some of which are in each other.
fn groups(out: &mut String) {
    let people = |uid: &str| format!("uid={uid},ou=people,dc=example,dc=test");
    let named = |cn: &str| format!("cn={cn},ou=groups,dc=example,dc=test");
    group(out, "all", &[people("joe"), named("inner"), people("gone")]);
    group(
        out,
        "inner",
        &["CN=all, OU=groups,dc=example,DC=test".to_owned(), people("two"), people("JOE")],
    );
    for n in 0..5 {
        group(out, &format!("deep{n}"), &[named(&format!("deep{}", n + 1))]);
    }
    group(out, "deep5", &[people("joe")]);
    let many = |n| format!("uid=m{n},ou=many,dc=example,dc=test");
    group(out, "multitude", &(0..MANY).map(many).collect::<Vec<_>>());
}

fn person(out: &mut String, name: &str, uid: &str, sn: &str, mail: &[&str], description: &[&str]) {
    let _ = write!(
        out,
        "dn: {name},dc=example,dc=test\nobjectClass: inetOrgPerson\nuid: {uid}\ncn: {sn}\nsn: {sn}\n\
         userPassword: open\n"
    );
    for mail in mail {
        let _ = writeln!(out, "mail: {mail}");
    }
    for description in description {
        let _ = writeln!(out, "description: {description}");
    }
    out.push('\n');
}

fn group(out: &mut String, cn: &str, members: &[String]) {
    let _ = write!(
        out,
        "dn: cn={cn},ou=groups,dc=example,dc=test\nobjectClass: groupOfNames\ncn: {cn}\n"
    );
    for member in members {
        let _ = writeln!(out, "member: {member}");
    }
    out.push('\n');
}
