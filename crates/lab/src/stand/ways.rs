//! What mail comes in and goes out by.

/// What mail is carried by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Smtp,
    /// P1 of X.400.
    P1,
}

impl Protocol {
    /// The commands of source and sink.
    pub(super) fn tools(self) -> [&'static str; 2] {
        match self {
            Protocol::Smtp => ["source", "sink"],
            Protocol::P1 => ["p1-source", "p1-sink"],
        }
    }
}

/// What mail comes in and goes out by, and to how many sinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ways {
    pub(crate) inbound: Protocol,
    pub(crate) outbound: Protocol,
    pub(crate) sinks: u32,
    /// Of P1: what is proposed and taken as the size of transport data units.
    pub(crate) tpdu_bytes: u32,
}

impl Ways {
    /// As mail goes, to one sink.
    pub(crate) const SMTP: Ways = Ways::both(Protocol::Smtp);
    /// As X.400 goes, to one sink, in TPDUs as large as can be.
    pub(crate) const P1: Ways = Ways::both(Protocol::P1);

    const fn both(protocol: Protocol) -> Ways {
        Ways { inbound: protocol, outbound: protocol, sinks: 1, tpdu_bytes: 65_408 }
    }

    /// The same by one protocol both ways.
    pub(crate) fn all_by(self, protocol: Protocol) -> Ways {
        Ways { inbound: protocol, outbound: protocol, ..self }
    }

    /// Whether no X.400 is spoken.
    pub(crate) fn is_mail(self) -> bool {
        (self.inbound, self.outbound) == (Protocol::Smtp, Protocol::Smtp)
    }

    /// The sink that a source's mail goes to, from 1.
    pub(crate) fn sink_of(self, source: u32) -> u32 {
        1 + source.saturating_sub(1) % self.sinks.max(1)
    }
}

/// The O/R address, without its first attribute, of those behind a sink.
pub(crate) fn or_domain(sink: u32) -> String {
    format!("/O=Sink{sink}/PRMD=Bench/ADMD= /C=GB/")
}

/// The same of the gateway to mail.
pub(crate) const GATEWAY: &str = "/O=gw/PRMD=Bench/ADMD= /C=GB/";

/// The name and the password that a sink binds with.
pub(crate) fn sink_name(sink: u32) -> String {
    format!("sink{sink}")
}

/// What sources bind as.
pub(crate) const SOURCE_NAME: &str = "source";
/// The password of all.
pub(crate) const PASSWORD: &str = "secret";
/// The name that a server answers with.
pub(crate) const SERVER_NAME: &str = "bench";
