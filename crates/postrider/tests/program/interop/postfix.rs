//! Postfix, and postgrey behind it: that puts off whom it doesn't know.

use super::cases::{DEFERRED, REFUSALS, RUDE, SIZE_MAX};
use super::chain::{Habits, Hop};
use super::place::{Place, succeed};
use crate::support::certificate::{EC, make_certificate};
use crate::support::tool::free_port;
use skips::Machine;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How long postgrey puts off.
const GREY_SECONDS: &str = "2";

pub(crate) struct Postfix(Place);

/// What any of it needs in main.cf.
fn base(place: &Place) -> String {
    let dir = place.dir();
    format!(
        "compatibility_level = 3.6
queue_directory = {dir}/queue
data_directory = {dir}/data
daemon_directory = /usr/lib/postfix/sbin
command_directory = /usr/sbin
mail_owner = postfix
setgid_group = postdrop
myhostname = postfix.test
mydestination =
local_header_rewrite_clients =
inet_protocols = ipv4
mynetworks = 127.0.0.0/8
disable_dns_lookups = yes
queue_run_delay = 1s
minimal_backoff_time = 1s
maximal_backoff_time = 2s
maillog_file = {dir}/postfix.log
maillog_file_prefixes = {dir}
alias_maps =
alias_database =
"
    )
}

fn main_cf(place: &Place, grey_port: u16) -> String {
    let (dir, next, base) = (place.dir(), place.next_port, base(place));
    format!(
        "{base}inet_interfaces = 127.0.0.1
message_size_limit = {SIZE_MAX}
relayhost = [127.0.0.1]:{next}
smtpd_delay_reject = no
smtpd_sender_restrictions = check_sender_access texthash:{dir}/mail
smtpd_relay_restrictions = permit_mynetworks, reject
smtpd_recipient_restrictions = check_recipient_access texthash:{dir}/rcpt
smtpd_data_restrictions = check_sender_access texthash:{dir}/data-step
smtpd_end_of_data_restrictions = check_sender_access texthash:{dir}/dot
smtpd_restriction_classes = grey
grey = check_policy_service inet:127.0.0.1:{grey_port}
smtp_destination_recipient_limit = 1000
smtpd_tls_security_level = may
smtpd_tls_chain_files = {dir}/tls.key, {dir}/tls.pem
smtp_tls_security_level = may
"
    )
}

fn services(place: &Place) -> String {
    let (port, rude) = (place.port, place.rude_port);
    format!(
        "{port} inet n - n - - smtpd
{rude} inet n - n - - smtpd
  -o {{ smtpd_helo_restrictions = check_helo_access static:{{{RUDE}}} }}
"
    )
}

/// Its own processes, in master.cf.
const DAEMONS: &str = "\
pickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 1 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
verify unix - - n - 1 verify
flush unix n - n 1000? 0 flush
proxymap unix - - n - - proxymap
smtp unix - - n - - smtp
relay unix - - n - - smtp
showq unix n - n - - showq
error unix - - n - - error
retry unix - - n - - error
discard unix - - n - - discard
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
tlsmgr unix - - n 1000? 1 tlsmgr
postlog unix-dgram n - n - 1 postlogd
";

/// Its program that starts the others.
const MASTER: &str = "/usr/lib/postfix/sbin/master";

/// Returns true if it can be started without other packages.
pub(crate) fn is_startable() -> bool {
    if !rustix::process::geteuid().is_root() {
        skips::machine(Machine::Root, "the server needs it");
        return false;
    }
    Path::new(MASTER).exists() || skips::missing("postfix")
}

/// Starts it with this in main.cf and these services in master.cf.
pub(crate) fn launch(place: &mut Place, main: &str, services: &str) {
    let config = prepare(place, main, services);
    place.start(master(&config), "master.log");
}

/// Where its configuration is.
fn prepare(place: &Place, main: &str, services: &str) -> PathBuf {
    ["queue", "data", "config"].iter().for_each(|name| place.make_dir(name));
    succeed(Command::new("chown").arg("postfix").arg(place.path("data")));
    place.write("config/main.cf", main);
    place.write("config/master.cf", &format!("{services}{DAEMONS}"));
    place.write("config/dynamicmaps.cf", "");
    let config = place.path("config");
    succeed(Command::new("/usr/sbin/postfix").arg("-c").arg(&config).arg("check"));
    config
}

/// It stays in the foreground.
fn master(config: &Path) -> Command {
    let mut master = Command::new(MASTER);
    master.arg("-c").arg(config).arg("-d");
    master
}

/// With little more than these lines in main.cf, and this resolver, at port 53 of its address.
pub(crate) fn launch_asking(place: &mut Place, resolver: &str, lines: &str, services: &str) {
    place.write("resolv.conf", &format!("nameserver {resolver}\noptions edns0 trust-ad\n"));
    let config = prepare(place, &main_cf_with(place, lines), services);
    let master = master(&config);
    let mut alone = Command::new("unshare");
    alone.args(["--mount", "sh", "-c"]);
    alone.arg("mount --bind \"$0\" /etc/resolv.conf && exec \"$@\"");
    alone.arg(place.path("resolv.conf")).arg(master.get_program()).args(master.get_args());
    place.start(alone, "master.log");
}

/// With little more than these lines in main.cf.
pub(crate) fn launch_with(place: &mut Place, lines: &str, services: &str) {
    launch(place, &main_cf_with(place, lines), services);
}

fn main_cf_with(place: &Place, lines: &str) -> String {
    overriding(lines, &base(place))
}

/// Lines of main.cf, and those of the usual ones whose parameter is not among them: Postfix warns of a parameter that
/// is set twice.
pub(crate) fn overriding(lines: &str, usual: &str) -> String {
    let name = |line: &str| line.split(" =").next().map(str::to_owned);
    let own: BTreeSet<_> = lines.lines().map(name).collect();
    let rest = usual.lines().filter(|line| !own.contains(&name(line)));
    rest.fold(lines.to_owned(), |text, line| text + line + "\n")
}

pub(crate) fn start(next_port: u16) -> Postfix {
    let mut place = Place::new(next_port);
    let (dir, grey_port) = (place.dir(), free_port());
    place.make_dir("grey");
    succeed(Command::new("chown").arg("nobody").arg(place.path("grey")));
    make_certificate(&place.path("."), "tls", EC, &["postfix.test"]);
    for refusal in &REFUSALS {
        let (name, key) = match refusal.step {
            "rcpt" => ("rcpt", refusal.to),
            // The directory `data` is Postfix's own.
            "data" => ("data-step", refusal.from),
            step => (step, refusal.from),
        };
        place.write(name, &format!("{key} {}\n{DEFERRED} grey\n", refusal.reply()));
    }
    let grey = [
        "postgrey",
        &format!("--inet=127.0.0.1:{grey_port}"),
        &format!("--dbdir={dir}/grey"),
        &format!("--delay={GREY_SECONDS}"),
        "--user=nobody",
        "--group=nogroup",
        "--whitelist-clients=/dev/null",
        "--whitelist-recipients=/dev/null",
    ];
    let grey = place.command("postgrey", &grey);
    place.start(grey, "grey.log");
    place.wait_listening(grey_port);
    let (main, services) = (main_cf(&place, grey_port), services(&place));
    launch(&mut place, &main, &services);
    place.wait_listening(place.port);
    Postfix(place)
}

impl Hop for Postfix {
    fn port(&self) -> u16 {
        self.0.port
    }

    fn rude_port(&self) -> u16 {
        self.0.rude_port
    }

    fn habits(&self) -> Habits {
        Habits { dsn: true, holds: false, ends_header: false, returns_all: false, retries: true }
    }

    /// postgrey opens it when its time is over.
    fn open_gate(&self) {}
}
