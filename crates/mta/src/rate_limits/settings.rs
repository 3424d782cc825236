//! `[[limit]]`: limits of accepted mail, for each login, sender, sender's domain or listener.

use config::shaping::Rate;
use config::{
    AddressPatterns, Area, ConditionScope, ConditionSubject, ConditionTime, Conditions, Config,
    KeyTable, Listener, Reader, Rest, Section, Tenants, WhenText, names_login,
};
use mail::{Domain, Mailbox};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// Limits of logins without a `[[limit]]` and a `[[tenant]]`, on listeners with `kind = "submission"`.
const DEFAULT_MESSAGES: &str = "200/h";
const DEFAULT_RECIPIENTS: [&str; 2] = ["1_000/d", "300/h"];

/// The value of `messages` and `recipients` that removes a limit.
const UNLIMITED: &str = "unlimited";
/// The kind of listeners that the default is for.
const SUBMISSION: &str = "submission";
/// Treatment of messages, for errors.
const LIMITED: &str = "limited";
/// Maximum number of sections.
const LIMITS_MAX: usize = 1_000;

/// A limit of accepted mail in any minute, hour or day. A value obeys the section that names it, or else the one
/// without `names`. Default: logins at listeners with `kind = "submission"` have `messages = "200/h"` and
/// `recipients = ["1_000/d", "300/h"]`, unless a `[[tenant]]` or a `[[limit]]` names them.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LimitText {
    /// The property of a message by which it is counted: `login` (the user's one name, see `docs/submission.md`),
    /// `sender` (the envelope sender without its tag), `sender_domain` or `listener`. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<LimitBy>,
    /// The logins, senders, domains or listeners to which this section applies. Default: all that no other section with
    /// the same `by` names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("items" = { "type": "string", "title": "name" }))]
    pub names: Vec<String>,
    /// Listeners, by name, to which this section applies. Default: all listeners for internet mail.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub listeners: Vec<String>,
    /// Further conditions of a message, as in `[[route]]`, without `recipients`. The tenant is that of the login. Of several sections that could apply to
    /// a value, those with `names` go first, then those with `when`; the first one in the file applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<WhenText>,
    /// Maximum number of accepted messages, `"200/h"`, or several rates with different periods (`m`, `h`, `d`). They
    /// need not be spread. `"unlimited"` or no value: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<RatesText>,
    /// The same for their recipients, as given in RCPT.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recipients: Option<RatesText>,
    /// Handling of mail beyond the limit: `defer` (450 4.7.1 to MAIL or RCPT) or `hold` (accept, and hold the message
    /// for an operator).
    pub over: Over,
}

/// One rate or several.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum RatesText {
    One(String),
    Several(Vec<String>),
}

impl RatesText {
    /// Each text with its path below the section.
    fn texts(&self, key: &str) -> Vec<(String, &str)> {
        match self {
            RatesText::One(text) => vec![(key.to_owned(), text)],
            RatesText::Several(texts) => {
                let all = texts.iter().enumerate();
                all.map(|(index, text)| (format!("{key}[{index}]"), text.as_str())).collect()
            }
        }
    }
}

/// The property of a message by which it is counted.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum LimitBy {
    /// The canonical name of the authenticated user.
    Login,
    /// The envelope sender.
    Sender,
    /// The domain of the envelope sender.
    SenderDomain,
    /// The listener.
    Listener,
}

impl LimitBy {
    pub const ALL: [LimitBy; 4] =
        [LimitBy::Login, LimitBy::Sender, LimitBy::SenderDomain, LimitBy::Listener];

    /// As in the file.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            LimitBy::Login => "login",
            LimitBy::Sender => "sender",
            LimitBy::SenderDomain => "sender_domain",
            LimitBy::Listener => "listener",
        }
    }

    /// For people: "sender domain".
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            LimitBy::SenderDomain => "sender domain",
            other => other.as_str(),
        }
    }
}

/// Handling of mail beyond a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// 450 4.7.1.
    #[default]
    Defer,
    /// Accepted, and held for an operator.
    Hold,
}

impl Over {
    /// As in the file.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Over::Defer => "defer",
            Over::Hold => "hold",
        }
    }
}

/// The counted unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    Messages,
    Recipients,
}

impl Unit {
    /// As in the file.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Unit::Messages => "messages",
            Unit::Recipients => "recipients",
        }
    }
}

/// A number in a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Maximum {
    pub unit: Unit,
    pub rate: Rate,
}

/// `200/h messages`.
impl fmt::Display for Maximum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.rate, self.unit.as_str())
    }
}

/// A `[[limit]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimit {
    pub by: LimitBy,
    /// Empty: all that no other section names.
    names: Vec<Box<str>>,
    /// Empty: all.
    listeners: Vec<String>,
    /// `None`: all mail.
    pub when: Option<Arc<Conditions>>,
    /// All apply. Empty: unlimited.
    pub maxima: Vec<Maximum>,
    pub over: Over,
    /// The built-in limit of logins.
    pub is_default: bool,
}

impl RateLimit {
    /// The built-in limit of logins at submission.
    fn of_logins() -> RateLimit {
        let max = |unit| move |text: &str| Some(Maximum { unit, rate: Rate::parse(text).ok()? });
        let messages = [DEFAULT_MESSAGES].into_iter().filter_map(max(Unit::Messages));
        let recipients = DEFAULT_RECIPIENTS.into_iter().filter_map(max(Unit::Recipients));
        RateLimit {
            by: LimitBy::Login,
            names: Vec::new(),
            listeners: Vec::new(),
            when: None,
            maxima: messages.chain(recipients).collect(),
            over: Over::Defer,
            is_default: true,
        }
    }

    /// Returns true if it may apply to mail of this listener.
    #[must_use]
    pub fn is_at(&self, listener: &Listener) -> bool {
        let is_named = self.listeners.iter().any(|name| **name == *listener.name);
        listener.takes_internet_mail()
            && (self.listeners.is_empty() || is_named)
            && (!self.is_default || *listener.kind == *SUBMISSION)
    }

    /// Returns true if it applies to some values only.
    #[must_use]
    pub fn has_names(&self) -> bool {
        !self.names.is_empty()
    }

    /// Returns true if it applies to all values and all mail.
    fn is_for_all(&self) -> bool {
        !self.has_names() && self.when.is_none()
    }

    /// Returns true if it names this value. Case is ignored.
    #[must_use]
    pub fn is_for(&self, value: &str) -> bool {
        names_login(&self.names, value)
    }

    /// Returns true if it has no effect on this value although no section names it: the default does not apply to
    /// logins of tenants, which have their own limits.
    #[must_use]
    pub fn spares(&self, value: &str, tenants: &Tenants) -> bool {
        self.is_default && tenants.iter().any(|tenant| names_login(&tenant.logins, value))
    }

    /// Returns true if it applies first to all mail of a later limit with conditions.
    fn takes_all_of(&self, later: &RateLimit) -> bool {
        let (Some(own), Some(when)) = (&self.when, &later.when) else { return false };
        let has = |name: &String| self.listeners.contains(name);
        self.has_names() == later.has_names()
            && later.names.iter().all(|name| self.is_for(name))
            && (self.listeners.is_empty()
                || !later.listeners.is_empty() && later.listeners.iter().all(has))
            && own.covers(when)
    }

    fn meets(&self, other: &RateLimit) -> bool {
        let shared = |name: &String| other.listeners.contains(name);
        self.listeners.is_empty() || other.listeners.is_empty() || self.listeners.iter().any(shared)
    }
}

/// All sections, those with names first, the default last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimits(pub Vec<Arc<RateLimit>>);

impl Section for RateLimits {
    const KEY: &'static str = "limit";
    const SUMMARY: &'static str = "Limits of accepted mail by login, sender or listener.";
    const AREA: Area = Area::Intake;
    const IN_FORCE_BY: &'static str = "shards";
    type Text = Vec<LimitText>;
    type Value = RateLimits;

    fn read(text: Vec<LimitText>, reader: &mut Reader<'_, '_>) -> Option<RateLimits> {
        if text.len() > LIMITS_MAX {
            reader.error("", format!("more than {LIMITS_MAX} limits"), "use fewer sections");
            return None;
        }
        let mut limits: Vec<(u32, RateLimit)> = Vec::new();
        for (index, text) in text.iter().enumerate() {
            let mut reader = reader.elsewhere(&format!("{}[{index}]", RateLimits::KEY));
            let Some(limit) = read_one(text, &mut reader) else { continue };
            check_overlap(&limit, &limits, &mut reader);
            limits.push((reader.line(""), limit));
        }
        let mut limits: Vec<RateLimit> = limits.into_iter().map(|(_, limit)| limit).collect();
        limits.sort_by_key(|limit| (!limit.has_names(), limit.when.is_none()));
        limits.push(RateLimit::of_logins());
        Some(RateLimits(limits.into_iter().map(Arc::new).collect()))
    }

    /// Reports the default where it is in force.
    fn review(value: Option<&RateLimits>, rest: &Rest<'_>, reader: &mut Reader<'_, '_>) {
        let Some(RateLimits(limits)) = value else { return };
        let Some(default) = limits.iter().find(|limit| limit.is_default) else { return };
        let has_default = |listener: &&Listener| {
            let is_replaced = |limit: &Arc<RateLimit>| {
                limit.by == LimitBy::Login && limit.is_for_all() && limit.is_at(listener)
            };
            default.is_at(listener) && !limits.iter().any(|l| !l.is_default && is_replaced(l))
        };
        let Some(listener) = rest.listeners.iter().find(has_default) else { return };
        let [messages, recipients @ ..] = &default.maxima[..] else { return };
        let recipients: Vec<String> = recipients.iter().map(|max| max.rate.to_string()).collect();
        let message = format!(
            "each login of listener \"{}\" is limited to {messages} and {} recipients by default",
            listener.name,
            recipients.join(" and ")
        );
        let help = "set limits of your own: [[limit]] by = \"login\" with messages = \"500/h\", or \
                    \"unlimited\"";
        let index = rest.listeners.iter().position(|other| other.name == listener.name);
        let path = format!("listener[{}]", index.unwrap_or(0));
        reader.elsewhere(&path).warn("", message, help);
    }

    fn page() -> Vec<KeyTable> {
        vec![KeyTable::of::<LimitText>(RateLimits::KEY, "[[limit]]")]
    }
}

/// Returns true if a listener has a limit.
#[must_use]
pub fn is_any(config: &Config) -> bool {
    let all = config.of::<RateLimits>().map_or(&[][..], |RateLimits(limits)| limits);
    let limits = || all.iter().filter(|limit| !limit.maxima.is_empty());
    config.listeners.iter().any(|listener| limits().any(|limit| limit.is_at(listener)))
}

fn read_one(text: &LimitText, reader: &mut Reader<'_, '_>) -> Option<RateLimit> {
    let Some(by) = text.by else {
        let help = "write by = \"login\", or \"sender\", \"sender_domain\", \"listener\"";
        reader.error("", "a limit without `by`", help);
        return None;
    };
    if text.messages.is_none() && text.recipients.is_none() {
        let help = "for example messages = \"200/h\", or messages = \"unlimited\"";
        reader.error("", "a limit without `messages` and `recipients`", help);
    }
    reader.check_listeners("listeners", &text.listeners);
    if !text.listeners.is_empty() {
        reader.refuse_foreign("listeners", &text.listeners, LIMITED);
    }
    for (index, name) in text.names.iter().enumerate() {
        reader.printable(&format!("names[{index}]"), name, NAME_BYTES_MAX);
    }
    check_names(by, &text.names, reader);
    let when = match &text.when {
        Some(when) => {
            let scope = scope_of(by, text, reader);
            Some(reader.table_at("when").conditions(when, scope)?)
        }
        None => None,
    };
    let mut maxima = maxima("messages", Unit::Messages, text.messages.as_ref(), reader);
    let recipients = self::maxima("recipients", Unit::Recipients, text.recipients.as_ref(), reader);
    check_units(&maxima, &recipients, reader);
    maxima.extend(recipients);
    Some(RateLimit {
        by,
        names: text.names.iter().map(|name| name.as_str().into()).collect(),
        listeners: text.listeners.clone(),
        when,
        maxima,
        over: text.over,
        is_default: false,
    })
}

/// Names must be values that are counted.
fn check_names(by: LimitBy, names: &[String], reader: &mut Reader<'_, '_>) {
    if by == LimitBy::Listener && !names.is_empty() {
        reader.check_listeners("names", names);
        reader.refuse_foreign("names", names, LIMITED);
    }
    for (index, name) in names.iter().enumerate() {
        let mistake = match by {
            LimitBy::Login | LimitBy::Listener => None,
            LimitBy::Sender => match Mailbox::parse(name, true) {
                Ok(address) if !address.has_domain() => Some(NOT_AN_ADDRESS),
                Ok(address) if reader.tag_delimiters().split(address.local()).is_some() => {
                    Some(("has a tag, without which senders are counted", "leave the tag out"))
                }
                Ok(_) => None,
                Err(_) => Some(NOT_AN_ADDRESS),
            },
            LimitBy::SenderDomain => Domain::parse(name).err().map(|_| {
                ("is not a domain", "write a domain without `@`, for example \"example.org\"")
            }),
        };
        if let Some((why, help)) = mistake {
            reader.error(&format!("names[{index}]"), format!("\"{name}\" {why}"), help);
        }
    }
}

const NOT_AN_ADDRESS: (&str, &str) =
    ("is not an address", "write, for example, \"news@example.org\"");

/// The messages to which a section applies by its other keys.
fn scope_of(by: LimitBy, text: &LimitText, reader: &Reader<'_, '_>) -> ConditionScope {
    let scope = ConditionScope::new(ConditionTime::Mail).internet_only(LIMITED).names(
        "listeners",
        ConditionSubject::Listener,
        &text.listeners,
    );
    match by {
        LimitBy::Login => scope.names("names", ConditionSubject::Login, &text.names),
        LimitBy::Listener => scope.names("names", ConditionSubject::Listener, &text.names),
        LimitBy::Sender | LimitBy::SenderDomain => {
            let known = AddressPatterns::known(&text.names, reader.tag_delimiters());
            scope.senders("names", &known)
        }
    }
}

/// Maximum length of a name, as of a user's name (RFC 4616 §2).
const NAME_BYTES_MAX: usize = 255;

/// The rates of one key.
fn maxima(
    key: &str,
    unit: Unit,
    text: Option<&RatesText>,
    reader: &mut Reader<'_, '_>,
) -> Vec<Maximum> {
    let mut read: Vec<Maximum> = Vec::new();
    let texts = text.map_or_else(Vec::new, |text| text.texts(key));
    if matches!(text, Some(RatesText::Several(all)) if all.is_empty()) {
        reader.error(key, format!("`{key}` is empty"), "write a rate, or \"unlimited\"");
    }
    for (path, text) in &texts {
        if *text == UNLIMITED {
            if texts.len() > 1 {
                reader.error(path, "\"unlimited\" beside a rate", "write one or the other");
            }
            continue;
        }
        let rate = match Rate::parse(text) {
            Ok(rate) if rate.period_s() >= 60 => rate,
            Ok(_) => {
                let help = "a limit is per minute, hour or day: m, h, d";
                reader.error(path, format!("\"{text}\" is a rate per second"), help);
                continue;
            }
            Err(help) => {
                let help = if text.starts_with("0/") { STOP } else { help };
                reader.error(path, format!("\"{text}\" is not a rate"), help);
                continue;
            }
        };
        match read.iter().find(|other| contradict(other.rate, rate)) {
            Some(other) => {
                let message = format!("\"{text}\" contradicts \"{}\"", other.rate);
                let help = "a longer period must have a larger number, and each period one";
                reader.error(path, message, help);
            }
            None => read.push(Maximum { unit, rate }),
        }
    }
    read
}

const STOP: &str = "to stop a login use `postrider login revoke`";

/// Returns true if only one of two rates can ever be reached.
fn contradict(one: Rate, other: Rate) -> bool {
    let (short, long) =
        if one.period_s() <= other.period_s() { (one, other) } else { (other, one) };
    short.period_s() == long.period_s() || short.count() >= long.count()
}

/// Each message has a recipient, so a smaller number of recipients makes that of messages ineffective.
fn check_units(messages: &[Maximum], recipients: &[Maximum], reader: &mut Reader<'_, '_>) {
    for message in messages {
        let is_less = |other: &&Maximum| {
            other.rate.period_s() == message.rate.period_s()
                && other.rate.count() < message.rate.count()
        };
        if let Some(less) = recipients.iter().find(is_less) {
            let text = format!("{message} can't be reached with {less}");
            let help = "each message has a recipient: lower the one or raise the other";
            reader.error("messages", text, help);
        }
    }
}

/// Two sections must not apply to the same value, and none only to mail of an earlier one.
fn check_overlap(limit: &RateLimit, before: &[(u32, RateLimit)], reader: &mut Reader<'_, '_>) {
    for (line, other) in before.iter().filter(|(_, other)| other.by == limit.by) {
        if other.takes_all_of(limit) {
            let message = format!("the limit on line {line} applies to all mail of this one");
            return reader.error("when", message, "move the section before that one");
        }
        // With conditions, the order in the file decides.
        if !limit.meets(other) || limit.when.is_some() || other.when.is_some() {
            continue;
        }
        let (by, help) = (limit.by.words(), "join the sections, or give them different listeners");
        if !limit.has_names() && !other.has_names() {
            let message = format!("each {by} has a limit on line {line} already");
            return reader.error("by", message, help);
        }
        let twice = limit.names.iter().position(|name| other.is_for(name));
        if let Some(index) = twice {
            let name = &limit.names[index];
            let message = format!("{by} \"{name}\" has a limit on line {line} already");
            return reader.error(&format!("names[{index}]"), message, help);
        }
    }
}
