//! Client, Postrider, another server, Postrider, peer.

use crate::support::client::Client;
use crate::support::http::{get, metric};
use crate::support::peer::{Peer, Taken};
use crate::support::server::Server;
use crate::support::tool::free_port;
use crate::support::{Files, config_with, wait_until};
use serde_json::Value;

/// What is particular about a server.
#[derive(Clone, Copy)]
pub(crate) struct Habits {
    /// It offers DSN (RFC 3461), and passes on what it was asked for.
    pub(crate) dsn: bool,
    /// It holds a message until it was sent on, and reports nothing itself.
    pub(crate) holds: bool,
    /// It ends a header with an empty line.
    pub(crate) ends_header: bool,
    /// Its reports have the whole message, so that those of one too large are too large.
    pub(crate) returns_all: bool,
    /// It puts off [`super::cases::DEFERRED`] for a while, and soon tries again what the next server
    /// put off.
    pub(crate) retries: bool,
}

/// A server in the middle. It sends everything on to one port, and refuses what [`super::cases`]
/// says.
pub(crate) trait Hop {
    fn port(&self) -> u16;
    /// Here it refuses whoever says EHLO.
    fn rude_port(&self) -> u16;
    fn habits(&self) -> Habits;
    /// From now on it takes what it put off, if it doesn't by itself.
    fn open_gate(&self);
}

/// All of them, running.
pub(crate) struct Chain {
    pub(crate) near: Server,
    pub(crate) near_files: Files,
    admin: String,
    pub(crate) hop: Box<dyn Hop>,
    _far: Server,
    pub(crate) far_files: Files,
    /// The end of all mail and of all reports.
    pub(crate) end: Peer,
}

impl Chain {
    pub(crate) fn start<H: Hop + 'static>(start: impl FnOnce(u16) -> H) -> Chain {
        let end = Peer::start(|_| None);
        let far_files = Files::new();
        let listener =
            "max_message_bytes = 1_500_000\nmax_recipients = 100\nrelay_from = [\"127.0.0.0/8\"]";
        let route = format!(
            "[[route]]\ndomains = [\"data.test\", \"bdat.test\", \"source.test\"]\n\
             smtp = {{ hosts = [\"{}\"] }}",
            end.address
        );
        let config = config_with("", listener, &route).replace("relay.test", "far.test");
        let far = Server::start(&far_files, &config);
        let hop = start(far.address().port());
        let near_files = Files::new();
        let admin = format!("127.0.0.1:{}", free_port());
        let near = Server::start(&near_files, &near_config(&hop, &admin, &end.address));
        Chain { near, near_files, admin, hop: Box::new(hop), _far: far, far_files, end }
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.near.address())
    }

    /// Connections that the first Postrider opened.
    pub(crate) fn connections(&self) -> u64 {
        metric(&get(&self.admin, "/metrics"), "postrider_connections_opened_total")
    }

    /// Waits for the event of the first Postrider about a recipient.
    pub(crate) fn wait_event(&self, kind: &str, recipient: &str) -> Value {
        let find = || {
            let mut events = self.near_files.events_of(kind).into_iter();
            events.find(|event| event["recipient"] == recipient)
        };
        let what = format!("{kind} of {recipient}");
        wait_until(&what, || find().is_some());
        find().expect("it was there")
    }

    /// What arrived for a recipient, once it has.
    pub(crate) fn wait_taken(&self, recipient: &str) -> Taken {
        self.wait_taken_with(recipient, "")
    }

    /// What arrived for a recipient with a text in it, folded lines unfolded.
    pub(crate) fn wait_taken_with(&self, recipient: &str, text: &str) -> Taken {
        let begin = format!("RCPT TO:<{recipient}>");
        let is = |taken: &Taken| {
            taken.rcpt.iter().any(|line| line.starts_with(&begin))
                && unfolded(&taken.content).contains(text)
        };
        let find = || self.end.taken().into_iter().find(is);
        wait_until(&format!("mail for {recipient} with {text:?}"), || find().is_some());
        find().expect("it was there")
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for (name, files) in [("near", &self.near_files), ("far", &self.far_files)] {
                let events = files.events();
                let last = &events[events.len().saturating_sub(12)..];
                let lines: Vec<String> = last.iter().map(ToString::to_string).collect();
                eprintln!("the last events, {name}:\n{}", lines.join("\n"));
            }
            eprintln!("queued: {:#?}", self.near.queue());
        }
    }
}

/// A text with its folded lines unfolded.
pub(crate) fn unfolded(content: &[u8]) -> String {
    String::from_utf8_lossy(content).replace("\r\n ", " ").replace("\r\n\t", " ")
}

fn near_config(hop: &dyn Hop, admin: &str, end: &str) -> String {
    let (port, rude) = (hop.port(), hop.rude_port());
    let route = |domains: &str, port: u16, more: &str| {
        format!(
            "[[route]]\ndomains = [{domains}]\n\
             smtp = {{ hosts = [\"127.0.0.1:{port}\"], max_connections = 1, \
             recipients_per_message = 200{more} }}\n"
        )
    };
    let rest = [
        "[retry]\nfirst = \"2s\"\nlongest = \"4s\"\njitter = 0.0\n".to_owned(),
        format!("[admin]\naddress = \"{admin}\"\n"),
        route("\"data.test\", \"nowhere.test\"", port, ", chunking = false"),
        route("\"bdat.test\"", port, ""),
        route("\"rude.test\"", rude, ""),
        format!("[[route]]\ndomains = [\"source.test\"]\nsmtp = {{ hosts = [\"{end}\"] }}\n"),
    ];
    let config = config_with("", "relay_from = [\"127.0.0.0/8\"]", &rest.concat());
    config.replace("relay.test", "near.test")
}
