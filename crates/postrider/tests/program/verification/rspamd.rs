//! rspamd with nothing but its modules for DKIM and ARC: it verifies what it is shown, and signs or seals what it
//! is shown with a key.

use crate::interop::place::Place;
use crate::support::name_server::NameServer;
use crate::support::tool::free_port;

/// It looks at mail of this machine, too.
const CONFIG: &str = r#"
options {
    pidfile = "DIR/pid"; tempdir = "DIR"; hs_cache_dir = "DIR"; url_tld = "DIR/tld"; filters = "dkim";
    control_socket = "DIR/control mode=0600";
    dns { nameserver = ["DNS"]; timeout = 1s; retransmits = 3; }
}
logging { type = "console"; level = "info"; }
actions { reject = 1500; add_header = 600; }
dkim { check_local = true; check_authed = true; }
modules {
    path = "/usr/share/rspamd/plugins/arc.lua";
    path = "/usr/share/rspamd/plugins/dkim_signing.lua";
}
dkim_signing { use_http_headers = true; http_sign_header = "Sign-Dkim"; }
arc { use_http_headers = true; http_sign_header = "Sign-Arc"; }
metric "default" { symbol "R_DKIM_ALLOW" { weight = 0; } }
worker "normal" { bind_socket = "127.0.0.1:PORT"; count = 1; }
"#;

/// It, and the name server that it asks.
pub(super) struct Rspamd {
    _place: Place,
    names: NameServer,
    /// Where it is asked by HTTP.
    pub(super) port: u16,
}

impl Rspamd {
    pub(super) fn start() -> Rspamd {
        let (mut place, names, port) = (Place::new(0), NameServer::start(), free_port());
        place.write("tld", "com\norg\ntest\n");
        let text = CONFIG.replace("DIR", &place.dir()).replace("DNS", &names.address);
        place.write("rspamd.conf", &text.replace("PORT", &port.to_string()));
        let conf = place.path("rspamd.conf").display().to_string();
        let users = ["rspamd", "--user=nobody", "--group=nogroup", "--insecure", "--no-fork"];
        let command = place.command("rspamd", &[&users[..], &["--config", &conf]].concat());
        place.start(command, "rspamd.log");
        place.wait_listening(port);
        Rspamd { _place: place, names, port }
    }

    /// From now on the DNS has these TXT records for it.
    pub(super) fn knows<'a>(&self, records: impl Iterator<Item = (&'a String, String)>) {
        records.for_each(|(name, record)| self.names.txt(name, &[&record]));
    }
}
