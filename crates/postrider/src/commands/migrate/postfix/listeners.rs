//! Listeners: services of smtpd(8) and postscreen(8) in master.cf.

use super::intake::{Checks, Intake};
use super::master::Service;
use super::moving::Moving;
use super::networks::networks;
use super::next_hops::port_number;
use super::values::{Parameter, words};
use crate::commands::migrate::new_config::{Keys, list, quoted};
use crate::commands::migrate::report::Verdict;

/// All services that accept mail.
pub(super) fn read(m: &mut Moving) -> Vec<Intake> {
    let services = m.site.services.clone();
    let behind = services.iter().find(|one| one.kind == "pass" && one.command == "smtpd");
    let mut all: Vec<Intake> = Vec::new();
    for service in services.iter().filter(|one| one.kind == "inet") {
        let options = match service.command.as_str() {
            "smtpd" => service.clone(),
            "postscreen" => behind.cloned().unwrap_or_else(|| service.clone()),
            _ => {
                report_other(m, service);
                continue;
            }
        };
        let addresses = addresses(m, service);
        if addresses.is_empty() {
            continue;
        }
        let taken: Vec<String> = all.iter().flat_map(|one| one.names.clone()).collect();
        let names = names(service, addresses.len(), &taken);
        let is_submission = is_submission(m, service, &options);
        let logins = m.site.get_at(Some(&options), "smtpd_sasl_auth_enable");
        if logins.is_yes() && !is_submission {
            let why = format!("no logins at {}: they need a listener for users", service.name);
            m.missing(
                &logins,
                &why,
                "`kind = \"submission\"` at port 587 or 465: docs/submission.md",
            );
        }
        let keys = Keys::new();
        let (checks, has_networks) = (Checks::default(), false);
        let service = Service { origin: service.origin.clone(), ..options };
        all.push(Intake { service, names, addresses, is_submission, has_networks, checks, keys });
    }
    if all.is_empty() {
        let at = m.site.services.first().map(|one| one.origin.clone()).unwrap_or_default();
        let why = "no service accepts mail; a listener at 127.0.0.1:2525 is written";
        m.note(Verdict::Different, &at, "master.cf", why, "change its address", false);
        all.push(Intake {
            service: Service::standard("smtp", "smtpd"),
            names: vec!["smtp".to_owned()],
            addresses: vec!["127.0.0.1:2525".to_owned()],
            is_submission: false,
            has_networks: false,
            checks: Checks::default(),
            keys: Keys::new(),
        });
    }
    all
}

fn names(service: &Service, count: usize, taken: &[String]) -> Vec<String> {
    let base = match service.name.as_str() {
        "25" | "smtp" => "smtp",
        "587" => "submission",
        "465" | "smtps" | "submissions" => "submissions",
        name => name,
    };
    let further = (2..).map(|number| format!("{base}-{number}"));
    let all = std::iter::once(base.to_owned()).chain(further);
    all.filter(|name| !taken.contains(name)).take(count).collect()
}

/// Services that accept mail by other means.
fn report_other(m: &mut Moving, service: &Service) {
    let subject = format!("service {}", service.name);
    let why = match service.command.as_str() {
        "qmqpd" => "QMQP is not available",
        "tlsproxy" | "dnsblog" => return,
        _ => "the service has no counterpart",
    };
    m.note(Verdict::Missing, &service.origin, &subject, why, "", false);
}

/// Addresses with ports of a service.
fn addresses(m: &mut Moving, service: &Service) -> Vec<String> {
    let (host, port) = match service.name.rsplit_once(':') {
        Some((host, port)) => (Some(host.trim_matches(['[', ']']).to_owned()), port),
        None => (None, service.name.as_str()),
    };
    let port = port_number(port);
    if port.parse::<u16>().is_err() {
        let why = format!("the port {port:?} is not known here");
        let subject = format!("service {}", service.name);
        m.note(
            Verdict::Missing,
            &service.origin,
            &subject,
            &why,
            "a `[[listener]]` with its number",
            false,
        );
        return Vec::new();
    }
    let hosts = match host {
        Some(host) if host == "localhost" => vec!["127.0.0.1".to_owned()],
        Some(host) => vec![host],
        None => interfaces(m, service),
    };
    let shown = |host: &String| match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    };
    hosts.iter().map(shown).collect()
}

/// Addresses of inet_interfaces.
pub(super) fn interfaces(m: &mut Moving, service: &Service) -> Vec<String> {
    let of = m.site.get_at(Some(service), "inet_interfaces");
    let protocols = m.site.get_at(Some(service), "inet_protocols");
    let has = |name: &str| protocols.words().iter().any(|word| word == "all" || word == name);
    let mut all = Vec::new();
    for word in of.words() {
        let both: [&str; 2] = match word.as_str() {
            "all" => ["0.0.0.0", "::"],
            "loopback-only" | "localhost" => ["127.0.0.1", "::1"],
            address => {
                let address = address.trim_matches(['[', ']']);
                match address.parse::<std::net::IpAddr>() {
                    Ok(_) => all.push(address.to_owned()),
                    Err(_) => {
                        let why = format!("the addresses of {address} are not known here");
                        m.missing(&of, &why, "a `[[listener]]` with the address");
                    }
                }
                continue;
            }
        };
        for (address, protocol) in both.iter().zip(["ipv4", "ipv6"]) {
            if has(protocol) {
                all.push((*address).to_owned());
            }
        }
    }
    m.carried(&of, "a `[[listener]]` for each address");
    m.carried(&protocols, "a `[[listener]]` for each address");
    all
}

/// Returns true if the service is for users with a login.
fn is_submission(m: &Moving, service: &Service, options: &Service) -> bool {
    let get = |name| m.site.get_at(Some(options), name);
    if !get("smtpd_sasl_auth_enable").is_yes() {
        return false;
    }
    let port = port_number(service.name.rsplit(':').next().unwrap_or_default());
    let refuses_others =
        ["smtpd_client_restrictions", "smtpd_relay_restrictions", "smtpd_recipient_restrictions"]
            .iter()
            .any(|name| {
                let words = get(name).words();
                words.iter().any(|word| word == "permit_sasl_authenticated")
                    && words.last().is_some_and(|word| word == "reject")
                    && !words.iter().any(|word| word == "permit_mynetworks")
            });
    matches!(port.as_str(), "587" | "465") || refuses_others
}

/// Writes the listeners.
pub(super) fn write(m: &mut Moving, all: &mut [Intake]) {
    for intake in all {
        if intake.is_submission && !super::tls_in::logins(m, intake) {
            continue;
        }
        keys(m, intake);
        let networks = networks(m);
        for (name, address) in intake.names.iter().zip(&intake.addresses) {
            let mut keys = Keys::new();
            keys.text("name", name).text("address", address);
            if intake.has_networks && !networks.is_empty() {
                keys.set("relay_from", list(&networks));
            }
            keys.extend(&intake.keys);
            m.config.section("[[listener]]", keys);
        }
        let subject = format!("service {}", intake.service.name);
        let origin = intake.service.origin.clone();
        m.note(Verdict::Carried, &origin, &subject, "a `[[listener]]`", "", false);
    }
}

/// Keys of a listener that have a parameter each.
fn keys(m: &mut Moving, intake: &mut Intake) {
    numbers(m, intake);
    super::tls_in::write(m, intake);
    super::milters::write(m, intake);
    if !intake.is_submission {
        intake.checks.clone().write(intake);
    }
    banner(m, intake);
    let origin = m.get("append_at_myorigin");
    if origin.is_yes() {
        // With `origin`, `far.test!user` would become an address of that domain; Postfix relays it to far.test.
        let why = "addresses without a domain are rejected";
        let remedy = format!("`origin = {}` of the listener", quoted(&m.get("myorigin").text));
        m.different(&origin, why, &remedy);
    }
    for (name, key) in [
        ("smtpd_authorized_xclient_hosts", "xclient_from"),
        ("smtpd_client_event_limit_exceptions", "exempt_from_limits"),
    ] {
        let of = intake.get(m, name);
        if of.is_set {
            let nets = super::networks::list_of(m, &of);
            if !nets.is_empty() {
                intake.set(key, list(&nets));
            }
            m.carried(&of, &format!("`{key}` of the listener"));
        }
    }
    let forwarded = intake.get(m, "smtpd_authorized_xforward_hosts");
    if !forwarded.is_empty() {
        m.missing(&forwarded, "XFORWARD is not available", "XCLIENT: docs/proxies.md");
    }
    let proxy = intake.get(m, "smtpd_upstream_proxy_protocol");
    if proxy.text == "haproxy" {
        let why = "only proxies in `proxy_protocol_from` may use the protocol; none is written";
        m.missing(&proxy, why, "set `proxy_protocol_from` of the listener");
    }
    let newline = intake.get(m, "smtpd_forbid_bare_newline");
    let is_normalized = matches!(newline.text.as_str(), "yes" | "normalize");
    if is_normalized {
        intake.set("bare_newline", "\"normalize\"");
    }
    m.carried(&newline, "`bare_newline` of the listener");
}

/// Sizes and counts.
fn numbers(m: &mut Moving, intake: &mut Intake) {
    for (name, key, least, unlimited) in [
        ("message_size_limit", "max_message_bytes", 65_536, "1_000_000_000"),
        ("smtpd_recipient_limit", "max_recipients", 100, "65535"),
        ("hopcount_limit", "max_hops", 1, "100"),
        ("smtpd_client_connection_count_limit", "max_sessions_per_address", 1, "1000000"),
        ("smtpd_hard_error_limit", "max_errors", 1, "1000000"),
    ] {
        let of = intake.get(m, name);
        let Ok(number) = of.text.trim().parse::<u64>() else {
            // `${stress?1}${stress:20}` and the like are read without stress.
            m.site.trouble(&of.origin, format!("{name}: {:?} is no number", of.text));
            continue;
        };
        let text = if number == 0 { unlimited.to_owned() } else { number.max(least).to_string() };
        intake.set(key, text);
        match number < least && number > 0 {
            true if name == "message_size_limit" => {
                m.open(&of, &format!("`{key}` is at least {least}"), "a milter can reject by size");
            }
            true => m.different(&of, &format!("`{key}` is at least {least}"), ""),
            false => m.carried(&of, &format!("`{key}` of the listener")),
        }
    }
    let unit = super::limits::seconds(&m.get("anvil_rate_time_unit").text, 1).unwrap_or(60).max(1);
    for (name, key) in [
        ("smtpd_client_connection_rate_limit", "connections_per_minute"),
        ("smtpd_client_message_rate_limit", "messages_per_minute"),
        ("smtpd_client_recipient_rate_limit", "recipients_per_minute"),
    ] {
        let of = intake.get(m, name);
        if let (true, Ok(rate)) = (of.is_set, of.text.trim().parse::<u64>()) {
            let rate = if rate == 0 { 0 } else { (rate.saturating_mul(60) / unit).max(1) };
            intake.set(key, rate.to_string());
            m.carried(&of, &format!("`{key}` of the listener"));
        }
    }
    let time = intake.get(m, "smtpd_timeout");
    let own = time.text.split('}').next_back().unwrap_or_default().to_owned();
    if let Some(seconds) = super::limits::seconds(&own, 1).filter(|_| time.is_set) {
        intake.set("command_timeout", quoted(&format!("{seconds}s")));
        intake.set("content_timeout", quoted(&format!("{seconds}s")));
        m.carried(&time, "`command_timeout` and `content_timeout` of the listener");
    }
}

/// The text after the host name.
fn banner(m: &mut Moving, intake: &mut Intake) {
    let of = intake.get(m, "smtpd_banner");
    if !of.is_set {
        return;
    }
    let host = m.get("myhostname").text;
    let rest = of.text.strip_prefix(&host).unwrap_or(&of.text).trim();
    intake.set("banner", quoted(rest));
    m.carried(&of, "`banner` of the listener");
}

/// postscreen(8): block lists, access lists and the wait before the greeting.
pub(super) fn postscreen(m: &mut Moving, all: &mut [Intake]) {
    let is_used =
        m.site.services.iter().any(|one| one.command == "postscreen" && one.kind == "inet");
    if !is_used {
        return;
    }
    let sites = m.get("postscreen_dnsbl_sites");
    let action = m.get("postscreen_dnsbl_action");
    let Some(intake) = all.iter_mut().find(|one| !one.is_submission) else { return };
    if !sites.is_empty() {
        intake.checks.lists.extend(sites.words());
        let threshold = m.get("postscreen_dnsbl_threshold");
        intake.checks.threshold = threshold.text.trim().parse().unwrap_or(1);
        intake.checks.is_marked = action.text == "ignore";
        m.carried(&sites, "`dnsbl` of `checks`");
        m.carried(&threshold, "`dnsbl` of `checks`");
        m.carried(&action, "`dnsbl` of `checks`");
    }
    let wait = m.get("postscreen_greet_wait");
    let greet = m.get("postscreen_greet_action");
    let own = words(&wait.text).pop().unwrap_or_default();
    if greet.text != "ignore" {
        if let Some(seconds) = super::limits::seconds(&own, 1).filter(|_| wait.is_set) {
            intake.set("greeting_delay", quoted(&format!("{seconds}s")));
        }
        m.carried(&wait, "`greeting_delay` of the listener");
        m.carried(&greet, "`early_talkers` of the listener");
    }
    let lists = m.get("postscreen_access_list");
    let denies =
        m.get("postscreen_denylist_action").text + &m.get("postscreen_blacklist_action").text;
    let is_denying = denies.contains("drop") || denies.contains("enforce");
    for map in m.maps(&lists) {
        screen_list(m, &lists, &map, is_denying);
    }
    for name in [
        "postscreen_pipelining_enable",
        "postscreen_non_smtp_command_enable",
        "postscreen_bare_newline_enable",
    ] {
        let of = m.get(name);
        if of.is_yes() {
            m.missing(&of, "tests after the greeting are not available", "`greylist` of `checks`");
        }
    }
}

/// Clients that postscreen rejects. Those that it permits skip its own tests only, so that they get no right here.
fn screen_list(m: &mut Moving, of: &Parameter, map: &super::values::MapName, is_denying: bool) {
    if map.kind != "cidr" || map.name.starts_with('{') {
        let why = format!("{}:{} is not read here", map.kind, map.name);
        m.open(of, &why, "an `[[access]]` rule by client");
        return;
    }
    let Some(text) = m.map_text(of, std::path::Path::new(&map.name)) else { return };
    if !is_denying {
        m.carried(of, "rejects have no effect, as in Postfix (postscreen_denylist_action)");
        return;
    }
    let line = |line: &str| match line.trim_end().to_ascii_lowercase().ends_with("permit") {
        true => {
            let end = line.trim_end().len() - "permit".len();
            format!("{}DUNNO\n", line.get(..end).unwrap_or_default())
        }
        false => format!("{line}\n"),
    };
    let copy: String = text.lines().map(line).collect();
    let path = m.made_file("postscreen-clients.cidr", copy, false);
    let name = m.config.table("postscreen-clients", "cidr", &super::maps::path_key(&path));
    let mut keys = Keys::new();
    keys.text("table", &name).text("by", "client").text("clients", "strangers");
    m.config.section("[[access]]", keys);
    let why = "a copy without its permits; permitted clients pass all checks of this server";
    m.different(of, why, "`exempt_clients` of `checks` for clients that no check may refuse");
}
