//! What a listener asks of its sessions.

use config::{Config, Listener};
use smtp::server::{BareNewline, Nul, ServerConfig};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A listener's configuration in the form that its sessions need.
#[derive(Debug)]
pub(crate) struct ListenerRules {
    pub(crate) name: Arc<str>,
    /// For clients that may relay.
    pub(super) server: Arc<ServerConfig>,
    /// For all others.
    stranger: Arc<ServerConfig>,
    pub(crate) hops_max: usize,
    pub(crate) listener: Arc<Listener>,
}

impl ListenerRules {
    /// What `listener` of `config` asks of its sessions.
    pub(crate) fn new(config: &Config, listener: &Arc<Listener>) -> ListenerRules {
        let server = server_config(config, listener);
        // Whoever may ask for reports makes us send them: to a reverse-path that a stranger
        // forges, one for each recipient (RFC 3461 §10.1).
        let stranger = ServerConfig { dsn: false, ..server.clone() };
        ListenerRules {
            name: Arc::clone(&listener.name),
            server: Arc::new(server),
            stranger: Arc::new(stranger),
            hops_max: listener.max_hops as usize,
            listener: Arc::clone(listener),
        }
    }

    /// So long it is seen whether the client speaks before it is greeted.
    pub(super) fn greeting_delay(&self, client: IpAddr) -> Duration {
        let listener = &self.listener;
        match listener.relay_network(client).is_some() || listener.is_exempt(client) {
            true => Duration::ZERO,
            false => listener.greeting_delay,
        }
    }

    /// What a session with this client is told.
    pub(super) fn server(&self, client: IpAddr) -> &Arc<ServerConfig> {
        match self.listener.relay_network(client) {
            Some(_) => &self.server,
            None => &self.stranger,
        }
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

/// The rules of all listeners of a configuration.
pub(super) fn rules_of(config: &Config) -> Vec<Rc<ListenerRules>> {
    config.listeners.iter().map(|listener| Rc::new(ListenerRules::new(config, listener))).collect()
}

/// The rules for each socket after a reload. Sockets stay as they were opened, whatever order the
/// new configuration has: what it says of another listener, one that may relay perhaps, must not
/// apply to them. A socket that it does not name keeps its rules.
pub(super) fn rules_by_socket(
    sockets: &[Rc<ListenerRules>],
    new: &[Rc<ListenerRules>],
) -> Vec<Rc<ListenerRules>> {
    let find = |old: &ListenerRules| {
        let same_address = |rules: &&Rc<ListenerRules>| {
            let address = rules.listener.address;
            address.port() != 0 && address == old.listener.address
        };
        let same_name = |rules: &&Rc<ListenerRules>| rules.name == old.name;
        new.iter().find(same_address).or_else(|| new.iter().find(same_name)).cloned()
    };
    sockets.iter().map(|old| find(old).unwrap_or_else(|| Rc::clone(old))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Vec<Rc<ListenerRules>> {
        let text = format!("hostname = \"relay.test\"\n{text}[[route]]\ndiscard = {{}}\n");
        rules_of(&crate::testing::schema().parse(&text, "test.toml").unwrap())
    }

    #[test]
    fn a_reload_that_moves_listeners_about_gives_no_socket_the_rules_of_another() {
        let open = "[[listener]]\nname = \"open\"\naddress = \"127.0.0.1:2525\"\n\
            relay_from = [\"127.0.0.0/8\"]\n";
        let shut = "[[listener]]\nname = \"shut\"\naddress = \"0.0.0.0:2526\"\n";
        let sockets = rules(&format!("{open}{shut}"));
        let names = |rules: &[Rc<ListenerRules>]| -> Vec<String> {
            rules.iter().map(|rules| rules.name.to_string()).collect()
        };
        let swapped = rules_by_socket(&sockets, &rules(&format!("{shut}{open}")));
        assert_eq!(names(&swapped), ["open", "shut"]);
        let fewer = rules_by_socket(&sockets, &rules(shut));
        assert_eq!(names(&fewer), ["open", "shut"]);
        assert!(Rc::ptr_eq(&fewer[0], &sockets[0]), "what is not named stays");
        let moved = shut.replace("2526", "2527");
        let moved = rules_by_socket(&sockets, &rules(&format!("{moved}{open}")));
        assert_eq!(moved[1].listener.address.port(), 2527, "found by its name");
    }
}
