//! Set-ups that relay: null clients, smarthosts, gateways, backup MXs.

use super::set_up::{FRIEND, SetUp, Words};

pub(super) const SET_UPS: [SetUp; 11] = [
    NULL_CLIENT,
    SMARTHOST,
    SMARTHOST_BY_MX,
    SMARTHOST_WITH_LOGIN,
    NETWORKS_ONLY,
    BACKUP_MX,
    GATEWAY,
    TLS_POLICIES,
    FALLBACK,
    TRANSPORTS,
    SUSPENDED,
];

const NULL_CLIENT: SetUp = SetUp {
    name: "null client",
    main: "relayhost = [{a}]:{port}\n",
    sections: "[[route]]\nsmtp = { hosts = [\"{a}:{port}\"] }\n",
    words: Words { clients: &[FRIEND], ..Words::USUAL },
    ..SetUp::PLAIN
};

/// An office with mailboxes of its own.
const SMARTHOST: SetUp = SetUp {
    name: "smarthost in brackets",
    main: "relayhost = [smart.test]:{port}\nmydestination = here.test\n\
           local_recipient_maps = texthash:{dir}/users\nlocal_transport = smtp:[{d}]:{port}\n",
    sections: "[[table]]\nname = \"users\"\nfile = { path = \"users\" }\n\
               [[route]]\ndomains = [\"here.test\"]\nrecipients = { table = \"users\" }\n\
               smtp = { hosts = [\"{d}:{port}\"] }\n\
               [[route]]\nsmtp = { hosts = [\"smart.test:{port}\"] }\n",
    files: &[("users", "al@here.test x\nbo@here.test x\npostmaster@here.test x\n")],
    words: Words {
        recipients: &[
            "al@here.test",
            "Al@Here.Test",
            "bo@here.test",
            "cy@here.test",
            "al+tag@here.test",
            "al@sub.here.test",
            "al@far.test",
        ],
        ..Words::USUAL
    },
    ..SetUp::PLAIN
};

const SMARTHOST_BY_MX: SetUp = SetUp {
    name: "smarthost by MX",
    main: "relayhost = smart.test:{port}\n",
    sections: "[[route]]\nsmtp = { mx_of = \"smart.test\", port = {port} }\n",
    ..SetUp::PLAIN
};

const SMARTHOST_WITH_LOGIN: SetUp = SetUp {
    name: "smarthost with login and TLS",
    main: "relayhost = [{s}]:{port}\nsmtp_tls_security_level = encrypt\n\
           smtp_sasl_auth_enable = yes\nsmtp_sasl_security_options = noanonymous\n\
           smtp_sasl_password_maps = texthash:{dir}/sasl_passwd\n",
    sections: "[[table]]\nname = \"logins\"\nfile = { path = \"sasl_passwd\" }\n\
               [[route]]\n\
               smtp = { hosts = [\"{s}:{port}\"], tls = \"required\", login = { table = \"logins\" } }\n",
    files: &[("sasl_passwd", "[{s}]:{port} jo:pencil\n")],
    has_tls: true,
    ..SetUp::PLAIN
};

const NETWORKS_ONLY: SetUp = SetUp {
    name: "relay for mynetworks only",
    main: "smtpd_relay_restrictions = permit_mynetworks, reject\n",
    sections: "[[route]]\nmx = { port = {port} }\n",
    words: Words {
        recipients: &[
            "bo@far.test",
            "bo@sub.far.test",
            "bo@other.test",
            "bo@null.test",
            "bo@unknown.test",
            "bo@broken.test",
            "bo@away.test",
        ],
        ..Words::USUAL
    },
    ..SetUp::PLAIN
};

const BACKUP_MX: SetUp = SetUp {
    name: "backup MX",
    main: "relay_domains = relayed.test\nrelay_recipient_maps = texthash:{dir}/recipients\n",
    sections: "[[table]]\nname = \"recipients\"\nfile = { path = \"recipients\" }\n\
               [[route]]\ndomains = [\"relayed.test\", \"*.relayed.test\"]\nrecipients = { table = \"recipients\" }\n\
               mx = { port = {port} }\n\
               [[route]]\nmx = { port = {port} }\n",
    files: &[(
        "recipients",
        "al@relayed.test x\nbo+tag@relayed.test x\n@sub.relayed.test x\n\"j o\"@relayed.test x\n",
    )],
    words: Words {
        recipients: &[
            "al@relayed.test",
            "AL@relayed.TEST",
            "al+tag@relayed.test",
            "bo@relayed.test",
            "bo+tag@relayed.test",
            "cy@relayed.test",
            "cy@sub.relayed.test",
            "\"j o\"@relayed.test",
            "postmaster@relayed.test",
            "bo@far.test",
        ],
        ..Words::USUAL
    },
    ..SetUp::PLAIN
};

const GATEWAY: SetUp = SetUp {
    name: "gateway with transports",
    main: "relay_domains = relayed.test, second.test\nrelay_recipient_maps =\n\
           transport_maps = texthash:{dir}/transport\n",
    sections: "[[table]]\nname = \"special\"\ninline = { \"special@relayed.test\" = \"x\" }\n\
               [[route]]\ndomains = [\"relayed.test\"]\nwhen = { recipients = { table = \"special\" } }\n\
               smtp = { hosts = [\"{b}:{port}\"] }\n\
               [[route]]\ndomains = [\"relayed.test\"]\nsmtp = { hosts = [\"{a}:{port}\"] }\n\
               [[route]]\ndomains = [\"*.relayed.test\"]\nsmtp = { hosts = [\"{c}:{port}\"] }\n\
               [[route]]\ndomains = [\"second.test\", \"*.second.test\"]\n\
               smtp = { mx_of = \"far.test\", port = {port} }\n\
               [[route]]\nsmtp = { hosts = [\"{d}:{port}\"] }\n",
    files: &[(
        "transport",
        "special@relayed.test smtp:[{b}]:{port}\nrelayed.test smtp:[{a}]:{port}\n\
         .relayed.test smtp:[{c}]:{port}\nsecond.test smtp:far.test:{port}\n\
         .second.test smtp:far.test:{port}\n* smtp:[{d}]:{port}\n",
    )],
    words: Words {
        recipients: &[
            "al@relayed.test",
            "special@relayed.test",
            "Special@Relayed.test",
            "special+x@relayed.test",
            "al@sub.relayed.test",
            "special@sub.relayed.test",
            "al@deep.sub.relayed.test",
            "al@second.test",
            "al@sub.second.test",
            "bo@far.test",
            "bo@other.test",
        ],
        ..Words::USUAL
    },
    ..SetUp::PLAIN
};

const TLS_POLICIES: SetUp = SetUp {
    name: "TLS policies",
    main: "smtp_tls_security_level = may\nsmtp_tls_policy_maps = texthash:{dir}/policies\n",
    sections: "[[route]]\nwhen = { recipients = [\"@strict.test\", \"@far.test\"] }\n\
               mx = { port = {port}, tls = \"required\" }\n\
               [[route]]\nwhen = { recipients = [\"@tls.test\"] }\nmx = { port = {port}, tls = \"off\" }\n\
               [[route]]\nmx = { port = {port} }\n",
    files: &[("policies", "strict.test encrypt\nfar.test encrypt\ntls.test none\n")],
    words: Words {
        clients: &[FRIEND],
        recipients: &[
            "al@strict.test",
            "bo@strict.test",
            "al@tls.test",
            "al@far.test",
            "al@sub.far.test",
            "al@other.test",
        ],
        ..Words::USUAL
    },
    has_tls: true,
    ..SetUp::PLAIN
};

const FALLBACK: SetUp = SetUp {
    name: "fallback relay",
    main: "smtp_fallback_relay = [{b}]:{port}\nrelay_domains = relayed.test\nrelay_recipient_maps =\n\
           transport_maps = texthash:{dir}/transport\n",
    sections: "[[route]]\ndomains = [\"relayed.test\", \"*.relayed.test\"]\nfallback = \"spare\"\n\
               smtp = { hosts = [\"{dead}:{port}\"] }\n\
               [[route]]\nname = \"spare\"\ndomains = []\nsmtp = { hosts = [\"{b}:{port}\"] }\n\
               [[route]]\nfallback = \"spare\"\nmx = { port = {port} }\n",
    files: &[(
        "transport",
        "relayed.test smtp:[{dead}]:{port}\n.relayed.test smtp:[{dead}]:{port}\n",
    )],
    words: Words {
        recipients: &[
            "al@relayed.test",
            "al@sub.relayed.test",
            "bo@far.test",
            "bo@other.test",
            "bo@away.test",
            "bo@broken.test",
            "bo@unknown.test",
            "bo@null.test",
        ],
        ..Words::USUAL
    },
    ..SetUp::PLAIN
};

/// Domains without mail, with mail that waits, and with mail that goes nowhere.
const TRANSPORTS: SetUp = SetUp {
    name: "error, retry and discard",
    main: "relay_domains = gone.test, slow.test, hole.test, relayed.test\nrelay_recipient_maps =\n\
           transport_maps = texthash:{dir}/transport\n",
    sections: "[[table]]\nname = \"closed\"\nfile = { path = \"transport\" }\n\
               [[access]]\ntable = \"closed\"\nby = \"recipient\"\nclients = \"all\"\nparent_domains = false\n\
               [[route]]\ndomains = [\"hole.test\"]\ndiscard = {}\n\
               [[route]]\ndomains = [\"gone.test\", \"slow.test\", \"relayed.test\"]\n\
               smtp = { hosts = [\"{a}:{port}\"] }\n\
               [[route]]\nmx = { port = {port} }\n",
    files: &[
        (
            "transport",
            "gone.test error:5.1.2 No mail here\nslow.test retry:4.3.0 Come back\n\
             hole.test discard:\nrelayed.test smtp:[{a}]:{port}\nclosed@relayed.test error:5.2.1 Closed\n",
        ),
        (
            "ours-transport",
            "gone.test REJECT 5.1.2 No mail here\nslow.test 450 4.3.0 Come back\n\
             closed@relayed.test REJECT 5.2.1 Closed\n",
        ),
    ],
    words: Words {
        recipients: &[
            "al@gone.test",
            "al@slow.test",
            "al@hole.test",
            "bo@hole.test",
            "al@relayed.test",
            "closed@relayed.test",
            "bo@far.test",
        ],
        ..Words::USUAL
    },
    ..SetUp::PLAIN
};

/// Mail for a domain waits for an operator.
const SUSPENDED: SetUp = SetUp {
    name: "deferred transport",
    main: "relay_domains = slow.test, relayed.test\nrelay_recipient_maps =\n\
           transport_maps = texthash:{dir}/transport\ndefer_transports = slow\nrelayhost = [{b}]:{port}\n",
    services: "slow unix - - n - - smtp\n",
    sections: "[[route]]\nname = \"slow\"\ndomains = [\"slow.test\"]\nsmtp = { hosts = [\"{a}:{port}\"] }\n\
               [[route]]\ndomains = [\"relayed.test\"]\nsmtp = { hosts = [\"{a}:{port}\"] }\n\
               [[route]]\nsmtp = { hosts = [\"{b}:{port}\"] }\n",
    commands: &[&["queue", "suspend", "--route", "slow"]],
    files: &[("transport", "slow.test slow:[{a}]:{port}\nrelayed.test smtp:[{a}]:{port}\n")],
    words: Words {
        recipients: &["al@slow.test", "bo@slow.test", "al@relayed.test", "bo@far.test"],
        ..Words::USUAL
    },
    ..SetUp::PLAIN
};
