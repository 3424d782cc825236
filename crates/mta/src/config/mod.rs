//! The configuration: one TOML file, one typed schema, resolved into immutable values.
//!
//! [`Config::parse`] reads a file, [`Config::embedded`] is the safe default. What comes out:
//!
//! ```text
//! Config
//!   hostname: Domain        shards: Option<u16>       warnings: Vec<Problem>
//!   postmaster: Postmaster  { address: Mailbox, route: usize }
//!   spool: SpoolSection     { paths, durability: Sync|Os|Memory, node, segment_bytes,
//!                             spare_segments, min_free_bytes, blob_bytes, unsettled_max,
//!                             queue_recipients_max, body_memory_bytes }
//!   listeners: Vec<Arc<Listener>>
//!                           { name, address, relay_from, banner, max_message_bytes,
//!                             max_recipients, max_command_bytes, max_line_bytes, max_hops,
//!                             max_commands, max_errors, max_messages, max_sessions,
//!                             max_sessions_per_address, command_timeout, content_timeout,
//!                             transfer_timeout, session_timeout, bare_newline, chunking,
//!                             pipelining, smtputf8, dsn, line }
//!   routes: Vec<Arc<Route>> { index, name, domains, channel, retry: Retry,
//!                             reports: Arc<Reports>, line }
//!     Channel = Smtp(Arc<Peer>) | Lmtp(Arc<Peer>) | Mx(Arc<Peer>) | Maildir(Arc<Maildir>) | Discard
//!     Peer                  { hosts: Vec<HostPort>, port, max_connections, max_opens,
//!                             messages_per_connection, unasked_content,
//!                             transactions_in_flight, messages_per_second, recipients_per_message, adaptive, balance,
//!                             eight_bit, chunking, pipelining, connect_timeout, greeting_timeout, command_timeout,
//!                             data_timeout, content_timeout, final_timeout,
//!                             transaction_timeout, idle_timeout }
//!   retry: Retry            { first, factor, longest, jitter, give_up_after, warn_after }
//!   reports: Arc<Reports>   { to, copy_to, directory, returns, per_sender_per_hour,
//!                             delays_to_strangers, double_bounce_to }
//!   report_retry: ReportRetry
//!                           { first, longest, give_up_after }
//!   dns: Dns                { servers, timeout, attempts, cache_max, max_lookups }
//!   admin: Admin            { address: Option<SocketAddr>, control: PathBuf }
//!   events: Option<Events>  { path, rotate_bytes, rotate_after, keep_files, waiting_max }
//!   log: Log                { level }
//! ```
//!
//! What the message's way asks of it: [`Config::decide`] (may this client send to this
//! recipient?) at RCPT; [`Config::route_of`] (where does it go?) whenever a recipient falls due.

mod decision;
mod document;
mod embedded;
mod explanation;
mod next_hop;
mod problem;
pub mod quantity;
pub mod reference;
mod resolve;
mod route;
mod settings;
mod shape;
#[cfg(test)]
mod tests;
pub mod written;

pub use decision::Decision;
pub use embedded::EMBEDDED;
pub use explanation::{ExplainRequest, Explanation, Origin, Step};
pub use next_hop::{host_set, host_text, next_hop};
pub use problem::{ConfigErrors, Problem};
pub use route::{Channel, DomainPattern, Host, HostPort, Maildir, Peer, Route, RouteTable};
pub use settings::{
    Admin, CONTROL_PATH_BYTES_MAX, Dns, Events, Listener, Log, Postmaster, REPORT_GIVE_UP_AFTER,
    ReportRetry, ReportTo, Reports, Retry, SpoolSection,
};
pub use written::{Balance, BareNewline, Durability, EightBit, LogLevel, Nul, Returns};

use document::Document;
use mail::{Domain, Mailbox};
use std::net::IpAddr;
use std::sync::Arc;

/// Name of the built-in route that keeps mail for the postmaster when no other route takes it.
pub const POSTMASTER_ROUTE: &str = "postmaster";

/// A whole configuration. Immutable: a reload makes a new one.
#[derive(Clone, Debug)]
pub struct Config {
    /// The name this server goes by.
    pub hostname: Domain,
    /// Where mail for the bare `<postmaster>` goes.
    pub postmaster: Postmaster,
    /// Addresses before a NAT or proxy that lead here.
    pub proxy_addresses: Vec<IpAddr>,
    /// `None`: one per core.
    pub shards: Option<u16>,
    /// Where accepted mail is kept.
    pub spool: SpoolSection,
    /// Where mail comes in, at least one.
    pub listeners: Vec<Arc<Listener>>,
    /// Where mail goes, in the order of the file, and last, if it is needed, the built-in one
    /// named [`POSTMASTER_ROUTE`].
    pub routes: Vec<Arc<Route>>,
    /// When deliveries are tried again, unless the route says otherwise.
    pub retry: Retry,
    /// What senders are told, unless the route says otherwise.
    pub reports: Arc<Reports>,
    /// When mail without a sender is tried again.
    pub report_retry: ReportRetry,
    /// How names are resolved.
    pub dns: Dns,
    /// The administration interface.
    pub admin: Admin,
    /// `None`: off.
    pub events: Option<Events>,
    /// The console log.
    pub log: Log,
    /// What is hardly meant, but not wrong.
    pub warnings: Vec<Problem>,
    table: RouteTable,
    document: Arc<Document>,
}

impl Config {
    /// Reads a configuration. `file_name` is only named in errors. A file that sets no `hostname`
    /// gets `localhost`: see [`Config::parse_on`].
    ///
    /// # Errors
    /// All that is wrong with it, as far as it can be told at once.
    pub fn parse(text: &str, file_name: &str) -> Result<Config, ConfigErrors> {
        Config::parse_on(text, file_name, "localhost")
    }

    /// Like [`Config::parse`], on a machine of this name.
    ///
    /// # Errors
    /// All that is wrong with it, as far as it can be told at once.
    pub fn parse_on(
        text: &str,
        file_name: &str,
        machine_name: &str,
    ) -> Result<Config, ConfigErrors> {
        let machine_name = Domain::parse(machine_name)
            .or_else(|_| Domain::parse("localhost"))
            .map_err(|_| ConfigErrors::new(file_name.into(), text.into(), Vec::new()))?;
        resolve::read(text, file_name, machine_name)
    }

    /// The safe default that `serve` runs without a file: listens on 127.0.0.1:2525, keeps mail
    /// for any domain in Maildirs under `./postrider-data`, relays nothing.
    ///
    /// # Panics
    /// Never: a test reads it.
    #[must_use]
    pub fn embedded() -> Config {
        match Config::parse(EMBEDDED, "the embedded default") {
            Ok(config) => config,
            Err(errors) => unreachable!("the embedded default is wrong: {errors}"),
        }
    }

    /// The file this came from, for people.
    #[must_use]
    pub fn file_name(&self) -> &str {
        self.document.file()
    }

    /// Warnings with the lines concerned and a pointer into them; empty when there are none.
    #[must_use]
    pub fn render_warnings(&self, colour: bool) -> String {
        problem::render(self.document.file(), self.document.text(), &self.warnings, colour)
    }

    /// The first route that takes this domain, and its index.
    #[must_use]
    pub fn route_for(&self, domain: &Domain) -> Option<(usize, &Arc<Route>)> {
        let named = self.table.named(domain);
        // A catch-all is the last route, so a route that names the domain comes before it.
        let index = named.or_else(|| self.table.catch_all())?;
        self.routes.get(index).map(|route| (index, route))
    }

    /// The route of a recipient: like [`Config::route_for`], but mail for the postmaster always
    /// has one.
    #[must_use]
    pub fn route_of(&self, recipient: &Mailbox) -> Option<(usize, &Arc<Route>)> {
        if self.is_postmaster(recipient) {
            let index = self.postmaster.route;
            return self.routes.get(index).map(|route| (index, route));
        }
        self.route_for(&recipient.domain())
    }

    /// The route of this name, which an operator may have put a message on.
    #[must_use]
    pub fn route_named(&self, name: &str) -> Option<(usize, &Arc<Route>)> {
        self.routes.iter().enumerate().find(|(_, route)| &*route.name == name)
    }

    /// The bare `<postmaster>`, the address that stands for it, or the postmaster at our own name
    /// where no route takes that.
    #[must_use]
    pub fn is_postmaster(&self, recipient: &Mailbox) -> bool {
        let ours = &self.postmaster.address;
        let domain = recipient.domain_str();
        // RFC 5321 §4.5.1: `postmaster` is matched without regard to case.
        let by_name = is_postmaster_local(recipient.local());
        if domain.is_empty() {
            return by_name || recipient.local() == ours.local();
        }
        if domain.eq_ignore_ascii_case(ours.domain_str()) {
            return recipient.local() == ours.local()
                || by_name && is_postmaster_local(ours.local());
        }
        by_name && domain.eq_ignore_ascii_case(self.hostname.as_str()) && !self.takes_own_name()
    }

    /// Whether a route takes mail for our own name: one that names it, or a local one that takes
    /// everything.
    fn takes_own_name(&self) -> bool {
        self.table.named(&self.hostname).is_some()
            || self
                .table
                .catch_all()
                .and_then(|index| self.routes.get(index))
                .is_some_and(|route| route.channel.is_local())
    }
}

fn is_postmaster_local(local: &str) -> bool {
    local.eq_ignore_ascii_case("postmaster")
}
