//! pipe(8) as the channel `pipe`.

use super::limits::seconds;
use super::master::Service;
use super::moving::Moving;
use super::transports::Channel;
use super::transports::Target;
use crate::commands::migrate::new_config::{Keys, list};
use crate::commands::migrate::report::Verdict;

/// A place in an argument for each macro of pipe(8) that has one.
const MACROS: &[(&str, &str)] = &[
    ("recipient", "{recipient}"),
    ("original_recipient", "{recipient}"),
    ("sender", "{sender}"),
    ("user", "{user}"),
    ("extension", "{tag}"),
    ("mailbox", "{local}"),
    ("domain", "{domain}"),
    ("queue_id", "{id}"),
];

/// The channel of a service of pipe(8).
pub(super) fn pipe(m: &mut Moving, service: &Service, target: &Target) -> Channel {
    let (mut command, mut user, mut in_command, mut lost) =
        (Vec::new(), None, false, Vec::<String>::new());
    for argument in &service.arguments {
        if in_command {
            command.push(with_places(argument, &target.nexthop, &mut lost));
        } else if let Some(first) = argument.strip_prefix("argv=") {
            in_command = true;
            command.push(with_places(first, &target.nexthop, &mut lost));
        } else if let Some(name) = argument.strip_prefix("user=") {
            user = Some(name.to_owned());
        } else if let Some(flags) = argument.strip_prefix("flags=") {
            let known = |flag: char| "DRhuq.O".contains(flag);
            let further: String = flags.chars().filter(|flag| !known(*flag)).collect();
            if !further.is_empty() {
                lost.push(format!("flags={further}"));
            }
        } else {
            lost.push(argument.clone());
        }
    }
    let mut keys = Keys::new();
    keys.set("command", list(&command));
    if let Some(user) = user {
        let (user, group) = user.split_once(':').map_or((&*user, None), |(u, g)| (u, Some(g)));
        keys.text("user", user);
        if let Some(group) = group {
            keys.text("group", group);
        }
    }
    limits(m, service, &mut keys);
    let subject = format!("service {}", service.name);
    match lost.is_empty() {
        true => {
            let why = "`pipe` of a route";
            m.note(Verdict::Carried, &service.origin, &subject, why, "", false);
        }
        false => {
            let why = format!("`pipe` of a route, without {}", lost.join(", "));
            let remedy = "see the placeholders of `pipe` in docs/config/routes.md";
            m.note(Verdict::Different, &service.origin, &subject, &why, remedy, false);
        }
    }
    let uucp = service.arguments.iter().any(|word| word.contains("uux"));
    if uucp {
        let why = "UUCP is a program for `pipe` here; nothing else knows it";
        m.note(Verdict::Different, &service.origin, &subject, why, "", false);
    }
    Channel::with("pipe", keys)
}

/// Processes and times of a service.
fn limits(m: &mut Moving, service: &Service, keys: &mut Keys) {
    let own = m.get(&format!("{}_destination_concurrency_limit", service.name));
    if own.is_set && own.text.parse::<u32>().is_ok_and(|limit| (1..=1000).contains(&limit)) {
        keys.set("max_processes", own.text.trim());
        m.carried(&own, "`max_processes` of the route");
    } else if let Some(limit) = service.processes_max.filter(|limit| (1..=1000).contains(limit)) {
        keys.set("max_processes", limit.to_string());
    }
    // A program has one recipient in each run.
    let one = m.get(&format!("{}_destination_recipient_limit", service.name));
    if one.is_set {
        m.carried(&one, "a program runs once for each recipient");
    }
    let time = m.get(&format!("{}_time_limit", service.name));
    let time = if time.is_set { time } else { m.get("command_time_limit") };
    if let Some(seconds) = seconds(&time.text, 1).filter(|seconds| time.is_set && *seconds > 0) {
        keys.text("timeout", &format!("{seconds}s"));
        m.carried(&time, "`timeout` of `pipe`");
    }
}

/// An argument with `{name}` for `${name}`; macros without a counterpart become nothing.
fn with_places(argument: &str, nexthop: &str, lost: &mut Vec<String>) -> String {
    let (mut out, mut rest) = (String::new(), argument);
    let plain = |text: &str| text.replace('{', "{{").replace('}', "}}");
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(&plain(before));
        if let Some(after) = after.strip_prefix('$') {
            out.push('$');
            rest = after;
            continue;
        }
        let closing = match after.chars().next() {
            Some('{') => Some('}'),
            Some('(') => Some(')'),
            _ => None,
        };
        let (name, after) = match closing {
            Some(close) => {
                after.get(1..).and_then(|text| text.split_once(close)).unwrap_or((after, ""))
            }
            None => {
                let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
                after.split_at(after.find(|c| !is_name(c)).unwrap_or(after.len()))
            }
        };
        match MACROS.iter().find(|(known, _)| *known == name) {
            Some((_, place)) => out.push_str(place),
            None if name == "nexthop" => out.push_str(&plain(nexthop)),
            None => lost.push(format!("${{{name}}}")),
        }
        rest = after;
    }
    out + &plain(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macros_become_places() {
        let mut lost = Vec::new();
        let mut of = |text: &str| with_places(text, "hop", &mut lost);
        assert_eq!(of("-r${recipient}"), "-r{recipient}");
        assert_eq!(of("$(user)+$extension@$nexthop"), "{user}+{tag}@hop");
        assert_eq!(of("a{b}$$c${size}"), "a{{b}}$c");
        assert_eq!(lost, ["${size}"]);
    }
}
