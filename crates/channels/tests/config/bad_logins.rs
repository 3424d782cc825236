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
    (SUBMISSION, "logins = {}", "11:1: `logins` needs exactly one table or server"),
    (
        SUBMISSION,
        "logins = { table = \"p\", dovecot = \"/run/auth\" }",
        "11:1: `logins` needs exactly one table or server",
    ),
    (SUBMISSION, "logins = { ldap = \"none\" }", "11:19: unknown table \"none\""),
    (SUBMISSION, "logins = { ldap = \"p\" }", "11:19: table \"p\" is not a directory"),
    (
        SUBMISSION,
        "logins = { dovecot = \"unix:auth\" }",
        "11:22: \"unix:auth\" is not a server: a socket path must begin with /",
    ),
    (
        SUBMISSION,
        "logins = { dovecot = \"auth.example\" }",
        "11:22: \"auth.example\" is not a server: port missing",
    ),
    (
        SUBMISSION,
        "logins = { table = \"p\", timeout = \"91s\" }",
        "11:35: clients wait at most a minute and a half for a reply",
    ),
    (
        SUBMISSION,
        "logins = { table = \"p\" }\nmechanisms = [\"external\"]",
        "12:14: mechanism \"external\" without client certificates",
    ),
    (
        SUBMISSION,
        "logins = { table = \"p\" }\nclient_certificates = {}",
        "12:1: any certificate would be accepted",
    ),
    (
        SUBMISSION,
        "logins = { table = \"p\" }\nclient_certificates = { users = { table = \"p\" } }",
        "12:1: certificate names are unverified",
    ),
    (
        SUBMISSION,
        "logins = { table = \"p\" }\nclient_certificates = { authorities = \"c\", relay = true }",
        "12:52: `relay` on a listener with logins",
    ),
    (
        SUBMISSION,
        "logins = { introspection = { url = \"http://id.test/\", client_id = \"a\", secret_file = \"s\" } }\nmechanisms = [\"xoauth2\"]",
        "11:36: \"http://id.test/\" is not an introspection endpoint: secrets would cross the network unencrypted",
    ),
    (
        SUBMISSION,
        "logins = { introspection = { url = \"https://id.test/\" } }\nmechanisms = [\"xoauth2\"]",
        "11:12: `introspection` without client id and secret",
    ),
    (
        SUBMISSION,
        "logins = { table = \"p\" }\nmechanisms = [\"xoauth2\"]",
        "12:15: XOAUTH2 without a token server",
    ),
    (SUBMISSION, "logins = { table = \"none\" }", "11:20: unknown table \"none\""),
    (
        SUBMISSION,
        "logins = { table = \"p\" }\nsenders = { table = \"none\" }",
        "12:21: unknown table \"none\"",
    ),
    (
        SUBMISSION,
        "logins = { table = \"p\" }\ntls = \"off\"",
        "12:7: logins over unencrypted connections",
    ),
    (
        SUBMISSION,
        "logins = { table = \"p\" }\nrelay_from = [\"10.0.0.0/8\"]",
        "12:14: `relay_from` on a listener with logins",
    ),
    (
        SUBMISSION,
        "logins = { table = \"p\" }\nchecks = { spf = \"mark\" }",
        "12:1: authenticated clients are not checked",
    ),
    (SUBMISSION, "logins = { table = \"p\" }\nmechanisms = []", "12:14: `mechanisms` is empty"),
    (
        SUBMISSION,
        "logins = { table = \"p\" }\nmechanisms = [\"cram-md5\"]",
        "12:15: CRAM-MD5 is not supported with a table",
    ),
    (
        SUBMISSION,
        "logins = { table = \"p\" }\nmechanisms = [\"kerberos\"]",
        "12:15: invalid value \"kerberos\" for `mechanisms[0]`",
    ),
    (
        SUBMISSION,
        "logins = { table = \"p\" }\nmax_login_failures = 0",
        "12:22: `max_login_failures` must be at least 1",
    ),
    (
        SUBMISSION,
        "logins = { table = \"p\" }\nlogin_failure_delay = \"61s\"",
        "12:23: clients wait at most a minute for a failed login",
    ),
    (
        SUBMISSION,
        "logins = { table = \"p\" }\n[[listener]]\naddress = \"127.0.0.1:25\"\nlogins = { table = \"p\" }",
        "14:1: `logins` on a listener with kind = \"smtp\"",
    ),
    (
        "[[table]]\nname = \"p\"\ninline = { a = \"b\" }\n<HERE>\n[[route]]\ndiscard = {}\n",
        "[[listener]]\naddress = \"127.0.0.1:587\"\nkind = \"submission\"\nlogins = { table = \"p\" }",
        "6:8: logins, and no [[certificate]] to encrypt them with",
    ),
];
