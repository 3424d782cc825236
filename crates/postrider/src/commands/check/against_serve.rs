//! Tests that `check` finds the errors for which `serve` refuses to start: over the catalogue of bad configurations,
//! and over faults generated from the reference.

use super::prepared;
use crate::commands::load;
use crate::console::ConsoleLog;
use crate::node::{Node, StartError};
use crate::services::RightsAtStart;
use mta::console::Level;
use rcgen::{CertificateParams, KeyPair};
use serde_json::Value;
use smtp::testing::escape::unescape;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::Arc;

/// Rows of the catalogue, and where their lines go.
const ROWS: &str = include_str!("../../../tests/program/bad_input/rows/config.txt");
const FRAMES: [(&str, &str); 5] = [
    ("top", "<HERE>\n[[listener]]\naddress = \"127.0.0.1:25\"\n[[route]]\ndiscard = {}\n"),
    ("listener", "[[listener]]\naddress = \"127.0.0.1:25\"\n<HERE>\n[[route]]\ndiscard = {}\n"),
    (
        "route",
        "[[listener]]\naddress = \"127.0.0.1:25\"\n[[route]]\n<HERE>\n[[route]]\ndiscard = {}\n",
    ),
    ("end", "[[listener]]\naddress = \"127.0.0.1:25\"\n[[route]]\ndiscard = {}\n<HERE>\n"),
    ("file", "<HERE>\n"),
];

/// The configuration around a generated fault. Keys of the listener go to its end.
const PLAIN: &str = "postmaster = \"pm@far.test\"\n[spool]\npath = \"DIR/spool\"\nsegment_bytes = \"8MiB\"\n\
    [[listener]]\nname = \"in\"\naddress = \"127.0.0.1:0\"\n<LISTENER>[[route]]\nname = \"out\"\ndomains = [\"far.test\"]\n\
    discard = {}\n";

/// Sections that name a file as `FILE`.
const FILES: [&str; 22] = [
    "[[table]]\nname = \"t\"\nfile = { path = \"FILE\" }\n",
    "[[table]]\nname = \"t\"\ncidr = { path = \"FILE\" }\n",
    "[[table]]\nname = \"t\"\npcre = { path = \"FILE\" }\n",
    "[[table]]\nname = \"t\"\nregexp = { path = \"FILE\" }\n",
    "[[table]]\nname = \"t\"\ndatabase = { path = \"FILE\" }\n",
    "[[certificate]]\nnames = [\"x.test\"]\nchain = \"FILE\"\nkey = \"DIR/mx.key\"\n",
    "[[certificate]]\nnames = [\"x.test\"]\nchain = \"DIR/mx.pem\"\nkey = \"FILE\"\n",
    "[[signer]]\ndomains = [\"x.test\"]\nselector = \"s\"\nkey = \"FILE\"\n",
    "[srs]\ndomain = \"srs.test\"\nsecret_file = \"FILE\"\n",
    "[classes]\nfiles = [\"FILE\"]\n",
    "[[route]]\ndomains = [\"y.test\"]\nsmtp = { hosts = [\"127.0.0.1:9\"], tls = \"required\", \
     login = { user = \"u\", password_file = \"FILE\" } }\n",
    "[[route]]\ndomains = [\"y.test\"]\nsmtp = { hosts = [\"127.0.0.1:9\"], tls = \"required\", \
     login = { user = \"u\", token_file = \"FILE\" } }\n",
    "[x400]\nmta = \"m\"\ndomain = \"/PRMD=A/ADMD= /C=GB/\"\n[[x400.peer]]\nname = \"p\"\ntheir_name = \"m2\"\n\
     their_password_file = \"FILE\"\nour_password = \"x\"\n",
    "[x400]\nmta = \"m\"\ndomain = \"/PRMD=A/ADMD= /C=GB/\"\n[[x400.peer]]\nname = \"p\"\ntheir_name = \"m2\"\n\
     our_password_file = \"FILE\"\ntheir_password = \"x\"\n",
    "[x400]\nmta = \"m\"\ndomain = \"/PRMD=A/ADMD= /C=GB/\"\n\
     gateway = { address = \"/O=gw/PRMD=A/ADMD= /C=GB/\", domain = \"gw.test\", mcgam = \"FILE\" }\n",
    "[x400]\nmta = \"m\"\ndomain = \"/PRMD=A/ADMD= /C=GB/\"\n\
     gateway = { address = \"/O=gw/PRMD=A/ADMD= /C=GB/\", domain = \"gw.test\", gateways = \"FILE\" }\n",
    "[acme]\nterms_agreed = true\naddress = \"127.0.0.1:0\"\nca_file = \"FILE\"\n\
     [[certificate]]\nnames = [\"x.test\"]\nacme = true\n",
    "[acme]\nterms_agreed = true\naddress = \"127.0.0.1:0\"\n\
     external_account = { key_id = \"k\", key_file = \"FILE\" }\n[[certificate]]\nnames = [\"x.test\"]\nacme = true\n",
    "<TOP>shaping = [\"FILE\"]\n",
    "<LISTENER>client_certificates = { authorities = \"FILE\", relay = true }\n",
    "<LISTENER>checks = { arc = \"mark\" }\nseal = { domain = \"x.test\", selector = \"s\", key = \"FILE\" }\n",
    "[[signer]]\ndomains = [\"x.test\"]\nselector = \"s\"\nkey = \"DIR/dkim.key\"\n\
     next = { selector = \"t\", key = \"FILE\", from = \"2026-01-01T00:00:00Z\" }\n",
];

/// A file with content that is wrong for each of these sections: empty, or of another kind. Files of `file` tables are
/// used whatever they contain.
const WRONG: [&str; FILES.len()] = [
    "", "plain", "bad.re", "bad.re", "plain", "plain", "plain", "plain", "empty", "plain", "empty",
    "empty", "empty", "empty", "plain", "plain", "plain", "plain", "plain", "plain", "plain",
    "plain",
];

/// Sections with a name that nothing has, or that something has already, as `BAD`.
const NAMES: [&str; 22] = [
    "[[access]]\ntable = \"BAD\"\nby = \"sender\"\n",
    "[[access]]\ntable = \"t\"\nby = \"sender\"\nlisteners = [\"BAD\"]\n[[table]]\nname = \"t\"\ninline = {}\n",
    "[[copy]]\nto = \"a@far.test\"\nsenders = [\"a@x.test\"]\nlisteners = [\"BAD\"]\n",
    "[[route]]\ndomains = [\"y.test\"]\nrecipients = { table = \"BAD\" }\ndiscard = {}\n",
    "[[route]]\ndomains = [\"y.test\"]\naliases = { table = \"BAD\" }\ndiscard = {}\n",
    "[[route]]\ndomains = [\"y.test\"]\npool = \"BAD\"\nmx = {}\n",
    "[[route]]\ndomains = { table = \"BAD\" }\ndiscard = {}\n",
    "[[table]]\nname = \"t\"\nunion = { tables = [\"BAD\"] }\n",
    "[[table]]\nname = \"t\"\ncall_ahead = { route = \"BAD\" }\n",
    "[[pool]]\nname = \"p\"\nsources = [{ name = \"BAD\" }]\n",
    "[[tenant]]\nname = \"a\"\npool = \"BAD\"\n",
    "[[policy]]\nservice = \"127.0.0.1:1\"\nlisteners = [\"BAD\"]\n",
    "[x400]\nmta = \"m\"\ndomain = \"/PRMD=A/ADMD= /C=GB/\"\n[[route]]\nor_addresses = [\"/PRMD=B/ADMD= /C=GB/\"]\n\
     x400 = { peer = \"BAD\" }\n",
    "[[route]]\ndomains = [\"far.test\"]\ndiscard = {}\n",
    "[[route]]\nname = \"out\"\ndomains = [\"y.test\"]\ndiscard = {}\n",
    "[[listener]]\nname = \"in\"\naddress = \"127.0.0.2:0\"\n",
    "[[table]]\nname = \"t\"\ninline = {}\n[[table]]\nname = \"t\"\ninline = {}\n",
    "[[source]]\nname = \"s\"\naddress = \"127.0.0.1\"\n[[source]]\nname = \"s\"\naddress = \"127.0.0.2\"\n",
    "[[pool]]\nname = \"p\"\n[[pool]]\nname = \"p\"\n",
    "[[tenant]]\nname = \"a\"\n[[tenant]]\nname = \"a\"\n",
    "[srs]\ndomain = \"srs.test\"\nsecret_file = \"x\"\n[srs]\ndomain = \"other.test\"\n",
    "[x400]\nmta = \"m\"\ndomain = \"/PRMD=A/ADMD= /C=GB/\"\n[[x400.peer]]\nname = \"p\"\ntheir_name = \"m2\"\n\
     our_password = \"x\"\ntheir_password = \"x\"\n[[x400.peer]]\nname = \"p\"\ntheir_name = \"m2\"\n\
     our_password = \"x\"\ntheir_password = \"x\"\n",
];

/// Complete configurations with unusable addresses and paths.
const PLACES: [(&str, &str); 8] = [
    ("path = \"DIR/spool\"", "path = \"DIR/plain\""),
    ("path = \"DIR/spool\"", "path = \"DIR/plain/spool\""),
    ("path = \"DIR/spool\"", "path = \"DIR/none/spool\""),
    ("path = \"DIR/spool\"", "path = \"DIR\""),
    ("path = \"DIR/spool\"", "paths = [\"DIR/spool\", \"DIR/plain\"]"),
    ("127.0.0.1:0", "192.0.2.1:0"),
    ("[spool]", "[admin]\naddress = \"192.0.2.1:0\"\n[spool]"),
    ("[spool]", "[admin]\ncontrol = \"DIR/plain\"\n[spool]"),
];

/// Puts sections into the plain configuration.
fn with(sections: &str, directory: &Path) -> String {
    let text = match (sections.strip_prefix("<TOP>"), sections.strip_prefix("<LISTENER>")) {
        (Some(top), _) => format!("{top}{}", PLAIN.replace("<LISTENER>", "")),
        (_, Some(keys)) => {
            let certificate = "[[certificate]]\nnames = [\"x.test\"]\nchain = \"DIR/mx.pem\"\nkey = \"DIR/mx.key\"\n";
            PLAIN.replace("<LISTENER>", keys) + certificate
        }
        _ => PLAIN.replace("<LISTENER>", "") + sections,
    };
    text.replace("DIR", &directory.display().to_string())
}

/// The rows of the catalogue, as files.
fn rows(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let within = |name: &str| format!("\"{}/{name}", directory.display());
    let mut all = Vec::new();
    for row in ROWS.split("\n[").skip(1) {
        let of = |kind: &'static str| row.lines().filter_map(move |line| line.strip_prefix(kind));
        let frame = of("in: ").next().expect("a frame");
        let Some((_, text)) = FRAMES.iter().find(|(name, _)| *name == frame) else { continue };
        let (before, behind) = text.split_once("<HERE>").expect("a place");
        let place = |line: &str| {
            let line = line.replace("{in}", "127.0.0.1:1").replace("{admin}", "127.0.0.1:2");
            // Within the test's directory.
            line.replace("\"file", &within("plain")).replace("\"other", &within("other"))
        };
        let lines: Vec<Vec<u8>> = of("F: ").map(|line| unescape(&place(line))).collect();
        let text = [before.as_bytes(), &lines.join(&b'\n'), behind.as_bytes()].concat();
        let name = row.split_once(']').expect("a name").0;
        all.push((name.to_owned(), text));
    }
    all
}

/// Each key of the reference with values that it does not take: of another type, and out of range.
fn keys() -> Vec<(String, String)> {
    fn walk<'s>(
        (schema, node): (&'s Value, &'s Value),
        (path, above): (&[(&'s str, bool)], &[&'s str]),
        found: &mut BTreeSet<(String, String)>,
    ) {
        if let Some(name) = node["$ref"].as_str().and_then(|name| name.rsplit('/').next()) {
            if !above.contains(&name) {
                let above: Vec<&str> = above.iter().copied().chain([name]).collect();
                walk((schema, &schema["$defs"][name]), (path, &above), found);
            }
            return;
        }
        if let Some((_, is_list)) = path.last().filter(|_| !path.is_empty()) {
            let bad = |value: &str| (dotted(path), written(path, value));
            // No key takes a date.
            found.insert(bad("1979-05-27"));
            if let Some(max) = node["maximum"].as_u64().filter(|_| !is_list) {
                found.insert(bad(&(max + 1).to_string()));
            }
            if let Some(min) = node["minimum"].as_i64().filter(|_| !is_list) {
                found.insert(bad(&(min - 1).to_string()));
            }
        }
        for way in ["anyOf", "oneOf", "allOf"].iter().filter_map(|way| node[*way].as_array()) {
            way.iter().for_each(|part| walk((schema, part), (path, above), found));
        }
        if let (Some(items), Some(((name, _), before))) = (node.get("items"), path.split_last()) {
            let path: Vec<_> = before.iter().copied().chain([(*name, true)]).collect();
            walk((schema, items), (&path, above), found);
        }
        for (name, of) in node["properties"].as_object().into_iter().flatten() {
            let path: Vec<_> = path.iter().copied().chain([(name.as_str(), false)]).collect();
            walk((schema, of), (&path, above), found);
        }
    }
    let schema = crate::sections::schema().json();
    let mut found = BTreeSet::new();
    walk((schema, schema), (&[], &[]), &mut found);
    found.into_iter().collect()
}

fn dotted(path: &[(&str, bool)]) -> String {
    path.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(".")
}

/// Sections whose last line sets a key to this value.
fn written(path: &[(&str, bool)], value: &str) -> String {
    let Some((&(section, is_list), below)) = path.split_first() else { return String::new() };
    let mut value = value.to_owned();
    for (level, (name, is_list)) in below.iter().enumerate().rev() {
        value = if *is_list { format!("{name} = [{value}]") } else { format!("{name} = {value}") };
        if level > 0 {
            value = format!("{{ {value} }}");
        }
    }
    match (below, is_list) {
        ([], false) => format!("{section} = {value}\n"),
        ([], true) => format!("{section} = [{value}]\n"),
        (_, false) => format!("[{section}]\n{value}\n"),
        (_, true) => format!("[[{section}]]\n{value}\n"),
    }
}

/// A directory with the files that configurations name, and both commands.
struct Bench {
    directory: tempfile::TempDir,
    runtime: tokio::runtime::Runtime,
    cases: u32,
    /// Differences from the expected results.
    wrong: Vec<String>,
}

impl Bench {
    fn new() -> Bench {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["x.test".to_owned()]).unwrap();
        fs::write(at("mx.pem"), certificate.self_signed(&key).unwrap().pem()).unwrap();
        fs::write(at("mx.key"), key.serialize_pem()).unwrap();
        let dkim = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        fs::write(at("dkim.key"), dkim.serialize_pem()).unwrap();
        fs::write(at("plain"), "no key\n").unwrap();
        fs::write(at("empty"), "").unwrap();
        fs::write(at("bad.re"), "/^(a/ OK\n").unwrap();
        fs::write(at("other.key"), KeyPair::generate().unwrap().serialize_pem()).unwrap();
        fs::create_dir(at("directory")).unwrap();
        // Unreadable even for root.
        symlink(at("unreadable"), at("unreadable")).unwrap();
        for private in ["mx.key", "dkim.key", "plain", "empty", "other.key"] {
            fs::set_permissions(at(private), fs::Permissions::from_mode(0o600)).unwrap();
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Bench { directory, runtime, cases: 0, wrong: Vec::new() }
    }

    /// Errors found by `check`, a line each: `LINE:COLUMN: error: TEXT`.
    fn find(&self, file: &Path) -> Vec<String> {
        let found = load::read(Some(file)).map_err(|error| error.one_line()).and_then(|read| {
            prepared(read).map_err(|mistakes| load::one_line(&mistakes)).map(drop)
        });
        self.lines(&found.err().unwrap_or_default())
    }

    /// Errors for which `serve` does not start; empty if it starts.
    fn refuse(&self, file: &Path) -> Vec<String> {
        let console = Arc::new(ConsoleLog::stderr(Level::Error));
        let read = match load::read(Some(file)) {
            Ok(read) => read,
            Err(error) => return self.lines(&error.one_line()),
        };
        match Node::start(read, 1, (HashMap::new(), RightsAtStart::default(), &console), &|_| ()) {
            Ok(node) => {
                self.runtime.block_on(node.stop(&console));
                Vec::new()
            }
            Err(StartError::Wrong(mistakes)) => self.lines(&mistakes.one_line()),
            Err(StartError::Failed(why)) => vec![format!("it fails: {why}")],
        }
    }

    /// Mistakes without the names of the files.
    fn lines(&self, told: &str) -> Vec<String> {
        let file = self.directory.path().join("postrider.toml");
        let file = format!("{}:", file.display());
        let lines = told.split(&file).map(|line| line.trim_end_matches("; "));
        let lines =
            lines.map(|line| line.replace(&self.directory.path().display().to_string(), ""));
        lines.filter(|line| !line.is_empty() && !line.contains(": warning: ")).collect()
    }

    /// Both of a configuration; they are the same.
    fn both(&mut self, what: &str, text: &[u8]) -> Vec<String> {
        let file = self.directory.path().join("postrider.toml");
        fs::write(&file, text).unwrap();
        self.cases += 1;
        let (found, refused) = (self.find(&file), self.refuse(&file));
        let text = String::from_utf8_lossy(text);
        if found != refused {
            self.wrong.push(format!("{what}: check {found:#?}, serve {refused:#?}, of\n{text}"));
        }
        found
    }

    /// Expects errors at exactly these lines.
    fn breaks(&mut self, what: &str, text: &str, lines: &[usize]) {
        let found = self.both(what, text.as_bytes());
        let place = |line: &String| line.split_once(':').and_then(|(line, _)| line.parse().ok());
        let places: Option<BTreeSet<usize>> = found.iter().map(place).collect();
        let expected: BTreeSet<usize> = lines.iter().copied().collect();
        self.expect(places == Some(expected), || format!("{what}: {found:#?}, of\n{text}"));
    }

    fn expect(&mut self, is_so: bool, else_wrong: impl FnOnce() -> String) {
        if !is_so {
            self.wrong.push(else_wrong());
        }
    }

    /// Expects no differences, in at least this number of cases.
    fn finish(self, least: u32) {
        assert!(self.wrong.is_empty(), "{} wrong:\n{}", self.wrong.len(), self.wrong.join("\n"));
        assert!(self.cases >= least, "{} cases", self.cases);
    }
}

/// The lines of a text that have this in them.
fn lines_with(text: &str, word: &str) -> Vec<usize> {
    let lines = text.lines().zip(1..).filter(|(line, _)| line.contains(word));
    lines.map(|(_, number)| number).collect()
}

#[test]
fn rows_of_the_catalogue_are_refused_as_they_are_found() {
    let mut bench = Bench::new();
    let directory = bench.directory.path().to_owned();
    for (name, text) in rows(&directory) {
        let found = bench.both(&name, &text);
        bench.expect(!found.is_empty(), || name);
    }
    bench.finish(100);
}

#[test]
fn values_that_a_key_does_not_take_are_found_at_their_place() {
    let mut bench = Bench::new();
    for (key, text) in keys() {
        let found = bench.both(&key, text.as_bytes());
        let line = text.lines().count();
        let at = |one: &String| one.starts_with(&format!("{line}:"));
        bench.expect(found.iter().any(at), || format!("{key}: {found:#?}, of\n{text}"));
    }
    bench.finish(500);
}

#[test]
fn files_that_can_not_be_read_are_found_all_at_once() {
    let mut bench = Bench::new();
    let directory = bench.directory.path().to_owned();
    for sections in FILES {
        for name in ["none", "directory", "unreadable"] {
            let text = with(&sections.replace("FILE", &format!("DIR/{name}")), &directory);
            let lines = lines_with(&text, &format!("/{name}\""));
            bench.breaks(name, &text, &lines);
        }
    }
    // Two at once, of different kinds.
    for pair in FILES[..18].windows(2).filter(|pair| pair.iter().all(|one| one.starts_with("[["))) {
        let both = pair.concat().replacen("\"t\"", "\"u\"", 1).replacen("y.test", "z.test", 1);
        let text = with(&both.replace("FILE", "DIR/none"), &directory);
        let lines = lines_with(&text, "/none\"");
        assert_eq!(lines.len(), 2, "{text}");
        bench.breaks("two", &text, &lines);
    }
    bench.finish(70);
}

#[test]
fn contents_that_can_not_be_used_are_found() {
    let mut bench = Bench::new();
    let directory = bench.directory.path().to_owned();
    for (sections, name) in FILES.iter().zip(WRONG).filter(|(_, name)| !name.is_empty()) {
        let text = with(&sections.replace("FILE", &format!("DIR/{name}")), &directory);
        let lines = lines_with(&text, &format!("/{name}\""));
        let found = bench.both(name, text.as_bytes());
        // Some name the place in the other file.
        let is_placed = |one: &String| {
            let place = one.split(':').next().unwrap_or_default();
            place == format!("/{name}") || place.parse().is_ok_and(|line| lines.contains(&line))
        };
        let is_found = !found.is_empty() && found.iter().all(is_placed);
        bench.expect(is_found, || format!("{found:#?}, of\n{text}"));
    }
    // The key of another certificate.
    let certificate =
        FILES.iter().find(|one| one.contains("key = \"FILE\"") && one.contains("mx.pem"));
    let text = with(&certificate.unwrap().replace("FILE", "DIR/other.key"), &directory);
    bench.breaks("another's key", &text, &lines_with(&text, "/mx.pem\""));
    // Two at once.
    let both = [FILES[1], FILES[7]].concat().replace("FILE", "DIR/plain");
    let text = with(&both, &directory);
    bench.breaks("two", &text, &lines_with(&text, "/plain\""));
    bench.finish(23);
}

#[test]
fn names_that_nothing_has_or_two_have_are_found() {
    let mut bench = Bench::new();
    let directory = bench.directory.path().to_owned();
    for sections in NAMES {
        let text = with(sections, &directory);
        let found = bench.both("name", text.as_bytes());
        let is_named = !text.contains("BAD") || found.iter().any(|one| one.contains("BAD"));
        let is_else = found.iter().any(|one| one.contains("unknown key"));
        let is_found = !found.is_empty() && is_named && !is_else;
        bench.expect(is_found, || format!("{found:#?}, of\n{text}"));
    }
    bench.finish(22);
}

#[test]
fn places_that_can_not_be_taken_are_found() {
    let mut bench = Bench::new();
    let directory = bench.directory.path().to_owned();
    let plain = with("", &directory);
    for (good, bad) in PLACES {
        let bad = bad.replace("DIR", &directory.display().to_string());
        let good = good.replace("DIR", &directory.display().to_string());
        let text = plain.replacen(&good, &bad, 1);
        assert_ne!(text, plain, "{good}");
        let word = bad.lines().find(|line| !line.starts_with('[')).unwrap();
        bench.breaks("place", &text, &lines_with(&text, word));
    }
    // A correct configuration starts.
    let found = bench.both("right", plain.as_bytes());
    bench.expect(found.is_empty(), || found.join("\n"));
    bench.finish(9);
}
