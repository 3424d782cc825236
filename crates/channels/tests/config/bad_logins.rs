//! Bad files: listeners where users log in. Rows as in [`bad`](super::bad).

/// Another listener with `<HERE>` on line 3.
const LISTENER: &str =
    "[[listener]]\naddress = \"127.0.0.1:25\"\n<HERE>\n[[route]]\ndiscard = {}\n";

/// A submission listener with `<HERE>` on line 11.
const SUBMISSION: &str = "[[table]]\nname = \"p\"\ninline = { a = \"b\" }\n\
    [[certificate]]\nnames = [\"a.example\"]\nchain = \"c\"\nkey = \"k\"\n\
    [[listener]]\naddress = \"127.0.0.1:587\"\nkind = \"submission\"\n<HERE>\n[[route]]\ndiscard = {}\n";

/// Frame, what is put into it, and the one error line that must come of it.
pub(crate) const LOGINS: &[(&str, &str, &str)] = &[
    (LISTENER, "kind = \"submission\"", "1:1: a submission listener without `logins`"),
    (SUBMISSION, "logins = {}", "11:1: users are known to one table or server"),
    (
        SUBMISSION,
        "logins = { table = \"p\", dovecot = \"/run/auth\" }",
        "11:1: users are known to one table or server",
    ),
    (SUBMISSION, "logins = { ldap = \"none\" }", "11:19: there is no table named \"none\""),
    (SUBMISSION, "logins = { ldap = \"p\" }", "11:19: table \"p\" asks no directory"),
    (
        SUBMISSION,
        "logins = { dovecot = \"unix:auth\" }",
        "11:22: \"unix:auth\" is not a server: the path of a socket begins with /",
    ),
    (
        SUBMISSION,
        "logins = { dovecot = \"auth.example\" }",
        "11:22: \"auth.example\" is not a server: it has no port",
    ),
    (
        SUBMISSION,
        "logins = { table = \"p\", timeout = \"91s\" }",
        "11:35: no client waits longer than a minute and a half for a server",
    ),
    (
        SUBMISSION,
        "logins = { table = \"p\" }\nmechanisms = [\"external\"]",
        "12:14: logins by certificates that nobody is asked for",
    ),
    (
        SUBMISSION,
        "logins = { table = \"p\" }\nclient_certificates = {}",
        "12:1: any certificate would do",
    ),
    (
        SUBMISSION,
        "logins = { table = \"p\" }\nclient_certificates = { users = { table = \"p\" } }",
        "12:1: anybody can put any name into a certificate",
    ),
    (
        SUBMISSION,
        "logins = { table = \"p\" }\nclient_certificates = { authorities = \"c\", relay = true }",
        "12:52: `relay` where clients log in",
    ),
    (
        SUBMISSION,
        "logins = { introspection = { url = \"http://id.test/\", client_id = \"a\", secret_file = \"s\" } }\nmechanisms = [\"xoauth2\"]",
        "11:36: \"http://id.test/\" is no place to ask: tokens would go over the network in clear",
    ),
    (
        SUBMISSION,
        "logins = { introspection = { url = \"https://id.test/\" } }\nmechanisms = [\"xoauth2\"]",
        "11:12: nobody is told whose a token is who doesn't say who asks",
    ),
    (
        SUBMISSION,
        "logins = { table = \"p\" }\nmechanisms = [\"xoauth2\"]",
        "12:15: XOAUTH2, and nobody who knows tokens",
    ),
    (SUBMISSION, "logins = { table = \"none\" }", "11:20: there is no table named \"none\""),
    (
        SUBMISSION,
        "logins = { table = \"p\" }\nsenders = { table = \"none\" }",
        "12:21: there is no table named \"none\"",
    ),
    (SUBMISSION, "logins = { table = \"p\" }\ntls = \"off\"", "12:7: logins in clear"),
    (
        SUBMISSION,
        "logins = { table = \"p\" }\nrelay_from = [\"10.0.0.0/8\"]",
        "12:14: `relay_from` where clients log in",
    ),
    (
        SUBMISSION,
        "logins = { table = \"p\" }\nchecks = { spf = \"mark\" }",
        "12:1: nobody is checked who has logged in",
    ),
    (
        SUBMISSION,
        "logins = { table = \"p\" }\nmechanisms = []",
        "12:14: nobody can log in without a mechanism",
    ),
    (
        SUBMISSION,
        "logins = { table = \"p\" }\nmechanisms = [\"cram-md5\"]",
        "12:15: CRAM-MD5 is not spoken here",
    ),
    (
        SUBMISSION,
        "logins = { table = \"p\" }\nmechanisms = [\"kerberos\"]",
        "12:15: `mechanisms[0]` can't be \"kerberos\"",
    ),
    (
        SUBMISSION,
        "logins = { table = \"p\" }\nmax_login_failures = 0",
        "12:22: `max_login_failures` must be at least 1",
    ),
    (
        SUBMISSION,
        "logins = { table = \"p\" }\nlogin_failure_delay = \"61s\"",
        "12:23: no client waits longer than a minute to learn that it failed",
    ),
    (
        SUBMISSION,
        "logins = { table = \"p\" }\n[[listener]]\naddress = \"127.0.0.1:25\"\nlogins = { table = \"p\" }",
        "14:1: `logins` where kind = \"smtp\"",
    ),
    (
        "[[table]]\nname = \"p\"\ninline = { a = \"b\" }\n<HERE>\n[[route]]\ndiscard = {}\n",
        "[[listener]]\naddress = \"127.0.0.1:587\"\nkind = \"submission\"\nlogins = { table = \"p\" }",
        "6:8: logins, and no [[certificate]] to encrypt them with",
    ),
];
