//! A server session under a client that says anything, a policy that answers anything at any time,
//! and a spool that is late or fails.

use crate::stream::{Cut, Item, in_pieces, items};
use mail::{Recipient, Reply};
use smtp::server::{BareNewline, LoginRules, LoginSaid, MailCommand, Nul, ServerConfig};
use smtp::testing::script::{Answer, Policy};
use smtp::testing::server::Driver;
use std::collections::VecDeque;
use std::time::Duration;

/// The first two bytes are the listener, the rest is what happens: see [`order`].
pub fn run(data: &[u8]) {
    let Some((&[flags, limits], rest)) = data.split_first_chunk::<2>() else { return };
    let config = listener(flags, limits);
    let play = |cut| {
        let policy = Verdicts { is_refused: flags & 32 != 0, verdicts: VecDeque::new() };
        let mut driver = Driver::new(config.clone(), policy);
        for item in items(rest) {
            match item {
                Item::Bytes(bytes) => {
                    in_pieces(bytes, cut, |piece| driver.feed(piece));
                    driver.end_flight();
                }
                Item::Order(what, argument) => order(&mut driver, what, argument),
            }
        }
        (driver.trace, driver.closed)
    };
    let whole = play(Cut::Whole);
    for cut in [Cut::Bytes, Cut::Seeded(limits)] {
        let other = play(cut);
        assert_eq!(whole, other, "{cut:?} makes a difference");
    }
}

fn listener(flags: u8, limits: u8) -> ServerConfig {
    let mode = if flags & 1 == 0 { BareNewline::Reject } else { BareNewline::Normalize };
    let mut config = ServerConfig {
        bare_newline: mode,
        nul: match flags >> 5 & 3 {
            0 => Nul::Keep,
            1 => Nul::Strip,
            _ => Nul::Reject,
        },
        lmtp: flags & 2 != 0,
        starttls: flags & 4 != 0,
        chunking: flags & 8 == 0,
        ..ServerConfig::default()
    };
    if flags & 64 != 0 {
        let failures_max = 1 + u32::from(limits % 3);
        let (mechanisms, timeout) = (vec!["PLAIN", "LOGIN"], Duration::from_secs(180));
        config.logins = Some(LoginRules { mechanisms, failures_max, timeout });
    }
    if flags & 16 != 0 {
        config.message_bytes_max = 20 + u64::from(limits % 32);
        config.content_line_bytes_max = 10;
        config.command_line_bytes_max = 80;
        config.recipients_max = 2;
        config.recipients_open_max = usize::from(limits % 4);
        config.messages_max = 3;
        config.commands_max = 40;
        config.errors_max = 1 + u32::from(limits % 8);
        config.refused_recipients_max = u32::from(limits % 5);
    }
    config
}

/// 0: time passes; 1: the server stops; 7: one of the open recipients is answered; all others: how
/// a later need is answered, see [`Verdicts`].
fn order(driver: &mut Driver<Verdicts>, what: u8, argument: u8) {
    match what {
        0 => driver.advance(Duration::from_secs(u64::from(argument) * 4)),
        1 => driver.shut_down(),
        7 => {
            let open: Vec<u32> = driver.open().collect();
            if let Some(at) = usize::from(argument).checked_rem(open.len()) {
                driver.answer_open(open[at]);
            }
        }
        _ => driver.policy.verdicts.push_back(argument),
    }
}

/// The answers to come, a byte each: what is said (the lowest three bits), whether that takes its
/// time (8), whether the server stops meanwhile (16). A recipient whose byte has 32 stays open, and
/// the next byte is its answer.
struct Verdicts {
    is_refused: bool,
    verdicts: VecDeque<u8>,
}

impl Verdicts {
    fn next<T>(&mut self, good: impl FnOnce(u8) -> T) -> Answer<T> {
        let byte = self.verdicts.pop_front().unwrap_or(0);
        let result = match byte & 7 {
            1 => Err(Reply::new(450, (4, 2, 1), "Later")),
            2 => Err(Reply::new(550, (5, 1, 1), "Never")),
            3 => Err(Reply::new(421, (4, 3, 2), "Going")),
            4 => Err(Reply::new(452, (4, 3, 1), "Full")),
            5 => Err(Reply::new(451, (4, 3, 0), "Two\nlines")),
            other => Ok(good(other)),
        };
        let takes = Duration::from_secs(if byte & 8 == 0 { 0 } else { 500 });
        Answer { result, takes, stops: byte & 16 != 0 }
    }
}

impl Policy for Verdicts {
    fn greeting(&mut self) -> Option<Reply> {
        self.is_refused.then(|| Reply::new(554, (5, 7, 1), "No"))
    }

    fn login(&mut self, _said: &LoginSaid) -> Answer<Option<Vec<u8>>> {
        self.next(|byte| (byte & 7 != 0).then(|| vec![byte]))
    }

    fn mail(&mut self, _mail: &MailCommand) -> Answer<()> {
        self.next(|_| ())
    }

    fn is_late(&mut self, _recipient: &Recipient) -> bool {
        self.verdicts.pop_front_if(|byte| *byte & 32 != 0).is_some()
    }

    fn rcpt(&mut self, _recipient: &Recipient) -> Answer<()> {
        self.next(|_| ())
    }

    fn data(&mut self) -> Answer<()> {
        self.next(|_| ())
    }

    fn message(&mut self) -> Answer<Vec<Reply>> {
        self.next(|_| vec![Reply::new(250, (2, 0, 0), "Queued")])
    }
}
