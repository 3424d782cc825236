//! Blocks of language `toml` pass `postrider check`: whole configurations as they are but for directories, fragments
//! within a small configuration.

use super::blocks::{Block, pages};
use crate::support::Files;
use crate::support::certificate::{EC, make_certificate};
use crate::support::server::{Answer, CONFIG, command, program};
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// Directories of the documents, and those in the test's directory.
const DIRECTORIES: &[(&str, &str)] = &[
    ("/etc/postrider/", "etc/"),
    ("/etc/postfix/", "etc/"),
    ("/var/spool/postrider", "spool"),
    ("/var/log/postrider/", "log/"),
    ("/var/lib/postrider/", "etc/"),
    ("/srv/mail", "mail"),
    ("/run/", "run/"),
];

/// Files that configurations name, keys, certificates and databases apart.
const READ: &[(&str, &str)] = &[
    ("etc/aliases", "postmaster@example.org jo@example.org\n"),
    ("etc/client.secret", "secret\n"),
    ("etc/database", "secret\n"),
    ("etc/generic", "root@app1.example.org alerts@example.org\n"),
    ("etc/header_checks", "/^X-Internal:/ IGNORE\n"),
    ("etc/introspection.secret", "secret\n"),
    ("etc/ldap-password", "secret\n"),
    ("etc/ldap.password", "secret\n"),
    ("mcgam.table", ""),
    ("etc/my.classes", ""),
    ("etc/passwords", ""),
    ("etc/redis", "secret\n"),
    ("etc/refresh.token", "token\n"),
    ("etc/relay.password", "secret\n"),
    ("etc/sasl_passwd", "smtp.example.net:587 relay@example.org:password\n"),
    ("etc/sender_access", "bad@example.net REJECT\n"),
    ("etc/shaping.toml", ""),
    ("etc/senders", "jo@example.org jo\n"),
    ("etc/srs.secret", "a secret of many octets\n"),
    ("etc/users", "jo@example.org 4f/jo\n"),
];

/// Keys that sign.
const KEYS: &[(&str, &str)] = &[
    ("acme", "rsa"),
    ("arc", "rsa"),
    ("e2026a", "ed25519"),
    ("esp", "rsa"),
    ("s2026a", "rsa"),
    ("s2027a", "rsa"),
];

/// Databases, of an empty table.
const DATABASES: &[&str] = &["dkim.db", "users.db"];

/// A listener, to which keys may be added.
const LISTENER: &str = "[[listener]]\nname = \"in\"\naddress = \"127.0.0.1:0\"\n";

/// Header of the table that the keys at a fragment's beginning belong to: by the fragment's first line.
const HEADERS: &[(&str, &str)] = &[
    (
        "logins = ",
        "[[listener]]\nname = \"in\"\nkind = \"submission\"\naddress = \"127.0.0.1:0\"\n",
    ),
    ("milters = ", LISTENER),
    ("checks = ", LISTENER),
    ("[listener.", LISTENER),
    ("[table.", "[[table]]\nname = \"users\"\n"),
];

/// A table that only a build with the feature `sql` has, as the tests of `make test` are built.
const SQL: &str = "\nsql = {";

/// First lines of fragments that belong into a file of shaping rules.
const SHAPING: &[&str] = &["[default]", "[provider."];

/// A section that fragments refer to.
struct Section {
    /// A fragment with this text refers to it,
    reference: &'static str,
    /// unless it has the section itself, with this text.
    definition: &'static str,
    text: &'static str,
}

const SECTIONS: &[Section] = &[
    Section {
        reference: "kind = \"submission\"",
        definition: "[[certificate]]",
        text: "[[certificate]]\nnames = [\"mx.example.org\"]\nchain = \"etc/mx.pem\"\nkey = \"etc/mx.key\"\n",
    },
    Section {
        reference: "table = \"passwords\"",
        definition: "name = \"passwords\"",
        text: "[[table]]\nname = \"passwords\"\ninline = { jo = \"{PLAIN}secret\" }\n",
    },
    Section {
        reference: "table = \"may-write-to-all\"",
        definition: "name = \"may-write-to-all\"",
        text: "[[table]]\nname = \"may-write-to-all\"\ninline = { \"boss@example.org,all@example.org\" = \"OK\" }\n",
    },
    Section {
        reference: "table = \"protected\"",
        definition: "name = \"protected\"",
        text: "[[table]]\nname = \"protected\"\ninline = { \"all@example.org\" = \"REJECT\" }\n",
    },
    Section {
        reference: "table = \"domains\"",
        definition: "name = \"domains\"",
        text: "[[table]]\nname = \"domains\"\ninline = { \"example.org\" = \"here\" }\n",
    },
    Section {
        reference: "tables = [\"exceptions\", \"users\"]",
        definition: "name = \"exceptions\"",
        text: "[[table]]\nname = \"exceptions\"\ninline = { \"jo@example.org\" = \"jo\" }\n\
               [[table]]\nname = \"users\"\nfile = { path = \"etc/users\" }\n",
    },
    Section {
        reference: "routes = [\"outside\"]",
        definition: "name = \"outside\"",
        text: "[[route]]\nname = \"outside\"\ndomains = [\"*.example.net\"]\nmx = {}\n",
    },
    Section {
        reference: "pool = \"bulk\"",
        definition: "[[pool]]",
        text: "[[source]]\nname = \"ip-1\"\naddress = \"127.0.0.1\"\n\
               [[pool]]\nname = \"bulk\"\nsources = [{ name = \"ip-1\" }]\n",
    },
    Section {
        reference: ".source.ip-1]",
        definition: "[[source]]",
        text: "[[source]]\nname = \"ip-1\"\naddress = \"127.0.0.1\"\n",
    },
    Section {
        reference: "tenants = [\"acme\"]",
        definition: "[[tenant]]",
        text: "[[tenant]]\nname = \"acme\"\n",
    },
    Section {
        reference: "peer = \"hub\"",
        definition: "[[x400.peer]]",
        text: "[[x400.peer]]\nname = \"hub\"\nhosts = [\"192.0.2.7:102\"]\n\
               their_name = \"hub\"\ntheir_password = \"secretb\"\nour_password = \"secreta\"\n",
    },
];

/// A directory with all files that the configurations name.
fn make_files(files: &Files) {
    for directory in ["etc", "etc/lists", "log", "run", "run/dovecot", "run/postrider"] {
        fs::create_dir(files.path(directory)).expect("a directory");
    }
    let etc = files.path("etc");
    for (name, text) in READ {
        let path = files.write(name, text);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("a file of ours");
    }
    for (name, algorithm) in KEYS {
        let out = format!("{name}.pem");
        is_done(&program(
            &etc,
            &["dkim", "new", "example.org", name, "--algorithm", algorithm, "--out", &out],
        ));
    }
    for name in DATABASES {
        is_done(&program(&etc, &["table", "build", "--from", "my.classes", "--to", name]));
    }
    for name in ["mail", "mx", "users-ca"] {
        make_certificate(&etc, name, EC, &["mx.example.org"]);
    }
}

fn is_done(answer: &Answer) {
    assert_eq!(answer.code, 0, "{answer:?}");
}

/// The first line that is not a comment.
fn first_line(text: &str) -> &str {
    text.lines().find(|line| !line.is_empty() && !line.starts_with('#')).unwrap_or("")
}

/// The text with the test's directories, and listeners at free ports.
fn adapted(files: &Files, text: &str, used: &mut Vec<&str>) -> String {
    let mut text = text.to_owned();
    for (directory, ours) in DIRECTORIES {
        if text.contains(directory) {
            used.push(directory);
            text = text.replace(directory, &files.path(ours).display().to_string());
        }
    }
    // Packages make this user.
    text = text.replace("user = \"postrider\"", "user = \"nobody\"");
    let adapt = |line: &str| match line
        .strip_prefix("address = \"")
        .and_then(|rest| rest.split_once('"'))
    {
        Some((address, rest)) if address.contains(':') => {
            format!("address = \"127.0.0.1:0\"{rest}\n")
        }
        _ => format!("{line}\n"),
    };
    text.lines().map(adapt).collect()
}

/// The configuration that a block becomes.
fn whole(files: &Files, block: &Block, used: &mut Vec<&str>) -> String {
    let mut text = adapted(files, &block.text, used);
    if text.contains("hostname = ") && text.contains("[spool]") {
        return text;
    }
    let mut shaping = "";
    let first = first_line(&text);
    if let Some(row) = SHAPING.iter().find(|start| first.starts_with(**start)) {
        used.push(row);
        files.write("etc/rules.toml", &text);
        text = String::new();
        shaping = "shaping = [\"builtin\", \"etc/rules.toml\"]\n";
    } else if let Some((row, header)) = HEADERS.iter().find(|(start, _)| first.starts_with(start)) {
        used.push(row);
        text = format!("{header}{text}");
    }
    let mut before = String::new();
    for section in SECTIONS {
        let has = |part| block.text.contains(part) || text.contains(part);
        if has(section.reference) && !has(section.definition) {
            used.push(section.reference);
            before.push_str(section.text);
        }
    }
    let listener = if text.contains("[[listener]]") { "" } else { LISTENER };
    let route = if text.contains("[[route]]") { "" } else { "[[route]]\nmx = {}\n" };
    format!(
        "hostname = \"mail.example.org\"\n{shaping}{before}{text}[spool]\npath = \"spool\"\n{listener}{route}"
    )
}

#[test]
fn configurations_of_documents_pass_check() {
    let files = Files::new();
    make_files(&files);
    let mut used = Vec::new();
    let mut failures = Vec::new();
    let mut texts = String::new();
    for page in pages("toml") {
        for block in page.blocks {
            texts.push_str(&block.text);
            if !cfg!(feature = "sql") && block.text.contains(SQL) {
                continue;
            }
            let text = whole(&files, &block, &mut used);
            files.write(CONFIG, &text);
            let checked = command(files.dir(), &["check"]);
            if checked.code != 0 {
                failures.push(format!("{}: {}{}", block.place, checked.out, checked.err));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let directories = DIRECTORIES.iter().map(|(row, _)| row);
    let headers = HEADERS.iter().map(|(row, _)| row);
    let sections = SECTIONS.iter().map(|section| &section.reference);
    let all = directories.chain(headers).chain(SHAPING).chain(sections);
    let mut unused: Vec<_> = all.copied().filter(|row| !used.contains(row)).collect();
    let names = READ.iter().map(|(path, _)| path.trim_start_matches("etc/"));
    let names = names.chain(KEYS.iter().map(|(name, _)| *name)).chain(DATABASES.iter().copied());
    unused.extend(names.filter(|name| !texts.contains(name)));
    assert!(unused.is_empty(), "no document has {unused:?}: remove them here");
}
