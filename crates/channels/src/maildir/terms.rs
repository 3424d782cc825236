//! Owner of a mailbox's files, and its quota. Both are set by the route for all recipients, or by each recipient's
//! table entry.

use super::settings::MaildirText;
use crate::values::{self, Setting, ValueError, ValueNames};
use config::quantity::{SizeText, parse_size, write_size};
use config::{Explainer, Reader, Values};
use mta::seams::{Keeping, SystemAccount};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;

/// Linux's LOGIN_NAME_MAX; user numbers are shorter.
const NAME_BYTES_MAX: usize = 256;

/// A size, or `"{name}"` for a value of the recipient's entry.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(transparent)]
pub(super) struct QuotaText(SizeText);

impl JsonSchema for QuotaText {
    fn schema_name() -> Cow<'static, str> {
        "Quota".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let size = SizeText::json_schema(generator);
        json_schema!({
            "title": "size",
            "description": "A size, or the name of a value of the recipient's entry in braces.",
            "anyOf": [size, { "type": "string", "pattern": "^\\{.+\\}$" }],
        })
    }
}

/// The terms of a route.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct MailboxTerms {
    user: Option<Setting<String>>,
    group: Option<Setting<String>>,
    quota_bytes: Option<Setting<u64>>,
    /// The fixed settings of the route.
    keeping: Arc<Keeping>,
}

impl MailboxTerms {
    /// Terms with a quota only.
    pub(super) fn with_quota(quota_bytes: u64) -> MailboxTerms {
        MailboxTerms { quota_bytes: Some(Setting::Fixed(quota_bytes)), ..MailboxTerms::default() }
    }

    /// Reads the terms and reports errors.
    pub(super) fn read(
        text: &MaildirText,
        names: &ValueNames<'_>,
        reader: &mut Reader<'_, '_>,
    ) -> MailboxTerms {
        let mode = mode_of(&text.mode).unwrap_or_else(|why| {
            reader.error("mode", format!("\"{}\" is not a file mode for mail", text.mode), why);
            0
        });
        let user = account(reader, names, "user", text.user.as_deref());
        let group = account(reader, names, "group", text.group.as_deref());
        let fixed = |setting: &Option<Setting<String>>| {
            let name = setting.as_ref().and_then(Setting::fixed).cloned();
            name.map(|name| SystemAccount { name, by_table: false })
        };
        let keeping = Arc::new(Keeping { user: fixed(&user), group: fixed(&group), mode });
        let quota_bytes = text.quota.as_ref().and_then(|text| quota(reader, names, text));
        MailboxTerms { user, group, quota_bytes, keeping }
    }

    /// Returns true if a term refers to a value of the recipient's entry.
    pub(super) fn have_values(&self) -> bool {
        self.names_a_user() || self.quota_bytes.as_ref().is_some_and(|it| it.value().is_some())
    }

    /// Returns true if the user or group is taken from recipients' entries.
    fn names_a_user(&self) -> bool {
        [&self.user, &self.group].into_iter().flatten().any(|account| account.value().is_some())
    }

    /// The route's fixed user and group, and the key, as written, that refers to a value of recipients' entries.
    pub(crate) fn keeping(&self) -> (&Keeping, Option<String>) {
        let keys = [("user", &self.user), ("group", &self.group)].into_iter();
        let named = |(key, setting): (_, &Option<Setting<String>>)| {
            let name = setting.as_ref()?.value()?;
            Some(format!("{key} = \"{{{name}}}\""))
        };
        (&self.keeping, { keys }.find_map(named))
    }

    /// User and group of a mailbox's files.
    ///
    /// # Errors
    /// A value is missing, or can't be the name of a user or group.
    pub(super) fn keeping_of(&self, values: Values<'_, '_>) -> Result<Arc<Keeping>, ValueError> {
        if !self.names_a_user() {
            return Ok(Arc::clone(&self.keeping));
        }
        let account =
            |setting: &Option<Setting<String>>, fixed: &Option<SystemAccount>| match setting
                .as_ref()
                .and_then(Setting::value)
            {
                Some(name) => account_of(name, values).map(Some),
                None => Ok(fixed.clone()),
            };
        Ok(Arc::new(Keeping {
            user: account(&self.user, &self.keeping.user)?,
            group: account(&self.group, &self.keeping.group)?,
            mode: self.keeping.mode,
        }))
    }

    /// Quota of a mailbox in octets. An entry without the value, or with 0, sets none, as directory servers have it.
    ///
    /// # Errors
    /// The value is not a size.
    pub(super) fn quota_bytes_of(&self, values: Values<'_, '_>) -> Result<Option<u64>, ValueError> {
        let name = match &self.quota_bytes {
            None => return Ok(None),
            Some(Setting::Fixed(bytes)) => return Ok(Some(*bytes)),
            Some(Setting::Value(name)) => name,
        };
        match values::one(values, name) {
            Ok(text) => match parse_size(text) {
                Ok(bytes) => Ok(Some(bytes).filter(|bytes| *bytes > 0)),
                Err(why) => Err(ValueError::bad(name, format!("is not a size: {why}"))),
            },
            Err(ValueError::Missing(_)) => Ok(None),
            Err(bad) => Err(bad),
        }
    }

    /// Returns true if some recipients, at least, have a quota.
    pub(super) fn have_quota(&self) -> bool {
        self.quota_bytes.is_some()
    }

    /// Shows the terms. `values` are from the recipient's entry, if it was looked up.
    pub(super) fn explain(&self, values: Option<Values<'_, '_>>, explainer: &mut Explainer<'_>) {
        let quota = match (&self.quota_bytes, values) {
            (None, _) => None,
            (Some(Setting::Value(name)), None) => Some(unknown(name)),
            (Some(Setting::Fixed(_)), None) => {
                self.quota_bytes_of(&|_| &[]).ok().flatten().map(write_size)
            }
            (Some(_), Some(values)) => Some(match self.quota_bytes_of(values) {
                Ok(bytes) => bytes.map_or_else(|| "none".to_owned(), write_size),
                Err(error) => error.to_string(),
            }),
        };
        if let Some(quota) = quota {
            explainer.own_key("quota", quota);
        }
        for (key, setting) in [("user", &self.user), ("group", &self.group)] {
            let shown = match setting {
                None => continue,
                Some(Setting::Fixed(name)) => name.clone(),
                Some(Setting::Value(name)) => match values.map(|values| account_of(name, values)) {
                    None => unknown(name),
                    Some(Ok(account)) => account.name,
                    Some(Err(error)) => error.to_string(),
                },
            };
            explainer.own_key(key, shown);
        }
    }
}

fn unknown(name: &str) -> String {
    format!("`{name}` of the recipient's entry")
}

fn account(
    reader: &mut Reader<'_, '_>,
    names: &ValueNames<'_>,
    key: &str,
    text: Option<&str>,
) -> Option<Setting<String>> {
    let text = text?;
    match values::named(text, names) {
        Some(Ok(name)) => return Some(Setting::Value(name.into())),
        Some(Err(help)) => {
            reader.error(key, format!("unknown placeholder `{text}`"), &help);
            return None;
        }
        None => {}
    }
    if text.is_empty() || text.contains('\0') {
        reader.error(key, "not a name", "");
    }
    Some(Setting::Fixed(text.to_owned()))
}

/// The user or group named by an entry.
fn account_of(name: &str, values: Values<'_, '_>) -> Result<SystemAccount, ValueError> {
    let text = values::one(values, name)?;
    let is_name = |text: &str| text.bytes().all(|c| c.is_ascii_graphic());
    if text.is_empty() || text.len() > NAME_BYTES_MAX || !is_name(text) {
        return Err(ValueError::bad(name, "names no user"));
    }
    if text.parse() == Ok(0_u32) {
        return Err(ValueError::bad(name, "is root's"));
    }
    Ok(SystemAccount { name: text.to_owned(), by_table: true })
}

fn quota(
    reader: &mut Reader<'_, '_>,
    names: &ValueNames<'_>,
    QuotaText(text): &QuotaText,
) -> Option<Setting<u64>> {
    if let SizeText::Text(text) = text
        && let Some(named) = values::named(text, names)
    {
        return match named {
            Ok(name) => Some(Setting::Value(name.into())),
            Err(help) => {
                reader.error("quota", format!("unknown placeholder `{text}`"), &help);
                None
            }
        };
    }
    let says_nothing = match text {
        SizeText::Bytes(bytes) => *bytes == 0,
        SizeText::Text(text) => parse_size(text) == Ok(0),
    };
    if says_nothing {
        reader.error("quota", "a quota of 0 fits no message", "leave `quota` out for no limit");
    }
    Some(Setting::Fixed(reader.size("quota", text)))
}

/// Parses a file mode: readable and writable for the user, not executable, not writable for all.
fn mode_of(text: &str) -> Result<u32, &'static str> {
    let is_octal = (3..=4).contains(&text.len()) && text.bytes().all(|c| matches!(c, b'0'..=b'7'));
    match u32::from_str_radix(text, 8) {
        Ok(mode) if is_octal && mode & !0o664 == 0 && mode & 0o600 == 0o600 => Ok(mode),
        _ => Err("use octal digits, for example \"0600\", \"0640\", \"0660\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boxed(values: &[&str]) -> Vec<Box<str>> {
        values.iter().map(|value| Box::from(*value)).collect()
    }

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
    fn an_entry_says_how_much_a_mailbox_may_have_or_nothing() {
        let terms = MailboxTerms {
            quota_bytes: Some(Setting::Value("quota".into())),
            ..MailboxTerms::default()
        };
        let quota = |values: &[&str]| {
            let values = boxed(values);
            let values: &[Box<str>] = &values;
            terms.quota_bytes_of(&|_| values).map_err(|error| error.to_string())
        };
        assert_eq!(quota(&["5MiB"]), Ok(Some(5 << 20)));
        assert_eq!(quota(&["1000"]), Ok(Some(1_000)));
        assert_eq!(quota(&["0"]), Ok(None));
        assert_eq!(quota(&[]), Ok(None));
        for (values, told) in [
            (&["much"][..], "is not a size"),
            (&["-1"], "not a size"),
            (&[""], "not a size"),
            (&["1", "2"], "has 2 values"),
        ] {
            let error = quota(values).unwrap_err();
            assert!(error.contains(told), "{values:?}: {error}");
        }
    }

    #[test]
    fn an_entry_names_a_user_and_never_root() {
        let terms = MailboxTerms {
            user: Some(Setting::Value("uid".into())),
            group: Some(Setting::Fixed("mail".to_owned())),
            keeping: Arc::new(Keeping {
                user: None,
                group: Some(SystemAccount { name: "mail".to_owned(), by_table: false }),
                mode: 0o640,
            }),
            ..MailboxTerms::default()
        };
        let keeping = |values: &[&str]| {
            let values = boxed(values);
            let values: &[Box<str>] = &values;
            terms.keeping_of(&|_| values).map_err(|error| error.to_string())
        };
        let kept = keeping(&["5000"]).unwrap();
        assert_eq!(kept.user, Some(SystemAccount { name: "5000".to_owned(), by_table: true }));
        assert_eq!((&kept.group, kept.mode), (&terms.keeping.group, 0o640));
        assert!(keeping(&["x".repeat(NAME_BYTES_MAX).as_str()]).is_ok());
        for (values, told) in [
            (&["0"][..], "`uid` of the recipient's entry is root's"),
            (&["00"], "is root's"),
            (&[], "has no `uid`"),
            (&["1", "2"], "has 2 values"),
            (&[""], "names no user"),
            (&["a b"], "names no user"),
            (&["a\0b"], "names no user"),
            (&["a\u{1b}[2J"], "names no user"),
            (&[&*"x".repeat(NAME_BYTES_MAX + 1)], "names no user"),
        ] {
            let error = keeping(values).unwrap_err();
            assert!(error.contains(told), "{values:?}: {error}");
        }
    }
}
