//! TLS and logins at next hops: smtp_tls_…, smtp_sasl_….

use super::master::Service;
use super::moving::Moving;
use super::next_hops::{HopUse, in_brackets};
use super::transports::Target;
use super::values::{MapEntry, Parameter};
use crate::commands::migrate::new_config::Keys;

/// The value of `tls` for a level of Postfix.
fn level(word: &str) -> Option<&'static str> {
    Some(match word {
        "none" | "" => "off",
        "may" => "opportunistic",
        "encrypt" => "required",
        "verify" | "secure" | "fingerprint" => "verified",
        "dane" | "dane-only" => "dane",
        _ => return None,
    })
}

impl Moving {
    /// Entries of smtp_tls_policy_maps.
    fn tls_policies(&self) -> Vec<MapEntry> {
        let of = self.get("smtp_tls_policy_maps");
        let maps = self.maps(&of);
        maps.iter().filter_map(|map| self.map_entries(&of, map)).flatten().collect()
    }

    pub(super) fn has_tls_policy(&self, domain: &str) -> bool {
        self.tls_policies().iter().any(|entry| entry.key.eq_ignore_ascii_case(domain))
    }

    /// Domains with a policy, not hosts.
    pub(super) fn tls_policy_domains(&self) -> Vec<String> {
        let policies = self.tls_policies().into_iter().map(|entry| entry.key.to_ascii_lowercase());
        policies.filter(|key| !key.contains(['[', ':', '@'])).collect()
    }

    /// Keys for TLS and a login with this target.
    pub(super) fn tls_out(
        &mut self,
        service: &Service,
        target: &Target,
        usage: &HopUse<'_>,
        keys: &mut Keys,
    ) {
        let (of, word) = self.tls_level(service, target, usage.policy);
        let mut tls = level(&word).unwrap_or("verified");
        self.explain_level(&of, &word);
        let is_implicit = self.site.get_at(Some(service), "smtp_tls_wrappermode");
        if is_implicit.is_yes() {
            keys.text("tls_start", "implicit");
            tls = if matches!(tls, "off" | "opportunistic") { "required" } else { tls };
            self.carried(&is_implicit, "`tls_start` of the routes");
        }
        if let Some(login) = self.login(service, target, usage) {
            let is_here = in_brackets(&target.nexthop)
                .is_some_and(|host| host.starts_with("127.") || host.starts_with("localhost"));
            if matches!(tls, "off" | "opportunistic") && !is_here {
                tls = "required";
                let why = "a login is sent over TLS only; mail waits while TLS fails";
                self.different(&of, why, "");
            }
            keys.set("login", login.inline());
        }
        if tls == "dane" {
            self.dane(&of);
        }
        keys.text("tls", tls);
    }

    /// The parameter that decides about TLS, and its level.
    fn tls_level(
        &mut self,
        service: &Service,
        target: &Target,
        domain: Option<&str>,
    ) -> (Parameter, String) {
        let of = self.site.get_at(Some(service), "smtp_tls_policy_maps");
        let wanted = domain.map_or_else(|| target.nexthop.clone(), |d| d.replacen("*.", ".", 1));
        for map in self.maps(&of) {
            match self.map_entries(&of, &map) {
                Some(entries) => {
                    let found =
                        entries.into_iter().find(|entry| entry.key.eq_ignore_ascii_case(&wanted));
                    if let Some(entry) = found {
                        let why = "`tls` of a route for each policy; the file is not read later";
                        self.different(&of, why, "change the routes instead of the file");
                        let word = entry.value.split_whitespace().next().unwrap_or_default();
                        return (of, word.to_owned());
                    }
                }
                None => {
                    let why = format!("{}:{} is not read here", map.kind, map.name);
                    let remedy = "`tls = \"mta-sts\"` of an `mx` route, or a route for each policy";
                    self.missing(&of, &why, remedy);
                }
            }
        }
        let of = self.site.get_at(Some(service), "smtp_tls_security_level");
        if !of.is_empty() {
            let word = of.text.trim().to_owned();
            return (of, word);
        }
        let get = |name| self.site.get_at(Some(service), name);
        let (enforce, usual) = (get("smtp_enforce_tls"), get("smtp_use_tls"));
        match (enforce.is_yes(), usual.is_yes()) {
            (true, _) => (enforce, "verify".to_owned()),
            (false, true) => (usual, "may".to_owned()),
            (false, false) => (of, String::new()),
        }
    }

    fn explain_level(&mut self, of: &Parameter, word: &str) {
        match word {
            "fingerprint" => {
                let why =
                    "certificates are verified by the machine's authorities, not by fingerprint";
                self.missing(of, why, "`tls = \"verified\"` needs a valid certificate of the host");
            }
            "dane-only" => {
                let why = "hosts without TLSA records get mail with opportunistic TLS";
                self.different(
                    of,
                    why,
                    "`tls = \"verified\"` for hosts that must be authenticated",
                );
            }
            word if level(word).is_none() => {
                let why = format!("{word:?} is no level; `tls` is \"verified\"");
                self.missing(of, &why, "set `tls` of the route");
            }
            _ => self.carried(of, "`tls` of the routes"),
        }
    }

    /// DANE trusts the name servers.
    fn dane(&mut self, of: &Parameter) {
        let support = self.get("smtp_dns_support_level");
        if support.text == "dnssec" {
            self.carried(&support, "`validating` of [dns]");
        } else {
            let why = "DANE needs validating name servers (`validating` of [dns])";
            self.different(of, why, "use a validating resolver on this machine");
        }
        self.needs_dnssec = true;
    }

    /// Keys of `login`, if Postfix would log in there.
    fn login(&mut self, service: &Service, target: &Target, usage: &HopUse<'_>) -> Option<Keys> {
        let is_on = self.site.get_at(Some(service), "smtp_sasl_auth_enable");
        let of = self.site.get_at(Some(service), "smtp_sasl_password_maps");
        if !is_on.is_yes() || of.is_empty() || target.nexthop.is_empty() {
            return None;
        }
        let by_sender = self.site.get_at(Some(service), "smtp_sender_dependent_authentication");
        let known = self.keys_of("smtp_sasl_password_maps", service);
        let host = in_brackets(&target.nexthop).unwrap_or_else(|| target.nexthop.clone());
        let bare = host.rsplit_once(':').map_or(host.as_str(), |(host, _)| host).to_owned();
        let is_host =
            |key: &String| [&target.nexthop, &host, &bare, &format!("[{bare}]")].contains(&key);
        let has_host = known.as_ref().is_none_or(|keys| keys.iter().any(is_host));
        let senders: Vec<String> = known.unwrap_or_default();
        let is_sent = |sender: &String| match usage.senders {
            None => sender.contains('@'),
            Some(relay) => {
                let domain = sender.rsplit('@').next().unwrap_or_default();
                relay.contains(sender) || relay.contains(&format!("@{domain}"))
            }
        };
        let has_sender = by_sender.is_yes() && target.is_by_sender && senders.iter().any(is_sent);
        if !has_host && !has_sender {
            return None;
        }
        let (table, _) = self.table_of(&of);
        let mut login = Keys::new();
        login.text("table", &table?);
        if has_sender {
            login.text("key", "sender");
            self.carried(&by_sender, "`key` of `login`");
            if !has_host {
                let why =
                    "mail of senders without an entry waits; Postfix sends it without a login";
                self.different(
                    &by_sender,
                    why,
                    "an entry for the host, or a route for these senders",
                );
            }
        }
        self.carried(&is_on, "`login` of the routes");
        self.carried(&of, "`login` of the routes, with the table as it is");
        Some(login)
    }
}
