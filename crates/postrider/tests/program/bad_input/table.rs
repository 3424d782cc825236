//! The tables of this catalogue.

use crate::support::table::Catalogue;
pub(crate) use crate::support::table::{Row, step};

/// Rows in `rows`, the page `target/docs/bad-input.md`.
pub(crate) const CATALOGUE: Catalogue = Catalogue {
    folder: "bad_input",
    variable: "BAD_INPUT",
    names: &[
        "dialogue",
        "addresses",
        "limits",
        "smuggling",
        "dsn",
        "steering",
        "config",
        "start",
        "entries",
        "spool",
        "control",
        "http",
        "command",
        "directory",
        "copies",
        "call_ahead",
        "arrivals",
        "milters",
        "login",
        "login_servers",
        "checks",
        "x400",
        "x400_apdus",
        "x400_called",
    ],
    render: Some(super::page::render),
};

/// Returns true if observations are to be written into the tables.
pub(crate) fn is_writing() -> bool {
    CATALOGUE.is_writing()
}

/// Plays each row of a table and compares its lines with those that `play` returns.
pub(crate) fn check(name: &str, play: impl FnMut(&Row) -> Vec<String>) {
    CATALOGUE.check(name, play);
}

#[test]
fn every_row_has_a_name_of_its_own() {
    CATALOGUE.check_rows(250);
}
