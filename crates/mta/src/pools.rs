//! What there is a limited amount of, and strangers can use up: how much, who has which share, and what
//! becomes of those who want more. `docs/limits.md` is made of this list.

use std::fmt::Write as _;

/// Something of which there is a limited amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// What it is.
    pub name: &'static str,
    /// How much of it there is, and the key that says so.
    pub amount: &'static str,
    /// Who has which part.
    pub share: &'static str,
    /// What becomes of who wants more.
    pub beyond: &'static str,
    /// What shows that others are served, whatever one does.
    pub test: &'static str,
}

/// All of them, those of mail that comes in first.
pub const POOLS: &[Pool] = &[
    Pool {
        name: "Connections to next hops",
        amount: "what the limit of open files leaves for them",
        share: "a quarter for next hops that have given no final reply (2yz or 5yz to a \
                recipient or a content) within the hour, half of that for those that failed or were silent, and \
                for one zone of them; a zone that has one leaves half of the part to others' first",
        beyond: "waits in line, those first whose zone holds least (`queue why`); one that waits for a silent \
                 peer for 30 s loses its standing, and gives way to who holds less before content was sent",
        test: "`mta` `line::turns`, `line::tests`; `way` `scarcity::hosts_that_greet_and_fall_silent…`",
    },
    Pool {
        name: "DNS lookups for deliveries",
        amount: "`max_lookups` of `[dns]`, within the limit of open files",
        share: "a quarter for a zone, and for a tenant; three quarters for names that were not answered within the \
                hour, a quarter for names that were not answered the last time, or lie below a zone with such; \
                what is remembered needs no place",
        beyond: "waits in line, those first whose tenant and zone hold least; a resolution asks for 30 s at \
                 most; a name without an answer is not asked for again for 2 s to 1 min",
        test: "`mta` `line::turns`, `known_names::tests`; `way` `scarcity`",
    },
    Pool {
        name: "Memory for messages that are read back",
        amount: "a quarter of `body_memory_bytes`",
        share: "half for a next hop; a quarter is for next hops that are known to answer, and those that were \
                silent have a quarter; nothing is held once the content is written",
        beyond: "waits in line; what is held for a silent peer for 5 s is let go for who holds less, and \
                 read back again when the peer goes on",
        test: "`way` `scarcity::peers_that_are_silent_hold_no_memory…`",
    },
    Pool {
        name: "Memory for messages that are converted",
        amount: "an eighth of `body_memory_bytes`",
        share: "whoever holds least comes first; nothing is held once the content is written",
        beyond: "waits in line",
        test: "`mta` `line::tests`",
    },
    Pool {
        name: "Threads that convert what is longer than 64 KiB",
        amount: "half as many as there are processors, 1 to 4, of low priority",
        share: "those of messages that have memory to be converted in, the first first",
        beyond: "waits; shards go on meanwhile",
        test: "`way` `x400_conversions`",
    },
    Pool {
        name: "Messages of X.400 peers that can't be read",
        amount: "of what is for held mail: a tenth of `queue_recipients_max` and of the spool",
        share: "a hundredth for a peer, 100 an hour by each shard",
        beyond: "is refused for now, and stays with the peer; after `hold_for` it is removed",
        test: "`way` `x400_unreadable`; `mta` `holding::tests`",
    },
    Pool {
        name: "Workers that write mailboxes",
        amount: "512",
        share: "whoever holds least comes first; who has several lets go for who has none",
        beyond: "waits in line (`queue why`)",
        test: "`mta` `line::tests`",
    },
    Pool {
        name: "Fetches of MTA-STS policies",
        amount: "64, a sixteenth of the limit of open files at most",
        share: "a quarter for domains that have a policy already; of the rest a quarter for a zone",
        beyond: "waits in line, for a minute at most; a domain without an answer within 15 s has no policy \
                 (RFC 8461 §3.3), and a silent address is left alone for 5 min",
        test: "`postrider` `mta_sts::keeper::tests::a_zone_of_slow_web_servers…`",
    },
    Pool {
        name: "Effects of shaping rules",
        amount: "2,000, those that are remembered included",
        share: "half for next hops alone, of these a quarter for hosts of one zone; providers' rules always find \
                room",
        beyond: "the oldest goes that is only remembered; else the rule has no effect, which is told once an \
                 hour",
        test: "`mta` `shaping::book::tests`",
    },
    Pool {
        name: "Turns at a next hop",
        amount: "its connections and rates",
        share: "tenants by weight, however urgent their mail is; within a tenant's turn by priority",
        beyond: "waits for its turn",
        test: "`queue` `backlog::tests::who_calls_its_mail_urgent…`",
    },
];

/// The page.
#[must_use]
pub fn page() -> String {
    let mut page = String::from(
        "# Limits\n\n\
         What there is a limited amount of, and strangers can use up. Everybody else has a share all the same: shares \
         go by what a stranger can't have as many of as he likes at no cost, a client's network (an IPv4 address, an \
         IPv6 /64), the zone in which a name was registered, a next hop, a tenant. `postrider status` names what is \
         scarce while somebody waits for it.\n\n\
         This page is made of the list in `crates/mta/src/pools.rs` (`POOLS=write cargo test -p postrider \
         the_page_of_limits_is_fresh`).\n\n\
         | what | how much | shares | beyond | test |\n|---|---|---|---|---|\n",
    );
    for Pool { name, amount, share, beyond, test } in POOLS {
        let _ = writeln!(page, "| {name} | {amount} | {share} | {beyond} | {test} |");
    }
    page
}
