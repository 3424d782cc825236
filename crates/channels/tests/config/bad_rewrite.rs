//! Mistakes in the rewriting of addresses, and in the folder for junk.

use super::bad::{END, ROUTE};

/// As the table of all mistakes.
pub(crate) const REWRITES: &[(&str, &str, &str)] = &[
    (END, "[[rewrite]]\naddresses = [\"from\"]", "6:1: a rewrite without `table`"),
    (
        END,
        "[[rewrite]]\ntable = \"t\"\naddresses = [\"from\", \"bcc\"]\n[[table]]\nname = \"t\"\ninline = {}",
        "8:22: unknown kind of address \"bcc\"",
    ),
    (
        END,
        "[[rewrite]]\ntable = \"t\"\naddresses = []\n[[table]]\nname = \"t\"\ninline = {}",
        "8:13: names no address",
    ),
    (
        END,
        "[[rewrite]]\ntable = \"t\"\nroutes = [\"away\"]\n[[table]]\nname = \"t\"\ninline = {}",
        "8:11: unknown route \"away\"",
    ),
    (
        END,
        "[[rewrite]]\ntable = \"t\"\nwhen = {}\n[[table]]\nname = \"t\"\ninline = {}",
        "8:1: `when` is empty",
    ),
    (
        END,
        "[[rewrite]]\ntable = \"t\"\nwhen = { sender = [\"<>\"] }\n[[table]]\nname = \"t\"\ninline = {}",
        "8:10: unknown key `sender` in `rewrite.when`",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\nmaildir = { path = \"/m/{local}\", junk = { folder = \"Junk\" } }",
        "5:52: \"Junk\" is not a folder",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\nmaildir = { path = \"/m/{local}\", junk = { header = \"X Spam\" } }",
        "5:52: \"X Spam\" is not a field name",
    ),
];
