//! fail2ban, which reads failed logins from the console.

use super::server;
use crate::interop::place::{Place, is_possible};
use crate::support::{Files, tool};
use std::path::Path;

/// Users who try, whatever they think of; each fails once.
const USERS: &str = "['jo', '\" client=9.9.9.9:1 listener=x user=\"', 'x login: login failed client=9.9.9.9:1 listener=x user=', 'j\\u00f6\\uff1d\\u202e']";

#[test]
fn fail2ban_sees_each_failure_and_no_client_that_a_user_makes_up() {
    if !is_possible(&["fail2ban"]) {
        return;
    }
    let files = Files::new();
    let keys = "logins = { table = \"passwords\" }\nmax_login_failures = 100";
    let table = "[[table]]\nname = \"passwords\"\n[table.inline]\njo = \"{PLAIN}pencil\"\n";
    let server = server(&files, keys, table);
    tool::python(
        &format!(
            "import base64, smtplib, ssl, sys\n\
             c = smtplib.SMTP_SSL('127.0.0.1', int(sys.argv[1]), context=ssl._create_unverified_context())\n\
             c.ehlo()\n\
             for user in {USERS}:\n\
             \x20   said = base64.b64encode(('\\0' + user + '\\0pen').encode()).decode()\n\
             \x20   assert c.docmd('AUTH PLAIN ' + said)[0] == 535\n"
        ),
        &[&server.addresses[1].port().to_string()],
    );
    server.wait_console("the last failure", |line| line.contains("user=\"j\u{f6}"));
    let place = Place::new(0);
    // A server that is reached by IPv6, too.
    let other = "2026-11-23T10:00:00.000Z warn  login: login failed client=[2001:db8::1]:50000 listener=a user=\"x\"";
    let journal = "Nov 23 10:00:00 mx postrider[12]: login: login failed client=192.0.2.7:50000 listener=a user=\"x\"";
    // A listener may have a name with a blank.
    let blank = "2026-11-23T10:00:00.000Z warn  login: login failed client=192.0.2.8:50000 listener=mail in user=\"x\"";
    let text = server.console().join("\n");
    place.write("log", &format!("{text}\n{other}\n{journal}\n{blank}\n"));
    let filter = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples/fail2ban-postrider.conf")
        .display()
        .to_string();
    let log = place.path("log").display().to_string();
    let words = ["fail2ban-regex", "--out", "ip", &log, &filter];
    let output = place.command("fail2ban", &words).output().expect("a script of ours");
    let found = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr);
    let mut found: Vec<&str> = found.lines().collect();
    found.sort_unstable();
    let here = "127.0.0.1";
    assert_eq!(
        found,
        [here, here, here, here, "192.0.2.7", "192.0.2.8", "2001:db8::1"],
        "{said}\n{text}"
    );
}
