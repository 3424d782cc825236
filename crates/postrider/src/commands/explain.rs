//! `postrider explain`.

use super::load;
use crate::cli::{ExplainArgs, exit};
use crate::world::resolver::Resolver;
use config::{Config, Destination, ExplainRequest};
use mail::{Class, Domain};
use mta::routing::hosts::HostGroup;
use mta::routing::mx::resolve_mx;
use std::process::ExitCode;

/// Shows what would happen to a recipient.
pub(crate) fn explain(args: &ExplainArgs) -> ExitCode {
    let config = match load::load(args.file.config.as_deref()) {
        Ok(config) => config,
        Err(code) => return code,
    };
    let recipient = match args.recipient.domain_str() {
        "" => &config.postmaster.address,
        _ => &args.recipient,
    };
    let route = config.route_of(recipient, None).map(|(_, route)| route);
    let found = match route.map(|route| route.channel.destination()) {
        Some(Destination::Mx { port }) if !args.offline => {
            Some(mx_hosts(&config, port, &recipient.domain()))
        }
        _ => None,
    };
    let mx = found.as_ref().map(|found| match found {
        Ok(hosts) => Ok(hosts.as_slice()),
        Err(reason) => Err(reason.as_str()),
    });
    let request = ExplainRequest {
        recipient: &args.recipient,
        sender: args.from.as_ref(),
        listener: args.listener.as_deref(),
        client: args.client,
        mx,
        in_tables: None,
    };
    match config.explain(&request) {
        Ok(explanation) if args.json => match serde_json::to_string_pretty(&explanation) {
            Ok(json) => {
                super::print(&format!("{json}\n"));
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("postrider: {error}");
                ExitCode::from(exit::FAILED)
            }
        },
        Ok(explanation) => {
            super::print(&explanation.to_string());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("postrider: {error}");
            ExitCode::from(exit::USAGE)
        }
    }
}

/// The hosts that mail for a domain would be sent to, groups of equal preference, the best first, or
/// why there are none: the very lookup that deliveries make.
fn mx_hosts(config: &Config, port: u16, domain: &Domain) -> Result<Vec<Vec<String>>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let found = runtime
        .block_on(async { resolve_mx(&Resolver::new(&config.dns), config, port, domain).await });
    let groups = found.map_err(|failure| match failure.class {
        Class::Permanent => failure.text.into(),
        Class::Transient => format!("no answer now: {}", failure.text),
    })?;
    let names = |group: HostGroup| group.hosts.iter().map(|h| h.name.to_string()).collect();
    Ok(groups.into_iter().map(names).collect())
}
