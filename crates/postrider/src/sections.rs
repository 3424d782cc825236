//! What may stand in the configuration of this program: what the floors below know, and a line for each section
//! that something of the program's own has.

#[cfg(test)]
mod tests;

use crate::{acme, dmarc_reports, reply_classes, tables, tls_reports};
use config::Schema;
use std::sync::LazyLock;

/// All of it.
pub(crate) fn schema() -> &'static Schema {
    static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
        tables::kinds(channels::sections())
            .section::<acme::Authority>()
            .section::<dmarc_reports::DmarcSender>()
            .section::<tls_reports::TlsSender>()
            .section::<reply_classes::ClassFiles>()
    });
    &SCHEMA
}
