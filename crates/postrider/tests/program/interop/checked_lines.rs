//! Random messages by header and body checks, side by side with Postfix: each server marks every field and line that a
//! check sees with the check's name, and rejects some. Replies and marked messages must be the same.
//!
//! `CHECKED_MESSAGES` is the number of messages, `CHECKED_SEED` the seed.

use super::place::Place;
use super::postfix::launch_with;
use super::restrictions::{number, pick};
use crate::support::client::Client;
use crate::support::peer::Peer;
use crate::support::server::Server;
use crate::support::{Files, config_with};
use mail::random::Random;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;

/// Postfix's parameter for each kind of lines, the name here, and the form of a mark.
const KINDS: [(&str, &str, &str); 4] = [
    ("header_checks", "header", "X-Kind: header"),
    ("mime_header_checks", "mime", "X-Kind: mime"),
    ("nested_header_checks", "nested", "X-Kind: nested"),
    ("body_checks", "body", "kind: body"),
];

/// The checks of one kind. The Received field of this server is not checked, Postfix's is.
fn checks(name: &str, mark: &str) -> String {
    format!(
        "/^Received:/ DUNNO\n/^X-Gone:|^gone/ IGNORE\n/bad-{name}/ REJECT In {name}\n\
         /^X-Space:/ PREPEND {mark} name\n\
         /tail$/ PREPEND {mark} tail\n/^/ PREPEND {mark}\n"
    )
}

/// Octets of a field, or a line, with `tail` near the edge where Postfix cuts lines (`line_length_limit`).
const EDGE: usize = 2_048;

/// Fields of any header, with their line ends inside.
const FIELDS: [&str; 24] = [
    "X-One: text",
    "x-two:text",
    "X-Fold: a\r\n folded tail",
    "X-Tab: a\r\n\tb\r\n\tc tail ",
    "X-Begin:\r\n tail",
    "X-Empty:",
    "X-Space : tail",
    "X-Eight: \u{e4}\u{f6}",
    "X-Gone: a\r\n b",
    "X-Mark: bad-header",
    "X-Mark: bad-mime",
    "X-Mark: bad-nested",
    "MIME-Version: 1.0",
    "mime-version : 1.0",
    "Content-Disposition: attachment;\r\n filename=\"tail",
    "Content-ID: <a@b>",
    "Content-Description: tail",
    "Content-Language: tail",
    "Content-Transfer-Encoding: 7bit",
    "Content-Transfer-Encoding: base64",
    "Content-Transfer-Encoding: quoted-printable",
    "Reply-To: a@source.test",
    "no field tail",
    ": no name",
];

/// Lines of any body.
const LINES: [&str; 20] = [
    "text",
    "",
    "tail",
    "X-One: no field",
    "Content-Type: message/rfc822",
    " folded tail",
    "--",
    "--b",
    "--b--",
    "--bb",
    "-- b",
    "--none",
    "gone",
    "bad-body",
    "bad-header",
    ".",
    "..tail",
    "From me",
    "\u{e4}\u{f6} tail",
    "Subject: tail",
];

/// Content types without parts; some are wrong.
const SIMPLE: [&str; 16] = [
    "text/plain",
    "text/html; charset=utf-8",
    "TEXT / PLAIN",
    "application/octet-stream; name=\"a.exe\"",
    "message/partial; id=1",
    "message/external-body; access-type=x",
    "message/delivery-status",
    "message/global",
    "message",
    "multipart/mixed",
    "multipart",
    "multipart/mixed; boundary",
    "multipart/mixed; boundary=",
    "multipart/mixed; boundary=\"\"",
    "/mixed; boundary=b",
    "",
];

/// Types of multiparts, with the boundary that stands behind a line.
const PARTS: [(&str, &str); 14] = [
    ("multipart/mixed; boundary=b", "b"),
    ("multipart/mixed; boundary=bb", "bb"),
    ("multipart/mixed; boundary=\"b b\"", "b b"),
    ("multipart/mixed;\r\n boundary=\"c\"", "c"),
    ("Multipart/Alternative; charset=x; BOUNDARY=d", "d"),
    ("multipart/mixed (comment); (other) boundary = e ; x=y", "e"),
    ("multipart/mixed; boundary=\"f\\\"g\"", "f\"g"),
    ("multipart/mixed; boundary=h; boundary=i", "h"),
    ("multipart/mixed; boundary=h; boundary=i", "i"),
    ("multipart/mixed; x=\"boundary=j\"; boundary=k", "k"),
    ("multipart/mixed; boundary=l(comment)", "l"),
    ("multipart/digest; boundary=m", "m"),
    ("multipart/digest; boundary=\"n\"", "n"),
    ("multipart / mixed; boundary='o'", "'o'"),
];

/// A message under construction.
struct Draft<'a> {
    random: &'a mut Random,
    text: String,
}

impl Draft<'_> {
    fn message(random: &mut Random, number: u64) -> String {
        let text = format!("Subject: {number}\r\n");
        let mut draft = Draft { random, text };
        match draft.random.below(20) {
            0 => draft.deep(),
            _ => draft.entity(0),
        }
        draft.text
    }

    fn line(&mut self, line: &str) {
        self.text += line;
        self.text += "\r\n";
    }

    /// Text with `tail` at or beside a multiple of [`EDGE`], from `begin` on.
    fn long(&mut self, begin: &str) -> String {
        let pieces = 1 + self.random.below(3) as usize;
        let length = pieces * EDGE + self.random.below(5) as usize - 2;
        let more = self.random.below(3) as usize * 700;
        format!("{begin}{}tail{}", "y".repeat(length - begin.len() - 4), "z".repeat(more))
    }

    /// A header and what belongs to it.
    fn entity(&mut self, depth: u32) {
        let is_deep = depth > 4;
        let kind = self.random.below(if is_deep { 3 } else { 9 });
        let (before, after) = (self.random.below(4), self.random.below(3));
        self.fields(before);
        let parts = match kind {
            0 => None,
            1 | 2 => {
                let simple = pick(self.random, &SIMPLE);
                self.line(&format!("Content-Type: {simple}"));
                None
            }
            3 | 4 => {
                let name =
                    pick(self.random, &["Content-Type: ", "content-type:", "Content-Type :\r\n "]);
                let kind = pick(
                    self.random,
                    &["message/rfc822", "Message/RFC822 (x)", "message/rfc822; a=b"],
                );
                self.line(&format!("{name}{kind}"));
                Some(None)
            }
            _ => {
                let (kind, boundary) = pick(self.random, &PARTS);
                self.line(&format!("Content-Type: {kind}"));
                Some(Some(boundary))
            }
        };
        self.fields(after);
        // Programs disagree which of two types counts.
        if self.random.hits(60) {
            let kind = pick(
                self.random,
                &["text/plain", "image/png", "message/rfc822", "multipart/mixed; boundary=p"],
            );
            self.line(&format!("Content-Type: {kind}"));
        }
        if self.random.hits(950) {
            self.line("");
        }
        match parts {
            None => self.body(),
            Some(None) => self.entity(depth + 1),
            Some(Some(boundary)) => self.multipart(boundary, depth),
        }
    }

    fn fields(&mut self, count: u64) {
        for _ in 0..count {
            // Rejections and broken headers hide the rest: some only.
            let field = loop {
                let field = pick(self.random, &FIELDS);
                let is_rare = field.contains("bad-") || field.contains("no ");
                if !is_rare || self.random.hits(150) {
                    break field;
                }
            };
            if self.random.hits(30) {
                let long = self.long("X-Long: ");
                self.line(&long);
            }
            self.line(field);
        }
    }

    fn multipart(&mut self, boundary: &str, depth: u32) {
        if self.random.hits(300) {
            self.body();
        }
        for _ in 0..self.random.below(4) {
            let end = pick(self.random, &["", "", "", " ", "\t", "x", "-"]);
            self.line(&format!("--{boundary}{end}"));
            match self.random.hits(100) {
                // A part without a header.
                true => {
                    self.line("");
                    self.body();
                }
                false => self.entity(depth + 1),
            }
        }
        if self.random.hits(850) {
            self.line(&format!("--{boundary}--"));
        }
        if self.random.hits(300) {
            self.body();
        }
    }

    fn body(&mut self) {
        for _ in 0..self.random.below(5) {
            let line = loop {
                let line = pick(self.random, &LINES);
                if line != "bad-body" || self.random.hits(150) {
                    break line;
                }
            };
            self.line(line);
        }
        if self.random.hits(60) {
            let long = self.long("");
            self.line(&long);
        }
        // Beyond the first 50 KiB of a body, after 51,200 octets without line ends (`body_checks_size_limit`).
        if self.random.hits(40) {
            let length = pick(self.random, &[64, 1_024, 100]);
            let count = (51_200 / length) as u64 - 3 + self.random.below(6);
            for n in 0..count {
                self.line(&format!("{n:0length$}"));
            }
            self.line("tail");
            self.line("tail");
        }
    }

    /// More multiparts within each other than are followed (`mime_nesting_limit`).
    fn deep(&mut self) {
        let levels = 98 + self.random.below(8);
        for level in 0..levels {
            self.line(&format!("Content-Type: multipart/mixed; boundary=\"{level}.\""));
            self.line("");
            self.line(&format!("--{level}."));
        }
        self.line("X-Inner: tail");
        self.line("");
        self.line("text");
        for level in (0..levels).rev().step_by(1 + self.random.below(3) as usize) {
            self.line(&format!("--{level}.--"));
            self.line("tail");
        }
    }
}

/// The reply to a message, without the text of 250.
fn give(address: SocketAddr, message: &str) -> String {
    let mut client = Client::connect(address);
    client.say("MAIL FROM:<me@source.test> BODY=8BITMIME", "250");
    client.say("RCPT TO:<you@far.test>", "250");
    client.say("DATA", "354");
    client.send(message.replace("\r\n.", "\r\n.."));
    client.send(".\r\n");
    let reply = client.reply();
    client.say("QUIT", "221");
    // Each server has its own text for 250, and for parts that are nested too deep.
    let own = ["250", "550 5.6.0 MIME nesting"].into_iter().find(|begin| reply.starts_with(begin));
    own.map_or(reply.clone(), str::to_owned)
}

/// A message as it arrived, without Received fields. Postfix adds the empty line that a header lacks, and removes blanks
/// before colons: no empty line counts here, and no such blank.
fn compared(mut content: Vec<u8>) -> String {
    while let Some(range) = mail::header::find(&content, "Received").map(|field| field.range) {
        content.drain(range);
    }
    let text = String::from_utf8_lossy(&content).into_owned();
    let lines = text.split("\r\n").filter(|line| !line.is_empty());
    let lines = lines.map(|line| match line.split_once(" :") {
        Some((name, value)) if !name.contains([' ', ':']) => format!("{name}:{value}\n"),
        _ => format!("{line}\n"),
    });
    lines.collect()
}

/// The messages that a peer got, by number.
fn arrived(peer: &Peer, count: usize) -> BTreeMap<u64, String> {
    let number = |text: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix("Subject: "));
        line.and_then(|number| number.parse().ok()).expect("a number")
    };
    let all = peer.wait_taken(count).into_iter().map(|taken| compared(taken.content));
    all.map(|text| (number(&text), text)).collect()
}

/// Both servers, each with a next hop that keeps everything.
struct Pair {
    place: Place,
    server: Server,
    peers: [Peer; 2],
    _files: Files,
}

impl Pair {
    fn start() -> Pair {
        let peers = [Peer::start(|_| None), Peer::start(|_| None)];
        let (mut place, files) = (Place::new(0), Files::new());
        let (dir, port) = (place.dir(), place.port);
        let (_, next) = peers[0].address.split_once(':').expect("a port");
        let mut lines = format!(
            "relayhost = [127.0.0.1]:{next}\nsmtp_tls_security_level = none\n\
             smtp_line_length_limit = 0\nin_flow_delay = 0\n"
        );
        let mut sections = String::new();
        for (parameter, name, mark) in KINDS {
            place.write(name, &checks(name, mark));
            files.write(name, &checks(name, mark));
            let _ = writeln!(lines, "{parameter} = regexp:{dir}/{name}");
            let _ = write!(
                sections,
                "[[table]]\nname = \"{name}\"\nregexp = {{ path = \"{name}\" }}\n\
                 [[header_check]]\ntable = \"{name}\"\nin = \"{name}\"\n"
            );
        }
        launch_with(&mut place, &lines, &format!("127.0.0.1:{port} inet n - n - - smtpd\n"));
        place.wait_listening(port);
        let _ = write!(
            sections,
            "[[route]]\nsmtp = {{ hosts = [\"{}\"], eight_bit = \"as_is\" }}\n",
            peers[1].address
        );
        let keys = "relay_from = [\"127.0.0.0/8\"]\ngreeting_delay = \"0s\"\nconnections_per_minute = 0\n\
                    messages_per_minute = 0\nrecipients_per_minute = 0\nrefusals_per_minute = 0\n";
        let server = Server::start(&files, &config_with("", keys, &sections));
        Pair { place, server, peers, _files: files }
    }

    /// The replies to each message, Postfix's first.
    fn replies(&self, messages: &[String]) -> [Vec<String>; 2] {
        let addresses =
            [SocketAddr::from(([127, 0, 0, 1], self.place.port)), self.server.address()];
        std::thread::scope(|scope| {
            let of =
                |address| scope.spawn(move || messages.iter().map(|m| give(address, m)).collect());
            addresses.map(of).map(|thread| thread.join().expect("replies"))
        })
    }
}

/// A message for people: without the middle of long lines and long bodies.
fn shown(message: &str) -> String {
    let lines = message.lines().filter(|line| !line.starts_with("0000"));
    lines
        .map(
            |line| {
                if line.len() > 100 { format!("{}…\n", &line[..60]) } else { format!("{line}\n") }
            },
        )
        .collect()
}

/// The lines around the first difference, Postfix's first.
fn around(theirs: &str, ours: &str) -> [String; 2] {
    let same = theirs.lines().zip(ours.lines()).take_while(|(one, other)| one == other).count();
    [theirs, ours].map(|text| {
        let lines = text.lines().skip(same.saturating_sub(5)).take(9);
        lines.fold(String::new(), |text, line| text + "\n    " + &line[..line.len().min(100)])
    })
}

pub(crate) fn random_messages_are_checked_as_by_postfix() {
    let (count, seed) = (number("CHECKED_MESSAGES", 40), number("CHECKED_SEED", 1));
    let mut random = Random::new(seed);
    let messages: Vec<String> = (0..count).map(|n| Draft::message(&mut random, n)).collect();
    let pair = Pair::start();
    let [theirs, ours] = pair.replies(&messages);
    let accepted = |replies: &[String]| replies.iter().filter(|reply| *reply == "250").count();
    let mut differences = Vec::new();
    let mut difference = |message: &str, theirs: &str, ours: &str| {
        differences.push(format!("{}Postfix: {theirs}\nhere: {ours}\n", shown(message)));
    };
    for ((message, theirs), ours) in messages.iter().zip(&theirs).zip(&ours) {
        if theirs != ours {
            difference(message, theirs, ours);
        }
    }
    let at_theirs = arrived(&pair.peers[0], accepted(&theirs));
    let at_ours = arrived(&pair.peers[1], accepted(&ours));
    let mut marks = BTreeMap::new();
    for (number, theirs) in &at_theirs {
        for (_, _, mark) in KINDS {
            *marks.entry(mark).or_insert(0) += theirs.matches(mark).count();
        }
        if let Some(ours) = at_ours.get(number).filter(|ours| *ours != theirs) {
            let [theirs, ours] = around(theirs, ours);
            difference(&messages[*number as usize], &theirs, &ours);
        }
    }
    let shown = number("CHECKED_SHOW", 3) as usize;
    let text: String = differences.iter().take(shown).map(|one| one.clone() + "\n").collect();
    assert!(differences.is_empty(), "{} of {count}:\n{text}", differences.len());
    let rejected = theirs.len() - at_theirs.len();
    eprintln!("{count} messages, {rejected} rejected, marks {marks:?}");
    if count >= 40 && seed == 1 {
        assert!(rejected > 3 && marks.values().all(|count| *count > 20), "{rejected}, {marks:?}");
    }
    pair.server.stop();
}
