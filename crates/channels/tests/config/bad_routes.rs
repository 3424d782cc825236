//! Mistakes in conditions, fallbacks and relays of routes.

use super::bad::ROUTE;

pub(super) const ROUTES: &[(&str, &str, &str)] = &[
    (ROUTE, "when = {}\ndiscard = {}", "4:1: `when` is empty"),
    (
        ROUTE,
        "when = { senders = [] }\ndiscard = {}",
        "4:20: `senders` is empty, so the condition never holds",
    ),
    (
        ROUTE,
        "when = { senders = [\"a b\"] }\ndiscard = {}",
        "4:21: \"a b\" is neither an address nor a domain",
    ),
    (
        ROUTE,
        "when = { senders = [\"a@b.example\", \"a@b.example\"] }\ndiscard = {}",
        "4:36: \"a@b.example\" is listed twice",
    ),
    (ROUTE, "when = { senders = { table = \"t\" } }\ndiscard = {}", "4:30: unknown table \"t\""),
    (ROUTE, "when = { recipients = [\"<>\"] }\ndiscard = {}", "4:24: \"<>\" is not a recipient"),
    (ROUTE, "when = { listeners = [\"no\"] }\ndiscard = {}", "4:23: unknown listener \"no\""),
    (
        ROUTE,
        "when = { logins = [\"jo\"] }\ndiscard = {}",
        "4:19: no listener has logins, so the condition never holds",
    ),
    (
        ROUTE,
        "when = { tenants = [\"acme\"] }\ndiscard = {}",
        "4:20: no mail has a tenant, so the condition never holds",
    ),
    (
        ROUTE,
        "when = { tenants = [\"acne\"] }\ndiscard = {}\n[[tenant]]\nname = \"acme\"",
        "4:21: unknown tenant \"acne\"",
    ),
    (
        ROUTE,
        "domains = [\"b.example\", \"*.c.example\"]\n\
         when = { recipients = [\"jo@a.example\", \"@c.example\"] }\ndiscard = {}",
        "5:23: the recipients are outside the `domains` of the route, so the condition never holds",
    ),
    // Each error is found.
    (
        ROUTE,
        "domains = [\"b.example\"]\n[route.when]\ntenants = [\"acme\"]\nlogins = [\"jo\"]\n\
         recipients = [\"@a.example\"]\n[route.discard]",
        "6:11: no mail has a tenant, so the condition never holds\n\
         7:10: no listener has logins, so the condition never holds\n\
         8:14: the recipients are outside the `domains` of the route, so the condition never holds",
    ),
    (ROUTE, "when = { clients = [\"x\"] }\ndiscard = {}", "4:21: \"x\" is not a network"),
    (
        ROUTE,
        "when = { sender = [\"x\"] }\ndiscard = {}",
        "4:10: unknown key `sender` in `route.when`",
    ),
    (
        ROUTE,
        "or_addresses = [\"/C=GB/\"]\nwhen = { senders = [\"<>\"] }\ndiscard = {}",
        "5:1: `when` in a route with `or_addresses`",
    ),
    // A route that another one leaves no mail.
    (
        ROUTE,
        "when = { senders = [\"@a.example\"] }\ndiscard = {}\n[[route]]\n\
         when = { senders = [\"@a.example\"], recipients = [\"@b.example\"] }\ndiscard = {}",
        "7:1: route 2 is unreachable",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\ndiscard = {}\n[[route]]\ndomains = [\"a.example\"]\n\
         when = { senders = [\"<>\"] }\ndiscard = {}",
        "7:12: route 1 already has a.example",
    ),
    // Fallbacks.
    (
        ROUTE,
        "domains = [\"a.example\"]\nfallback = \"no\"\nsmtp = { hosts = [\"h\"] }",
        "5:12: unknown route \"no\"",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\nfallback = \"route-1\"\nsmtp = { hosts = [\"h\"] }",
        "5:12: fallbacks in a circle",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\nfallback = \"b\"\nsmtp = { hosts = [\"h\"] }\n[[route]]\n\
         name = \"b\"\ndomains = [\"b.example\"]\nfallback = \"route-1\"\nsmtp = { hosts = [\"h\"] }",
        "10:12: fallbacks in a circle",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\nfallback = \"route-2\"\nsmtp = { hosts = [\"h\"] }",
        "5:12: route \"route-2\" has no hosts",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\nfallback = \"route-2\"\ndiscard = {}",
        "5:12: `fallback` of a route without hosts",
    ),
    // Relays.
    (
        ROUTE,
        "domains = [\"a.example\"]\nsmtp = { hosts = [\"h\"], mx_of = \"r.example\" }",
        "5:33: both `hosts` and `mx_of` are set",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\nsmtp = { mx_of = \"[192.0.2.1]\" }",
        "5:18: \"[192.0.2.1]\" is not a domain",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\nsmtp = { hosts = [\"h\"], tls = \"verified\", login = { user = \"u\", \
         password_file = \"p\", key = \"sender\" } }",
        "5:92: `key` without `table`",
    ),
];
