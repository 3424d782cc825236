//! Mistakes in what is said of X.400, and what a file without any comes to.

use channels::{X400, schema};
use mail::Mailbox;

/// A file that is right but for `<HERE>`, which stands on line 12, behind a peer's own keys.
const PEER: &str = "\n[[listener]]\naddress = \"127.0.0.1:25\"\n[[route]]\ndiscard = {}\n\
                    [x400]\nmta = \"relay\"\ndomain = \"/PRMD=Example/ADMD= /C=GB/\"\n[[x400.peer]]\n\
                    name = \"hub\"\ntheir_name = \"hub\"\n<HERE>\ntheir_password_file = \"f\"\n";
/// The same of a peer that has no password.
const BARE: &str = "\n[[listener]]\naddress = \"127.0.0.1:25\"\n[[route]]\ndiscard = {}\n\
                    [x400]\nmta = \"relay\"\ndomain = \"/PRMD=Example/ADMD= /C=GB/\"\n[[x400.peer]]\n\
                    name = \"hub\"\ntheir_name = \"hub\"\n<HERE>\n";
/// The same with `<HERE>` on line 9, where another peer or a route may begin.
const WITH_PEER: &str = "listener = [{ address = \"127.0.0.1:25\" }]\n[x400]\nmta = \"relay\"\n\
                         domain = \"/ADMD= /C=GB/\"\n[[x400.peer]]\nname = \"hub\"\ntheir_name = \"hub\"\n\
                         their_password = \"x\"\n<HERE>\n[[route]]\ndiscard = {}\n";
/// The same with `<HERE>` on line 11, in a listener.
const WITH_LISTENER: &str = "[[route]]\ndiscard = {}\n[x400]\nmta = \"relay\"\n\
                             domain = \"/ADMD= /C=GB/\"\n[[x400.peer]]\nname = \"hub\"\ntheir_name = \"hub\"\n\
                             their_password = \"x\"\n[[listener]]\n<HERE>\n";
/// The same without a section `[x400]`: `<HERE>` on line 3.
const WITHOUT: &str = "[[listener]]\naddress = \"127.0.0.1:25\"\n<HERE>\n[[route]]\ndiscard = {}\n";

/// As the table of all mistakes.
pub(crate) const X400: &[(&str, &str, &str)] = &[
    (WITHOUT, "kind = \"p1\"", "3:8: a listener for X.400 without a section [x400]"),
    (
        WITHOUT,
        "[[route]]\nor_addresses = [\"/C=GB/\"]\nx400 = { peer = \"hub\" }",
        "5:17: a route to a peer of X.400 without a section [x400]",
    ),
    (WITHOUT, "[x400]\nmta = \"relay\"", "3:2: [x400] without `domain`"),
    (WITHOUT, "[x400]\ndomain = \"/ADMD= /C=GB/\"", "3:2: [x400] without `mta`"),
    (
        WITHOUT,
        "[x400]\nmta = \"relay\"\ndomain = \"/O=x/ADMD= /C=GB/\"",
        "5:10: O in the name of a management domain",
    ),
    (
        WITHOUT,
        "[x400]\nmta = \"relay\"\ndomain = \"/PRMD=x/\"",
        "5:10: \"/PRMD=x/\" has no country",
    ),
    (
        WITHOUT,
        "[x400]\nmta = \"relay\"\ndomain = \"example.org\"",
        "5:10: \"example.org\" is not an O/R address",
    ),
    (
        WITHOUT,
        "[x400]\nmta = \"an-mta-with-a-name-of-33-octets-x\"\ndomain = \"/ADMD= /C=GB/\"",
        "4:7: use 1 to 32 printable ASCII characters",
    ),
    (
        WITH_LISTENER,
        "kind = \"p1\"\naddress = \"127.0.0.1:102\"\nt_selectors = [\"a\", \"hex:0\"]",
        "13:21: \"hex:0\" is not a selector",
    ),
    (PEER, "hosts = [\"a b:102\"]", "12:10: \"a b:102\" is not a host"),
    (PEER, "hosts = [\"unix:/run/p1\"]", "12:10: X.400 is not supported over Unix sockets"),
    (PEER, "hosts = [\"192.0.2.7\", \"192.0.2.7:102\"]", "12:23: 192.0.2.7:102 is listed twice"),
    (PEER, "t_selector = \"hex:0\"", "12:14: \"hex:0\" is not a selector"),
    (PEER, "t_selector = \"hex:0x\"", "12:14: \"hex:0x\" is not a selector"),
    (
        PEER,
        "s_selector = \"hex:000102030405060708090a0b0c0d0e0f10\"",
        "12:14: a selector of 17 octets",
    ),
    (BARE, "their_password = \"a\\tb\"", "12:18: at most 62 printable ASCII characters"),
    (
        BARE,
        "their_password = \"a\"\ntheir_password_file = \"f\"",
        "13:23: both a password and a password file are set",
    ),
    (BARE, "", "9:1: peer \"hub\" without a password"),
    (PEER, "allow_no_password = true", "12:21: both `allow_no_password` and a password are set"),
    (PEER, "from = [\"hub\"]", "12:9: \"hub\" is not a network"),
    (
        WITH_PEER,
        "[[x400.peer]]\nname = \"other\"\ntheir_name = \"other\"",
        "9:1: peer \"other\" without a password",
    ),
    (PEER, "our_name = \"\"", "12:12: use 1 to 32 printable ASCII characters"),
    (PEER, "max_associations = 0", "12:20: `max_associations` must be between 1 and 1000"),
    (PEER, "idle_timeout = \"0s\"", "12:16: a timeout must be longer than 0"),
    (PEER, "window = 0", "12:10: `window` must be between 1 and 64"),
    (PEER, "resume = true", "12:1: unknown key `resume` in `x400.peer`"),
    (
        WITH_PEER,
        "[[x400.peer]]\nname = \"hub\"\ntheir_name = \"other\"\nallow_no_password = true",
        "10:8: a peer named \"hub\" already exists",
    ),
    (
        WITH_PEER,
        "[[x400.peer]]\nname = \"other\"\ntheir_name = \"hub\"\nallow_no_password = true",
        "11:14: peer \"hub\" also binds as \"hub\"",
    ),
    (
        WITH_PEER,
        "[[route]]\nor_addresses = [\"/C=GB/\"]\nx400 = { peer = \"nub\" }",
        "11:17: no peer of X.400 is named \"nub\"",
    ),
    (
        WITH_PEER,
        "[[route]]\nor_addresses = [\"/C=GB/\"]\nx400 = { peer = \"hub\" }",
        "11:17: peer \"hub\" has no `hosts`",
    ),
    (
        WITH_LISTENER,
        "kind = \"p1\"\nname = \"in\"\naddress = \"127.0.0.1:102\"\n\
         [[copy]]\nto = \"archive@example.org\"",
        "14:1: messages of listener \"in\", which is not for internet mail, cannot be copied",
    ),
    (
        WITH_LISTENER,
        "kind = \"p1\"\nname = \"in\"\naddress = \"127.0.0.1:102\"\n\
         [[copy]]\nto = \"archive@example.org\"\nlisteners = [\"in\"]",
        "16:14: messages of listener \"in\", which is not for internet mail, cannot be copied",
    ),
    (
        WITH_LISTENER,
        "kind = \"p1\"\nname = \"in\"\naddress = \"127.0.0.1:102\"\n\
         [[policy]]\nservice = \"127.0.0.1:1\"\nlisteners = [\"in\"]",
        "16:14: messages of listener \"in\", which is not for internet mail, cannot be checked by a policy service",
    ),
    (WITHOUT, "[[route]]\nor_addresses = []\ndiscard = {}", "4:16: `or_addresses` is empty"),
    (
        WITHOUT,
        "[[route]]\nor_addresses = [\"/O=x/Beta/\"]\ndiscard = {}",
        "4:17: \"/O=x/Beta/\" is not an O/R address",
    ),
    (
        WITHOUT,
        "[[route]]\nor_addresses = [\"/S=Smith/O=x/C=GB/\"]\ndiscard = {}",
        "4:17: S in an O/R address pattern",
    ),
    (
        WITHOUT,
        "[[route]]\nor_addresses = [\"/O=x/C=GB/\", \"C=gb; O=X\"]\ndiscard = {}",
        "4:31: route 1 already has /O=X/C=gb/",
    ),
    (
        WITHOUT,
        "[[route]]\nor_addresses = [\"/O=x/C=GB/\"]\nmx = {}",
        "4:16: `or_addresses` in a route to `mx`",
    ),
];

const RIGHT: &str = r#"
[[listener]]
kind = "p1"
address = "127.0.0.1:1102"

[x400]
mta = "relay"
domain = "/PRMD=Example/ADMD= /C=GB/"

[[x400.peer]]
name = "hub"
hosts = ["192.0.2.7"]
t_selector = "x400in88"
s_selector = "hex:00fF"
their_name = "hub"
their_password = "secretb"
our_password = "secreta"

[[route]]
or_addresses = ["/PRMD=TestB/ADMD= /C=GB/"]
discard = {}

[[route]]
name = "beta"
or_addresses = ["/O=Beta/PRMD=TestB/ADMD= /C=GB/"]
x400 = { peer = "hub" }

[[route]]
domains = ["example.org"]
discard = {}
"#;

#[test]
fn peers_and_routes_are_what_the_file_says() {
    let config = schema().parse(RIGHT, "f.toml").unwrap();
    let x400 = config.of::<X400>().unwrap();
    let peer = x400.peer_called(b"hub").unwrap();
    assert_eq!(peer.hosts[0].to_string(), "192.0.2.7:102");
    assert_eq!((&*peer.t_selector, &*peer.s_selector), (&b"x400in88"[..], &[0x00, 0xff][..]));
    assert_eq!((&*peer.our_name, peer.associations_max), ("relay", 10));
    assert!(x400.peer_called(b"HUB").is_none());
    assert!(!format!("{config:?}").contains("secretb"), "nobody is shown it");
    let route = |address: &str| {
        let found = config.route_of(&Mailbox::parse_any(address).unwrap(), None);
        found.map(|(_, route)| &*route.name)
    };
    assert_eq!(route("C=gb; P=testb; O=beta; S=Smith"), Some("beta"));
    assert_eq!(route("C=gb; P=testb; O=gamma; S=Smith"), Some("route-1"));
    assert_eq!(route("C=gb; P=other; O=beta; S=Smith"), None);
    assert_eq!(route("jo@example.org"), Some("route-3"));
    assert_eq!(route("jo@example.net"), None, "what takes O/R addresses takes nothing else");
}

#[test]
fn an_explanation_of_an_o_r_address_names_the_lines() {
    let config = schema().parse(RIGHT, "f.toml").unwrap();
    let recipient = Mailbox::parse_any("/S=Smith/O=Beta/PRMD=TestB/ADMD= /C=GB/").unwrap();
    let request = config::ExplainRequest {
        recipient: &recipient,
        sender: None,
        listener: None,
        client: None,
        login: None,
        mx: None,
        tls: &[],
        in_tables: config::InTables::default(),
        rehearsal: None,
    };
    let explanation = config.explain(&request).unwrap();
    assert!(explanation.accepted);
    assert_eq!(explanation.ready_queue.as_deref(), Some("x400:beta:192.0.2.7:102"));
    let text = explanation.to_string();
    for part in ["accepted from X.400 peers", "f.toml:25", "hub at 192.0.2.7:102, normal mode"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}
