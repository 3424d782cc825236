//! What is suspended or resumed.

use clap::Args;
use mta::control::Scope;

/// What is suspended or resumed: the mail to which all apply that are given.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct ScopeArgs {
    /// All delivery.
    #[arg(long, conflicts_with_all = PARTS)]
    pub(crate) all: bool,
    /// Mail for this domain.
    #[arg(long, value_name = "DOMAIN")]
    pub(crate) domain: Option<String>,
    /// Mail that takes the route of this name.
    #[arg(long, value_name = "NAME")]
    pub(crate) route: Option<String>,
    /// Mail to this next hop, or to all that have this host.
    #[arg(long, value_name = "HOST")]
    pub(crate) next_hop: Option<String>,
    /// Mail to hosts of this provider, as the shaping files know it.
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: Option<String>,
    /// Mail from the source of this name; other sources of its pools take it over.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["domain", "tenant", "campaign"])]
    pub(crate) source: Option<String>,
    /// Mail of the tenant of this name.
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// Mail with this campaign.
    #[arg(long, value_name = "NAME")]
    pub(crate) campaign: Option<String>,
}

const PARTS: [&str; 7] =
    ["domain", "route", "next_hop", "provider", "source", "tenant", "campaign"];

impl ScopeArgs {
    pub(super) fn scope(&self) -> Scope {
        Scope {
            domain: self.domain.clone(),
            route: self.route.clone(),
            next_hop: self.next_hop.clone(),
            provider: self.provider.clone(),
            source: self.source.clone(),
            tenant: self.tenant.clone(),
            campaign: self.campaign.clone(),
        }
    }
}
