//! The catalogue of bad input over X.400's P1: rows of `target/docs/bad-input.md`, played against the listener and the
//! channel in a world whose clock waits for nobody. What is said in them: [`say`], [`apdus`]; how: [`play`].
//!
//! With the environment variable `BAD_INPUT=write` what happens is written into the rows, for review (and with the
//! same variable the tests of the program render the page); `BAD_INPUT=ID` plays one row alone.

mod apdus;
mod heard;
mod memory;
mod play;
mod say;
// The reader of such tables is the program's tests'.
#[path = "../../support/table.rs"]
#[allow(dead_code, unreachable_pub)]
mod table;

use play::{Called, Caller};
use table::Catalogue;

const CATALOGUE: Catalogue = Catalogue {
    folder: "bad_input",
    variable: "BAD_INPUT",
    names: &["x400", "x400_apdus", "x400_called"],
    render: None,
};

#[test]
fn who_calls() {
    CATALOGUE.check("x400", play::row::<Caller>);
}

#[test]
fn what_who_calls_transfers() {
    CATALOGUE.check("x400_apdus", play::row::<Caller>);
}

#[test]
fn who_is_called() {
    CATALOGUE.check("x400_called", play::row::<Called>);
}
