//! The lists: resource pools, those for incoming mail first, and bounded memories.

use super::{Memory, PoolId, ResourcePool};

/// All pools.
pub const POOLS: &[ResourcePool] = &[
    ResourcePool {
        id: PoolId::Sessions,
        name: "sessions of clients",
        amount: "`max_sessions` of a listener, and the part of the open-file limit left for them",
        share: "`max_sessions_per_address` for a network; a tenth for clients that may relay",
        beyond: "the network, and above it the IPv4 /24 or IPv6 /48, that holds most loses its \
         session longest without a transaction (421 4.3.2)",
        next_step: "raise `max_sessions`, or reject the network (`[[access]]`)",
        test: "`way` `crowds::idle_sessions_of_a_hundred_networks_give_way_to_others`",
    },
    ResourcePool {
        id: PoolId::Handshakes,
        name: "TLS handshakes with clients",
        amount: "`max_handshakes` of `[tls]`",
        share: "ten for a network at a listener; a tenth for clients that may relay or were a user lately",
        beyond: "as sessions, those first that sent no ClientHello: the connection is closed",
        next_step: "raise `max_handshakes`, or reject the network (`[[access]]`)",
        test: "`way` `crowds::handshakes_of_a_hundred_networks_give_way_to_others`",
    },
    ResourcePool {
        id: PoolId::Passwords,
        name: "passwords that wait to be hashed",
        amount: "256 in each of three lanes: known clients, unknown clients, clients with recent \
         failures",
        share: "known clients wait for no other client; in the other lanes networks take turns, \
         and wrong passwords use a twentieth of the processor time; guesses at unknown users need \
         no permit",
        beyond: "454 4.7.0 after 10 s, or at once where the network holds most",
        next_step: "find the guessing network (`login_failed` in the events), and reject it \
         (`[[access]]`)",
        test: "`way` `login_pools`; `mta` `hashing_lanes::tests`",
    },
    ResourcePool {
        id: PoolId::Logins,
        name: "logins that a directory, Dovecot or an OAuth server decides",
        amount: "1,024 of Dovecot or a directory, 64 of an OAuth server",
        share: "a quarter for a network of unknown clients; a quarter is for recently \
         authenticated clients",
        beyond: "waits in line, the network that holds least first; 454 4.7.0 in the end",
        next_step: "check whether the authentication server answers in time",
        test: "`postrider` `logins::turns::tests::a_hundred_networks_leave_turns_to_others`",
    },
    ResourcePool {
        id: PoolId::SenderQuestions,
        name: "DNS queries about senders",
        amount: "100 on a shard",
        share: "a quarter for a zone, and for zones that answered within the hour; cached answers \
         need no permit",
        beyond: "waits in line; a zone silent for 250 ms loses its permit (451 4.4.3 for that sender)",
        next_step: "check whether the name servers answer",
        test: "`way` `crowds::senders_of_slow_zones_keep_nobody_else_waiting`",
    },
    ResourcePool {
        id: PoolId::ListQuestions,
        name: "DNSBL queries",
        amount: "100 on a shard",
        share: "a quarter for an IPv4 /24 or IPv6 /48, in which networks take turns",
        beyond: "waits in line, for 10 s at most, and is dropped when the client goes",
        next_step: "check whether the lists answer (`dnsbl`)",
        test: "`way` `crowds::questions_to_a_slow_list_take_turns_by_network`, `crowds::questions_to_lists_end_with…`",
    },
    ResourcePool {
        id: PoolId::CheckQuestions,
        name: "DNS queries of message checks",
        amount: "on a shard 50 of SPF, DKIM and ARC, 20 of authors' policies, 20 of clients' names",
        share: "a fifth for a network, and for an IPv6 /48; a quarter for zones that were silent \
         the last time; cached answers need no permit",
        beyond: "waits in line; a zone silent for 500 ms loses its permit; a check that is cut \
         short defers (451)",
        next_step: "check whether the name servers answer",
        test: "`channels` `checks::turns::tests`; `way` `checks::slow_zones_of_a_hundred_networks_keep_nobody_else_waiting`",
    },
    ResourcePool {
        id: PoolId::TableQuestions,
        name: "queries to remote tables",
        amount: "`max_waiting` of a table, of which `max_requests` are in progress",
        share: "networks of clients, and above them IPv4 /24s and IPv6 /48s, take turns; cached \
         answers need no permit",
        beyond: "the network with most queries loses its last one (451 4.3.0)",
        next_step: "check whether the table's server answers (`postrider table list`)",
        test: "`postrider` `tables::registry::tests::a_hundred_networks_leave_turns…`; `lookup` `desk::tests::turns`",
    },
    ResourcePool {
        id: PoolId::PolicyQuestions,
        name: "queries to policy services",
        amount: "`max_connections` of a `[[policy]]`, on a shard",
        share: "connections are given first to the network with the fewest, and to the IPv4 /24 or IPv6 /48 above with the fewest",
        beyond: "waits in line; `on_failure` after `timeout`",
        next_step: "check whether the service answers, or raise `max_connections`",
        test: "`way` `pools::questions_to_a_policy_service_take_turns_by_network`",
    },
    ResourcePool {
        id: PoolId::Expansions,
        name: "expansion of lists with more than 500 members",
        amount: "8 at once, 500 members in one go",
        share: "lists take turns, independent of the client; of other aliases a quarter for an \
         IPv4 /24 or IPv6 /48, in which networks take turns; a quarter is for clients that may \
         relay; other lookups go first between two steps; members count in \
         `recipients_per_minute` of the network",
        beyond: "waits in line; a list is expanded once for all waiting clients, and cached for 5 \
         s, when it needs no permit; a network over its rate gets no expansion (450 4.7.1)",
        next_step: "check the senders of the list, and restrict them (`[[access]]`)",
        test: "`way` `pools::expansion_of_large_lists…`, `pools::a_list_that_a_hundred_networks…`, \
               `pools::who_owes_for_the_members_of_lists…`",
    },
    ResourcePool {
        id: PoolId::Queue,
        name: "recipients in the queue",
        amount: "`queue_recipients_max` of `[spool]`",
        share: "a tenth for clients that may relay and users; above half of the queue a hundredth \
         of the rest for a network, and a tenth for an IPv4 /24 or IPv6 /48; `queued_max` of a \
         tenant",
        beyond: "452 4.3.1",
        next_step: "check the queue (`postrider queue summary`)",
        test: "`way` `pools::strangers_fill_no_more_of_the_queue_than_is_theirs`",
    },
    ResourcePool {
        id: PoolId::HeldMail,
        name: "mail held by checks, and unreadable messages of X.400 peers",
        amount: "a tenth of `queue_recipients_max` and of the spool",
        share: "a hundredth for a network, for a domain, and for a peer, which has 100 an hour by each shard",
        beyond: "451, and an X.400 peer keeps its message; a hold ends after `hold_for`",
        next_step: "release or remove held mail (`postrider queue list --held`)",
        test: "`mta` `holding::tests`; `way` `holds`, `x400_unreadable`",
    },
    ResourcePool {
        id: PoolId::OwnMailbox,
        name: "the postmaster's mailbox in the spool's directory",
        amount: "50 MiB",
        share: "other mail is not affected",
        beyond: "452 4.2.2, and 552 5.2.2 for one message that is larger",
        next_step: "read the mail, or give the postmaster's mail a route",
        test: "`way` `holds::postmasters_own_mailbox_takes_its_quota`",
    },
    ResourcePool {
        id: PoolId::Unbound,
        name: "associations that have not bound (X.400)",
        amount: "64 of a listener on a shard",
        share: "16 for a network; none are needed where a peer bound lately",
        beyond: "the network with most associations has its oldest one closed",
        next_step: "name the hosts of peers (`hosts`), or reject other clients by a firewall",
        test: "`channels` `x400::inbound::unbound::tests`; `way` `x400_peers::strangers_who_do_not_bind…`",
    },
    ResourcePool {
        id: PoolId::Challenges,
        name: "connections for ACME challenges",
        amount: "64",
        share: "8 for a network",
        beyond: "the network with most connections has its oldest one closed; a connection lasts at most 10 s",
        next_step: "nothing: the authority tries again",
        test: "`postrider` `acme::responder::tests::a_hundred_networks_leave_places_to_others`",
    },
    ResourcePool {
        id: PoolId::Connections,
        name: "connections to next hops",
        amount: "the part of the open-file limit left for them",
        share: "a quarter for next hops without a final reply (2yz or 5yz to a recipient or a \
         content) within the hour; half of that for next hops that failed or were silent, or with \
         a host in a failed or silent zone or network; as much for one of these zones; a zone \
         that has one leaves half of the part to the first connections of other zones",
        beyond: "waits in line, the zone that holds least first (`queue why`), in turns; a \
         connection that waits for a silent peer for 5 s (30 s if the peer was known to answer) \
         is doubtful; before content was sent, a zone that holds less displaces it; an \
         unknown host is displaced after 500 ms without a greeting, and has a second turn at once \
         among the doubtful",
        next_step: "raise the limit of open files (`LimitNOFILE=`), or suspend the next hop (`postrider queue suspend`)",
        test: "`mta` `line::turns`, `line::tests`; `way` `outbound_pools`, `scarcity::hosts_that_greet_and_fall_silent…`",
    },
    ResourcePool {
        id: PoolId::Lookups,
        name: "DNS lookups for deliveries",
        amount: "`max_lookups` of `[dns]`, within the limit of open files",
        share: "a quarter for a zone, and for a tenant; three quarters for names not answered \
         within the hour, a quarter for names not answered the last time and names below their \
         zones; cached answers need no permit",
        beyond: "waits in line, the tenant and zone that hold least first; a resolution takes at \
         most 30 s; a name without an answer is not looked up again for 2 s to 1 min",
        next_step: "check whether the name servers answer, or raise `max_lookups`",
        test: "`mta` `line::turns`, `known_names::tests`; `way` `scarcity::a_hundred_dead_zones…`",
    },
    ResourcePool {
        id: PoolId::Reads,
        name: "memory for messages read back from the spool",
        amount: "a quarter of `body_memory_bytes`",
        share: "half for a next hop, and for a zone of hosts; a quarter is for next hops that are \
         known to answer; next hops that were silent, or with a host in a silent zone or network, \
         have a quarter; memory is free once the last 64 KiB of the content are being written",
        beyond: "waits in line; memory held for a silent peer for 5 s (500 ms if not known to \
         answer, longer each time) is released to a next hop that holds less; the message \
         is read back again when the peer continues",
        next_step: "raise `body_memory_bytes`, or suspend the next hop (`postrider queue suspend`)",
        test: "`way` `scarcity::peers_that_are_silent_hold_no_memory…`, `x400_memory`",
    },
    ResourcePool {
        id: PoolId::Conversions,
        name: "memory for messages in conversion",
        amount: "an eighth of `body_memory_bytes`; half as many threads as processors, 1 to 4, of \
         low priority, for messages over 64 KiB",
        share: "half for a next hop, and for a zone of hosts; a quarter is for next hops of the \
         configuration or known to answer; next hops that were silent, or with a host in a silent \
         zone or network, have a quarter; the next hop that holds least comes first, and for one \
         next hop unauthenticated clients by networks in turns; memory is free once the last 64 \
         KiB of the content are being written",
        beyond: "waits in line; memory held for a peer that is not known to answer is released to \
         a next hop that holds less, for a known peer after 5 s; the message is converted again \
         when the peer is ready",
        next_step: "raise `body_memory_bytes`",
        test: "`way` `x400_conversions::domains_that_nobody_knows…`, `x400_memory`; `mta` `line::tests`, `line::turns`",
    },
    ResourcePool {
        id: PoolId::Workers,
        name: "workers that write mailboxes",
        amount: "512, and in each directory of a route as many threads as its disk sustains, at \
         most eight",
        share: "routes: the route that holds least comes first, and a route with several yields \
         one to a route without; mail of unauthenticated clients for a route: IPv4 /24s and IPv6 \
         /48s take turns, and networks within them, one for each recipient of clients that may \
         relay; each directory has its own threads",
        beyond: "waits in line (`queue why`), and in the queue of its route",
        next_step: "check the disks of the mailboxes",
        test: "`way` `mailbox_pools`; `queue` `backlog::tests`; `mta` `line::tests`; `postrider` `mailbox_files::tests::lanes`, \
               `desk::tests::strangers_of_a_hundred_networks…`",
    },
    ResourcePool {
        id: PoolId::Policies,
        name: "fetches of MTA-STS policies",
        amount: "64, a sixteenth of the limit of open files at most, and 1,024 domains that wait",
        share: "a quarter for domains with a policy; of the rest, and of the waiting domains, a \
         quarter for a zone, and for zones that were silent, took more than 250 ms or failed",
        beyond: "waits in line, for a minute at most; a host silent for 1 s loses its permit, and \
         has a second turn of 15 s; a domain without an answer by then has no policy (RFC 8461 \
         §3.3), and a silent address is not tried for 5 min",
        next_step: "nothing: mail waits for its next try",
        test: "`postrider` `mta_sts::keeper::tests::a_hundred_zones_of_bad_web_servers…`",
    },
    ResourcePool {
        id: PoolId::Effects,
        name: "effects of shaping rules",
        amount: "2,000, with effects kept after their end",
        share: "half for next hops alone, of these a quarter for hosts of one zone; rules of \
         providers always fit",
        beyond: "the oldest effect kept after its end is dropped; else the rule has no effect, \
         which is logged once an hour",
        next_step: "list them (`postrider shaping list`), and end the unneeded",
        test: "`mta` `shaping::book::tests`; `way` `outbound_pools::effects…`",
    },
];

/// Caches, and resources that are bounded without being shared.
pub const MEMORIES: &[Memory] = &[
    Memory {
        name: "memory for content that comes in",
        amount: "`body_memory_bytes`",
        why: "content that does not fit, or arrives too slowly, goes to disk; a transaction's \
         first 16 KiB of recipients are free",
    },
    Memory {
        name: "the spool's disk",
        amount: "`min_free_bytes` is left",
        why: "the queue is shared as above, and `max_message_bytes` bounds each message; a nearly \
         full disk is a separate problem (`log`)",
    },
    Memory {
        name: "commands, recipients, refusals",
        amount: "the rates of a listener",
        why: "they are counted by network, with the members of lists",
    },
    Memory {
        name: "turns at a next hop",
        amount: "its connections and rates",
        why: "tenants take turns by weight, independent of priority; unauthenticated clients have \
         one turn for each turn of clients that may relay, and take turns by network (`queue` \
         `backlog::tests::who_calls_its_mail_urgent…`, \
         `backlog::tests::a_hundred_networks_of_strangers…`)",
    },
    Memory {
        name: "programs of `pipe` routes",
        amount: "`max_processes` of a route, each for `timeout` at most; 16 are started at once",
        why: "further recipients wait in the queue of their route, and other routes have their own \
         programs",
    },
    Memory {
        name: "next hops looked up by recipient",
        amount: "64 on a shard",
        why: "scheduled queues take turns, and each answer has a deadline",
    },
    Memory {
        name: "files of aliases, and pages of tables that are not in memory",
        amount: "8 reads at once",
        why: "clients choose neither file nor disk; an answer is cached for 5 seconds, and a \
         hanging read has a deadline",
    },
    Memory {
        name: "pending PROXY headers",
        amount: "5 s and 4 KiB each",
        why: "only configured proxies send them",
    },
    Memory {
        name: "possibly lost acknowledgements (X.400)",
        amount: "8,192",
        why: "peers are configured, and beyond it the oldest is forgotten",
    },
    Memory {
        name: "counts of `[[limit]]`",
        amount: "1,310,720 values for each property, in 64 octets each with the default limits",
        why: "the values with the smallest counts are evicted first: new senders displace no value \
         that is near its limit",
    },
    Memory {
        name: "`[[rewrite]]` of one message",
        amount: "16 messages that it becomes, and 10,000 addresses looked up",
        why: "the rules of the operator decide; beyond it the message gets 451 4.3.5, and further \
         addresses stay",
    },
    Memory {
        name: "greylist",
        amount: "500,000 entries",
        why: "clients that retried are kept before clients seen once",
    },
    Memory {
        name: "records of clients",
        amount: "65,536 networks, 32,768 clients and users with failed logins, 65,536 users with \
         16 clients each",
        why: "clients with a session or the largest excess are evicted last",
    },
    Memory {
        name: "records of zones, names, hosts and next hops",
        amount: "65,536 names and zones, 16,384 failures of lookups, 20,000 hosts",
        why: "the least recently used is evicted first, and is unknown again",
    },
    Memory {
        name: "verdicts about OAuth tokens",
        amount: "10,000",
        why: "only answers are cached; an evicted token is looked up again",
    },
    Memory {
        name: "caches: answers of tables and of the DNS, MTA-STS policies, members of lists",
        amount: "`cache = { entries = … }` of a table, 10,000 policies, 40,000 members",
        why: "evicted answers are looked up again, within the shares above",
    },
    Memory {
        name: "reports to senders",
        amount: "`[reports]`, per hour",
        why: "they are counted by sender; beyond 10,000 senders the rest share one counter",
    },
    Memory {
        name: "counts for DMARC and TLS reports",
        amount: "10,000 and 50,000 domains a day",
        why: "further domains are not counted, and no mail waits for it",
    },
    Memory {
        name: "metrics by tenant, campaign and source",
        amount: "10,000 names",
        why: "the rest is counted together",
    },
    Memory {
        name: "events",
        amount: "`waiting_max`",
        why: "mail does not wait for them, and refusals are limited by rate",
    },
];
