//! Submission by programs of this machine over a Unix socket: SMTP, with the user id of the process as its login.

use super::local_users::LocalUsers;
use super::settings::{SmtpListener, SmtpListenerText};
use crate::originate::{AuthorsText, FieldRules, SenderRules};
use config::{ProtocolSection, ProtocolSettings, Reader, Takes};
use mail::Domain;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// Keys of a `[[listener]]` for local programs, in addition to those of SMTP.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub(crate) struct LocalText {
    #[serde(flatten)]
    smtp: SmtpListenerText,
    /// With `kind = "local"`: path of the Unix socket for `sendmail`, with mode 0666. Its directory must exist. Required.
    /// Changed only by a restart.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("title" = "path"))]
    socket: Option<String>,
    /// Directory where `sendmail` leaves messages while the server is down; a running server submits them. It is created
    /// with mode 1733 if it lies beside a spool. Every user must reach it. Default: the path of the first spool, followed
    /// by `-drop`. `""` for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("title" = "path"))]
    drop: Option<String>,
    /// Users of this machine that may send with any sender address (`sendmail -f`). A
    /// user without a name is named by its number. The sender of all other messages becomes the user's name at `origin`,
    /// unless it is the null sender.
    #[schemars(extend("items" = { "type": "string", "title": "user" }))]
    trusted: Vec<String>,
}

impl Default for LocalText {
    fn default() -> LocalText {
        LocalText {
            smtp: SmtpListenerText::default(),
            socket: None,
            drop: None,
            trusted: vec!["root".to_owned()],
        }
    }
}

impl ProtocolSection for LocalText {
    const KIND: &'static str = "local";
    const TAKES: Takes = Takes::LocalMail;
    type Text = LocalText;

    fn read(text: LocalText, reader: &mut Reader<'_, '_>) -> Option<Arc<dyn ProtocolSettings>> {
        let hostname = reader.hostname().clone();
        let mut listener = SmtpListener::read(&text.smtp, reader);
        if !text.smtp.xclient_from.is_empty() {
            let help = "clients of a Unix socket are known by their user id: remove the key";
            reader.error("xclient_from", "`xclient_from` on a listener for local users", help);
        }
        let origin = listener.fields.origin.take().or_else(|| origin_of(&hostname));
        listener.server.origin.clone_from(&origin);
        listener.greeting_delay = Duration::ZERO;
        listener.fields = FieldRules {
            add_missing: text.smtp.add_missing_fields.unwrap_or(true),
            remove_bcc: text.smtp.remove_bcc.unwrap_or(true),
            origin: origin.clone(),
        };
        for (index, user) in text.trusted.iter().enumerate() {
            reader.printable(&format!("trusted[{index}]"), user, 256);
        }
        let drop = match text.drop.as_deref() {
            None => {
                let mut beside = reader.first_spool().as_os_str().to_owned();
                beside.push("-drop");
                Some(beside.into())
            }
            Some("") => None,
            Some(path) => Some(reader.file_path("drop", path)),
        };
        let Some(socket) = text.socket else {
            let help = "name the socket, for example socket = \"/run/postrider/submit.sock\"";
            reader.error("", "a listener for local users without `socket`", help);
            return None;
        };
        listener.local = Some(Arc::new(LocalUsers {
            socket: reader.file_path("socket", &socket),
            drop,
            trusted: text.trusted.into_boxed_slice(),
            hostname,
            // They have neither name nor address.
            senders: Arc::new(SenderRules {
                senders: None,
                authors: Some(AuthorsText::Any),
                hide_client: true,
                origin,
            }),
        }));
        Some(Arc::new(listener))
    }
}

/// The domain of users' addresses: the host's name, unless it is an address literal.
fn origin_of(hostname: &Domain) -> Option<String> {
    hostname.to_ascii().ok()
}
