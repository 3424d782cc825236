//! Set-ups whose rules and limits decide about mail.

use super::set_up::{FRIEND, STRANGER, SetUp, Words};
use std::net::Ipv4Addr;

pub(super) const SET_UPS: [SetUp; 6] =
    [ACCESS, ACCESS_WITHOUT_TAGS, STRICT, LIMITS, COPIES, HEADER_CHECKS];

const NEIGHBOUR: Ipv4Addr = Ipv4Addr::new(127, 0, 2, 2);

const ACCESS: SetUp = SetUp {
    name: "access files and classes",
    main: "relay_domains = here.test, relayed.test\nrelay_recipient_maps =\nrelay_transport = smtp:[{a}]:{port}\n\
           parent_domain_matches_subdomains = relay_domains\n\
           smtpd_restriction_classes = members\n\
           members = check_sender_access texthash:{dir}/members, reject\n\
           smtpd_client_restrictions = permit_mynetworks, check_client_access texthash:{dir}/clients\n\
           smtpd_helo_restrictions = permit_mynetworks, check_helo_access texthash:{dir}/helos\n\
           smtpd_sender_restrictions = permit_mynetworks, check_sender_access texthash:{dir}/senders\n\
           smtpd_recipient_restrictions = check_recipient_access texthash:{dir}/recipients\n",
    sections: "[[table]]\nname = \"clients\"\nfile = { path = \"clients\" }\n\
               [[table]]\nname = \"helos\"\nfile = { path = \"helos\" }\n\
               [[table]]\nname = \"senders\"\nfile = { path = \"senders\" }\n\
               [[table]]\nname = \"members\"\nfile = { path = \"members\" }\n\
               [[table]]\nname = \"recipients\"\nfile = { path = \"recipients\" }\n\
               [[access]]\ntable = \"clients\"\nby = \"client\"\nclients = \"strangers\"\n\
               [[access]]\ntable = \"helos\"\nby = \"helo\"\nclients = \"strangers\"\n\
               [[access]]\ntable = \"senders\"\nby = \"sender\"\nclients = \"strangers\"\n\
               [[access]]\ntable = \"members\"\nby = \"sender+recipient\"\nclients = \"all\"\n\
               [[access]]\ntable = \"recipients\"\nby = \"recipient\"\nclients = \"all\"\n\
               [[route]]\ndomains = [\"here.test\", \"*.here.test\", \"relayed.test\", \"*.relayed.test\"]\n\
               smtp = { hosts = [\"{a}:{port}\"] }\n\
               [[route]]\nmx = { port = {port} }\n",
    files: &[
        ("clients", "127.0.2 REJECT 5.7.1 Not from there\n"),
        ("helos", "bad.test REJECT\n.bad.test 450 4.7.1 Later\n"),
        ("senders", "b.test REJECT\nal@b.test OK\nsub.a.test 450 4.1.8 Wait\n"),
        ("members", "jo@a.test OK\nhere.test OK\n"),
        ("ours-members", "jo@a.test,all@here.test OK\n@here.test,all@here.test OK\n"),
        (
            "recipients",
            "all@here.test members\nnoreply@here.test REJECT 5.1.1 Nobody\nbusy@ 450 4.2.1 Busy\n\
             relayed.test DEFER_IF_PERMIT Wait\nok@relayed.test OK\n",
        ),
        (
            "ours-recipients",
            "all@here.test REJECT\nnoreply@here.test REJECT 5.1.1 Nobody\nbusy@ 450 4.2.1 Busy\n\
             relayed.test DEFER_IF_PERMIT Wait\nok@relayed.test OK\n",
        ),
    ],
    words: Words {
        clients: &[FRIEND, STRANGER, STRANGER, NEIGHBOUR],
        greetings: &["EHLO client.test", "EHLO client.test", "EHLO bad.test", "EHLO x.bad.test"],
        senders: &[
            "jo@a.test",
            "Jo@A.test",
            "jo+x@a.test",
            "jo@b.test",
            "al@b.test",
            "jo@sub.a.test",
            "al@here.test",
            "",
        ],
        recipients: &[
            "al@here.test",
            "all@here.test",
            "all+x@here.test",
            "noreply@here.test",
            "busy@here.test",
            "busy@relayed.test",
            "al@relayed.test",
            "ok@relayed.test",
            "al@sub.here.test",
            "bo@far.test",
        ],
        ..Words::USUAL
    },
    ..SetUp::PLAIN
};

const ACCESS_WITHOUT_TAGS: SetUp =
    SetUp { name: "access files without tags", delimiter: "", ..ACCESS };

const STRICT: SetUp = SetUp {
    name: "strict forms",
    main: "relay_domains = here.test\nrelay_recipient_maps =\nrelay_transport = smtp:[{a}]:{port}\n\
           smtpd_helo_required = yes\ndisable_vrfy_command = yes\n\
           smtpd_helo_restrictions = permit_mynetworks, reject_non_fqdn_helo_hostname, \
           reject_invalid_helo_hostname\n\
           smtpd_sender_restrictions = permit_mynetworks, reject_non_fqdn_sender, reject_unknown_sender_domain\n\
           smtpd_recipient_restrictions = permit_mynetworks, reject_non_fqdn_recipient\n\
           smtpd_data_restrictions = permit_mynetworks, reject_unauth_pipelining, reject_multi_recipient_bounce\n",
    listener: "checks = { helo_fqdn = \"reject\", sender_fqdn = \"reject\", sender_domain = \"reject\", \
               temporary = \"defer\", multi_recipient_bounce = \"reject\" }\n",
    sections: "[[route]]\ndomains = [\"here.test\", \"*.here.test\"]\nsmtp = { hosts = [\"{a}:{port}\"] }\n\
               [[route]]\nmx = { port = {port} }\n",
    words: Words {
        clients: &[FRIEND, STRANGER, STRANGER],
        greetings: &[
            "EHLO client.test",
            "EHLO client.test",
            "EHLO desktop",
            "EHLO [127.0.0.2]",
            "EHLO [127.0.0]",
            "HELO client.test",
            "HELO client.",
            "EHLO -x.test",
            "EHLO x..test",
            "",
        ],
        senders: &[
            "jo@a.test",
            "jo@a.test",
            "jo",
            "jo@localhost",
            "jo@unknown.test",
            "jo@null.test",
            "jo@broken.test",
            "jo@other.test",
            "jo@[192.0.2.1]",
            "",
        ],
        recipients: &["al@here.test", "bo@here.test", "al@sub.here.test", "bo@far.test"],
        ..Words::USUAL
    },
    ..SetUp::PLAIN
};

const LIMITS: SetUp = SetUp {
    name: "limits",
    main: "relay_domains = here.test\nrelay_recipient_maps =\nrelay_transport = smtp:[{a}]:{port}\n\
           message_size_limit = 100000\nsmtpd_recipient_limit = 100\n",
    listener: "max_message_bytes = 100000\nmax_recipients = 100\n",
    sections: "[[route]]\ndomains = [\"here.test\", \"*.here.test\"]\nsmtp = { hosts = [\"{a}:{port}\"] }\n\
               [[route]]\nmx = { port = {port} }\n",
    words: Words {
        senders: &[
            "jo@a.test",
            "!<jo@a.test> SIZE=100000",
            "!<jo@a.test> SIZE=100001",
            "!<jo@a.test> SIZE=0",
            "!<jo@a.test> SIZE=x",
            "!<jo@a.test> SIZE=99999999999999999999",
            "!<jo@a.test> BODY=8BITMIME SIZE=10",
            "!<jo@a.test> BODY=QUIRK",
            "!<jo@a.test> X-Y=Z",
            "!<jo@a.test> AUTH=<>",
            "",
        ],
        recipients: &["al@here.test", "bo@here.test", "bo@far.test"],
        sizes: &[50_000, 80_000, 102_000, 300_000],
        crowd_domain: "here.test",
        ..Words::USUAL
    },
    crowds: 30,
    ..SetUp::PLAIN
};

const COPIES: SetUp = SetUp {
    name: "copies",
    main: "relayhost = [{a}]:{port}\nrelay_domains = here.test\nrelay_recipient_maps =\n\
           relay_transport = smtp:[{c}]:{port}\nalways_bcc = archive@here.test\n\
           sender_bcc_maps = texthash:{dir}/by-sender\nrecipient_bcc_maps = texthash:{dir}/by-recipient\n",
    sections: "[[copy]]\nto = \"archive@here.test\"\n\
               [[copy]]\nsenders = [\"jo@a.test\"]\nto = \"watch@other.test\"\n\
               [[copy]]\nsenders = [\"b.test\"]\nto = \"b@here.test\"\n\
               [[copy]]\nrecipients = [\"al@here.test\"]\nto = \"second@here.test\"\n\
               [[route]]\ndomains = [\"here.test\", \"*.here.test\"]\nsmtp = { hosts = [\"{c}:{port}\"] }\n\
               [[route]]\nsmtp = { hosts = [\"{a}:{port}\"] }\n",
    files: &[
        ("by-sender", "jo@a.test watch@other.test\n@b.test b@here.test\n"),
        ("by-recipient", "al@here.test second@here.test\n"),
    ],
    words: Words {
        recipients: &[
            "al@here.test",
            "bo@here.test",
            "Al@Here.Test",
            "al+x@here.test",
            "bo@far.test",
        ],
        ..Words::USUAL
    },
    ..SetUp::PLAIN
};

const HEADER_CHECKS: SetUp = SetUp {
    name: "header checks",
    main: "relayhost = [{a}]:{port}\nrelay_domains = here.test\nrelay_recipient_maps =\n\
           relay_transport = smtp:[{c}]:{port}\nheader_checks = regexp:{dir}/header_checks\n\
           body_checks = regexp:{dir}/body_checks\n",
    sections: "[[table]]\nname = \"header_checks\"\nregexp = { path = \"header_checks\" }\n\
               [[table]]\nname = \"body_checks\"\nregexp = { path = \"body_checks\" }\n\
               [[header_check]]\ntable = \"header_checks\"\n\
               [[header_check]]\ntable = \"body_checks\"\nin = \"body\"\n\
               [[route]]\ndomains = [\"here.test\", \"*.here.test\"]\nsmtp = { hosts = [\"{c}:{port}\"] }\n\
               [[route]]\nsmtp = { hosts = [\"{a}:{port}\"] }\n",
    files: &[
        (
            "header_checks",
            "/^X-A: reject/ REJECT No\n/^X-A: later/ REJECT 4.7.1 Later\n/^X-A: drop/ DISCARD\n\
             /^X-A: to/ REDIRECT other@far.test\n/^X-A: copy/ BCC copy@here.test\n/^X-A: gone/ IGNORE\n\
             /^X-A: more/ PREPEND X-B: more\n/^X-A: else/ REPLACE X-C: else\n",
        ),
        ("body_checks", "/^\\.\\.x/ REJECT Dots\n"),
    ],
    words: Words {
        recipients: &["al@here.test", "bo@here.test", "bo@far.test"],
        fields: &[
            "X-A: reject",
            "X-A: later",
            "X-A: drop",
            "X-A: to",
            "X-A: copy",
            "X-A: gone",
            "X-A: more",
            "X-A: else",
            "X-A: none",
        ],
        ..Words::USUAL
    },
    ..SetUp::PLAIN
};
