//! Header fields to a heading (RFC 2156 §5.1.3, §5.1.7).

use super::budget::{ConversionBudget, ITEMS_MAX};
use super::entity::Entity;
use super::mailbox::{self, ListedMailbox};
use super::trace::parse_date;
use super::{ConversionContext, Use, message_id, words};
use crate::ber::Tag;
use crate::content;
use crate::content::heading::{
    Heading, HeadingExtension, Importance, IpmIdentifier, OrDescriptor, RecipientSpecifier,
    Sensitivity,
};
use crate::content::{file_transfer, teletex};
use crate::mts::extension::NameAndTime;
use crate::mts::{Priority, UtcTime};
use bytes::Bytes;

/// Characters of a free-form name and of a subject at most (X.420, ub-free-form-name, ub-subject-field).
const FREE_FORM_CHARS: usize = 64;
const SUBJECT_CHARS: usize = 128;

/// Fields without a meaning in X.400, or regenerated on the return path (§5.1.7, RFC 2157).
const DROPPED: [&str; 16] = [
    "Date",
    "Received",
    "X400-Received",
    "Return-Path",
    "MIME-Version",
    "Content-Type",
    "Content-Transfer-Encoding",
    "Discarded-X400-MTS-Extensions",
    "Discarded-X400-IPMS-Extensions",
    "Message-Type",
    "X400-Content-Type",
    "X400-Originator",
    "X400-Recipients",
    "X400-MTS-Identifier",
    "X400-Content-Identifier",
    "Original-Encoded-Information-Types",
];

/// Content of a header: a heading, and values for the envelope.
#[derive(Default)]
pub(super) struct Mapped {
    pub heading: Heading,
    /// Fields that have no place: they go into the field list.
    pub rest: Vec<String>,
    pub priority: Priority,
    pub is_conversion_prohibited: bool,
    pub is_loss_prohibited: bool,
    pub deferred: Option<UtcTime>,
    pub latest_delivery: Option<UtcTime>,
    pub dl_history: Vec<NameAndTime>,
    has_sender: bool,
}

/// Maps all fields; unmapped ones form the field list.
pub(super) fn map(message: &Entity<'_>, work: &ConversionBudget<'_>) -> Mapped {
    let here = work.here;
    let mut mapped = Mapped {
        has_sender: message
            .field("Sender")
            .is_some_and(|value| mailbox::parse_list(value, work.items_left()).is_some()),
        ..Mapped::default()
    };
    mapped.heading.this_ipm = IpmIdentifier { user: None, relative: here.local_id.into() };
    for (name, value) in &message.fields {
        if DROPPED.iter().any(|dropped| dropped.eq_ignore_ascii_case(name)) {
            continue;
        }
        let taken = mapped.addresses(name, value, work)
            || mapped.identifiers(name, value, work)
            || mapped.words(name, value)
            || mapped.envelope(name, value, here);
        if !taken {
            mapped.rest.push(format!("{name}: {}", ascii(value)));
        }
    }
    mapped
}

/// A value in ASCII: other characters are encoded, and decoded again on the other side.
fn ascii(value: &str) -> String {
    if value.is_ascii() { value.to_owned() } else { words::encode(value) }
}

impl Mapped {
    /// Puts the field list among the extensions, once all parts of the body have added to it.
    pub(super) fn finish(&mut self) {
        if !self.rest.is_empty() {
            let rest = std::mem::take(&mut self.rest);
            self.heading.extensions.push(file_transfer::field_list(&rest));
        }
    }

    fn addresses(&mut self, name: &str, value: &str, work: &ConversionBudget<'_>) -> bool {
        let known = ["From", "Sender", "Reply-To", "To", "Cc", "Bcc"];
        let Some(field) = known.iter().find(|known| known.eq_ignore_ascii_case(name)) else {
            return false;
        };
        let Some(list) = mailbox::parse_list(value, work.items_left()) else { return false };
        let descriptors: Option<Vec<OrDescriptor>> =
            list.iter().map(|listed| descriptor(listed, work.here)).collect();
        let Some(descriptors) = descriptors else { return false };
        work.spend_items(descriptors.len());
        let specifier = |recipient| RecipientSpecifier { recipient, ..Default::default() };
        let heading = &mut self.heading;
        match *field {
            "From" if self.has_sender => heading.authorizing_users.extend(descriptors),
            // One originator; several authors become authorizing users.
            "From" => {
                if let [_, _, ..] = &descriptors[..] {
                    heading.authorizing_users.clone_from(&descriptors);
                }
                heading.originator = descriptors.into_iter().next();
            }
            "Sender" => heading.originator = descriptors.into_iter().next(),
            "Reply-To" => heading.reply_recipients.extend(descriptors),
            "To" => heading.primary_recipients.extend(descriptors.into_iter().map(specifier)),
            "Cc" => heading.copy_recipients.extend(descriptors.into_iter().map(specifier)),
            _ => heading
                .blind_copy_recipients
                .get_or_insert_default()
                .extend(descriptors.into_iter().map(specifier)),
        }
        true
    }

    fn identifiers(&mut self, name: &str, value: &str, work: &ConversionBudget<'_>) -> bool {
        let lower = name.to_ascii_lowercase();
        if !["message-id", "in-reply-to", "references", "supersedes", "obsoletes"]
            .contains(&lower.as_str())
        {
            return false;
        }
        let Some(ids) = message_id::of_field(value, work.items_left()) else { return false };
        work.spend_items(ids.len());
        let mut all = ids.iter().map(|id| message_id::to_ipm(id));
        let heading = &mut self.heading;
        match (lower.as_str(), ids.len()) {
            ("message-id", 1) => {
                // A value too long for X.400 would be returned changed, so it is also carried as a field.
                let id = ids.first().copied().unwrap_or_default();
                heading.this_ipm = message_id::to_ipm(id);
                if message_id::to_mail(&heading.this_ipm) != id {
                    self.rest.push(format!("{name}: {}", ascii(value)));
                }
                true
            }
            ("in-reply-to", 1) => {
                heading.replied_to = all.next();
                true
            }
            ("in-reply-to" | "references", 1..) => {
                heading.related.extend(all);
                true
            }
            ("supersedes" | "obsoletes", 1..) => {
                heading.obsoleted.extend(all);
                true
            }
            _ => false,
        }
    }

    fn words(&mut self, name: &str, value: &str) -> bool {
        let lower = name.to_ascii_lowercase();
        let word = value.trim().to_ascii_lowercase();
        let heading = &mut self.heading;
        match lower.as_str() {
            "subject" => {
                heading.subject = Some(human(value, SUBJECT_CHARS));
                // A value too long for X.400 is also kept in full.
                if value.chars().count() > SUBJECT_CHARS {
                    self.rest.push(format!("{name}: {}", ascii(value)));
                }
                true
            }
            "expires" | "expiry-date" => put(&mut heading.expiry, parse_date(value)),
            "reply-by" => put(&mut heading.reply_by, parse_date(value)),
            "importance" => {
                let found = match word.as_str() {
                    "low" => Some(Importance::Low),
                    "normal" => Some(Importance::Normal),
                    "high" => Some(Importance::High),
                    _ => None,
                };
                heading.importance = found.unwrap_or_default();
                found.is_some()
            }
            "sensitivity" => {
                let found = match word.as_str() {
                    "personal" => Some(Sensitivity::Personal),
                    "private" => Some(Sensitivity::Private),
                    "company-confidential" => Some(Sensitivity::CompanyConfidential),
                    _ => None,
                };
                put(&mut heading.sensitivity, found)
            }
            "autoforwarded" => {
                heading.is_auto_forwarded = word == "true";
                word == "true" || word == "false"
            }
            "incomplete-copy" => {
                let value = Bytes::from_static(&[5, 0]);
                let oid = Bytes::from_static(content::INCOMPLETE_COPY);
                // A repetition adds nothing.
                if heading.extension(&oid).is_none() {
                    heading.extensions.push(HeadingExtension { oid, value: Some(value) });
                }
                true
            }
            "content-language" => self.languages(value),
            _ => false,
        }
    }

    /// Two letters each (§5.1.3); longer ones are also kept as a field.
    fn languages(&mut self, value: &str) -> bool {
        let all = || value.split(',').map(str::trim);
        let is_code =
            |text: &str| text.len() >= 2 && text.bytes().take(2).all(|b| b.is_ascii_alphabetic());
        if !all().all(is_code) {
            return false;
        }
        self.heading.extensions.push(HeadingExtension::new(content::LANGUAGES, |value| {
            value.constructed(Tag::SET, |set| {
                for code in all().filter_map(|code| code.get(..2)) {
                    set.text(Tag::PRINTABLE_STRING, code);
                }
            });
        }));
        all().all(|code| code.len() == 2)
    }

    fn envelope(&mut self, name: &str, value: &str, here: &ConversionContext<'_>) -> bool {
        let word = value.trim().to_ascii_lowercase();
        match name.to_ascii_lowercase().as_str() {
            "priority" => {
                let all = [Priority::NonUrgent, Priority::Normal, Priority::Urgent];
                let found = all.into_iter().find(|priority| priority.name() == word);
                self.priority = found.unwrap_or_default();
                found.is_some()
            }
            "conversion" => {
                self.is_conversion_prohibited = word == "prohibited";
                word == "prohibited" || word == "allowed"
            }
            "conversion-with-loss" => {
                self.is_loss_prohibited = word == "prohibited";
                word == "prohibited" || word == "allowed"
            }
            "deferred-delivery" => put(&mut self.deferred, parse_date(value)),
            "latest-delivery-time" => put(&mut self.latest_delivery, parse_date(value)),
            // The most recent one is first there, and last here.
            "dl-expansion-history" => match dl_element(value, here) {
                Some(element) if self.dl_history.len() < crate::mts::TRACE_MAX => {
                    self.dl_history.insert(0, element);
                    true
                }
                _ => false,
            },
            _ => false,
        }
    }
}

fn put<T>(place: &mut Option<T>, value: Option<T>) -> bool {
    let is_there = value.is_some();
    *place = value;
    is_there
}

fn dl_element(value: &str, here: &ConversionContext<'_>) -> Option<NameAndTime> {
    let (list, rest) = value
        .rsplit_once(';')
        .filter(|(_, end)| !end.trim().is_empty())
        .or_else(|| value.trim_end().strip_suffix(';').and_then(|value| value.rsplit_once(';')))?;
    let mailbox = mailbox::parse_list(list, ITEMS_MAX)?.into_iter().next()?.address?;
    let name = here.gateway.to_or_address(&mailbox, Use::Other)?.into();
    Some(NameAndTime { name, time: parse_date(rest.trim())? })
}

/// A text for people in teletex; text not representable in it stays encoded in ASCII.
fn human(value: &str, chars_max: usize) -> Bytes {
    let decoded = words::decode(value);
    let cut: String = decoded.chars().take(chars_max).collect();
    match teletex::from_text(&cut) {
        Some(octets) => Bytes::from(octets),
        // Cut before encoding, so that no encoded part is broken (§5.1.3).
        None => Bytes::from(words::encode(&cut).into_bytes()),
    }
}

/// A mailbox of a field (§4.7.1). `None`: its address has no place in X.400.
fn descriptor(listed: &ListedMailbox, here: &ConversionContext<'_>) -> Option<OrDescriptor> {
    let formal_name = match &listed.address {
        Some(address) => Some(here.gateway.to_or_address(address, Use::Other)?.into()),
        None => None,
    };
    let free_form_name = listed.display.as_ref().map(|display| human(display, FREE_FORM_CHARS));
    Some(OrDescriptor { formal_name, free_form_name, telephone: None })
}
