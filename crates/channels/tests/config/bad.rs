//! Bad files: each with the place and the message that it must give.

use super::bad_checks::CHECKS;
use super::bad_events::EVENTS;
use super::bad_limits::LIMITS;
use super::bad_local::LOCAL;
use super::bad_logins::LOGINS;
use super::bad_pipe::PIPES;
use super::bad_rewrite::REWRITES;
use super::bad_routes::ROUTES;
use super::bad_signing::SIGNING;
use super::bad_warmup::WARMUPS;
use channels::schema;

/// A file that is right but for `<HERE>`, which stands on line 1 (before the sections).
pub(crate) const TOP: &str =
    "<HERE>\n[[listener]]\naddress = \"127.0.0.1:25\"\n[[route]]\ndiscard = {}\n";
/// The same with `<HERE>` on line 3, inside the listener.
pub(crate) const LISTENER: &str =
    "[[listener]]\naddress = \"127.0.0.1:25\"\n<HERE>\n[[route]]\ndiscard = {}\n";
/// The same with `<HERE>` on line 4, inside the first route, which another one follows.
pub(crate) const ROUTE: &str =
    "[[listener]]\naddress = \"127.0.0.1:25\"\n[[route]]\n<HERE>\n[[route]]\ndiscard = {}\n";
/// The same with `<HERE>` on line 6, in a section of its own.
pub(crate) const END: &str =
    "\n[[listener]]\naddress = \"127.0.0.1:25\"\n[[route]]\ndiscard = {}\n<HERE>\n";

/// Frame, what is put into it, and the one error line that must come of it.
const BAD: &[(&str, &str, &str)] = &[
    // Syntax.
    (TOP, "hostname = ", "1:12: string values must be quoted, expected literal string"),
    (TOP, "hostname", "1:9: key with no value, expected `=`"),
    (TOP, "hostname = \"a", "1:14: invalid basic string, expected `\"`"),
    (TOP, "hostname = \"a.example\"\nhostname = \"b.example\"", "2:1: duplicate key"),
    (TOP, "hostname = a.example # ours", "1:12: text without quotes"),
    (LISTENER, "greeting_delay = 5s", "3:18: text without quotes"),
    (ROUTE, "smtp = { hosts = [\"h\"]", "4:8: `{` without `}`"),
    (ROUTE, "domains = [\"a.example\"\ndiscard = {}", "4:11: `[` without `]`"),
    (END, "[route]\ndiscard = {}", "6:2: `[route]` beside `[[route]]`"),
    (END, "[spool]\npath = \"/s\"\n[[spool]]", "8:3: `[spool]` beside `[[spool]]`"),
    // Keys that do not exist.
    (TOP, "hostnam = \"a.example\"", "1:1: unknown key `hostnam`"),
    (LISTENER, "adress = 1", "3:1: unknown key `adress` in `listener`"),
    (
        ROUTE,
        "smtp = { hosts = [\"h\"], tlss = \"off\" }",
        "4:25: unknown key `tlss` in `route.smtp`",
    ),
    (ROUTE, "discard = { really = true }", "4:13: unknown key `really` in `route.discard`"),
    (ROUTE, "mx = { hosts = [\"h\"] }", "4:8: unknown key `hosts` in `route.mx`"),
    (ROUTE, "mx = { unasked_content = true }", "4:8: unknown key `unasked_content` in `route.mx`"),
    (
        ROUTE,
        "domains = [\"a.example\"]\nsmtp = { hosts = [\"h\"], transactions_in_flight = 2 }",
        "5:50: `transactions_in_flight` above 1 needs `unasked_content = true`",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\nlmtp = { hosts = [\"h\"], unasked_content = false, transactions_in_flight = 2 }",
        "5:75: `transactions_in_flight` above 1 needs `unasked_content = true`",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\nsmtp = { hosts = [\"h\"], tls = \"mta-sts\" }",
        "5:31: `tls = \"mta-sts\"` is for `mx`, not for `smtp`",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\nlmtp = { hosts = [\"h\"], tls = \"dane\" }",
        "5:31: `tls = \"dane\"` is for `mx` and `smtp`, not for `lmtp`",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\nsmtp = { hosts = [\"192.0.2.1\"], tls = \"dane\" }",
        "5:39: 192.0.2.1:25 is an address, which has no TLSA records",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\nsmtp = { hosts = [\"h\"], login = { user = \"u\", password_file = \"p\" } }",
        "5:25: `login` needs `tls` to be \"required\", \"verified\" or \"dane\"",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\nsmtp = { hosts = [\"h\"], tls = \"verified\", login = { user = \"u\" } }",
        "5:43: `login` needs one of `password_file`, `token_file`, `oauth` and `table`",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\nsmtp = { hosts = [\"h\"], tls = \"verified\", login = { user = \"\", token_file = \"t\" } }",
        "5:60: use 1 to 255 printable ASCII characters",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\nsmtp = { hosts = [\"h\"], tls = \"verified\", login = { user = \"u\", password_file = \"p\", mechanisms = [\"xoauth2\"] } }",
        "5:100: XOAUTH2 cannot be used with `login.password_file`",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\nsmtp = { hosts = [\"h\"], tls_start = \"implicit\" }",
        "5:37: `tls_start = \"implicit\"` needs `tls` to be \"required\", \"verified\" or \"dane\"",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\nmx = { login = { user = \"u\", password_file = \"p\" } }",
        "5:8: unknown key `login` in `route.mx`",
    ),
    (END, "[spol]", "6:2: unknown key `spol`"),
    (LISTENER, "kind = \"lmtp\"", "3:8: unknown listener kind \"lmtp\""),
    (
        ROUTE,
        "domains = [\"a.example\"]\ninclude = [\"/lists\"]\ndiscard = {}",
        "5:11: `include` without `aliases`",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\nsrs = false\ndiscard = {}",
        "5:7: `srs` in a route without a section [srs]",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\nsrs = true\ndiscard = {}\n\
         [srs]\ndomain = \"b.example\"\nsecret_file = \"s\"",
        "5:7: `srs = true` in a route that delivers locally",
    ),
    // Stages.
    (END, "[[access]]\nby = \"sender\"", "6:1: an access rule without `table`"),
    (
        END,
        "[[table]]\nname = \"t\"\ninline = {}\n[[access]]\ntable = \"t\"",
        "9:1: an access rule without `by`",
    ),
    (END, "[[access]]\nby = \"sender\"\ntable = \"t\"", "8:9: unknown table \"t\""),
    (
        END,
        "[[table]]\nname = \"t\"\ninline = {}\n[[access]]\ntable = \"t\"\nby = \"sender+user\"",
        "11:6: unknown lookup key \"sender+user\"",
    ),
    (
        END,
        "[[table]]\nname = \"t\"\ninline = {}\n[[access]]\ntable = \"t\"\nby = \"sender\"\nlisteners = [\"x\"]",
        "12:14: unknown listener \"x\"",
    ),
    (END, "[[header_check]]\nin = \"body\"", "6:1: a header check without `table`"),
    (
        END,
        "[[header_check]]\ntable = \"t\"\nin = [\"header\", \"footer\"]\n[[table]]\nname = \"t\"\nregexp = { path = \"t\" }",
        "8:6: unknown part of a message \"footer\"",
    ),
    (
        END,
        "[[header_check]]\ntable = \"t\"\nin = []\n[[table]]\nname = \"t\"\nregexp = { path = \"t\" }",
        "8:6: names no part of a message",
    ),
    (
        END,
        "[[header_check]]\ntable = \"t\"\n[[table]]\nname = \"t\"\nfile = { path = \"t\" }",
        "7:9: table \"t\" has no patterns for lines",
    ),
    (END, "[[copy]]\nsenders = [\"a.example\"]", "6:1: a copy without `to`"),
    (END, "[[copy]]\nto = \"archive\"", "7:6: \"archive\" is not an address"),
    (
        END,
        "[[copy]]\nto = \"a@b.example\"\nsenders = [\"c.example\", \"@@c\"]",
        "8:25: \"@@c\" is neither an address nor a domain",
    ),
    (
        END,
        "[[copy]]\nto = \"a@b.example\"\nlisteners = [\"127.0.0.1:25\", \"out\"]",
        "8:30: unknown listener \"out\"",
    ),
    (
        END,
        "[[policy]]\nservice = \"127.0.0.1:1\"\nlisteners = [\"in\"]",
        "8:14: unknown listener \"in\"",
    ),
    (END, "[[policy]]", "6:1: a policy without `service`"),
    (END, "[[policy]]\nservice = \"localhost:1\"", "7:11: \"localhost:1\" is not a policy service"),
    (
        END,
        "[[policy]]\nservice = \"127.0.0.1:1\"\ntimeout = \"2m\"",
        "8:11: longer than 90 seconds",
    ),
    // Milters.
    (LISTENER, "milters = [{}]", "3:12: a milter without `address`"),
    (
        LISTENER,
        "milters = [{ address = \"127.0.0.1:1\" }, { address = \"rspamd:1\" }]",
        "3:53: \"rspamd:1\" is not a milter address",
    ),
    (
        LISTENER,
        "milters = [{ address = \"unix:/m\", connect_timeout = \"61s\" }]",
        "3:53: at most 60 s",
    ),
    (
        LISTENER,
        "milters = [{ address = \"unix:/m\", content_timeout = \"0s\" }]",
        "3:53: a timeout must be longer than 0",
    ),
    (
        LISTENER,
        "milters = [{ address = \"unix:/m\", on_failure = \"defer\" }]",
        "3:48: invalid value \"defer\" for `on_failure`",
    ),
    (
        LISTENER,
        "milters = [{ address = \"unix:/m\", timeout = \"1s\" }]",
        "3:35: unknown key `timeout` in `listener.milters`",
    ),
    // Tables.
    (END, "[[table]]\nname = \"t\"", "6:1: table \"t\" has no source"),
    (
        END,
        "[[table]]\nname = \"t\"\ninline = {}\nfile = { path = \"x\" }",
        "9:1: table \"t\" has two sources",
    ),
    (END, "[[table]]\nname = \"t\"\ninline = {}\ncache = {}", "9:1: `inline` needs no cache"),
    (
        END,
        "[[table]]\nname = \"t\"\ninline = { a = 1 }",
        "8:16: `a` must be text in quotes, not a whole number",
    ),
    (
        END,
        "[[table]]\nname = \"t\"\ninline = { a = \"\", A = \"\" }",
        "8:16: \"A\" and \"a\" are the same key",
    ),
    (END, "[[table]]\nname = \"t\"\nfile = {}", "8:1: a table without `path`"),
    (END, "[[table]]\nname = \"t\"\ndatabase = {}", "8:1: a table without `path`"),
    (
        END,
        "[[table]]\nname = \"t\"\ncidr = { path = 1 }",
        "8:17: `path` must be text in quotes, not a whole number",
    ),
    (
        END,
        "[[table]]\nname = \"t\"\nregexp = { path = \"x\", flags = \"i\" }",
        "8:24: unknown key `flags` in `table.regexp`",
    ),
    (END, "[[table]]\nname = \"t\"\npcre = { path = \"\\u0000\" }", "8:17: not a path"),
    (END, "[[table]]\nname = \"t\"\nfirst = {}", "8:1: `tables` is empty"),
    (END, "[[table]]\nname = \"t\"\nfirst = { tables = [\"t\"] }", "8:1: no table \"t\" above"),
    (
        END,
        "[[table]]\nname = \"u\"\ninline = {}\n[[table]]\nname = \"t\"\nunion = { tables = [\"u\", \"u\"] }",
        "11:26: \"u\" is listed twice",
    ),
    // Wrong types.
    (TOP, "hostname = 5", "1:12: `hostname` must be text in quotes, not a whole number"),
    (TOP, "shards = \"2\"", "1:10: `shards` must be a whole number, not text in quotes"),
    (TOP, "shards = 1.5", "1:10: `shards` must be a whole number, not a number"),
    (TOP, "shards = 0", "1:10: `shards` must be between 1 and 256"),
    (TOP, "events = \"maybe\"", "1:10: invalid value \"maybe\" for `events`"),
    (TOP, "events = 1", "1:10: `events` must be text in quotes or a table, not a whole number"),
    (TOP, "spool = \"/var/spool\"", "1:9: `spool` must be a table, not text in quotes"),
    (
        LISTENER,
        "relay_from = \"10.0.0.0/8\"",
        "3:14: `relay_from` must be a list, not text in quotes",
    ),
    (
        LISTENER,
        "relay_from = [\n  \"10.0.0.0/8\",\n  10,\n]",
        "5:3: `relay_from[1]` must be a network in quotes, for example \"192.0.2.0/24\", not a whole number",
    ),
    (LISTENER, "chunking = \"no\"", "3:12: `chunking` must be true or false, not text in quotes"),
    (LISTENER, "max_recipients = 99", "3:18: `max_recipients` must be at least 100"),
    (LISTENER, "max_errors = -1", "3:14: `max_errors` must be at least 1"),
    (LISTENER, "max_hops = 4294967296", "3:12: `max_hops` must be between 1 and 4294967295"),
    (
        LISTENER,
        "command_timeout = 300",
        "3:19: `command_timeout` must be a duration in quotes, for example \"5m\", not a whole number",
    ),
    (LISTENER, "bare_newline = \"accept\"", "3:16: invalid value \"accept\" for `bare_newline`"),
    (
        LISTENER,
        "max_message_bytes = true",
        "3:21: `max_message_bytes` must be a size, for example 65536 or \"64KiB\", not true or false",
    ),
    (END, "[retry]\nfactor = 0.5", "7:10: `factor` must be between 1 and 100"),
    (END, "[retry]\njitter = nan", "7:10: `jitter` must be between 0 and 0.5"),
    (END, "[log]\nlevel = \"loud\"", "7:9: invalid value \"loud\" for `level`"),
    (END, "[spool]\ndurability = \"fsync\"", "7:14: invalid value \"fsync\" for `durability`"),
    // Values that can't be.
    (TOP, "hostname = \"a b\"", "1:12: \"a b\" is not a host name"),
    (TOP, "hostname = \"bücher.example\"", "1:12: \"bücher.example\" is not a host name"),
    (TOP, "hostname = \"[192.0.2.1]\"", "1:12: \"[192.0.2.1]\" is not a host name"),
    (TOP, "postmaster = \"root@\"", "1:14: \"root@\" is not an address"),
    (TOP, "postmaster = \"postmaster\"", "1:14: \"postmaster\" has no domain"),
    (
        LISTENER,
        "name = \"a\"\n[[listener]]\naddress = \"127.0.0.1\"",
        "5:11: \"127.0.0.1\" is not an address and port",
    ),
    (LISTENER, "relay_from = [\"10.0.0.0/33\"]", "3:15: \"10.0.0.0/33\" is not a network"),
    (LISTENER, "relay_from = [\"localhost\"]", "3:15: \"localhost\" is not a network"),
    (LISTENER, "command_timeout = \"5\"", "3:19: \"5\" is not a duration"),
    (LISTENER, "command_timeout = \"5 minutes\"", "3:19: \"5 minutes\" is not a duration"),
    (LISTENER, "session_timeout = \"0\"", "3:19: a timeout must be longer than 0"),
    (LISTENER, "max_message_bytes = \"5XB\"", "3:21: \"5XB\" is not a size"),
    (
        LISTENER,
        "max_message_bytes = 99999999999999999999",
        "3:21: `max_message_bytes` must be smaller (too many digits)",
    ),
    (END, "[retry]\ngive_up_after = \"9x\"", "7:17: \"9x\" is not a duration"),
    (LISTENER, "max_message_bytes = 1000", "3:21: 1000B is out of bounds: between 64KiB and 1TiB"),
    (LISTENER, "max_line_bytes = 500", "3:18: 500 is too short for a line"),
    (LISTENER, "banner = \"a\\r\\n250 b\"", "3:10: use 1 to 400 printable ASCII characters"),
    (LISTENER, "tls = \"required\"", "3:7: invalid value \"required\" for `tls`"),
    (
        ROUTE,
        "domains = [\"a.example\"]\nmx = { tls = \"implicit\" }",
        "5:14: invalid value \"implicit\" for `tls`",
    ),
    (
        LISTENER,
        "[[listener]]\naddress = \"127.0.0.1:25\"\nname = \"b\"",
        "4:11: two listeners on 127.0.0.1:25",
    ),
    (
        LISTENER,
        "name = \"a\"\n[[listener]]\naddress = \"127.0.0.1:26\"\nname = \"a\"",
        "6:8: a listener named \"a\" already exists",
    ),
    (LISTENER, "[[listener]]\nname = \"b\"", "3:1: a listener without `address`"),
    (
        LISTENER,
        "seal = { domain = \"a.test\", selector = \"s\", key = \"/k\" }",
        "3:1: `seal` without checks of ARC",
    ),
    (
        LISTENER,
        "checks = { arc = \"mark\" }\nseal = { domain = \"a.test\", selector = \"s\" }",
        "4:1: a seal without `key`",
    ),
    (
        LISTENER,
        "checks = { arc = \"mark\" }\nseal = { selector = \"s\", key = \"/k\" }",
        "4:1: a seal without `domain`",
    ),
    (
        LISTENER,
        "checks = { arc = \"mark\" }\nseal = { domain = \"a.test\", selector = \"s t\", key = \"/k\" }",
        "4:40: \"s t\" is not a DNS name",
    ),
    // Submission.
    (LISTENER, "kind = \"submissions\"", "3:8: unknown listener kind \"submissions\""),
    (
        LISTENER,
        "client_certificates = { authorities = \"c\" }",
        "3:1: `client_certificates` without TLS",
    ),
    (
        LISTENER,
        "proxy_protocol_from = [\"10.0.0.1\", \"proxy.example\"]",
        "3:36: \"proxy.example\" is not a network",
    ),
    (LISTENER, "xclient_from = [\"10.0.0.0/33\"]", "3:17: \"10.0.0.0/33\" is not a network"),
    (END, "[spool]\npath = \"/a\"\npaths = [\"/b\"]", "8:9: both `path` and `paths` are set"),
    (END, "[spool]\npaths = [\"/a\", \"/a\"]", "7:16: \"/a\" is listed twice"),
    (END, "[spool]\npaths = []", "7:9: between 1 and 256 directories"),
    (
        END,
        "[spool]\nsegment_bytes = \"3MiB\"",
        "7:17: `blob_bytes` is more than half of `segment_bytes`",
    ),
    (END, "[retry]\nfirst = \"2h\"", "7:9: `longest` (1h) is shorter than `first` (2h)"),
    (
        END,
        "[retry]\ngive_up_after = \"1s\"",
        "7:17: `give_up_after` (1s) is shorter than `first` (1m)",
    ),
    (END, "[admin]\naddress = \"8025\"", "7:11: \"8025\" is not an address and port"),
    (END, "[events]\nrotate_bytes = 10", "7:16: less than 4096 bytes"),
    (END, "[dns]\nservers = [\"ns.example\"]", "7:12: \"ns.example\" is not a name server"),
    // Routes to nowhere.
    (ROUTE, "domains = [\"a.example\"]", "3:1: route 1 has no channel"),
    (ROUTE, "domains = [\"a.example\"]\nmx = {}\ndiscard = {}", "6:1: route 1 has 2 channels"),
    (ROUTE, "domains = [\"a.example\"]\nsmtp = {}", "5:1: `hosts` is empty"),
    (ROUTE, "domains = [\"a.example\"]\nsmtp = { hosts = [] }", "5:18: `hosts` is empty"),
    (ROUTE, "domains = [\"a.example\"]\nmaildir = {}", "5:1: `path` is missing"),
    (
        ROUTE,
        "domains = [\"a.example\"]\nmaildir = { path = \"/m/{user}\" }",
        "5:20: not a Maildir path",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\nmaildir = { path = \"/m/{domain}/../{local}\" }",
        "5:20: not a Maildir path",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\nmaildir = { path = \"/m/{hash:5}/{local}\" }",
        "5:20: not a Maildir path",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\nmaildir = { path = \"/m/\\u0000/{local}\" }",
        "5:20: not a Maildir path",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\nmaildir = { path = \"/m/{local}\", quota = \"much\" }",
        "5:42: \"much\" is not a size",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\nmaildir = { path = \"/m/{local}\", quota = 0 }",
        "5:42: a quota of 0 fits no message",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\nmaildir = { path = \"/m/{local}\", quota = 1, quota_grace = \"long\" }",
        "5:59: \"long\" is not a duration",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\nmaildir = { path = \"/m/{local}\", mode = \"0777\" }",
        "5:41: \"0777\" is not a file mode for mail",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\nmaildir = { path = \"/m/{local}\", user = \"\" }",
        "5:41: not a name",
    ),
    // Values of recipients' entries.
    (
        ROUTE,
        "domains = [\"a.example\"]\nrecipients = { table = \"t\" }\nmaildir = { path = \"/m/{value}\" }",
        "5:24: unknown table \"t\"",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\nmaildir = { path = \"/m/{local}\", quota = \"{quota}\" }",
        "5:42: unknown placeholder `{quota}`",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\nmaildir = { path = \"/m/{local}\", user = \"{uid}\" }",
        "5:41: unknown placeholder `{uid}`",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\nrecipients = { table = \"t\" }\nmaildir = { path = \"/m/{mailbox}\" }\n[[table]]\nname = \"t\"\ninline = {}",
        "6:20: not a Maildir path",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\nrecipients = { table = \"t\" }\nmaildir = { path = \"/m/{value}\", quota = \"{quota}\" }\n[[table]]\nname = \"t\"\ninline = {}",
        "6:42: unknown placeholder `{quota}`",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\nrecipients = { table = \"t\" }\nmaildir = { path = \"/m/{value}\", group = \"{gid}\" }\n[[table]]\nname = \"t\"\ninline = {}",
        "6:42: unknown placeholder `{gid}`",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\nlmtp = { hosts = [\"{mailhost}:24\"] }",
        "5:19: \"{mailhost}:24\" is not a host",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\nrecipients = { table = \"t\" }\nsmtp = { hosts = [\"a\", \"{mailhost}\"] }\n[[table]]\nname = \"t\"\ninline = {}",
        "6:24: \"{mailhost}\" is not a host",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\nrecipients = { table = \"t\" }\nmaildir = { path = \"/m/{value}\", user = \"vmail{uid}\", mode = \"{mode}\" }\n[[table]]\nname = \"t\"\ninline = {}",
        "6:62: \"{mode}\" is not a file mode for mail",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\nsmtp = { hosts = [\"h:0\"] }",
        "5:19: \"h:0\" is not a host",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\nsmtp = { hosts = [\"h\", \"H:25\"] }",
        "5:24: h:25 is listed twice",
    ),
    // Routes that nothing reaches.
    (ROUTE, "mx = {}", "5:1: route 2 is unreachable"),
    (ROUTE, "domains = []\nmx = {}", "4:11: `domains` is empty"),
    (ROUTE, "domains = [\"*\"]\nmx = {}", "4:12: \"*\" is not a domain"),
    (ROUTE, "domains = [\"me@a.example\"]\nmx = {}", "4:12: \"me@a.example\" is not a domain"),
    (ROUTE, "domains = [\"a..example\"]\nmx = {}", "4:12: \"a..example\" is not a domain"),
    (ROUTE, "domains = [\"a.example\", \"A.example\"]\nmx = {}", "4:25: a.example is listed twice"),
    (
        ROUTE,
        "domains = [\"a.example\"]\nmx = {}\n[[route]]\ndomains = [\"a.example\"]\ndiscard = {}",
        "7:12: route 1 already has a.example",
    ),
    (
        ROUTE,
        "domains = [\"*.example\"]\nmx = {}\n[[route]]\ndomains = [\"a.example\"]\ndiscard = {}",
        "7:12: route 1 already has a.example",
    ),
    (
        ROUTE,
        "domains = [\"*.example\"]\nmx = {}\n[[route]]\ndomains = [\"*.a.example\"]\ndiscard = {}",
        "7:12: route 1 already has *.a.example",
    ),
    (
        ROUTE,
        "name = \"postmaster\"\ndomains = [\"a.example\"]\nmx = {}",
        "4:8: \"postmaster\" is the name of a built-in route",
    ),
    (
        ROUTE,
        "domains = [\"a.example\"]\nmx = {}\nretry = { first = \"9h\" }",
        "6:19: `longest` (1h) is shorter than `first` (9h)",
    ),
];

#[test]
fn each_mistake_is_shown_at_its_place() {
    let mut wrong = String::new();
    let named = [CHECKS, EVENTS, LIMITS, LOCAL, LOGINS, PIPES, REWRITES, ROUTES, SIGNING, WARMUPS];
    let more = named.into_iter().chain([super::bad_x400::X400]).flatten();
    for (frame, mistake, expected) in BAD.iter().chain(more) {
        let text = frame.replacen("<HERE>", mistake, 1);
        let found = match schema().parse(&text, "f.toml") {
            Ok(_) => "no error".to_owned(),
            Err(errors) => {
                let fatal = errors.problems().iter().filter(|p| p.fatal);
                let lines = fatal.map(|p| format!("{}:{}: {}", p.line, p.column, p.message));
                lines.collect::<Vec<_>>().join("\n")
            }
        };
        if found != *expected {
            wrong.push_str(&format!("{mistake}\n  expected {expected}\n  found    {found}\n"));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(BAD.len() >= 40);
}

#[test]
fn an_empty_file_says_what_is_missing() {
    let errors = schema().parse("", "f.toml").unwrap_err();
    assert_eq!(
        errors.to_string(),
        "f.toml:1:1: error: no listener: no mail could be received\n\
         f.toml:1:1: error: no route: no recipient could be accepted\n\
         f.toml:1:1: warning: no route for the postmaster's mail (postmaster@localhost)"
    );
}

#[test]
fn several_mistakes_are_shown_at_once_with_pointers() {
    let text = r#"hostnam = "relay.example.org"

[[listener]]
address = 25

[[route]]
smtp = { hosts = ["127.0.0.1:55225"], max_conections = 5 }
"#;
    let errors = schema().parse(text, "postrider.toml").unwrap_err();
    insta::assert_snapshot!(errors.render(false));
}

#[test]
fn mistakes_in_values_are_shown_at_once_with_pointers() {
    let text = r#"hostname = "relay.example.org"

[[listener]]
address = "127.0.0.1"
relay_from = ["0.0.0.0/0", "10.0.0.0/99"]

[[route]]
domains = ["example.org"]

[[route]]
mx = { command_timeout = "0s" }
"#;
    let errors = schema().parse(text, "postrider.toml").unwrap_err();
    insta::assert_snapshot!(errors.render(false));
}

#[test]
fn no_text_makes_it_panic() {
    use proptest::prelude::*;
    let pieces = "[[listener]]|[[route]]|[spool]|[retry]|\n|address|=|\"127.0.0.1:25\"|{|}|[|]|,|mx|\
                  smtp|hosts|domains|\"*.é.example\"|first|\"1m\"|5|-1|0x10|1e9|inf|true|é|\"|'|#|\
                  1979-05-27|.|discard|maildir|path|\"{local\"|events|\"off\"|\u{0}";
    let pieces: Vec<&str> = pieces.split('|').collect();
    let texts = proptest::collection::vec(proptest::sample::select(pieces), 0..40);
    proptest!(|(text in texts)| {
        let text = text.join(" ");
        if let Err(errors) = schema().parse(&text, "f.toml") {
            prop_assert!(errors.problems().iter().any(|p| p.fatal));
            prop_assert!(!errors.render(false).is_empty());
        }
    });
}
