//! Bad settings of `pipe`.

use super::bad::ROUTE;

/// As the others: frame, what is put into it, and the error.
pub(crate) const PIPES: &[(&str, &str, &str)] = &[
    (ROUTE, "domains = [\"a.example\"]\npipe = {}", "5:1: not a command"),
    (ROUTE, "domains = [\"a.example\"]\npipe = { command = [] }", "5:20: not a command"),
    (ROUTE, "domains = [\"a.example\"]\npipe = { command = [\"post\"] }", "5:21: not a command"),
    (
        ROUTE,
        "domains = [\"a.example\"]\npipe = { command = [\"/bin/post\", \"{who}\"] }",
        "5:34: not a command",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\npipe = { command = [\"/bin/post\"], user = \"\" }",
        "5:42: empty name",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\npipe = { command = [\"/bin/post\"], timeout = \"0s\" }",
        "5:45: a timeout must be longer than 0",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\npipe = { command = [\"/bin/post\"], max_processes = 0 }",
        "5:51: `max_processes` must be between 1 and 1000",
    ),
];
