//! `target/docs/bad-input.md`, rendered from the tables.

use super::table::{CATALOGUE, Row};
use crate::support::table::{Table, code, contents};

const HEAD: &str = "\
# Bad input

<!-- Generated from the tables in crates/postrider/tests/program/bad_input/rows; edit those, then run
     `make docs`. -->

What Postrider does with input that is wrong. Each row is a test that is played against the running
program: `BAD_INPUT=ROW cargo test -p postrider --test program bad_input` plays one alone.

`\\r`, `\\n`, `\\xHH` are octets; `\\*N{…}` is N times what stands in braces (`\\i`: the
number of the time); a line without an
ending of its own ends with CRLF. `{id}` is a message's id.

The last column is what the test proves afterwards. For every row but those of spool files and of X.400 it
proves these, too: another session, in the middle of a transaction while all this went on, completes it, and
its message arrives in its Maildir once; as many messages were accepted as got a 250, not one more;
none but those named in the row arrived anywhere, nothing is left in a Maildir's `tmp`, and nobody
was sent a report; no session is left over, and the server logged no error but those that rows are about.
";

/// The page.
pub(crate) fn render(tables: &[Table]) -> String {
    let mut page = format!("{HEAD}{}", contents(tables));
    for table in tables {
        page.push_str(&format!("\n## {}\n\n", table.title));
        if !table.about.is_empty() {
            page.push_str(&format!("{}\n\n", table.about));
        }
        page.push_str(
            "| row | what is sent or done | the answer | afterwards |\n|---|---|---|---|\n",
        );
        for row in &table.rows {
            page.push_str(&render_row(row, &table.proof));
        }
    }
    page
}

fn render_row(row: &Row, proof: &str) -> String {
    let mut done = vec![row.what.clone()];
    let (mut answer, mut after) = (Vec::new(), Vec::new());
    for (kind, rest) in row.steps() {
        match kind {
            "at" => done.push(format!("(listener `{rest}`)")),
            "after" => done.push(format!("(after {})", state(rest))),
            "beside" => done.push(format!("(beside {rest} other session)")),
            "in" | "do" => {}
            "refused" => after.push("it does not start, and changes nothing".to_owned()),
            "T" if !rest.is_empty() => answer.push(format!("(after {rest})")),
            "T" => done.push("then nothing".to_owned()),
            "$" => done.push(code(&format!("postrider {rest}"))),
            "X" if rest == "closed" => after.push("Postrider closes the connection".to_owned()),
            "X" => done.push(format!("then the client: {rest}")),
            "K" => done.push(format!("(a `{rest}`)")),
            "M" => after.push(format!("arrives: {}", code(rest))),
            "D" => after.push(format!("arrives: {rest}")),
            "A" => after.push(format!("the directory was asked for {}", code(rest))),
            "N" => after.push(format!("event: {}", code(rest))),
            "G" => after.push(format!("log: {}", code(rest))),
            "H" => after.push(format!("`table list` shows {}", code(rest))),
            "Q" => after.push(format!("still queued: {}", code(rest))),
            "S" | "E" | "O" => answer.push(code(rest)),
            "V" => answer.push(format!("verify: {}", code(rest))),
            "L" => answer.push(format!("start: {}", code(rest))),
            "=" => answer.push(format!("exit code {rest}")),
            _ => done.push(code(rest)),
        }
    }
    if !proof.is_empty() {
        after.push(proof.to_owned());
    } else if !row.steps().any(|(kind, _)| kind == "X" || kind == "D" || kind == "refused") {
        after.insert(0, "the session goes on".to_owned());
    }
    let told = after.iter().any(|line| line.contains("arrives") || line.contains("not start"));
    if proof.is_empty() && !told {
        after.push("nothing of it arrives".to_owned());
    }
    let cell = |lines: Vec<String>| lines.join("<br>");
    if answer.is_empty() {
        answer.push("nothing".to_owned());
    }
    format!("| `{}` | {} | {} | {} |\n", row.id, cell(done), cell(answer), cell(after))
}

fn state(after: &str) -> &str {
    match after {
        "connect" => "connecting",
        "greeting" => "the greeting",
        "helo" => "HELO",
        "ehlo" => "EHLO",
        "mail" => "MAIL",
        "rcpt" => "RCPT",
        "data" => "354",
        other => other,
    }
}

#[test]
fn the_page_is_rendered() {
    CATALOGUE.render_page();
}

#[test]
fn cells_keep_their_bars() {
    let row = Row {
        id: "x".to_owned(),
        what: "What.".to_owned(),
        lines: vec!["C: a|b".to_owned(), "S: 500 no".to_owned(), "X: closed".to_owned()],
    };
    let line = render_row(&row, "");
    assert_eq!(
        line,
        "| `x` | What.<br>`a\\|b` | `500 no` | Postrider closes the connection<br>\
         nothing of it arrives |\n"
    );
    assert_eq!(super::table::step("C:"), ("C", ""));
}
