//! Programs that send by sendmail(1): swaks, mutt, git, PHP and cron. The program under test is mounted at
//! /usr/sbin/sendmail, in a mount namespace of theirs, so that they run with their own defaults.

use crate::interop::place::Place;
use crate::support::Files;
use crate::support::foreign::{is_possible, with_packages};
use crate::support::server::{CONFIG, POSTRIDER, Server};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

/// Their packages; swaks is installed.
const PACKAGES: [&str; 4] = ["cron", "mutt", "git-email", "php-cli"];

/// Runs its other arguments where the first one is /usr/sbin/sendmail.
const AS_SENDMAIL: &str = "mount --bind \"$1\" /usr/sbin/sendmail && shift && exec \"$@\"";

/// Crontabs of a machine that has none but these, and was started just now.
const CRON: &str = "mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /var/spool && \
     mount -t tmpfs tmpfs /etc/cron.d && : >/run/none && mount --bind /run/none /etc/crontab && \
     mkdir -p /var/spool/cron/crontabs && cd /var/spool/cron/crontabs && chmod 1730 . && \
     echo '@reboot echo first; echo .; echo last' >root && cp root nobody && chmod 600 * && \
     chown nobody nobody && exec cron -f";

/// A directory that all users reach, and a server that keeps all mail in it.
struct Callers {
    files: Files,
    server: Server,
}

impl Callers {
    /// `None` where the packages or namespaces are missing, as noted then.
    fn start() -> Option<Callers> {
        if !is_possible(&PACKAGES) {
            return None;
        }
        let files = Files::new();
        fs::set_permissions(files.dir(), fs::Permissions::from_mode(0o755)).expect("own directory");
        let dir = files.dir().display().to_string();
        let config = format!(
            "hostname = \"mail.here.test\"\nspool = {{ path = \"{dir}/spool\" }}\n\
             [[listener]]\nname = \"in\"\naddress = \"127.0.0.1:0\"\n\
             [[listener]]\nname = \"local\"\nkind = \"local\"\nsocket = \"{dir}/submit.sock\"\n\
             [[route]]\nmaildir = {{ path = \"{dir}/mail/{{local}}\" }}\n"
        );
        let server = Server::start(&files, &config);
        Some(Callers { files, server })
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(with_packages());
        command.arg(PACKAGES.join(",")).args(["sh", "-c", AS_SENDMAIL, "sh", POSTRIDER]);
        command.args(words).current_dir(self.files.dir()).env("HOME", self.files.dir());
        command.env("POSTRIDER_CONFIG", self.files.path(CONFIG));
        command.env_remove("NAME");
        command
    }

    /// Runs a program that must succeed, with a file as standard input. Returns its output.
    fn run(&self, input: Option<&str>, words: &[&str]) -> String {
        let mut command = self.command(words);
        command.stdin(match input {
            Some(name) => fs::File::open(self.files.path(name)).expect("a file").into(),
            None => Stdio::null(),
        });
        let output = command.output().expect("a script of ours");
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The only message of a user.
    fn mail_of(&self, user: &str) -> String {
        let mail = self.files.wait_maildir(&format!("mail/{user}"), 1).remove(0);
        String::from_utf8(mail).expect("text")
    }

    /// The only message of a user, as root sent it.
    fn sent_by_root(&self, user: &str) -> String {
        let mail = self.mail_of(user);
        assert!(
            mail.contains("\nReceived: by mail.here.test (Postrider, from userid 0)"),
            "{mail}"
        );
        assert!(mail.contains("\nDate: ") && mail.contains("\nMessage-I"), "{mail}");
        mail
    }
}

#[test]
fn swaks_sends_over_a_pipe() {
    let Some(callers) = Callers::start() else { return };
    let pipe = ["swaks", "--pipe", "/usr/sbin/sendmail -bs", "--from", "me@x.test"];
    let said = callers.run(None, &[&pipe[..], &["--to", "a@x.test,b@x.test"]].concat());
    assert!(said.contains("250 2.0.0 Ok: queued as "), "{said}");
    for user in ["a", "b"] {
        let mail = callers.sent_by_root(user);
        assert!(mail.starts_with("Return-Path: <me@x.test>\n"), "{mail}");
        assert!(mail.contains("\n\nThis is a test mailing\n"), "{mail}");
    }
    callers.server.stop();
}

#[test]
fn mutt_sends_with_its_default_command() {
    let Some(callers) = Callers::start() else { return };
    callers.files.write("body", "first\n.\nlast\n");
    let mutt = ["mutt", "-F", "/dev/null", "-e", "set record="];
    callers.run(Some("body"), &[&mutt[..], &["-s", "One", "--", "a@x.test"]].concat());
    let mail = callers.sent_by_root("a");
    assert!(mail.contains("\nSubject: One\n") && mail.ends_with("\n\nfirst\n.\nlast\n"), "{mail}");
    // It passes these on as -N and -R.
    let wishes = ["-e", "set dsn_notify=success dsn_return=hdrs", "-s", "Two", "--", "b@x.test"];
    callers.run(Some("body"), &[&mutt[..], &wishes].concat());
    callers.sent_by_root("b");
    let report = callers.mail_of("root");
    assert!(report.contains("\nFinal-Recipient: rfc822;b@x.test\nAction: delivered\n"), "{report}");
    assert!(report.contains("\nSubject: Two\n") && !report.contains("last"), "{report}");
    callers.server.stop();
}

#[test]
fn git_send_email_sends_a_patch() {
    let Some(callers) = Callers::start() else { return };
    let file = "git init -q . && git config user.name Jo && git config user.email jo@x.test && \
         echo text >file && git add file && git commit -qm 'Add a file'";
    let mut made = Command::new("sh");
    made.args(["-c", file]).current_dir(callers.files.dir()).env("HOME", callers.files.dir());
    assert!(made.status().expect("sh(1)").success());
    let command = "/usr/sbin/sendmail -N success -V id+1";
    let send = ["git", "send-email", "--confirm=never", "--suppress-cc=all", "--from=jo@x.test"];
    let to = ["--envelope-sender=asker@x.test", "--to=a@x.test", "--cc=b@x.test", "-1"];
    callers.run(None, &[&send[..], &["--sendmail-cmd", command], &to].concat());
    for user in ["a", "b"] {
        let mail = callers.sent_by_root(user);
        assert!(mail.starts_with("Return-Path: <asker@x.test>\n"), "{mail}");
        assert!(mail.contains("\nSubject: [PATCH] Add a file\n") && mail.contains("\n+text\n"));
    }
    let report = callers.mail_of("asker");
    assert!(report.contains("\nOriginal-Envelope-Id: id+1\n"), "{report}");
    assert_eq!(report.matches("\nAction: delivered\n").count(), 2, "{report}");
    callers.server.stop();
}

#[test]
fn php_mails() {
    let Some(callers) = Callers::start() else { return };
    let script = "$ok = mail('a@x.test, Two <b@x.test>', 'One', \"first\\n.\\nlast\", \
         ['From' => 'web@x.test', 'Bcc' => 'c@x.test'], '-f bounce@x.test -N success -R hdrs -V id+1'); \
         exit($ok ? 0 : 1);";
    callers.run(None, &["sh", "-c", "exec /usr/bin/php[0-9].[0-9] -n -r \"$0\"", script]);
    for user in ["a", "b", "c"] {
        let mail = callers.sent_by_root(user);
        assert!(mail.starts_with("Return-Path: <bounce@x.test>\n"), "{mail}");
        assert!(mail.ends_with("\n\nfirst\n.\nlast\n") && !mail.contains("Bcc"), "{mail}");
    }
    let report = callers.mail_of("bounce");
    assert!(
        report.contains("\nOriginal-Envelope-Id: id+1\n") && !report.contains("last"),
        "{report}"
    );
    assert_eq!(report.matches("\nAction: delivered\n").count(), 3, "{report}");
    callers.server.stop();
}

#[test]
fn cron_mails_output_to_the_owners_of_jobs() {
    let Some(callers) = Callers::start() else { return };
    let mut place = Place::new(0);
    let cron = place.start(callers.command(&["sh", "-c", CRON]), "log");
    for user in ["root", "nobody"] {
        let mail = callers.mail_of(user);
        // Debian's cron names root as author of all.
        assert!(mail.contains("\nFrom: root@mail.here.test (Cron Daemon)\n"), "{mail}");
        assert!(mail.contains(&format!("\nSubject: Cron <{user}@")), "{mail}");
        assert!(mail.ends_with("\n\nfirst\n.\nlast\n"), "{mail}");
        assert!(mail.starts_with(&format!("Return-Path: <{user}@mail.here.test>\n")), "{mail}");
    }
    place.end(cron);
    // While the server is down, too.
    let again = callers.command(&["sh", "-c", CRON]);
    let Callers { files, server } = callers;
    server.stop();
    let cron = place.start(again, "log");
    // A file that is being written has another name.
    let is_whole = |name: &str| name.starts_with("msg-");
    let entries = || fs::read_dir(files.path("spool-drop")).into_iter().flatten().flatten();
    let names = || entries().map(|entry| entry.file_name().into_string().expect("text"));
    crate::support::wait_until("two files", || names().filter(|name| is_whole(name)).count() == 2);
    place.end(cron);
    let server = Server::start_again(&files);
    for user in ["root", "nobody"] {
        let mail = files.wait_maildir(&format!("mail/{user}"), 2);
        let uid = if user == "root" { 0 } else { 65_534 };
        let trace = format!("from userid {uid})");
        assert!(mail.iter().all(|mail| String::from_utf8_lossy(mail).contains(&trace)), "{mail:?}");
    }
    server.stop();
}
