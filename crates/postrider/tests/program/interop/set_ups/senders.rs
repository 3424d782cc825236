//! Set-ups in which the sender or the login decides.

use super::set_up::{FRIEND, SetUp, Words};

pub(super) const SET_UPS: [SetUp; 4] = [SENDER_RELAYS, SENDER_LOGINS, SUBMISSION, HUB];

/// Senders with and without a relay of their own.
const SENDERS: &[&str] = &[
    "jo@here.test",
    "Jo@Here.test",
    "jo+x@here.test",
    "al@here.test",
    "any@news.test",
    "any@sub.news.test",
    "jo@a.test",
    "",
];

const SENDER_RELAYS: SetUp = SetUp {
    name: "relays by sender",
    main: "relayhost = [{a}]:{port}\nmydestination = here.test\nlocal_recipient_maps =\n\
           local_transport = smtp:[{d}]:{port}\n\
           sender_dependent_relayhost_maps = texthash:{dir}/relays\n",
    sections: "[[table]]\nname = \"jo\"\ninline = { \"jo@here.test\" = \"x\" }\n\
               [[route]]\ndomains = [\"here.test\"]\nsmtp = { hosts = [\"{d}:{port}\"] }\n\
               [[route]]\nwhen = { senders = { table = \"jo\" } }\nsmtp = { hosts = [\"{b}:{port}\"] }\n\
               [[route]]\nwhen = { senders = [\"@news.test\"] }\nsmtp = { hosts = [\"{c}:{port}\"] }\n\
               [[route]]\nsmtp = { hosts = [\"{a}:{port}\"] }\n",
    files: &[("relays", "jo@here.test [{b}]:{port}\n@news.test [{c}]:{port}\n")],
    words: Words {
        senders: SENDERS,
        recipients: &["al@here.test", "bo@far.test", "bo@other.test"],
        ..Words::USUAL
    },
    ..SetUp::PLAIN
};

const SENDER_LOGINS: SetUp = SetUp {
    name: "logins by sender",
    main: "relayhost = [{s}]:{port}\nmydestination = here.test\nlocal_recipient_maps =\n\
           local_transport = local-hop:[{d}]:{port}\n\
           sender_dependent_relayhost_maps = texthash:{dir}/relays\n\
           smtp_sender_dependent_authentication = yes\nsmtp_sasl_auth_enable = yes\n\
           smtp_sasl_security_options = noanonymous\nsmtp_tls_security_level = may\n\
           smtp_tls_policy_maps = texthash:{dir}/policies\n\
           smtp_sasl_password_maps = texthash:{dir}/sasl_passwd\n",
    services: "local-hop unix - - n - - smtp\n",
    sections: "[[table]]\nname = \"logins\"\nfile = { path = \"sasl_passwd\" }\n\
               [[route]]\ndomains = [\"here.test\"]\nsmtp = { hosts = [\"{d}:{port}\"] }\n\
               [[route]]\nwhen = { senders = [\"@news.test\"] }\nsmtp = { hosts = [\"{c}:{port}\"] }\n\
               [[route]]\nsmtp = { hosts = [\"{s}:{port}\"], tls = \"required\", \
               login = { table = \"logins\", key = \"sender\" } }\n",
    files: &[
        ("relays", "@news.test [{c}]:{port}\n"),
        ("policies", "[{s}]:{port} encrypt\n"),
        ("sasl_passwd", "jo@here.test jo:pencil\nal@here.test al:pencil\n[{s}]:{port} jo:pencil\n"),
    ],
    words: Words {
        senders: SENDERS,
        recipients: &["al@here.test", "bo@far.test", "bo@other.test"],
        ..Words::USUAL
    },
    has_tls: true,
    ..SetUp::PLAIN
};

const SUBMISSION: SetUp = SetUp {
    name: "submission",
    main: "relayhost = [{a}]:{port}\nmydestination = here.test\n\
           local_recipient_maps = texthash:{dir}/users\nlocal_transport = smtp:[{d}]:{port}\n\
           smtpd_tls_security_level = encrypt\nsmtpd_delay_reject = no\nsmtpd_tls_chain_files = {dir}/mx.key, {dir}/mx.pem\n\
           smtpd_sasl_auth_enable = yes\nsmtpd_sasl_type = dovecot\nsmtpd_sasl_path = {auth}\n\
           smtpd_sender_login_maps = texthash:{dir}/owners\n\
           smtpd_sender_restrictions = reject_sender_login_mismatch\n\
           smtpd_relay_restrictions = permit_sasl_authenticated, reject\nmynetworks = 127.0.9.9\n",
    listener: "kind = \"submission\"\nlogins = { table = \"passwords\" }\nsenders = { table = \"owned\" }\n\
               login_failure_delay = \"0s\"\nlogin_failures_per_hour = 0\nlogin_failures_per_hour_of_user = 0\n\
               authors = \"any\"\n",
    sections: "[[certificate]]\nnames = [\"mx.here.test\"]\nchain = \"mx.pem\"\nkey = \"mx.key\"\n\
               [[limit]]\nby = \"login\"\nmessages = \"unlimited\"\n\
               [[table]]\nname = \"passwords\"\n[table.inline]\n\"jo\" = \"{PLAIN}pencil\"\n\"al\" = \"{PLAIN}pencil\"\n\
               [[table]]\nname = \"owned\"\nfile = { path = \"owned\" }\n\
               [[table]]\nname = \"users\"\nfile = { path = \"users\" }\n\
               [[route]]\ndomains = [\"here.test\"]\nrecipients = { table = \"users\" }\n\
               smtp = { hosts = [\"{d}:{port}\"] }\n\
               [[route]]\nsmtp = { hosts = [\"{a}:{port}\"] }\n",
    files: &[
        ("users", "al@here.test x\nbo@here.test x\npostmaster@here.test x\n"),
        ("owners", "jo@here.test jo\nal@here.test al\nsales@here.test jo, al\n@news.test al\n"),
        (
            "ours-owned",
            "jo jo@here.test, sales@here.test\nal al@here.test, sales@here.test, @news.test\n",
        ),
    ],
    words: Words {
        clients: &[FRIEND],
        senders: &[
            "jo@here.test",
            "Jo@Here.test",
            "jo+x@here.test",
            "al@here.test",
            "sales@here.test",
            "any@news.test",
            "jo@a.test",
            "",
        ],
        recipients: &["al@here.test", "cy@here.test", "bo@far.test", "bo@other.test"],
        ..Words::USUAL
    },
    is_submission: true,
    has_tls: true,
    ..SetUp::PLAIN
};

/// The hub of a company: relays by sender, transports by domain, a provider with a login for the rest.
const HUB: SetUp = SetUp {
    name: "hub",
    // Conditions of routes do not apply to the postmaster's mail, so it has a domain of this server.
    postmaster: "postmaster@relayed.test",
    main: "myorigin = relayed.test\nrelay_domains = relayed.test, second.test\nrelay_recipient_maps =\n\
           transport_maps = texthash:{dir}/transport\nrelayhost = [{s}]:{port}\n\
           sender_dependent_relayhost_maps = texthash:{dir}/relays\n\
           smtp_sasl_auth_enable = yes\nsmtp_sasl_security_options = noanonymous\n\
           smtp_sasl_password_maps = texthash:{dir}/sasl_passwd\nsmtp_tls_security_level = may\n\
           smtp_tls_policy_maps = texthash:{dir}/policies\n\
           smtpd_recipient_restrictions = check_recipient_access texthash:{dir}/closed\n",
    sections: "[[table]]\nname = \"logins\"\nfile = { path = \"sasl_passwd\" }\n\
               [[table]]\nname = \"closed\"\nfile = { path = \"closed\" }\n\
               [[access]]\ntable = \"closed\"\nby = \"recipient\"\nclients = \"all\"\nparent_domains = true\n\
               [[route]]\ndomains = [\"relayed.test\"]\nsmtp = { hosts = [\"{a}:{port}\"] }\n\
               [[route]]\ndomains = [\"*.relayed.test\"]\nsmtp = { hosts = [\"{b}:{port}\"] }\n\
               [[route]]\ndomains = [\"second.test\"]\nsmtp = { hosts = [\"{f}:{port}\"] }\n\
               [[route]]\nwhen = { senders = [\"@news.test\"] }\nsmtp = { hosts = [\"{c}:{port}\"] }\n\
               [[route]]\nwhen = { senders = [\"al@here.test\"] }\n\
               smtp = { hosts = [\"{t}:{port}\"], tls = \"required\" }\n\
               [[route]]\nsmtp = { hosts = [\"{s}:{port}\"], tls = \"required\", login = { table = \"logins\" } }\n",
    files: &[
        (
            "transport",
            "relayed.test smtp:[{a}]:{port}\n.relayed.test smtp:[{b}]:{port}\nsecond.test smtp:[{f}]:{port}\n",
        ),
        ("relays", "@news.test [{c}]:{port}\nal@here.test [{t}]:{port}\n"),
        ("sasl_passwd", "[{s}]:{port} al:pencil\n"),
        ("policies", "[{s}]:{port} encrypt\n[{t}]:{port} encrypt\n"),
        ("closed", "closed@relayed.test REJECT 5.2.1 Closed\nbusy@relayed.test 450 4.2.1 Busy\n"),
    ],
    words: Words {
        senders: SENDERS,
        recipients: &[
            "al@relayed.test",
            "closed@relayed.test",
            "busy@relayed.test",
            "al@sub.relayed.test",
            "al@second.test",
            "bo@far.test",
            "bo@other.test",
        ],
        ..Words::USUAL
    },
    has_tls: true,
    ..SetUp::PLAIN
};
