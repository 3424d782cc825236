//! Mistakes in what is checked of strangers before their message.

use super::bad::LISTENER;

/// As the table of all mistakes.
pub(crate) const CHECKS: &[(&str, &str, &str)] = &[
    (
        LISTENER,
        "checks = { dnsbl = true }",
        "3:20: `dnsbl` must be a list or a table, not true or false",
    ),
    (LISTENER, "checks = { dnsbl = [\"zen\"] }", "3:21: \"zen\" is not a DNSBL zone"),
    (
        LISTENER,
        "checks = { dnsbl = [\"a.example=127.0.0.x\"] }",
        "3:21: \"127.0.0.x\" is not a set of answers",
    ),
    (
        LISTENER,
        "checks = { dnsbl = { sender_lists = [\"a.example*0\"] } }",
        "3:38: \"0\" is not a score: -100 to 100, except 0",
    ),
    (
        LISTENER,
        "checks = { dnsbl = { list = [] } }",
        "3:22: unknown key `list` in `listener.checks.dnsbl`",
    ),
    (LISTENER, "checks = { dnsbl = { threshold = 0 } }", "3:34: `threshold` must be at least 1"),
    (LISTENER, "checks = { dnsbl = { timeout = \"31s\" } }", "3:32: longer than 30 seconds"),
    (
        LISTENER,
        "checks = { dnsbl = { action = \"drop\" } }",
        "3:31: invalid value \"drop\" for `action`",
    ),
    (
        LISTENER,
        "checks = { greylist = 5 }",
        "3:23: `greylist` must be true or false or a table, not a whole number",
    ),
    (
        LISTENER,
        "checks = { greylist = { delai = \"1m\" } }",
        "3:25: unknown key `delai` in `listener.checks.greylist`",
    ),
    (LISTENER, "checks = { greylist = { delay = \"25h\" } }", "3:33: longer than a day"),
    (
        LISTENER,
        "checks = { greylist = { delay = \"1h\", retry_window = \"1h\" } }",
        "3:54: `retry_window` ends before `delay`: no retry would be in time",
    ),
    (
        LISTENER,
        "checks = { greylist = { ipv4_prefix = 33 } }",
        "3:39: `ipv4_prefix` must be between 8 and 32",
    ),
    (
        LISTENER,
        "checks = { exempt_clients = { table = \"none\" } }",
        "3:39: unknown table \"none\"",
    ),
];
