//! Settings of a `maildir` route.

use super::folder;
use super::junk::{Junk, JunkText};
use super::template::{MaildirTemplate, Owner, PlaceError};
use super::terms::{MailboxTerms, QuotaText};
use crate::values::{EntryTable, ValueNames};
use config::Values;
use config::quantity::{DurationText, write_duration};
use config::{
    ChannelSection, Destination, Explainer, MailboxChecks, Reader, Settings, TagDelimiters,
    values_in,
};
use mail::{Mailbox, Refusal};
use mta::seams::{Keeping, MailFolder, MailboxPlace};
use queue::Origin;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Deliver to a Maildir on this server: the message is written to `tmp`, synced, and moved to `new`. A message that was
/// in this mailbox before (a `Delivered-To` field names the recipient) is bounced with 5.4.6. A Maildir that is a
/// symbolic link, or belongs to another user, is not written to, and its mail is deferred (4.2.1).
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub(crate) struct MaildirText {
    /// Path of a recipient's Maildir. Required.
    ///
    /// Placeholders: `{domain}` and `{local}` are the recipient's domain and local part in lower case. A slash and a
    /// leading dot are escaped as `%2F` and `%2E`. `{hash:2}` is the given number (1 to 4) of hexadecimal digits of a
    /// hash of the address, to spread mailboxes over directories; a second one continues with the next digits. Any
    /// other name is a value of the recipient's entry in the table of `recipients`, looked up at delivery. Values are
    /// attributes, columns or fields, or `{value}` for the text of an entry without named values. A value may contain
    /// several directories, but not `.` or `..`.
    ///
    /// A message for a recipient that is no longer in the table is bounced (5.1.1). It is deferred if the table gives
    /// no answer (4.4.3) or the value is unusable (4.2.0).
    ///
    /// The directory before the first placeholder (without one: the parent of the Maildir) must exist. If it is
    /// missing, mail is deferred (4.3.0), because its disk may not be mounted. It is created only beside the spool
    /// directory. Symbolic links below it are not followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// Folder of the Maildir for new messages.
    folders: Folders,
    /// With `folders = "tag"`: create a missing folder. Otherwise its mail goes to the inbox, so that senders can't
    /// create folders.
    create_folders: bool,
    /// Mail with this header field goes to a folder: `{ header = "X-Spam-Flag", value = "YES", folder = ".Junk" }`. Default:
    /// none.
    #[serde(skip_serializing_if = "Option::is_none")]
    junk: Option<JunkText>,
    /// Maximum size of all messages in a Maildir together, accounted in Maildir++'s `maildirsize`, which other programs
    /// update as well. A full mailbox is refused at RCPT (452 4.2.2, or 552 5.2.2 with `quota_grace = "0"`), with the
    /// size in MAIL if the client announces one. An accepted message that does not fit is deferred (4.2.2) for the time
    /// of `quota_grace`. `"{quota}"` is a value of the recipient's entry, as in `path`; an entry without the value, or
    /// with 0, has no limit. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) quota: Option<QuotaText>,
    /// Age at which a message that does not fit is bounced (5.2.2); `"0"` for at once. Default: when it expires
    /// (`give_up_after` of `[retry]`).
    #[serde(skip_serializing_if = "Option::is_none")]
    quota_grace: Option<DurationText>,
    /// Owner of the Maildirs, by name or number. New files and directories get this owner, and a Maildir of another
    /// user is not written to. Only root can set an owner. `"{uid}"` is a value of the recipient's entry, as in `path`;
    /// if it is unknown or root, mail is deferred (4.2.0, 4.2.1). Default: the user that the server runs as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) user: Option<String>,
    /// Group of new files and directories, by name or number, or from the recipient's entry, as with `user`. Default:
    /// the group of `user`, or the server's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) group: Option<String>,
    /// Mode of messages, in octal digits. Directories get search permission for each read permission.
    pub(super) mode: String,
}

impl Default for MaildirText {
    fn default() -> MaildirText {
        MaildirText {
            path: None,
            folders: Folders::None,
            create_folders: false,
            junk: None,
            quota: None,
            quota_grace: None,
            user: None,
            group: None,
            mode: "0600".to_owned(),
        }
    }
}

/// Folder of a Maildir for new messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Folders {
    /// The inbox. `user+tag@` has a separate mailbox.
    #[default]
    None,
    /// Mail for `user+Lists@` goes to the folder `.Lists` in the mailbox of `user`, mail for `user+Lists.Rust@` (or
    /// with `/` or `+`) to `.Lists.Rust`. A tag that is empty or no valid folder name selects the inbox.
    Tag,
}

impl ChannelSection for MaildirText {
    const KEY: &'static str = "maildir";
    const SUMMARY: &'static str = "Deliver to a Maildir on this server.";
    const EXAMPLE: &'static str = "maildir = { path = \"/srv/mail/{domain}/{local}\" }";
    type Text = MaildirText;

    fn read(text: MaildirText, reader: &mut Reader<'_, '_>) -> Option<Arc<dyn Settings>> {
        let table = reader.recipients().cloned();
        let names = ValueNames::of(table.as_deref());
        let template = template_of(&text, &names, reader);
        let terms = MailboxTerms::read(&text, &names, reader);
        let quota_grace =
            text.quota_grace.as_ref().map(|text| reader.duration("quota_grace", text));
        if quota_grace.is_some() && !terms.have_quota() {
            reader.warn("quota_grace", "used without `quota`", "");
        }
        if text.create_folders && text.folders == Folders::None {
            reader.warn("create_folders", "used without `folders`", "add folders = \"tag\"");
        }
        let junk = text.junk.as_ref().and_then(|junk| Junk::read(junk, reader));
        let template = template?;
        let has_values = template.has_values() || terms.have_values();
        Some(Arc::new(Maildir {
            template,
            entries: table.map(EntryTable),
            has_values,
            folders: text.folders,
            create_folders: text.create_folders,
            tags: reader.tag_delimiters(),
            junk,
            terms,
            quota_grace,
        }))
    }

    fn mailbox_at(path: &str, quota_bytes: u64) -> Option<Arc<dyn Settings>> {
        Some(Arc::new(Maildir {
            template: MaildirTemplate::parse(path, &ValueNames::default()).ok()?,
            entries: None,
            has_values: false,
            folders: Folders::None,
            create_folders: false,
            tags: TagDelimiters::default(),
            junk: None,
            terms: MailboxTerms::with_quota(quota_bytes),
            quota_grace: None,
        }))
    }
}

fn template_of(
    text: &MaildirText,
    names: &ValueNames<'_>,
    reader: &mut Reader<'_, '_>,
) -> Option<MaildirTemplate> {
    let Some(path) = &text.path else {
        let help = "for example path = \"/srv/mail/{domain}/{local}\"";
        reader.error("", "`path` is missing", help);
        return None;
    };
    match MaildirTemplate::parse(path, names) {
        Ok(template) => {
            if !template.tells_recipients_apart() {
                let help = "add {local} to give each recipient a separate Maildir";
                reader.warn("path", "all recipients share one Maildir", help);
            }
            Some(template)
        }
        Err(help) => {
            reader.error("path", "not a Maildir path", &help);
            None
        }
    }
}

/// A Maildir per recipient.
#[derive(Debug, PartialEq)]
pub(crate) struct Maildir {
    template: MaildirTemplate,
    /// The table of recipients' entries.
    entries: Option<EntryTable>,
    /// Path or terms contain values of the recipient's entry.
    has_values: bool,
    folders: Folders,
    create_folders: bool,
    /// Characters that begin a tag.
    tags: TagDelimiters,
    junk: Option<Junk>,
    terms: MailboxTerms,
    quota_grace: Option<Duration>,
}

impl Maildir {
    /// The mailbox of this recipient. `values` are from its table entry. `is_users_tag` is set if the entry was found
    /// under the address without its tag; the mailbox is then also that of the address without the tag.
    ///
    /// # Errors
    /// The path can't be built, or a value is invalid.
    pub(super) fn place_for(
        &self,
        recipient: &Mailbox,
        is_users_tag: bool,
        values: Values<'_, '_>,
    ) -> Result<MailboxPlace, PlaceError> {
        let owner = match is_users_tag {
            true => self.without_tag(Owner::of(recipient)),
            false => self.owner_of(recipient),
        };
        Ok(MailboxPlace {
            root: self.template.root().to_owned(),
            below: self.template.path_for(&owner, values)?,
            folder: self.folder_of(recipient),
            quota_bytes: self.terms.quota_bytes_of(values)?,
            keeping: self.terms.keeping_of(values)?,
            origin: Origin::OURS,
        })
    }

    /// The table with the recipient's entry, if delivery needs it.
    pub(super) fn entries_for(&self, recipient: &Mailbox) -> Option<&EntryTable> {
        let is_tagged = || self.tags.split(&recipient.local_unquoted()).is_some();
        let is_needed = self.has_values || self.folders == Folders::None && is_tagged();
        self.entries.as_ref().filter(|_| is_needed)
    }

    /// The folder for marked mail.
    pub(super) fn junk(&self) -> Option<&Junk> {
        self.junk.as_ref()
    }

    /// The path as written.
    pub(super) fn template(&self) -> &str {
        self.template.as_str()
    }

    /// Maximum time for which a message waits for a full mailbox. `None`: until the message expires.
    pub(super) fn quota_grace(&self) -> Option<Duration> {
        self.quota_grace
    }

    /// The directory that must exist, unless it is beside the spool.
    pub(crate) fn required_directory(&self) -> &Path {
        mta::seams::required_directory(self.template.root(), self.template.is_one_maildir())
    }

    /// User, group and mode of its files, and the key, as written, that refers to values of recipients' entries.
    pub(crate) fn keeping(&self) -> (&Keeping, Option<String>) {
        self.terms.keeping()
    }

    /// Owner of the mailbox that this recipient's mail goes to.
    fn owner_of(&self, recipient: &Mailbox) -> Owner {
        let owner = Owner::of(recipient);
        if self.folders == Folders::Tag { self.without_tag(owner) } else { owner }
    }

    fn without_tag(&self, mut owner: Owner) -> Owner {
        let length = self.tags.split(&owner.local).map(|(user, ..)| user.len());
        owner.local.truncate(length.unwrap_or(usize::MAX));
        owner
    }

    fn folder_of(&self, recipient: &Mailbox) -> Option<MailFolder> {
        if self.folders == Folders::None {
            return None;
        }
        let name = folder::directory_of(self.tags.split(&recipient.local_unquoted())?.2)?;
        Some(MailFolder { name, is_made: self.create_folders })
    }
}

static NO_SUCH_NAME: Refusal = Refusal::permanent((1, 1), "Mailbox name too long");

impl Settings for Maildir {
    fn key(&self) -> &'static str {
        MaildirText::KEY
    }

    fn destination(&self) -> Destination<'_> {
        Destination::Here(self.template.as_str())
    }

    fn refusal(&self, recipient: &Mailbox, _: bool) -> Option<&'static Refusal> {
        (!self.template.fits(&self.owner_of(recipient))).then_some(&NO_SUCH_NAME)
    }

    fn mailbox_checks(&self) -> MailboxChecks {
        if self.terms.have_quota() { MailboxChecks::Always } else { MailboxChecks::DiskFull }
    }

    fn explain_destination(&self, recipient: &Mailbox, explainer: &mut Explainer<'_>) {
        let path = match explainer.values() {
            None if self.template.has_values() => self.template.as_str().to_owned(),
            known => match self.template.path_for(&self.owner_of(recipient), &values_in(known)) {
                Ok(below) => self.template.root().join(below).display().to_string(),
                Err(error) => error.to_string(),
            },
        };
        explainer.own_key("path", path);
        if let Some(folder) = self.folder_of(recipient) {
            let otherwise = if folder.is_made { "" } else { ", if it exists" };
            explainer.own_key("folders", format!("{}{otherwise}", folder.name));
        }
        if let Some(junk) = &self.junk {
            explainer.own_key("junk", junk.text());
        }
    }

    fn explain_limits(&self, explainer: &mut Explainer<'_>) {
        match explainer.values() {
            None => self.terms.explain(None, explainer),
            known => self.terms.explain(Some(&values_in(known)), explainer),
        }
        if let Some(grace) = self.quota_grace {
            explainer.own_key("quota_grace", write_duration(grace));
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
    fn a_tag_names_a_folder_of_the_users_mailbox_where_that_is_wanted() {
        let template =
            MaildirTemplate::parse("/m/{hash:2}/{local}", &ValueNames::default()).unwrap();
        let maildir = |folders| Maildir {
            template: template.clone(),
            entries: None,
            has_values: false,
            folders,
            create_folders: true,
            tags: TagDelimiters::default(),
            junk: None,
            terms: MailboxTerms::default(),
            quota_grace: None,
        };
        let place = |folders, address: &str| {
            let recipient = Mailbox::parse(address, true).unwrap();
            let place = maildir(folders).place_for(&recipient, false, &|_| &[]).unwrap();
            (place.path().display().to_string(), place.folder.map(|folder| folder.name))
        };
        let user = place(Folders::Tag, "User@example.org").0;
        let lists = (user, Some(".Lists".to_owned()));
        assert_eq!(place(Folders::Tag, "user+Lists@Example.org"), lists);
        assert_eq!(place(Folders::Tag, "user+@example.org"), (lists.0, None));
        assert!(place(Folders::None, "user+Lists@example.org").0.ends_with("/user+lists"));
    }
}
