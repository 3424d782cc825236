//! The queue in the form of Postfix's mailq(1), which people and scripts read.

use super::session::exit_code;
use crate::commands::load;
use crate::control_socket::{self, ClientError};
use mail::Wall;
use mta::commands::QueueList;
use mta::control::{ControlResponse, Filter, QueueItem, RecipientState};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

/// Lists the queue of the server with this configuration. Returns the exit code.
pub(super) fn list(config: Option<&Path>) -> u8 {
    let file = config.map_or_else(load::installed, Path::to_owned);
    if File::open(&file).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied) {
        return not_permitted(&file);
    }
    let path = match load::alone(Some(&file)) {
        Ok(config) => config.admin.control,
        Err(error) => {
            eprint!("{}", error.render(false));
            return exit_code::CONFIG;
        }
    };
    let request = QueueList { filter: Filter::default(), limit: u32::MAX }.into();
    let (mut list, mut error) = (ListedQueue::default(), None);
    let asked = control_socket::ask(&path, &request, |response| {
        match response {
            ControlResponse::Item(item) => list.add(&item),
            ControlResponse::Error { text, .. } => error = Some(text),
            _ => {}
        }
        Ok(())
    });
    let code = match (asked, error) {
        (Ok(()), None) => exit_code::OK,
        (Ok(()), Some(text)) => failed(&text, exit_code::UNAVAILABLE),
        (Err(error), _) => unanswered(&path, &error),
    };
    if code == exit_code::OK && io::stdout().write_all(list.text().as_bytes()).is_err() {
        return exit_code::IO_ERROR;
    }
    code
}

fn failed(why: &str, code: u8) -> u8 {
    eprintln!("mailq: {why}");
    code
}

/// The queue names senders and recipients of all users.
fn not_permitted(path: &Path) -> u8 {
    let path = path.display();
    let why = format!(
        "cannot open {path}: only root and the server's user may list the queue; run `sudo mailq`"
    );
    failed(&why, exit_code::NO_PERMISSION)
}

fn unanswered(path: &Path, error: &ClientError) -> u8 {
    match error {
        ClientError::Unreachable(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            not_permitted(path)
        }
        ClientError::Unreachable(error) => {
            let why = format!("mail system is down: {}: {error}", path.display());
            failed(&why, exit_code::UNAVAILABLE)
        }
        ClientError::Broken(text) => failed(text, exit_code::UNAVAILABLE),
        ClientError::Output(error) => failed(&error.to_string(), exit_code::IO_ERROR),
    }
}

/// The listing, as it grows.
#[derive(Default)]
struct ListedQueue {
    text: String,
    messages: u64,
    bytes: u64,
}

impl ListedQueue {
    fn add(&mut self, item: &QueueItem) {
        let QueueItem { sender, body_bytes, received_at, recipients, .. } = item;
        let mut id = String::new();
        item.id.push_to(&mut id);
        // As in Postfix: `*` is in delivery, `!` on hold.
        let is_active = recipients.iter().any(|one| one.state == RecipientState::InFlight);
        let mark = match (&item.held, is_active) {
            (Some(_), _) => "!",
            (None, true) => "*",
            (None, false) => " ",
        };
        let sender = if sender.is_empty() { "MAILER-DAEMON" } else { sender };
        let at = arrival(*received_at);
        let _ = writeln!(self.text, "{id}{mark} {body_bytes:7} {at}  {sender}");
        let mut reason = None;
        for recipient in recipients {
            if recipient.last_failure != reason {
                reason.clone_from(&recipient.last_failure);
                if let Some(why) = &reason {
                    let _ = writeln!(self.text, "{:>78}", format!("({why})"));
                }
            }
            let _ = writeln!(self.text, "{:41}{}", "", recipient.address);
        }
        let named = u32::try_from(recipients.len()).unwrap_or(u32::MAX);
        let more = item.recipients_open.saturating_sub(named);
        if more > 0 {
            let _ = writeln!(self.text, "{:41}({more} more recipients)", "");
        }
        self.text.push('\n');
        self.messages += 1;
        self.bytes = self.bytes.saturating_add(*body_bytes);
    }

    fn text(self) -> String {
        if self.messages == 0 {
            return "Mail queue is empty\n".to_owned();
        }
        let (kilobytes, messages) = (self.bytes.div_ceil(1_024), self.messages);
        let requests = if messages == 1 { "Request" } else { "Requests" };
        format!(
            "-Queue ID-  --Size-- ----Arrival Time---- -Sender/Recipient-------\n{}-- {kilobytes} Kbytes in \
             {messages} {requests}.\n",
            self.text
        )
    }
}

/// `Tue Nov 24 10:11:12`, as asctime(3), in UTC as all times of the server.
fn arrival(at: Wall) -> String {
    let mut date = Vec::new();
    at.write_rfc5322(&mut date);
    let date = String::from_utf8_lossy(&date).replace(',', "");
    let parts: Vec<&str> = date.split(' ').collect();
    match parts[..] {
        [day, number, month, _, time, ..] => format!("{day} {month} {number:>2} {time}"),
        _ => date,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_queue_is_named_so() {
        assert_eq!(ListedQueue::default().text(), "Mail queue is empty\n");
    }

    #[test]
    fn arrival_has_the_form_of_mailq() {
        assert_eq!(arrival(Wall(0)), "Thu Jan  1 00:00:00");
    }
}
