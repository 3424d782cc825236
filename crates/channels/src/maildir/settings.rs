//! What a `maildir` route is told.

use super::folder;
use super::template::{Owner, PathError, Template};
use config::quantity::{DurationText, SizeText, parse_size, write_duration, write_size};
use config::{ChannelSection, Destination, Explainer, Reader, Settings};
use mail::Mailbox;
use mta::seams::{Keeping, MailFolder, MailboxPlace};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// Keep in a Maildir on this server: written to `tmp`, synced, then moved to `new`. A message that was
/// in this mailbox before (a `Delivered-To` field names the recipient) is returned with 5.4.6. A
/// Maildir that is a symbolic link, or another user's, is left alone: mail for it waits (4.2.1).
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub(crate) struct MaildirText {
    /// The Maildir of a recipient. `{domain}` and `{local}` stand for the recipient's domain and
    /// local part in lower case; what could lead elsewhere (`/`, a leading dot) is written as
    /// `%2F`, `%2E`. `{hash:2}` stands for so many (1 to 4) hexadecimal digits of a hash of the
    /// address, to spread many mailboxes over directories; another one for the digits that follow.
    /// On the way from the directory before the first placeholder to the Maildir no symbolic link is
    /// followed. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// Which folder of the Maildir a message is put into.
    folders: Folders,
    /// With `folders = "tag"`: a folder that is missing is made. Otherwise mail for it goes to the
    /// inbox, so that strangers make no folders.
    create_folders: bool,
    /// What the messages of a Maildir may have together, by Maildir++'s `maildirsize`, which other
    /// programs keep as well. A message that does not fit waits (4.2.2), as long as `quota_grace`
    /// says. None: no limit of ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    quota: Option<SizeText>,
    /// So long after it was received a message that does not fit is returned (5.2.2); `"0"`: at once.
    /// None: when it is too old, by `give_up_after` of `[retry]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    quota_grace: Option<DurationText>,
    /// Whose the Maildirs are, by name or number: new files and directories are given to this user,
    /// and a Maildir of another is left alone. Only root can give to others. None: the user that the
    /// server runs as.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    /// The group of new files and directories, by name or number. None: the group of `user`, or the
    /// server's.
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    /// The mode of messages, in octal digits. Directories can be searched by whoever may read.
    mode: String,
}

impl Default for MaildirText {
    fn default() -> MaildirText {
        MaildirText {
            path: None,
            folders: Folders::None,
            create_folders: false,
            quota: None,
            quota_grace: None,
            user: None,
            group: None,
            mode: "0600".to_owned(),
        }
    }
}

/// Which folder of a Maildir a message is put into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Folders {
    /// The inbox. `user+tag@` is a mailbox of its own.
    #[default]
    None,
    /// Mail for `user+Lists@` goes to the folder `.Lists` of the mailbox of `user`, for
    /// `user+Lists.Rust@` (or with `/` or `+`) to `.Lists.Rust`. What names no folder, or the inbox,
    /// goes to the inbox.
    Tag,
}

impl ChannelSection for MaildirText {
    const KEY: &'static str = "maildir";
    const SUMMARY: &'static str = "Keep in a Maildir on this server.";
    const EXAMPLE: &'static str = "maildir = { path = \"/srv/mail/{domain}/{local}\" }";
    type Text = MaildirText;

    fn read(text: MaildirText, reader: &mut Reader<'_, '_>) -> Option<Arc<dyn Settings>> {
        let template = template_of(&text, reader);
        let quota_bytes = text.quota.as_ref().map(|quota| reader.size("quota", quota));
        let says_nothing = match &text.quota {
            Some(SizeText::Bytes(bytes)) => *bytes == 0,
            Some(SizeText::Text(text)) => parse_size(text) == Ok(0),
            None => false,
        };
        if says_nothing {
            reader.error("quota", "no message fits", "leave `quota` out for no limit");
        }
        let quota_grace =
            text.quota_grace.as_ref().map(|text| reader.duration("quota_grace", text));
        if quota_grace.is_some() && quota_bytes.is_none() {
            reader.warn("quota_grace", "there is no `quota` that it could be for", "");
        }
        if text.create_folders && text.folders == Folders::None {
            reader.warn("create_folders", "nothing names folders", "add folders = \"tag\"");
        }
        let mode = mode_of(&text.mode).unwrap_or_else(|why| {
            reader.error("mode", format!("\"{}\" is not a mode for mail", text.mode), why);
            0
        });
        for (key, name) in [("user", &text.user), ("group", &text.group)] {
            if name.as_ref().is_some_and(|name| name.is_empty() || name.contains('\0')) {
                reader.error(key, "not a name", "");
            }
        }
        let keeping = Arc::new(Keeping { user: text.user, group: text.group, mode });
        let (folders, create_folders) = (text.folders, text.create_folders);
        let settings = Maildir {
            template: template?,
            folders,
            create_folders,
            quota_bytes,
            quota_grace,
            keeping,
        };
        Some(Arc::new(settings))
    }

    fn mailbox_at(path: &str) -> Option<Arc<dyn Settings>> {
        Some(Arc::new(Maildir {
            template: Template::parse(path, &|_| false).ok()?,
            folders: Folders::None,
            create_folders: false,
            quota_bytes: None,
            quota_grace: None,
            keeping: Arc::default(),
        }))
    }
}

fn template_of(text: &MaildirText, reader: &mut Reader<'_, '_>) -> Option<Template> {
    let Some(path) = &text.path else {
        let help = "such as path = \"/srv/mail/{domain}/{local}\"";
        reader.error("", "a route to nowhere: `path` is missing", help);
        return None;
    };
    match Template::parse(path, &|_| false) {
        Ok(template) => {
            if !template.tells_recipients_apart() {
                let help = "add {local} to give each recipient a Maildir of its own";
                reader.warn("path", "all recipients share one Maildir", help);
            }
            Some(template)
        }
        Err(help) => {
            reader.error("path", "not a path for Maildirs", &help);
            None
        }
    }
}

/// The mode of files that their user can read and write, nobody runs, and not everybody writes.
fn mode_of(text: &str) -> Result<u32, &'static str> {
    let is_octal = (3..=4).contains(&text.len()) && text.bytes().all(|c| matches!(c, b'0'..=b'7'));
    match u32::from_str_radix(text, 8) {
        Ok(mode) if is_octal && mode & !0o664 == 0 && mode & 0o600 == 0o600 => Ok(mode),
        _ => Err("octal digits such as \"0600\", \"0640\", \"0660\""),
    }
}

/// A Maildir per recipient.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Maildir {
    template: Template,
    folders: Folders,
    create_folders: bool,
    quota_bytes: Option<u64>,
    quota_grace: Option<Duration>,
    keeping: Arc<Keeping>,
}

impl Maildir {
    /// The mailbox of this recipient; `values` are those of its entry in a table.
    ///
    /// # Errors
    /// When there is no path for it.
    pub(super) fn place_for<'v>(
        &self,
        recipient: &Mailbox,
        values: &dyn Fn(&str) -> Option<&'v str>,
    ) -> Result<MailboxPlace, PathError> {
        Ok(MailboxPlace {
            root: self.template.root().to_owned(),
            below: self.template.path_for(&self.owner_of(recipient), values)?,
            folder: self.folder_of(recipient),
            quota_bytes: self.quota_bytes,
            keeping: Arc::clone(&self.keeping),
        })
    }

    /// The path as it is written.
    pub(super) fn template(&self) -> &str {
        self.template.as_str()
    }

    /// How long a message may wait for room in its mailbox; `None`: as long as for anything.
    pub(super) fn quota_grace(&self) -> Option<Duration> {
        self.quota_grace
    }

    /// How its files are kept.
    pub(crate) fn keeping(&self) -> &Keeping {
        &self.keeping
    }

    /// Whose mailbox the mail for this recipient goes to.
    fn owner_of(&self, recipient: &Mailbox) -> Owner {
        let mut owner = Owner::of(recipient);
        if self.folders == Folders::Tag {
            owner.local.truncate(folder::split_tag(&owner.local).0.len());
        }
        owner
    }

    fn folder_of(&self, recipient: &Mailbox) -> Option<MailFolder> {
        if self.folders == Folders::None {
            return None;
        }
        let name = folder::directory_of(folder::split_tag(&recipient.local_unquoted()).1?)?;
        Some(MailFolder { name, is_made: self.create_folders })
    }
}

impl Settings for Maildir {
    fn key(&self) -> &'static str {
        MaildirText::KEY
    }

    fn destination(&self) -> Destination<'_> {
        Destination::Here(self.template.as_str())
    }

    fn has_place_for(&self, recipient: &Mailbox) -> bool {
        self.template.fits(&self.owner_of(recipient))
    }

    fn explain_destination(&self, recipient: &Mailbox, explainer: &mut Explainer<'_>) {
        let path = match self.place_for(recipient, &|_| None) {
            Ok(place) => place.path().display().to_string(),
            Err(error) => error.to_string(),
        };
        explainer.own_key("path", path);
        if let Some(folder) = self.folder_of(recipient) {
            let otherwise = if folder.is_made { "" } else { ", if it is there" };
            explainer.own_key("folders", format!("{}{otherwise}", folder.name));
        }
    }

    fn explain_limits(&self, explainer: &mut Explainer<'_>) {
        if let Some(bytes) = self.quota_bytes {
            explainer.own_key("quota", write_size(bytes));
        }
        if let Some(grace) = self.quota_grace {
            explainer.own_key("quota_grace", write_duration(grace));
        }
        for (key, name) in [("user", &self.keeping.user), ("group", &self.keeping.group)] {
            if let Some(name) = name {
                explainer.own_key(key, name.clone());
            }
        }
    }

    fn is_like(&self, other: &dyn Settings) -> bool {
        other.of::<Maildir>() == Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_let_the_user_read_and_write_and_not_everybody() {
        for (text, mode) in [("0600", 0o600), ("600", 0o600), ("0640", 0o640), ("0664", 0o664)] {
            assert_eq!(mode_of(text), Ok(mode));
        }
        for text in ["", "0", "0400", "0700", "0666", "0602", "4600", "+600", "0o60", "06000", "rw"]
        {
            assert!(mode_of(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_tag_names_a_folder_of_the_users_mailbox_where_that_is_wanted() {
        let template = Template::parse("/m/{hash:2}/{local}", &|_| false).unwrap();
        let maildir = |folders| Maildir {
            template: template.clone(),
            folders,
            create_folders: true,
            quota_bytes: None,
            quota_grace: None,
            keeping: Arc::default(),
        };
        let place = |folders, address: &str| {
            let recipient = Mailbox::parse(address, true).unwrap();
            let place = maildir(folders).place_for(&recipient, &|_| None).unwrap();
            (place.path().display().to_string(), place.folder.map(|folder| folder.name))
        };
        let user = place(Folders::Tag, "User@example.org").0;
        let lists = (user, Some(".Lists".to_owned()));
        assert_eq!(place(Folders::Tag, "user+Lists@Example.org"), lists);
        assert_eq!(place(Folders::Tag, "user+@example.org"), (lists.0, None));
        assert!(place(Folders::None, "user+Lists@example.org").0.ends_with("/user+lists"));
    }
}
