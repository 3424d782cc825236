//! The kinds of table: their keys in `[[table]]`, and the drivers of remote ones. A kind is a line in each of the two
//! lists.

use super::call_ahead::{AskedHop, CallAhead, CallAheadText};
use super::ldap::{LdapSettings, LdapText, Verifier};
use super::redis::{Redis, RedisText};
use super::socketmap::{Socketmap, SocketmapText};
#[cfg(feature = "sql")]
use super::sql::{Sql, SqlText};
use super::tcp_table::{TcpTable, TcpTableText};
use config::{Schema, TableSettings};
use lookup::Backend;
use std::sync::Arc;

/// Adds them to the configuration schema.
pub(crate) fn kinds(schema: Schema) -> Schema {
    let schema = schema
        .table::<CallAheadText>()
        .table::<LdapText>()
        .table::<RedisText>()
        .table::<SocketmapText>()
        .table::<TcpTableText>();
    #[cfg(feature = "sql")]
    let schema = schema.table::<SqlText>();
    #[cfg(not(feature = "sql"))]
    let schema = schema.absent_table("sql", "sql");
    schema
}

/// Makes a driver, on the thread on which it will live.
pub(super) type Build = Box<dyn FnOnce() -> Box<dyn Backend> + Send>;

/// The driver of a table, which may query a next hop; `None` for a local table.
pub(super) fn backend(
    settings: &Arc<dyn TableSettings>,
    asked: Option<&AskedHop>,
) -> Option<Build> {
    let kinds = [
        asked
            .cloned()
            .and_then(|hop| build(settings, move |ahead: &CallAhead| ahead.backend(hop.clone()))),
        build(settings, LdapSettings::backend),
        build(settings, Redis::backend),
        build(settings, Socketmap::backend),
        build(settings, TcpTable::backend),
        #[cfg(feature = "sql")]
        build(settings, Sql::backend),
    ];
    kinds.into_iter().flatten().next()
}

/// The settings of a table that copies a directory; `None` for other tables.
pub(super) fn copied(settings: &Arc<dyn TableSettings>) -> Option<&LdapSettings> {
    settings.of::<LdapSettings>().filter(|settings| settings.is_copied())
}

/// The password verifier of an LDAP table; `None` for other kinds.
pub(crate) fn verifier(settings: &Arc<dyn TableSettings>) -> Option<Verifier> {
    settings.of::<LdapSettings>().map(LdapSettings::verifier)
}

fn build<S: TableSettings>(
    settings: &Arc<dyn TableSettings>,
    backend: impl Fn(&S) -> Box<dyn Backend> + Send + 'static,
) -> Option<Build> {
    settings.of::<S>()?;
    let settings = Arc::clone(settings);
    // Checked just before.
    Some(Box::new(move || settings.of::<S>().map(backend).expect("the kind of the settings")))
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(not(feature = "sql"))]
    fn a_kind_that_this_build_does_not_have_names_its_feature() {
        let text = "[[listener]]\naddress = \"127.0.0.1:25\"\n[[table]]\nname = \"t\"\n\
                    sql = { url = \"sqlite:x\", query = \"SELECT 1\" }\n[[route]]\ndiscard = {}\n";
        let schema = super::kinds(channels::sections());
        let mistakes = schema.parse(text, "test.toml").unwrap_err().to_string();
        assert!(mistakes.contains("needs the feature `sql`"), "{mistakes}");
    }
}
