//! The configuration with every section that there is: what files mean, and what is wrong with them.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod bad;
mod bad_checks;
mod bad_events;
mod bad_limits;
mod bad_local;
mod bad_logins;
mod bad_pipe;
mod bad_rewrite;
mod bad_routes;
mod bad_signing;
mod bad_warmup;
mod bad_x400;
mod conditions;
mod explained;
mod good;
mod listener_keys;
mod remedies;
