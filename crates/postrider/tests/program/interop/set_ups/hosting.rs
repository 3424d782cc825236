//! Set-ups with domains of their own: mailboxes, aliases, catch-all addresses.

use super::set_up::{SetUp, Words};

pub(super) const SET_UPS: [SetUp; 10] = [
    HOSTER,
    HOSTER_WITHOUT_TAGS,
    HOSTER_WITH_TWO_DELIMITERS,
    ALIAS_DOMAINS,
    CATCH_ALL,
    LOCAL_ALIASES,
    LOCAL_ALIASES_WITHOUT_TAGS,
    LOCAL_RECIPIENTS,
    RELOCATED,
    MAIL_HOST,
];

const HOSTER: SetUp = SetUp {
    name: "hoster",
    main: "virtual_mailbox_domains = here.test, second.test\n\
           virtual_mailbox_maps = texthash:{dir}/mailboxes\nvirtual_alias_maps = texthash:{dir}/virtual\n\
           virtual_transport = smtp:[{c}]:{port}\n",
    sections: "[[table]]\nname = \"mailboxes\"\nfile = { path = \"mailboxes\" }\n\
               [[table]]\nname = \"virtual\"\nfile = { path = \"virtual\" }\n\
               [[route]]\ndomains = [\"here.test\", \"second.test\"]\n\
               recipients = { table = \"mailboxes\" }\naliases = { table = \"virtual\", origin = \"here.test\" }\n\
               smtp = { hosts = [\"{c}:{port}\"] }\n\
               [[route]]\nmx = { port = {port} }\n",
    files: &[
        (
            "mailboxes",
            "al@here.test a/\nbo@here.test b/\nal@second.test c/\npostmaster@here.test p/\nself@here.test s/\n",
        ),
        (
            "virtual",
            "info@here.test al@here.test, bo@here.test\nsales@here.test al\nfwd@here.test out@far.test\n\
             chain@here.test info@here.test, al@second.test\nself@here.test self@here.test, bo@here.test\n\
             ring@here.test gnir@here.test\ngnir@here.test ring@here.test\nal+box@here.test bo@here.test\n\
             abuse@second.test al@here.test\nlost@here.test gone@here.test\n",
        ),
    ],
    words: Words {
        recipients: &[
            "al@here.test",
            "AL@Here.TEST",
            "al+tag@here.test",
            "al+box@here.test",
            "al@second.test",
            "bo@second.test",
            "info@here.test",
            "Info+x@here.test",
            "sales@here.test",
            "fwd@here.test",
            "fwd+x@here.test",
            "chain@here.test",
            "self@here.test",
            "lost@here.test",
            "abuse@second.test",
            "cy@here.test",
            "bo@far.test",
        ],
        ..Words::USUAL
    },
    ..SetUp::PLAIN
};

/// As Postfix is by default.
const HOSTER_WITHOUT_TAGS: SetUp = SetUp { name: "hoster without tags", delimiter: "", ..HOSTER };

const HOSTER_WITH_TWO_DELIMITERS: SetUp = SetUp {
    name: "hoster with two delimiters",
    delimiter: "-+",
    words: Words {
        recipients: &[
            "al@here.test",
            "al-tag@here.test",
            "al+tag@here.test",
            "al+box@here.test",
            "al-box@here.test",
            "al-a+b@here.test",
            "al+a-b@here.test",
            "info-x@here.test",
            "Info+x@here.test",
            "fwd-x@here.test",
            "fwd+x@here.test",
            "self-@here.test",
            "-al@here.test",
            "cy-x@here.test",
            "bo-x@far.test",
        ],
        ..Words::USUAL
    },
    ..HOSTER
};

const ALIAS_DOMAINS: SetUp = SetUp {
    name: "virtual alias domains",
    postmaster: "out@far.test",
    main: "virtual_alias_domains = here.test, whole.test\nvirtual_alias_maps = texthash:{dir}/virtual\n\
           ",
    sections: "[[table]]\nname = \"virtual\"\nfile = { path = \"virtual\" }\n\
               [[table]]\nname = \"none\"\ninline = {}\n\
               [[route]]\ndomains = [\"here.test\", \"whole.test\"]\nrecipients = { table = \"none\" }\n\
               aliases = { table = \"virtual\" }\ndiscard = {}\n\
               [[route]]\nmx = { port = {port} }\n",
    files: &[(
        "virtual",
        "al@here.test out@far.test\ninfo@here.test al@here.test, other@other.test\n\
         @whole.test @far.test\nspecial@whole.test jo@other.test\npostmaster@here.test out@far.test\n",
    )],
    words: Words {
        recipients: &[
            "al@here.test",
            "al+tag@here.test",
            "info@here.test",
            "cy@here.test",
            "any@whole.test",
            "any+tag@whole.test",
            "special@whole.test",
            "bo@far.test",
        ],
        ..Words::USUAL
    },
    ..SetUp::PLAIN
};

const CATCH_ALL: SetUp = SetUp {
    name: "catch-all",
    postmaster: "al@here.test",
    main: "virtual_mailbox_domains = here.test\nvirtual_mailbox_maps = texthash:{dir}/mailboxes\n\
           virtual_alias_maps = texthash:{dir}/virtual\nvirtual_transport = smtp:[{c}]:{port}\n\
           transport_maps = texthash:{dir}/transport\n",
    sections: "[[table]]\nname = \"mailboxes\"\nfile = { path = \"mailboxes\" }\n\
               [[table]]\nname = \"virtual\"\nfile = { path = \"virtual\" }\n\
               [[table]]\nname = \"catchers\"\ninline = { \"catch@here.test\" = \"x\" }\n\
               [[route]]\ndomains = [\"here.test\"]\nwhen = { recipients = { table = \"catchers\" } }\n\
               recipients = { table = \"mailboxes\" }\naliases = { table = \"virtual\" }\n\
               smtp = { hosts = [\"{d}:{port}\"] }\n\
               [[route]]\ndomains = [\"here.test\"]\n\
               recipients = { table = \"mailboxes\" }\naliases = { table = \"virtual\" }\n\
               smtp = { hosts = [\"{c}:{port}\"] }\n\
               [[route]]\nmx = { port = {port} }\n",
    files: &[
        ("mailboxes", "al@here.test a/\nbo@here.test b/\ncatch@here.test c/\n"),
        (
            "virtual",
            "al@here.test al@here.test\npostmaster@here.test al@here.test\n@here.test catch@here.test\nout@here.test out@far.test\n",
        ),
        ("transport", "catch@here.test smtp:[{d}]:{port}\n"),
    ],
    words: Words {
        recipients: &[
            "al@here.test",
            "Al@here.test",
            "bo@here.test",
            "catch@here.test",
            "any@here.test",
            "any+tag@here.test",
            "out@here.test",
            "bo@far.test",
        ],
        ..Words::USUAL
    },
    ..SetUp::PLAIN
};

const LOCAL_ALIASES: SetUp = SetUp {
    name: "local aliases",
    postmaster: "al@here.test",
    services: "local unix - n n - - local\n",
    main: "mydestination = here.test, relay.test, localhost\n\
           alias_maps = texthash:{dir}/aliases\nlocal_recipient_maps = texthash:{dir}/users $alias_maps\n\
           mailbox_transport = smtp:[{c}]:{port}\n",
    sections: "[[table]]\nname = \"aliases\"\nfile = { path = \"aliases\" }\n\
               [[table]]\nname = \"users\"\nfile = { path = \"users\" }\n\
               [[route]]\ndomains = [\"here.test\", \"relay.test\", \"localhost\"]\n\
               recipients = { table = \"users\" }\n\
               aliases = { table = \"aliases\", origin = \"here.test\" }\n\
               smtp = { hosts = [\"{c}:{port}\"] }\n\
               [[route]]\nmx = { port = {port} }\n",
    files: &[
        ("users", "al x\nbo x\n"),
        (
            "aliases",
            "info al, bo\npostmaster root\nroot al\nfwd out@far.test\nmix bo, out@other.test\n",
        ),
        (
            "ours-users",
            "al@here.test x\nbo@here.test x\nal@relay.test x\nbo@relay.test x\n\
             al@localhost x\nbo@localhost x\n",
        ),
        (
            "ours-aliases",
            "info@here.test al, bo\npostmaster@here.test root\nroot@here.test al\n\
             fwd@here.test out@far.test\nmix@here.test bo, out@other.test\n\
             @relay.test @here.test\n@localhost @here.test\n",
        ),
    ],
    words: Words {
        recipients: &[
            "al@here.test",
            "AL@here.test",
            "al+tag@here.test",
            "al@relay.test",
            "info@here.test",
            "info+x@here.test",
            "info@relay.test",
            "postmaster@here.test",
            "root@here.test",
            "fwd@here.test",
            "mix@here.test",
            "cy@here.test",
            "bo@far.test",
        ],
        ..Words::USUAL
    },
    ..SetUp::PLAIN
};

const LOCAL_ALIASES_WITHOUT_TAGS: SetUp =
    SetUp { name: "local aliases without tags", delimiter: "", ..LOCAL_ALIASES };

const LOCAL_RECIPIENTS: SetUp = SetUp {
    name: "local recipients",
    main: "mydestination = here.test, second.test\nlocal_recipient_maps = texthash:{dir}/users\n\
           local_transport = smtp:[{c}]:{port}\n",
    sections: "[[table]]\nname = \"users\"\nfile = { path = \"users\" }\n\
               [[route]]\ndomains = [\"here.test\", \"second.test\"]\nrecipients = { table = \"users\" }\n\
               smtp = { hosts = [\"{c}:{port}\"] }\n\
               [[route]]\nmx = { port = {port} }\n",
    files: &[
        ("users", "al x\nbo@second.test x\npostmaster@here.test x\n"),
        (
            "ours-users",
            "al@here.test x\nal@second.test x\nbo@second.test x\npostmaster@here.test x\n",
        ),
    ],
    words: Words {
        recipients: &[
            "al@here.test",
            "Al@HERE.test",
            "al@second.test",
            "al+tag@here.test",
            "bo@here.test",
            "bo@second.test",
            "cy@second.test",
            "bo@far.test",
        ],
        ..Words::USUAL
    },
    ..SetUp::PLAIN
};

const RELOCATED: SetUp = SetUp {
    name: "relocated users",
    main: "mydestination = here.test\nlocal_recipient_maps = texthash:{dir}/users\n\
           local_transport = smtp:[{c}]:{port}\nrelocated_maps = texthash:{dir}/relocated\n",
    sections: "[[table]]\nname = \"users\"\nfile = { path = \"users\" }\n\
               [[table]]\nname = \"relocated\"\nfile = { path = \"relocated\" }\n\
               [[access]]\ntable = \"relocated\"\nby = \"recipient\"\nclients = \"all\"\n\
               [[route]]\ndomains = [\"here.test\"]\nrecipients = { table = \"users\" }\n\
               smtp = { hosts = [\"{c}:{port}\"] }\n\
               [[route]]\nmx = { port = {port} }\n",
    files: &[
        ("users", "al@here.test x\nold@here.test x\npostmaster@here.test x\n"),
        ("relocated", "old@here.test new@far.test\n"),
        ("ours-relocated", "old@here.test REJECT 5.1.6 The user has moved to new@far.test\n"),
    ],
    words: Words {
        recipients: &[
            "al@here.test",
            "old@here.test",
            "Old@here.test",
            "cy@here.test",
            "bo@far.test",
        ],
        ..Words::USUAL
    },
    ..SetUp::PLAIN
};

/// The usual main.cf of a mail host: mailboxes, aliases, access files, checks of senders and headers.
const MAIL_HOST: SetUp = SetUp {
    name: "mail host",
    main: "virtual_mailbox_domains = here.test\nvirtual_mailbox_maps = texthash:{dir}/mailboxes\n\
           virtual_alias_domains = old.test\nvirtual_alias_maps = texthash:{dir}/virtual\n\
           virtual_transport = smtp:[{c}]:{port}\n\
           smtpd_helo_required = yes\ndisable_vrfy_command = yes\n\
           smtpd_helo_restrictions = permit_mynetworks, reject_non_fqdn_helo_hostname, \
           reject_invalid_helo_hostname\n\
           smtpd_sender_restrictions = permit_mynetworks, check_sender_access texthash:{dir}/senders, \
           reject_non_fqdn_sender, reject_unknown_sender_domain\n\
           smtpd_recipient_restrictions = permit_mynetworks, \
           check_recipient_access texthash:{dir}/recipients\n\
           smtpd_data_restrictions = permit_mynetworks, reject_multi_recipient_bounce\n\
           header_checks = regexp:{dir}/header_checks\n",
    listener: "checks = { helo_fqdn = \"reject\", sender_fqdn = \"reject\", sender_domain = \"reject\", \
               temporary = \"defer\", multi_recipient_bounce = \"reject\" }\n",
    sections: "[[table]]\nname = \"mailboxes\"\nfile = { path = \"mailboxes\" }\n\
               [[table]]\nname = \"virtual\"\nfile = { path = \"virtual\" }\n\
               [[table]]\nname = \"senders\"\nfile = { path = \"senders\" }\n\
               [[table]]\nname = \"recipients\"\nfile = { path = \"recipients\" }\n\
               [[table]]\nname = \"header_checks\"\nregexp = { path = \"header_checks\" }\n\
               [[table]]\nname = \"none\"\ninline = {}\n\
               [[access]]\ntable = \"senders\"\nby = \"sender\"\nclients = \"strangers\"\nparent_domains = true\n\
               [[access]]\ntable = \"recipients\"\nby = \"recipient\"\nclients = \"strangers\"\nparent_domains = true\n\
               [[header_check]]\ntable = \"header_checks\"\n\
               [[route]]\ndomains = [\"here.test\"]\nrecipients = { table = \"mailboxes\" }\n\
               aliases = { table = \"virtual\" }\nsmtp = { hosts = [\"{c}:{port}\"] }\n\
               [[route]]\ndomains = [\"old.test\"]\nrecipients = { table = \"none\" }\n\
               aliases = { table = \"virtual\" }\ndiscard = {}\n\
               [[route]]\nmx = { port = {port} }\n",
    files: &[
        ("mailboxes", "al@here.test a/\nbo@here.test b/\npostmaster@here.test p/\n"),
        (
            "virtual",
            "info@here.test al@here.test, bo@here.test\nsales@here.test al\nfwd@here.test out@far.test\n\
             @old.test @here.test\nabuse@here.test al\n",
        ),
        (
            "senders",
            "b.test REJECT Unwanted\nal@b.test OK\nlater@a.test 450 4.7.1 Later\nbad@a.test 550 5.7.1 Not you\n",
        ),
        ("recipients", "bo@here.test 450 4.2.1 Busy\nabuse@here.test OK\nfwd@ REJECT Closed\n"),
        (
            "header_checks",
            "/^X-Spam: win/ REJECT No prizes\n/^X-Drop:/ DISCARD\n/^X-Secret:/ IGNORE\n",
        ),
    ],
    words: Words {
        greetings: &["EHLO client.test", "EHLO client.test", "EHLO desktop", "EHLO [127.0.0.2]"],
        senders: &[
            "jo@a.test",
            "jo+x@a.test",
            "al@b.test",
            "jo@b.test",
            "jo@sub.b.test",
            "later@a.test",
            "bad@a.test",
            "jo@unknown.test",
            "jo@null.test",
            "jo@broken.test",
            "al@here.test",
            "",
        ],
        recipients: &[
            "al@here.test",
            "al+tag@here.test",
            "bo@here.test",
            "info@here.test",
            "sales@here.test",
            "fwd@here.test",
            "abuse@here.test",
            "cy@here.test",
            "al@old.test",
            "cy@old.test",
            "bo@far.test",
        ],
        fields: &["X-Mailer: x", "X-Mailer: x", "X-Spam: win", "X-Drop: now", "X-Secret: a"],
        ..Words::USUAL
    },
    ..SetUp::PLAIN
};
