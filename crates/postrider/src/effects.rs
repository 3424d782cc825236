//! What rules of shaping have set in force, kept in a small file in the first spool directory, so that it outlives
//! the process: a provider that was angry is so after a restart, too.

use crate::console::ConsoleLog;
use crate::kept_file::KeptFile;
use crate::world::clock::wall_now;
use config::Config;
use mta::console::{Console as _, Level};
use mta::control::{Effect, Lift};
use mta::shared::Shared;
use std::sync::Arc;
use tokio::sync::watch;

/// The file's name.
const NAME: &str = "shaping.json";

/// Effects, and where they are kept.
#[derive(Debug)]
pub(crate) struct KeptEffects {
    shared: Arc<Shared>,
    file: KeptFile,
    /// What stands in it.
    kept: Vec<Effect>,
}

impl KeptEffects {
    /// Has what an earlier server kept in force again.
    ///
    /// # Errors
    /// When the file is there and can't be read or understood.
    pub(crate) fn open(config: &Config, shared: &Arc<Shared>) -> Result<KeptEffects, String> {
        let file = KeptFile::new(&config.spool.paths[0], NAME, "what rules of shaping do");
        let kept: Vec<Effect> = file.read()?;
        shared.rules.restore(kept.clone(), wall_now());
        Ok(KeptEffects { shared: Arc::clone(shared), file, kept })
    }

    /// Tells when there may be something to keep.
    pub(crate) fn follow(&self) -> watch::Receiver<Arc<[Effect]>> {
        self.shared.rules.follow()
    }

    /// Writes what is in force, and what is remembered, if that is something else than what was written last.
    /// What can't be written is in force all the same, and written at the next change.
    pub(crate) fn keep(&mut self, console: &ConsoleLog) {
        let effects = self.shared.rules.effects();
        if effects == self.kept {
            return;
        }
        match self.file.write(&effects) {
            Ok(()) => self.kept = effects,
            Err(why) => console.line(Level::Error, "shaping", format_args!("{why}")),
        }
    }

    /// Ends effects. Says what was done.
    ///
    /// # Errors
    /// A sentence: there are none such.
    pub(crate) fn lift(&self, lift: &Lift) -> Result<String, String> {
        match self.shared.rules.lift(lift) {
            0 => {
                Err("no such effect is in force; `postrider shaping list` shows what is".to_owned())
            }
            1 => Ok("1 effect of shaping rules lifted".to_owned()),
            count => Ok(format!("{count} effects of shaping rules lifted")),
        }
    }
}
