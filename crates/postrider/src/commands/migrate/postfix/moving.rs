//! The state of a migration: the installation, the new configuration and the report.

use super::Surroundings;
use super::site::Site;
use super::values::Parameter;
use crate::commands::migrate::new_config::{MadeFile, NewConfig};
use crate::commands::migrate::report::{MigrationReport, Remark, SourceLine, Verdict};
use std::path::PathBuf;

/// The state that all areas share.
pub(super) struct Moving {
    pub(super) site: Site,
    pub(super) config: NewConfig,
    pub(super) report: MigrationReport,
    /// The directory of the new configuration.
    pub(super) out: PathBuf,
    /// The machine's accounts.
    pub(super) accounts: PathBuf,
    /// Routes so far.
    pub(super) route_names: Vec<String>,
    /// Routes with smtp_generic_maps.
    pub(super) generic_routes: Vec<String>,
    /// Routes for fallback relays, by next hop.
    pub(super) fallbacks: Vec<(String, String)>,
    pub(super) pools: Vec<String>,
    /// The reply that refuses all mail for other domains; then the table with it.
    pub(super) refused_outside: Option<String>,
    pub(super) has_certificate: bool,
    /// A route uses DANE.
    pub(super) needs_dnssec: bool,
}

impl Moving {
    pub(super) fn new(site: Site, around: &Surroundings<'_>) -> Moving {
        Moving {
            site,
            config: NewConfig::default(),
            report: MigrationReport::default(),
            out: around.out.to_owned(),
            accounts: around.accounts.to_owned(),
            route_names: Vec::new(),
            generic_routes: Vec::new(),
            fallbacks: Vec::new(),
            pools: Vec::new(),
            refused_outside: None,
            has_certificate: false,
            needs_dnssec: false,
        }
    }

    pub(super) fn get(&self, name: &str) -> Parameter {
        self.site.get(name)
    }

    /// The parameter is in force here, too.
    pub(super) fn carried(&mut self, of: &Parameter, why: &str) {
        self.remark(Verdict::Carried, of, why, "", false);
    }

    pub(super) fn different(&mut self, of: &Parameter, why: &str, remedy: &str) {
        self.remark(Verdict::Different, of, why, remedy, false);
    }

    pub(super) fn missing(&mut self, of: &Parameter, why: &str, remedy: &str) {
        self.remark(Verdict::Missing, of, why, remedy, false);
    }

    /// Mail is accepted here that Postfix refuses.
    pub(super) fn open(&mut self, of: &Parameter, why: &str, remedy: &str) {
        self.remark(Verdict::Missing, of, why, remedy, true);
    }

    fn remark(&mut self, verdict: Verdict, of: &Parameter, why: &str, remedy: &str, is_open: bool) {
        // A default that is in force here needs no row.
        if of.is_set || verdict != Verdict::Carried {
            self.note(verdict, &of.origin, &of.name, why, remedy, is_open);
        }
    }

    /// A row about something else than a parameter.
    pub(super) fn note(
        &mut self,
        verdict: Verdict,
        origin: &SourceLine,
        subject: &str,
        why: &str,
        remedy: &str,
        is_open: bool,
    ) {
        self.report.add(Remark {
            verdict,
            origin: origin.clone(),
            subject: subject.to_owned(),
            why: why.to_owned(),
            remedy: remedy.to_owned(),
            is_open,
        });
    }

    /// Adds a file beside the configuration, and returns its path.
    pub(super) fn made_file(&mut self, name: &str, content: String, is_secret: bool) -> String {
        let files = &mut self.config.files;
        let is_taken = |name: &str| files.iter().any(|file| file.name == name);
        let further = (2..).map(|number| format!("{name}-{number}"));
        let mut all = std::iter::once(name.to_owned()).chain(further);
        let name = all.find(|name| !is_taken(name)).unwrap_or_else(|| name.to_owned());
        let path = self.out.join(&name).display().to_string();
        files.push(MadeFile { name, content, is_secret });
        path
    }
}
