//! A Postfix installation as it is on disk: main.cf, master.cf, and the values of their parameters.

use super::expansion::{Expansion, ExpansionError};
use super::master::{Service, parse_services};
use super::values::{Parameter, Setting, Troubles};
use crate::commands::migrate::report::SourceLine;
use lookup::Lines;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Bytes of main.cf and master.cf, each.
pub(super) const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// Parameters with their defaults.
const DEFAULTS: &str = include_str!("defaults.cf");

/// The installation.
pub(super) struct Site {
    pub(super) dir: PathBuf,
    /// The machine's name.
    host: String,
    set: BTreeMap<String, Setting>,
    defaults: BTreeMap<&'static str, &'static str>,
    pub(super) services: Vec<Service>,
    /// Parameters that a translation has read.
    claimed: RefCell<BTreeSet<String>>,
    troubles: RefCell<Troubles>,
    /// Lines that set a parameter for the second time.
    pub(super) replaced: Vec<(String, SourceLine)>,
}

impl Site {
    /// Reads main.cf and master.cf.
    ///
    /// # Errors
    /// Returns a message for each file that can't be read, and each line that is none of Postfix's.
    pub(super) fn read(dir: &Path, host: &str) -> Result<Site, Troubles> {
        let (main, master) = (dir.join("main.cf"), dir.join("master.cf"));
        let mut troubles = Vec::new();
        let mut text = |path: &Path| {
            read_text(path, CONFIG_BYTES_MAX).unwrap_or_else(|why| {
                troubles.push(why);
                String::new()
            })
        };
        let (main_text, master_text) = (text(&main), text(&master));
        let (set, replaced) = parse_parameters(&main, &main_text, &mut troubles);
        let services = parse_services(&master, &master_text, &mut troubles);
        if !troubles.is_empty() {
            return Err(troubles);
        }
        let pair = |line: &'static str| {
            let (name, text) = line.split_once('=')?;
            Some((name.trim(), text.trim()))
        };
        Ok(Site {
            dir: dir.to_owned(),
            host: host.to_owned(),
            set,
            defaults: DEFAULTS.lines().skip(1).filter_map(pair).collect(),
            services,
            claimed: RefCell::default(),
            troubles: RefCell::default(),
            replaced,
        })
    }

    /// A parameter of main.cf, or its default.
    pub(super) fn get(&self, name: &str) -> Parameter {
        self.get_at(None, name)
    }

    /// The same for a service of master.cf, with its `-o` options.
    pub(super) fn get_at(&self, service: Option<&Service>, name: &str) -> Parameter {
        self.claim(name);
        let option = service.and_then(|service| service.options.get(name));
        let set = option.or_else(|| self.set.get(name));
        let origin = set.map(|setting| setting.origin.clone()).unwrap_or_default();
        let text = match self.expansion(service).value(name) {
            Ok(text) => text,
            Err(error) => {
                self.trouble(&error.origin.clone().unwrap_or_else(|| origin.clone()), error);
                String::new()
            }
        };
        Parameter { name: name.to_owned(), text, is_set: set.is_some(), origin }
    }

    fn expansion<'a>(&'a self, service: Option<&'a Service>) -> Expansion<'a> {
        Expansion::new(move |name| self.unexpanded(service, name))
    }

    /// The text of a parameter before `$` is replaced, and its place.
    fn unexpanded(&self, service: Option<&Service>, name: &str) -> Option<(String, SourceLine)> {
        let option = service.and_then(|service| service.options.get(name));
        if let Some(setting) = option.or_else(|| self.set.get(name)) {
            self.claim(name);
            return Some((setting.text.clone(), setting.origin.clone()));
        }
        let text = match name {
            "myhostname" => self.host.clone(),
            "mydomain" => {
                let host = self.get_at(service, "myhostname").text;
                host.split_once('.').map_or_else(|| "localdomain".to_owned(), |(_, d)| d.to_owned())
            }
            "config_directory" => self.dir.display().to_string(),
            // A parameter for one transport has the default of its kind.
            _ => (*self.defaults.get(name)?).to_owned(),
        };
        Some((text, SourceLine::default()))
    }

    fn claim(&self, name: &str) {
        if self.set.contains_key(name) && !self.claimed.borrow().contains(name) {
            self.claimed.borrow_mut().insert(name.to_owned());
        }
    }

    /// Records an error about a line.
    pub(super) fn trouble(&self, origin: &SourceLine, why: impl std::fmt::Display) {
        let text = match origin.line {
            0 => why.to_string(),
            line => format!("{}:{line}: {why}", origin.file),
        };
        let mut troubles = self.troubles.borrow_mut();
        if !troubles.contains(&text) {
            troubles.push(text);
        }
    }

    pub(super) fn troubles(&self) -> Troubles {
        self.troubles.borrow().clone()
    }

    /// Parameters of main.cf that are not set to their default; the second value is true if a translation has read it,
    /// or another parameter has it in its value.
    pub(super) fn changed(&self) -> Vec<(Parameter, bool)> {
        let claimed = self.claimed.borrow().clone();
        let changed = |name: &String| {
            let parameter = self.get(name);
            let default = self.defaults.get(name.as_str());
            let default = default.map(|text| self.expansion(None).text(text).unwrap_or_default());
            let is_changed = default.as_deref() != Some(parameter.text.as_str());
            is_changed.then(|| (parameter, claimed.contains(name)))
        };
        self.set.keys().filter_map(changed).collect()
    }

    /// Returns true if Postfix has a parameter of this name.
    pub(super) fn is_known(&self, name: &str) -> bool {
        self.defaults.contains_key(name)
    }

    /// The file's text.
    ///
    /// # Errors
    /// See [`read_text`].
    pub(super) fn file(&self, path: &Path) -> Result<String, String> {
        read_text(path, lookup::TEXT_BYTES_MAX as u64)
    }
}

/// `name = value` lines.
fn parse_parameters(
    path: &Path,
    text: &str,
    troubles: &mut Troubles,
) -> (BTreeMap<String, Setting>, Vec<(String, SourceLine)>) {
    let file = path.display().to_string();
    let (mut set, mut replaced) = (BTreeMap::new(), Vec::new());
    for line in Lines::new(text.as_bytes()) {
        let origin = SourceLine { file: file.clone(), line: line.place(0).0 };
        let text = String::from_utf8_lossy(&line.text);
        let at = format!("{file}:{}", origin.line);
        if line.continues_nothing() {
            troubles.push(format!("{at}: the line continues no other one"));
            continue;
        }
        let Some((name, value)) = text.split_once('=') else {
            troubles.push(format!("{at}: no `=` after the parameter's name"));
            continue;
        };
        let name = name.trim();
        if name.is_empty() || name.contains(char::is_whitespace) {
            troubles.push(format!("{at}: {name:?} is no parameter's name"));
            continue;
        }
        let setting = Setting { text: value.trim().to_owned(), origin: origin.clone() };
        if let Some(Setting { origin, .. }) = set.insert(name.to_owned(), setting) {
            replaced.push((name.to_owned(), origin));
        }
    }
    (set, replaced)
}

/// Reads a text file.
///
/// # Errors
/// Returns the system's error, or the place at which the file is too long or no text.
pub(super) fn read_text(path: &Path, bytes_max: u64) -> Result<String, String> {
    let shown = path.display();
    let file = File::open(path).map_err(|error| format!("{shown}: {error}"))?;
    let kind = file.metadata().map_err(|error| format!("{shown}: {error}"))?;
    if !kind.is_file() {
        return Err(format!("{shown}: not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(bytes_max + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("{shown}: {error}"))?;
    let line = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'\n').count() + 1;
    if bytes.len() as u64 > bytes_max {
        return Err(format!("{shown}:{}: the file is longer than {bytes_max} bytes", line(&bytes)));
    }
    if let Some(at) = bytes.iter().position(|byte| *byte == 0) {
        let line = line(bytes.get(..at).unwrap_or_default());
        return Err(format!("{shown}:{line}: binary data instead of text; name the map's source"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
        format!("{shown}:{}: not UTF-8", line(before))
    })
}

/// The error's text, with the place that an expansion names.
impl std::fmt::Display for ExpansionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.why)
    }
}
