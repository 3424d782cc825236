//! Maildirs of virtual(8) and local(8).

use super::domains::DomainClass;
use super::moving::Moving;
use super::transports::Channel;
use super::values::Parameter;
use crate::commands::migrate::new_config::Keys;

/// The channel of virtual(8): the path is in the table of recipients.
pub(super) fn of_virtual(m: &mut Moving, class: &DomainClass) -> Channel {
    let base = m.get("virtual_mailbox_base");
    let mut keys = Keys::new();
    let path = format!("{}/{{value}}", base.text.trim_end_matches('/'));
    if class.recipients.is_none() {
        let why = "without a table of mailboxes there is no path for them";
        let maps = m.get("virtual_mailbox_maps");
        m.missing(&maps, why, "set `path` of `maildir`");
        keys.text("path", &format!("{}/{{domain}}/{{local}}", base.text.trim_end_matches('/')));
    } else {
        keys.text("path", &path);
        m.different(
            &base,
            "`path` of `maildir`; a value without `/` at its end is a Maildir as well, never an mbox file",
            "move mbox files with mb2md; values with several tables columns need their own `path`",
        );
    }
    for (name, key) in [("virtual_uid_maps", "user"), ("virtual_gid_maps", "group")] {
        let of = m.get(name);
        let fixed = of.words().iter().find_map(|word| {
            let id = word.strip_prefix("static:")?.to_owned();
            id.bytes().all(|byte| byte.is_ascii_digit()).then_some(id)
        });
        match fixed {
            Some(id) => {
                keys.text(key, &id);
                m.carried(&of, &format!("`{key}` of `maildir`"));
            }
            None if !of.is_empty() => {
                let remedy = "a table with the columns path and uid, and `user = \"{uid}\"`";
                m.missing(&of, "mailboxes belong to the server's user", remedy);
            }
            None => {}
        }
    }
    let limit = m.get("virtual_mailbox_limit");
    if limit.is_set {
        m.different(&limit, "no limit for a file; a Maildir has `quota`", "");
    }
    Channel::with("maildir", keys)
}

/// The channel of local(8): Maildirs in home directories.
pub(super) fn of_local(m: &mut Moving) -> Channel {
    let home = m.get("home_mailbox");
    let directory = match home.text.strip_suffix('/') {
        Some(directory) => {
            m.carried(&home, "`path` of `maildir`, in /home/NAME");
            directory.trim_start_matches("./").to_owned()
        }
        None => {
            let of = if home.is_empty() { m.get("mail_spool_directory") } else { home };
            let why = "no mbox files: mail goes to Maildirs, /home/NAME/Maildir";
            m.different(&of, why, "move mail with mb2md, and let mail programs read the Maildir");
            "Maildir".to_owned()
        }
    };
    let command = m.get("mailbox_command");
    if !command.is_empty() {
        let why = "the command is not run; mail goes to Maildirs in home directories";
        m.missing(&command, why, "`pipe` of the route, or LMTP (Dovecot's lmtp service)");
    }
    report_forward_files(m);
    let mut keys = Keys::new();
    keys.text("path", &format!("/home/{{value}}/{directory}")).text("user", "{value}");
    Channel::with("maildir", keys)
}

/// local(8) reads .forward files, and has settings for all sorts of users.
fn report_forward_files(m: &mut Moving) {
    let of = m.get("forward_path");
    let of = Parameter { name: "forward_path (.forward files)".to_owned(), ..of };
    m.missing(&of, ".forward files of users are not read", "an alias for each: docs/aliases.md");
    for (name, remedy) in [
        ("luser_relay", "a catch-all alias: docs/aliases.md"),
        ("fallback_transport", "a route for these recipients"),
        ("fallback_transport_maps", "a route for these recipients"),
        ("mailbox_transport_maps", "a route with `when.recipients` for each transport"),
        ("mailbox_command_maps", "a `pipe` route for each command"),
    ] {
        let of = m.get(name);
        if !of.is_empty() {
            m.missing(&of, "mail goes to the mailbox or is rejected", remedy);
        }
    }
}
