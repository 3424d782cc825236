//! Exim.

use super::cases::{DEFERRAL, DEFERRED, REFUSALS, RUDE, SIZE_MAX};
use super::chain::{Habits, Hop};
use super::place::Place;

pub(crate) struct Exim(Place);

fn config(place: &Place) -> String {
    let (dir, port, rude, next) = (place.dir(), place.port, place.rude_port, place.next_port);
    let acl = acl(place);
    format!(
        "primary_hostname = exim.test
spool_directory = {dir}/spool
log_file_path = {dir}/%slog
local_interfaces = 127.0.0.1
daemon_smtp_ports = {port} : {rude}
disable_ipv6 = true
host_lookup =
rfc1413_query_timeout = 0s
keep_environment =
dsn_advertise_hosts = *
smtputf8_advertise_hosts = *
message_size_limit = {SIZE_MAX}
deliver_drop_privilege = true
acl_smtp_helo = helo
acl_smtp_mail = mail
acl_smtp_rcpt = rcpt
acl_smtp_predata = predata
acl_smtp_data = data

{acl}begin routers
all:
  driver = manualroute
  transport = out
  route_list = * 127.0.0.1 byname
  self = send

begin transports
out:
  driver = smtp
  port = {next}
  hosts_avoid_tls = *
  max_rcpt = 1000
  allow_localhost

begin retry
* * F,1h,1s
"
    )
}

/// What it refuses and defers.
fn acl(place: &Place) -> String {
    let (dir, rude) = (place.dir(), place.rude_port);
    let [mail, rcpt, data, dot] = &REFUSALS;
    format!(
        "begin acl
helo:
  deny condition = ${{if eq{{$received_port}}{{{rude}}}}}
       message = {RUDE}
  accept
mail:
  deny senders = {mail_from}
       message = {mail_reply}
  accept
rcpt:
  deny recipients = {rcpt_to}
       message = {rcpt_reply}
  defer recipients = {DEFERRED}
       condition = ${{if exists{{{dir}/gate}}{{no}}{{yes}}}}
       message = {DEFERRAL}
  accept
predata:
  deny senders = {data_from}
       message = {data_reply}
  accept
data:
  deny senders = {dot_from}
       message = {dot_reply}
  accept

",
        mail_from = mail.from,
        mail_reply = mail.reply(),
        rcpt_to = rcpt.to,
        rcpt_reply = rcpt.reply(),
        data_from = data.from,
        data_reply = data.reply(),
        dot_from = dot.from,
        dot_reply = dot.reply(),
    )
}

pub(crate) fn start(next_port: u16) -> Exim {
    let mut place = Place::new(next_port);
    place.write("exim.conf", &config(&place));
    let file = place.path("exim.conf").display().to_string();
    // In the foreground; looks through the queue every second for what is due.
    let words = ["exim4", "-C", &file, "-bdf", "-q1s"];
    let command = place.command("exim4-daemon-light", &words);
    place.start(command, "stderr.log");
    place.wait_listening(place.port);
    Exim(place)
}

impl Hop for Exim {
    fn port(&self) -> u16 {
        self.0.port
    }

    fn rude_port(&self) -> u16 {
        self.0.rude_port
    }

    fn habits(&self) -> Habits {
        Habits { dsn: true, holds: false, ends_header: true, returns_all: false, retries: true }
    }

    fn open_gate(&self) {
        self.0.write("gate", "");
    }
}
