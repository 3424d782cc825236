//! The message's way, from a client to a next hop or a mailbox and back as a report: one shard in a
//! world of its own (`world.rs`), with a log on a disk in memory, a clock that goes on when nobody has
//! anything to do, scripted peers, and an operator. What whole machines do over days is the
//! simulator's.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod access;
mod arrivals;
#[path = "../support/author_forms.rs"]
mod author_forms;
mod authors;
mod bad_x400;
mod batch;
mod checks;
mod client;
mod conditions;
mod copies;
mod crowds;
mod custody;
mod directory;
mod dmarc;
mod forwarding;
mod header_checks;
mod holds;
mod hosts;
mod identity;
mod ingress;
mod lesser_hosts;
mod login_limits;
mod login_pools;
mod mailbox_pools;
mod mailbox_store;
mod mailboxes;
mod milters;
mod next_hosts;
mod node;
mod operator;
mod orders;
mod outbound_pools;
mod outcome;
mod owners;
mod peer;
mod policies;
mod pools;
mod repeated_data;
mod report;
mod rights;
mod routing;
mod rules;
mod scarcity;
mod shaping;
mod stages;
mod steering;
mod step_table;
mod strangers;
mod submission;
mod tables;
mod time;
mod values;
mod wants;
mod warmup;
mod world;
mod x400;
mod x400_conversions;
mod x400_memory;
mod x400_peers;
mod x400_unreadable;
