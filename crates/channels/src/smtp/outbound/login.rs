//! Login to a host (RFC 4954): choice of the mechanism, and the exchange.

use super::dialogue::SmtpDialogue;
use crate::smtp::smarthost_login::{Identity, Login, credentials_of};
use auth::sasl::client::{Credentials, Exchange, Mechanism, ServerMessageError};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use config::TableEntry;
use lookup::Requester;
use mail::{Class, Culprit, EnhancedStatus, Failure, Mailbox};
use mta::delivery::Slot;
use mta::routing::hosts::Host;
use mta::seams::{Hashed, Hashing as _, Lane, World};
use mta::tables::{self, KeyRules, LookupKey};
use std::sync::Arc;
use zeroize::Zeroizing;

/// A login on one connection.
#[derive(Debug, Default)]
pub(super) struct LoginDialogue {
    under_way: Option<(Mechanism, Exchange)>,
}

impl LoginDialogue {
    /// Starts the login to a host. `name` is the peer in failures.
    pub(super) async fn begin<W: World>(
        &mut self,
        slot: &Slot<W>,
        login: &Login,
        (dialogue, host, name): (&mut SmtpDialogue<W>, &Host, &str),
    ) {
        // // The session has no reply timeout while these are loaded.
        let credentials = credentials(slot, login, host).await;
        let session = &mut dialogue.wire.session;
        let offered: Vec<String> =
            session.login_mechanisms().map(str::to_ascii_uppercase).collect();
        let chosen = choose(&login.mechanisms, &offered, name);
        let prepared = chosen.and_then(|mechanism| Ok((mechanism, credentials?)));
        match prepared {
            Ok((mechanism, credentials)) => {
                let nonce = || STANDARD_NO_PAD.encode(slot.world().hashing().secret());
                let (exchange, initial) = Exchange::new(mechanism, &credentials, nonce);
                let initial = initial.as_ref().map(|bytes| &bytes[..]);
                session.log_in(slot.now(), mechanism.name(), initial);
                self.under_way = Some((mechanism, exchange));
            }
            Err(failure) => session.give_up_login(slot.now(), failure, false),
        }
    }

    /// Answers a challenge of the host.
    pub(super) async fn answer<W: World>(
        &mut self,
        slot: &Slot<W>,
        challenge: Vec<u8>,
        (dialogue, name): (&mut SmtpDialogue<W>, &str),
    ) {
        let answered = match self.under_way.take() {
            Some((mechanism, exchange)) => {
                answered(slot, mechanism, exchange, challenge).await.map(|(exchange, response)| {
                    self.under_way = Some((mechanism, exchange));
                    response
                })
            }
            None => Err(Ended::Wrong(ServerMessageError::Unexpected)),
        };
        let session = &mut dialogue.wire.session;
        match answered {
            Ok(response) => session.respond(slot.now(), &response),
            Err(why) => session.give_up_login(slot.now(), why.failure(name), true),
        }
    }

    /// The host accepted the login.
    pub(super) fn conclude<W: World>(
        &mut self,
        slot: &Slot<W>,
        (dialogue, name): (&mut SmtpDialogue<W>, &str),
    ) {
        let proved = match self.under_way.take() {
            Some((_, exchange)) => exchange.handle_success(),
            None => Err(ServerMessageError::Unexpected),
        };
        let session = &mut dialogue.wire.session;
        match proved {
            Ok(()) => session.handle_logged_in(slot.now()),
            Err(wrong) => {
                session.give_up_login(slot.now(), Ended::Wrong(wrong).failure(name), false);
            }
        }
    }
}

/// Reason for which an exchange ends.
enum Ended {
    Wrong(ServerMessageError),
    /// Too many passwords wait to be hashed.
    Overloaded,
}

impl Ended {
    fn failure(self, name: &str) -> Failure {
        match self {
            // RFC 3463 §3.8: X.7.0, other security status.
            Ended::Wrong(wrong) => of_host(name, 0, format!("authentication: the host {wrong}")),
            Ended::Overloaded => {
                let status = EnhancedStatus::new(4, 3, 2);
                Failure::local(Class::Transient, status, "too many passwords wait for hashing")
            }
        }
    }
}

async fn answered<W: World>(
    slot: &Slot<W>,
    mechanism: Mechanism,
    mut exchange: Exchange,
    challenge: Vec<u8>,
) -> Result<(Exchange, Zeroizing<Vec<u8>>), Ended> {
    let answer = move || {
        let response = exchange.handle_challenge(&challenge);
        response.map(|response| (exchange, response))
    };
    let answered = match mechanism {
        // SCRAM hashes the password thousands of times, which must not block the shard.
        Mechanism::ScramSha256 => {
            let hashing = slot.world().hashing();
            let of = (Lane::Known, Requester::Ours);
            let done = hashing.run(of, move || Hashed {
                answer: answer(),
                is_wasted: false,
                has_failed: false,
            });
            let done = done.await;
            done.map_err(|_| Ended::Overloaded)?
        }
        _ => answer(),
    };
    answered.map_err(Ended::Wrong)
}

/// The strongest mechanism that is permitted and offered. RFC 3463 §3.8: X.7.4, security features not supported.
fn choose(allowed: &[Mechanism], offered: &[String], name: &str) -> Result<Mechanism, Failure> {
    let is_offered = |mechanism: &&Mechanism| offered.iter().any(|word| word == mechanism.name());
    if let Some(mechanism) = allowed.iter().find(is_offered) {
        return Ok(*mechanism);
    }
    let names: Vec<&str> = allowed.iter().map(|mechanism| mechanism.name()).collect();
    let has = match offered {
        [] => "no AUTH".to_owned(),
        words => format!("only AUTH {}", words.join(", ")),
    };
    let text = format!("the host offers {has}, the route allows {}", names.join(", "));
    Err(of_host(name, 4, text))
}

/// Credentials for a host, with the secret read from its source now. RFC 3463 §3.4: X.3.5, system incorrectly
/// configured.
async fn credentials<W: World>(
    slot: &Slot<W>,
    login: &Login,
    host: &Host,
) -> Result<Credentials, Failure> {
    let failure =
        |text: String| Failure::local(Class::Transient, EnhancedStatus::new(4, 3, 5), text);
    let (user, secret) = match &login.identity {
        Identity::User { user, secret } => (user, secret),
        Identity::Table(table, _) => {
            let found = found(slot, table, host).await;
            return found
                .map_err(|why| failure(format!("no credentials: table {}: {why}", table.name)));
        }
    };
    let wrong =
        |why: &str| failure(format!("no credentials for {user}: {}: {why}", secret.source()));
    let said = secret.secret().map_err(|why| wrong(&why))?;
    Credentials::new(user, &said.0)
        .ok_or_else(|| wrong("the secret cannot be sent in an AUTH exchange"))
}

/// Credentials in a table: for the sender of the connection's mail, if it has one, then for the host. The host's name is
/// looked up with its port first, and also in brackets, as Postfix has hosts without MX lookup.
async fn found<W: World>(
    slot: &Slot<W>,
    table: &Arc<TableEntry>,
    host: &Host,
) -> Result<Credentials, String> {
    let name = host.name.to_ascii_lowercase();
    let sender = slot.hop().sender.as_deref();
    let address = sender.and_then(|sender| Mailbox::parse(sender, true).ok());
    let of_sender =
        address.map(|address| tables::keys_of(&address, KeyRules::of(table))).unwrap_or_default();
    let of_host = [
        config::host_text(&name, host.port),
        format!("[{name}]:{}", host.port),
        format!("[{name}]"),
        name,
    ];
    let of_sender = of_sender.into_iter().map(|(_, key)| key);
    let keys = of_sender.chain(of_host.into_iter().map(LookupKey::from)).collect();
    let found = tables::find_first(&slot.world().tables(Requester::Ours), table, keys).get().await;
    let found = found.map_err(|trouble| trouble.to_string())?;
    let found = found.ok_or_else(|| match sender {
        Some(sender) => format!("no entry for <{sender}> or {}", host.name),
        None => format!("no entry for {}", host.name),
    })?;
    credentials_of(&found.entry).map_err(|why| format!("{}: {why}", found.key))
}

fn of_host(name: &str, detail: u16, text: String) -> Failure {
    Failure {
        class: Class::Transient,
        culprit: Culprit::Peer(Box::from(name)),
        status: EnhancedStatus::new(4, 7, detail),
        reply: None,
        heard: None,
        step: None,
        text: text.into(),
    }
}
