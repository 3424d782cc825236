//! Table lookups for a client's message take turns as the client's.

use super::client::{Client, STRANGER};
use super::node::{Node, play};
use super::submission::plain;
use lookup::Requester;
use mta::clients::asker_of;
use std::collections::BTreeSet;

/// Tables that only decisions about a client's message look up.
const OF_MESSAGES: [&str; 13] = [
    "access",
    "aliases",
    "copied",
    "exempt_clients",
    "exempt_recipients",
    "generic",
    "keys",
    "lines",
    "limited",
    "passwords",
    "recipients",
    "rewritten",
    "senders",
];

/// Uses each of these tables, and `domains` for a route and for senders in local domains.
fn config() -> String {
    let tables = OF_MESSAGES.iter().filter(|name| **name != "lines");
    let tables = tables
        .chain(["domains", "routed"].iter())
        .map(|name| format!("[[table]]\nname = \"{name}\"\nscripted = {{ fields = [] }}\n"));
    format!(
        "hostname = \"relay.test\"\n\
         [[certificate]]\nnames = [\"relay.test\"]\nchain = \"c.pem\"\nkey = \"c.key\"\n\
         [[listener]]\nname = \"in\"\naddress = \"192.0.2.250:25\"\n\
         checks = {{ own_domains = \"mark\", exempt_clients = {{ table = \"exempt_clients\" }}, \
         exempt_recipients = {{ table = \"exempt_recipients\" }} }}\n\
         [[listener]]\nname = \"users\"\nkind = \"submission\"\naddress = \"192.0.2.250:587\"\n\
         tls = \"implicit\"\nlogins = {{ table = \"passwords\" }}\nsenders = {{ table = \"senders\" }}\n\
         {}\
         [[table]]\nname = \"lines\"\nregexp = {{ path = \"lines\" }}\n\
         [[access]]\ntable = \"access\"\nby = \"sender\"\nclients = \"all\"\n\
         [[limit]]\nby = \"sender\"\nmessages = \"9/h\"\nwhen = {{ senders = {{ table = \"limited\" }} }}\n\
         [[header_check]]\ntable = \"lines\"\n\
         [[copy]]\nto = \"archive@ours.test\"\nwhen = {{ clients = {{ table = \"copied\" }} }}\n\
         [[rewrite]]\ntable = \"generic\"\nwhen = {{ listeners = {{ table = \"rewritten\" }} }}\n\
         [[signer]]\nkeys = {{ table = \"keys\" }}\n\
         [[route]]\ndomains = [\"ours.test\"]\nrecipients = {{ table = \"recipients\" }}\n\
         aliases = {{ table = \"aliases\" }}\nmaildir = {{ path = \"/mail/{{local}}\" }}\n\
         [[route]]\nwhen = {{ senders = {{ table = \"routed\" }} }}\nsmtp = {{ hosts = [\"192.0.2.1\"] }}\n\
         [[route]]\ndomains = {{ table = \"domains\" }}\nmaildir = {{ path = \"/mail/{{local}}\" }}\n\
         [[route]]\nsmtp = {{ hosts = [\"192.0.2.1\"] }}\n",
        tables.collect::<String>()
    )
}

#[test]
fn stages_look_tables_up_for_their_client() {
    play(|| async {
        let node = Node::start(&config()).await;
        node.world.set_entry("passwords", "jo", Ok("{PLAIN}right"));
        node.world.set_entry("senders", "jo", Ok("jo@x.test"));
        node.world.set_entry("recipients", "b@ours.test", Ok("1"));
        node.world.set_entry("rewritten", "in", Ok("1"));
        node.world.set_entry("rewritten", "users", Ok("1"));
        let mut client = Client::connect(&node, STRANGER).await;
        assert!(client.say("MAIL FROM:<a@far.test>").await.starts_with("250"));
        let reply = client.say("RCPT TO:<b@ours.test>").await;
        assert!(reply.starts_with("250"), "{reply}");
        let of_client = asker_of(STRANGER);
        let asked = node.world.requesters();
        let others: BTreeSet<_> = asked.iter().filter(|(_, who)| *who != of_client).collect();
        assert!(others.is_empty(), "{others:?}");
        assert!(asked.contains(&("domains".to_owned(), of_client)), "{asked:?}");
        assert!(client.content("From: a@far.test\r\n\r\n").await.starts_with("250 2.0.0"));
        let mut user = Client::connect_at(&node, 1, STRANGER).await;
        assert!(user.say(&plain("jo", "right")).await.starts_with("235"));
        let reply = user.send("jo@x.test", &["c@far.test"], "From: jo@x.test\r\n\r\n").await;
        assert!(reply.starts_with("250 2.0.0"), "{reply}");
        let asked = node.world.requesters();
        for table in OF_MESSAGES.into_iter().filter(|table| *table != "recipients") {
            let of_table = asked.iter().filter(|(name, _)| name == table);
            let requesters: Vec<Requester> = of_table.map(|(_, requester)| *requester).collect();
            assert_eq!(requesters, [of_client], "{table}");
        }
    });
}
