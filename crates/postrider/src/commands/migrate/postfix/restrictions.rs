//! smtpd_*_restrictions as access rules, checks and policy services.

use super::access::AccessRule;
use super::intake::{Checks, Intake};
use super::limits::seconds;
use super::milters::service_address;
use super::moving::Moving;
use super::values::{MapName, Parameter, inside, words};
use crate::commands::migrate::new_config::{Keys, list};

/// Longest timeout of a policy service here.
const POLICY_SECONDS_MAX: u64 = 90;

/// A list of restrictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RestrictionList {
    Client,
    Helo,
    Sender,
    Relay,
    Recipient,
    Data,
    EndOfData,
    Etrn,
}

impl RestrictionList {
    const ALL: [RestrictionList; 8] = [
        RestrictionList::Client,
        RestrictionList::Helo,
        RestrictionList::Sender,
        RestrictionList::Relay,
        RestrictionList::Recipient,
        RestrictionList::Data,
        RestrictionList::EndOfData,
        RestrictionList::Etrn,
    ];

    fn parameter(self) -> &'static str {
        match self {
            RestrictionList::Client => "smtpd_client_restrictions",
            RestrictionList::Helo => "smtpd_helo_restrictions",
            RestrictionList::Sender => "smtpd_sender_restrictions",
            RestrictionList::Relay => "smtpd_relay_restrictions",
            RestrictionList::Recipient => "smtpd_recipient_restrictions",
            RestrictionList::Data => "smtpd_data_restrictions",
            RestrictionList::EndOfData => "smtpd_end_of_data_restrictions",
            RestrictionList::Etrn => "smtpd_etrn_restrictions",
        }
    }

    /// The list of access rules here.
    pub(super) fn list(self) -> &'static str {
        match self {
            RestrictionList::Client => "client",
            RestrictionList::Helo => "helo",
            RestrictionList::Sender => "sender",
            _ => "recipient",
        }
    }
}

/// A walk through one list of some listeners.
struct ListWalk<'a> {
    of: Parameter,
    stage: RestrictionList,
    /// Names of the listeners; none for all.
    listeners: Option<Vec<String>>,
    /// permit_mynetworks, and permit_sasl_authenticated, have been seen.
    skips_networks: bool,
    skips_logins: bool,
    has_logins: bool,
    has_networks: bool,
    /// warn_if_reject stands before the restriction.
    only_warns: bool,
    /// An access rule stands before.
    has_rule: bool,
    checks: Checks,
    classes: &'a [String],
    depth: u32,
}

/// Translates all lists of all listeners.
pub(super) fn write(m: &mut Moving, all: &mut [Intake]) {
    let classes = m.get("smtpd_restriction_classes");
    m.carried(&classes, "its classes, where access tables use them");
    let classes = classes.words();
    for intake in all.iter_mut() {
        // Users alone send at a submission listener.
        intake.has_networks = !intake.is_submission && networks_relay(m, intake);
    }
    for stage in RestrictionList::ALL {
        let mut groups: Vec<(Parameter, Vec<usize>)> = Vec::new();
        for (index, intake) in all.iter().enumerate() {
            let of = intake.get(m, stage.parameter());
            match groups.iter_mut().find(|(known, indices)| {
                known.text == of.text && all[indices[0]].is_submission == intake.is_submission
            }) {
                Some((_, indices)) => indices.push(index),
                None => groups.push((of, vec![index])),
            }
        }
        let is_one = groups.len() == 1;
        for (of, indices) in groups {
            let names = indices.iter().flat_map(|index| all[*index].names.clone()).collect();
            let mut walk = ListWalk {
                stage,
                listeners: (!is_one).then_some(names),
                skips_networks: false,
                skips_logins: false,
                has_logins: all[indices[0]].is_submission,
                has_networks: indices.iter().any(|index| all[*index].has_networks),
                only_warns: false,
                has_rule: false,
                checks: Checks::default(),
                classes: &classes,
                depth: 0,
                of,
            };
            let list = walk.of.words();
            walk.list(m, &list);
            m.carried(&walk.of, "rules, checks and services, as far as no other row names one");
            for index in indices {
                let checks = &mut all[index].checks;
                checks.keys.extend(&walk.checks.keys);
                checks.lists.extend(walk.checks.lists.clone());
                checks.helo_lists.extend(walk.checks.helo_lists.clone());
                checks.sender_lists.extend(walk.checks.sender_lists.clone());
                checks.has_owners |= walk.checks.has_owners;
                checks.relays_certificates |= walk.checks.relays_certificates;
            }
        }
    }
}

/// Returns true if clients of mynetworks may relay at this listener.
fn networks_relay(m: &Moving, intake: &Intake) -> bool {
    let permits = |name: &str| {
        let words = intake.get(m, name).words();
        let at = words.iter().position(|word| word == "permit_mynetworks");
        let end = words.iter().position(|word| {
            matches!(
                word.as_str(),
                "reject" | "reject_unauth_destination" | "defer_unauth_destination" | "defer"
            )
        });
        match (at, end) {
            (Some(at), Some(end)) => at < end,
            (Some(_), None) => true,
            (None, end) => end.is_none(),
        }
    };
    let relay = !intake.get(m, "smtpd_relay_restrictions").is_empty();
    let recipient = intake.get(m, "smtpd_recipient_restrictions");
    // Both lists are empty with the defaults of Postfix before 2.10, which permitted mynetworks.
    let has_networks = recipient.words().iter().any(|word| word == "permit_mynetworks");
    permits("smtpd_recipient_restrictions")
        && (!relay || permits("smtpd_relay_restrictions"))
        && (relay || recipient.is_empty() || has_networks)
}

impl ListWalk<'_> {
    fn list(&mut self, m: &mut Moving, list: &[String]) {
        self.depth += 1;
        let mut rest = list.iter();
        while let Some(word) = rest.next() {
            let word = inside(word).to_owned();
            if word == "warn_if_reject" {
                self.only_warns = true;
                continue;
            }
            let is_end = match word.split_once(char::is_whitespace) {
                // `{ check_policy_service inet:…, timeout=… }`
                Some((name, argument)) => {
                    self.restriction(m, name, Some(argument.trim().to_owned()))
                }
                None if takes_argument(&word) => {
                    let argument = rest.next().cloned();
                    self.restriction(m, &word, argument)
                }
                None => self.restriction(m, &word, None),
            };
            self.only_warns = false;
            if is_end {
                break;
            }
        }
        self.depth -= 1;
    }

    /// Clients to which a rule at this place applies.
    fn clients(&self) -> &'static str {
        let networks = self.skips_networks || !self.has_networks;
        let logins = self.skips_logins || !self.has_logins;
        let is_any_skipped = self.skips_networks || self.skips_logins;
        if networks && logins && is_any_skipped { "strangers" } else { "all" }
    }

    /// Translates one restriction; returns true if no later one of the list is evaluated.
    fn restriction(&mut self, m: &mut Moving, name: &str, argument: Option<String>) -> bool {
        match name {
            "permit_mynetworks" => self.skips_networks = true,
            "permit_sasl_authenticated" => self.skips_logins = true,
            "permit" => return true,
            "reject" | "defer" => {
                self.refuse_all(m, name);
                return true;
            }
            "permit_tls_clientcerts" | "permit_tls_all_clientcerts" => {
                self.checks.relays_certificates = true;
            }
            "reject_unauth_destination"
            | "defer_unauth_destination"
            | "reject_non_fqdn_recipient"
            | "reject_unlisted_recipient"
            | "check_relay_domains" => {}
            "permit_auth_destination"
            | "permit_inet_interfaces"
            | "permit_mx_backup"
            | "permit_naked_ip_address" => {
                self.stricter(m, name, "later rules apply to these clients and recipients, too");
            }
            "check_policy_service" => self.policy(m, &argument.unwrap_or_default()),
            "reject_rbl_client"
            | "reject_rhsbl_helo"
            | "reject_rhsbl_sender"
            | "permit_dnswl_client" => self.block_list(m, name, &argument.unwrap_or_default()),
            "sleep" => self.stricter(m, "sleep", "there is no pause; `greeting_delay` has one"),
            _ if self.check(m, name) => {}
            _ if name.starts_with("check_") => {
                self.access(m, name, &argument.unwrap_or_default());
            }
            _ if self.classes.iter().any(|class| class == name) && self.depth < 10 => {
                let class = m.get(name);
                self.list(m, &class.words());
            }
            // A table alone is that of the list's own kind.
            _ if MapName::parse(name).is_some() => {
                let check = format!("check_{}_access", self.stage.list());
                self.access(m, &check, name);
            }
            _ => self.unknown(m, name, argument.as_deref()),
        }
        false
    }

    fn named(&self, name: &str) -> Parameter {
        Parameter { name: format!("{}: {name}", self.of.name), is_set: true, ..self.of.clone() }
    }

    fn stricter(&self, m: &mut Moving, name: &str, why: &str) {
        m.different(&self.named(name), why, "");
    }

    fn unknown(&self, m: &mut Moving, name: &str, argument: Option<&str>) {
        let shown =
            argument.map_or_else(|| name.to_owned(), |argument| format!("{name} {argument}"));
        let remedy = match name {
            "reject_unverified_recipient" => {
                "`recipients` with a table of kind `call_ahead`: docs/tables.md"
            }
            "reject_unknown_reverse_client_hostname" => {
                "`client_name` of `checks`, which asks more"
            }
            "reject_unknown_recipient_domain" => {
                "nothing: the mail is bounced with the DNS's answer"
            }
            "reject_unauth_pipelining" => {
                "`early_talkers` of the listener refuses input before the greeting"
            }
            _ => "see docs/checks.md and docs/access.md",
        };
        if name.starts_with("permit") || self.only_warns {
            m.missing(&self.named(&shown), "it has no counterpart", remedy);
        } else {
            m.open(&self.named(&shown), "it has no counterpart: its mail is accepted", remedy);
        }
    }

    /// `reject` for all clients that are left.
    fn refuse_all(&self, m: &mut Moving, name: &str) {
        if self.only_warns || self.has_logins && self.skips_logins {
            // The listener accepts mail after a login only.
            return;
        }
        if matches!(
            self.stage,
            RestrictionList::Data | RestrictionList::EndOfData | RestrictionList::Etrn
        ) {
            m.open(&self.named(name), "there are no rules at this stage", "a rule by recipient");
            return;
        }
        let action = if name == "reject" { "REJECT" } else { "DEFER" };
        let path = m.made_file(&format!("{name}-all"), format!("/^/ {action}\n"), false);
        let table = m.config.table(&format!("{name}-all"), "regexp", &super::maps::path_key(&path));
        self.rule(m, &AccessRule { table, by: "client", has_parents: false });
    }

    /// Writes an access rule.
    fn rule(&self, m: &mut Moving, rule: &AccessRule) {
        let mut keys = Keys::new();
        keys.text("table", &rule.table).text("by", rule.by).text("clients", self.clients());
        keys.text("list", self.stage.list());
        if rule.has_parents {
            keys.set("parent_domains", "true");
        }
        if let Some(names) = &self.listeners {
            keys.set("listeners", list(names));
        }
        m.config.section("[[access]]", keys);
    }

    fn access(&mut self, m: &mut Moving, name: &str, argument: &str) {
        let by = match name {
            "check_client_access" => "client",
            "check_helo_access" => "helo",
            "check_sender_access" => "sender",
            "check_recipient_access" => "recipient",
            _ => return self.unknown(m, name, Some(argument)),
        };
        if self.only_warns {
            return self.stricter(m, &format!("warn_if_reject {name}"), "the rule is left out");
        }
        if matches!(
            self.stage,
            RestrictionList::Data | RestrictionList::EndOfData | RestrictionList::Etrn
        ) {
            return self.unknown(m, name, Some(argument));
        }
        let argument = words(inside(argument)).into_iter().next().unwrap_or_default();
        let of = self.named(&format!("{name} {argument}"));
        let Some(map) = MapName::parse(&argument) else {
            m.site.trouble(&of.origin, format!("{name}: {argument:?} is no table"));
            return;
        };
        for rule in super::access::rules(m, &of, &map, by, self.classes) {
            self.rule(m, &rule);
        }
        self.has_rule = true;
    }

    fn policy(&mut self, m: &mut Moving, argument: &str) {
        let mut parts = words(inside(argument)).into_iter();
        let service = parts.next().unwrap_or_default();
        let of = self.named(&format!("check_policy_service {service}"));
        let name = service.rsplit('/').next().unwrap_or_default().to_owned();
        let is_spawned =
            m.site.services.iter().any(|one| one.name == name && one.command == "spawn");
        let remedy = if name.contains("spf") {
            "`spf` of `checks`, or run the program under another supervisor with `[[policy]]`"
        } else {
            "run the program under another supervisor, then `[[policy]]`"
        };
        if is_spawned {
            return m.open(&of, "the program is started by master.cf (spawn)", remedy);
        }
        if matches!(
            self.stage,
            RestrictionList::Data | RestrictionList::EndOfData | RestrictionList::Etrn
        ) {
            return m.open(&of, "policy services are asked at RCPT only", "a milter");
        }
        if self.only_warns {
            return self.stricter(
                m,
                "warn_if_reject check_policy_service",
                "the service is not asked",
            );
        }
        let Some(address) = service_address(m, &service) else {
            return m.open(
                &of,
                "the address of the service is not known here",
                "`[[policy]]` with an IP address",
            );
        };
        let mut keys = Keys::new();
        keys.text("service", &address).text("clients", self.clients());
        let mut action = m.get("smtpd_policy_service_default_action").text;
        let mut time = m.get("smtpd_policy_service_timeout").text;
        for option in parts {
            match inside(&option).split_once('=') {
                Some((name, value)) if name.trim() == "default_action" => {
                    value.trim().clone_into(&mut action)
                }
                Some((name, value)) if name.trim() == "timeout" => {
                    value.trim().clone_into(&mut time)
                }
                _ => {}
            }
        }
        let accepts = ["dunno", "ok", "permit"].contains(&action.to_ascii_lowercase().as_str());
        keys.text("on_failure", if accepts { "accept" } else { "defer" });
        if let Some(time) = seconds(&time, 1).filter(|time| *time > 0) {
            keys.text("timeout", &format!("{}s", time.min(POLICY_SECONDS_MAX)));
        }
        if let Some(names) = &self.listeners {
            keys.set("listeners", list(names));
        }
        m.config.section("[[policy]]", keys);
        if self.has_rule {
            let why = "it is asked about mail that a rule before it permits, too";
            m.different(&of, why, "exempt these clients in the service");
        }
    }

    fn block_list(&mut self, m: &mut Moving, name: &str, argument: &str) {
        let zone = argument.trim().to_owned();
        match name {
            _ if self.only_warns => {
                return self.stricter(
                    m,
                    &format!("warn_if_reject {name}"),
                    "the list is not asked",
                );
            }
            "permit_dnswl_client" => self.checks.lists.push(format!("{zone}*-1000")),
            "reject_rbl_client" => self.checks.lists.push(zone.clone()),
            "reject_rhsbl_helo" => self.checks.helo_lists.push(zone.clone()),
            _ => self.checks.sender_lists.push(zone.clone()),
        }
        self.of_strangers(m, &format!("{name} {zone}"));
    }

    /// Checks concern clients that may not relay.
    fn of_strangers(&self, m: &mut Moving, name: &str) {
        let is_of_users = self.has_logins && !self.skips_logins;
        if is_of_users || self.has_networks && !self.skips_networks {
            let why = "clients that may relay or have logged in are not checked";
            m.open(&self.named(name), why, "a separate listener without `relay_from`");
        }
    }

    /// A restriction that is a key of `checks`; returns false if it is none.
    fn check(&mut self, m: &mut Moving, name: &str) -> bool {
        let key = match name {
            "reject_non_fqdn_helo_hostname"
            | "reject_non_fqdn_hostname"
            | "reject_invalid_helo_hostname"
            | "reject_invalid_hostname" => "helo_fqdn",
            "reject_non_fqdn_sender" => "sender_fqdn",
            "reject_unknown_sender_domain" => "sender_domain",
            "reject_unknown_client_hostname" | "reject_unknown_client" => "client_name",
            "reject_multi_recipient_bounce" => "multi_recipient_bounce",
            "reject_sender_login_mismatch"
            | "reject_authenticated_sender_login_mismatch"
            | "reject_known_sender_login_mismatch" => {
                self.checks.has_owners = true;
                if !self.has_logins && name != "reject_authenticated_sender_login_mismatch" {
                    let why = "clients without a login may use the addresses of users";
                    m.open(&self.named(name), why, "`own_domains` of `checks`");
                }
                return true;
            }
            "reject_plaintext_session" if self.has_logins => return true,
            _ => return false,
        };
        let action = if self.only_warns { "mark" } else { "reject" };
        self.checks.keys.text(key, action);
        if matches!(key, "sender_domain" | "client_name") {
            self.checks.keys.text("temporary", "defer");
        }
        self.of_strangers(m, name);
        true
    }
}

fn takes_argument(name: &str) -> bool {
    name.starts_with("check_")
        || matches!(
            name,
            "reject_rbl_client"
                | "reject_rhsbl_client"
                | "reject_rhsbl_helo"
                | "reject_rhsbl_sender"
                | "reject_rhsbl_recipient"
                | "reject_rhsbl_reverse_client"
                | "reject_maps_rbl"
                | "permit_dnswl_client"
                | "permit_rhswl_client"
                | "sleep"
        )
}

/// relocated_maps, and mail that a transport refuses.
pub(super) fn relocated(m: &mut Moving) {
    let of = m.get("relocated_maps");
    let mut text = "# Made from relocated_maps of Postfix.\n".to_owned();
    let mut is_used = false;
    for map in m.maps(&of) {
        let Some(entries) = m.map_entries(&of, &map) else {
            let why = format!("{}:{} is not read here", map.kind, map.name);
            m.open(&of, &why, "an access table with REJECT 5.1.6 …");
            continue;
        };
        for entry in entries {
            is_used = true;
            let key = entry.key.strip_prefix('@').unwrap_or(&entry.key);
            text.push_str(&format!("{key} REJECT 5.1.6 The user has moved to {}\n", entry.value));
        }
    }
    if is_used {
        let path = m.made_file("relocated", text, false);
        let name = m.config.table("relocated", "file", &super::maps::path_key(&path));
        let mut keys = Keys::new();
        keys.text("table", &name).text("by", "recipient").text("clients", "all");
        m.config.section("[[access]]", keys);
        m.different(
            &of,
            "a copy as an access table; the file is not read later",
            "change the copy",
        );
    }
    if let Some(name) = m.refused_outside.clone() {
        let mut keys = Keys::new();
        keys.text("table", &name).text("by", "recipient").text("clients", "all");
        m.config.section("[[access]]", keys);
    }
}
