//! Servers that know users.

use super::TestWorld;
use auth::sasl::Claim;
use auth::sasl::bearer::Token;
use lookup::{LookupError, LookupErrorKind};
use mta::answer::{Answer, Later};
use mta::seams::{
    Authenticators, Checked, Introspection, LoginReply, LoginServer, LoginTerms, NoAuthenticators,
};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What all servers of the world know.
#[derive(Default)]
pub(crate) struct TestAuthenticators {
    /// The name of a user's entry, by the user's.
    entries: RefCell<BTreeMap<String, String>>,
    /// Whose the only token is.
    token: RefCell<Option<String>>,
    is_away: Cell<bool>,
    /// In place of `right`.
    password: RefCell<Option<String>>,
    /// Passwords that were checked.
    checked: Cell<usize>,
}

impl TestWorld {
    /// The directory has this entry of a user, whose password is `right`; `None`: none any more.
    pub(crate) fn set_directory_entry(&self, user: &str, entry: Option<&str>) {
        let mut entries = self.0.authenticators.entries.borrow_mut();
        match entry {
            Some(entry) => drop(entries.insert(user.to_owned(), entry.to_owned())),
            None => drop(entries.remove(user)),
        }
    }

    /// The password of all users is another one now.
    pub(crate) fn set_directory_password(&self, password: &str) {
        *self.0.authenticators.password.borrow_mut() = Some(password.to_owned());
    }

    /// How many passwords servers have checked so far.
    pub(crate) fn checked_passwords(&self) -> usize {
        self.0.authenticators.checked.get()
    }

    /// Any token is this user's; `None`: nobody's.
    pub(crate) fn set_token(&self, user: Option<&str>) {
        *self.0.authenticators.token.borrow_mut() = user.map(str::to_owned);
    }

    /// Nobody answers, or somebody does again.
    pub(crate) fn set_authenticators_away(&self, is_away: bool) {
        self.0.authenticators.is_away.set(is_away);
    }
}

impl TestAuthenticators {
    fn answer<T: 'static>(&self, answer: T) -> Later<'static, Result<T, LookupError>> {
        let answer = match self.is_away.get() {
            true => Err(LookupError::new(LookupErrorKind::Unreachable, "it is away")),
            false => Ok(answer),
        };
        Box::pin(async { answer })
    }
}

impl Authenticators for TestAuthenticators {
    fn offered(&self, server: &LoginServer) -> Answer<'static, Option<Arc<[Box<str>]>>> {
        NoAuthenticators.offered(server)
    }

    fn check(
        &self,
        _: &LoginServer,
        claim: Claim,
        _: LoginTerms,
    ) -> Later<'static, Result<Checked, LookupError>> {
        let entry = self.entries.borrow().get(&claim.user).cloned();
        self.checked.set(self.checked.get() + 1);
        let password = self.password.borrow();
        let password = password.as_deref().unwrap_or("right").as_bytes();
        let is_right = entry.is_some() && claim.password.bytes() == password;
        self.answer(Checked { user: is_right.then_some(claim.user), entry })
    }

    fn entry(
        &self,
        _: &LoginServer,
        user: String,
        _: LoginTerms,
    ) -> Later<'static, Result<Checked, LookupError>> {
        self.answer(Checked { user: None, entry: self.entries.borrow().get(&user).cloned() })
    }

    fn whose(
        &self,
        _: &Arc<Introspection>,
        _: Token,
        _: LoginTerms,
    ) -> Later<'static, Result<Option<String>, LookupError>> {
        self.answer(self.token.borrow().clone())
    }

    fn begin(
        &self,
        _: &LoginServer,
        _: &'static str,
        _: Option<Vec<u8>>,
        _: LoginTerms,
    ) -> Later<'static, Result<LoginReply, LookupError>> {
        self.answer(LoginReply::Accepted("jo".to_owned()))
    }
}
