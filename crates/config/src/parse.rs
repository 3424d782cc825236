//! Reading of configurations, and their schema.

use super::embedded::EMBEDDED_NAME;
use super::problem::ConfigErrors;
use super::reference::ReferencePage;
use super::schema::Schema;
use super::{Config, EMBEDDED, reference, resolve};
use mail::Domain;
use serde_json::Value;
use std::path::PathBuf;

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

/// Socket of the first listener of this kind. The rest of the file is not checked, which takes most of the time of
/// [`Schema::parse`]. `None` without one.
#[must_use]
pub fn listener_socket(text: &str, kind: &str) -> Option<PathBuf> {
    let file: toml::Table = text.parse().ok()?;
    let mut listeners = file.get("listener")?.as_array()?.iter();
    let is_wanted =
        |listener: &&toml::Value| listener.get("kind").and_then(toml::Value::as_str) == Some(kind);
    Some(listeners.find(is_wanted)?.get("socket")?.as_str()?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listener_socket_is_that_of_the_first_one() {
        let local = |name: &str| format!("[[listener]]\nkind = \"local\"\nsocket = \"{name}\"\n");
        let other = "[[listener]]\nkind = \"submission\"\nsocket = \"/other\"\n[listener.x]\n";
        let text = format!("a = 1\n{other}{}{}", local("/one"), local("/two"));
        assert_eq!(listener_socket(&text, "local"), Some("/one".into()));
        for none in ["", other, "listener = 1", "[[listener]]\nkind = \"local\"", "[["] {
            assert_eq!(listener_socket(none, "local"), None, "{none}");
        }
    }
}
