//! What holds for a client session whatever the peer says and whenever the driver acts.

use mail::{BodyType, ContentFacts, Mailbox, Mono, Notify};
use proptest::prelude::*;
use smtp::client::{
    ClientConfig, ClientEvent, ClientSession, Outgoing, OutgoingRecipient, Output, StartTls,
};
use std::sync::Arc;
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
    Quit,
}

/// A driver that checks what it is told.
struct Driver {
    session: ClientSession,
    now: Mono,
    is_ready: bool,
    is_closed: bool,
    /// Recipients of the transaction that is under way.
    running: Option<usize>,
    content_given: bool,
    is_writing: bool,
    has_quit: bool,
}

fn config(lmtp: bool, starttls: StartTls) -> ClientConfig {
    ClientConfig {
        hostname: "relay.example".into(),
        peer: "mx.test[192.0.2.1]:25".into(),
        lmtp,
        starttls,
        chunking: true,
        pipelining: true,
        unasked_content: false,
        eight_bit_as_is: false,
        reply_line_bytes_max: 80,
        reply_lines_max: 12,
        greeting_timeout: Duration::from_secs(300),
        command_timeout: Duration::from_secs(300),
        data_timeout: Duration::from_secs(120),
        content_timeout: Duration::from_secs(180),
        final_timeout: Duration::from_secs(600),
        transaction_timeout: Duration::from_secs(3000),
    }
}

impl Driver {
    fn new(lmtp: bool, starttls: StartTls, chunking: bool, pipelining: bool) -> Driver {
        Driver::with(ClientConfig { chunking, pipelining, ..config(lmtp, starttls) })
    }

    fn with(config: ClientConfig) -> Driver {
        Driver {
            session: ClientSession::new(Arc::new(config), Mono(0)),
            now: Mono(0),
            is_ready: false,
            is_closed: false,
            running: None,
            content_given: false,
            is_writing: false,
            has_quit: false,
        }
    }

    fn act(&mut self, act: &Act) {
        match act {
            Act::Say(bytes) => self.session.handle_input(self.now, bytes),
            Act::Poll { writes } => {
                self.events();
                self.poll(*writes);
            }
            Act::Written => {
                self.session.handle_written(self.now);
                self.is_writing = false;
            }
            Act::Progress => self.session.handle_progress(self.now),
            Act::Broken => self.session.handle_broken(self.now, "gone"),
            Act::Wait(seconds) => {
                self.now = self.now + Duration::from_secs(*seconds);
                self.session.handle_timeout(self.now);
                assert!(self.session.deadline() > self.now);
            }
            Act::Start { recipients, body_bytes, has_8bit } => {
                self.events();
                if self.is_ready {
                    self.start(*recipients, *body_bytes, *has_8bit);
                }
            }
            Act::Quit => {
                self.events();
                if self.is_ready {
                    self.is_ready = false;
                    self.has_quit = true;
                    self.session.quit(self.now);
                }
            }
        }
        if self.running.is_some() {
            let is_pending = self.session.deadline() == Mono::NEVER;
            self.events();
            // As long as a transaction runs, something will end it.
            assert!(self.running.is_none() || !is_pending);
        }
    }

    fn start(&mut self, recipients: usize, body_bytes: u64, has_8bit: bool) {
        let recipient = |n: usize| OutgoingRecipient {
            mailbox: Mailbox::parse(&format!("r{n}@b.test"), false).unwrap(),
            notify: Notify::UNSPECIFIED,
            orcpt: None,
        };
        self.is_ready = false;
        self.running = Some(recipients);
        self.content_given = false;
        let facts =
            ContentFacts { body_bytes, has_8bit, ends_with_crlf: true, ..ContentFacts::default() };
        let outgoing = Outgoing {
            reverse_path: None,
            recipients: (0..recipients).map(recipient).collect(),
            body: BodyType::SevenBit,
            smtputf8: false,
            ret: None,
            envid: None,
            facts,
            header_is_8bit: false,
            eight_bit_as_is: false,
            expires: Mono::NEVER,
            prefix_bytes: 10,
        };
        self.session.start(self.now, outgoing);
    }

    fn poll(&mut self, writes: bool) {
        let mut pieces = vec![Output::Content];
        self.session.poll_output(&mut pieces);
        assert!(pieces.is_empty() || !(self.is_writing || self.is_closed));
        let mut last_end = 0;
        for piece in &pieces {
            match *piece {
                Output::Bytes { start, end } => {
                    assert!(last_end <= start && start < end);
                    assert!(self.session.buffer()[start..end].ends_with(b"\r\n"));
                    last_end = end;
                }
                Output::Content | Output::ContentStuffed => {
                    assert!(!self.content_given && self.running.is_some());
                    self.content_given = true;
                }
            }
        }
        if !pieces.is_empty() {
            self.is_writing = true;
        }
        if writes && self.is_writing {
            self.session.handle_written(self.now);
            self.is_writing = false;
        }
    }

    fn events(&mut self) {
        while let Some(event) = self.session.poll_event() {
            assert!(!self.is_closed, "{event:?} after Closed");
            match event {
                ClientEvent::Ready => {
                    assert!(self.running.is_none() && !self.is_ready && !self.has_quit);
                    self.is_ready = true;
                }
                ClientEvent::StartTls => {
                    assert!(self.running.is_none() && !self.is_ready);
                    self.session.handle_tls_started(self.now);
                }
                ClientEvent::Done { outcomes, doubtful, .. } => {
                    assert_eq!(self.running.take(), Some(outcomes.len()));
                    assert!(self.content_given || !doubtful);
                    assert!(self.content_given || outcomes.iter().all(Result::is_err));
                    assert!(!doubtful || outcomes.iter().any(Result::is_err));
                }
                ClientEvent::Closed(failure) => {
                    assert!(self.running.is_none(), "Done comes before Closed");
                    assert!(failure.is_some() || self.has_quit || self.content_given);
                    assert_eq!(self.session.deadline(), Mono::NEVER);
                    self.is_ready = false;
                    self.is_closed = true;
                }
            }
        }
    }

    fn end(mut self) {
        self.events();
        self.session.handle_broken(self.now, "");
        self.events();
        assert!(self.running.is_none() && self.is_closed);
        self.poll(true);
        self.session.handle_input(self.now, b"250 ok\r\n");
        assert_eq!(self.session.poll_event(), None);
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

fn act() -> impl Strategy<Value = Act> {
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
        acts in prop::collection::vec(act(), 0..60),
    ) {
        let config = config(lmtp, starttls);
        let mut driver =
            Driver::with(ClientConfig { chunking, pipelining, unasked_content, ..config });
        for act in opening.iter().chain(&acts) {
            driver.act(act);
        }
        driver.end();
    }

    #[test]
    fn noise_from_the_first_byte_on_ends_in_one_closed(
        acts in prop::collection::vec(act(), 0..40),
    ) {
        let mut driver = Driver::new(false, StartTls::Opportunistic, true, true);
        for act in &acts {
            driver.act(act);
        }
        driver.end();
    }

    #[test]
    fn content_waits_till_a_recipient_is_accepted(
        lmtp: bool,
        offers in opening(),
        mail in prop::sample::select(vec![250, 250, 250, 451, 550]),
        rcpts in prop::collection::vec(prop::sample::select(vec![250, 251, 450, 452, 550, 552]), 1..5),
        behind in prop::collection::vec(reply(), 0..4),
    ) {
        let mut driver = Driver::with(config(lmtp, StartTls::Off));
        for act in &offers {
            driver.act(act);
        }
        driver.act(&Act::Start { recipients: rcpts.len(), body_bytes: 100, has_8bit: false });
        let mut is_accepted = false;
        for (number, code) in [mail].iter().chain(&rcpts).enumerate() {
            for byte in format!("{code} said\r\n").bytes() {
                driver.act(&Act::Poll { writes: true });
                prop_assert!(is_accepted || !driver.content_given);
                driver.act(&Act::Say(vec![byte]));
            }
            is_accepted |= number > 0 && mail == 250 && code / 100 == 2;
        }
        for reply in behind {
            driver.act(&Act::Poll { writes: true });
            driver.act(&Act::Say(reply));
        }
        prop_assert!(is_accepted || !driver.content_given);
        driver.end();
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
        let mut driver = Driver::new(false, StartTls::Off, true, true);
        for act in &offers {
            driver.act(act);
        }
        driver.act(&Act::Start { recipients, body_bytes: 100, has_8bit: false });
        for _ in 0..right.min(recipients) {
            driver.act(&Act::Poll { writes: true });
            driver.act(&Act::Say(b"250 ok\r\n".to_vec()));
        }
        driver.act(&Act::Poll { writes: true });
        driver.act(&Act::Say(wrong.as_bytes().to_vec()));
        driver.events();
        prop_assert_eq!(driver.is_closed, !wrong.is_empty());
        if driver.is_closed {
            for reply in more {
                driver.act(&Act::Say(reply));
                driver.events();
                prop_assert!(!driver.is_ready);
            }
        }
        driver.end();
    }
}
