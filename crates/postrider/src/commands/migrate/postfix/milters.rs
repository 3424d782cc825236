//! Milters of smtpd(8).

use super::intake::Intake;
use super::limits::seconds;
use super::moving::Moving;
use super::values::{inside, words};
use crate::commands::migrate::new_config::Keys;

/// `inet:host:port` or `unix:path` in the form of this server; none if the host is a name.
pub(super) fn service_address(m: &Moving, text: &str) -> Option<String> {
    let (kind, rest) = text.split_once(':')?;
    match kind {
        "unix" | "local" => Some(format!("unix:{}", m.socket_path(rest))),
        "inet" | "inet6" => {
            // Also port@host, as milter(3) has it.
            let rest = match rest.split_once('@') {
                Some((port, host)) => format!("{host}:{port}"),
                None => rest.to_owned(),
            };
            let (host, port) = rest.rsplit_once(':')?;
            let host =
                if host == "localhost" { "127.0.0.1" } else { host.trim_matches(['[', ']']) };
            let address: std::net::IpAddr = host.parse().ok()?;
            Some(std::net::SocketAddr::new(address, port.parse().ok()?).to_string())
        }
        _ => None,
    }
}

/// The action and the timeouts of a milter: its own options, after those for all.
fn settings(
    m: &mut Moving,
    intake: &Intake,
    usual: &str,
    parts: impl Iterator<Item = String>,
) -> (String, Vec<(&'static str, String)>) {
    let mut action = usual.to_owned();
    let mut times: Vec<(&'static str, String)> = Vec::new();
    for (name, key) in [
        ("milter_connect_timeout", "connect_timeout"),
        ("milter_command_timeout", "command_timeout"),
        ("milter_content_timeout", "content_timeout"),
    ] {
        let time = intake.get(m, name);
        if time.is_set {
            times.push((key, time.text.clone()));
            m.carried(&time, "`milters` of the listener");
        }
    }
    for option in parts {
        let option = inside(&option).to_owned();
        match option.split_once('=') {
            Some((name, value)) if name.trim() == "default_action" => {
                value.trim().clone_into(&mut action);
            }
            Some((name, value)) => {
                let key = ["connect_timeout", "command_timeout", "content_timeout"]
                    .into_iter()
                    .find(|key| *key == name.trim());
                times.extend(key.map(|key| (key, value.trim().to_owned())));
            }
            None => {}
        }
    }
    (action, times)
}

/// `milters` of a listener.
pub(super) fn write(m: &mut Moving, intake: &mut Intake) {
    let of = intake.get(m, "smtpd_milters");
    let usual = intake.get(m, "milter_default_action");
    let mut all = Vec::new();
    for word in of.words() {
        let mut parts = words(inside(&word)).into_iter();
        let Some(first) = parts.next() else { continue };
        let Some(address) = service_address(m, &first) else {
            let why = format!("{first}: the address of the milter is not known here");
            m.open(&of, &why, "`milters` of the listener, with an IP address");
            continue;
        };
        let mut keys = Keys::new();
        keys.text("address", &address);
        let (action, times) = settings(m, intake, &usual.text, parts);
        let action = match action.as_str() {
            "accept" => "accept",
            "reject" | "shutdown" => "reject",
            _ => "tempfail",
        };
        keys.text("on_failure", action);
        for (key, text) in times {
            let longest = if key == "content_timeout" { 480 } else { 60 };
            if let Some(time) = seconds(&text, 1).filter(|time| *time > 0) {
                keys.text(key, &format!("{}s", time.min(longest)));
            }
        }
        all.push(keys.inline());
    }
    if !all.is_empty() {
        intake.set("milters", format!("[{}]", all.join(", ")));
        m.carried(&of, "`milters` of the listener");
        m.carried(&usual, "`on_failure` of the milters");
    }
    let others = m.get("non_smtpd_milters");
    if others.is_set && !others.is_empty() {
        m.missing(&others, "all mail comes by SMTP, so that the listeners' milters see it", "");
    }
}
