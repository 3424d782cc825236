//! The limit of open files, and its division among their users.

use crate::acme;
use crate::world::resolver::SOCKETS_PER_LOOKUP;
use config::Config;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Runtimes, pipes, the control socket, the event log, name servers, operators.
const HOUSE: u64 = 64;
/// Maximum number of open segments and blobs per log.
const LOG_FILES_MAX: u64 = 128;
/// Short-lived files of a log.
const LOG_SPARE: u64 = 16;
/// DNS lookups have this part of all at most.
const LOOKUPS_PART: u64 = 8;
/// Mailboxes have this part of all at most, and no more than they can use.
const MAILBOXES_PART: u64 = 16;
const MAILBOX_FILES_MAX: u64 = 1_024;
/// Connections of stages (policy services, lookups of checks) have this part of all at most.
const STAGES_PART: u64 = 8;
/// Maximum part for the ACME challenge port, which any client can connect to.
const CHALLENGES_PART: u64 = 16;

/// Fetches of MTA-STS policies have this part of all at most; each takes a lookup and a connection.
const FETCHES_PART: u64 = 16;
const SOCKETS_PER_FETCH: u64 = SOCKETS_PER_LOOKUP + 1;
/// Fetches at once where there are enough.
const FETCHES_MAX: u64 = 64;
/// Minimum number of fetches, for routes added by a reload; the fixed reserve covers them.
const FETCHES_MIN: u64 = 2;

/// The demand for descriptors.
#[derive(Clone, Copy, Debug)]
struct DescriptorDemand {
    logs: u64,
    lookups: u64,
    /// Connections and lookups of stages, on all shards.
    stages: u64,
    /// Connections that each session has beside its own.
    beside: u64,
    /// Fetches of policies at once.
    fetches: u64,
    /// Connections to the listener for ACME challenges.
    challenges: u64,
}

/// The divided descriptors of the process. Sessions must not use the shares of delivery and the spool, without which
/// the server cannot work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptors {
    /// Client sessions at once.
    pub(crate) sessions_max: u32,
    /// Connections to next hops at once.
    pub(crate) egress_max: u64,
    /// DNS lookups at once.
    pub(crate) lookups_max: u32,
    /// Maximum number of open files per log.
    pub(crate) log_files_max: usize,
    /// Files of mailboxes at once.
    pub(crate) mailbox_files_max: usize,
    /// Fetches of MTA-STS policies at once.
    pub(crate) fetches_max: usize,
}

impl Descriptors {
    /// Raises the limit of the process as far as possible, and divides it.
    pub(crate) fn claim(config: &Config, shards: u16) -> Descriptors {
        let limit = getrlimit(Resource::Nofile);
        let all = limit.maximum;
        // If refused, the limit stays unchanged.
        let raised = setrlimit(Resource::Nofile, Rlimit { current: all, maximum: all });
        let count = if raised.is_ok() { all } else { limit.current };
        let stages = config.stages.iter().map(|stage| u64::from(stage.settings.connections_max()));
        let checks = u64::from(channels::lookups_at_once(config)) * SOCKETS_PER_LOOKUP;
        let has_promises = config.routes.iter().any(|route| route.channel.tls_sources().mta_sts);
        let wanted = DescriptorDemand {
            fetches: if has_promises { FETCHES_MAX } else { 0 },
            challenges: if config.of::<acme::Authority>().is_some() {
                acme::CONNECTIONS_MAX as u64
            } else {
                0
            },
            logs: config.spool.paths.len() as u64,
            lookups: u64::from(config.dns.max_lookups),
            stages: (stages.sum::<u64>() + checks) * u64::from(shards),
            beside: u64::from(channels::milter_connections(config)),
        };
        Descriptors::divide(count.unwrap_or(u64::MAX), wanted)
    }

    fn divide(limit: u64, wanted: DescriptorDemand) -> Descriptors {
        let logs = wanted.logs.max(1);
        // With a low limit all shares shrink.
        let mailbox_files = (limit / MAILBOXES_PART).min(MAILBOX_FILES_MAX);
        let house = HOUSE + mailbox_files;
        let reserve = (house + logs * (LOG_FILES_MAX + LOG_SPARE)).min(limit / 2);
        let lookups = (limit / LOOKUPS_PART / SOCKETS_PER_LOOKUP).clamp(1, wanted.lookups);
        let stages = wanted.stages.min(limit / STAGES_PART);
        let fetches = wanted.fetches.min(limit / FETCHES_PART / SOCKETS_PER_FETCH);
        let asked = lookups * SOCKETS_PER_LOOKUP + fetches * SOCKETS_PER_FETCH;
        let challenges = wanted.challenges.min(limit / CHALLENGES_PART);
        let connections = limit - reserve - asked - stages - challenges;
        let egress_max = (connections / 3).max(1);
        let turned_away = u64::from(mta::acceptor::TURNED_AWAY_MAX);
        let sessions = (connections - egress_max).saturating_sub(turned_away);
        let sessions = (sessions / (1 + wanted.beside)).max(1);
        let log_files = (reserve.saturating_sub(house) / logs).saturating_sub(LOG_SPARE);
        Descriptors {
            sessions_max: u32::try_from(sessions).unwrap_or(u32::MAX),
            egress_max,
            lookups_max: u32::try_from(lookups).unwrap_or(u32::MAX),
            log_files_max: usize::try_from(log_files.clamp(4, LOG_FILES_MAX)).unwrap_or(4),
            mailbox_files_max: usize::try_from(mailbox_files).unwrap_or(4),
            fetches_max: usize::try_from(fetches.max(FETCHES_MIN)).unwrap_or(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_has_a_part_and_all_parts_fit() {
        for limit in [256, 1024, 4096, 20_000, 524_288, u64::MAX] {
            for logs in [1, 2, 8] {
                for (stages, fetches, challenges) in [
                    (0, 0, 0),
                    (40, 0, 0),
                    (256_000, 0, 0),
                    (0, 64, 0),
                    (256_000, 64, 0),
                    (0, 0, 64),
                ] {
                    let wanted = DescriptorDemand {
                        logs,
                        lookups: 256,
                        stages,
                        beside: 0,
                        fetches,
                        challenges,
                    };
                    let parts = Descriptors::divide(limit, wanted);
                    let taken = u64::from(parts.sessions_max)
                        + parts.egress_max
                        + u64::from(parts.lookups_max) * SOCKETS_PER_LOOKUP
                        + u64::from(mta::acceptor::TURNED_AWAY_MAX)
                        + stages.min(limit / STAGES_PART)
                        + challenges.min(limit / CHALLENGES_PART)
                        + fetches.min(parts.fetches_max as u64) * SOCKETS_PER_FETCH
                        + parts.mailbox_files_max as u64
                        + logs * parts.log_files_max as u64;
                    assert!(taken + 32 <= limit, "{limit} {logs} {stages}: {parts:?}");
                    let least = match stages + fetches + challenges {
                        0 => (48, 32),
                        _ => (18, 16),
                    };
                    assert!(parts.sessions_max >= least.0, "{limit} {stages}: {parts:?}");
                    assert!(parts.egress_max >= least.1, "{limit} {stages}: {parts:?}");
                }
            }
        }
    }

    #[test]
    fn the_usual_limit_is_divided_so() {
        let none = DescriptorDemand {
            logs: 1,
            lookups: 256,
            stages: 0,
            beside: 0,
            fetches: 0,
            challenges: 0,
        };
        let divide = |limit, lookups, stages| {
            Descriptors::divide(limit, DescriptorDemand { lookups, stages, ..none })
        };
        let parts = divide(1024, 256, 0);
        assert_eq!((parts.sessions_max, parts.egress_max, parts.log_files_max), (402, 208, 128));
        assert_eq!(parts.lookups_max, 21);
        assert_eq!(divide(20_000, 256, 0).lookups_max, 256);
        assert_eq!(divide(20_000, 100, 0).lookups_max, 100);
        // One policy service on two shards: 40 connections are neither sessions nor next hops.
        let parts = divide(1024, 256, 40);
        assert_eq!((parts.sessions_max, parts.egress_max), (375, 195));
        // Two milters at a listener: each session there has three connections.
        assert_eq!(
            Descriptors::divide(1024, DescriptorDemand { beside: 2, ..none }).sessions_max,
            134
        );
        let fetches = |limit, fetches| {
            Descriptors::divide(limit, DescriptorDemand { fetches, ..none }).fetches_max
        };
        assert_eq!([fetches(1024, 64), fetches(20_000, 64), fetches(20_000, 0)], [9, 64, 2]);
    }
}
