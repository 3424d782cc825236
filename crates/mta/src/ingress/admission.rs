//! Asks the channels about the mailboxes of recipients that routes and tables accept.

use super::refusals;
use super::stage::Resolved;
use crate::answer::{Answer, Decision};
use crate::routing::{Active, find};
use crate::seams::{MailboxCheck, MailboxQuestion, World};
use config::Route;
use lookup::Entry;
use mail::{Mailbox, Refusal};
use std::rc::Rc;
use std::sync::Arc;

/// The field of a recipient's entry that closes its mailbox.
const DISABLED: &str = "disabled";

/// Returns true if a recipient's entry has a field `disabled` that is set.
pub(super) fn is_disabled(entry: &Entry) -> bool {
    let is_set = |value: &str| {
        let value = value.trim();
        let is = |word: &str| value.eq_ignore_ascii_case(word);
        !["", "0", "n", "no", "f", "false", "off"].into_iter().any(is)
    };
    entry.values(DISABLED).iter().any(|value| is_set(value))
}

/// The check of mailboxes for one transaction.
pub(super) struct Admission<W: World> {
    pub(super) check: MailboxCheck<W>,
    /// The announced size of the content.
    pub(super) size: Option<u64>,
}

impl<W: World> Clone for Admission<W> {
    fn clone(&self) -> Self {
        Admission { check: Rc::clone(&self.check), size: self.size }
    }
}

impl<W: World> Admission<W> {
    /// Asks the channel of the route about a recipient.
    pub(super) fn ask(
        &self,
        (world, tables): (&W, &W::Tables),
        route: &Arc<Route>,
        recipient: &Mailbox,
    ) -> Decision<'static, Resolved> {
        if !MailboxQuestion::is_asked(world, route) {
            return Answer::Now(Ok(Resolved::Kept));
        }
        let question = MailboxQuestion { world, tables, route, recipient, size: self.size };
        (self.check)(&question).then(|checked| Answer::Now(checked.map(|()| Resolved::Kept)))
    }

    /// Asks about the only member of an alias. A list is accepted whatever the state of its members.
    pub(super) async fn ask_member(
        &self,
        (world, tables): (&W, &W::Tables),
        active: &Rc<Active>,
        member: &Mailbox,
    ) -> Result<(), Refusal> {
        let in_tables = find::in_tables(tables, active, &member.domain()).get().await;
        let in_tables = in_tables.map_err(|_trouble| refusals::NO_ANSWER)?;
        match active.config.route_of(member, in_tables) {
            Some((_, route)) => self.ask((world, tables), route, member).get().await.map(drop),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_disables_a_mailbox_unless_it_denies_it() {
        let is = |values: &[&str]| {
            let values: Box<[Box<str>]> = values.iter().map(|value| Box::from(*value)).collect();
            let field: (Box<str>, Box<[Box<str>]>) = (Box::from("Disabled"), values);
            is_disabled(&Entry::fields([field]))
        };
        for closed in [&["1"][..], &["TRUE"], &["yes"], &["no", "since 2026"]] {
            assert!(is(closed), "{closed:?}");
        }
        for open in [&[][..], &[""], &["0"], &["No"], &["FALSE"], &[" f "], &["off"]] {
            assert!(!is(open), "{open:?}");
        }
        assert!(!is_disabled(&Entry::text("disabled")));
    }
}
