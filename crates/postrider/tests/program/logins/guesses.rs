//! Whoever guesses passwords makes nobody else wait.

use crate::support::Files;
use crate::support::certificate::{EC, make_certificate, section};
use crate::support::http::{get, metric};
use crate::support::server::Server;
use crate::support::tool::python;

/// What `jo` has, quickly hashed, and what nobody's password is after half a second or more.
const PASSWORDS: &str = "jo = \"{PLAIN}pencil\"\nslow = \"$6$rounds=2000000$saltsalt$\
                         bbY.T.ZpN43KapLdmlSbP6MmxBlkMSbhrh.Y1rmY0fYaRO/t.4sKqUiU.Z8byKf8Oa1yagMn/0fncuHSYrb9h.\"\n";

/// Guesses from so many addresses, and without waiting for what comes of them a login of one who was here
/// before, and the same from where nobody is known.
const SCRIPT: &str = r#"
import base64, smtplib, ssl, sys
context = ssl._create_unverified_context()
def session(source):
    client = smtplib.SMTP("127.0.0.1", int(sys.argv[1]), source_address=(source, 0), timeout=60)
    client.starttls(context=context)
    client.ehlo()
    return client
def log_in():
    client = session("127.0.0.2")
    client.login("jo", "pencil")
    client.quit()
log_in()
guesses = [session(f"127.0.1.{n + 1}") for n in range(int(sys.argv[2]))]
for guess in guesses:
    guess.putcmd("AUTH PLAIN " + base64.b64encode(b"\0slow\0wrong").decode())
log_in()
metrics = __import__("urllib.request").request.urlopen(f"http://{sys.argv[3]}/metrics").read().decode()
for line in metrics.splitlines():
    if line.startswith("postrider_password_check_seconds_count"):
        print(line)
"#;

#[test]
fn whoever_was_here_before_waits_for_no_guess() {
    let files = Files::new();
    make_certificate(files.dir(), "mx", EC, &["mail.here.test"]);
    let text = format!(
        "hostname = \"mail.here.test\"\nspool = {{ path = \"spool\" }}\n\
         [admin]\naddress = \"127.0.0.1:0\"\n{}\
         [[listener]]\nname = \"submission\"\nkind = \"submission\"\naddress = \"127.0.0.1:0\"\n\
         logins = {{ table = \"passwords\" }}\n\
         [[table]]\nname = \"passwords\"\n[table.inline]\n{PASSWORDS}\
         [[route]]\nmaildir = {{ path = \"mail/{{local}}\" }}\n",
        section("mx", &["mail.here.test"]),
    );
    let server = Server::start(&files, &text);
    const GUESSES: u64 = 12;
    let (port, guesses) = (server.address().port().to_string(), GUESSES.to_string());
    let admin = server.wait_console("admin", |line| line.contains("metrics and health on "));
    let admin = admin.rsplit(' ').next().expect("an address");
    let told = python(SCRIPT, &[&port, &guesses, admin]);
    let count = |lane: &str| {
        let lane = format!("lane=\"{lane}\"");
        let line = told.lines().find(|line| line.contains(&lane)).expect("a line for each lane");
        line.rsplit(' ').next().expect("a number").parse::<u64>().expect("a number")
    };
    // When he was let in the second time, most guesses had still to be checked.
    assert_eq!(count("known"), 1, "{told}");
    assert!(count("stranger") + count("suspect") < 1 + GUESSES, "{told}");
    assert_eq!(metric(&get(admin, "/metrics"), "postrider_logins_total"), 2);
    server.stop();
}
