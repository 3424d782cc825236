//! Mailboxes on this machine, through the real program.

use crate::support::client::Client;
use crate::support::server::{CONFIG, Server, command};
use crate::support::{Files, config, wait_until};
use std::os::unix::fs::{MetadataExt as _, symlink};

fn with(keys: &str) -> String {
    config(&format!(
        "[[route]]\nname = \"here\"\nmaildir = {{ path = \"mail/{{hash:1}}/{{local}}\"{keys} }}\n"
    ))
}

/// The only directory below `mail` that has this mailbox.
fn home(files: &Files, user: &str) -> String {
    let find = || {
        let all = std::fs::read_dir(files.path("mail")).into_iter().flatten().flatten();
        let mut all = all.map(|entry| entry.file_name().into_string().expect("text"));
        all.find(|hash| files.path("mail").join(hash).join(user).join("new").exists())
    };
    wait_until("a mailbox", || find().is_some());
    format!("mail/{}/{user}", find().expect("it is there"))
}

#[test]
fn folders_and_quotas_are_kept() {
    let files = Files::new();
    let keys = ", folders = \"tag\", create_folders = true, quota = 1_000, quota_grace = \"0\"";
    let server = Server::start(&files, &with(keys));
    let mut client = Client::connect(server.address());
    client.mail("me@source.test", &["user+Lists@box.test"], "Subject: one\r\n\r\nBody.\r\n");
    let home = home(&files, "user");
    files.wait_maildir(&format!("{home}/.Lists"), 1);
    let long = format!("Subject: two\r\n\r\n{}", "x\r\n".repeat(500));
    client.mail("me@source.test", &["user@box.test"], &long);
    let failed = files.wait_events("failed", 1).remove(0);
    assert_eq!(failed["status"], "5.2.2", "{failed}");
    let sizes = std::fs::read_to_string(files.path(&home).join("maildirsize")).expect("a file");
    assert!(sizes.starts_with("1000S\n"), "{sizes}");
    server.stop();
}

#[test]
fn folders_follow_the_configured_delimiter() {
    let files = Files::new();
    let keys = ", folders = \"tag\", create_folders = true";
    let text = with(keys);
    let server = Server::start(&files, &format!("recipient_delimiter = \"-\"\n{text}"));
    let mut client = Client::connect(server.address());
    let to = ["user-Lists@box.test", "user+Lists@box.test"];
    client.mail("me@source.test", &to, "Subject: one\r\n\r\nBody.\r\n");
    let (tagged, whole) = (home(&files, "user"), home(&files, "user+lists"));
    files.wait_maildir(&format!("{tagged}/.Lists"), 1);
    files.wait_maildir(&whole, 1);
    server.stop();
}

#[test]
fn mail_for_a_mailbox_that_is_a_link_waits_until_it_is_none() {
    let files = Files::new();
    let server = Server::start(&files, &with(""));
    let mut client = Client::connect(server.address());
    client.mail("me@source.test", &["user@box.test"], "Subject: one\r\n\r\nBody.\r\n");
    let home = home(&files, "user");
    files.wait_maildir(&home, 1);
    std::fs::rename(files.path(&home), files.path("elsewhere")).expect("it moves");
    symlink(files.path("elsewhere"), files.path(&home)).expect("a link");
    client.mail("me@source.test", &["user@box.test"], "Subject: two\r\n\r\nBody.\r\n");
    let deferred = files.wait_events("deferred", 1).remove(0);
    assert_eq!(deferred["status"], "4.2.1", "{deferred}");
    let reason = deferred["reason"].to_string();
    assert!(reason.contains("`user` in its path is a symbolic link"), "{reason}");
    std::fs::remove_file(files.path(&home)).expect("the link goes");
    server.command(&["queue", "retry", "--all"]);
    files.wait_maildir(&home, 1);
    assert_eq!(files.maildir("elsewhere").len(), 1);
    server.stop();
}

#[test]
fn root_gives_mailboxes_to_their_user() {
    if !rustix::process::geteuid().is_root() {
        skips::machine(skips::Machine::Root, "mailboxes are given to users");
        return;
    }
    let files = Files::new();
    let server =
        Server::start(&files, &with(", user = \"54321\", group = \"54322\", mode = \"0640\""));
    let mut client = Client::connect(server.address());
    client.mail("me@source.test", &["user@box.test"], "Subject: one\r\n\r\nBody.\r\n");
    let home = home(&files, "user");
    files.wait_maildir(&home, 1);
    let new = files.path(&home).join("new");
    let file = std::fs::read_dir(&new).expect("it is there").flatten().next().expect("a message");
    for path in [files.path(&home), new, file.path()] {
        let found = std::fs::metadata(&path).expect("it is there");
        assert_eq!((found.uid(), found.gid()), (54_321, 54_322), "{}", path.display());
    }
    assert_eq!(file.metadata().expect("it is there").mode() & 0o777, 0o640);
    server.stop();
}

#[test]
fn a_user_that_is_not_there_is_told_at_the_start() {
    let files = Files::new();
    files.write(CONFIG, &with(", user = \"no-such-user\""));
    let answer = command(files.dir(), &["serve"]);
    assert_ne!(answer.code, 0);
    let told = "route here: unknown user \"no-such-user\"";
    assert!(answer.err.contains(told), "{}", answer.err);
}

#[test]
fn entries_of_a_file_name_mailboxes_and_explain_shows_them() {
    let files = Files::new();
    files.write("users", "jo@box.test one/jo\n");
    files.write("domains", "box.test yes\n");
    files.write(
        "aliases",
        "team@box.test jo@box.test, ann@box.test\nowner-team@box.test ann@box.test\n",
    );
    let text = config(
        "[[table]]\nname = \"users\"\nfile = { path = \"users\" }\n\
         [[table]]\nname = \"domains\"\nfile = { path = \"domains\" }\n\
         [[table]]\nname = \"aliases\"\nfile = { path = \"aliases\" }\n\
         [[route]]\nname = \"here\"\ndomains = { table = \"domains\" }\n\
         recipients = { table = \"users\" }\naliases = { table = \"aliases\" }\n\
         maildir = { path = \"mail/{value}\" }\n[[route]]\ndiscard = {}\n",
    );
    let server = Server::start(&files, &text);
    let mut client = Client::connect(server.address());
    client.mail("me@source.test", &["jo@box.test"], "Subject: one\r\n\r\nBody.\r\n");
    files.wait_maildir("mail/one/jo", 1);
    files.write("users", "jo@box.test two/jo\n");
    server.wait_console("the file is read", |line| line.contains("users reloaded"));
    client.mail("me@source.test", &["jo@box.test"], "Subject: two\r\n\r\nBody.\r\n");
    files.wait_maildir("mail/two/jo", 1);
    let steps = |address: &str| {
        let answer = command(files.dir(), &["explain", "--json", address]);
        assert_eq!((answer.code, &*answer.err), (0, ""));
        let said: serde_json::Value = serde_json::from_str(&answer.out).expect("JSON");
        let step = |step: &serde_json::Value| {
            let part = |name: &str| step[name].as_str().expect("text").to_owned();
            (part("what"), part("value"), part("decided_by"))
        };
        let steps: Vec<_> = said["steps"].as_array().expect("steps").iter().map(step).collect();
        (said["accepted"] == true, steps)
    };
    let named =
        |text: &str, value: &str, by: &str| (text.to_owned(), value.to_owned(), by.to_owned());
    let (accepted, told) = steps("jo@box.test");
    assert!(accepted);
    let lookups: Vec<_> = told.iter().filter(|(what, ..)| what.starts_with("table ")).collect();
    let expected = [
        named("table \"domains\"", "box.test: yes", "domains"),
        named("table \"aliases\"", "jo@box.test: key not found", "aliases"),
        named("table \"aliases\"", "@box.test: key not found", "aliases"),
        named("table \"users\"", "jo@box.test: two/jo", "users"),
    ];
    assert!(lookups.into_iter().eq(&expected), "{told:#?}");
    let path = told.iter().find(|(what, ..)| what == "path").expect("a path");
    assert_eq!(path.1, "mail/two/jo");
    let (accepted, told) = steps("team@box.test");
    let members = named("expands to", "jo@box.test, ann@box.test", "table \"aliases\"");
    assert!(accepted && told.contains(&members), "{told:#?}");
    let owner = "owner-team@box.test, if it exists";
    let owner = named("sender for these", owner, "table \"aliases\"");
    assert!(told.contains(&owner), "{told:#?}");
    assert!(told.iter().all(|(what, ..)| what != "path"), "the members have one, not the alias");
    assert!(!steps("nobody@box.test").0);
    server.stop();
}

#[test]
fn explain_tells_why_tables_can_not_be_opened() {
    let files = Files::new();
    files.write(
        CONFIG,
        &config(
            "[[table]]\nname = \"users\"\nfile = { path = \"missing\" }\n[[route]]\n\
             recipients = { table = \"users\" }\nmaildir = { path = \"mail/{value}\" }\n",
        ),
    );
    let answer = command(files.dir(), &["explain", "jo@box.test"]);
    assert_ne!(answer.code, 0);
    assert!(answer.err.contains("table \"users\": cannot read missing"), "{}", answer.err);
    assert_eq!(command(files.dir(), &["explain", "--offline", "jo@box.test"]).code, 0);
}

#[test]
fn two_servers_of_one_configuration_may_keep_one_maildir() {
    const EACH: usize = 20;
    let shared = Files::new();
    let box_of_all = shared.path("mail").join("{local}").display().to_string();
    let text = config(&format!("[[route]]\nmaildir = {{ path = \"{box_of_all}\" }}\n"));
    let twins = [Files::new(), Files::new()];
    let servers: Vec<Server> = twins.iter().map(|files| Server::start(files, &text)).collect();
    let mut clients: Vec<Client> =
        servers.iter().map(|server| Client::connect(server.address())).collect();
    // In step: their ids are the same.
    for n in 0..EACH {
        for (twin, client) in clients.iter_mut().enumerate() {
            let body = format!("Subject: {n} of twin {twin}\r\n\r\nBody.\r\n");
            client.mail("me@source.test", &["user@box.test"], &body);
        }
    }
    let messages = shared.wait_maildir("mail/user", 2 * EACH);
    let text: Vec<String> =
        messages.into_iter().map(|m| String::from_utf8(m).expect("text")).collect();
    for twin in 0..2 {
        for n in 0..EACH {
            let subject = format!("Subject: {n} of twin {twin}\n");
            assert_eq!(text.iter().filter(|text| text.contains(&subject)).count(), 1, "{subject}");
        }
    }
    servers.into_iter().for_each(Server::stop);
}

#[test]
fn mail_for_a_disk_that_is_not_mounted_waits() {
    let files = Files::new();
    let route = "[[route]]\nname = \"here\"\nmaildir = { path = \"disk/boxes/{local}\" }\n";
    std::fs::create_dir(files.path("disk")).expect("a mount point");
    let server = Server::start(&files, &config(route));
    let line = "cannot store mailboxes in disk/boxes/: it does not exist";
    server.wait_console("the problem", |told| told.contains(line));
    let checked = command(files.dir(), &["check"]);
    assert_eq!(checked.code, 0);
    assert!(checked.err.contains("route here: cannot store mailboxes"), "{checked:?}");
    let mut client = Client::connect(server.address());
    client.mail("me@source.test", &["user@box.test"], "Subject: one\r\n\r\nBody.\r\n");
    let deferred = files.wait_events("deferred", 1).remove(0);
    assert_eq!(deferred["status"], "4.3.0", "{deferred}");
    assert!(!files.path("disk/boxes").exists(), "nothing is made below a mount point");
    let status = server.command(&["status"]);
    assert!(status.out.contains(line), "{status:?}");
    std::fs::create_dir(files.path("disk/boxes")).expect("it is mounted");
    let is_well = || server.command(&["status"]).out.contains("All is well.");
    wait_until("the end of the problem", is_well);
    server.command(&["queue", "retry", "--all"]);
    files.wait_maildir("disk/boxes/user", 1);
    server.stop();
}
