//! Tenants.

use crate::resolver::Resolver;
use crate::shaping::Rate;
use crate::source::Pool;
use crate::tenant::{OTHER_TENANTS, TENANT_NAME_MAX, Tenant, Tenants};
use crate::written::TenantText;
use std::sync::Arc;

impl Resolver<'_> {
    /// The tenants, in the order of the file.
    pub(super) fn tenants(&mut self, written: &[TenantText], pools: &[Arc<Pool>]) -> Tenants {
        let mut tenants: Vec<Arc<Tenant>> = Vec::with_capacity(written.len());
        for (index, text) in written.iter().enumerate() {
            let at = format!("tenant[{index}]");
            let before = tenants.iter().map(|tenant| (&*tenant.name, tenant.line));
            self.name_of(&at, "tenant", &text.name, TENANT_NAME_MAX, before);
            self.logins_of(&at, text, &tenants);
            let tenant = Tenant {
                name: text.name.as_str().into(),
                logins: text.logins.iter().map(|login| login.as_str().into()).collect(),
                pool: self.named_pool(&at, text.pool.as_deref(), pools),
                weight: text.weight,
                rates: self.rates_of(&at, &text.rate),
                queued_max: text.queued_max,
                unsigned: text.unsigned,
                line: self.document.line(&at).unwrap_or(0),
            };
            tenants.push(Arc::new(tenant));
        }
        Tenants(tenants)
    }

    /// A login has one tenant, and that has a name.
    fn logins_of(&mut self, at: &str, text: &TenantText, before: &[Arc<Tenant>]) {
        if text.name == OTHER_TENANTS && !text.logins.is_empty() {
            let help = "a login belongs to one tenant: add a separate section";
            self.error(&format!("{at}.logins"), "`logins` in a section of many tenants", help);
        }
        for (position, login) in text.logins.iter().enumerate() {
            let path = format!("{at}.logins[{position}]");
            self.printable(&path, login, 255);
            let other = before.iter().find(|tenant| tenant.logins.iter().any(|of| **of == **login));
            if let Some(other) = other {
                let message = format!("\"{login}\" already belongs to tenant \"{}\"", other.name);
                self.error(&path, message, &format!("on line {}", other.line));
            } else if text.logins[..position].contains(login) {
                self.error(&path, format!("\"{login}\" is listed twice"), "");
            }
        }
    }

    fn rates_of(&mut self, at: &str, written: &[String]) -> Vec<Rate> {
        let mut rates = Vec::with_capacity(written.len());
        for (position, text) in written.iter().enumerate() {
            match Rate::parse(text) {
                Ok(rate) => rates.push(rate),
                Err(help) => {
                    let path = format!("{at}.rate[{position}]");
                    self.error(&path, format!("\"{text}\" is not a rate"), help);
                }
            }
        }
        rates
    }
}
