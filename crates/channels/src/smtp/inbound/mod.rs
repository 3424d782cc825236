//! SMTP listeners: servers (RFC 5321) and submission by users (RFC 6409).

mod connection;
mod local;
mod local_users;
mod login;
mod session;
mod settings;
mod submission;
mod xclient;

use crate::originate::{self, FieldRules};
use config::{Config, Listener, ListenerTls, ProtocolSection};
pub(crate) use local::LocalText;
use local_users::LocalUsers;
use mail::{Refusal, RefusalClass, Reply, Wall};
use mta::console::Console;
use mta::ingress::{Connection, Handler, Protocol, Stage};
use mta::pressure::Pressures;
use mta::seams::{Net, Task, World};
use session::SmtpSession;
pub(crate) use settings::SmtpListenerText;
use settings::{SmtpListener, Submission};
use smtp::server::{BareNewline, ServerConfig};
use smtp::wishes::HoldMax;
use std::any::Any;
use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
pub(crate) use submission::SubmissionText;

/// SMTP listener protocols: from servers (RFC 5321), from users (RFC 6409), and from programs of this machine.
pub(crate) struct Inbound(&'static str);

impl Inbound {
    pub(crate) const SMTP: Inbound = Inbound(SmtpListenerText::KIND);
    pub(crate) const SUBMISSION: Inbound = Inbound(SubmissionText::KIND);
    pub(crate) const LOCAL: Inbound = Inbound(LocalText::KIND);
}

impl<W: World> Protocol<W> for Inbound {
    fn name(&self) -> &'static str {
        self.0
    }

    fn handler(
        &self,
        config: &Config,
        listener: &Arc<Listener>,
        _pools: &Pressures,
    ) -> Rc<dyn Handler<W>> {
        // Always `Some`: listeners of this kind are created by this protocol's section.
        let told = listener.protocol.of::<SmtpListener>();
        let server = ServerConfig {
            hostname: config.hostname.to_string(),
            message_bytes_max: listener.max_message_bytes,
            recipients_max: listener.max_recipients as usize,
            starttls: listener.tls == ListenerTls::StartTls,
            ..told.map(|told| told.server.clone()).unwrap_or_default()
        };
        // A client that may request DSNs makes this server send them to a reverse-path that it can forge, one for each
        // recipient (RFC 3461 §10.1). So DSN is not offered to clients that may not relay. A submission listener
        // accepts no mail from them, and may offer all extensions.
        let submission = told.and_then(|told| told.submission.clone());
        let stranger = match submission {
            Some(_) => server.clone(),
            None => ServerConfig {
                is_lenient: false,
                origin: None,
                bare_newline: match told.is_some_and(|told| told.normalizes_all) {
                    true => BareNewline::Normalize,
                    false => BareNewline::Reject,
                },
                dsn: false,
                mt_priority: false,
                deliver_by: false,
                future_release: None,
                ..server.clone()
            },
        };
        Rc::new(Settings {
            server: Dated::new(server),
            stranger: Dated::new(stranger),
            greeting_delay: told.map_or(Duration::ZERO, |told| told.greeting_delay),
            listener: Arc::clone(listener),
            submission,
            local: told.and_then(|told| told.local.clone()),
            fields: told.map(|told| told.fields.clone()).unwrap_or_default(),
        })
    }
}

/// Offers of the listener that are available now.
#[derive(Clone, Copy, Debug)]
struct Can {
    /// A certificate is loaded.
    encrypt: bool,
    /// Some next hop may accept mail with REQUIRETLS.
    require_tls: bool,
}

/// Settings of a listener's sessions.
#[derive(Debug)]
struct Settings {
    /// For clients that may relay.
    server: Dated,
    /// For clients that may not relay.
    stranger: Dated,
    /// For clients that may not relay.
    greeting_delay: Duration,
    listener: Arc<Listener>,
    /// `None` if the listener has no logins.
    submission: Option<Arc<Submission>>,
    /// `None` if clients have addresses.
    local: Option<Arc<LocalUsers>>,
    fields: FieldRules,
}

impl<W: World> Handler<W> for Settings {
    fn stages(&self, config: &Config, world: &W, console: &Rc<dyn Console>) -> Vec<Rc<dyn Stage>> {
        let of_users = self.submission.as_ref().map(|submission| &submission.senders);
        let senders = of_users.or(self.local.as_ref().map(|local| &local.senders));
        originate::stages((senders, &self.fields), config, world, console)
    }

    fn into_any(self: Rc<Self>) -> Rc<dyn Any> {
        self
    }

    fn serve(self: Rc<Self>, connection: Connection<W>, stream: <W::Net as Net>::Stream) -> Task {
        // Boxed, so that moving the task does not move the session.
        let mut session = Box::new(SmtpSession::new(self, connection, stream));
        Box::pin(async move { session.run().await })
    }
}

impl Settings {
    /// Time for which a client is watched before it is greeted (early-talker detection).
    fn greeting_delay(&self, client: IpAddr) -> Duration {
        let listener = &self.listener;
        match listener.relay_network(client).is_some() || listener.is_exempt(client) {
            true => Duration::ZERO,
            false => self.greeting_delay,
        }
    }

    /// Server settings of a session with a client.
    fn server(&self, may_relay: bool, can: Can, now: Wall) -> Arc<ServerConfig> {
        let server = if may_relay { &self.server } else { &self.stranger };
        let server = server.at(now);
        let Can { encrypt, require_tls } = can;
        if server.starttls && !encrypt || server.require_tls && !require_tls {
            return Arc::new(ServerConfig {
                starttls: server.starttls && encrypt,
                require_tls: server.require_tls && require_tls,
                ..ServerConfig::clone(&server)
            });
        }
        server
    }
}

/// Time for which dated settings stay the same.
const HOUR_MS: u64 = 3_600_000;

/// Settings of sessions, rebuilt every hour if they contain a time of day.
#[derive(Debug)]
struct Dated {
    undated: Arc<ServerConfig>,
    /// The last hour asked about, and its settings.
    last: RefCell<(u64, Arc<ServerConfig>)>,
}

impl Dated {
    fn new(server: ServerConfig) -> Dated {
        let undated = Arc::new(server);
        Dated { last: RefCell::new((0, Arc::clone(&undated))), undated }
    }

    /// This server's name.
    fn hostname(&self) -> &str {
        &self.undated.hostname
    }

    /// The settings at this time.
    fn at(&self, now: Wall) -> Arc<ServerConfig> {
        let Some(HoldMax { interval, .. }) = self.undated.future_release else {
            return Arc::clone(&self.undated);
        };
        let hour = now.0 / HOUR_MS;
        let mut last = self.last.borrow_mut();
        if last.0 != hour {
            let until = Wall(hour * HOUR_MS).after(interval);
            let future_release = Some(HoldMax { interval, until });
            let server = ServerConfig { future_release, ..ServerConfig::clone(&self.undated) };
            *last = (hour, Arc::new(server));
        }
        Arc::clone(&last.1)
    }
}

/// The greeting of a refused session (RFC 5321 §3.1).
fn greeting(host: &str, refusal: Refusal) -> Reply {
    if refusal.class != RefusalClass::Permanent {
        return last_words(host, refusal);
    }
    let text = format!("{host} {}", refusal.text).into();
    Reply { code: 554, enhanced: Some(refusal.status), text }
}

/// The reply that ends a session. RFC 5321 §4.2.2: the text of 421 begins with the host's name.
fn last_words(host: &str, refusal: Refusal) -> Reply {
    let reply = Reply::from(refusal.closing());
    Reply { text: format!("{host} {}", reply.text).into(), ..reply }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_end_moves_with_the_hours() {
        let interval = Duration::from_secs(60);
        let future_release = Some(HoldMax { interval, until: Wall(0) });
        let dated = Dated::new(ServerConfig { future_release, ..ServerConfig::default() });
        let until = |now| dated.at(Wall(now)).future_release.map(|max| max.until.0);
        assert_eq!(until(HOUR_MS), Some(HOUR_MS + 60_000));
        assert_eq!(until(2 * HOUR_MS - 1), Some(HOUR_MS + 60_000));
        assert_eq!(until(2 * HOUR_MS), Some(2 * HOUR_MS + 60_000));
        let plain = Dated::new(ServerConfig::default());
        assert!(Arc::ptr_eq(&plain.at(Wall(0)), &plain.at(Wall(9 * HOUR_MS))));
    }
}
