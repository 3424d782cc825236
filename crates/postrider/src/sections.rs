//! The configuration sections of this program: those of the crates below, and a line for each additional section.

#[cfg(test)]
mod tests;

use crate::{acme, alerts, dmarc_reports, reply_classes, tables, tls_reports};
use config::Schema;
use std::sync::LazyLock;

/// The complete schema.
pub(crate) fn schema() -> &'static Schema {
    static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
        tables::kinds(channels::sections())
            .section::<acme::Authority>()
            .section::<alerts::AlertSettings>()
            .section::<dmarc_reports::DmarcSender>()
            .section::<tls_reports::TlsSender>()
            .section::<reply_classes::ClassFiles>()
    });
    &SCHEMA
}
