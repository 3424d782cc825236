//! The catalogue of bad peers: next hops that misbehave, played against the real program.
//!
//! The tables in `rows` are the one place where it stands: each row says what the next hop does,
//! what became of the message, and what the next hop saw of us; `target/docs/bad-peers.md` is
//! rendered from them. All rows are played at once, against one server, each with a route and peers of its
//! own.
//!
//! With the environment variable `BAD_PEERS=write` what is observed is written into the tables,
//! for review; `BAD_PEERS=ID` plays one row alone.

mod bench;
mod page;
mod peer;
mod play;

use crate::support::table::Catalogue;

/// Rows in `rows`, the page `target/docs/bad-peers.md`.
const CATALOGUE: Catalogue = Catalogue {
    folder: "bad_peers",
    variable: "BAD_PEERS",
    names: &[
        "connect", "greeting", "ehlo", "tls", "login", "mail", "rcpt", "data", "bdat", "content",
        "end", "reuse", "quit", "lmtp", "mx",
    ],
    render: Some(page::render),
};

#[test]
fn every_row_is_played() {
    let tables = CATALOGUE.tables();
    let rows = tables.iter().flat_map(|table| &table.rows).enumerate();
    let plays = rows.filter(|(_, row)| CATALOGUE.is_wanted(row));
    let seen = bench::play(plays.map(|(number, row)| play::Play::new(number, row)).collect());
    CATALOGUE.compare(&tables, &seen);
}

#[test]
fn every_row_has_a_name_of_its_own() {
    CATALOGUE.check_rows(240);
}

#[test]
fn the_page_is_rendered() {
    CATALOGUE.render_page();
}
