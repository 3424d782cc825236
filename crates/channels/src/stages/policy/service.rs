//! Connections to a policy service.

use super::Policy;
use mail::{Mailbox, Recipient, Wall};
use mta::alarm::Alarm;
use mta::ingress::{Session, TransactionView};
use mta::line::{FairKey, FairSemaphore, Owner, SemaphoreLimits, TrustLevel};
use mta::pools::PoolId;
use mta::pressure::Pressures;
use mta::seams::{Egress, Endpoint, Net, Stream, Time, World};
use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::Arc;
use std::time::Duration;

/// Maximum length of a reply.
const ANSWER_BYTES_MAX: usize = 4 * 1024;

/// A service and its idle connections.
pub(super) struct Service<W: World> {
    world: W,
    endpoint: Endpoint,
    timeout: Duration,
    /// Limits concurrent requests; clients take turns.
    line: Arc<FairSemaphore>,
    idle: RefCell<Vec<<W::Net as Net>::Stream>>,
}

impl<W: World> fmt::Display for Service<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.endpoint {
            Endpoint::Tcp(address) => address.fmt(f),
            Endpoint::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl<W: World> Service<W> {
    pub(super) fn new(world: &W, policy: &Policy, pools: &Pressures) -> Service<W> {
        let places = u64::from(policy.text.max_connections);
        // Requests are short, so no reserve is needed.
        let line = FairSemaphore::new(SemaphoreLimits::equal(places));
        pools.register(PoolId::PolicyQuestions, &line);
        Service {
            world: world.clone(),
            endpoint: policy.endpoint.clone(),
            timeout: policy.text.timeout.get(),
            line,
            idle: RefCell::default(),
        }
    }

    /// The current time.
    pub(super) fn wall(&self) -> Wall {
        self.world.time().wall()
    }

    /// The answer to a request about a client.
    ///
    /// # Errors
    /// The reason for the failure, for people.
    pub(super) async fn ask(&self, session: &Session, request: &[u8]) -> Result<String, String> {
        let deadline = self.world.time().now() + self.timeout;
        // Networks of one site take turns, and so do sites.
        let client = session.client().address.ip();
        let who = FairKey::new(0, 0).of(Owner::network(client)).within(Owner::site(client));
        let exchange = async {
            let _place = self.line.join(who, TrustLevel::Good, 1).await;
            self.exchange(request).await
        };
        let mut alarm = Alarm::new(self.world.time().clone());
        match alarm.within(|_| deadline, exchange).await {
            Some(answer) => answer.map_err(|error| error.to_string()),
            None => Err("timeout".to_owned()),
        }
    }

    /// Sends a request over an idle connection, or over a new one if that was closed.
    async fn exchange(&self, request: &[u8]) -> io::Result<String> {
        loop {
            let idle = self.idle.borrow_mut().pop();
            let is_used = idle.is_some();
            let mut stream = match idle {
                Some(stream) => stream,
                None => self.world.net().connect(&self.endpoint, Egress::default()).await?,
            };
            match talk(&mut stream, request).await {
                Ok(answer) => {
                    self.idle.borrow_mut().push(stream);
                    return Ok(answer);
                }
                // A service may close an idle connection.
                Err(error) if is_used && is_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn is_gone(error: &io::Error) -> bool {
    let kind = error.kind();
    matches!(kind, ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

async fn talk<S: Stream>(stream: &mut S, request: &[u8]) -> io::Result<String> {
    let mut rest = request;
    while !rest.is_empty() {
        let written = poll_fn(|cx| stream.poll_write(cx, &[IoSlice::new(rest)])).await?;
        if written == 0 {
            return Err(ErrorKind::BrokenPipe.into());
        }
        rest = rest.get(written..).unwrap_or_default();
    }
    let mut answer = Vec::new();
    let mut buffer = [0; 512];
    while !answer.ends_with(b"\n\n") {
        let read = poll_fn(|cx| stream.poll_read(cx, &mut buffer)).await?;
        if read == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        answer.extend_from_slice(buffer.get(..read).unwrap_or_default());
        if answer.len() > ANSWER_BYTES_MAX {
            return Err(io::Error::new(ErrorKind::InvalidData, "unterminated reply"));
        }
    }
    String::from_utf8(answer)
        .map_err(|_| io::Error::new(ErrorKind::InvalidData, "reply is not UTF-8"))
}

/// A request about a recipient.
pub(super) struct PolicyRequest<'a> {
    pub(super) transaction: &'a TransactionView,
    pub(super) recipient: &'a Recipient,
    /// See `PolicyClient::run`.
    pub(super) run: u64,
}

impl PolicyRequest<'_> {
    /// `name=value` lines and an empty one. Unknown values are empty, as in Postfix. Control characters are removed.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let TransactionView { session, sender, size, serial, .. } = self.transaction;
        let client = session.client();
        let mut out = String::with_capacity(512);
        let mut put = |name: &str, value: &str| {
            out.push_str(name);
            out.push('=');
            out.extend(value.chars().filter(|c| !c.is_control()));
            out.push('\n');
        };
        put("request", "smtpd_access_policy");
        put("protocol_state", "RCPT");
        put("protocol_name", client.protocol);
        put("client_address", &client.address.ip().to_canonical().to_string());
        put("client_port", &client.address.port().to_string());
        // Known only at listeners with this check.
        let name = client.confirmed_name().unwrap_or("unknown");
        put("client_name", name);
        put("reverse_client_name", name);
        put("server_address", &session.listener().address.ip().to_canonical().to_string());
        put("server_port", &session.listener().address.port().to_string());
        put("helo_name", &client.helo);
        put("sender", sender.as_ref().map_or("", Mailbox::as_str));
        put("recipient", self.recipient.mailbox.as_str());
        put("recipient_count", "0");
        put("queue_id", "");
        put("instance", &format!("{:x}.{serial:x}", self.run));
        put("size", &size.unwrap_or(0).to_string());
        put("etrn_domain", "");
        put("stress", "");
        put("sasl_method", "");
        put("sasl_username", client.login.as_deref().unwrap_or(""));
        put("sasl_sender", "");
        for name in ["ccert_subject", "ccert_issuer", "ccert_fingerprint"] {
            put(name, "");
        }
        for name in ["encryption_protocol", "encryption_cipher"] {
            put(name, "");
        }
        put("encryption_keysize", "0");
        put("policy_context", "");
        out.push('\n');
        out.into_bytes()
    }
}
