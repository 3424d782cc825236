//! Areas of the reference: a page each.

/// The page of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    Server,
    Listeners,
    Intake,
    Routes,
    Tables,
    Sending,
    X400,
}

impl Area {
    /// All areas, in the order of the pages.
    pub const ALL: [Area; 7] = [
        Area::Server,
        Area::Listeners,
        Area::Intake,
        Area::Routes,
        Area::Tables,
        Area::Sending,
        Area::X400,
    ];

    /// Its name in links and files.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Area::Server => "server",
            Area::Listeners => "listeners",
            Area::Intake => "intake",
            Area::Routes => "routes",
            Area::Tables => "tables",
            Area::Sending => "sending",
            Area::X400 => "x400",
        }
    }

    /// Heading of its page.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Area::Server => "Server",
            Area::Listeners => "Listeners",
            Area::Intake => "Intake",
            Area::Routes => "Routes",
            Area::Tables => "Tables",
            Area::Sending => "Sending",
            Area::X400 => "X.400",
        }
    }

    /// One line for the index.
    pub(crate) const fn summary(self) -> &'static str {
        match self {
            Area::Server => "spool, retries, reports, DNS, administration, logs",
            Area::Listeners => "sockets for incoming mail, certificates, TLS of clients",
            Area::Intake => "access rules, policy services, copies, signers, header fields",
            Area::Routes => "destinations, and the settings of each channel",
            Area::Tables => "lookup tables of each kind",
            Area::Sending => "source addresses, pools, tenants",
            Area::X400 => "this MTA and its X.400 peers",
        }
    }
}
