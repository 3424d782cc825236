//! Opens a connection: hosts in order, their addresses, the connection, the greeting, TLS and login.

use super::content::{SmtpTransport, StreamOf};
use super::dialogue::SmtpDialogue;
use super::encrypting::{self, HostTls, Unencrypted, shake_hands};
use super::login::LoginDialogue;
use super::patience::{NEEDED, Patience, Stir};
use super::relay_of;
use super::seat::{self, Memory, Seat};
use super::source::{self, OutOfReach};
use super::tls_result::TlsResult;
use crate::smtp::smarthost::TlsStart;
use auth::tls_report::ResultType;
use mail::{Class, Culprit, EnhancedStatus, Failure, Mono, Step};
use mta::alarm::Alarm;
use mta::delivery::Slot;
use mta::event::Hop;
use mta::known_hosts::Offers;
use mta::lack;
use mta::line::Permit;
#[cfg(feature = "planted")]
use mta::planted::Planted;
use mta::routing::addresses::{PER_HOST_MAX, is_private, scattered};
use mta::routing::hop::NextHop;
use mta::routing::hosts;
use mta::routing::hosts::{Candidate, Host};
use mta::seams::{Encryption, Endpoint, Net, Stream, Time, World};
use smtp::client::{ClientEvent, ClientSession};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of addresses tried per opening, so that a domain with dead hosts costs little time.
const ADDRESSES_MAX: usize = 8;
/// Time for which a connection to a less preferred host is used. After that, the preferred ones may work again.
const BACKUP_FOR: Duration = Duration::from_secs(60);

/// Reason for which no connection was opened.
pub(super) enum OpenError {
    /// Temporary.
    Later(Failure),
    /// Permanent: all hosts, or the DNS, refuse mail for good.
    Never(Failure),
    /// Its messages were delivered or moved while it waited for a connection.
    NotNeeded,
}

/// A connection to a host after its greeting.
pub(super) struct Opened<W: World> {
    pub(super) dialogue: SmtpDialogue<W>,
    pub(super) event_hop: Arc<Hop>,
    pub(super) peer: Endpoint,
    /// TLS authenticated the host.
    pub(super) is_authenticated: bool,
    /// Time after which it carries no further message.
    pub(super) leave_at: Mono,
    /// It carries one message only, because a host of the same preference was skipped for that message.
    pub(super) is_detour: bool,
    /// All addresses of its host.
    pub(super) addresses: Rc<[Endpoint]>,
    /// Counts the connection at its host.
    pub(super) seat: Seat<W::Time>,
    /// Permit for a connection of the process.
    pub(super) permit: Permit,
    /// TLS result for reports, if the session counts.
    pub(super) tls_result: Option<Box<TlsResult>>,
}

/// Failures of an opening so far.
#[derive(Default)]
struct Tried {
    addresses: usize,
    later: Option<Failure>,
    never: Option<Failure>,
    out_of_reach: Option<OutOfReach>,
}

/// Reason for which a host is not used.
enum HostError {
    Failed(Failure),
    /// Not reachable from the source of the mail.
    OutOfReach(OutOfReach),
}

impl From<Failure> for HostError {
    fn from(failure: Failure) -> HostError {
        HostError::Failed(failure)
    }
}

impl From<OutOfReach> for HostError {
    fn from(why: OutOfReach) -> HostError {
        HostError::OutOfReach(why)
    }
}

impl Tried {
    /// The error of the opening. It is temporary if any host may work later. A host's failure takes precedence over
    /// unreachable address families.
    fn error<W: World>(self, slot: &Slot<W>, hop: &NextHop) -> OpenError {
        if let (Some(why), None) = (&self.out_of_reach, &self.later) {
            if self.never.is_none() {
                why.note(slot, hop);
            }
            return OpenError::Later(why.failure(hop));
        }
        match (self.later, self.never) {
            (None, Some(failure)) => OpenError::Never(failure),
            (later, _) => OpenError::Later(later.unwrap_or_else(no_hosts)),
        }
    }

    fn take(&mut self, failure: Failure, is_final: bool) {
        match is_final {
            true => self.never = Some(failure),
            false => self.later = Some(failure),
        }
    }
}

/// Opens a connection to the first host that can be reached and greets.
///
/// # Errors
/// The failure of the last host tried; temporary failures take precedence.
pub(super) async fn open<W: World>(
    slot: &Slot<W>,
    hop: &Rc<NextHop>,
) -> Result<Opened<W>, OpenError> {
    let mut tried = Tried::default();
    let refusals = &hop.memory::<Memory>().refusals;
    for candidate in hop.states.order(slot.now(), &hop.hosts, || slot.world().time().random()) {
        match open_host(slot, hop, &candidate, &mut tried).await {
            Ok(Some(connection)) => return Ok(connection),
            Ok(None) => return Err(OpenError::NotNeeded),
            Err(HostError::OutOfReach(why)) => tried.out_of_reach = Some(why),
            Err(HostError::Failed(mut failure)) => {
                let loops = hosts::is_loop(&failure);
                let is_heard = slot.heard_opening(&mut failure);
                let is_final = refusals.is_final(slot.now(), &candidate.host, &failure);
                tried.take(failure, is_final && !is_heard);
                if loops {
                    // RFC 5321 §5.1: hosts with a lower preference than this server's are not tried.
                    break;
                }
            }
        }
    }
    Err(tried.error(slot, hop))
}

/// Opens a connection to one host. A host that fails is tried after the other hosts from then on. `None`: the
/// connection is not needed any more.
async fn open_host<W: World>(
    slot: &Slot<W>,
    hop: &Rc<NextHop>,
    candidate: &Candidate,
    tried: &mut Tried,
) -> Result<Option<Opened<W>>, HostError> {
    let opened = reach_host(slot, hop, candidate, tried).await;
    // Local exhaustion does not count against a host.
    let is_ours = |failure: &Failure| matches!(failure.culprit, Culprit::Local);
    match &opened {
        Ok(_) => {}
        Err(HostError::Failed(failure)) if is_ours(failure) => {}
        Err(HostError::Failed(_) | HostError::OutOfReach(_)) => {
            hop.states.failed(slot.now(), &candidate.host);
        }
    }
    opened
}

/// Connects to one of the host's addresses.
async fn reach_host<W: World>(
    slot: &Slot<W>,
    hop: &Rc<NextHop>,
    candidate: &Candidate,
    tried: &mut Tried,
) -> Result<Option<Opened<W>>, HostError> {
    let (host, states) = (&candidate.host, &hop.states);
    let tls = encrypting::host_tls(slot, hop, host).await?;
    let found = endpoints(slot, hop, host).await.map_err(|failure| tls.doubted(failure))?;
    let found = source::reached(hop, found)?;
    let failed = &hop.memory::<Memory>().addresses;
    let found: Rc<[Endpoint]> = failed.order(slot.now(), found).into();
    let (mut last, mut of_host) = (None, 0);
    for peer in found.iter() {
        if tried.addresses == ADDRESSES_MAX || of_host == PER_HOST_MAX {
            break;
        }
        if let Endpoint::Tcp(peer) = peer
            && !states.has_route(slot.now(), host, peer.ip())
        {
            continue;
        }
        tried.addresses += 1;
        of_host += 1;
        match open_endpoint(slot, hop, (candidate, &tls), (peer, &found)).await {
            Ok(opened) => return Ok(opened),
            Err(failure) => {
                if !matches!(failure.culprit, Culprit::Local) {
                    failed.failed(slot.now(), peer);
                }
                last = Some(tls.named(slot.metrics(), failure));
            }
        }
    }
    Err(HostError::Failed(last.unwrap_or_else(|| {
        let name = format!("{}:{}", host.name, host.port);
        let text = "no route to the host's addresses";
        Failure::network(name, EnhancedStatus::new(4, 4, 1), text)
    })))
}

fn no_hosts() -> Failure {
    let status = EnhancedStatus::new(4, 4, 4);
    Failure::local(Class::Transient, status, "the next hop has no hosts")
}

/// The socket of a host, or its addresses in the order to try.
async fn endpoints<W: World>(
    slot: &Slot<W>,
    hop: &NextHop,
    host: &Host,
) -> Result<Vec<Endpoint>, Failure> {
    if let Some(path) = host.socket() {
        return Ok(vec![Endpoint::Unix(Arc::from(path))]);
    }
    let found = addresses(slot, hop, host).await?;
    Ok(found.into_iter().map(|ip| Endpoint::Tcp(SocketAddr::new(ip, host.port))).collect())
}

/// The addresses of a host, in the order to try.
async fn addresses<W: World>(
    slot: &Slot<W>,
    hop: &NextHop,
    host: &Host,
) -> Result<Vec<IpAddr>, Failure> {
    let refuse_private = relay_of(hop).refuse_private;
    if let Ok(ip) = host.name.parse::<IpAddr>() {
        // An address literal (RFC 5321 §4.1.3), or a host configured by address.
        return public_only(vec![ip], refuse_private, host);
    }
    let found = scattered(slot.addresses(host).await?, || slot.world().time().random());
    public_only(found, refuse_private, host)
}

fn public_only(
    mut addresses: Vec<IpAddr>,
    refuse_private: bool,
    host: &Host,
) -> Result<Vec<IpAddr>, Failure> {
    if refuse_private {
        addresses.retain(|ip| !is_private(*ip));
    }
    if addresses.is_empty() {
        let text = "the host has only private addresses, which this route rejects";
        return Err(Failure::dns(Class::Permanent, &host.name, EnhancedStatus::new(5, 4, 4), text));
    }
    Ok(addresses)
}

/// Connects once a connection is granted.
///
/// # Errors
/// The network error of this address.
async fn connect<W: World>(
    slot: &Slot<W>,
    (host, peer): (&Host, &Endpoint),
    alarm: &mut Alarm<W::Time>,
) -> std::io::Result<Option<(StreamOf<W>, Permit)>> {
    let (time, wait) = (slot.world().time(), relay_of(slot.hop()).peer.connect_timeout.get());
    loop {
        let Some(mut permit) = slot.connection(&host.name, peer).await else { return Ok(None) };
        let mut patience = Patience::of_opening(slot, Stir::new(time.now()));
        let until = time.now() + wait;
        let connecting = slot.world().net().connect(peer, source::of(slot.hop(), peer));
        let connecting = alarm.within(|_| until, connecting);
        let connected = patience.wait(slot, &mut permit, connecting).await;
        match connected {
            _ if patience.was_hasty() => continue,
            Some(None) => slot.note_silence(&mut permit),
            _ => {}
        }
        match connected.flatten().unwrap_or_else(|| Err(std::io::ErrorKind::TimedOut.into())) {
            Ok(stream) => return Ok(Some((stream, permit))),
            // Local exhaustion: the peer was not contacted.
            Err(error) if lack::is_ours(&error) => {
                drop(permit);
                alarm.wait(time.now() + lack::WAIT).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Failure of a connection before the host was ready for mail.
struct NoGreeting {
    failure: Failure,
    /// STARTTLS failed, and the session may work in clear.
    is_of_tls: bool,
    /// The connection was closed early for a next hop that waited, and is tried once more.
    was_hasty: bool,
    /// Result type for TLS reports, if the failure counts.
    result: Option<ResultType>,
}

impl From<Failure> for NoGreeting {
    fn from(failure: Failure) -> NoGreeting {
        NoGreeting { failure, is_of_tls: false, was_hasty: false, result: None }
    }
}

impl NoGreeting {
    /// RFC 3463 §3.5: 4.4.2, bad connection.
    fn silent<W: World>(name: &str, patience: &Patience<W>) -> NoGreeting {
        let failure = Failure::network(name, EnhancedStatus::new(4, 4, 2), NEEDED);
        NoGreeting { was_hasty: patience.was_hasty(), ..failure.into() }
    }
}

impl From<Unencrypted> for NoGreeting {
    fn from(Unencrypted { failure, result }: Unencrypted) -> NoGreeting {
        // Local exhaustion is not a TLS failure of the host, and no reason to send in clear.
        NoGreeting { is_of_tls: result.is_some(), result, ..failure.into() }
    }
}

async fn open_endpoint<W: World>(
    slot: &Slot<W>,
    hop: &Rc<NextHop>,
    (candidate, tls): (&Candidate, &HostTls),
    (peer, all): (&Endpoint, &Rc<[Endpoint]>),
) -> Result<Option<Opened<W>>, Failure> {
    let mut opened = open_once(slot, hop, (candidate, tls), (peer, all)).await;
    if opened.as_ref().is_err_and(|why| why.was_hasty) {
        opened = open_once(slot, hop, (candidate, tls), (peer, all)).await;
    }
    match opened {
        Ok(opened) => Ok(opened),
        Err(why) if why.is_of_tls && tls.goes_on_in_clear(slot, hop, (&candidate.host, peer)) => {
            let again = open_once(slot, hop, (candidate, tls), (peer, all)).await;
            again.map_err(|why| why.failure)
        }
        Err(why) => Err(why.failure),
    }
}

/// The failure of an address that can't be connected to.
fn unconnected<W: World>(
    slot: &Slot<W>,
    hop: &NextHop,
    (host, peer): (&Host, &Endpoint),
    error: &std::io::Error,
) -> Failure {
    if let Some(failure) = source::failed(slot, hop, error) {
        return failure;
    }
    if let Endpoint::Tcp(peer) = peer
        && seat::is_no_route(error)
    {
        hop.states.no_route(slot.now(), host, peer.ip());
    }
    let (name, text) = (peer_name(host, peer), format!("cannot connect: {error}"));
    Failure::network(name, EnhancedStatus::new(4, 4, 1), text)
}

async fn open_once<W: World>(
    slot: &Slot<W>,
    hop: &Rc<NextHop>,
    (candidate, tls): (&Candidate, &HostTls),
    (peer, all): (&Endpoint, &Rc<[Endpoint]>),
) -> Result<Option<Opened<W>>, NoGreeting> {
    let host = &candidate.host;
    let name = peer_name(host, peer);
    let mut alarm = Alarm::new(slot.world().time().clone());
    let connected = connect(slot, (host, peer), &mut alarm).await;
    let connected = connected.map_err(|error| unconnected(slot, hop, (host, peer), &error))?;
    let Some((stream, mut permit)) = connected else { return Ok(None) };
    let stir = Stir::new(slot.now());
    let mut patience = Patience::of_opening(slot, Rc::clone(&stir));
    if let Endpoint::Tcp(peer) = peer
        && hosts::is_here(&slot.config(), stream.local_addr().ok(), *peer)
    {
        return Err(tls.doubted(hosts::loops(&name)).into());
    }
    let (mut stream, mut encryption, relay) = (stream, None, relay_of(hop));
    if relay.smarthost.tls_start == TlsStart::Implicit {
        let until = slot.now() + relay.peer.command_timeout.get();
        let names = (&*host.name, &*name);
        let shaking = shake_hands(slot, tls, names, stream, (&mut alarm, until));
        let shaken = patience.wait(slot, &mut permit, shaking).await;
        let shaken = shaken.ok_or_else(|| NoGreeting::silent(&name, &patience))?;
        let shaken = shaken.map_err(|why| why.failure)?;
        (stream, encryption) = (shaken.0, Some(shaken.1));
    }
    let trial = tls.trial(slot, hop, (host, peer), &stream);
    let session = session(slot, hop, (peer, tls), &name);
    stir.note(slot.now());
    let transcript = Rc::default();
    let wire = SmtpTransport { stream, session, alarm };
    let dialogue = SmtpDialogue::new(wire, stir, Rc::clone(&transcript));
    let greeting = greeted(slot, (hop, tls), dialogue, (host, peer, &name));
    let greeted = patience.wait(slot, &mut permit, greeting).await;
    let greeted = greeted.unwrap_or_else(|| Err(NoGreeting::silent(&name, &patience)));
    if let (Some(trial), Err(NoGreeting { failure, result: Some(result), .. })) = (&trial, &greeted)
    {
        trial.failed(slot, *result, failure);
    }
    if greeted.is_err() {
        slot.keep_dialogue(|next_hop, at| transcript.borrow().dialogue(next_hop, &name, at));
    }
    let (dialogue, encrypted) = greeted?;
    let encryption = encrypted.or(encryption);
    let is_unfit = tls.has_unusable_records();
    let tls_result =
        trial.map(|trial| Box::new(trial.opened(is_unfit, &dialogue.wire.session, encryption)));
    note_shown(slot, hop, (host, peer), (&dialogue.wire.session, encryption.is_some()));
    let seat = Seat::take(slot.world().time().clone(), hop, host);
    Ok(Some(Opened {
        dialogue,
        event_hop: hop.event_hop(&name, encryption, encryption.map(|_| tls.policy())),
        is_authenticated: encryption.is_some() && tls.authenticates(),
        peer: peer.clone(),
        leave_at: match candidate.is_backup {
            true => slot.now() + BACKUP_FOR,
            false => Mono::NEVER,
        },
        is_detour: candidate.is_detour,
        addresses: Rc::clone(all),
        seat,
        permit,
        tls_result,
    }))
}

/// A session with a connected host.
fn session<W: World>(
    slot: &Slot<W>,
    hop: &Rc<NextHop>,
    (peer, tls): (&Endpoint, &HostTls),
    name: &str,
) -> ClientSession {
    let mut config = relay_of(hop).client_config(&hop.hostname, name);
    config.starttls = tls.asks(slot, hop, peer);
    config.chunking &= !hop.memory::<Memory>().lessons.is_bdat_unusable(slot.now(), peer);
    #[cfg(feature = "planted")]
    if slot.has_planted(Planted::UnaskedContent) {
        config.unasked_content = true;
    }
    let session = ClientSession::new(Arc::new(config), slot.now());
    #[cfg(feature = "planted")]
    let session = planted(slot, session);
    session
}

/// Waits until the host has greeted, and checks that it is not this server. Starts TLS and logs in as needed.
async fn greeted<W: World>(
    slot: &Slot<W>,
    (hop, tls): (&NextHop, &HostTls),
    mut dialogue: SmtpDialogue<W>,
    (host, peer, name): (&Host, &Endpoint, &str),
) -> Result<(SmtpDialogue<W>, Option<Encryption>), NoGreeting> {
    // Hosts named in the configuration may share one name.
    let by_mx = relay_of(hop).is_by_mx();
    let (mut encryption, mut login) = (None, LoginDialogue::default());
    loop {
        match dialogue.next_event(slot).await {
            ClientEvent::Ready => {
                let greeted_as = dialogue.wire.session.peer_name();
                if by_mx && hosts::is_our_name(&slot.config(), greeted_as) {
                    return Err(hosts::loops(name).into());
                }
                if !is_encrypted(&dialogue.wire.session, encryption)
                    && let Some(failure) = tls.lost(slot, hop, (host, peer))
                {
                    dialogue.quit(slot).await;
                    return Err(failure.into());
                }
                if tls.is_demanded() && !dialogue.wire.session.capabilities().require_tls {
                    let failure = dialogue.wire.session.lacks_require_tls();
                    note_offers(slot, host, &dialogue.wire.session);
                    dialogue.quit(slot).await;
                    return Err(failure.into());
                }
                return Ok((dialogue, encryption));
            }
            ClientEvent::Closed(failure) => {
                let session = &dialogue.wire.session;
                return Err(ungreeted(slot, (hop, tls), (session, encryption), (host, failure)));
            }
            ClientEvent::StartTls => {
                let names = (&*host.name, name);
                let encrypted = encrypting::encrypt(slot, tls, names, dialogue).await?;
                (dialogue, encryption) = (encrypted.0, Some(encrypted.1));
            }
            ClientEvent::Login => {
                if let Some(terms) = &relay_of(hop).smarthost.login {
                    login.begin(slot, terms, (&mut dialogue, host, name)).await;
                }
            }
            ClientEvent::Challenge(challenge) => {
                login.answer(slot, challenge, (&mut dialogue, name)).await;
            }
            ClientEvent::LoggedIn => login.conclude(slot, (&mut dialogue, name)),
            // No transaction has started.
            ClientEvent::Done { .. } => {}
        }
    }
}

/// The failure of a session that ended before the host was ready for mail.
fn ungreeted<W: World>(
    slot: &Slot<W>,
    (hop, tls): (&NextHop, &HostTls),
    (session, encryption): (&ClientSession, Option<Encryption>),
    (host, failure): (&Host, Option<Failure>),
) -> NoGreeting {
    let failure = failure.unwrap_or_else(no_hosts);
    note_refused(hop, &failure);
    if session.is_starttls_broken() {
        slot.metrics().tls_connections_failed.inc();
        let result = Some(ResultType::ValidationFailure);
        return NoGreeting { is_of_tls: true, result, ..failure.into() };
    }
    if encryption.is_some() {
        return failure.into();
    }
    if failure.reply.is_none() && failure.status.subject == 7 {
        // No STARTTLS, and therefore no REQUIRETLS.
        note_offers(slot, host, session);
    }
    let result = tls.result_of(&failure);
    let failure = tls.unencrypted(failure);
    NoGreeting { result, ..failure.into() }
}

fn is_encrypted(session: &ClientSession, encryption: Option<Encryption>) -> bool {
    encryption.is_some() || session.is_encrypted()
}

/// Records the capabilities that a host has shown in its greeting.
fn note_shown<W: World>(
    slot: &Slot<W>,
    hop: &NextHop,
    (host, peer): (&Host, &Endpoint),
    (session, is_encrypted): (&ClientSession, bool),
) {
    let (now, known) = (slot.now(), slot.known_hosts());
    let memory = hop.memory::<Memory>();
    memory.refusals.greeted(host);
    if is_encrypted {
        memory.tls.succeeded(peer);
        known.note_encrypted(now, &host.name, host.port);
    }
    note_offers(slot, host, session);
}

/// Records a host's offers, unless the session is a lesser one.
pub(super) fn note_offers<W: World>(slot: &Slot<W>, host: &Host, session: &ClientSession) {
    if session.lesser().is_some() {
        return;
    }
    let offered = session.capabilities();
    let offers = Offers {
        size_max: offered.size.filter(|max| *max > 0),
        eight_bit_mime: offered.eight_bit_mime,
        smtputf8: offered.smtputf8,
        require_tls: offered.require_tls,
    };
    slot.known_hosts().note_offers(slot.now(), &host.name, host.port, offers);
}

/// A rejected login may mean that the secret has expired.
fn note_refused(hop: &NextHop, failure: &Failure) {
    if failure.step == Some(Step::Auth)
        && failure.reply.as_ref().is_some_and(|reply| reply.code == 535)
        && let Some(secret) = hop.channel.secret_file()
    {
        secret.note_refused();
    }
}

#[cfg(feature = "planted")]
fn planted<W: World>(slot: &Slot<W>, mut session: ClientSession) -> ClientSession {
    if slot.has_planted(Planted::ReuseAfterProtocolError) {
        session.plant_forgiveness();
    }
    session
}

/// `mx.example.com[192.0.2.1]:25`; the address alone for a host without a name; or the path of a socket.
fn peer_name(host: &Host, peer: &Endpoint) -> Box<str> {
    let Endpoint::Tcp(peer) = peer else { return Box::from(&*host.name) };
    if host.name.parse::<IpAddr>().is_ok() {
        peer.to_string().into()
    } else {
        format!("{}[{}]:{}", host.name, peer.ip(), peer.port()).into()
    }
}
