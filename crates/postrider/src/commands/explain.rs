//! `postrider explain`.

use super::load;
use crate::cli::{ExplainArgs, exit};
use crate::world::resolver::Resolver;
use mail::Domain;
use mta::config::{Channel, Config, ExplainRequest};
use mta::seams::{Dns, DnsError, Mx};
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
    let by_mx = config
        .route_of(recipient)
        .is_some_and(|(_, route)| matches!(route.channel, Channel::Mx(_)));
    let found = (by_mx && !args.offline).then(|| mx_hosts(&config, &recipient.domain()));
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

/// The hosts that DNS names for a domain, groups of equal preference, the best first, or why there are none (RFC 5321 §5.1).
fn mx_hosts(config: &Config, domain: &Domain) -> Result<Vec<Vec<String>>, String> {
    if let Some(address) = domain.literal() {
        return Ok(vec![vec![address.to_string()]]);
    }
    let name = domain.to_ascii().map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let resolver = Resolver::new(&config.dns);
        match resolver.mx(&name).await {
            Ok(records) => in_order(records),
            // No MX: the domain itself is the host, if it has an address.
            Err(DnsError::NoRecords) => match resolver.addresses(&name).await {
                Ok(_) => Ok(vec![vec![name]]),
                Err(error) => Err(words(error)),
            },
            Err(error) => Err(words(error)),
        }
    })
}

fn in_order(mut records: Vec<Mx>) -> Result<Vec<Vec<String>>, String> {
    // RFC 7505: a null MX says that the domain takes no mail.
    if records.iter().all(|mx| mx.host.is_empty()) {
        return Err("the domain takes no mail (null MX)".to_owned());
    }
    records.retain(|mx| !mx.host.is_empty());
    records.sort_by(|a, b| (a.preference, &a.host).cmp(&(b.preference, &b.host)));
    let groups = records.chunk_by(|a, b| a.preference == b.preference);
    Ok(groups.map(|group| group.iter().map(|mx| mx.host.clone()).collect()).collect())
}

fn words(error: DnsError) -> String {
    match error {
        DnsError::NoSuchDomain => "the domain does not exist".to_owned(),
        DnsError::NoRecords => "the domain has neither MX nor address".to_owned(),
        error @ (DnsError::Transient(_) | DnsError::Lack) => format!("no answer now: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_stand_in_the_order_of_preference() {
        let mx = |preference, host: &str| Mx { preference, host: host.to_owned() };
        let hosts = in_order(vec![mx(20, "b"), mx(10, "z"), mx(10, "a")]).unwrap();
        assert_eq!(hosts, [vec!["a", "z"], vec!["b"]]);
        assert!(in_order(vec![mx(0, "")]).is_err());
    }
}
