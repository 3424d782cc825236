//! Reading of configurations, and their schema.

use super::embedded::EMBEDDED_NAME;
use super::problem::ConfigErrors;
use super::reference::ReferencePage;
use super::schema::Schema;
use super::{Config, EMBEDDED, reference, resolve};
use mail::Domain;
use serde_json::Value;

impl Schema {
    /// As JSON schema, for editors.
    #[must_use]
    pub fn json(&self) -> &Value {
        self.json.get_or_init(|| reference::json(self))
    }

    /// The reference as one page, as Markdown.
    #[must_use]
    pub fn reference(&self) -> String {
        reference::whole(self)
    }

    /// The reference as an index and a page for each area.
    #[must_use]
    pub fn reference_pages(&self) -> Vec<ReferencePage> {
        reference::pages(self)
    }

    /// Reads a configuration. `file_name` is only used in errors. A file without `hostname` gets `localhost`: see
    /// [`Schema::parse_on`].
    ///
    /// # Errors
    /// Returns all errors that can be found at once.
    pub fn parse(&self, text: &str, file_name: &str) -> Result<Config, ConfigErrors> {
        self.parse_on(text, file_name, "localhost")
    }

    /// Like [`Schema::parse`], on a machine of this name.
    ///
    /// # Errors
    /// Returns all errors that can be found at once.
    pub fn parse_on(
        &self,
        text: &str,
        file_name: &str,
        machine_name: &str,
    ) -> Result<Config, ConfigErrors> {
        let machine_name = Domain::parse(machine_name)
            .or_else(|_| Domain::parse("localhost"))
            .map_err(|_| ConfigErrors::new(file_name.into(), text.into(), Vec::new()))?;
        resolve::read(self, text, file_name, machine_name)
    }

    /// The safe default that `serve` runs without a file: listens on 127.0.0.1:2525, keeps mail
    /// for any domain in Maildirs under `./postrider-data`, relays nothing.
    ///
    /// # Panics
    /// When there is no channel that keeps Maildirs.
    #[must_use]
    pub fn embedded(&self) -> Config {
        match self.parse(EMBEDDED, EMBEDDED_NAME) {
            Ok(config) => config,
            Err(errors) => unreachable!("the embedded default is wrong: {errors}"),
        }
    }
}
