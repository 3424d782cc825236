//! Reads a shaping file.

use super::pace::{FileLine, Pace, Set};
use super::rate::Rate;
use super::rule::ProviderRules;
use super::written::{PaceText, ProviderText, ShapingText, TogetherText};
use super::{Provider, ProviderLimits, ShapingFile};
use crate::document::Document;
use crate::patterns::DomainPattern;
use crate::problem::{ConfigErrors, Problem};
use crate::schema::json_schema;
use crate::shape::Shape;
use mail::Domain;
use mail::map::FixedMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Content of one file.
#[derive(Default)]
pub(super) struct ShapingLayer {
    pub(super) default: Pace,
    pub(super) default_rules: ProviderRules,
    pub(super) providers: Vec<Provider>,
    pub(super) domains: Vec<(Domain, Pace)>,
}

/// Reads a file.
///
/// # Errors
/// Returns all errors that can be found at once.
pub(super) fn read(file: &ShapingFile) -> Result<ShapingLayer, ConfigErrors> {
    let json = json_schema::of_file::<ShapingText>();
    let shape = Shape { json: &json, sections: None };
    let refused = |document: &Document, problems| {
        ConfigErrors::new(document.file().clone(), document.text().clone(), problems)
    };
    let (name, text) = (Arc::clone(&file.name), Arc::clone(&file.text));
    let (document, written) = match shape.read::<ShapingText>(name, text) {
        Ok(read) => read,
        Err((document, problems)) => return Err(refused(&document, problems)),
    };
    let mut reading = Reading { document: &document, problems: Vec::new() };
    let read = reading.file(&written);
    match reading.problems.is_empty() {
        true => Ok(read),
        false => Err(refused(&document, reading.problems)),
    }
}

/// A mistake in one line of a file that is right for itself.
pub(super) fn refused(file: &ShapingFile, line: u32, message: String, help: &str) -> ConfigErrors {
    let lines = file.text.split_inclusive('\n').take(line.saturating_sub(1) as usize);
    let start: usize = lines.map(str::len).sum();
    let rest = file.text.get(start..).unwrap_or_default();
    let text = rest.lines().next().unwrap_or_default();
    let start = start + (text.len() - text.trim_start().len());
    let problem = Problem {
        fatal: true,
        message,
        help: Some(help.to_owned()),
        span: start..start + text.trim().len(),
        line,
        column: 1,
    };
    ConfigErrors::new(Arc::clone(&file.name), Arc::clone(&file.text), vec![problem])
}

/// Returns true for the characters allowed in a name, which appears in logs.
pub(super) fn is_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=64).contains(&name.len()) && name.bytes().all(is_part)
}

pub(super) struct Reading<'a> {
    document: &'a Document,
    problems: Vec<Problem>,
}

impl Reading<'_> {
    fn file(&mut self, written: &ShapingText) -> ShapingLayer {
        let default = self.pace("default", &written.default.pace);
        let of_none = &written.default;
        let default_rules = self.rules("default", &of_none.backoff, &of_none.rule);
        let providers = written.provider.iter();
        let providers = providers.filter_map(|(name, text)| self.provider(name, text)).collect();
        let mut domains = Vec::new();
        for (name, text) in &written.domain {
            let at = format!("domain.{name}");
            let pace = self.pace(&at, text);
            match Domain::parse(name) {
                Ok(domain) => domains.push((domain, pace)),
                Err(error) => {
                    self.error(&at, format!("\"{name}\" is not a domain"), &error.to_string());
                }
            }
        }
        ShapingLayer { default, default_rules, providers, domains }
    }

    fn provider(&mut self, name: &str, written: &ProviderText) -> Option<Provider> {
        let at = format!("provider.{name}");
        if !is_name(name) {
            let help = "use at most 64 letters, digits, `-`, `_` and `.`";
            self.error(&at, format!("\"{name}\" is not a provider name"), help);
            return None;
        }
        Some(Provider {
            name: name.into(),
            place: self.place(&at),
            mx: self.patterns(&at, "mx", written.mx.as_deref()),
            domains: self.patterns(&at, "domains", written.domains.as_deref()),
            pace: self.pace(&at, &written.pace),
            together: self.together(&format!("{at}.together"), &written.together),
            rules: self.rules(&at, &written.backoff, &written.rule),
            sources: self.sources(&at, &written.source),
        })
    }

    fn patterns(
        &mut self,
        at: &str,
        key: &str,
        written: Option<&[String]>,
    ) -> Option<Vec<(DomainPattern, FileLine)>> {
        let mut patterns = Vec::new();
        for (index, text) in written?.iter().enumerate() {
            let at = format!("{at}.{key}[{index}]");
            if matches!(text.as_str(), "*" | "*." | "." | "**" | "*.*") {
                let help = "put limits for all domains into [default]";
                self.error(&at, format!("\"{text}\" matches everything"), help);
                continue;
            }
            match DomainPattern::parse(text) {
                Ok(pattern) => patterns.push((pattern, self.place(&at))),
                Err(error) => self.error(&at, format!("\"{text}\" is not a name"), &error),
            }
        }
        Some(patterns)
    }

    fn sources(
        &mut self,
        at: &str,
        written: &BTreeMap<String, PaceText>,
    ) -> BTreeMap<Box<str>, (FileLine, Pace)> {
        let each = |(name, text): (&String, &PaceText)| {
            let at = format!("{at}.source.{name}");
            (name.as_str().into(), (self.place(&at), self.pace(&at, text)))
        };
        written.iter().map(each).collect()
    }

    pub(super) fn together(&mut self, at: &str, written: &TogetherText) -> ProviderLimits {
        ProviderLimits {
            max_connections: self.set(at, "max_connections", written.max_connections),
            rates: self.rates(at, written.rate.as_deref()),
        }
    }

    pub(super) fn pace(&mut self, at: &str, written: &PaceText) -> Pace {
        Pace {
            max_connections: self.set(at, "max_connections", written.max_connections),
            max_opens: self.set(at, "max_opens", written.max_opens),
            messages_per_connection: self.set(
                at,
                "messages_per_connection",
                written.messages_per_connection,
            ),
            recipients_per_message: self.set(
                at,
                "recipients_per_message",
                written.recipients_per_message,
            ),
            adaptive: self.set(at, "adaptive", written.adaptive),
            rates: self.rates(at, written.rate.as_deref()),
        }
    }

    fn rates(&mut self, at: &str, written: Option<&[String]>) -> Option<Set<Vec<Rate>>> {
        let mut rates = Vec::new();
        if written?.is_empty() {
            let help = "leave the key out, or set a rate that is never reached";
            self.error(&format!("{at}.rate"), "an empty list of rates".to_owned(), help);
        }
        for (index, text) in written?.iter().enumerate() {
            match Rate::parse(text) {
                Ok(rate) => rates.push(rate),
                Err(reason) => {
                    let at = format!("{at}.rate[{index}]");
                    self.error(&at, format!("\"{text}\" is not a rate"), reason);
                }
            }
        }
        self.set(at, "rate", Some(rates))
    }

    fn set<T>(&self, at: &str, key: &str, value: Option<T>) -> Option<Set<T>> {
        Some(Set { value: value?, place: self.place(&format!("{at}.{key}")) })
    }

    pub(super) fn place(&self, path: &str) -> FileLine {
        FileLine {
            file: Arc::clone(self.document.file()),
            line: self.document.line(path).unwrap_or(1),
        }
    }

    pub(super) fn error(&mut self, path: &str, message: String, help: &str) {
        self.problems.push(self.document.problem(path, true, message, help));
    }
}

/// A name that is two providers'.
#[derive(Debug)]
pub(super) struct Conflict<'a> {
    pub(super) providers: (&'a str, &'a str),
    pub(super) places: (&'a FileLine, &'a FileLine),
}

type Names<'a> = (&'a str, Option<&'a [(DomainPattern, FileLine)]>);

/// The first name that two of these providers have.
pub(super) fn conflict<'a>(
    providers: impl Iterator<Item = Names<'a>> + Clone,
) -> Option<Conflict<'a>> {
    let names = || {
        let of_one = |(provider, names): Names<'a>| {
            names.into_iter().flatten().map(move |(pattern, place)| (provider, pattern, place))
        };
        providers.clone().flat_map(of_one)
    };
    let mut owners: FixedMap<String, (&str, &FileLine)> = FixedMap::default();
    for (provider, pattern, place) in names() {
        let before = owners.insert(pattern.to_string(), (provider, place));
        if let Some((other, there)) = before.filter(|(other, _)| *other != provider) {
            return Some(Conflict { providers: (other, provider), places: (there, place) });
        }
    }
    names().find_map(|(provider, pattern, place)| {
        let text = pattern.to_string();
        let mut rest = text.strip_prefix("*.").unwrap_or(&text);
        while let Some((_, parent)) = rest.split_once('.') {
            let owner = owners.get(&format!("*.{parent}"));
            if let Some((other, there)) = owner.filter(|(other, _)| *other != provider) {
                return Some(Conflict { providers: (other, provider), places: (there, place) });
            }
            rest = parent;
        }
        None
    })
}
