//! Reading the delivery status part of somebody's report (RFC 3464 §2).

use crate::{EnhancedStatus, header};
use memchr::memchr;

/// The body of a message/delivery-status (or message/global-delivery-status) part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveryStatus {
    /// What concerns the message as a whole.
    pub message: Group,
    /// One for each recipient.
    pub recipients: Vec<Group>,
}

/// Fields that belong together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Names as they were written and values in one line, in their order.
    pub fields: Vec<(String, String)>,
}

impl Group {
    /// The value of the first field called `name`, in any case.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let field = self.fields.iter().find(|(field, _)| field.eq_ignore_ascii_case(name))?;
        Some(&field.1)
    }

    /// The value of a field of the form `type; text`, such as Final-Recipient, in its two parts.
    #[must_use]
    pub fn typed(&self, name: &str) -> Option<(&str, &str)> {
        let (kind, text) = self.get(name)?.split_once(';')?;
        Some((kind.trim(), text.trim()))
    }

    /// The status of a recipient; what follows it (a comment) is ignored.
    #[must_use]
    pub fn status(&self) -> Option<EnhancedStatus> {
        EnhancedStatus::parse_prefix(self.get("Status")?).map(|(status, _)| status)
    }
}

/// Reads a delivery status part. Never fails: what isn't a field is skipped, bytes that aren't
/// UTF-8 are replaced.
#[must_use]
pub fn parse(body: &[u8]) -> DeliveryStatus {
    let mut groups: Vec<Group> = Vec::new();
    let mut is_new = true;
    let mut rest = body;
    while !rest.is_empty() {
        let end = if let Some(field) = header::fields(rest).next() {
            let name = String::from_utf8_lossy(field.name).into_owned();
            let value = String::from_utf8_lossy(&field.unfolded()).into_owned();
            match groups.last_mut() {
                Some(group) if !is_new => group.fields.push((name, value)),
                _ => groups.push(Group { fields: vec![(name, value)] }),
            }
            is_new = false;
            field.range.end
        } else {
            let end = memchr(b'\n', rest).map_or(rest.len(), |lf| lf + 1);
            is_new |= header::trim(&rest[..end]).is_empty();
            end
        };
        rest = &rest[end..];
    }
    let mut groups = groups.into_iter();
    DeliveryStatus { message: groups.next().unwrap_or_default(), recipients: groups.collect() }
}
