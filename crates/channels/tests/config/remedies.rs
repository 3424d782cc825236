//! Common mistakes: each error names the remedy.

use super::bad::{END, LISTENER, ROUTE, TOP};
use channels::schema;

#[test]
fn common_mistakes_come_with_their_remedy() {
    for (frame, mistake, remedy) in [
        (
            TOP,
            "recipient_delimiter = \"x\"",
            "'x' cannot begin a tag: write, for example, \"+\" or \"+-\"",
        ),
        (TOP, "hostname = a.example", "write hostname = \"a.example\""),
        (ROUTE, "smtp = { hosts = [\"h\"]", "close it with `}`"),
        (END, "[route]\ndiscard = {}", "write `[[route]]` each time: it is a list"),
        (END, "[[spool]]\npath = \"/s\"", "write `[spool]`: there is only one"),
        (END, "[source]\nname = \"a\"", "write `[[source]]`: it is a list"),
        (
            END,
            "[spool]\npostmaster = \"jo@a.example\"",
            "`postmaster` belongs above the first section",
        ),
        (END, "[retry]\nlongest = \"5 days\"", "write \"5d\""),
        (LISTENER, "max_message_bytes = \"50 mb\"", "write \"50MB\""),
        (
            ROUTE,
            "domains = [\"a.example\"]\nsmtp = { hosts = [\"[smtp.a.example]:587\"] }",
            "leave out the brackets: \"smtp.a.example:587\"; only IP addresses have them",
        ),
        (
            ROUTE,
            "domains = [\"a.example.\"]\nmx = {}",
            "leave out the dot at the end: \"a.example\"",
        ),
        (
            ROUTE,
            "domains = [\"*a.example\"]\nmx = {}",
            "write \"*.a.example\" for the domains below it, \"a.example\" for itself",
        ),
    ] {
        let errors = schema().parse(&frame.replacen("<HERE>", mistake, 1), "f.toml").unwrap_err();
        let first = &errors.problems()[0];
        assert_eq!(first.help.as_deref(), Some(remedy), "{mistake}: {errors}");
    }
}
