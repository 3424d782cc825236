//! Rights of a session that are looked up again, by the configuration in force.

use super::Settings;
use super::session::Session;
use mail::Refusal;
use mta::seams::{LoginTerms, World};
use std::time::Duration;

impl<W: World> Session<W> {
    /// Goes on with what the configuration in force has for this listener and client.
    ///
    /// # Errors
    /// What the client was let in by holds no more.
    pub(super) async fn renew(&mut self) -> Result<(), Refusal> {
        // A listener that speaks another protocol now is another one.
        if let Ok(settings) = self.connection.follow()?.into_any().downcast::<Settings>() {
            self.settings = settings;
        }
        let submission = self.settings.submission.clone();
        let terms = match &submission {
            Some(submission) => self.terms(submission),
            None => LoginTerms {
                remote: self.connection.session().client().address,
                local: None,
                patience: Duration::ZERO,
                is_known: true,
            },
        };
        let logins = submission.as_ref().map(|submission| &submission.logins);
        self.connection.renew(self.stream.as_ref(), logins, terms).await?;
        self.machine.obey(self.server());
        if !self.is_believed() {
            self.machine.doubt();
        }
        Ok(())
    }
}
