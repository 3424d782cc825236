//! A report to a web server (RFC 8460 §5.4).

use super::Tls;
use crate::daily_reports::{DailyReporter, DomainReport, Letter};
use crate::https::{self, candidates};
use auth::tls_report;
use auth::tls_report::WebAddress;
use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HOST, USER_AGENT};
use mail::{Mailbox, Wall};
use mta::seams::{Dns as _, Trust};
use rustls::pki_types::ServerName;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// All of it, from the first question to the DNS to the last octet.
const TIME_MAX: Duration = Duration::from_secs(30);

/// What an address has of that for the connection.
const CONNECT_MAX: Duration = Duration::from_secs(4);

/// Octets of an answer, which nobody reads.
const ANSWER_BYTES_MAX: usize = 16 << 10;

/// Hands a packed report to a web server, not at a private address where `public_only` says so.
///
/// # Errors
/// What went wrong, in words.
pub(super) async fn post(
    daily: &DailyReporter<Tls>,
    to: &WebAddress,
    packed: &[u8],
    public_only: bool,
) -> Result<(), String> {
    let late = |_| Err(format!("{}: not finished within {TIME_MAX:?}", to.host));
    let posted = timeout(TIME_MAX, deliver(daily, to, packed, public_only)).await;
    posted.unwrap_or_else(late)
}

async fn deliver(
    daily: &DailyReporter<Tls>,
    to: &WebAddress,
    packed: &[u8],
    public_only: bool,
) -> Result<(), String> {
    let told = |error: &dyn std::fmt::Display| format!("{}: {error}", to.host);
    let addresses = daily.resolver.addresses(&to.host).await.map_err(|error| told(&error))?;
    let stream = connect(candidates(addresses, public_only).map_err(|why| told(&why))?, to.port);
    let stream = stream.await.map_err(|why| told(&why))?;
    // RFC 8460 §3: what is wrong with the certificate may be just what the report tells of. Who can stand in
    // between can keep it away as well.
    let client = daily.kind.peer_tls.client(&Trust::Anyone).map_err(|error| told(&error))?;
    let name = ServerName::try_from(to.host.to_string()).map_err(|error| told(&error))?;
    let stream = TlsConnector::from(client).connect(name, stream).await;
    let stream = stream.map_err(|error| told(&error))?;
    let authority = match to.port {
        443 => to.host.to_string(),
        port => format!("{}:{port}", to.host),
    };
    let request = Request::post(&*to.path)
        .header(HOST, authority)
        .header(USER_AGENT, https::USER_AGENT_NAME)
        .header(CONTENT_TYPE, MEDIA_TYPE)
        .body(Full::new(Bytes::copy_from_slice(packed)))
        .map_err(|error| told(&error))?;
    let answered = https::exchange(Box::new(stream), request, ANSWER_BYTES_MAX).await;
    let (status, _) = answered.map_err(|why| told(&why))?;
    // Whoever answers with another place is asked there by nobody.
    match status.is_success() {
        true => Ok(()),
        false => Err(told(&format_args!("it returned {status}"))),
    }
}

/// Connects to the first of these that answers.
async fn connect(addresses: Vec<std::net::IpAddr>, port: u16) -> Result<TcpStream, String> {
    let mut why = "it has no address".to_owned();
    for address in addresses {
        let to = SocketAddr::new(address, port);
        match timeout(CONNECT_MAX, TcpStream::connect(to)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => why = format!("{to}: {error}"),
            Err(_) => why = format!("{to}: no connection within {CONNECT_MAX:?}"),
        }
    }
    Err(why)
}

/// What the report is called as a file of a message, and in the request to a web server.
pub(super) const MEDIA_TYPE: &str = "application/tlsrpt+gzip";

/// The report itself.
pub(super) fn json(report: &DomainReport<Tls>) -> Vec<u8> {
    let section = &report.terms.settings.section;
    let (begin, end) = report.range();
    tls_report::TlsReport {
        organization: &section.organization_name,
        contact: section.contact.as_str(),
        id: &id(report),
        range: (Wall(begin * 1_000), Wall(end * 1_000)),
        domain: &report.domain,
        counts: &report.counted.0,
    }
    .json()
}

/// RFC 8460 §5.3 has it like a message's: with a domain behind it.
fn id(report: &DomainReport<Tls>) -> String {
    format!("{}@{}", report.id(), report.terms.hostname)
}

/// The whole message, with CRLF at line ends. Servers on its way are told not to have TLS in its way (RFC 8689
/// §3): of that it tells.
pub(super) fn compose(report: &DomainReport<Tls>, packed: &[u8], to: &Mailbox) -> Vec<u8> {
    let (section, hostname) = (&report.terms.settings.section, &report.terms.hostname);
    let (domain, id) = (&report.domain, id(report));
    let (begin, end) = report.range();
    Letter {
        from: &section.from,
        to: std::slice::from_ref(to),
        subject: format!(
            "Report Domain: {domain}\r\n\tSubmitter: {hostname}\r\n\tReport-ID: <{id}>"
        ),
        date: report.now,
        message_id: format!("<tlsrpt.{}.{:x}@{hostname}>", report.id(), report.now.0),
        fields: &[
            format!("TLS-Report-Domain: {domain}"),
            format!("TLS-Report-Submitter: {hostname}"),
            "TLS-Required: No".to_owned(),
        ],
        content_type: "multipart/report; report-type=\"tlsrpt\"",
        boundary: format!("=_{}", report.id()),
        text: &[
            format!("This is an aggregate report about TLS to the mail servers of\r\n{domain},"),
            format!("made by {}.", section.organization_name),
        ],
        file_type: MEDIA_TYPE,
        file_name: format!("{hostname}!{domain}!{begin}!{end}.json.gz"),
        file: packed,
    }
    .compose()
}
