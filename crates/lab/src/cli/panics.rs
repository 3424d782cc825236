//! What becomes of a command that panics: it ends, whatever else runs, and with it what it has started.
//!
//! Whoever reads our output may have seen enough before its end (`| head`). That is a panic to `println!`, and no
//! mistake: then the command ends without a word.

use crate::prove::sim::pool;
use load::on_panic;
use std::any::Any;
use std::io::{self, Write as _};
use std::panic;
use std::process::exit;

/// How `println!` and `eprintln!` begin to say that nobody reads.
const NOBODY_READS: [&str; 2] =
    ["failed printing to stdout: Broken pipe", "failed printing to stderr: Broken pipe"];

/// As Rust has it.
const PANICKED: i32 = 101;

/// From now on panics end this program.
pub(super) fn end_the_program() {
    let tell = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let is_closed = is_closed(info.payload());
        if !is_closed {
            tell(info);
            if let Some(seed) = pool::played() {
                // Not `eprintln!`, which would panic here if nobody reads.
                let _ = writeln!(io::stderr(), "postrider-lab: seed {seed} panicked");
            }
        }
        on_panic::do_all();
        exit(if is_closed { super::UNFINISHED.into() } else { PANICKED });
    }));
}

fn is_closed(payload: &(dyn Any + Send)) -> bool {
    let text = payload.downcast_ref::<String>();
    text.is_some_and(|text| NOBODY_READS.iter().any(|begin| text.starts_with(begin)))
}
