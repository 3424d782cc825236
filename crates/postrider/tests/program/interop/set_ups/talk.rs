//! A conversation: chosen by a seed, played with either server.

use super::set_up::{SetUp, Words};
use crate::interop::restrictions::pick;
use crate::support::client::Client;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use mail::random::Random;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

/// Forms of addresses that no set-up knows more about; with `!` the argument is as it is, without `<>`.
const ODD_SENDERS: [&str; 23] = [
    "root",
    "jo@",
    "@a.test",
    "jo@a..test",
    "jo@a.test.",
    "jo@[192.0.2.1]",
    "jo@localhost",
    "jo@unknown.test",
    "jo@broken.test",
    "jo@null.test",
    "\"jo\"@a.test",
    "\"j o\"@a.test",
    "jo%b.test@a.test",
    "b.test!jo@a.test",
    "@b.test,@c.test:jo@a.test",
    "j o@a.test",
    "jo@-a.test",
    "jo@a_b.test",
    "!jo@a.test",
    "! <jo@a.test>",
    "!<jo@a.test",
    "!<jo@a.test> SIZE=100",
    "!<jo@a.test> BODY=8BITMIME",
];

const ODD_RECIPIENTS: [&str; 32] = [
    "postmaster",
    "Postmaster",
    "postmaster@here.test",
    "postmaster@far.test",
    "root",
    "al",
    "al@",
    "@here.test",
    "al@here.test.",
    "\"al\"@here.test",
    "\"a l\"@here.test",
    "al%far.test@here.test",
    "al%here.test@far.test",
    "far.test!al@here.test",
    "far.test!al",
    "al%far.test",
    "al%here.test@here.test",
    "al+tag@here.test",
    "al-tag@here.test",
    "bo+tag@far.test",
    "al@[127.0.0.1]",
    "al@[IPv6:::ffff:127.0.0.1]",
    "\"al@far.test\"@here.test",
    "@far.test,@b.test:al@here.test",
    "al@[192.0.2.7]",
    "al@far..test",
    "al@@far.test",
    "al@relay.test",
    "",
    "!al@here.test",
    "!<al@here.test",
    "!<al @here.test>",
];

/// EHLO and HELO in forms that a server may refuse.
const ODD_GREETINGS: [&str; 9] = [
    "HELO client.test",
    "EHLO desktop",
    "EHLO [127.0.0.2]",
    "EHLO 127.0.0.2",
    "HELO",
    "EHLO",
    "EHLO client..test",
    "HELO cli_ent.test",
    "",
];

/// Content besides the usual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Usual,
    /// With this field.
    Field(&'static str),
    /// Without From, Date and Message-ID.
    WithoutFields,
    EightBit,
    Dots,
    /// About this number of octets.
    Large(usize),
}

/// A command, or the content, with its reply.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) kind: Kind,
    pub(super) reply: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Greeting,
    Login,
    Mail,
    /// Index of the recipient.
    Rcpt(usize),
    Data,
    End,
}

/// What a client does.
#[derive(Clone, Debug)]
pub(super) struct Talk {
    pub(super) client: Ipv4Addr,
    pub(super) greeting: &'static str,
    pub(super) is_encrypted: bool,
    /// The user, and whether the password is right.
    pub(super) login: Option<(&'static str, bool)>,
    pub(super) sender: &'static str,
    pub(super) recipients: Vec<String>,
    pub(super) content: Content,
}

impl Talk {
    pub(super) fn new(random: &mut Random, set_up: &SetUp) -> Talk {
        let words: &Words = &set_up.words;
        let odd = |random: &mut Random, usual: &[&'static str], odd: &[&'static str]| {
            if random.hits(120) { pick(random, odd) } else { pick(random, usual) }
        };
        let count = if random.hits(set_up.crowds) { 105 } else { 1 + random.below(3) };
        let recipients = (0..count).map(|n| {
            let one = odd(random, words.recipients, &ODD_RECIPIENTS);
            if count > 100 { format!("u{n}@{}", words.crowd_domain) } else { one.to_owned() }
        });
        let recipients = recipients.collect();
        let is_encrypted = set_up.is_submission && random.hits(950);
        let users =
            [("jo", true), ("jo", true), ("al", true), ("al", true), ("jo", false), ("eve", true)];
        let login = (is_encrypted && random.hits(900)).then(|| pick(random, &users));
        let sender = odd(random, words.senders, &ODD_SENDERS);
        Talk {
            client: pick(random, words.clients),
            greeting: odd(random, words.greetings, &ODD_GREETINGS),
            is_encrypted,
            login,
            sender,
            recipients,
            content: content(random, words),
        }
    }

    /// The same without some recipients.
    pub(super) fn without(&self, recipients: &[usize]) -> Talk {
        let mut talk = self.clone();
        let mut n = 0;
        talk.recipients.retain(|_| {
            n += 1;
            !recipients.contains(&(n - 1))
        });
        talk
    }

    /// Returns true if a recipient contains this.
    pub(super) fn has_recipient(&self, part: &str) -> bool {
        self.recipients.iter().any(|recipient| recipient.contains(part))
    }

    /// The command of a step.
    pub(super) fn command(&self, kind: Kind) -> String {
        match kind {
            Kind::Greeting => self.greeting.to_owned(),
            Kind::Login => format!("AUTH {:?}", self.login),
            Kind::Mail => format!("MAIL FROM:{}", argument(self.sender)),
            Kind::Rcpt(n) => format!("RCPT TO:{}", argument(&self.recipients[n])),
            Kind::Data => "DATA".to_owned(),
            Kind::End => ".".to_owned(),
        }
    }

    fn body(&self, mark: &str) -> String {
        let mark = format!("X-Talk: {mark}\r\n");
        let fields = "From: jo@a.test\r\nTo: al@here.test\r\nSubject: x\r\n\
                      Date: Fri, 27 Nov 2026 14:00:00 +0000\r\nMessage-ID: <x@a.test>\r\n";
        match self.content {
            Content::Usual => format!("{mark}{fields}\r\nbody\r\n"),
            Content::Field(field) => format!("{mark}{fields}{field}\r\n\r\nbody\r\n"),
            Content::WithoutFields => format!("{mark}\r\nbody\r\n"),
            Content::EightBit => format!("{mark}{fields}\r\ngr\u{fc}n\r\n"),
            Content::Dots => format!("{mark}{fields}\r\n..\r\n...x\r\n"),
            Content::Large(bytes) => {
                let line = "0123456789 a line of a large message 0123456789 0123456789\r\n";
                format!("{mark}{fields}\r\n{}", line.repeat(bytes / line.len()))
            }
        }
    }

    /// Plays it with a server at this port of 127.0.0.1; `authorities` are of its certificate.
    pub(super) fn play(&self, port: u16, authorities: &Path, mark: &str) -> Vec<Step> {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut client = Client::from(self.client.into(), address);
        client.expect("220");
        let mut steps = Vec::new();
        if self.is_encrypted {
            client.say("EHLO client.test", "250");
            client.say("STARTTLS", "220");
            client = client.start_tls(authorities, "mx.here.test");
        }
        let mut kinds = vec![Kind::Mail];
        kinds.extend((0..self.recipients.len()).map(Kind::Rcpt));
        kinds.push(Kind::Data);
        if self.login.is_some() {
            kinds.insert(0, Kind::Login);
        }
        if !self.greeting.is_empty() {
            kinds.insert(0, Kind::Greeting);
        }
        for kind in kinds {
            let command = match (kind, self.login) {
                (Kind::Login, Some((user, is_right))) => {
                    let password = if is_right { "pencil" } else { "pen" };
                    let plain = BASE64_STANDARD.encode(format!("\0{user}\0{password}"));
                    format!("AUTH PLAIN {plain}")
                }
                _ => self.command(kind),
            };
            let reply = said(&mut client, &format!("{command}\r\n"));
            let (is_over, goes_on) = (is_over(kind, &reply), reply.starts_with("354"));
            steps.push(Step { kind, reply });
            if is_over {
                break;
            }
            if goes_on {
                let reply = said(&mut client, &format!("{}.\r\n", self.body(mark)));
                steps.push(Step { kind: Kind::End, reply });
            }
        }
        said(&mut client, "QUIT\r\n");
        steps
    }
}

/// The session has ended, or its transaction did not begin.
fn is_over(kind: Kind, reply: &str) -> bool {
    reply.is_empty() || reply.starts_with("421") || (kind == Kind::Mail && !reply.starts_with('2'))
}

/// The reply to this; empty if the server has closed the connection.
fn said(client: &mut Client, text: &str) -> String {
    if client.try_send(text) { client.reply() } else { String::new() }
}

fn argument(path: &str) -> String {
    path.strip_prefix('!').map_or_else(|| format!("<{path}>"), str::to_owned)
}

fn content(random: &mut Random, words: &Words) -> Content {
    if !words.fields.is_empty() && random.hits(700) {
        return Content::Field(pick(random, words.fields));
    }
    if !words.sizes.is_empty() && random.hits(400) {
        return Content::Large(pick(random, words.sizes));
    }
    let kinds =
        [Content::Usual, Content::Usual, Content::WithoutFields, Content::EightBit, Content::Dots];
    pick(random, &kinds)
}
