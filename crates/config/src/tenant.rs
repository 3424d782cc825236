//! Tenants: owners of mail on a shared server.

use crate::shaping::Rate;
use crate::source::Pool;
use crate::written::Unsigned;
use std::fmt;
use std::sync::Arc;

/// The name for every unlisted tenant.
pub const OTHER_TENANTS: &str = "*";

/// Tenants' names are this long at most, in octets.
pub const TENANT_NAME_MAX: usize = 64;

/// `[[tenant]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// Unique; [`OTHER_TENANTS`]: each unlisted tenant, with its own limits.
    pub name: Arc<str>,
    /// Users with mail that always belongs to it.
    pub logins: Vec<Box<str>>,
    /// Pool of sources; `None`: the route's.
    pub pool: Option<Arc<Pool>>,
    /// Its weight at shared resources, at least 1.
    pub weight: u32,
    /// All hold.
    pub rates: Vec<Rate>,
    /// Recipients that may be queued; `None`: as many as the spool takes.
    pub queued_max: Option<u32>,
    /// Handling of its unsigned mail; `None`: by the listener.
    pub unsigned: Option<Unsigned>,
    /// Line of the file, from 1.
    pub line: u32,
}

/// Returns true if a list of users contains this one, logged in under the canonical name of the login source. Case is
/// ignored.
#[must_use]
pub fn names_login(list: &[Box<str>], login: &str) -> bool {
    let is = |of: &str| {
        of.eq_ignore_ascii_case(login)
            || !login.is_ascii() && of.to_lowercase() == login.to_lowercase()
    };
    list.iter().any(|of| is(of))
}

/// Owner of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenancy {
    /// The tenant's own name.
    pub name: Arc<str>,
    /// Its terms; unlisted tenants share one.
    pub tenant: Arc<Tenant>,
}

/// The reason why a client may not send as a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotYours {
    /// Nobody has that name.
    Unknown,
    /// The login belongs to another tenant, or the tenant to other logins.
    Another,
}

impl fmt::Display for NotYours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotYours::Unknown => "unknown tenant",
            NotYours::Another => "the tenant belongs to other logins",
        })
    }
}

/// Tenants, in the order of the file.
#[derive(Clone, Debug, Default)]
pub struct Tenants(pub(crate) Vec<Arc<Tenant>>);

impl Tenants {
    /// The listed tenants, including [`OTHER_TENANTS`].
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Tenant>> {
        self.0.iter()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The terms of a tenant; `None` for an unknown name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Arc<Tenant>> {
        let of = |name: &str| self.0.iter().find(|tenant| *tenant.name == *name);
        if name.is_empty() || name == OTHER_TENANTS {
            return None;
        }
        of(name).or_else(|| of(OTHER_TENANTS))
    }

    /// The tenant of a message, for a client logged in as `login`, or not logged in, that requests `asked`; `None`:
    /// none.
    ///
    /// # Errors
    /// Returns the reason if the client may not use it.
    pub fn choose(
        &self,
        login: Option<&str>,
        asked: Option<&str>,
    ) -> Result<Option<Tenancy>, NotYours> {
        let own = login.and_then(|login| {
            let is_of = |tenant: &&Arc<Tenant>| names_login(&tenant.logins, login);
            self.0.iter().find(is_of)
        });
        let Some(asked) = asked else {
            let own = own.map(|t| Tenancy { name: Arc::clone(&t.name), tenant: Arc::clone(t) });
            return Ok(own);
        };
        let tenant = self.named(asked).ok_or(NotYours::Unknown)?;
        let is_listed = *tenant.name == *asked;
        let may = match (own, login) {
            (Some(own), _) => Arc::ptr_eq(own, tenant) && is_listed,
            (None, Some(_)) => tenant.logins.is_empty(),
            // A client that may steer without a login is trusted.
            (None, None) => true,
        };
        if !may {
            return Err(NotYours::Another);
        }
        let name = if is_listed { Arc::clone(&tenant.name) } else { Arc::from(asked) };
        Ok(Some(Tenancy { name, tenant: Arc::clone(tenant) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenants(others: bool) -> Tenants {
        let tenant = |name: &str, logins: &[&str]| {
            Arc::new(Tenant {
                name: name.into(),
                logins: logins.iter().map(|login| (*login).into()).collect(),
                pool: None,
                weight: 1,
                rates: Vec::new(),
                queued_max: None,
                unsigned: None,
                line: 1,
            })
        };
        let mut all = vec![tenant("acme", &["acme-app"]), tenant("open", &[])];
        all.extend(others.then(|| tenant(OTHER_TENANTS, &[])));
        Tenants(all)
    }

    #[test]
    fn a_login_has_its_tenant_and_no_other() {
        let all = tenants(true);
        let name = |login, asked| {
            all.choose(login, asked).map(|chosen| chosen.map(|tenancy| tenancy.name.to_string()))
        };
        let some = |name: &str| Ok(Some(name.to_owned()));
        assert_eq!(name(Some("acme-app"), None), some("acme"));
        assert_eq!(name(Some("acme-app"), Some("acme")), some("acme"));
        assert_eq!(name(Some("Acme-App"), None), some("acme"));
        assert_eq!(name(Some("acme-app"), Some("open")), Err(NotYours::Another));
        assert_eq!(name(Some("acme-app"), Some("new")), Err(NotYours::Another));
        assert_eq!(name(Some("someone"), Some("acme")), Err(NotYours::Another));
        assert_eq!(name(Some("someone"), None), Ok(None));
        assert_eq!(name(Some("someone"), Some("open")), some("open"));
        assert_eq!(name(None, Some("acme")), some("acme"));
        assert_eq!(name(None, None), Ok(None));
        // Each by its own name.
        assert_eq!(name(None, Some("new")), some("new"));
        assert_eq!(name(None, Some("*")), Err(NotYours::Unknown));
        assert_eq!(name(None, Some("")), Err(NotYours::Unknown));
    }

    #[test]
    fn who_is_not_listed_is_unknown_unless_others_may() {
        assert_eq!(tenants(false).choose(None, Some("new")), Err(NotYours::Unknown));
        let chosen = tenants(true).choose(None, Some("new")).unwrap().unwrap();
        assert_eq!((&*chosen.name, &*chosen.tenant.name), ("new", OTHER_TENANTS));
    }
}
