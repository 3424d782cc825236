//! Whoever reads our output may have seen enough before its end (`| head`), which is no mistake.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;

/// How `println!` begins to say that nobody reads.
const NOBODY_READS: &str = "failed printing to stdout: Broken pipe";

/// Not to its end: what a command was to prove is not proved.
const UNFINISHED: u8 = 2;

/// Runs a command, which ends without a word once nobody reads what it prints: what it has started is ended as ever.
pub(super) fn ends_quietly(run: impl FnOnce() -> ExitCode) -> ExitCode {
    let tell = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if !is_closed(info.payload()) {
            tell(info);
        }
    }));
    panic::catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|payload| {
        match is_closed(&*payload) {
            true => ExitCode::from(UNFINISHED),
            false => panic::resume_unwind(payload),
        }
    })
}

fn is_closed(payload: &(dyn Any + Send)) -> bool {
    payload.downcast_ref::<String>().is_some_and(|text| text.starts_with(NOBODY_READS))
}
