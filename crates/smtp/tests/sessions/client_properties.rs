//! What holds for a client session whatever the peer says and whenever the driver acts.

use mail::ContentFacts;
use proptest::prelude::*;
use smtp::client::{ClientConfig, StartTls};
use smtp::testing::client::{self, Driver};
use std::time::Duration;

/// What happens to the session next.
#[derive(Clone, Debug)]
enum Act {
    Say(Vec<u8>),
    /// The driver polls, and writes if that is given.
    Poll {
        writes: bool,
    },
    Written,
    Progress,
    Broken,
    Wait(u64),
    Start {
        recipients: usize,
        body_bytes: u64,
        has_8bit: bool,
    },
    Probe,
    Quit,
}

fn config(lmtp: bool, starttls: StartTls) -> ClientConfig {
    let base = client::config();
    ClientConfig { lmtp, starttls, reply_line_bytes_max: 80, reply_lines_max: 12, ..base }
}

fn perform(driver: &mut Driver, act: &Act) {
    match act {
        Act::Say(bytes) => {
            driver.say(bytes);
            driver.end_flight();
        }
        Act::Poll { writes } => driver.poll(*writes),
        Act::Written => driver.write(),
        Act::Progress => driver.progress(),
        Act::Broken => driver.break_off(),
        Act::Wait(seconds) => driver.wait(Duration::from_secs(*seconds)),
        Act::Start { recipients, body_bytes, has_8bit } => {
            let (body_bytes, has_8bit) = (*body_bytes, *has_8bit);
            let facts = ContentFacts {
                body_bytes,
                has_8bit,
                ends_with_crlf: true,
                ..ContentFacts::default()
            };
            driver.start(client::outgoing(*recipients, facts));
        }
        Act::Probe => driver.probe(),
        Act::Quit => driver.quit(),
    }
}

fn reply() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        "250 2.0.0 ok\r\n",
        "250-a\r\n250 b\r\n",
        "250 ok\r\n250 ok\r\n",
        "250 ok\r\n250 ok\r\n354 go\r\n",
        "250 ok\r\n250 ok\r\n250 2.0.0 kept\r\n",
        "354 go\r\n",
        "550 5.1.1 nobody\r\n",
        "450 4.2.1 busy\r\n",
        "421 4.3.2 bye\r\n",
        "220 go\r\n",
        "221 bye\r\n",
        "250-m\r\n250-PIPELINING\r\n250-CHUNKING\r\n250 8BITMIME\r\n",
        "250-m\r\n250 STARTTLS\r\n",
        "250-m\r\n250-SIZE 5000\r\n250 PIPELINING\r\n",
        "250 un",
        "finished\r\n",
        "99\r\n",
    ]);
    prop_oneof![
        20 => known.prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..120),
        1 => "[2-5][0-9][0-9][ -][a-z]{0,90}\r?\n".prop_map(String::into_bytes),
    ]
}

fn acts() -> impl Strategy<Value = Act> {
    prop_oneof![
        12 => reply().prop_map(Act::Say),
        8 => Just(Act::Poll { writes: true }),
        2 => Just(Act::Poll { writes: false }),
        2 => Just(Act::Written),
        1 => Just(Act::Progress),
        1 => (0u64..400).prop_map(Act::Wait),
        8 => (0usize..4, prop::sample::select(vec![0, 100, 9_000, 3_000_000]), any::<bool>())
            .prop_map(|(recipients, body_bytes, eight)| {
                Act::Start { recipients, body_bytes, has_8bit: eight && body_bytes == 100 }
            }),
        2 => Just(Act::Probe),
        1 => Just(Act::Quit),
        1 => Just(Act::Broken),
    ]
}

/// The beginning of a session with a peer of some abilities, so that most go beyond it.
fn opening() -> impl Strategy<Value = Vec<Act>> {
    let offers = prop::sample::select(vec![
        "250 m\r\n",
        "250-m\r\n250 PIPELINING\r\n",
        "250-m\r\n250 CHUNKING\r\n",
        "250-m\r\n250-PIPELINING\r\n250-SIZE 9000\r\n250 CHUNKING\r\n",
    ]);
    offers.prop_map(|offers| {
        vec![
            Act::Say(b"220 m\r\n".to_vec()),
            Act::Poll { writes: true },
            Act::Say(offers.as_bytes().to_vec()),
        ]
    })
}

fn starttls() -> impl Strategy<Value = StartTls> {
    prop::sample::select(vec![
        StartTls::Off,
        StartTls::Off,
        StartTls::Opportunistic,
        StartTls::Required,
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn each_start_has_one_done_and_nothing_follows_closed(
        lmtp: bool,
        starttls in starttls(),
        chunking: bool,
        pipelining: bool,
        unasked_content: bool,
        opening in opening(),
        acts in prop::collection::vec(acts(), 0..60),
    ) {
        let config = config(lmtp, starttls);
        let mut driver =
            Driver::new(ClientConfig { chunking, pipelining, unasked_content, ..config });
        for act in opening.iter().chain(&acts) {
            perform(&mut driver, act);
        }
        let _ = driver.end();
    }

    #[test]
    fn noise_from_the_first_byte_on_ends_in_one_closed(
        acts in prop::collection::vec(acts(), 0..40),
    ) {
        let mut driver = Driver::new(config(false, StartTls::Opportunistic));
        for act in &acts {
            perform(&mut driver, act);
        }
        let _ = driver.end();
    }

    #[test]
    fn content_waits_till_a_recipient_is_accepted(
        lmtp: bool,
        offers in opening(),
        mail in prop::sample::select(vec![250, 250, 250, 451, 550]),
        rcpts in prop::collection::vec(prop::sample::select(vec![250, 251, 450, 452, 550, 552]), 1..5),
        behind in prop::collection::vec(reply(), 0..4),
    ) {
        let mut driver = Driver::new(config(lmtp, StartTls::Off));
        for act in &offers {
            perform(&mut driver, act);
        }
        perform(&mut driver, &Act::Start { recipients: rcpts.len(), body_bytes: 100, has_8bit: false });
        let mut is_accepted = false;
        for (number, code) in [mail].iter().chain(&rcpts).enumerate() {
            for byte in format!("{code} said\r\n").bytes() {
                perform(&mut driver, &Act::Poll { writes: true });
                prop_assert!(is_accepted || !driver.has_sent());
                perform(&mut driver, &Act::Say(vec![byte]));
            }
            is_accepted |= number > 0 && mail == 250 && code / 100 == 2;
        }
        for reply in behind {
            perform(&mut driver, &Act::Poll { writes: true });
            perform(&mut driver, &Act::Say(reply));
        }
        prop_assert!(is_accepted || !driver.has_sent());
        let _ = driver.end();
    }

    #[test]
    fn a_broken_protocol_is_never_followed_by_ready(
        offers in opening(),
        recipients in 1usize..4,
        right in 0usize..4,
        wrong in prop::sample::select(vec!["", "25 x\r\n", "250-a\r\n251 b\r\n", "350 x\r\n250 x\r\n",
            "nonsense\r\n", "250 ok\r\n250 ok\r\n250 ok\r\n250 ok\r\n250 ok\r\n250 ok\r\n"]),
        more in prop::collection::vec(reply(), 0..10),
    ) {
        let mut driver = Driver::new(config(false, StartTls::Off));
        for act in &offers {
            perform(&mut driver, act);
        }
        perform(&mut driver, &Act::Start { recipients, body_bytes: 100, has_8bit: false });
        for _ in 0..right.min(recipients) {
            perform(&mut driver, &Act::Poll { writes: true });
            perform(&mut driver, &Act::Say(b"250 ok\r\n".to_vec()));
        }
        perform(&mut driver, &Act::Poll { writes: true });
        perform(&mut driver, &Act::Say(wrong.as_bytes().to_vec()));
        prop_assert_eq!(driver.is_closed(), !wrong.is_empty());
        if driver.is_closed() {
            for reply in more {
                perform(&mut driver, &Act::Say(reply));
                prop_assert!(!driver.is_ready());
            }
        }
        let _ = driver.end();
    }
}
