//! Configurations as sites have them: from Debian's default to mailing-list hosts. They are played translated only:
//! the report must name each difference beforehand.

use super::set_up::{FRIEND, SetUp, Words};

/// Recipients of sites with mailboxes for `here.test`.
const HOSTED: Words = Words {
    recipients: &[
        "al@here.test",
        "Al@Here.test",
        "al+tag@here.test",
        "bo@here.test",
        "info@here.test",
        "cy@here.test",
        "bo@far.test",
        "bo@other.test",
    ],
    ..Words::USUAL
};

const OUTWARD: Words =
    Words { recipients: &["bo@far.test", "bo@sub.far.test", "bo@other.test"], ..Words::USUAL };

const MAILBOXES: (&str, &str) =
    ("mailboxes", "al@here.test a/\nbo@here.test b/\npostmaster@here.test p/\n");
const VIRTUAL: (&str, &str) = ("virtual", "info@here.test al@here.test, bo@here.test\n");
const ALIASES: (&str, &str) = ("aliases", "postmaster root\nroot al\ninfo al, bo\n");
const USERS: (&str, &str) = ("users", "al x\nbo x\n");

/// Mailboxes at a next hop, as Dovecot takes them by LMTP.
const VIRTUAL_HOST: &str = "virtual_mailbox_domains = here.test\n\
    virtual_mailbox_maps = texthash:{dir}/mailboxes\nvirtual_alias_maps = texthash:{dir}/virtual\n\
    virtual_transport = smtp:[{c}]:{port}\n";

const fn hosted(name: &'static str, main: &'static str) -> SetUp {
    SetUp { name, main, files: &[MAILBOXES, VIRTUAL], words: HOSTED, ..SetUp::PLAIN }
}

const fn outward(name: &'static str, main: &'static str) -> SetUp {
    SetUp { name, main, words: OUTWARD, ..SetUp::PLAIN }
}

pub(super) const SET_UPS: [SetUp; 25] = [
    SetUp {
        name: "Debian: Internet site",
        main: "smtpd_banner = $myhostname ESMTP $mail_name (Debian/GNU)\nbiff = no\nappend_dot_mydomain = no\n\
               readme_directory = no\nsmtpd_tls_security_level = may\nsmtpd_tls_chain_files = {dir}/mx.key, {dir}/mx.pem\n\
               smtp_tls_CApath = /etc/ssl/certs\nsmtp_tls_security_level = may\n\
               smtp_tls_session_cache_database = btree:${data_directory}/smtp_scache\n\
               smtpd_relay_restrictions = permit_mynetworks permit_sasl_authenticated defer_unauth_destination\n\
               alias_maps = texthash:{dir}/aliases\nmydestination = $myhostname, here.test, localhost\n\
               relayhost =\nmailbox_size_limit = 0\nlocal_recipient_maps = texthash:{dir}/users $alias_maps\n\
               mailbox_transport = smtp:[{c}]:{port}\n",
        services: "local unix - n n - - local\n",
        files: &[ALIASES, USERS],
        has_tls: true,
        words: HOSTED,
        ..SetUp::PLAIN
    },
    SetUp {
        name: "Debian: satellite system",
        main: "mydestination = $myhostname, localhost\nrelayhost = [{a}]:{port}\nsmtp_tls_security_level = may\n\
               smtpd_relay_restrictions = permit_mynetworks permit_sasl_authenticated defer_unauth_destination\n\
               local_recipient_maps =\nlocal_transport = smtp:[{d}]:{port}\nmailbox_size_limit = 0\nbiff = no\n",
        words: Words { clients: &[FRIEND], ..OUTWARD },
        ..SetUp::PLAIN
    },
    SetUp {
        name: "Debian: local only",
        main: "mydestination = $myhostname, here.test, localhost\ndefault_transport = error\nrelay_transport = error\n\
               local_recipient_maps =\nlocal_transport = smtp:[{d}]:{port}\n",
        words: HOSTED,
        ..SetUp::PLAIN
    },
    hosted("virtual mailboxes by LMTP", VIRTUAL_HOST),
    hosted(
        "hoster with a checked HELO",
        "virtual_mailbox_domains = here.test\nvirtual_mailbox_maps = texthash:{dir}/mailboxes\n\
         virtual_alias_maps = texthash:{dir}/virtual\nvirtual_transport = smtp:[{c}]:{port}\n\
         smtpd_helo_required = yes\n\
         smtpd_helo_restrictions = permit_mynetworks, reject_invalid_helo_hostname, reject_non_fqdn_helo_hostname\n",
    ),
    hosted(
        "hoster with checked senders",
        "virtual_mailbox_domains = here.test\nvirtual_mailbox_maps = texthash:{dir}/mailboxes\n\
         virtual_alias_maps = texthash:{dir}/virtual\nvirtual_transport = smtp:[{c}]:{port}\n\
         smtpd_sender_restrictions = permit_mynetworks, reject_non_fqdn_sender, reject_unknown_sender_domain\n\
         smtpd_recipient_restrictions = permit_mynetworks, reject_non_fqdn_recipient, reject_unauth_destination\n",
    ),
    SetUp {
        name: "hoster with a list of blocked senders",
        main: "virtual_mailbox_domains = here.test\nvirtual_mailbox_maps = texthash:{dir}/mailboxes\n\
               virtual_alias_maps = texthash:{dir}/virtual\nvirtual_transport = smtp:[{c}]:{port}\n\
               smtpd_sender_restrictions = check_sender_access texthash:{dir}/blocked\n",
        files: &[MAILBOXES, VIRTUAL, ("blocked", "jo@a.test REJECT\nb.test 554 5.7.1 Go away\n")],
        words: HOSTED,
        ..SetUp::PLAIN
    },
    SetUp {
        name: "hoster with patterns",
        main: "virtual_mailbox_domains = here.test\nvirtual_mailbox_maps = texthash:{dir}/mailboxes\n\
               virtual_alias_maps = regexp:{dir}/patterns\nvirtual_transport = smtp:[{c}]:{port}\n",
        files: &[
            MAILBOXES,
            (
                "patterns",
                "/^info@here\\.test$/ al@here.test\n/^all-(.*)@here\\.test$/ $1@here.test\n",
            ),
        ],
        words: Words {
            recipients: &[
                "al@here.test",
                "info@here.test",
                "all-bo@here.test",
                "all-cy@here.test",
                "bo@far.test",
            ],
            ..Words::USUAL
        },
        ..SetUp::PLAIN
    },
    SetUp {
        name: "hoster with domains by map",
        main: "virtual_mailbox_domains = texthash:{dir}/domains\nvirtual_mailbox_maps = texthash:{dir}/mailboxes\n\
               virtual_alias_maps = texthash:{dir}/virtual\nvirtual_transport = smtp:[{c}]:{port}\n",
        files: &[MAILBOXES, VIRTUAL, ("domains", "here.test x\nsecond.test x\n")],
        words: HOSTED,
        ..SetUp::PLAIN
    },
    SetUp {
        name: "mailing-list host",
        main: "mydestination = here.test\nlocal_recipient_maps = texthash:{dir}/users $alias_maps\n\
               alias_maps = texthash:{dir}/aliases\nmailbox_transport = smtp:[{c}]:{port}\n\
               relay_domains = lists.test\nrelay_recipient_maps = texthash:{dir}/lists\n\
               transport_maps = texthash:{dir}/list-transport\nunknown_local_recipient_reject_code = 550\n",
        services: "local unix - n n - - local\n",
        files: &[
            ALIASES,
            USERS,
            ("lists", "news@lists.test x\nnews-bounces@lists.test x\nnews-request@lists.test x\n"),
            ("list-transport", "lists.test smtp:[{b}]:{port}\n"),
        ],
        words: Words {
            recipients: &[
                "news@lists.test",
                "news-request@lists.test",
                "other@lists.test",
                "al@here.test",
                "info@here.test",
                "bo@far.test",
            ],
            ..Words::USUAL
        },
        ..SetUp::PLAIN
    },
    SetUp {
        name: "gateway with transports of foreign domains",
        main: "transport_maps = texthash:{dir}/transport\n",
        files: &[(
            "transport",
            "far.test smtp:[{b}]:{port}\n.far.test smtp:[{c}]:{port}\nother.test discard:\n",
        )],
        words: OUTWARD,
        ..SetUp::PLAIN
    },
    SetUp {
        name: "backup MX of several domains",
        main: "relay_domains = relayed.test, here.test\nrelay_recipient_maps = texthash:{dir}/recipients\n\
               transport_maps = texthash:{dir}/transport\n",
        files: &[
            ("recipients", "al@relayed.test x\n@here.test x\n"),
            ("transport", "here.test smtp:[{d}]:{port}\nrelayed.test smtp:[{c}]:{port}\n"),
        ],
        words: Words {
            recipients: &["al@relayed.test", "cy@relayed.test", "cy@here.test", "bo@far.test"],
            ..Words::USUAL
        },
        ..SetUp::PLAIN
    },
    SetUp {
        name: "relays and logins by sender",
        main: "relayhost = [{s}]:{port}\nsmtp_sender_dependent_authentication = yes\nsmtp_sasl_auth_enable = yes\n\
               smtp_sasl_security_options = noanonymous\nsmtp_tls_security_level = encrypt\n\
               smtp_sasl_password_maps = texthash:{dir}/sasl_passwd\n\
               sender_dependent_relayhost_maps = texthash:{dir}/relays\n",
        files: &[
            ("relays", "al@here.test [{s}]:{port}\n"),
            ("sasl_passwd", "al@here.test al:pencil\n[{s}]:{port} jo:pencil\n"),
        ],
        has_tls: true,
        words: Words { clients: &[FRIEND], ..OUTWARD },
        ..SetUp::PLAIN
    },
    SetUp {
        name: "transports by sender",
        main: "sender_dependent_default_transport_maps = texthash:{dir}/transports\n",
        files: &[("transports", "al@here.test smtp:[{a}]:{port}\n@a.test smtp:[{b}]:{port}\n")],
        words: OUTWARD,
        ..SetUp::PLAIN
    },
    SetUp {
        name: "office with rewritten senders",
        main: "relayhost = [{a}]:{port}\nsender_canonical_maps = texthash:{dir}/canonical\n",
        files: &[("canonical", "al@here.test al.smith@here.test\n")],
        words: Words { clients: &[FRIEND], ..OUTWARD },
        ..SetUp::PLAIN
    },
    SetUp {
        name: "office with generic addresses",
        main: "relayhost = [{a}]:{port}\nsmtp_generic_maps = texthash:{dir}/generic\n",
        files: &[("generic", "al@here.test al@b.test\n")],
        words: Words { clients: &[FRIEND], ..OUTWARD },
        ..SetUp::PLAIN
    },
    SetUp {
        name: "hoster with copies",
        main: "virtual_mailbox_domains = here.test\nvirtual_mailbox_maps = texthash:{dir}/mailboxes\n\
               virtual_alias_maps = texthash:{dir}/virtual\nvirtual_transport = smtp:[{c}]:{port}\n\
               always_bcc = archive@other.test\n",
        files: &[MAILBOXES, VIRTUAL],
        words: HOSTED,
        ..SetUp::PLAIN
    },
    SetUp {
        name: "hoster with header checks",
        main: "virtual_mailbox_domains = here.test\nvirtual_mailbox_maps = texthash:{dir}/mailboxes\n\
               virtual_alias_maps = texthash:{dir}/virtual\nvirtual_transport = smtp:[{c}]:{port}\n\
               header_checks = regexp:{dir}/header_checks\n",
        files: &[
            MAILBOXES,
            VIRTUAL,
            ("header_checks", "/^Subject: .*lottery/ REJECT no lotteries\n/^X-Secret:/ IGNORE\n"),
        ],
        words: Words { fields: &["Subject: a lottery", "X-Secret: 1", "Subject: usual"], ..HOSTED },
        ..SetUp::PLAIN
    },
    outward("small messages only", "message_size_limit = 100000\nmailbox_size_limit = 0\n"),
    outward(
        "many recipients refused",
        "smtpd_recipient_limit = 1000\nsmtp_destination_concurrency_limit = 5\n",
    ),
    SetUp {
        name: "front behind postscreen's lists",
        main: "virtual_mailbox_domains = here.test\nvirtual_mailbox_maps = texthash:{dir}/mailboxes\n\
               virtual_alias_maps = texthash:{dir}/virtual\nvirtual_transport = smtp:[{c}]:{port}\n\
               postscreen_access_list = permit_mynetworks, cidr:{dir}/postscreen\npostscreen_greet_wait = 2s\n\
               postscreen_dnsbl_threshold = 2\n",
        files: &[MAILBOXES, VIRTUAL, ("postscreen", "192.0.2.0/24 reject\n")],
        words: HOSTED,
        ..SetUp::PLAIN
    },
    SetUp {
        name: "local users with an alias domain",
        main: "mydestination = here.test\nlocal_recipient_maps = texthash:{dir}/users $alias_maps\n\
               alias_maps = texthash:{dir}/aliases\nmailbox_transport = smtp:[{c}]:{port}\n\
               virtual_alias_domains = second.test\nvirtual_alias_maps = texthash:{dir}/virtual\n",
        services: "local unix - n n - - local\n",
        files: &[ALIASES, USERS, ("virtual", "@second.test @here.test\n")],
        words: Words {
            recipients: &[
                "al@here.test",
                "al@second.test",
                "info@second.test",
                "cy@here.test",
                "bo@far.test",
            ],
            ..Words::USUAL
        },
        ..SetUp::PLAIN
    },
    SetUp {
        name: "fallback relay of an office",
        main: "smtp_fallback_relay = [{b}]:{port}\n",
        words: Words {
            clients: &[FRIEND],
            recipients: &["bo@far.test", "bo@away.test"],
            ..Words::USUAL
        },
        ..SetUp::PLAIN
    },
    SetUp {
        name: "closed relay by addresses",
        main: "mynetworks = 127.0.0.9\nsmtpd_relay_restrictions = check_client_access cidr:{dir}/clients, reject\n",
        files: &[("clients", "127.0.0.1 OK\n127.0.0.2 REJECT\n")],
        words: OUTWARD,
        ..SetUp::PLAIN
    },
    SetUp {
        name: "names in maps of kind inline",
        main: "virtual_mailbox_domains = inline:{ here.test=x }\n\
               virtual_mailbox_maps = inline:{ al@here.test=a/, bo@here.test=b/, postmaster@here.test=p/ }\n\
               virtual_transport = smtp:[{c}]:{port}\n",
        words: HOSTED,
        ..SetUp::PLAIN
    },
];
