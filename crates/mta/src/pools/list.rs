//! The lists: resource pools, those for incoming mail first, and bounded memories.

use super::{Memory, PoolId, ResourcePool};

/// All pools.
pub const POOLS: &[ResourcePool] = &[
    ResourcePool {
        id: PoolId::Sessions,
        name: "sessions of clients",
        amount: "`max_sessions` of a listener, and what the limit of open files leaves for them",
        share: "`max_sessions_per_address` for a network; a tenth for clients that may relay",
        beyond: "of the networks, and above them the IPv4 /24s and IPv6 /48s, that hold most, the session gives way \
                 that has been without a transaction for longest (421 4.3.2)",
        next_step: "raise `max_sessions`, or refuse the network (`[[access]]`)",
        test: "`way` `crowds::idle_sessions_of_a_hundred_networks_give_way_to_others`",
    },
    ResourcePool {
        id: PoolId::Handshakes,
        name: "TLS handshakes with clients",
        amount: "`max_handshakes` of `[tls]`",
        share: "ten for a network at a listener; a tenth for clients that may relay or were a user lately",
        beyond: "as sessions, those first that sent no ClientHello: the connection is closed",
        next_step: "raise `max_handshakes`, or refuse the network (`[[access]]`)",
        test: "`way` `crowds::handshakes_of_a_hundred_networks_give_way_to_others`",
    },
    ResourcePool {
        id: PoolId::Passwords,
        name: "passwords that wait to be hashed",
        amount: "256 in each of three lanes: known clients, strangers, those who failed lately",
        share: "known clients wait for nobody else; in the other lanes networks take turns, and wrong passwords take a \
                twentieth of the processors' time; guesses at nobody take no place",
        beyond: "454 4.7.0 after 10 s, or at once where the network holds most",
        next_step: "look who guesses (`login_failed` in the events), and refuse the network (`[[access]]`)",
        test: "`way` `login_pools`; `mta` `hashing_lanes::tests`",
    },
    ResourcePool {
        id: PoolId::Logins,
        name: "logins that a directory, Dovecot or an OAuth server decides",
        amount: "1,024 of Dovecot or a directory, 64 of an OAuth server",
        share: "a quarter for a network of strangers; a quarter is for clients that were a user lately",
        beyond: "waits in line, those first whose network holds least; 454 4.7.0 in the end",
        next_step: "look whether the server that decides answers in time",
        test: "`postrider` `logins::turns::tests::a_hundred_networks_leave_turns_to_others`",
    },
    ResourcePool {
        id: PoolId::SenderQuestions,
        name: "questions to the DNS about senders",
        amount: "100 on a shard",
        share: "a quarter for a zone, and for zones that answered within the hour; what is at hand needs no place",
        beyond: "waits in line; who is silent for 250 ms makes way (451 4.4.3 for that sender)",
        next_step: "look whether the name servers answer",
        test: "`way` `crowds::senders_of_slow_zones_keep_nobody_else_waiting`",
    },
    ResourcePool {
        id: PoolId::ListQuestions,
        name: "questions to lists in the DNS",
        amount: "100 on a shard",
        share: "a quarter for an IPv4 /24 or IPv6 /48, in which networks take turns",
        beyond: "waits in line, for 10 s at most, and is dropped when the client goes",
        next_step: "look whether the lists answer (`dnsbl`)",
        test: "`way` `crowds::questions_to_a_slow_list_take_turns_by_network`, `crowds::questions_to_lists_end_with…`",
    },
    ResourcePool {
        id: PoolId::CheckQuestions,
        name: "questions to the DNS of checks of messages",
        amount: "on a shard 50 of SPF, DKIM and ARC, 20 of authors' policies, 20 of clients' names",
        share: "a fifth for a network, and for an IPv6 /48; a quarter for zones that were silent the last time; what is \
                at hand needs no place",
        beyond: "waits in line; who is silent for 500 ms makes way; a check that is cut short defers (451)",
        next_step: "look whether the name servers answer",
        test: "`channels` `checks::turns::tests`; `way` `checks::slow_zones_of_a_hundred_networks_keep_nobody_else_waiting`",
    },
    ResourcePool {
        id: PoolId::TableQuestions,
        name: "questions to tables that are asked elsewhere",
        amount: "`max_waiting` of a table, of which `max_requests` are under way",
        share: "networks of clients, and above them IPv4 /24s and IPv6 /48s, take turns; what is cached needs no place",
        beyond: "the last question gives way of the network that has most (451 4.3.0)",
        next_step: "look whether the table's server answers (`postrider table list`)",
        test: "`postrider` `tables::registry::tests::a_hundred_networks_leave_turns…`; `lookup` `desk::tests::turns`",
    },
    ResourcePool {
        id: PoolId::PolicyQuestions,
        name: "questions to policy services",
        amount: "`max_connections` of a `[[policy]]`, on a shard",
        share: "whose network holds least comes first, and whose IPv4 /24 or IPv6 /48",
        beyond: "waits in line; `on_failure` after `timeout`",
        next_step: "look whether the service answers, or raise `max_connections`",
        test: "`way` `pools::questions_to_a_policy_service_take_turns_by_network`",
    },
    ResourcePool {
        id: PoolId::Expansions,
        name: "expansion of lists with more than 500 members",
        amount: "8 at once, 500 members in one go",
        share: "lists take turns, whoever names them; of other aliases a quarter for an IPv4 /24 or IPv6 /48, in which \
                networks take turns; a quarter is for clients that may relay; others go first between two goes; members \
                count in `recipients_per_minute` of the network",
        beyond: "waits in line; a list is expanded once for all who wait for it, is remembered for 5 s and needs no \
                 place then; who owes too much has nothing expanded (450 4.7.1)",
        next_step: "look who writes to the list, and who may (`[[access]]`)",
        test: "`way` `pools::expansion_of_large_lists…`, `pools::a_list_that_a_hundred_networks…`, \
               `pools::who_owes_for_the_members_of_lists…`",
    },
    ResourcePool {
        id: PoolId::Queue,
        name: "recipients in the queue",
        amount: "`queue_recipients_max` of `[spool]`",
        share: "a tenth for clients that may relay and users; from half of it on a hundredth of the rest for a \
                network, and a tenth for an IPv4 /24 or IPv6 /48; `queued_max` of a tenant",
        beyond: "452 4.3.1",
        next_step: "see what waits, and for what (`postrider queue summary`)",
        test: "`way` `pools::strangers_fill_no_more_of_the_queue_than_is_theirs`",
    },
    ResourcePool {
        id: PoolId::HeldMail,
        name: "mail that checks hold, and messages of X.400 peers that can't be read",
        amount: "a tenth of `queue_recipients_max` and of the spool",
        share: "a hundredth for a network, for a domain, and for a peer, which has 100 an hour by each shard",
        beyond: "451, and an X.400 peer keeps its message; what is held ends after `hold_for`",
        next_step: "release or remove what is held (`postrider queue list --held`)",
        test: "`mta` `holding::tests`; `way` `holds`, `x400_unreadable`",
    },
    ResourcePool {
        id: PoolId::OwnMailbox,
        name: "the postmaster's mailbox in the spool's directory",
        amount: "50 MiB",
        share: "none but it is touched: other mail goes on",
        beyond: "452 4.2.2, and 552 5.2.2 for one message that is larger",
        next_step: "read the mail, or give the postmaster's mail a route",
        test: "`way` `holds::postmasters_own_mailbox_takes_its_quota`",
    },
    ResourcePool {
        id: PoolId::Unbound,
        name: "associations that have not bound (X.400)",
        amount: "64 of a listener on a shard",
        share: "16 for a network; none are needed where a peer bound lately",
        beyond: "the oldest of the network that has most gives way",
        next_step: "name the hosts of peers (`hosts`), or refuse others by a firewall",
        test: "`channels` `x400::inbound::unbound::tests`; `way` `x400_peers::strangers_who_do_not_bind…`",
    },
    ResourcePool {
        id: PoolId::Challenges,
        name: "connections to where certificates are ordered (ACME)",
        amount: "64",
        share: "8 for a network",
        beyond: "the oldest of the networks that have most is closed; each lives 10 s at most",
        next_step: "nothing: the authority tries again",
        test: "`postrider` `acme::responder::tests::a_hundred_networks_leave_places_to_others`",
    },
    ResourcePool {
        id: PoolId::Connections,
        name: "connections to next hops",
        amount: "what the limit of open files leaves for them",
        share: "a quarter for next hops that have given no final reply (2yz or 5yz to a \
                recipient or a content) within the hour, half of that for those that failed or were silent, or whose \
                host's zone or network was, and for one zone of them; a zone that has one leaves half of the part to \
                others' first",
        beyond: "waits in line, those first whose zone holds least (`queue why`), which take turns; one that waits for a \
                 silent peer for 5 s (30 s if that was known to answer) is doubtful, and gives way to who holds less \
                 before content was sent; a host of which nothing is known gives way after 500 ms without a \
                 greeting, and has a second turn at once among the doubtful",
        next_step: "raise the limit of open files (`LimitNOFILE=`), or suspend the next hop (`postrider queue suspend`)",
        test: "`mta` `line::turns`, `line::tests`; `way` `outbound_pools`, `scarcity::hosts_that_greet_and_fall_silent…`",
    },
    ResourcePool {
        id: PoolId::Lookups,
        name: "DNS lookups for deliveries",
        amount: "`max_lookups` of `[dns]`, within the limit of open files",
        share: "a quarter for a zone, and for a tenant; three quarters for names that were not answered within the \
                hour, a quarter for names that were not answered the last time, or lie below a zone with such; \
                what is remembered needs no place",
        beyond: "waits in line, those first whose tenant and zone hold least; a resolution asks for 30 s at \
                 most; a name without an answer is not asked for again for 2 s to 1 min",
        next_step: "look whether the name servers answer, or raise `max_lookups`",
        test: "`mta` `line::turns`, `known_names::tests`; `way` `scarcity::a_hundred_dead_zones…`",
    },
    ResourcePool {
        id: PoolId::Reads,
        name: "memory for messages that are read back",
        amount: "a quarter of `body_memory_bytes`",
        share: "half for a next hop, and for a zone of hosts; a quarter is for next hops that are known to answer, \
                and those that were silent, or whose host's zone or network was, have a quarter; nothing is held once \
                the last 64 KiB of the content are being written",
        beyond: "waits in line; what is held for a silent peer for 5 s (500 ms if it is not known to answer, and longer \
                 each time) is let go for who holds less, and read back again when the peer goes on",
        next_step: "raise `body_memory_bytes`, or suspend the next hop (`postrider queue suspend`)",
        test: "`way` `scarcity::peers_that_are_silent_hold_no_memory…`, `x400_memory`",
    },
    ResourcePool {
        id: PoolId::Conversions,
        name: "memory for messages that are converted",
        amount: "an eighth of `body_memory_bytes`; half as many threads as processors, 1 to 4, of low priority, for \
                 what is longer than 64 KiB",
        share: "half for a next hop, and for a zone of hosts; a quarter is for next hops that the file names or that \
                are known to answer, and those that were silent, or whose host's zone or network was, have a quarter; \
                whoever holds least comes first, of one next hop strangers in turns of networks; nothing is held once \
                the last 64 KiB of the content are being written",
        beyond: "waits in line; what is held for a peer that is not known to answer is let go for who holds less, and \
                 converted again when the peer asks for it; of one that is known, after 5 s",
        next_step: "raise `body_memory_bytes`",
        test: "`way` `x400_conversions::domains_that_nobody_knows…`, `x400_memory`; `mta` `line::tests`, `line::turns`",
    },
    ResourcePool {
        id: PoolId::Workers,
        name: "workers that write mailboxes",
        amount: "512, and in each directory that routes name as many threads as its disk takes, eight at most",
        share: "routes: whoever holds least comes first, and who has several lets go for who has none; strangers' mail \
                for a route: IPv4 /24s and IPv6 /48s take turns, and networks within them, one for each recipient of \
                clients that may relay; each directory has threads of its own",
        beyond: "waits in line (`queue why`), and in the queue of its route",
        next_step: "look at the disks of the mailboxes",
        test: "`way` `mailbox_pools`; `queue` `backlog::tests`; `mta` `line::tests`; `postrider` `mailbox_files::tests::lanes`, \
               `desk::tests::strangers_of_a_hundred_networks…`",
    },
    ResourcePool {
        id: PoolId::Policies,
        name: "fetches of MTA-STS policies",
        amount: "64, a sixteenth of the limit of open files at most, and 1,024 domains that wait",
        share: "a quarter for domains that have a policy already; of the rest, and of those that wait, a quarter for a \
                zone, and for zones that were silent, took more than 250 ms or failed",
        beyond: "waits in line, for a minute at most; who is silent for 1 s makes way, and has a second turn of 15 s; a \
                 domain without an answer in that has no policy (RFC 8461 §3.3), and a silent address is left alone for \
                 5 min",
        next_step: "nothing: mail waits for its next try",
        test: "`postrider` `mta_sts::keeper::tests::a_hundred_zones_of_bad_web_servers…`",
    },
    ResourcePool {
        id: PoolId::Effects,
        name: "effects of shaping rules",
        amount: "2,000, those that are remembered included",
        share: "half for next hops alone, of these a quarter for hosts of one zone; providers' rules always find \
                room",
        beyond: "the oldest goes that is only remembered; else the rule has no effect, which is told once an \
                 hour",
        next_step: "see them (`postrider shaping list`), and end those that are not needed",
        test: "`mta` `shaping::book::tests`; `way` `outbound_pools::effects…`",
    },
];

/// Caches, and resources that are bounded without being shared.
pub const MEMORIES: &[Memory] = &[
    Memory {
        name: "memory for content that comes in",
        amount: "`body_memory_bytes`",
        why: "what has no room, or moves too slowly, goes to disk; a transaction's first 16 KiB of recipients are free",
    },
    Memory {
        name: "the spool's disk",
        amount: "`min_free_bytes` is left",
        why: "what strangers may have in the queue is shared above, and `max_message_bytes` bounds each; a disk that \
              is nearly full is a problem of its own (`log`)",
    },
    Memory {
        name: "commands, recipients, refusals",
        amount: "the rates of a listener",
        why: "they are counted by network, the members of lists with them",
    },
    Memory {
        name: "turns at a next hop",
        amount: "its connections and rates",
        why: "tenants take turns by weight, however urgent their mail is; strangers have one turn for each of those \
              who may relay, and take turns by network (`queue` `backlog::tests::who_calls_its_mail_urgent…`, \
              `backlog::tests::a_hundred_networks_of_strangers…`)",
    },
    Memory {
        name: "next hops that are asked for by recipient",
        amount: "64 on a shard",
        why: "scheduled queues take turns, and each answer has a deadline",
    },
    Memory {
        name: "files that aliases name, and pages of tables that are not in memory",
        amount: "8 reads at once",
        why: "strangers choose neither file nor disk; an answer counts for 5 seconds, and one that hangs has a deadline",
    },
    Memory {
        name: "PROXY headers that are awaited",
        amount: "5 s and 4 KiB each",
        why: "only proxies that the file names send them",
    },
    Memory {
        name: "unheard acknowledgements (X.400)",
        amount: "8,192",
        why: "peers are configured, and beyond it the oldest is forgotten",
    },
    Memory {
        name: "book of greylisting",
        amount: "500,000 entries",
        why: "who came again is kept before who came once",
    },
    Memory {
        name: "what is remembered of clients",
        amount: "65,536 networks, 32,768 clients and users who failed to log in, 65,536 users with 16 clients each",
        why: "who has a session, or owes most, is forgotten last",
    },
    Memory {
        name: "what is remembered of zones, names, hosts and next hops",
        amount: "65,536 names and zones, 16,384 failures of lookups, 20,000 hosts",
        why: "who was not heard of for longest is forgotten first, and is unknown again",
    },
    Memory {
        name: "tokens that an OAuth server knows",
        amount: "10,000",
        why: "only answers are kept; what is forgotten is asked for again",
    },
    Memory {
        name: "cached answers of tables and of the DNS, MTA-STS policies, expansions",
        amount: "`cache = { entries = … }` of a table, 10,000 policies, 40,000 members",
        why: "what is forgotten is asked for again, within the shares above",
    },
    Memory {
        name: "reports to senders",
        amount: "`[reports]`, per hour",
        why: "they are counted by sender; beyond 10,000 senders the rest share one",
    },
    Memory {
        name: "counts for DMARC and TLS reports",
        amount: "10,000 and 50,000 domains a day",
        why: "what is beyond is not counted, and no mail waits for it",
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
