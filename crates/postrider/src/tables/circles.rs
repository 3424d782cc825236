//! Circles of aliases over several files: table files, and lists (`:include:`) that aliases name. Circles within a table
//! file are found when it is read.

use super::entry_checks::{FOLLOWED_MAX, address_of, completion, is_part};
use super::lists;
use config::{Config, Route, TableEntry};
use lookup::{EntryText, Flaw, Table, fold};
use mail::Mailbox;
use mta::ingress::{MemberToken, completed, members};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A table in this process, with its file.
pub(super) struct OpenTable<'a> {
    pub(super) table: &'a dyn Table,
    pub(super) path: Option<&'a Path>,
}

/// Warnings about circles over several files, a sentence each. `open`: returns a table in this process by its name.
pub(super) fn warnings<'a>(
    config: &'a Config,
    open: &'a dyn Fn(&str) -> Option<OpenTable<'a>>,
) -> Vec<String> {
    let with_aliases = || config.routes.iter().filter(|route| route.aliases.is_some());
    let is_used = |entry: &Arc<TableEntry>| {
        let mut uses = with_aliases().filter_map(|route| route.aliases.as_ref());
        uses.any(|whole| is_part(whole, entry))
    };
    let files = config.tables.iter().filter(|entry| is_used(entry)).count();
    if files < 2 && with_aliases().all(|route| route.include.is_empty()) {
        return Vec::new();
    }
    let search =
        CircleSearch { config, open, lists: RefCell::default(), reported: RefCell::default() };
    let used = config.tables.iter().filter(|entry| is_used(entry));
    used.flat_map(|entry| search.table(entry)).collect()
}

/// The search through all tables.
struct CircleSearch<'a> {
    config: &'a Config,
    open: &'a dyn Fn(&str) -> Option<OpenTable<'a>>,
    /// Lists, with their text. `None`: an unreadable one, reported when it is used.
    lists: RefCell<BTreeMap<PathBuf, Option<Arc<str>>>>,
    /// Addresses in reported circles: each circle is reported once.
    reported: RefCell<BTreeSet<String>>,
}

/// An address that an alias leads to.
struct Visit {
    address: Mailbox,
    /// It is a member of the alias of a domain.
    is_of_domain: bool,
    /// Position of the address that leads to it.
    parent: Option<usize>,
    /// Files other than that of the start that lead to it.
    files: Vec<String>,
}

/// The members of an address.
struct Next {
    /// Each with the list that it was read from.
    members: Vec<(Mailbox, Option<PathBuf>)>,
    /// They are members of the alias of a domain.
    is_of_domain: bool,
    table: Arc<str>,
}

impl CircleSearch<'_> {
    /// The circles that begin in a table file.
    fn table(&self, entry: &TableEntry) -> Vec<String> {
        let path = (self.open)(&entry.name).and_then(|open| open.path);
        let (Some(path), Some(local)) = (path, channels::local(&*entry.settings)) else {
            return Vec::new();
        };
        let content = std::fs::read(path).unwrap_or_default();
        if content.len() > local.file_bytes_max() {
            return Vec::new();
        }
        let found = RefCell::new(BTreeSet::new());
        let judge = |text: &EntryText<'_>| match text.key.and_then(|key| self.circle(key, entry)) {
            Some(circle) => {
                found.borrow_mut().insert(circle.clone());
                Err(Flaw::Text(circle))
            }
            None => Ok(()),
        };
        // Read again, because the positions of entries are not kept.
        let Ok(again) = local.make(&content, &judge) else { return Vec::new() };
        let (found, shown) = (found.into_inner(), path.display());
        let of_circles = again.warnings().iter().filter(|one| found.contains(&*one.text));
        of_circles.map(|one| format!("table {}: {shown}:{one}", entry.name)).collect()
    }

    /// Follows an alias through the tables and lists of its members' routes.
    fn circle(&self, key: &str, table: &TableEntry) -> Option<String> {
        let start = address_of(key)?;
        let route = self.route(&start)?;
        if !route.aliases.as_ref().is_some_and(|whole| is_part(whole, table))
            || self.reported.borrow().contains(&*fold(start.as_str()))
        {
            return None;
        }
        let entry = (self.open)(&table.name)?.table.find(key).ok()??;
        let members = self.members(route, (key, start.local()), &entry.text);
        if has(&members, &start) {
            return None;
        }
        let is_of_domain = key.starts_with('@');
        let mut visits: Vec<Visit> = Vec::new();
        let mut seen = BTreeSet::new();
        let first = Next { members, is_of_domain, table: Arc::clone(&table.name) };
        push(&mut visits, &mut seen, None, first, &table.name);
        let mut at = 0;
        while let Some(visit) = visits.get(at) {
            let next = self.next(&visit.address, visit.is_of_domain);
            if let Some(next) = next.filter(|next| !has(&next.members, &visit.address)) {
                let back = next.members.iter().find(|(member, _)| is_same(member, &start));
                if let Some((_, list)) = back {
                    let files = files_of(visit, &next.table, list.as_deref(), &table.name);
                    if !files.is_empty() {
                        return Some(self.report(key, &start, (&visits, at), &files));
                    }
                }
                push(&mut visits, &mut seen, Some(at), next, &table.name);
            }
            at += 1;
        }
        None
    }

    /// The text of a circle, which is not reported again.
    fn report(
        &self,
        key: &str,
        start: &Mailbox,
        (visits, last): (&[Visit], usize),
        files: &[String],
    ) -> String {
        let mut reported = self.reported.borrow_mut();
        reported.insert(fold(start.as_str()).into_owned());
        let mut at = Some(last);
        while let Some(visit) = at.and_then(|at| visits.get(at)) {
            reported.insert(fold(visit.address.as_str()).into_owned());
            at = visit.parent;
        }
        let through = visits.get(last).map(|visit| visit.address.to_string()).unwrap_or_default();
        let files = files.join(" and ");
        format!(
            "\"{key}\" leads back to itself through {through}, over {files}; change one of the lines"
        )
    }

    /// Finds the route with the aliases for an address. Domains in tables are left out.
    fn route(&self, address: &Mailbox) -> Option<&Route> {
        let has_domain_tables = self.config.domain_tables().next().is_some();
        let (index, route) = self.config.route_of(address, None)?;
        let is_sure =
            !has_domain_tables || self.config.named(&address.domain(), None) == Some(index);
        is_sure.then_some(&**route)
    }

    /// The members of an address.
    fn next(&self, address: &Mailbox, is_of_domain: bool) -> Option<Next> {
        let route = self.route(address)?;
        let aliases = route.aliases.as_ref()?;
        let own = self.find(aliases, address.as_str());
        let by_domain = own.is_none();
        let domain = format!("@{}", address.domain_str());
        let of_domain = || self.find(aliases, &domain).filter(|_| is_of_domain);
        let (text, table) = own.or_else(of_domain)?;
        let members = self.members(route, (address.as_str(), address.local()), &text);
        Some(Next { members, is_of_domain: by_domain, table })
    }

    /// The text of a key, and the name of the table or part that has it.
    fn find(&self, whole: &TableEntry, key: &str) -> Option<(Box<str>, Arc<str>)> {
        match (self.open)(&whole.name) {
            Some(OpenTable { table, .. }) => {
                let entry = table.find(key).ok()??;
                Some((entry.text, Arc::clone(&whole.name)))
            }
            None => whole.parts.iter().find_map(|part| self.find(part, key)),
        }
    }

    /// The members of an alias, with those of its lists.
    fn members(
        &self,
        route: &Route,
        (key, local): (&str, &str),
        text: &str,
    ) -> Vec<(Mailbox, Option<PathBuf>)> {
        let origin = completion(route.origin.as_ref(), &self.config.hostname, key).1;
        let mut found = Vec::new();
        let mut pending: Vec<(Arc<str>, Option<PathBuf>)> = vec![(text.into(), None)];
        let mut read = BTreeSet::new();
        while let Some((text, list)) = pending.pop() {
            for member in members(&text) {
                match member {
                    MemberToken::Address(text) => {
                        let member = completed(&text, local, &origin);
                        found.extend(member.map(|member| (member, list.clone())));
                    }
                    MemberToken::List(path) => {
                        let path = PathBuf::from(&*path);
                        let text = self.list(route, &path).filter(|_| read.insert(path.clone()));
                        pending.extend(text.map(|text| (text, Some(path))));
                    }
                    MemberToken::Bad(_) => {}
                }
            }
        }
        found
    }

    /// The text of a list.
    fn list(&self, route: &Route, path: &Path) -> Option<Arc<str>> {
        let directory = route.include.iter().find(|directory| path.starts_with(directory))?;
        let mut lists = self.lists.borrow_mut();
        let read = || lists::read(directory, path).ok().flatten().map(Arc::from);
        lists.entry(path.to_owned()).or_insert_with(read).clone()
    }
}

/// Adds the members that are new, up to a number.
fn push(
    visits: &mut Vec<Visit>,
    seen: &mut BTreeSet<String>,
    parent: Option<usize>,
    next: Next,
    own: &str,
) {
    for (address, list) in next.members {
        if seen.len() >= FOLLOWED_MAX || !seen.insert(fold(address.as_str()).into_owned()) {
            continue;
        }
        let files = match parent.and_then(|at| visits.get(at)) {
            Some(parent) => files_of(parent, &next.table, list.as_deref(), own),
            None => list.iter().map(|list| list.display().to_string()).collect(),
        };
        visits.push(Visit { address, is_of_domain: next.is_of_domain, parent, files });
    }
}

/// The files up to an address and its members, without the table `own`.
fn files_of(visit: &Visit, table: &str, list: Option<&Path>, own: &str) -> Vec<String> {
    let mut files = visit.files.clone();
    let table = (table != own).then(|| format!("table \"{table}\""));
    let list = list.map(|list| list.display().to_string());
    for file in table.into_iter().chain(list) {
        if !files.contains(&file) {
            files.push(file);
        }
    }
    files
}

fn is_same(one: &Mailbox, other: &Mailbox) -> bool {
    fold(one.as_str()) == fold(other.as_str())
}

fn has(members: &[(Mailbox, Option<PathBuf>)], address: &Mailbox) -> bool {
    members.iter().any(|(member, _)| is_same(member, address))
}
