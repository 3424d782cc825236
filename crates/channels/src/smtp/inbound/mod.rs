//! SMTP as a way in.

mod session;

use config::{Config, Listener};
use mta::ingress::{Entrance, Handler, Protocol};
use mta::seams::{Net, Task, World};
use session::Session;
use smtp::server::{BareNewline, Nul, ServerConfig};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Takes mail over SMTP (RFC 5321).
pub(crate) struct Inbound;

impl<W: World> Protocol<W> for Inbound {
    fn name(&self) -> &'static str {
        "smtp"
    }

    fn handler(&self, config: &Config, listener: &Arc<Listener>) -> Rc<dyn Handler<W>> {
        let server = server_config(config, listener);
        // Whoever may ask for reports makes us send them: to a reverse-path that a stranger
        // forges, one for each recipient (RFC 3461 §10.1).
        let stranger = ServerConfig { dsn: false, ..server.clone() };
        Rc::new(Settings {
            server: Arc::new(server),
            stranger: Arc::new(stranger),
            listener: Arc::clone(listener),
        })
    }
}

/// What a listener asks of its sessions.
#[derive(Debug)]
struct Settings {
    /// For clients that may relay.
    server: Arc<ServerConfig>,
    /// For all others.
    stranger: Arc<ServerConfig>,
    listener: Arc<Listener>,
}

impl<W: World> Handler<W> for Settings {
    fn serve(self: Rc<Self>, entrance: Box<Entrance<W>>, stream: <W::Net as Net>::Stream) -> Task {
        // In a place of its own: whatever moves what serves it would move it as well.
        let mut session = Box::new(Session::new(self, entrance, stream));
        Box::pin(async move { session.run().await })
    }
}

impl Settings {
    /// So long it is seen whether the client speaks before it is greeted.
    fn greeting_delay(&self, client: IpAddr) -> Duration {
        let listener = &self.listener;
        match listener.relay_network(client).is_some() || listener.is_exempt(client) {
            true => Duration::ZERO,
            false => listener.greeting_delay,
        }
    }

    /// What a session with a client is told.
    fn server(&self, may_relay: bool) -> &Arc<ServerConfig> {
        if may_relay { &self.server } else { &self.stranger }
    }
}

fn server_config(config: &Config, listener: &Listener) -> ServerConfig {
    ServerConfig {
        hostname: config.hostname.to_string(),
        banner: listener.banner.to_string(),
        message_bytes_max: listener.max_message_bytes,
        recipients_max: listener.max_recipients as usize,
        recipients_open_max: smtp::server::RECIPIENTS_OPEN_MAX,
        command_line_bytes_max: listener.max_command_bytes as usize,
        content_line_bytes_max: listener.max_line_bytes,
        commands_max: listener.max_commands,
        errors_max: listener.max_errors,
        refused_recipients_max: listener.max_refused_recipients,
        messages_max: listener.max_messages,
        command_timeout: listener.command_timeout,
        content_timeout: listener.content_timeout,
        transfer_timeout: listener.transfer_timeout,
        session_timeout: listener.session_timeout,
        starttls: false,
        chunking: listener.chunking,
        pipelining: listener.pipelining,
        smtputf8: listener.smtputf8,
        dsn: listener.dsn,
        bare_newline: match listener.bare_newline {
            config::BareNewline::Reject => BareNewline::Reject,
            config::BareNewline::Normalize => BareNewline::Normalize,
        },
        nul: match listener.nul {
            config::Nul::Reject => Nul::Reject,
            config::Nul::Strip => Nul::Strip,
            config::Nul::Keep => Nul::Keep,
        },
        lmtp: false,
    }
}
