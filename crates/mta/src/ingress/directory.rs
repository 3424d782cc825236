//! What tables say of a recipient: whether there is one of this name (`recipients`), and who stands
//! for it (`aliases`).

mod together;

use super::limits::Debt;
use super::members::{LIST, MemberToken, is_list, members, members_of};
use super::refusals;
use super::stage::{ExpandedRecipient, Resolved};
use crate::answer::{Answer, Decision};
use crate::clients::asker_of;
use crate::console::Console;
use crate::facts::Owner;
use crate::line::{self, FairKey, FairSemaphore, Permit, TrustLevel};
use crate::routing::expansions::Expanded;
use crate::routing::{Active, find};
use crate::seams::{Tables as _, Time as _, World};
use crate::tables::{self, FoundAddress, FoundBy, FoundOwner, TAG_DELIMITER, split_tag};
use config::{Route, TableEntry};
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

/// Addresses and files that one recipient may stand for, those in between counted: 451 4.3.5 beyond it.
const MEMBERS_MAX: usize = 20_000;
/// How many aliases and files may lead from one to the next: 451 4.3.5 beyond it.
const DEPTH_MAX: u16 = 50;
/// Addresses that one to which reports go may stand for. Beyond it the owner of a list has its list refused
/// (451 4.3.5), and a sender gets reports itself.
const READERS_MAX: usize = 50;

/// Addresses and files of one recipient that are looked at in one go: under two milliseconds.
const STEPS_AT_ONCE: u32 = 500;
/// How long others go first then.
const PAUSE: Duration = Duration::from_millis(1);

/// The tables of one recipient's route.
pub(super) struct RecipientTables<W: World> {
    world: W,
    /// Asked for whoever the recipient is of.
    tables: W::Tables,
    console: Rc<dyn Console>,
    active: Rc<Active>,
    route: Arc<Route>,
    turns: Turns,
    /// Of the client that has large lists expanded; `None`: it is no client.
    debt: Option<Debt<W>>,
}

/// In whose turn large lists are expanded.
#[derive(Clone)]
pub(super) struct Turns {
    line: Arc<FairSemaphore>,
    who: FairKey,
    standing: TrustLevel,
    asker: Requester,
}

impl Turns {
    /// For a client: its network takes turns with others of its /24 or /48, and those with others. Clients that may
    /// relay find some left.
    pub(super) fn of_client(line: &Arc<FairSemaphore>, client: IpAddr, may_relay: bool) -> Turns {
        let who = FairKey::new(0, 0).of(line::Owner::network(client));
        let who = who.within(line::Owner::site(client));
        let standing = if may_relay { TrustLevel::Good } else { TrustLevel::Unknown };
        Turns { line: Arc::clone(line), who, standing, asker: asker_of(client) }
    }

    /// For reports of this server.
    fn of_ours(line: &Arc<FairSemaphore>) -> Turns {
        let who = FairKey::new(0, 0).of(line::Owner::named("reports", "of ours"));
        Turns { line: Arc::clone(line), who, standing: TrustLevel::Good, asker: Requester::Ours }
    }
}

impl<W: World> RecipientTables<W> {
    /// `None`: the route has no such tables.
    pub(super) fn of(
        world: &W,
        console: &Rc<dyn Console>,
        active: &Rc<Active>,
        route: &Arc<Route>,
        turns: impl FnOnce() -> Turns,
    ) -> Option<RecipientTables<W>> {
        (route.recipients.is_some() || route.aliases.is_some()).then(|| {
            let turns = turns();
            RecipientTables {
                world: world.clone(),
                tables: world.tables().asked_for(turns.asker),
                console: Rc::clone(console),
                active: Rc::clone(active),
                route: Arc::clone(route),
                turns,
                debt: None,
            }
        })
    }

    /// For a client that pays for what is done for it.
    pub(super) fn paid_by(self, debt: Debt<W>) -> RecipientTables<W> {
        RecipientTables { debt: Some(debt), ..self }
    }

    /// # Errors
    /// The client owes for so many recipients already that nothing is done for it: it would be refused afterwards,
    /// when the work is done.
    fn may_cost(&self) -> Result<(), Refusal> {
        match &self.debt {
            Some(debt) if debt.is_due() => Err(refusals::RECIPIENTS),
            _ => Ok(()),
        }
    }

    /// What becomes of a recipient that the routes take.
    pub(super) fn resolve(self, recipient: Recipient) -> Decision<'static, Resolved> {
        let Some(aliases) = self.route.aliases.clone() else { return self.exists(recipient) };
        let found = tables::find_address(&self.tables, &aliases, &recipient.mailbox);
        found.then(move |found| match found {
            Ok(None) => self.exists(recipient),
            Ok(Some(found)) => Answer::later(async move {
                match self.goes_before(&self.route, &recipient.mailbox, &found, false).await? {
                    true => Ok(Resolved::Kept),
                    false => self.expand(recipient, found).await,
                }
            }),
            Err(trouble) => Answer::Now(Err(self.failed(&trouble))),
        })
    }

    fn exists(self, recipient: Recipient) -> Decision<'static, Resolved> {
        let Some(table) = self.route.recipients.clone() else {
            return Answer::Now(Ok(Resolved::Kept));
        };
        let found = tables::find_address(&self.tables, &table, &recipient.mailbox);
        found.then(move |found| {
            Answer::Now(match found {
                Ok(Some(_)) => Ok(Resolved::Kept),
                Ok(None) => Err(refusals::NO_SUCH_RECIPIENT),
                Err(trouble) => Err(self.failed(&trouble)),
            })
        })
    }

    /// Returns true if an address goes before the alias of its whole domain that was found for it: `recipients`
    /// has it, or, where nothing has them, an alias of its own names it. What a whole domain stands for
    /// (`@example.org`) holds for all addresses that are no recipients.
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

    /// Whom an alias stands for, and whom those stand for.
    async fn expand(self, recipient: Recipient, found: FoundAddress) -> Result<Resolved, Refusal> {
        let (of, found) = without_tag(recipient.mailbox.clone(), found);
        let (key, now) = ((self.route.index, of), self.world.time().now());
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
            members => Ok(Resolved::Replaced(members)),
        }
    }

    /// Looks at all that is pending, and at what that stands for.
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

    /// A large list takes its time in pieces: others go first in between, and few are expanded at once.
    async fn give_way(&self, expansion: &mut Expansion) -> Result<(), Refusal> {
        expansion.steps += 1;
        if expansion.steps.is_multiple_of(STEPS_AT_ONCE) {
            if expansion.place.is_none() {
                let Turns { line, who, standing, .. } = &self.turns;
                expansion.place = Some(line.join(*who, *standing, 1).await);
                // Others of its network may have been expanded meanwhile.
                self.may_cost()?;
            }
            let time = self.world.time();
            time.sleep_until(time.now() + PAUSE).await;
        }
        Ok(())
    }

    /// Notes those that an alias stands for. The owner of the list that has it answers for them, unless
    /// it has one of its own.
    async fn open(
        &self,
        expansion: &mut Expansion,
        route: &Arc<Route>,
        of: Mailbox,
        found: FoundAddress,
        owner: Option<Rc<ListOwner>>,
        depth: u16,
    ) -> Result<(), Refusal> {
        let (of, found) = without_tag(of, found);
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
        // What a server makes of quoted text can't be told from what it has.
        let members = members_of(&found.entry, builds && !is_plain(&found.key));
        self.add(expansion, &alias, members, depth).await
    }

    /// Those who answer for lists that the members are on, by their addresses, with those who are told
    /// what becomes of the mail.
    async fn owners(&self, members: &[Member]) -> Result<BTreeMap<Mailbox, Arc<Owner>>, Refusal> {
        let mut owners = BTreeMap::new();
        for owner in members.iter().filter_map(|(_, owner)| owner.as_ref()) {
            if !owners.contains_key(&owner.address) {
                owners.insert(owner.address.clone(), Arc::new(self.owner(owner).await?));
            }
        }
        Ok(owners)
    }

    /// Whom the owner of a list stands for, as it is when the message is accepted.
    async fn owner(&self, owner: &ListOwner) -> Result<Owner, Refusal> {
        let ListOwner { route, address, entry } = owner;
        let (route, of) = (Arc::clone(route), address.clone());
        let alias = Rc::new(Alias { route, of, by: FoundBy::Address, owner: None });
        let reports_to = self.readers(&alias, entry).await?;
        Ok(Owner { address: address.clone(), reports_to: reports_to.into() })
    }

    /// Whom a report to an address goes to that is an alias; `None`: it is none.
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

    /// Whom a report to an alias goes to.
    async fn readers(&self, alias: &Rc<Alias>, entry: &Entry) -> Result<Vec<Mailbox>, Refusal> {
        let mut expansion = Expansion::default();
        self.add(&mut expansion, alias, members_of(entry, false), 1).await?;
        self.walk(&mut expansion, &alias.of).await?;
        let mut readers: Vec<Mailbox> =
            expansion.members.into_iter().map(|(address, _)| address).collect();
        if readers.len() > READERS_MAX {
            let text = format_args!("{alias} stands for too many addresses for reports");
            self.console.warn("aliases", text);
            return Err(refusals::BAD_ALIAS);
        }
        if readers.is_empty() {
            readers.push(self.active.config.postmaster.address.clone());
        }
        Ok(readers)
    }

    /// Looks at one of those that `recipient` stands for.
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
        // Who stands for itself is kept, and not asked about again.
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
        match table {
            Some(table) if self.ask(table, &address).await?.is_none() => {
                let text = format_args!(
                    "{recipient} stands for {address}, and there is no such recipient"
                );
                self.console.warn("aliases", text);
            }
            _ => expansion.members.push((address, owner)),
        }
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

    /// The addresses in a file that an alias names.
    async fn read_list(&self, alias: &Alias, path: &str) -> Result<Arc<Entry>, Refusal> {
        let Some(directory) = alias.directory_of(path) else {
            let text = format_args!("it is in no directory that `include` of the route has");
            return Err(self.bad_list(alias, path, text));
        };
        match self.tables.list(directory, Path::new(path)).get().await {
            Ok(Some(members)) => Ok(members),
            Ok(None) => Err(self.bad_list(alias, path, format_args!("there is no such file"))),
            Err(trouble) if trouble.kind == LookupErrorKind::Key => {
                Err(self.bad_list(alias, path, format_args!("{trouble}")))
            }
            Err(trouble) => Err(self.failed(&trouble)),
        }
    }

    fn bad_list(&self, alias: &Alias, path: &str, why: fmt::Arguments<'_>) -> Refusal {
        self.console.warn("aliases", format_args!("{alias} stands for {LIST}{path}: {why}"));
        refusals::BAD_ALIAS
    }

    /// Notes the members of an alias.
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
                    let Some(member) = self.member(&text, &alias.of, alias.by) else {
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
                let text = format_args!("{alias} stands for too many addresses");
                self.console.warn("aliases", text);
                return Err(refusals::BAD_ALIAS);
            }
            expansion.pending.push_back((pending, depth));
        }
        Ok(())
    }

    fn no_address(&self, alias: &Alias, text: &str) -> Refusal {
        self.console.warn("aliases", format_args!("{alias} stands for {text:?}, no address"));
        refusals::BAD_ALIAS
    }

    /// The address that an alias of `address` names: `@example.org` keeps the local part, a name
    /// without a domain is at ours, and a tag that the alias was found without goes on.
    fn member(&self, text: &str, address: &Mailbox, by: FoundBy) -> Option<Mailbox> {
        let text = match text.strip_prefix('@') {
            Some(domain) => format!("{}@{domain}", address.local()),
            // A command or a file, in sendmail's files of aliases: never an address.
            None if text.starts_with(['"', '|', '/', ':']) && !text.contains('@') => return None,
            None if !text.contains('@') => format!("{text}@{}", self.active.config.hostname),
            None => text.to_owned(),
        };
        let member = Mailbox::parse(&text, true).ok()?;
        let tag = match by {
            FoundBy::WithoutTag => split_tag(address.local()).map(|(_, tag)| tag),
            FoundBy::Address | FoundBy::Domain => None,
        };
        let Some(tag) = tag.filter(|_| !member.local().starts_with('"')) else {
            return Some(member);
        };
        let tagged = format!("{}{TAG_DELIMITER}{tag}@{}", member.local(), member.domain_str());
        Some(Mailbox::parse(&tagged, true).unwrap_or(member))
    }

    fn failed(&self, trouble: &LookupError) -> Refusal {
        refusals::no_answer(&*self.console, trouble)
    }
}

/// Whom a report to `address` goes to: those that it stands for, or itself, if it stands for none or no table
/// says so now.
pub(super) async fn readers<W: World>(
    world: &W,
    console: &Rc<dyn Console>,
    active: &Rc<Active>,
    (address, line): (&Mailbox, &Arc<FairSemaphore>),
) -> Option<Vec<Mailbox>> {
    let in_tables = find::in_tables(world.tables(), active, &address.domain()).get().await;
    // What is wrong is told on the console.
    let in_tables = in_tables.map_err(|trouble| refusals::no_answer(&**console, &trouble)).ok()?;
    let (_, route) = active.config.route_of(address, in_tables)?;
    let directory = RecipientTables::of(world, console, active, route, || Turns::of_ours(line))?;
    directory.readers_of(address).await.ok()?
}

/// An address that stands for others.
struct Alias {
    /// Whose `aliases` have it.
    route: Arc<Route>,
    of: Mailbox,
    by: FoundBy,
    /// Who answers for those that it stands for.
    owner: Option<Rc<ListOwner>>,
}

/// Who answers for a list.
struct ListOwner {
    /// Whose `aliases` have it.
    route: Arc<Route>,
    address: Mailbox,
    /// Whom it stands for.
    entry: Arc<Entry>,
}

/// One of those that a recipient stands for, and who answers for the list that has it.
type Member = (Mailbox, Option<Rc<ListOwner>>);

impl Alias {
    /// The directory that may have this file, of those that the route names.
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

/// What is to be looked at.
enum Pending {
    /// Whether an alias of its own names it, and not one of a whole domain.
    Address(Mailbox, Option<Rc<ListOwner>>, bool),
    /// A file with addresses, which the alias names.
    List(Box<str>, Rc<Alias>),
}

/// The addresses that a recipient stands for, as they are found.
#[derive(Default)]
struct Expansion {
    /// Those that were met: none is looked at twice, so that no circle goes on for ever.
    seen: BTreeSet<Mailbox>,
    /// Files that were met, likewise.
    lists: BTreeSet<Box<str>>,
    /// Those that were not looked at yet, with how many steps lead there.
    pending: VecDeque<(Pending, u16)>,
    /// Aliases that name themselves: they are recipients as well.
    stands_for_itself: BTreeSet<Mailbox>,
    members: Vec<Member>,
    /// Whether lists are asked for their owners.
    has_owners: bool,
    /// What was looked at so far.
    steps: u32,
    /// Among the large ones that are expanded at once.
    place: Option<Permit>,
}

impl Expansion {
    /// The members, each with who answers for its list.
    fn into_members(self, owners: &BTreeMap<Mailbox, Arc<Owner>>) -> Rc<[Expanded]> {
        let one = |(mailbox, owner): Member| {
            (mailbox, owner.and_then(|owner| owners.get(&owner.address).cloned()))
        };
        self.members.into_iter().map(one).collect()
    }
}

/// Members as recipients of the message. What the sender wants to be told of the recipient it wants to be told
/// of them (RFC 3461 §5.2.7.1), by the name that it knows.
fn substitutes(members: &[Expanded], recipient: &Recipient) -> Box<[ExpandedRecipient]> {
    let (notify, orcpt) = (recipient.notify, &recipient.orcpt);
    let one = |(mailbox, owner): &Expanded| ExpandedRecipient {
        recipient: Recipient { mailbox: mailbox.clone(), notify, orcpt: orcpt.clone() },
        owner: owner.clone(),
    };
    members.iter().map(one).collect()
}

/// Returns true if a key has nothing in its local part that would need quotes.
fn is_plain(key: &str) -> bool {
    key.rsplit_once('@').is_none_or(|(local, _)| local.is_empty() || is_dot_string(local))
}
