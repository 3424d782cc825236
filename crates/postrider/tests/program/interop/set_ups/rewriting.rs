//! Set-ups that rewrite addresses of envelopes and headers.

use super::set_up::{SetUp, Words};

pub(super) const SET_UPS: [SetUp; 5] = [CANONICAL, BY_CLASS, GENERIC, MASQUERADING, WITH_ALIASES];

/// Postfix rewrites header fields of these clients only.
const WORDS: Words = Words {
    senders: &[
        "jo@a.test",
        "Jo@A.test",
        "jo+x@a.test",
        "root@app.a.test",
        "any@app.a.test",
        "any+x@app.a.test",
        "al@here.test",
        "one@circle.test",
        "",
    ],
    recipients: &[
        "al@here.test",
        "bo@far.test",
        "bo@other.test",
        "jo@a.test",
        "old@far.test",
        "old+x@far.test",
        "any@moved.test",
        "any+x@Moved.Test",
    ],
    fields: &[
        "Cc: Jo <jo@a.test>, bo@far.test",
        "Cc: Friends: old@far.test, any@moved.test;",
        "Cc: \"Doe, Any\" <any+x@app.a.test>,\r\n Root <ROOT@app.a.test>",
        "Reply-To: root@app.a.test (operator)",
        "Reply-To: any@moved.test",
        "Sender: Al <al@here.test>",
        "Sender: <jo+x@a.test>",
    ],
    ..Words::USUAL
};

/// canonical(5) for all addresses.
const MAP: &str = "jo@a.test jo.doe@b.test\nal@here.test Al.Doe@here.test\nroot@app.a.test alerts@a.test\n\
     @app.a.test @a.test\nold@far.test new@far.test\n@moved.test @other.test\n\
     one@circle.test two@circle.test\ntwo@circle.test three@circle.test\n";

const CANONICAL: SetUp = SetUp {
    name: "canonical addresses",
    main: "relayhost = [{a}]:{port}\nrelay_domains = here.test\nrelay_recipient_maps =\n\
           relay_transport = smtp:[{c}]:{port}\nlocal_header_rewrite_clients = permit_mynetworks\n\
           canonical_maps = texthash:{dir}/canonical\n",
    sections: "[[table]]\nname = \"canonical\"\nfile = { path = \"canonical\" }\n\
               [[rewrite]]\ntable = \"canonical\"\naddresses = [\"envelope_sender\", \"envelope_recipient\"]\n\
               [[rewrite]]\ntable = \"canonical\"\nwhen = { clients = [\"127.0.1.9\"] }\n\
               addresses = [\"from\", \"sender\", \"reply_to\", \"to\", \"cc\"]\n\
               [[route]]\ndomains = [\"here.test\", \"*.here.test\"]\nsmtp = { hosts = [\"{c}:{port}\"] }\n\
               [[route]]\nsmtp = { hosts = [\"{a}:{port}\"] }\n",
    files: &[("canonical", MAP)],
    words: WORDS,
    ..SetUp::PLAIN
};

const BY_CLASS: SetUp = SetUp {
    name: "canonical senders and recipients",
    main: "relayhost = [{a}]:{port}\nrelay_domains = here.test\nrelay_recipient_maps =\n\
           relay_transport = smtp:[{c}]:{port}\nlocal_header_rewrite_clients = permit_mynetworks\n\
           sender_canonical_maps = texthash:{dir}/senders\n\
           recipient_canonical_maps = texthash:{dir}/recipients\n",
    sections: "[[table]]\nname = \"senders\"\nfile = { path = \"senders\" }\n\
               [[table]]\nname = \"recipients\"\nfile = { path = \"recipients\" }\n\
               [[rewrite]]\ntable = \"senders\"\naddresses = [\"envelope_sender\"]\n\
               [[rewrite]]\ntable = \"senders\"\nwhen = { clients = [\"127.0.1.9\"] }\n\
               addresses = [\"from\", \"sender\", \"reply_to\"]\n\
               [[rewrite]]\ntable = \"recipients\"\naddresses = [\"envelope_recipient\"]\n\
               [[rewrite]]\ntable = \"recipients\"\nwhen = { clients = [\"127.0.1.9\"] }\n\
               addresses = [\"to\", \"cc\"]\n\
               [[route]]\ndomains = [\"here.test\", \"*.here.test\"]\nsmtp = { hosts = [\"{c}:{port}\"] }\n\
               [[route]]\nsmtp = { hosts = [\"{a}:{port}\"] }\n",
    files: &[
        ("senders", "jo@a.test jo.doe@b.test\n@app.a.test @a.test\nal@here.test al@far.test\n"),
        (
            "recipients",
            "old@far.test new@here.test\n@moved.test @other.test\nal@here.test bo@here.test\n",
        ),
    ],
    words: WORDS,
    ..SetUp::PLAIN
};

/// Addresses of an internal domain, which the world does not see.
const GENERIC: SetUp = SetUp {
    name: "generic addresses",
    main: "relay_domains = here.test\nrelay_recipient_maps =\nrelay_transport = inside:[{c}]:{port}\n\
           relayhost = [{a}]:{port}\nsmtp_generic_maps = texthash:{dir}/generic\n",
    services: "inside unix - - n - - smtp -o smtp_generic_maps=\n",
    sections: "[[table]]\nname = \"generic\"\nfile = { path = \"generic\" }\n\
               [[rewrite]]\ntable = \"generic\"\nroutes = [\"out\"]\n\
               [[route]]\ndomains = [\"here.test\", \"*.here.test\"]\nsmtp = { hosts = [\"{c}:{port}\"] }\n\
               [[route]]\nname = \"out\"\nsmtp = { hosts = [\"{a}:{port}\"] }\n",
    files: &[(
        "generic",
        "jo@a.test jo.doe@b.test\nal@here.test Al.Doe@b.test\nroot@app.a.test alerts@b.test\n\
         @app.a.test @b.test\nold@far.test new@far.test\n@moved.test @other.test\n",
    )],
    words: WORDS,
    ..SetUp::PLAIN
};

/// The hosts of a domain hide behind it.
const MASQUERADING: SetUp = SetUp {
    name: "masqueraded domains",
    main: "relayhost = [{a}]:{port}\nlocal_header_rewrite_clients = permit_mynetworks\n\
           masquerade_domains = a.test\nmasquerade_exceptions = root\n",
    sections: "[[table]]\nname = \"hosts\"\nregexp = { path = \"hosts\" }\n\
               [[rewrite]]\ntable = \"hosts\"\naddresses = [\"envelope_sender\"]\n\
               [[rewrite]]\ntable = \"hosts\"\nwhen = { clients = [\"127.0.1.9\"] }\n\
               addresses = [\"from\", \"sender\", \"reply_to\", \"to\", \"cc\"]\n\
               [[route]]\nsmtp = { hosts = [\"{a}:{port}\"] }\n",
    files: &[("hosts", "if !/^root@/\n/^(.*)@.*\\.a\\.test$/ $1@a.test\nendif\n")],
    words: WORDS,
    ..SetUp::PLAIN
};

/// A hoster whose users send under another address.
const WITH_ALIASES: SetUp = SetUp {
    name: "canonical senders and virtual aliases",
    main: "virtual_alias_domains = moved.test\nvirtual_mailbox_domains = here.test\n\
           virtual_mailbox_maps = texthash:{dir}/mailboxes\nvirtual_alias_maps = texthash:{dir}/virtual\n\
           virtual_transport = smtp:[{c}]:{port}\nrelayhost = [{a}]:{port}\n\
           local_header_rewrite_clients = permit_mynetworks\n\
           sender_canonical_maps = texthash:{dir}/senders\n\
           sender_canonical_classes = envelope_sender, header_sender\n",
    sections: "[[table]]\nname = \"mailboxes\"\nfile = { path = \"mailboxes\" }\n\
               [[table]]\nname = \"none\"\ninline = {}\n\
               [[table]]\nname = \"virtual\"\nfile = { path = \"virtual\" }\n\
               [[table]]\nname = \"senders\"\nfile = { path = \"senders\" }\n\
               [[rewrite]]\ntable = \"senders\"\naddresses = [\"envelope_sender\"]\n\
               [[rewrite]]\ntable = \"senders\"\nwhen = { clients = [\"127.0.1.9\"] }\n\
               addresses = [\"from\", \"sender\", \"reply_to\"]\n\
               [[route]]\ndomains = [\"here.test\"]\nrecipients = { table = \"mailboxes\" }\n\
               aliases = { table = \"virtual\" }\nsmtp = { hosts = [\"{c}:{port}\"] }\n\
               [[route]]\ndomains = [\"moved.test\"]\nrecipients = { table = \"none\" }\n\
               aliases = { table = \"virtual\" }\ndiscard = {}\n\
               [[route]]\nsmtp = { hosts = [\"{a}:{port}\"] }\n",
    files: &[
        ("mailboxes", "al@here.test a/\nbo@here.test b/\npostmaster@here.test p/\n"),
        (
            "virtual",
            "info@here.test al@here.test, bo@far.test\nfwd@here.test jo@a.test\n@moved.test @here.test\n",
        ),
        ("senders", "al@here.test Al.Doe@b.test\nbo@here.test bo@b.test\n@app.a.test @a.test\n"),
    ],
    words: Words {
        recipients: &[
            "al@here.test",
            "bo@here.test",
            "info@here.test",
            "fwd@here.test",
            "cy@here.test",
            "al@moved.test",
            "cy@moved.test",
            "bo@far.test",
        ],
        ..WORDS
    },
    ..SetUp::PLAIN
};
