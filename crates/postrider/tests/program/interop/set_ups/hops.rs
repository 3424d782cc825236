//! Next hops of a set-up, each at its own address and all at one port, and the name server with their names.

use crate::interop::rewriting::address_fields;
use crate::support::Files;
use crate::support::certificate::section;
use crate::support::name_server::{Fault, NameServer};
use crate::support::peer::Peer;
use crate::support::server::Server;
use crate::support::tool::free_port;

/// Next hops without TLS.
const CLEAR: [char; 6] = ['a', 'b', 'c', 'd', 'e', 'f'];

/// A next hop that offers STARTTLS, and one that also requires a login.
const TLS: char = 't';
const LOGIN: char = 's';

/// The address without a listener.
const DEAD: &str = "{dead}";

/// The password of each user at [`LOGIN`].
const PASSWORDS: &str = "[[table]]\nname = \"users\"\n[table.inline]\n\"jo\" = \"{PLAIN}pencil\"\n\"al\" = \"{PLAIN}pencil\"\n";

/// A recipient of a message at a next hop.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Arrival {
    pub(super) hop: char,
    /// `clear`, or the protocol (RFC 3848) and the login.
    pub(super) secured: String,
    pub(super) sender: String,
    pub(super) recipient: String,
    /// Values of the address fields, of a message of the client at a next hop without TLS.
    pub(super) fields: Option<[String; 5]>,
}

pub(super) struct Hops {
    port: u16,
    /// The first three octets of all addresses.
    network: String,
    peers: Vec<(char, Peer)>,
    far: Option<(Files, Server)>,
    _names: NameServer,
}

impl Hops {
    /// Starts them; `authority` is a directory with `mx.pem` and `mx.key` if the set-up has hops with TLS.
    pub(super) fn start(certificate: Option<&Files>) -> Hops {
        let port = free_port();
        // Unused by other tests, as the port is.
        let [high, low] = port.to_be_bytes();
        let network = format!("127.{high}.{low}");
        let features = "250-SIZE 0\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250 DSN";
        let start = |hop: char| {
            let address = format!("{}:{port}", address(&network, hop));
            (hop, Peer::start_at(&address, features, |_| None))
        };
        let peers = CLEAR.map(start).into();
        let names = names(&network);
        let far = certificate.map(|files| far(files, &network, port));
        Hops { port, network, peers, far, _names: names }
    }

    /// The name server's address, at port 53.
    pub(super) fn resolver(&self) -> String {
        format!("{}.53", self.network)
    }

    /// Replaces `{a}`, `{port}` and the like in a configuration.
    pub(super) fn fill(&self, text: &str) -> String {
        let hops = CLEAR.into_iter().chain([TLS, LOGIN]);
        let text = text.replace(DEAD, &format!("{}.99", self.network));
        let text = text.replace("{port}", &self.port.to_string());
        hops.fold(text, |text, hop| {
            text.replace(&format!("{{{hop}}}"), &address(&self.network, hop))
        })
    }

    /// All recipients so far, each with the mark of its message.
    pub(super) fn arrivals(&self) -> Vec<(String, Arrival)> {
        let mut all = Vec::new();
        for (hop, peer) in &self.peers {
            for taken in peer.taken() {
                let content = String::from_utf8_lossy(&taken.content).into_owned();
                let Some(mark) = mark(&content) else { continue };
                let sender = path(&taken.mail);
                let is_client_s = mail::header::find(&taken.content, "X-Talk").is_some();
                let fields = is_client_s.then(|| address_fields(&taken.content));
                for recipient in &taken.rcpt {
                    let (hop, secured) = (*hop, "clear".to_owned());
                    let (sender, recipient) = (sender.clone(), path(recipient));
                    let fields = fields.clone();
                    all.push((mark.clone(), Arrival { hop, secured, sender, recipient, fields }));
                }
            }
        }
        all.extend(self.secured());
        all
    }

    /// Those at next hops with TLS.
    fn secured(&self) -> Vec<(String, Arrival)> {
        let events = self.far.as_ref().map_or(Vec::new(), |(files, _)| files.events_of("received"));
        let mut all = Vec::new();
        for event in events {
            let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
            let hop = text("listener").chars().next().expect("a name");
            let mark = event["headers"]["X-Talk"].as_str().unwrap_or_default().to_owned();
            let secured = format!("{} {}", text("protocol"), text("login")).trim().to_owned();
            for recipient in event["recipients"].as_array().expect("a list") {
                let recipient = recipient.as_str().expect("an address").to_owned();
                let (secured, sender) = (secured.clone(), text("sender"));
                let fields = None;
                all.push((mark.clone(), Arrival { hop, secured, sender, recipient, fields }));
            }
        }
        all
    }
}

fn address(network: &str, hop: char) -> String {
    format!("{network}.{}", u32::from(hop) - u32::from('a') + 11)
}

/// The mark that the client put into a message; a DSN has that of the message it is about.
fn mark(content: &str) -> Option<String> {
    let (_, rest) = content.split_once("X-Talk: ")?;
    rest.split_whitespace().next().map(str::to_owned)
}

/// The address in a command.
fn path(command: &str) -> String {
    let (_, path) = command.split_once('<').unwrap_or(("", command));
    let end = path.find("> ").or_else(|| path.rfind('>')).unwrap_or(path.len());
    let path = &path[..end];
    // RFC 5321 §4.5.1: without regard to case.
    match path.split_once('@') {
        Some((local, domain)) if local.eq_ignore_ascii_case("postmaster") => {
            format!("postmaster@{domain}")
        }
        _ => path.to_owned(),
    }
}

/// The name server: domains by MX, by address alone, without mail, and without an answer.
fn names(network: &str) -> NameServer {
    let names = NameServer::start_at(&format!("{network}.53:53"));
    let address = |hop| address(network, hop);
    for hop in CLEAR.into_iter().chain([TLS, LOGIN]) {
        names.host(&format!("{hop}.hop.test"), &[&address(hop)]);
    }
    names.host("dead.hop.test", &[&format!("{network}.99")]);
    for (domain, hop) in [
        ("far.test", "e"),
        ("sub.far.test", "e"),
        ("a.test", "e"),
        ("sub.a.test", "e"),
        ("b.test", "e"),
        ("news.test", "e"),
        ("here.test", "d"),
        ("relayed.test", "c"),
        ("sub.relayed.test", "c"),
        ("tls.test", "t"),
        ("strict.test", "t"),
        ("away.test", "dead"),
    ] {
        names.mx(domain, &[(10, &format!("{hop}.hop.test"))]);
    }
    names.mx("smart.test", &[(10, "b.hop.test")]);
    names.host("smart.test", &[&address('a')]);
    names.host("other.test", &[&address('f')]);
    names.mx("null.test", &[(0, "")]);
    names.fault("broken.test", Fault::Fails);
    names
}

/// The server with the hops that offer TLS.
fn far(certificate: &Files, network: &str, port: u16) -> (Files, Server) {
    let files = Files::new();
    for file in ["mx.pem", "mx.key"] {
        std::fs::copy(certificate.path(file), files.path(file)).expect("copied");
    }
    let listener = |hop: char, keys: &str| {
        format!(
            "[[listener]]\nname = \"{hop}\"\naddress = \"{}:{port}\"\ngreeting_delay = \"0s\"\n\
             exempt_from_limits = [\"127.0.0.0/8\"]\n{keys}\n",
            address(network, hop)
        )
    };
    let text = format!(
        "hostname = \"hop.test\"\nspool = {{ path = \"spool\" }}\nevents = {{ headers = [\"X-Talk\"] }}\n\
         {}{PASSWORDS}{}{}[[limit]]\nby = \"login\"\nmessages = \"unlimited\"\n\
         [[route]]\ndiscard = {{}}\n",
        section("mx", &["mx.here.test"]),
        listener(TLS, "relay_from = [\"127.0.0.0/8\"]"),
        listener(LOGIN, "kind = \"submission\"\nlogins = { table = \"users\" }"),
    );
    let server = Server::start(&files, &text);
    (files, server)
}
