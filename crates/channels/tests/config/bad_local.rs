//! Bad files: listeners for local programs. Rows as in [`bad`](super::bad).

/// A local listener with `<HERE>` on line 3.
const BARE: &str = "[[listener]]\nkind = \"local\"\n<HERE>\n[[route]]\ndiscard = {}\n";

/// The same with a socket, and `<HERE>` on line 8, behind a certificate.
const SOCKET: &str = "[[certificate]]\nnames = [\"a.example\"]\nchain = \"c\"\nkey = \"k\"\n\
    [[listener]]\nkind = \"local\"\nsocket = \"/run/s\"\n<HERE>\n[[route]]\ndiscard = {}\n";

/// Frame, what is put into it, and the one error line that must come of it.
pub(crate) const LOCAL: &[(&str, &str, &str)] = &[
    (BARE, "", "1:1: a listener for local users without `socket`"),
    (BARE, "socket = 5", "3:10: `socket` must be path, not a whole number"),
    (
        BARE,
        "socket = \"/run/s\"\naddress = \"127.0.0.1:25\"",
        "4:11: `address` on a listener with kind = \"local\"",
    ),
    (
        SOCKET,
        "relay_from = [\"127.0.0.1\"]",
        "8:14: `relay_from` on a listener with kind = \"local\"",
    ),
    (
        SOCKET,
        "proxy_protocol_from = [\"127.0.0.1\"]",
        "8:23: `proxy_protocol_from` on a listener with kind = \"local\"",
    ),
    (SOCKET, "tls = \"starttls\"", "8:7: `tls` on a listener with kind = \"local\""),
    (
        SOCKET,
        "xclient_from = [\"127.0.0.1\"]",
        "8:16: `xclient_from` on a listener for local users",
    ),
    (SOCKET, "logins = { table = \"p\" }", "8:1: `logins` on a listener with kind = \"local\""),
    (SOCKET, "checks = { spf = \"mark\" }", "8:1: authenticated clients are not checked"),
    (SOCKET, "trusted = \"root\"", "8:11: `trusted` must be a list, not text in quotes"),
    (SOCKET, "origin = \"a..b\"", "8:10: \"a..b\": empty label in domain at character 3"),
    (
        SOCKET,
        "[[listener]]\nname = \"other\"\nkind = \"local\"\nsocket = \"/run/s\"",
        "11:10: two listeners on /run/s",
    ),
];
