//! Looks up recipients in a route's tables: existence (`recipients`) and alias expansion (`aliases`).

mod together;

use super::admission::{Admission, is_disabled};
use super::limits::Debt;
use super::members::{LIST, MemberToken, completed, is_list, members, members_of};
use super::refusals;
use super::stage::{ExpandedRecipient, Resolved};
use crate::answer::{Answer, Decision};
use crate::clients::asker_of;
use crate::console::Console;
use crate::facts::Owner;
use crate::line::{self, FairKey, FairSemaphore, Permit, TrustLevel};
use crate::routing::expansions::Expanded;
use crate::routing::{Active, find};
use crate::seams::{MailboxQuestion, Tables as _, Time as _, World};
use crate::tables::{self, FoundAddress, FoundBy, FoundOwner};
use config::{Route, TableEntry, TagDelimiters};
use lookup::{Entry, LookupError, LookupErrorKind, Requester};
use mail::{Mailbox, Recipient, Refusal, is_dot_string};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use together::without_tag;

/// Maximum number of addresses and files in the expansion of one recipient, intermediate ones included. Beyond it RCPT
/// gets 451 4.3.5.
const MEMBERS_MAX: usize = 20_000;
/// Maximum depth of nested aliases and files. Beyond it RCPT gets 451 4.3.5.
const DEPTH_MAX: u16 = 50;
/// Maximum number of addresses in the expansion of a report's recipient. Beyond it a list with that owner is refused
/// (451 4.3.5), and a sender's report goes to its address unexpanded.
const READERS_MAX: usize = 50;

/// Addresses and files of one expansion that are processed before a pause: less than two milliseconds.
const STEPS_AT_ONCE: u32 = 500;
/// Length of the pause, in which other sessions run.
const PAUSE: Duration = Duration::from_millis(1);

/// The tables of one recipient's route.
pub(super) struct RecipientTables<W: World> {
    world: W,
    /// Charged to the requester in `turns`.
    tables: W::Tables,
    console: Rc<dyn Console>,
    active: Rc<Active>,
    route: Arc<Route>,
    turns: Turns,
    /// The client charged for large lists. `None` for this server's reports.
    debt: Option<Debt<W>>,
    /// `None` for this server's reports.
    admission: Option<Admission<W>>,
}

/// Fair queueing of large expansions.
#[derive(Clone)]
pub(super) struct Turns {
    line: Arc<FairSemaphore>,
    who: FairKey,
    standing: TrustLevel,
    asker: Requester,
}

impl Turns {
    /// For a client: its network shares with other networks of its /24 or /48, and those share with all. Clients that
    /// may relay have reserved permits.
    pub(super) fn of_client(line: &Arc<FairSemaphore>, client: IpAddr, may_relay: bool) -> Turns {
        let who = FairKey::new(0, 0).of(line::Owner::network(client));
        let who = who.within(line::Owner::site(client));
        let standing = if may_relay { TrustLevel::Good } else { TrustLevel::Unknown };
        Turns { line: Arc::clone(line), who, standing, asker: asker_of(client) }
    }

    /// For reports that this server generates.
    fn of_ours(line: &Arc<FairSemaphore>) -> Turns {
        let who = FairKey::new(0, 0).of(line::Owner::named("reports", "local"));
        Turns { line: Arc::clone(line), who, standing: TrustLevel::Good, asker: Requester::Ours }
    }
}

impl<W: World> RecipientTables<W> {
    /// Returns `None` if the route has neither table, and its channel is not asked.
    pub(super) fn of(
        world: &W,
        console: &Rc<dyn Console>,
        active: &Rc<Active>,
        route: &Arc<Route>,
        turns: impl FnOnce() -> Turns,
    ) -> Option<RecipientTables<W>> {
        let has_tables = route.recipients.is_some() || route.aliases.is_some();
        (has_tables || MailboxQuestion::is_asked(world, route)).then(|| {
            let turns = turns();
            RecipientTables {
                world: world.clone(),
                tables: world.tables(turns.asker),
                console: Rc::clone(console),
                active: Rc::clone(active),
                route: Arc::clone(route),
                turns,
                debt: None,
                admission: None,
            }
        })
    }

    /// Asks channels about mailboxes, too.
    pub(super) fn admitting(self, admission: Admission<W>) -> RecipientTables<W> {
        RecipientTables { admission: Some(admission), ..self }
    }

    /// Charges the expansion to a client.
    pub(super) fn paid_by(self, debt: Debt<W>) -> RecipientTables<W> {
        RecipientTables { debt: Some(debt), ..self }
    }

    /// # Errors
    /// The client is over its limit for recipients. It would be refused after the expansion, so the work is saved.
    fn may_cost(&self) -> Result<(), Refusal> {
        match &self.debt {
            Some(debt) if debt.is_due() => Err(refusals::RECIPIENTS),
            _ => Ok(()),
        }
    }

    /// The decision about a recipient that the routes accept.
    pub(super) fn resolve(self, recipient: Recipient) -> Decision<'static, Resolved> {
        let Some(aliases) = self.route.aliases.clone() else { return self.exists(recipient) };
        let found = tables::find_address(&self.tables, &aliases, &recipient.mailbox);
        found.then(move |found| match found {
            Ok(None) => self.exists(recipient),
            Ok(Some(found)) => Answer::later(async move {
                match self.goes_before(&self.route, &recipient.mailbox, &found, false).await? {
                    true => self.exists(recipient).get().await,
                    false => self.expand(recipient, found).await,
                }
            }),
            Err(trouble) => Answer::Now(Err(self.failed(&trouble))),
        })
    }

    fn exists(self, recipient: Recipient) -> Decision<'static, Resolved> {
        let Some(table) = self.route.recipients.clone() else {
            return self.admit(&recipient.mailbox);
        };
        let found = tables::find_address(&self.tables, &table, &recipient.mailbox);
        found.then(move |found| match found {
            Ok(Some(found)) if is_disabled(&found.entry) => {
                Answer::Now(Err(refusals::MAILBOX_DISABLED))
            }
            Ok(Some(_)) => self.admit(&recipient.mailbox),
            Ok(None) => Answer::Now(Err(refusals::NO_SUCH_RECIPIENT)),
            Err(trouble) => Answer::Now(Err(self.failed(&trouble))),
        })
    }

    /// The decision by the state of the recipient's mailbox.
    fn admit(&self, recipient: &Mailbox) -> Decision<'static, Resolved> {
        match &self.admission {
            Some(admission) => admission.ask((&self.world, &self.tables), &self.route, recipient),
            None => Answer::Now(Ok(Resolved::Kept)),
        }
    }

    /// Returns true if an address takes precedence over the alias of its whole domain. It does if `recipients` has it,
    /// or, on a route without `recipients`, if an alias other than a domain alias names it. A domain alias
    /// (`@example.org`) applies only to addresses that are not recipients.
    async fn goes_before(
        &self,
        route: &Route,
        address: &Mailbox,
        found: &FoundAddress,
        is_named: bool,
    ) -> Result<bool, Refusal> {
        if found.by != FoundBy::Domain {
            return Ok(false);
        }
        match &route.recipients {
            Some(table) => {
                let own = tables::has_own_entry(&self.tables, table, address).get().await;
                own.map_err(|trouble| self.failed(&trouble))
            }
            None => Ok(is_named && !found.entry.text.trim_start().starts_with('@')),
        }
    }

    /// Expands an alias recursively.
    async fn expand(self, recipient: Recipient, found: FoundAddress) -> Result<Resolved, Refusal> {
        let (of, found) = without_tag(recipient.mailbox.clone(), found, self.tags());
        let (key, now) = ((self.route.index, of), self.world.time().now());
        let admission = self.admission.clone();
        let (world, tables, active) =
            (self.world.clone(), self.tables.clone(), Rc::clone(&self.active));
        let members = match self.active.expansions.get(&key, &found.entry, now) {
            Some(known) => known?,
            None => {
                self.may_cost()?;
                match is_list(&found.entry) {
                    true => self.members_together(key, found).await?,
                    false => self.members_of_alias(key, found).await?,
                }
            }
        };
        match substitutes(&members, &recipient) {
            members if members.is_empty() => Err(refusals::NO_SUCH_RECIPIENT),
            members => {
                if let ([only], Some(admission)) = (&*members, admission) {
                    let member = &only.recipient.mailbox;
                    admission.ask_member((&world, &tables), &active, member).await?;
                }
                Ok(Resolved::Replaced(members))
            }
        }
    }

    /// Processes all pending addresses and files, and those that they add.
    async fn walk(&self, expansion: &mut Expansion, recipient: &Mailbox) -> Result<(), Refusal> {
        while let Some((pending, depth)) = expansion.pending.pop_front() {
            match pending {
                Pending::Address(address, owner, is_named) => {
                    let address = (address, is_named);
                    self.follow(expansion, recipient, address, owner, depth).await?;
                }
                Pending::List(path, alias) => {
                    let list = self.read_list(&alias, &path).await?;
                    self.add(expansion, &alias, members(&list.text), depth + 1).await?;
                }
            }
            self.give_way(expansion).await?;
        }
        Ok(())
    }

    /// Yields regularly during a large expansion, and limits the number of large ones at a time.
    async fn give_way(&self, expansion: &mut Expansion) -> Result<(), Refusal> {
        expansion.steps += 1;
        if expansion.steps.is_multiple_of(STEPS_AT_ONCE) {
            if expansion.place.is_none() {
                let Turns { line, who, standing, .. } = &self.turns;
                expansion.place = Some(line.join(*who, *standing, 1).await);
                // The client's network may have been charged for expansions during the wait.
                self.may_cost()?;
            }
            let time = self.world.time();
            time.sleep_until(time.now() + PAUSE).await;
        }
        Ok(())
    }

    /// Adds the members of an alias. Without its own owner, the alias inherits the owner of the list that contains it.
    async fn open(
        &self,
        expansion: &mut Expansion,
        route: &Arc<Route>,
        of: Mailbox,
        found: FoundAddress,
        owner: Option<Rc<ListOwner>>,
        depth: u16,
    ) -> Result<(), Refusal> {
        let (of, found) = without_tag(of, found, self.tags());
        let mut own = None;
        if let Some(table) = route.aliases.as_ref().filter(|_| expansion.has_owners) {
            let found = tables::find_owner(&self.tables, table, &of, found.by).get().await;
            own = found.map_err(|trouble| self.failed(&trouble))?;
        }
        let route = Arc::clone(route);
        let named = |FoundOwner { address, entry }| {
            Rc::new(ListOwner { route: Arc::clone(&route), address, entry })
        };
        let owner = own.map(named).or(owner);
        let builds = route.aliases.as_ref().is_some_and(|table| table.builds_answers());
        let alias = Rc::new(Alias { route, of, by: found.by, owner });
        // A server that builds answers may interpret quoted text in the key, so its result is not trusted as a list of
        // members.
        let members = members_of(&found.entry, builds && !is_plain(&found.key));
        self.add(expansion, &alias, members, depth).await
    }

    /// The owners of the lists with these members, by address, each with the addresses that get its reports.
    async fn owners(&self, members: &[Member]) -> Result<BTreeMap<Mailbox, Arc<Owner>>, Refusal> {
        let mut owners = BTreeMap::new();
        for owner in members.iter().filter_map(|(_, owner)| owner.as_ref()) {
            if !owners.contains_key(&owner.address) {
                owners.insert(owner.address.clone(), Arc::new(self.owner(owner).await?));
            }
        }
        Ok(owners)
    }

    /// The owner with its expansion at the time of acceptance.
    async fn owner(&self, owner: &ListOwner) -> Result<Owner, Refusal> {
        let ListOwner { route, address, entry } = owner;
        let (route, of) = (Arc::clone(route), address.clone());
        let alias = Rc::new(Alias { route, of, by: FoundBy::Address, owner: None });
        let reports_to = self.readers(&alias, entry).await?;
        Ok(Owner { address: address.clone(), reports_to: reports_to.into() })
    }

    /// The addresses that get a report to `address`, if it is an alias. `None` if not.
    async fn readers_of(&self, address: &Mailbox) -> Result<Option<Vec<Mailbox>>, Refusal> {
        let Some(aliases) = &self.route.aliases else { return Ok(None) };
        let Some(found) = self.ask(aliases, address).await? else { return Ok(None) };
        if self.goes_before(&self.route, address, &found, false).await? {
            return Ok(None);
        }
        let (route, of) = (Arc::clone(&self.route), address.clone());
        let alias = Rc::new(Alias { route, of, by: found.by, owner: None });
        self.readers(&alias, &found.entry).await.map(Some)
    }

    /// The addresses that get a report to an alias.
    async fn readers(&self, alias: &Rc<Alias>, entry: &Entry) -> Result<Vec<Mailbox>, Refusal> {
        let mut expansion = Expansion::default();
        self.add(&mut expansion, alias, members_of(entry, false), 1).await?;
        self.walk(&mut expansion, &alias.of).await?;
        let mut readers: Vec<Mailbox> =
            expansion.members.into_iter().map(|(address, _)| address).collect();
        if readers.len() > READERS_MAX {
            let text = format_args!("{alias} expands to too many addresses for reports");
            self.console.warn("aliases", text);
            return Err(refusals::BAD_ALIAS);
        }
        if readers.is_empty() {
            readers.push(self.active.config.postmaster.address.clone());
        }
        Ok(readers)
    }

    /// Processes one address from the expansion of `recipient`.
    async fn follow(
        &self,
        expansion: &mut Expansion,
        recipient: &Mailbox,
        (address, is_named): (Mailbox, bool),
        owner: Option<Rc<ListOwner>>,
        depth: u16,
    ) -> Result<(), Refusal> {
        let in_tables = find::in_tables(&self.tables, &self.active, &address.domain());
        let at = in_tables.get().await.map_err(|trouble| self.failed(&trouble))?;
        let route = self.active.config.route_of(&address, at).map(|(_, route)| route);
        // An alias that names itself is a recipient, and is not looked up again.
        if let Some(route) = route.filter(|_| address != *recipient)
            && let Some(next) = &route.aliases
            && let Some(found) = self.ask(next, &address).await?
            && !self.goes_before(route, &address, &found, is_named).await?
        {
            let (of, of_list) = (address.clone(), owner.clone());
            self.open(expansion, route, of, found, of_list, depth + 1).await?;
            if !expansion.stands_for_itself.remove(&address) {
                return Ok(());
            }
        }
        let table = route.and_then(|route| route.recipients.as_ref());
        let Some(table) = table else {
            expansion.members.push((address, owner));
            return Ok(());
        };
        let what = match self.ask(table, &address).await? {
            Some(found) if is_disabled(&found.entry) => "a disabled mailbox",
            Some(_) => {
                expansion.members.push((address, owner));
                return Ok(());
            }
            None => "an unknown recipient",
        };
        self.console.warn("aliases", format_args!("{recipient} expands to {address}, {what}"));
        Ok(())
    }

    async fn ask(
        &self,
        table: &Arc<TableEntry>,
        address: &Mailbox,
    ) -> Result<Option<FoundAddress>, Refusal> {
        let found = tables::find_address(&self.tables, table, address).get().await;
        found.map_err(|trouble| self.failed(&trouble))
    }

    /// Reads the addresses from a file that an alias includes.
    async fn read_list(&self, alias: &Alias, path: &str) -> Result<Arc<Entry>, Refusal> {
        let Some(directory) = alias.directory_of(path) else {
            let text = format_args!("it is outside the directories of the route's `include`");
            return Err(self.bad_list(alias, path, text));
        };
        match self.tables.list(directory, Path::new(path)).get().await {
            Ok(Some(members)) => Ok(members),
            Ok(None) => Err(self.bad_list(alias, path, format_args!("file not found"))),
            Err(trouble) if trouble.kind == LookupErrorKind::Key => {
                Err(self.bad_list(alias, path, format_args!("{trouble}")))
            }
            Err(trouble) => Err(self.failed(&trouble)),
        }
    }

    fn bad_list(&self, alias: &Alias, path: &str, why: fmt::Arguments<'_>) -> Refusal {
        self.console.warn("aliases", format_args!("{alias} expands to {LIST}{path}: {why}"));
        refusals::BAD_ALIAS
    }

    /// Adds the members of an alias.
    async fn add<'e>(
        &self,
        expansion: &mut Expansion,
        alias: &Rc<Alias>,
        members: impl IntoIterator<Item = MemberToken<'e>>,
        depth: u16,
    ) -> Result<(), Refusal> {
        for written in members {
            self.give_way(expansion).await?;
            let pending = match written {
                MemberToken::List(path) if expansion.lists.insert((&*path).into()) => {
                    Pending::List((&*path).into(), Rc::clone(alias))
                }
                MemberToken::List(_) => continue,
                MemberToken::Bad(text) => return Err(self.no_address(alias, &text)),
                MemberToken::Address(text) => {
                    let Some(member) = self.member(&text, alias) else {
                        return Err(self.no_address(alias, &text));
                    };
                    if member.is_same(&alias.of) {
                        expansion.stands_for_itself.insert(member.clone());
                    }
                    if !expansion.seen.insert(member.clone()) {
                        continue;
                    }
                    Pending::Address(member, alias.owner.clone(), alias.by != FoundBy::Domain)
                }
            };
            let count = expansion.seen.len() + expansion.lists.len();
            if depth > DEPTH_MAX || count > MEMBERS_MAX {
                let text = format_args!("{alias} expands to too many addresses");
                self.console.warn("aliases", text);
                return Err(refusals::BAD_ALIAS);
            }
            expansion.pending.push_back((pending, depth));
        }
        Ok(())
    }

    fn no_address(&self, alias: &Alias, text: &str) -> Refusal {
        self.console.warn("aliases", format_args!("{alias} expands to {text:?}, not an address"));
        refusals::BAD_ALIAS
    }

    fn tags(&self) -> &TagDelimiters {
        &self.active.config.tag_delimiters
    }

    /// The address for a member of an alias. `@example.org` keeps the local part, a name without a domain gets the
    /// route's origin, and a tag removed for the lookup is added again.
    fn member(&self, text: &str, alias: &Alias) -> Option<Mailbox> {
        let Alias { route, of: address, by, .. } = alias;
        let origin = route.origin_of(address);
        let origin = origin.as_ref().unwrap_or(&self.active.config.hostname);
        let member = completed(text, address.local(), origin)?;
        let tag = match by {
            FoundBy::WithoutTag => self.tags().split(address.local()),
            FoundBy::Address | FoundBy::Domain => None,
        };
        let Some((_, delimiter, tag)) = tag.filter(|_| !member.local().starts_with('"')) else {
            return Some(member);
        };
        let tagged = format!("{}{delimiter}{tag}@{}", member.local(), member.domain_str());
        Some(Mailbox::parse(&tagged, true).unwrap_or(member))
    }

    fn failed(&self, trouble: &LookupError) -> Refusal {
        refusals::no_answer(&*self.console, trouble)
    }
}

/// The addresses that get a report to `address`: its expansion, or `None` if it is no alias or the lookup fails.
pub(super) async fn readers<W: World>(
    world: &W,
    console: &Rc<dyn Console>,
    active: &Rc<Active>,
    (address, line): (&Mailbox, &Arc<FairSemaphore>),
) -> Option<Vec<Mailbox>> {
    let in_tables =
        find::in_tables(&world.tables(Requester::Ours), active, &address.domain()).get().await;
    // The error has been logged.
    let in_tables = in_tables.map_err(|trouble| refusals::no_answer(&**console, &trouble)).ok()?;
    let (_, route) = active.config.route_of(address, in_tables)?;
    let directory = RecipientTables::of(world, console, active, route, || Turns::of_ours(line))?;
    directory.readers_of(address).await.ok()?
}

/// An alias found in a route's table.
struct Alias {
    /// The route with the `aliases` table.
    route: Arc<Route>,
    of: Mailbox,
    by: FoundBy,
    /// The owner of its members.
    owner: Option<Rc<ListOwner>>,
}

/// The owner of a list, for example `owner-list@example.org`.
struct ListOwner {
    /// The route with the `aliases` table.
    route: Arc<Route>,
    address: Mailbox,
    /// The alias entry of the owner's address.
    entry: Arc<Entry>,
}

/// A member of an expansion, with the owner of the list that contains it.
type Member = (Mailbox, Option<Rc<ListOwner>>);

impl Alias {
    /// The directory of the route's `include` that contains this file.
    fn directory_of(&self, path: &str) -> Option<&Path> {
        let path = Path::new(path);
        let leads_out = path.components().any(|part| part == Component::ParentDir);
        let mut directories = self.route.include.iter().map(PathBuf::as_path);
        directories.find(|directory| !leads_out && path.starts_with(directory))
    }
}

impl fmt::Display for Alias {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.route.aliases.as_ref().map_or("", |table| &table.name);
        write!(f, "table {table}: {}", self.of)
    }
}

/// An item still to be expanded.
enum Pending {
    /// Address, list owner, and true if an alias other than a domain alias names the address.
    Address(Mailbox, Option<Rc<ListOwner>>, bool),
    /// A file with addresses that the alias includes.
    List(Box<str>, Rc<Alias>),
}

/// State of an expansion.
#[derive(Default)]
struct Expansion {
    /// Addresses seen. None is processed twice, so that loops end.
    seen: BTreeSet<Mailbox>,
    /// Files seen.
    lists: BTreeSet<Box<str>>,
    /// Items still to be processed, each with its depth.
    pending: VecDeque<(Pending, u16)>,
    /// Aliases that name themselves, and are recipients as well.
    stands_for_itself: BTreeSet<Mailbox>,
    members: Vec<Member>,
    /// Set if owners of lists are looked up.
    has_owners: bool,
    /// Number of items processed.
    steps: u32,
    /// Permit among the large expansions.
    place: Option<Permit>,
}

impl Expansion {
    /// The members, each with the owner of its list.
    fn into_members(self, owners: &BTreeMap<Mailbox, Arc<Owner>>) -> Rc<[Expanded]> {
        let one = |(mailbox, owner): Member| {
            (mailbox, owner.and_then(|owner| owners.get(&owner.address).cloned()))
        };
        self.members.into_iter().map(one).collect()
    }
}

/// The members as recipients of the message. They inherit NOTIFY and ORCPT of the recipient (RFC 3461 §5.2.7.1).
fn substitutes(members: &[Expanded], recipient: &Recipient) -> Box<[ExpandedRecipient]> {
    let (notify, orcpt) = (recipient.notify, &recipient.orcpt);
    let one = |(mailbox, owner): &Expanded| ExpandedRecipient {
        recipient: Recipient { mailbox: mailbox.clone(), notify, orcpt: orcpt.clone() },
        owner: owner.clone(),
    };
    members.iter().map(one).collect()
}

/// Returns true if the local part of a key needs no quoting.
fn is_plain(key: &str) -> bool {
    key.rsplit_once('@').is_none_or(|(local, _)| local.is_empty() || is_dot_string(local))
}
