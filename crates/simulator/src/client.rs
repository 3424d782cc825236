//! Clients: hand in messages of all sizes in all ways, and believe nothing but replies.

use super::account::{Account, Fate};
use super::directory::{Directory, RecipientReply};
use super::executor::{Executor, OUTSIDE};
use super::handshake;
use super::names::{
    BOX_DOMAIN, DEAD_DOMAIN, DEAF_DOMAIN, NODE, NODE_NAME, SENDER_DOMAIN, UNKNOWN_USER, WELL_DOMAIN,
};
use super::network::{SimNet, SimStream};
use super::p1::P1World;
use super::plan::{CROWD_FROM_US, Plan, RECIPIENTS_MAX};
use load::random::Random;
use load::source::{BodyKind, PreparedBody};
use mta::seams::{Egress, Endpoint, Net as _};
use std::cell::Cell;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

/// A client gives up waiting for a reply.
const REPLY_TIMEOUT_US: u64 = 120_000_000;

/// Tries of one message before the client goes on to the next; each has a name of its own.
const TRIES_MAX: u32 = 6;

/// What all clients share.
#[derive(Debug)]
pub struct Clients {
    /// Runs their tasks.
    pub executor: Executor,
    /// The network as they see it.
    pub net: SimNet,
    /// Who is told of what they hand in.
    pub account: Rc<Account>,
    /// Who has some of those whom they write to.
    pub directory: Option<Rc<Directory>>,
    /// What they do.
    pub plan: Rc<Plan>,
    /// Numbers messages.
    pub next: Cell<u64>,
    /// Those that have not finished.
    pub busy: Cell<u32>,
    /// Those that speak P1.
    pub p1: Option<Rc<P1World>>,
}

impl Clients {
    /// Whether all have finished.
    #[must_use]
    pub fn are_done(&self) -> bool {
        self.busy.get() == 0 && self.p1.as_ref().is_none_or(|p1| p1.is_done())
    }

    /// Where mail for these arrives.
    fn reached(&self, recipients: Vec<String>) -> Vec<String> {
        let Some(directory) = &self.directory else { return recipients };
        let reached = |to: String| directory.plan.alias(&to).unwrap_or(to);
        recipients.into_iter().map(reached).collect()
    }

    /// Where mail for those arrives who were accepted, by what was said to all.
    fn accepted(&self, letter: &Letter, told: &[RecipientReply]) -> Vec<String> {
        if let Some(directory) = &self.directory {
            directory.check_told(&letter.recipients, told);
        }
        let both = letter.recipients.iter().zip(told).filter(|(_, told)| told.code == 250);
        self.reached(both.map(|(to, _)| to.clone()).collect())
    }
}

/// Between two messages of one who writes steadily.
const STEADY_US: u64 = 1_000_000;

/// Whom a client writes to, and when.
#[derive(Clone, Debug)]
enum Habit {
    /// To anybody, now and then.
    Usual,
    /// To the domain that is well, all the time.
    Steady,
    /// To all small domains, this many recipients at once.
    Bulk { left: Vec<String>, recipients: usize },
}

/// Starts them all.
pub fn start(clients: &Rc<Clients>) {
    if let Some(p1) = &clients.p1 {
        p1.call();
    }
    let usual = (0..clients.plan.clients.0).map(|_| Habit::Usual);
    let steady = clients.plan.crowd.map(|_| Habit::Steady);
    let bulk = clients.plan.crowd.into_iter().flat_map(|crowd| {
        let (all, recipients) = (clients.plan.crowd_domains(), crowd.recipients as usize);
        let each = all.len().div_ceil(crowd.clients as usize).max(1);
        let parts: Vec<Vec<String>> = all.chunks(each).map(<[String]>::to_vec).collect();
        parts.into_iter().map(move |left| Habit::Bulk { left, recipients })
    });
    for (number, habit) in usual.chain(steady).chain(bulk).enumerate() {
        let shared = Rc::clone(clients);
        let seed = clients.plan.seed ^ (number as u64 + 1) << 20;
        clients.busy.set(clients.busy.get() + 1);
        clients.executor.spawn(OUTSIDE, async move {
            let mut client = Client {
                random: Random::new(seed),
                from: IpAddr::from([10, 9, 0, number as u8 + 1]),
                session: None,
                habit,
                shared,
            };
            client.run().await;
            client.quit().await;
            client.shared.busy.set(client.shared.busy.get() - 1);
        });
    }
}

struct Client {
    shared: Rc<Clients>,
    random: Random,
    from: IpAddr,
    session: Option<SenderSession>,
    habit: Habit,
}

struct SenderSession {
    stream: SimStream,
    executor: Executor,
    input: Vec<u8>,
    pipelining: bool,
    chunking: bool,
    /// It is encrypted.
    tls: bool,
    /// After the next message it writes nothing any more.
    shut: bool,
}

/// A message to hand in.
struct Letter {
    name: String,
    sender: String,
    recipients: Vec<String>,
    header: Vec<u8>,
    body: PreparedBody,
}

impl Client {
    async fn run(&mut self) {
        match self.habit {
            Habit::Usual => self.write_now_and_then().await,
            Habit::Steady => self.write_steadily().await,
            Habit::Bulk { .. } => self.write_to_all().await,
        }
    }

    /// Each message on a connection of its own, so that every shard has some.
    async fn write_steadily(&mut self) {
        while self.shared.executor.now_us() < self.shared.plan.traffic_us {
            if self.hand_in().await.is_err() {
                self.session = None;
            }
            self.quit().await;
            let pause_us = self.random.below(2 * STEADY_US);
            self.shared.executor.sleep(pause_us).await;
        }
    }

    async fn write_to_all(&mut self) {
        self.shared.executor.sleep_until(CROWD_FROM_US).await;
        while matches!(&self.habit, Habit::Bulk { left, .. } if !left.is_empty()) {
            if self.hand_in().await.is_err() {
                self.session = None;
                self.shared.executor.sleep(STEADY_US).await;
            }
        }
    }

    async fn write_now_and_then(&mut self) {
        let plan = Rc::clone(&self.shared.plan);
        let messages = u64::from(plan.clients.1);
        for _ in 0..messages {
            let pause_us = self.random.below(2 * plan.traffic_us / messages);
            self.shared.executor.sleep(pause_us).await;
            for _ in 0..TRIES_MAX {
                if self.shared.executor.now_us() > plan.traffic_us {
                    return;
                }
                if matches!(self.hand_in().await, Ok(true)) {
                    break;
                }
                self.session = None;
                let wait_us = 500_000 + self.random.below(5_000_000);
                self.shared.executor.sleep(wait_us).await;
            }
            if self.random.below(3) == 0 {
                self.quit().await;
            }
        }
    }

    async fn quit(&mut self) {
        if let Some(mut session) = self.session.take()
            && session.stream.write_all(b"QUIT\r\n").await.is_ok()
        {
            let _ = session.reply().await;
        }
    }

    /// One message; whether it was acknowledged.
    async fn hand_in(&mut self) -> io::Result<bool> {
        if self.session.is_none() {
            self.session = Some(self.connect().await?);
        }
        let letter = self.letter();
        let account = Rc::clone(&self.shared.account);
        account.submit(
            &letter.name,
            &letter.sender,
            self.shared.reached(letter.recipients.clone()),
            &letter.body.raw,
        );
        let aborts = self.random.permille(self.shared.plan.fault_rates.client_abort);
        let halves_permille = self.shared.plan.fault_rates.client_halves;
        let halves = self.random.permille(halves_permille);
        let by_chunks = self.random.below(2) == 0;
        let Some(session) = &mut self.session else { return Ok(false) };
        session.shut = halves;
        if session.requires_tls(&letter) {
            account.require_tls(&letter.name);
        }
        let told = session.envelope(&letter).await?;
        let accepted = self.shared.accepted(&letter, &told);
        if accepted.is_empty() {
            account.conclude(&letter.name, Fate::Begun, None);
            return Ok(false);
        }
        let tell = || account.conclude(&letter.name, Fate::Unknown, Some(accepted.clone()));
        let code = if by_chunks && session.chunking {
            session.chunks(&letter, aborts, &mut self.random, tell).await?
        } else {
            session.data(&letter, aborts, tell).await?
        };
        if session.shut {
            self.session = None;
        }
        let fate = match code {
            Some(250) => Fate::Acknowledged,
            Some(_) => Fate::Refused,
            // It never came to the end.
            None => Fate::Begun,
        };
        account.conclude(&letter.name, fate, None);
        Ok(fate == Fate::Acknowledged)
    }

    async fn connect(&mut self) -> io::Result<SenderSession> {
        let to = Endpoint::Tcp(SocketAddr::new(NODE, 25));
        let executor = self.shared.executor.clone();
        let from = Egress { address: Some(self.from), proxy: None };
        let stream = tokio::select! {
            biased;
            stream = self.shared.net.connect(&to, from) => stream?,
            () = executor.sleep(30_000_000) => return Err(ErrorKind::TimedOut.into()),
        };
        let mut session = SenderSession {
            stream,
            executor,
            input: Vec::new(),
            pipelining: false,
            chunking: false,
            tls: false,
            shut: false,
        };
        session.expect(220).await?;
        let mut lines = session.hello().await?;
        if self.encrypts() {
            session.encrypt().await?;
            lines = session.hello().await?;
        }
        session.pipelining = lines.contains("PIPELINING") && self.random.below(4) > 0;
        session.chunking = lines.contains("CHUNKING");
        Ok(session)
    }

    /// Whether the next session is encrypted. Of its own, so that other choices don't depend on it.
    fn encrypts(&self) -> bool {
        let plan = &self.shared.plan;
        let number = self.shared.next.get();
        plan.has_tls() && Random::new(plan.seed ^ (number + 1) << 40).below(3) == 0
    }

    fn sender_domain(&self, number: u64) -> &'static str {
        let plan = &self.shared.plan;
        // Of its own, so that other choices don't depend on it.
        match Random::new(plan.seed ^ number << 32).below(8) {
            0 | 1 if plan.deaf_senders => DEAF_DOMAIN,
            2 if plan.deaf_senders => DEAD_DOMAIN,
            _ => SENDER_DOMAIN,
        }
    }

    /// Some recipients, now and then of no use.
    fn anybody(&mut self, name: &str) -> Vec<String> {
        let random = &mut self.random;
        let domains = &self.shared.plan.domains;
        // Without a list of them there is a mailbox for everybody.
        let directory = self.shared.plan.directory.as_ref();
        let has_list = directory.is_some_and(|directory| directory.governs(BOX_DOMAIN));
        let echoed = self.shared.plan.echoed();
        let recipients = (0..1 + random.below(RECIPIENTS_MAX)).map(|n| {
            let dead = random.below(40) == 0;
            let unknown = if random.below(20) == 0 { UNKNOWN_USER } else { "" };
            let domain = &domains[random.below(domains.len() as u64) as usize];
            if dead {
                format!("{name}.r{n}@{DEAD_DOMAIN}")
            } else if domain == BOX_DOMAIN && !has_list {
                format!("{name}.r{n}@{domain}")
            } else {
                format!("{name}.r{n}{echoed}{unknown}@{domain}")
            }
        });
        recipients.collect()
    }

    fn letter(&mut self) -> Letter {
        let number = self.shared.next.get();
        self.shared.next.set(number + 1);
        let name = format!("m{number}");
        let recipients = match &mut self.habit {
            Habit::Usual => self.anybody(&name),
            Habit::Steady => vec![format!("{name}.r0@{WELL_DOMAIN}")],
            Habit::Bulk { left, recipients } => {
                let some = left.split_off(left.len().saturating_sub(*recipients));
                let to = |(n, domain): (usize, &String)| format!("{name}.r{n}@{domain}");
                some.iter().enumerate().map(to).collect()
            }
        };
        let random = &mut self.random;
        let of_bulk = match self.habit {
            Habit::Bulk { .. } => self.shared.plan.letter_bytes(random),
            _ => None,
        };
        let bytes = match random.below(80) {
            _ if of_bulk.is_some() => of_bulk.unwrap_or(0),
            0 => 2_100_000 + random.below(300_000),
            1..=6 => 15_000 + random.below(150_000),
            7..=9 => 0,
            _ => 2 + random.below(4_000),
        };
        let kind = match random.below(3) {
            0 => BodyKind::Plain,
            1 => BodyKind::Dots,
            _ => BodyKind::Eightbit,
        };
        let body = PreparedBody::generate(kind, bytes as usize, random.next_u64());
        // Left out of what arrives.
        let tenant = self.shared.plan.tenant_of(number);
        let tenant = tenant.map_or(String::new(), |tenant| format!("X-Tenant: t{tenant}\r\n"));
        let mut header = tenant.into_bytes();
        let sender = format!("{name}@{}", self.sender_domain(number));
        body.write_header(
            &mut header,
            &name,
            &sender,
            &recipients[0],
            "Wed, 18 Nov 2026 00:00:00 +0000",
        );
        Letter { name, sender, recipients, header, body }
    }
}

impl SenderSession {
    async fn hello(&mut self) -> io::Result<String> {
        self.stream.write_all(b"EHLO client.test\r\n").await?;
        let (code, lines) = self.reply().await?;
        if code == 250 { Ok(lines) } else { Err(ErrorKind::ConnectionRefused.into()) }
    }

    async fn encrypt(&mut self) -> io::Result<()> {
        self.stream.write_all(b"STARTTLS\r\n").await?;
        self.expect(220).await?;
        handshake::ask(&mut self.stream, NODE_NAME).await?;
        self.tls = true;
        Ok(())
    }

    /// Whether it asks for TLS all the way: in an encrypted session every other message.
    fn requires_tls(&self, letter: &Letter) -> bool {
        self.tls && crc32c::crc32c(letter.name.as_bytes()).is_multiple_of(2)
    }

    /// MAIL and RCPT; gives what was said to each recipient, and nothing without a transaction.
    async fn envelope(&mut self, letter: &Letter) -> io::Result<Vec<RecipientReply>> {
        let (name, sender) = (&letter.name, &letter.sender);
        let body = if letter.body.eight_bit { " BODY=8BITMIME" } else { "" };
        let tls = if self.requires_tls(letter) { " REQUIRETLS" } else { "" };
        let mut commands = vec![format!("MAIL FROM:<{sender}> ENVID={name}{body}{tls}\r\n")];
        commands.extend(letter.recipients.iter().map(|to| format!("RCPT TO:<{to}>\r\n")));
        let mut told = Vec::new();
        if self.pipelining {
            self.stream.write_all(commands.concat().as_bytes()).await?;
        }
        for command in &commands {
            if !self.pipelining {
                self.stream.write_all(command.as_bytes()).await?;
            }
            let since_us = self.executor.now_us();
            let (code, text) = self.reply().await?;
            told.push(RecipientReply { code, text, waited_us: self.executor.now_us() - since_us });
        }
        let begun = told.remove(0);
        Ok(if begun.code == 250 { told } else { Vec::new() })
    }

    /// The content by DATA; `told` is called before its end is sent. `None`: broken off.
    async fn data(
        &mut self,
        letter: &Letter,
        aborts: bool,
        told: impl Fn(),
    ) -> io::Result<Option<u16>> {
        self.stream.write_all(b"DATA\r\n").await?;
        if self.reply().await?.0 != 354 {
            return Ok(None);
        }
        self.stream.write_all(&letter.header).await?;
        let wire = &letter.body.wire;
        let (most, end) = wire.split_at(wire.len() - 3);
        if aborts {
            self.stream.write_all(&most[..most.len() / 2]).await?;
            return Err(ErrorKind::Interrupted.into());
        }
        self.stream.write_all(most).await?;
        told();
        self.stream.write_all(end).await?;
        self.shut_down();
        Ok(Some(self.reply().await?.0))
    }

    /// The content by BDAT.
    async fn chunks(
        &mut self,
        letter: &Letter,
        aborts: bool,
        random: &mut Random,
        told: impl Fn(),
    ) -> io::Result<Option<u16>> {
        let content = [&letter.header[..], &letter.body.raw].concat();
        let mut from = 0;
        while random.below(3) > 0 && from < content.len() {
            let bytes = 1 + random.below((content.len() - from) as u64) as usize;
            let mut chunk = format!("BDAT {bytes}\r\n").into_bytes();
            chunk.extend_from_slice(&content[from..from + bytes]);
            self.stream.write_all(&chunk).await?;
            from += bytes;
            if self.reply().await?.0 != 250 {
                return Ok(None);
            }
        }
        if aborts {
            return Err(ErrorKind::Interrupted.into());
        }
        told();
        let rest = &content[from..];
        self.stream.write_all(format!("BDAT {} LAST\r\n", rest.len()).as_bytes()).await?;
        self.stream.write_all(rest).await?;
        self.shut_down();
        Ok(Some(self.reply().await?.0))
    }

    fn shut_down(&self) {
        if self.shut {
            self.stream.shut_down();
        }
    }

    async fn expect(&mut self, code: u16) -> io::Result<()> {
        let found = self.reply().await?.0;
        if found == code { Ok(()) } else { Err(ErrorKind::ConnectionRefused.into()) }
    }

    /// The next reply: its code and all its lines.
    async fn reply(&mut self) -> io::Result<(u16, String)> {
        let until_us = self.executor.now_us() + REPLY_TIMEOUT_US;
        let mut timeout = self.executor.sleep_until(until_us);
        loop {
            if let Some(end) = reply_end(&self.input) {
                let lines: Vec<u8> = self.input.drain(..end).collect();
                let lines = String::from_utf8_lossy(&lines).into_owned();
                let code = lines.get(..3).and_then(|code| code.parse().ok());
                return Ok((code.ok_or(ErrorKind::InvalidData)?, lines));
            }
            let mut buffer = [0; 2048];
            let count = tokio::select! {
                biased;
                count = self.stream.read(&mut buffer) => count?,
                () = &mut timeout => return Err(ErrorKind::TimedOut.into()),
            };
            if count == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.input.extend_from_slice(&buffer[..count]);
        }
    }
}

/// Where the first whole reply ends.
fn reply_end(input: &[u8]) -> Option<usize> {
    let mut start = 0;
    loop {
        let end = start + memchr::memchr(b'\n', &input[start..])? + 1;
        if input.get(start + 3) != Some(&b'-') {
            return Some(end);
        }
        start = end;
    }
}
