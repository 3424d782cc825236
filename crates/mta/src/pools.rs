//! Limited resources that unauthenticated clients can exhaust: amounts, shares, behaviour at the limit, and advice for
//! operators. `docs/limits.md` is generated from these lists, and each pool is reported when it is scarce (`pressure`).

mod list;

pub use list::{MEMORIES, POOLS};
use std::fmt::Write as _;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PoolId {
    Sessions,
    Handshakes,
    Passwords,
    Logins,
    SenderQuestions,
    ListQuestions,
    CheckQuestions,
    TableQuestions,
    PolicyQuestions,
    Expansions,
    Queue,
    HeldMail,
    OwnMailbox,
    Unbound,
    Challenges,
    Connections,
    Lookups,
    Reads,
    Conversions,
    Workers,
    Policies,
    Effects,
}

/// A limited resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourcePool {
    pub id: PoolId,
    /// Its description.
    pub name: &'static str,
    /// Its amount, with the configuration key.
    pub amount: &'static str,
    /// The shares of its users.
    pub share: &'static str,
    /// Behaviour at the limit.
    pub beyond: &'static str,
    /// Recommended action when it is scarce.
    pub next_step: &'static str,
    /// The test which shows that other clients are served at the limit.
    pub test: &'static str,
}

impl ResourcePool {
    /// Its name in metrics and problems.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self.id {
            PoolId::Sessions => "sessions",
            PoolId::Handshakes => "tls_handshakes",
            PoolId::Passwords => "passwords",
            PoolId::Logins => "logins",
            PoolId::SenderQuestions => "sender_questions",
            PoolId::ListQuestions => "list_questions",
            PoolId::CheckQuestions => "check_questions",
            PoolId::TableQuestions => "table_questions",
            PoolId::PolicyQuestions => "policy_questions",
            PoolId::Expansions => "expansions",
            PoolId::Queue => "queue",
            PoolId::HeldMail => "held_mail",
            PoolId::OwnMailbox => "postmaster_mailbox",
            PoolId::Unbound => "unbound_associations",
            PoolId::Challenges => "acme_challenges",
            PoolId::Connections => "connections",
            PoolId::Lookups => "dns_lookups",
            PoolId::Reads => "read_memory",
            PoolId::Conversions => "conversion_memory",
            PoolId::Workers => "mailbox_workers",
            PoolId::Policies => "mta_sts_fetches",
            PoolId::Effects => "shaping_effects",
        }
    }

    /// Returns true if it is counted in octets.
    pub(crate) fn is_octets(&self) -> bool {
        matches!(self.id, PoolId::OwnMailbox | PoolId::Reads | PoolId::Conversions)
    }
}

/// A bounded memory about unauthenticated clients. No client is rejected when it is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Its description.
    pub name: &'static str,
    /// Its bound.
    pub amount: &'static str,
    /// The reason why filling it does not harm other clients.
    pub why: &'static str,
}

/// Renders `docs/limits.md`.
#[must_use]
pub fn page() -> String {
    let mut page = String::from(
        "# Limits\n\n\
         Limited resources that clients can exhaust. Each has shares for the other users. They are by client network (an \
         IPv4 address, an IPv6 /64), by the IPv4 /24 and IPv6 /48 above it, or by the zone of a registered name. \
         Further shares are by next hop, tenant or listener. None of these is cheap to get in large numbers.\n\n\
         While a pool has waiting or rejected requests, `postrider status` has a problem of the kind `pool` with the \
         pool, the waiting requests, the largest holder and the next step. `/healthz` has it as a warning \
         (`degraded`, with 200), and the console logs it after ten seconds. `/metrics` has the numbers of all pools in \
         `postrider_pool_…` with the pool as a label (`docs/metrics.md`).\n\n\
         This page is rendered from the lists in `crates/mta/src/pools/list.rs` (`POOLS=write cargo test -p \
         postrider the_page_of_limits_is_fresh`).\n\n\
         | pool | use | size | shares | beyond | when it is scarce | test |\n|---|---|---|---|---|---|---|\n",
    );
    for pool in POOLS {
        let ResourcePool { id: _, name, amount, share, beyond, next_step, test } = pool;
        let word = pool.word();
        let _ = writeln!(
            page,
            "| `{word}` | {name} | {amount} | {share} | {beyond} | {next_step} | {test} |"
        );
    }
    page.push_str(
        "\n## Bounded records\n\n\
         Bounded as well, but without rejections: a client that fills one does not affect other clients.\n\n\
         | record | how much | why no share is needed |\n|---|---|---|\n",
    );
    for Memory { name, amount, why } in MEMORIES {
        let _ = writeln!(page, "| {name} | {amount} | {why} |");
    }
    page
}
