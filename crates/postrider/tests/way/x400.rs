//! Messages, probes and reports of X.400: from a peer that binds, to a peer that is called, and back as a report.

use super::client::FRIEND;
use super::node::{Node, play, wait_until};
use bytes::Bytes;
use mail::Mono;
use std::cell::{Cell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use x400::association::{
    AbortReason, Event, ExceptionReason, Identity, Initiator, InitiatorSettings, Password,
    Responder, ResponderSettings,
};
use x400::mts::reader::read_whole;
use x400::mts::report::ReportType;
use x400::mts::{ApduEvent, Limits, ReportContent};

pub(crate) const MESSAGE: &[u8] =
    include_bytes!("../../../channels/tests/x400/message_unknown_noncritical.ber");
const DEFERRED: &[u8] = include_bytes!("../../../channels/tests/x400/message_extensions.ber");
const CRITICAL: &[u8] = include_bytes!("../../../channels/tests/x400/message_unknown_critical.ber");
const PROBE: &[u8] = include_bytes!("../../../channels/tests/x400/probe.ber");

pub(crate) const CONFIG: &str = r#"hostname = "relay.test"
[[listener]]
kind = "p1"
name = "in"
address = "192.0.2.250:102"
[x400]
mta = "relay"
domain = "/PRMD=Ours/ADMD= /C=GB/"
[[x400.peer]]
name = "hub"
hosts = ["198.51.100.2:102"]
their_name = "mta.hub"
their_password = "theirs"
our_password = "ours"
[[route]]
or_addresses = ["/C=GB/"]
x400 = { peer = "hub" }
"#;

/// The same, where everything is delivered here.
fn here() -> String {
    CONFIG.replace("x400 = { peer = \"hub\" }", "discard = {}")
}

fn identity(name: &str, password: &str) -> Identity {
    Identity { name: Some(name.to_owned()), password: Some(Password(password.into())) }
}

/// An MTA that calls.
pub(crate) struct Caller {
    stream: DuplexStream,
    machine: Initiator,
}

impl Caller {
    async fn calls(node: &Node, password: &str) -> (Caller, Event) {
        Caller::calls_from(node, FRIEND, password).await
    }

    pub(crate) async fn calls_from(node: &Node, client: IpAddr, password: &str) -> (Caller, Event) {
        Caller::calls_as(node, client, identity("mta.hub", password)).await
    }

    /// Whatever it is called.
    pub(crate) async fn shows(
        node: &Node,
        client: IpAddr,
        name: &str,
        password: &str,
    ) -> (Caller, Event) {
        Caller::calls_as(node, client, identity(name, password)).await
    }

    /// The peer that is called `mta.` and this name.
    pub(crate) async fn bound_as(node: &Node, name: &str) -> Caller {
        let shown = identity(&format!("mta.{name}"), "theirs");
        let (caller, event) = Caller::calls_as(node, FRIEND, shown).await;
        assert!(matches!(event, Event::Bound(_)), "{name}: {event:?}");
        caller
    }

    async fn calls_as(node: &Node, client: IpAddr, identity: Identity) -> (Caller, Event) {
        let settings = InitiatorSettings { identity, ..InitiatorSettings::default() };
        let stream = node.accept(SocketAddr::new(client, 40_000));
        let mut caller = Caller { stream, machine: Initiator::new(settings, Mono(0)) };
        let event = caller.event().await;
        (caller, event)
    }

    pub(crate) async fn bound(node: &Node) -> Caller {
        let (caller, event) = Caller::calls(node, "theirs").await;
        assert!(matches!(event, Event::Bound(_)), "{event:?}");
        caller
    }

    pub(crate) async fn bound_from(node: &Node, client: IpAddr) -> Caller {
        let (caller, event) = Caller::calls_from(node, client, "theirs").await;
        assert!(matches!(event, Event::Bound(_)), "{event:?}");
        caller
    }

    async fn flush(&mut self) {
        for piece in self.machine.take_output() {
            let _ = self.stream.write_all(&piece).await;
        }
    }

    pub(crate) async fn event(&mut self) -> Event {
        loop {
            if let Some(event) = self.machine.poll_event() {
                return event;
            }
            self.flush().await;
            let mut buffer = vec![0; 65_536];
            match self.stream.read(&mut buffer).await {
                Ok(0) | Err(_) => self.machine.handle_eof(),
                Ok(n) => self.machine.handle_input(Bytes::copy_from_slice(&buffer[..n]), Mono(0)),
            }
        }
    }

    pub(crate) async fn offer(&mut self, apdu: &[u8]) {
        self.machine.transfer([Bytes::copy_from_slice(apdu)], Mono(0));
        self.flush().await;
    }

    pub(crate) async fn transfer(&mut self, apdu: &[u8]) {
        self.offer(apdu).await;
        assert_eq!(self.event().await, Event::Acknowledged);
    }
}

/// What an MTA that is called does with an APDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Take,
    Refuse,
    Abort,
    /// Nothing is said.
    Silence,
}

type Taken = Rc<RefCell<Vec<Vec<u8>>>>;
type Answers = Rc<dyn Fn(&[u8]) -> Answer>;

/// An MTA that is called, and what it has taken.
#[derive(Clone)]
pub(crate) struct Hub {
    name: &'static str,
    taken: Taken,
    answer: Answers,
    offered: Rc<Cell<usize>>,
    /// Before each read, once an APDU has begun.
    pause: Duration,
}

impl Hub {
    /// One that nobody can call yet.
    pub(crate) fn new(answer: impl Fn(&[u8]) -> Answer + 'static) -> Hub {
        let (taken, offered, pause) = Default::default();
        Hub { name: "mta.hub", taken, answer: Rc::new(answer), offered, pause }
    }

    /// The same by another name, elsewhere, that takes everything; it waits so long before each read, once an APDU has
    /// begun.
    pub(crate) fn slow_at(node: &Node, name: &'static str, address: &str, pause: Duration) -> Hub {
        Hub { name, pause, ..Hub::new(|_| Answer::Take) }.serving(node, address)
    }

    /// The same, that says nothing to any APDU.
    pub(crate) fn silent_at(node: &Node, name: &'static str, address: &str) -> Hub {
        Hub { name, ..Hub::new(|_| Answer::Silence) }.serving(node, address)
    }

    fn serving(self, node: &Node, address: &str) -> Hub {
        let (hub, address) = (self.clone(), address.parse().expect("an address"));
        node.world.serve(address, move |stream| self.serve_beside(stream));
        hub
    }

    pub(crate) fn at(node: &Node, answer: impl Fn(&[u8]) -> Answer + 'static) -> Hub {
        Hub::new(answer).serving(node, "198.51.100.2:102")
    }

    /// Serves a connection in a task of its own.
    pub(crate) fn serve_beside(&self, stream: DuplexStream) {
        let hub = self.clone();
        tokio::task::spawn_local(async move { hub.serve(stream).await });
    }

    /// What it says to an APDU.
    fn say(&self, machine: &mut Responder, apdu: &[u8]) {
        match (self.answer)(apdu) {
            Answer::Take => {
                self.taken.borrow_mut().push(apdu.to_vec());
                machine.acknowledge(Mono(0));
            }
            Answer::Refuse => machine.refuse_apdu(ExceptionReason::TemporarilyUnable, Mono(0)),
            Answer::Abort => machine.abort(AbortReason::UserError, Mono(0)),
            Answer::Silence => {}
        }
    }

    async fn serve(&self, mut stream: DuplexStream) {
        let mut machine = Responder::new(ResponderSettings::default(), Mono(0));
        let (mut apdu, mut pause) = (Vec::new(), Duration::ZERO);
        while !machine.is_closed() {
            while let Some(event) = machine.poll_event() {
                match event {
                    Event::Bind(_) => machine.accept(&identity(self.name, "theirs"), Mono(0)),
                    Event::ActivityStarted => {
                        apdu.clear();
                        pause = self.pause;
                    }
                    Event::Content(octets) => apdu.extend_from_slice(&octets),
                    Event::ApduComplete => {
                        self.offered.set(self.offered.get() + 1);
                        self.say(&mut machine, &apdu);
                    }
                    _ => {}
                }
            }
            for piece in machine.take_output() {
                if stream.write_all(&piece).await.is_err() {
                    return;
                }
            }
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            let mut buffer = vec![0; 65_536];
            match stream.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(n) => machine.handle_input(Bytes::copy_from_slice(&buffer[..n]), Mono(0)),
            }
        }
    }

    /// How many APDUs came in whole.
    pub(crate) fn offered(&self) -> usize {
        self.offered.get()
    }

    pub(crate) fn taken(&self) -> Vec<Vec<u8>> {
        self.taken.borrow().clone()
    }
}

/// Outcomes of a report, by the numbers of recipients.
fn reported(apdu: &[u8]) -> Vec<(u32, ReportType)> {
    let (event, content) = read_whole(apdu, Limits::default()).expect("an APDU");
    assert!(matches!(event, ApduEvent::Report { envelope: Ok(_), .. }), "{event:?}");
    let report = ReportContent::read(&content, &Limits::default()).expect("a report");
    report.recipients.iter().map(|recipient| (recipient.number, recipient.outcome)).collect()
}

#[test]
fn nothing_is_acknowledged_before_it_is_durable() {
    play(|| async {
        let node = Node::start(CONFIG).await;
        let hub = Hub::at(&node, |_| Answer::Take);
        let mut caller = Caller::bound(&node).await;
        node.log_stands.set(true);
        caller.offer(MESSAGE).await;
        let early = tokio::time::timeout(Duration::from_secs(30), caller.event()).await;
        assert!(early.is_err(), "{early:?}");
        assert_eq!(node.count("received"), 0);
        node.log_stands.set(false);
        assert_eq!(caller.event().await, Event::Acknowledged);
        node.wait_for("relayed", 1).await;
        assert_eq!(hub.taken().len(), 1);
    });
}

#[test]
fn who_shows_a_wrong_password_waits_and_is_refused() {
    play(|| async {
        let node = Node::start(CONFIG).await;
        let begun = tokio::time::Instant::now();
        let (_, event) = Caller::calls(&node, "guess").await;
        assert!(matches!(&event, Event::Ended(_)), "{event:?}");
        assert!(format!("{event:?}").contains("Authentication"), "{event:?}");
        assert!(begun.elapsed() >= Duration::from_secs(2));
        assert_eq!(node.count("refused"), 1);
    });
}

#[test]
fn a_refusal_and_an_abort_are_tried_again() {
    for trouble in [Answer::Refuse, Answer::Abort] {
        play(|| async move {
            let node = Node::start(CONFIG).await;
            let first = Rc::new(std::cell::Cell::new(true));
            let hub = Hub::at(&node, move |_| match first.replace(false) {
                true => trouble,
                false => Answer::Take,
            });
            Caller::bound(&node).await.transfer(MESSAGE).await;
            node.wait_for("relayed", 1).await;
            assert_eq!(node.count("deferred"), 1, "{trouble:?}");
            assert_eq!(hub.taken().len(), 1, "{trouble:?}");
            assert_eq!(node.count("dsn_queued"), 0);
        });
    }
}

#[test]
fn what_is_queued_goes_on_after_a_restart() {
    play(|| async {
        let node = Node::start(CONFIG).await;
        Caller::bound(&node).await.transfer(MESSAGE).await;
        let node = node.restart().await;
        let hub = Hub::at(&node, |_| Answer::Take);
        node.wait_for("relayed", 1).await;
        let (event, _) = read_whole(&hub.taken()[0], Limits::default()).expect("an APDU");
        let ApduEvent::Envelope { envelope: Ok(envelope), .. } = event else { panic!("{event:?}") };
        assert_eq!(
            envelope.trace.last().map(|visit| visit.domain.prmd.as_deref()),
            Some(Some("Ours"))
        );
    });
}

#[test]
fn what_is_deferred_waits_and_what_is_too_old_is_reported() {
    play(|| async {
        let node = Node::start(&(CONFIG.to_owned() + "[retry]\ngive_up_after = \"3h\"\n")).await;
        // Its deferred delivery time is days from now otherwise.
        let soon = |window: &[u8]| window == b"261122070000Z";
        let at = DEFERRED.windows(13).position(soon).expect("it is there");
        let mut deferred = DEFERRED.to_vec();
        deferred[at..at + 13].copy_from_slice(b"261118123000Z");
        let is_report = |apdu: &[u8]| apdu.first() == Some(&0xa1);
        let first = Rc::new(std::cell::Cell::new(None));
        let (seen, started) = (Rc::clone(&first), tokio::time::Instant::now());
        let hub = Hub::at(&node, move |apdu| match is_report(apdu) {
            true => Answer::Take,
            false => {
                seen.set(seen.get().or(Some(started.elapsed())));
                Answer::Refuse
            }
        });
        Caller::bound(&node).await.transfer(&deferred).await;
        node.wait_for("expired", 2).await;
        wait_until("a report", || !hub.taken().is_empty()).await;
        // An hour from when the world began, at 11:26:40.
        let early = Duration::from_secs(3_780);
        assert!(first.get().is_some_and(|after| after > early), "{first:?}");
        let failed = ReportType::Failed { reason: 1, diagnostic: Some(5) };
        assert_eq!(reported(&hub.taken()[0]), [(1, failed), (3, failed)]);
    });
}

#[test]
fn a_critical_extension_is_reported_and_a_probe_answered_as_if_delivered() {
    play(|| async {
        let node = Node::start(CONFIG).await;
        let hub = Hub::at(&node, |_| Answer::Take);
        Caller::bound(&node).await.transfer(CRITICAL).await;
        wait_until("a report", || !hub.taken().is_empty()).await;
        let failed = ReportType::Failed { reason: 1, diagnostic: Some(18) };
        assert_eq!(reported(&hub.taken()[0]), [(1, failed)]);
        // The report goes to TestC by the hub, what is for TestB stays here.
        let both = here()
            + "[[route]]\nor_addresses = [\"/PRMD=TestC/C=GB/\"]\nx400 = { peer = \"hub\" }\n";
        let node = node.restart_with(&both).await;
        let hub = Hub::at(&node, |_| Answer::Take);
        Caller::bound(&node).await.transfer(PROBE).await;
        // The first may come again: that it was taken was not written before the restart.
        let of_two = || hub.taken().iter().map(|apdu| reported(apdu)).find(|said| said.len() == 2);
        wait_until("another report", || of_two().is_some()).await;
        let outcomes = of_two().unwrap_or_default();
        let is_delivered =
            |(_, outcome): &(u32, ReportType)| matches!(outcome, ReportType::Delivered { .. });
        assert!(outcomes.len() == 2 && outcomes.iter().all(is_delivered), "{outcomes:?}");
    });
}

#[test]
fn what_a_rule_of_access_refuses_is_restricted_and_without_an_answer_it_waits_at_the_peer() {
    play(|| async {
        let rule =
            "[[table]]\nname = \"a\"\ninline = {}\n[[access]]\ntable = \"a\"\nby = \"helo\"\n";
        let node = Node::start(&(CONFIG.to_owned() + rule)).await;
        node.world.set_entry("a", "hub", Ok("REJECT Not from there"));
        let hub = Hub::at(&node, |_| Answer::Take);
        let mut caller = Caller::bound(&node).await;
        caller.transfer(MESSAGE).await;
        wait_until("a report", || !hub.taken().is_empty()).await;
        let restricted = ReportType::Failed { reason: 5, diagnostic: None };
        assert_eq!(reported(&hub.taken()[0]), [(1, restricted)]);
        node.world.set_entry("a", "hub", Ok("DEFER"));
        caller.offer(MESSAGE).await;
        let said = caller.event().await;
        assert_eq!(said, Event::NotTaken(ExceptionReason::TemporarilyUnable));
        node.world.set_entry("a", "hub", Ok("OK"));
        caller.transfer(MESSAGE).await;
        node.wait_for("relayed", 1).await;
        assert_eq!(hub.taken().len(), 2);
    });
}

#[test]
fn each_action_of_a_rule_is_done_or_is_a_mistake() {
    for (action, is_taken, event) in [
        ("DUNNO", true, Some("relayed")),
        ("OK", true, Some("relayed")),
        ("REJECT", true, Some("failed")),
        ("550 5.1.1 Not here", true, Some("failed")),
        ("HOLD Who is that", true, Some("held")),
        ("WARN Look at that", true, Some("relayed")),
        ("INFO Look at that", true, Some("relayed")),
        ("DEFER", false, None),
        ("450 Not now", false, None),
        ("DISCARD", false, None),
        ("REDIRECT jo@ours.test", false, None),
        ("BCC jo@ours.test", false, None),
        ("PREPEND X-One: two", false, None),
        ("FILTER smtp:x", false, None),
    ] {
        play(|| async move {
            let rule = "[[table]]\nname = \"a\"\ninline = {}\n[[access]]\ntable = \"a\"\n\
                        by = \"helo\"\n";
            let node = Node::start(&(CONFIG.to_owned() + rule)).await;
            node.world.set_entry("a", "hub", Ok(action));
            let _hub = Hub::at(&node, |_| Answer::Take);
            let mut caller = Caller::bound(&node).await;
            caller.offer(MESSAGE).await;
            let said = caller.event().await;
            assert_eq!(said == Event::Acknowledged, is_taken, "{action}: {said:?}");
            let lines = node.lines().join("\n");
            match event {
                Some(event) => node.wait_for(event, 1).await,
                // An operator reads which rule it was.
                None => assert!(lines.contains("x400"), "{action}: {lines}"),
            }
            let is_shown = action.contains("Look at that");
            assert_eq!(lines.contains("peer=hub: Look at that"), is_shown, "{action}: {lines}");
            let others = ["relayed", "failed", "held"].into_iter().filter(|it| Some(*it) != event);
            assert_eq!(others.map(|it| node.count(it)).sum::<usize>(), 0, "{action}");
        });
    }
}

/// Whether an acknowledgement was heard is known in memory only: at most one copy more comes of each restart.
#[test]
fn what_is_sent_again_unheard_is_no_second_copy_before_a_restart_and_one_after_it() {
    play(|| async {
        let mut node = Node::start(&here()).await;
        let mut copies = 0;
        for (is_restarted, more) in [(false, 0), (true, 1), (false, 0), (true, 1)] {
            if copies == 0 {
                copies = 1;
                Caller::bound(&node).await.transfer(MESSAGE).await;
                node.wait_for("received", 1).await;
            }
            let before = if is_restarted { 0 } else { node.count("received") };
            if is_restarted {
                node = node.restart().await;
            }
            // The connection of the one before broke behind its acknowledgement.
            Caller::bound(&node).await.transfer(MESSAGE).await;
            tokio::time::sleep(Duration::from_secs(60)).await;
            assert_eq!(node.count("received") - before, more, "{is_restarted}");
        }
    });
}
