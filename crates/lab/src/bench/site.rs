//! Where a measurement takes place, and what is said of it.

use crate::stand::Result;
use crate::stand::certificate::{Certificate, Encryption, KeyKind};
use crate::stand::directory::Population;
use crate::stand::egress::Egress;
use crate::stand::long_path::PathShape;
use crate::stand::ways::Ways;
use load::stop::StopFlag;
use load::tls::Handshakes;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// Where everything is.
#[derive(Clone, Debug)]
pub(super) struct Site {
    /// Of this measurement alone.
    pub(super) directory: PathBuf,
    /// The postrider program.
    pub(super) postrider: PathBuf,
    /// Between server and sink.
    pub(super) path: Option<PathShape>,
    /// Connections to the sink.
    pub(super) egress: Egress,
    /// What mail is to come in and go out by.
    pub(super) ways: Ways,
    /// Mail is encrypted on its way in and out.
    pub(super) tls: Option<Handshakes>,
    /// Whose mail is kept; without them it is relayed to a sink.
    pub(super) population: Option<Rc<Population>>,
    /// Users read and remove mail that is so old.
    pub(super) read_after: Option<Duration>,
    /// Decides what is lost on the path.
    pub(super) seed: u64,
    /// Drop so many arrivals from the account: shows that a loss is seen.
    pub(super) planted_loss: u64,
    pub(super) stop: StopFlag,
}

impl Site {
    /// Below which the Maildirs are, where mail is kept.
    pub(super) fn mail(&self) -> PathBuf {
        self.directory.join("mail")
    }

    /// What mail is encrypted with, if it is.
    ///
    /// # Errors
    /// When no certificate can be made.
    pub(super) fn encryption(&self) -> Result<Option<Encryption>> {
        let encryption = self.tls.map(|handshakes| {
            let certificate = Certificate::make(&self.directory.join("tls"), KeyKind::EcdsaP256)?;
            Ok(Encryption { certificate, handshakes })
        });
        encryption.transpose()
    }
}
