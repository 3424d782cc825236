//! A client session with a peer that says anything, driven by a driver that acts at any moment.

use crate::stream::{Cut, Item, in_pieces, items};
use mail::ContentFacts;
use smtp::client::{ClientConfig, Outgoing, StartTls};
use smtp::testing::client::{self, Driver};
use std::time::Duration;

/// The first byte is the configuration, the rest is what the peer says and what the driver does:
/// see [`order`].
pub fn run(data: &[u8]) {
    let Some((&flags, rest)) = data.split_first() else { return };
    let config = configuration(flags);
    let play = |cut| {
        let mut driver = Driver::new(config.clone());
        for item in items(rest) {
            match item {
                Item::Bytes(bytes) => {
                    in_pieces(bytes, cut, |piece| driver.say(piece));
                    driver.end_flight();
                }
                Item::Order(what, argument) => order(&mut driver, what, argument),
            }
        }
        driver.end()
    };
    let whole = play(Cut::Whole);
    for cut in [Cut::Bytes, Cut::Seeded(flags)] {
        assert_eq!(whole, play(cut), "{cut:?} makes a difference");
    }
}

fn configuration(flags: u8) -> ClientConfig {
    ClientConfig {
        lmtp: flags & 1 != 0,
        chunking: flags & 2 == 0,
        pipelining: flags & 4 == 0,
        unasked_content: flags & 64 == 0,
        starttls: match flags >> 3 & 3 {
            1 => StartTls::Opportunistic,
            2 => StartTls::Required,
            _ => StartTls::Off,
        },
        reply_line_bytes_max: if flags & 32 == 0 { 512 } else { 60 },
        reply_lines_max: if flags & 32 == 0 { 32 } else { 5 },
        transaction_timeout: Duration::from_secs(1_200),
        ..client::config()
    }
}

/// What the driver does: 0 writes all; 1 takes what is to be written; 2 has written it;
/// 3 progress, or the connection breaks; 4 time passes; 5 starts a transaction; 6 quits.
fn order(driver: &mut Driver, what: u8, argument: u8) {
    match what {
        0 | 1 => driver.poll(what == 0),
        2 => driver.write(),
        3 if argument < 128 => driver.progress(),
        3 => driver.break_off(),
        4 => driver.wait(Duration::from_secs(u64::from(argument) * 4)),
        5 => driver.start(outgoing(argument)),
        6 => driver.quit(),
        _ => {}
    }
}

fn outgoing(argument: u8) -> Outgoing {
    let facts = ContentFacts {
        body_bytes: [0, 100, 9_000, 3_000_000][usize::from(argument >> 2 & 3)],
        has_8bit: argument & 16 != 0,
        dot_lines: u64::from(argument & 32 != 0),
        ends_with_crlf: argument & 64 == 0,
        ..ContentFacts::default()
    };
    let outgoing = client::outgoing(usize::from(argument & 3), facts);
    Outgoing { smtputf8: argument & 128 != 0, ..outgoing }
}
