//! OpenSMTPD. Where it keeps its queue and its control socket is compiled in, so these places lie
//! in a directory of its own while it looks at them.

use super::cases::{REFUSALS, RUDE, SIZE_MAX};
use super::chain::{Habits, Hop};
use super::place::Place;

pub(crate) struct OpenSmtpd(Place);

fn config(place: &Place) -> String {
    let (port, rude, next) = (place.port, place.rude_port, place.next_port);
    let [mail, rcpt, data, dot] = &REFUSALS;
    format!(
        "smtp max-message-size {SIZE_MAX}
table near {{ \"near.test\" }}
table mails {{ \"{mail_from}\" }}
table rcpts {{ \"{rcpt_to}\" }}
table datas {{ \"{data_from}\" }}
table dots {{ \"{dot_from}\" }}
filter at-ehlo phase ehlo match helo <near> reject \"{RUDE}\"
filter at-helo phase helo match helo <near> reject \"{RUDE}\"
filter rude chain {{ at-ehlo, at-helo }}
filter at-mail phase mail-from match mail-from <mails> reject \"{mail_reply}\"
filter at-rcpt phase rcpt-to match rcpt-to <rcpts> reject \"{rcpt_reply}\"
filter at-data phase data match mail-from <datas> reject \"{data_reply}\"
filter at-dot phase commit match mail-from <dots> reject \"{dot_reply}\"
filter steps chain {{ at-mail, at-rcpt, at-data, at-dot }}
listen on 127.0.0.1 port {port} hostname opensmtpd.test filter steps
listen on 127.0.0.1 port {rude} hostname opensmtpd.test filter rude
action \"out\" relay host smtp://127.0.0.1:{next}
match from any for any action \"out\"
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

/// In the namespace; `$0` is the server's directory. It looks names up in `/etc/hosts` alone.
const SCRIPT: &str = r#"
mount --bind "$0/spool" /var/spool && mount --bind "$0/run" /run &&
mount --bind "$0/resolv.conf" /etc/resolv.conf && exec smtpd -d -f "$0/smtpd.conf"
"#;

pub(crate) fn start(next_port: u16) -> OpenSmtpd {
    let mut place = Place::new(next_port);
    ["spool", "run"].iter().for_each(|name| place.make_dir(name));
    place.write("smtpd.conf", &config(&place));
    place.write("resolv.conf", "lookup file\n");
    let command = place.command("opensmtpd", &["sh", "-c", SCRIPT, &place.dir()]);
    place.start(command, "smtpd.log");
    place.wait_listening(place.port);
    OpenSmtpd(place)
}

impl Hop for OpenSmtpd {
    fn port(&self) -> u16 {
        self.0.port
    }

    fn rude_port(&self) -> u16 {
        self.0.rude_port
    }

    fn habits(&self) -> Habits {
        // What was put off it tries again after 400 seconds. Its tables change by smtpctl only,
        // which must be setgid, so it puts off nobody here.
        Habits { dsn: true, holds: false, ends_header: false, returns_all: true, retries: false }
    }

    /// There is none.
    fn open_gate(&self) {}
}
