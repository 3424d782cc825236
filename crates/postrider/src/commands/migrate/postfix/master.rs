//! master.cf: services with their options (master(5)).

use super::values::{Setting, Troubles, inside, words};
use crate::commands::migrate::report::SourceLine;
use lookup::Lines;
use std::collections::BTreeMap;
use std::path::Path;

/// A service.
#[derive(Clone, Debug)]
pub(super) struct Service {
    /// `smtp`, `127.0.0.1:10025`, …
    pub(super) name: String,
    /// `inet`, `unix`, `pass`, …
    pub(super) kind: String,
    /// Processes; 0 for no limit, none for the default.
    pub(super) processes_max: Option<u32>,
    pub(super) command: String,
    /// Arguments without `-o` options.
    pub(super) arguments: Vec<String>,
    /// `-o name=value`.
    pub(super) options: BTreeMap<String, Setting>,
    pub(super) origin: SourceLine,
}

impl Service {
    /// A service that a default master.cf has.
    pub(super) fn standard(name: &str, command: &str) -> Service {
        Service {
            name: name.to_owned(),
            kind: "unix".to_owned(),
            processes_max: None,
            command: command.to_owned(),
            arguments: Vec::new(),
            options: BTreeMap::new(),
            origin: SourceLine::default(),
        }
    }
}

/// Reads master.cf.
pub(super) fn parse_services(path: &Path, text: &str, troubles: &mut Troubles) -> Vec<Service> {
    let file = path.display().to_string();
    let mut services = Vec::new();
    for line in Lines::new(text.as_bytes()) {
        let origin = SourceLine { file: file.clone(), line: line.place(0).0 };
        let text = String::from_utf8_lossy(&line.text);
        match service(&text, origin.clone()) {
            Ok(service) => services.push(service),
            Err(why) => troubles.push(format!("{file}:{}: {why}", origin.line)),
        }
    }
    services
}

fn service(line: &str, origin: SourceLine) -> Result<Service, String> {
    let words = split(line);
    let Some((fields, arguments)) = words.split_at_checked(8) else {
        return Err("a service has eight fields".to_owned());
    };
    let [name, kind, _, _, _, _, processes, command] = fields else {
        return Err("a service has eight fields".to_owned());
    };
    let mut service = Service {
        name: name.clone(),
        kind: kind.clone(),
        processes_max: processes.parse().ok(),
        command: command.clone(),
        arguments: Vec::new(),
        options: BTreeMap::new(),
        origin: origin.clone(),
    };
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        let option = match word.strip_prefix("-o") {
            Some("") => rest.next().cloned().unwrap_or_default(),
            Some(joined) if !joined.starts_with('-') => joined.to_owned(),
            _ => {
                service.arguments.push(word.clone());
                continue;
            }
        };
        let option = inside(&option);
        let Some((name, value)) = option.split_once('=') else {
            return Err(format!("`-o {option}`: no `=` after the parameter's name"));
        };
        let setting = Setting { text: value.trim().to_owned(), origin: origin.clone() };
        service.options.insert(name.trim().to_owned(), setting);
    }
    Ok(service)
}

/// Splits at blanks outside of braces; commas belong to values.
fn split(line: &str) -> Vec<String> {
    words(&line.replace(',', "\u{1}")).into_iter().map(|word| word.replace('\u{1}', ",")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_have_options_and_continuations() {
        let text = "# one\nsmtp inet n - y - - smtpd\n-o-no\nsubmission inet n - y - 5 smtpd -v\n  \
                    -o smtpd_a=b,c\n  -o { x = y z }\n# between\n  -osoft=yes\ntoo few\n";
        let mut troubles = Vec::new();
        let services = parse_services(Path::new("master.cf"), text, &mut troubles);
        assert_eq!(services.len(), 2);
        let submission = &services[1];
        assert_eq!((submission.origin.line, submission.processes_max), (4, Some(5)));
        assert_eq!(submission.arguments, ["-v"]);
        let option = |name: &str| submission.options[name].text.clone();
        assert_eq!([option("smtpd_a"), option("x"), option("soft")], ["b,c", "y z", "yes"]);
        let bad =
            ["master.cf:3: a service has eight fields", "master.cf:9: a service has eight fields"];
        assert_eq!(troubles, bad);
    }
}
