//! Tests that can't run where they are started: each is counted, with its reason, and `make test` prints them at its
//! end. Continuous integration has every package and every program, so there only what a machine may lack is skipped.

use std::fs::OpenOptions;
use std::io::Write;

/// Names the file to which each skipped test adds a line: its name, a tabulator, the reason.
pub const FILE: &str = "SKIPS_FILE";

/// What a machine may lack through no fault of its set-up: a container has no devices, a user is not root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// The user who runs the tests is not root.
    Root,
    /// No TUN device, or no qdisc that delays: no emulated path.
    Path,
    /// No control group can be made.
    ControlGroups,
    /// A postrider is installed, and commands find its configuration.
    SystemConfiguration,
    /// No mount, and no name space of mounts or of networks, can be made.
    Namespaces,
    /// A port with a fixed number is another's.
    Port,
    /// The disk is larger than what the test could ask to be left free.
    LargeDisk,
}

/// The machine lacks it: the caller returns.
pub fn machine(lacks: Machine, why: &str) {
    add(&format!("{lacks:?}: {why}"));
}

/// A program or package that `scripts/install-test-packages` installs is missing: false, for who asks
/// whether it is there.
///
/// # Panics
/// In continuous integration (`CI` is set), which installs all of them.
pub fn missing(what: &str) -> bool {
    let why = format!("{what} is missing (scripts/install-test-packages)");
    assert!(std::env::var_os("CI").is_none(), "this test would be skipped: {why}");
    add(&why);
    false
}

fn add(why: &str) {
    let thread = std::thread::current();
    let line =
        format!("{}\t{}\n", thread.name().unwrap_or("a test"), why.replace('\n', " ").trim());
    eprint!("SKIPPED: {line}");
    let Some(path) = std::env::var_os(FILE) else { return };
    let file = OpenOptions::new().append(true).create(true).open(&path);
    // One write: lines of tests at the same time stay whole.
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
