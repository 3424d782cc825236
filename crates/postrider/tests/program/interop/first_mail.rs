//! From `postrider init` to the first signed message that a real Postfix accepts after rspamd has verified it.

use super::milters::rspamd_with;
use super::place::Place;
use super::postfix::launch_with;
use crate::init::{TLS, certificate, init, password, startable, submit};
use crate::support::server::Server;
use crate::support::tool::{Tool, free_port};
use crate::support::{Files, wait_until};
use std::fs;
use std::time::Instant;

/// rspamd verifies DKIM signatures and nothing else.
const DKIM: &str = "dkim { check_local = true; dkim_cache_size = 1; time_jitter = 6h; trusted_only = false; \
                    skip_multi = false; }\n";

/// The kinds of `init` that sign, with the words for it and the listener for users.
const KINDS: [(&str, &[&str], usize); 2] = [
    ("sender", &["--kind", "sender", "--hostname", "out.example.org", "--user", "app"], 0),
    ("mail host", &["--kind", "mail-host", "--hostname", "mx.example.org", "--user", "app"], 1),
];

/// A Postfix for `far.test` that asks rspamd.
struct Far {
    place: Place,
    port: u16,
}

impl Far {
    fn start(names: &str) -> Far {
        let (mut place, port, milter) = (Place::new(0), free_port(), free_port());
        rspamd_with(&mut place, milter, ("dkim", &format!("{names}:1")), DKIM);
        let main = format!(
            "inet_interfaces = 127.0.0.1\nrelay_domains = far.test\nrelay_transport = discard:\n\
             smtpd_relay_restrictions = reject_unauth_destination\n\
             smtpd_reject_unlisted_recipient = no\n\
             smtpd_milters = inet:127.0.0.1:{milter}\nmilter_default_action = tempfail\n"
        );
        launch_with(&mut place, &main, &format!("{port} inet n - n - - smtpd\n"));
        place.wait_listening(port);
        Far { place, port }
    }

    /// Lines of a log with these words.
    fn logged(&self, log: &str, words: &[&str]) -> usize {
        let text = fs::read_to_string(self.place.path(log)).unwrap_or_default();
        text.lines().filter(|line| words.iter().all(|word| line.contains(word))).count()
    }
}

pub(crate) fn init_leads_to_signed_mail() {
    for (kind, words, listener) in KINDS {
        let begun = Instant::now();
        let (files, hostname) = (Files::new(), words[3]);
        let tls = certificate(&files, hostname);
        let tls: Vec<&str> = tls.iter().map(String::as_str).collect();
        let made = init(&files, &[words, &tls].concat());
        let written = begun.elapsed();
        // The records that init prints are in the DNS.
        let records: String = made.out.lines().filter(|line| line.contains(" IN ")).fold(
            "$ORIGIN org.\n$ORIGIN test.\nfar MX 10 mx.far\nmx.far A 127.0.0.1\n".to_owned(),
            |zone, line| zone + line + "\n",
        );
        let zone = files.write("zone", &records).display().to_string();
        let names = Tool::lab(&["dns", "--zone", &zone]);
        let far = Far::start(&names.address);
        let port = format!("mx = {{ port = {} }}", far.port);
        let changes = [("mx = { refuse_private = true }", &*port)];
        startable(&files, &changes, &format!("[dns]\nservers = [\"{}\"]\n", names.address));
        let started = Instant::now();
        let server = Server::start_again(&files);
        let (user, password) = ("app@example.org", password(&made));
        let address = server.addresses[listener];
        submit(address, TLS[0], (user, &password), "app@example.org", "you@far.test");
        wait_until("rspamd verifies the signature", || {
            far.logged("rspamd.log", &["R_DKIM_ALLOW", "example.org:s=s1"]) == 1
        });
        let accepted = ["status=sent", "to=<you@far.test>"];
        wait_until("Postfix accepts the message", || far.logged("postfix.log", &accepted) == 1);
        let sent = files.wait_events("relayed", 1);
        assert_eq!(sent[0]["recipient"], "you@far.test", "{sent:?}");
        eprintln!(
            "{kind}: files written in {written:?}, accepted {:?} after the start",
            started.elapsed()
        );
        server.stop();
    }
}
