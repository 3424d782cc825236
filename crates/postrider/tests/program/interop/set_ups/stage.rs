//! Both servers of a set-up with their next hops, and what has become of the mail that they accepted.

use super::hops::{Arrival, Hops};
use super::set_up::{FRIEND, SetUp};
use crate::interop::place::Place;
use crate::interop::postfix::{launch_asking, overriding};
use crate::logins::dovecot_auth::DovecotAuth;
use crate::support::certificate::make_issued;
use crate::support::server::{Server, program};
use crate::support::tool::free_port;
use crate::support::{Files, config_with};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Lines of main.cf of each set-up; those of the set-up itself stand before them and replace them.
const MAIN_CF: &str = "inet_interfaces = 127.0.0.1
myhostname = relay.test
myorigin = here.test
disable_dns_lookups = no
smtp_host_lookup = dns
minimal_backoff_time = 1000s
maximal_backoff_time = 4000s
smtpd_peername_lookup = no
smtpd_error_sleep_time = 0
smtpd_hard_error_limit = 1000
smtpd_client_connection_count_limit = 0
smtpd_relay_restrictions = permit_mynetworks, reject_unauth_destination
";

/// Keys of each listener: no limits of clients. (Exempt clients would pass some checks as well.)
const LISTENER: &str = "greeting_delay = \"0s\"
max_errors = 1000
connections_per_minute = 0
messages_per_minute = 0
recipients_per_minute = 0
refusals_per_minute = 0
";

/// What has become of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) arrivals: Vec<Arrival>,
    /// Recipients that still wait.
    pub(super) waits: BTreeSet<String>,
}

pub(super) struct Stage {
    pub(super) postfix_port: u16,
    pub(super) port: u16,
    place: Place,
    files: Files,
    hops: Hops,
    server: Server,
    /// Subjects of the report, if the configuration was translated.
    report: Option<BTreeSet<String>>,
    _auth: Option<DovecotAuth>,
}

impl Stage {
    /// Starts both; this server with the hand-written configuration, or with the translation of Postfix's.
    pub(super) fn start(set_up: &SetUp, is_translated: bool) -> Stage {
        let (mut place, files) = (Place::new(0), Files::new());
        if set_up.has_tls {
            make_issued(files.dir(), "ca", &[("mx", "mx.here.test")]);
            for name in ["mx.pem", "mx.key"] {
                std::fs::copy(files.path(name), place.path(name)).expect("copied");
            }
        }
        let hops = Hops::start(set_up.has_tls.then_some(&files));
        let auth = set_up.is_submission.then(DovecotAuth::start);
        for (name, text) in set_up.files {
            let text = hops.fill(text);
            match name.strip_prefix("ours-") {
                Some(name) => drop(files.write(name, &text)),
                None => {
                    place.write(name, &text);
                    files.write(name, &text);
                }
            }
        }
        let postfix_port = free_port();
        start_postfix(&mut place, set_up, &hops, auth.as_ref(), postfix_port);
        let (server, report) = match is_translated {
            true => {
                let (server, report) = start_translated(&files, &place, set_up, &hops);
                (server, Some(report))
            }
            false => (start_ours(&files, set_up, &hops), None),
        };
        place.wait_listening(postfix_port);
        let port = server.address().port();
        Stage { postfix_port, port, place, files, hops, server, report, _auth: auth }
    }

    /// Returns true if the report of the migration has a row with this subject. A configuration written by hand has no
    /// report.
    pub(super) fn is_reported(&self, subject: &str) -> bool {
        self.report.as_ref().is_none_or(|report| report.contains(subject))
    }

    /// The authority of certificates.
    pub(super) fn authorities(&self) -> PathBuf {
        self.files.path("ca.pem")
    }

    /// All that has become of messages so far, by their marks; `ids` leads from ids to marks.
    pub(super) fn ways(&self, ids: &BTreeMap<String, String>) -> BTreeMap<String, Way> {
        let mut ways: BTreeMap<String, Way> = BTreeMap::new();
        for (mark, arrival) in self.hops.arrivals() {
            ways.entry(mark).or_default().arrivals.push(arrival);
        }
        for (id, recipient) in self.waiting() {
            if let Some(mark) = ids.get(&id) {
                ways.entry(mark.clone()).or_default().waits.insert(recipient);
            }
        }
        for way in ways.values_mut() {
            way.arrivals.sort();
        }
        ways
    }

    /// Ids and recipients in the queues of both.
    fn waiting(&self) -> Vec<(String, String)> {
        let mut all = Vec::new();
        let log = self.log();
        for line in log.lines().filter(|line| line.contains("status=deferred")) {
            if let Some((id, recipient)) = logged(line) {
                all.push((id.to_owned(), recipient.to_owned()));
            }
        }
        let mut listed = self.server.json(&["queue", "list", "--limit", "100000"]);
        listed.retain(|response| response["response"] == "item");
        for item in listed {
            for recipient in item["recipients"].as_array().expect("a list") {
                let text =
                    |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
                all.push((text(&item["id"]), text(&recipient["address"])));
            }
        }
        all
    }

    /// Returns true if Postfix has no mail that it could send now.
    pub(super) fn is_postfix_idle(&self) -> bool {
        let queue = self.place.path("queue");
        ["incoming", "active", "maildrop"].iter().all(|name| {
            std::fs::read_dir(queue.join(name)).is_ok_and(|mut entries| entries.next().is_none())
        })
    }

    /// Lines of Postfix's log about a message.
    pub(super) fn log_of(&self, id: &str) -> String {
        let log = self.log();
        let lines = log.lines().filter(|line| !id.is_empty() && line.contains(id));
        lines.fold(String::new(), |text, line| text + line + "\n")
    }

    /// Events of this server about a message.
    pub(super) fn events_of(&self, id: &str) -> String {
        let events = self.files.events().into_iter().filter(|event| event["id"] == id);
        events.fold(String::new(), |text, event| text + &event.to_string() + "\n")
    }

    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(self.place.path("postfix.log")).unwrap_or_default()
    }

    pub(super) fn stop(self) {
        self.server.stop();
    }
}

/// Id and recipient in a line of Postfix's log.
fn logged(line: &str) -> Option<(&str, &str)> {
    let (before, rest) = line.split_once(": to=<")?;
    let id = before.rsplit(' ').next()?;
    let (recipient, _) = rest.split_once(">, ")?;
    Some((id, recipient))
}

fn start_postfix(
    place: &mut Place,
    set_up: &SetUp,
    hops: &Hops,
    auth: Option<&DovecotAuth>,
    port: u16,
) {
    let auth = auth.map_or_else(String::new, DovecotAuth::socket);
    let fill =
        |text: &str| hops.fill(&text.replace("{auth}", &auth)).replace("{dir}", &place.dir());
    let usual = format!(
        "{MAIN_CF}mynetworks = {FRIEND}\nsmtp_tcp_port = {{port}}\nrecipient_delimiter = {}\n",
        set_up.delimiter
    );
    let main = overriding(&fill(set_up.main), &fill(&usual));
    let services = format!("127.0.0.1:{port} inet n - n - - smtpd\n{}", fill(set_up.services));
    launch_asking(place, &hops.resolver(), &main, &services);
}

fn start_ours(files: &Files, set_up: &SetUp, hops: &Hops) -> Server {
    let relay = match set_up.is_submission {
        true => String::new(),
        false => format!("relay_from = [\"{FRIEND}\"]\n"),
    };
    let listener = format!("{relay}{LISTENER}{}", hops.fill(set_up.listener));
    let sections = format!(
        "[dns]\nservers = [\"{}\"]\n[retry]\nfirst = \"1000s\"\n[reports]\nper_sender_per_hour = 0\n{}",
        hops.resolver(),
        hops.fill(set_up.sections)
    );
    let text = config_with("", &listener, &sections);
    let general = format!(
        "postmaster = \"{}\"\nrecipient_delimiter = \"{}\"\n",
        set_up.postmaster, set_up.delimiter
    );
    start_with(files, set_up, &format!("{general}{text}"))
}

/// The server with this configuration, after the set-up's commands.
fn start_with(files: &Files, set_up: &SetUp, text: &str) -> Server {
    let server = Server::start(files, text);
    for command in set_up.commands {
        let answer = server.command(command);
        assert_eq!(answer.code, 0, "{}: {answer:?}", set_up.name);
    }
    server
}

/// The server with what `migrate` makes of Postfix's configuration; only what belongs to the stage is added. Then the
/// subjects of the report.
fn start_translated(
    files: &Files,
    place: &Place,
    set_up: &SetUp,
    hops: &Hops,
) -> (Server, BTreeSet<String>) {
    let (dir, out) = (place.path("config"), files.path("translated"));
    let [dir, out] = [dir, out].map(|path| path.display().to_string());
    let words = ["migrate", "postfix", "--dir", &dir, "--out", &out, "--json"];
    let answer = program(files.dir(), &words);
    let report: serde_json::Value = serde_json::from_str(&answer.out).expect("a report");
    let code = i32::from(report["accepts_more"].as_bool().expect("a truth value"));
    assert_eq!(answer.code, code, "{}: {answer:?}", set_up.name);
    let written = std::fs::read_to_string(files.path("translated/postrider.toml")).expect("a file");
    let checked = files.write("checked.toml", &with_stage(&written, set_up, hops));
    let checked = program(files.dir(), &["check", "--config", &checked.display().to_string()]);
    assert_eq!(checked.code, 0, "{}: {written}\n{checked:?}", set_up.name);
    let rows = report["report"].as_array().expect("a list").iter();
    let subjects = rows.map(|row| row["subject"].as_str().expect("a subject").to_owned());
    (start_with(files, set_up, &with_stage(&written, set_up, hops)), subjects.collect())
}

/// A translation with the ports, limits and directories of the stage.
fn with_stage(written: &str, set_up: &SetUp, hops: &Hops) -> String {
    let lines: Vec<&str> = written.lines().collect();
    let is_set = |line: &&str| {
        let key = line.split(" = ").next().unwrap_or_default();
        !lines.iter().any(|other| other.split(" = ").next() == Some(key))
    };
    let of_users = "login_failure_delay = \"0s\"\nlogin_failures_per_hour = 0\nlogin_failures_per_hour_of_user = 0\n";
    let of_users = if set_up.is_submission { of_users } else { "" };
    let mut text = String::new();
    for line in &lines {
        match *line {
            "[[listener]]" => {
                text += "[[listener]]\n";
                let more = LISTENER.lines().chain(of_users.lines()).filter(is_set);
                more.for_each(|line| text = format!("{text}{line}\n"));
            }
            "[reports]" => text += "[reports]\nper_sender_per_hour = 0\n",
            line if line.starts_with("address = ") => text += "address = \"127.0.0.1:0\"\n",
            line => text = format!("{text}{line}\n"),
        }
    }
    let limit = match set_up.is_submission {
        true => "[[limit]]\nby = \"login\"\nmessages = \"unlimited\"\n",
        false => "",
    };
    format!(
        "{text}[spool]\npath = \"spool\"\nsegment_bytes = \"8MiB\"\nmin_free_bytes = \"16MiB\"\n\
         [dns]\nservers = [\"{}\"]\n{limit}",
        hops.resolver()
    )
}
