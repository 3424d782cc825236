//! The page about pools.

use super::list::{MEMORIES, POOLS};
use super::{Memory, Pool};
use std::fmt::Write as _;

/// `docs/limits.md`.
#[must_use]
pub fn page() -> String {
    let mut page = String::from(
        "# Limits\n\n\
         What there is a limited amount of, and strangers can use up. Everybody else has a share all the same: shares \
         go by what a stranger can't have as many of as he likes at no cost, a client's network (an IPv4 address, an \
         IPv6 /64), the IPv4 /24s and IPv6 /48s above it, the zone in which a name was registered, a next hop, a \
         tenant, a listener.\n\n\
         While somebody waits for a pool, or is turned away from it, `postrider status` has a problem of the kind \
         `pool` that names it, who waits, who holds most and the next step; `/healthz` has it as a warning \
         (`degraded`, with 200), the console after ten seconds, and `/metrics` has the numbers of all pools in \
         `postrider_pool_…` with the pool as a label (`docs/metrics.md`).\n\n\
         This page is made of the lists in `crates/mta/src/pools/list.rs` (`POOLS=write cargo test -p postrider \
         the_page_of_limits_is_fresh`).\n\n\
         | pool | what | how much | shares | beyond | when it is scarce | test |\n|---|---|---|---|---|---|---|\n",
    );
    for pool in POOLS {
        let Pool { id: _, name, amount, share, beyond, next_step, test } = pool;
        let word = pool.word();
        let _ = writeln!(
            page,
            "| `{word}` | {name} | {amount} | {share} | {beyond} | {next_step} | {test} |"
        );
    }
    page.push_str(
        "\n## What is remembered\n\n\
         Bounded as well, but nobody is refused for want of it: strangers who fill it harm nobody else.\n\n\
         | what | how much | why no share is needed |\n|---|---|---|\n",
    );
    for Memory { name, amount, why } in MEMORIES {
        let _ = writeln!(page, "| {name} | {amount} | {why} |");
    }
    page
}
