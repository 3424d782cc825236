//! `target/docs/bad-peers.md`, rendered from the tables.

use super::play::is_done;
use crate::support::table::{Row, Table, code, contents};

const HEAD: &str = "\
# Bad peers

<!-- Generated from the tables in crates/postrider/tests/program/bad_peers/rows; edit those, then run
     `make docs`. -->

What Postrider does with next hops that misbehave. Each row is a test that is played against the
running program: `BAD_PEERS=ROW cargo test --workspace --test program bad_peers` plays one alone.

Unless a row says otherwise a message from `me@source.test` to one recipient goes by a static route
to one peer, which offers PIPELINING, SIZE, 8BITMIME and DSN, and does what a good one does; retries
begin after two seconds, those of connecting after one.

The second column is what the peer does: when, and what it says then. `#1` is the first time, `#2+`
from the second time on; octets are written `\\r`, `\\xHH`, and `\\*N{…}` is N times what stands in
braces. The third is what the event log says (`docs/events.md`), events about the next hop first;
`next_try` is from the event on. The last is what each connection brought to the peer, in the order
in which it came: `(content)` is the content, whole and as it was handed in, `(gone)` the end of a
connection without QUIT; sizes are shown as N.
";

/// The page.
pub(crate) fn render(tables: &[Table]) -> String {
    let mut page = format!("{HEAD}{}", contents(tables));
    for table in tables {
        page.push_str(&format!("\n## {}\n\n", table.title));
        if !table.about.is_empty() {
            page.push_str(&format!("{}\n\n", table.about));
        }
        page.push_str("| row | what the peer does | the events | what the peer sees |\n");
        page.push_str("|---|---|---|---|\n");
        table.rows.iter().for_each(|row| page.push_str(&render_row(row)));
    }
    page
}

fn render_row(row: &Row) -> String {
    let mut done = vec![row.what.clone()];
    let (mut events, mut seen) = (Vec::new(), Vec::new());
    for (kind, rest) in row.steps() {
        match kind {
            "until" => {}
            "peer" => done.push(code(rest)),
            _ if is_done(kind) => done.push(format!("{kind}: {}", code(rest))),
            "E" => events.push(code(rest)),
            _ => seen.push(match kind {
                "C1" => code(rest),
                _ => format!("peer {}: {}", &kind[1..], code(rest)),
            }),
        }
    }
    if seen.is_empty() {
        seen.push("nothing".to_owned());
    }
    let cell = |lines: Vec<String>| lines.join("<br>");
    format!("| `{}` | {} | {} | {} |\n", row.id, cell(done), cell(events), cell(seen))
}

#[test]
fn a_row_is_rendered_whole() {
    let line = |text: &str| text.to_owned();
    let row = Row {
        id: line("x"),
        what: line("What."),
        lines: ["hosts: 2", "peer: a|b", "E: failed", "C1: QUIT", "C2: (gone)"].map(line).to_vec(),
    };
    assert_eq!(
        render_row(&row),
        "| `x` | What.<br>hosts: `2`<br>`a\\|b` | `failed` | `QUIT`<br>peer 2: `(gone)` |\n"
    );
}
