//! Mistakes in the program's own sections.

use super::schema;

/// What stands before them.
const FRAME: &str = "\n[[listener]]\naddress = \"127.0.0.1:25\"\n[[route]]\ndiscard = {}\n";

/// A section, and the one error line that must come of it.
const BAD: &[(&str, &str)] = &[
    ("[dmarc_reports]\nhour = 24", "7:8: `hour` must be between 0 and 23"),
    ("[dmarc_reports]\nfrom = \"nobody\"", "7:8: \"nobody\" is not an address"),
    ("[dmarc_reports]\ncontact = \"a@b.test\"", "7:11: `contact` without `from`"),
    ("[tls_reports]\nfrom = \"nobody\"", "7:8: \"nobody\" is not an address"),
    ("[tls_reports]\norganization_name = \"x\"", "7:21: `organization_name` without `from`"),
    ("[tls_reports]\nfrom = \"a@b.test\"\ncontact = \"x\"", "8:11: \"x\" is not an address"),
    ("[tls_reports]\nfrom = \"a@b.test\"\nspread = \"13h\"", "8:10: more than half a day"),
    ("[tls_reports]\nfrom = \"a@b.test\"\nspread = \"soon\"", "8:10: \"soon\" is not a duration"),
    (
        "[tls_reports]\nfrom = \"a@b.test\"\norganization_name = \"\"",
        "8:21: use 1 to 200 printable ASCII characters",
    ),
    (
        "domains = [\"a.test\"]\n[[route]]\ndefer_classes = [\"reputation\", \"bad\"]\nmx = {}",
        "8:32: unknown class \"bad\"",
    ),
    (
        "domains = [\"a.test\"]\n[[route]]\ndefer_classes = [\"policy\"]\ndiscard = {}",
        "8:17: `defer_classes` in a route to `discard`, which gets no SMTP replies to classify",
    ),
    ("[alerts]\nevery = \"1h\"", "6:2: alerts without a receiver"),
    ("[alerts]\nto = [\"ops\"]", "7:7: \"ops\" is not an address"),
    ("[alerts]\nto = [\"postmaster\", \"Postmaster\"]", "7:21: \"Postmaster\" is listed twice"),
    ("[alerts]\nto = [\"postmaster\"]\nfrom = \"x\"", "8:8: \"x\" is not an address"),
    ("[alerts]\nto = [\"postmaster\"]\nevery = \"999ms\"", "8:9: shorter than a second"),
    (
        "[alerts]\nto = [\"a@b.test\", \"b@b.test\", \"c@b.test\", \"d@b.test\", \"e@b.test\", \"f@b.test\", \
         \"g@b.test\", \"h@b.test\", \"i@b.test\"]",
        "7:6: more than 8 addresses",
    ),
    ("[alerts]\nwebhook = {}", "7:1: not the URL of a web server: it must begin with https://"),
    (
        "[alerts]\nwebhook = { url = \"http://far.test/\" }",
        "7:19: not the URL of a web server: secrets would cross the network unencrypted",
    ),
    ("[classes]\nfiles = [\"a\", \"a\"]", "7:15: \"a\" is listed twice"),
];

#[test]
fn each_mistake_is_shown_at_its_place() {
    for (section, expected) in BAD {
        let found = schema().parse(&format!("{FRAME}{section}\n"), "f.toml");
        let errors = found.err().unwrap_or_else(|| panic!("no error: {section}"));
        let fatal = errors.problems().iter().filter(|problem| problem.fatal);
        let lines: Vec<String> =
            fatal.map(|p| format!("{}:{}: {}", p.line, p.column, p.message)).collect();
        assert_eq!(lines, [*expected], "{section}");
    }
}
