//! Reads `when`.

use crate::conditions::{Condition, ConditionSubject, ConditionValues, Conditions};
use crate::patterns::AddressPattern;
use crate::reader::Reader;
use crate::written::{WhenList, WhenText};
use std::sync::Arc;

/// Maximum length of the name of a user in octets, as for logins of tenants.
const LOGIN_BYTES_MAX: usize = 255;

impl Reader<'_, '_> {
    /// The conditions in the table that this reader is for; `None` after an error, which was reported. The tables,
    /// listeners and tenants of the file must have been read.
    pub fn conditions(&mut self, text: &WhenText) -> Option<Arc<Conditions>> {
        let WhenText { senders, recipients, logins, clients, listeners, tenants } = text;
        let each = [
            (ConditionSubject::Sender, senders),
            (ConditionSubject::Recipient, recipients),
            (ConditionSubject::Login, logins),
            (ConditionSubject::Client, clients),
            (ConditionSubject::Listener, listeners),
            (ConditionSubject::Tenant, tenants),
        ];
        let written = each.into_iter().filter_map(|(about, list)| Some((about, list.as_ref()?)));
        let (mut all, mut is_whole) = (Vec::new(), true);
        for (about, list) in written {
            match self.values(about, list) {
                Some(values) => all.push(Condition { about, values }),
                None => is_whole = false,
            }
        }
        if all.is_empty() && is_whole {
            self.error("", "`when` is empty", "name a condition, or leave `when` out");
        }
        Conditions::of(all).filter(|_| is_whole).map(Arc::new)
    }

    fn values(&mut self, about: ConditionSubject, list: &WhenList) -> Option<ConditionValues> {
        let key = about.key();
        let list = match list {
            WhenList::Table(reference) => {
                return self
                    .table(&format!("{key}.table"), &reference.table)
                    .map(ConditionValues::Table);
            }
            WhenList::List(list) => list,
        };
        if list.is_empty() {
            let help = format!("name some values, or leave `{key}` out");
            self.error(key, format!("`{key}` is empty, so the condition never holds"), &help);
            return None;
        }
        self.refuse_repeated(key, list);
        match about {
            ConditionSubject::Sender | ConditionSubject::Recipient => {
                return self.addresses(about, list);
            }
            ConditionSubject::Client => {
                return Some(ConditionValues::Networks(self.networks(key, list)));
            }
            ConditionSubject::Listener => self.check_listeners(key, list),
            // Without configured tenants a tenant is only a label.
            ConditionSubject::Tenant if !self.resolver.tenant_names.is_empty() => {
                self.check_tenants(key, list)
            }
            ConditionSubject::Tenant => {}
            ConditionSubject::Login => {
                for (index, login) in list.iter().enumerate() {
                    self.printable(&format!("{key}[{index}]"), login, LOGIN_BYTES_MAX);
                }
            }
        }
        Some(ConditionValues::Names(list.iter().map(|name| name.as_str().into()).collect()))
    }

    fn refuse_repeated(&mut self, key: &str, list: &[String]) {
        for (index, text) in list.iter().enumerate() {
            if list[..index].contains(text) {
                self.error(&format!("{key}[{index}]"), format!("\"{text}\" is listed twice"), "");
            }
        }
    }

    fn addresses(&mut self, about: ConditionSubject, list: &[String]) -> Option<ConditionValues> {
        let (mut null, mut patterns) = (false, Vec::with_capacity(list.len()));
        for (index, text) in list.iter().enumerate() {
            let at = format!("{}[{index}]", about.key());
            match (about, text.as_str()) {
                (ConditionSubject::Sender, "<>") => null = true,
                (_, "<>") => self.error(&at, "\"<>\" is not a recipient", "leave it out"),
                (_, text) => match AddressPattern::parse(text) {
                    Some(pattern) => patterns.push(pattern),
                    None => {
                        let message = format!("\"{text}\" is neither an address nor a domain");
                        let help = "write, for example, \"me@example.org\", \"@example.org\" or \
                                    \"@*.example.org\"";
                        self.error(&at, message, help);
                    }
                },
            }
        }
        Some(ConditionValues::Addresses { null, patterns })
    }
}
