//! Authors and keys of signers, as far as the configuration lists them.

use super::settings::{Keys, Signer, SigningName};
use config::DomainPattern;
use mail::Domain;

/// Authors and keys of one signer.
#[derive(Debug)]
pub struct SigningScope<'a> {
    /// Author domains listed by name, in ASCII.
    pub authors: Vec<String>,
    /// Further domains that it signs for, as text for people: `*.example.org`, `*`.
    pub others: Vec<String>,
    /// The table with its keys, if it has one.
    pub table: Option<&'a str>,
    /// Its keys under all signing domains, including next keys. Keys in the table are not included.
    pub keys: Vec<SigningName<'a>>,
}

impl Signer {
    /// The authors and keys of this signer.
    pub(crate) fn scope(&self) -> SigningScope<'_> {
        let (mut authors, mut others, mut signs_as) = (Vec::new(), Vec::new(), Vec::new());
        for pattern in &self.domains {
            let (DomainPattern::Exact(named) | DomainPattern::Below(named)) = pattern;
            let Some(named) = Domain::dns_name(named.as_str()) else { continue };
            match pattern {
                DomainPattern::Exact(_) => authors.push(named.clone()),
                DomainPattern::Below(_) => others.push(format!("*.{named}")),
            }
            if !signs_as.contains(&named) {
                signs_as.push(named);
            }
        }
        if self.domains.is_empty() {
            others.push("*".to_owned());
        }
        if let Some(domain) = &self.sign_as {
            signs_as = vec![domain.clone()];
        }
        let table = match &self.keys {
            Keys::Own(..) => None,
            Keys::Table(table) => Some(&*table.name),
        };
        let keys = signs_as.iter().flat_map(|domain| self.names_as(domain)).collect();
        SigningScope { authors, others, table, keys }
    }
}

#[cfg(test)]
mod tests {
    use crate::stages::signing::{Signer, SignerText};
    use config::StageSection as _;

    /// The scopes of the signers in a configuration.
    fn scopes(signers: &str) -> Vec<String> {
        let text = format!(
            "[[listener]]\naddress = \"127.0.0.1:0\"\n{signers}[[route]]\ndiscard = {{}}\n"
        );
        let config = crate::schema().parse(&text, "x.toml").unwrap();
        let entries = config.stages.iter().filter(|entry| entry.key == SignerText::KEY);
        let shown = |signer: &Signer| {
            let scope = signer.scope();
            let keys: Vec<&str> = scope.keys.iter().map(|key| &*key.name).collect();
            let table = scope.table.unwrap_or("-");
            format!("{:?} {:?} {table} {keys:?}", scope.authors, scope.others)
        };
        entries.filter_map(|entry| entry.settings.of::<Signer>()).map(shown).collect()
    }

    #[test]
    fn what_signers_name_is_told_and_what_they_do_not_too() {
        let signers = "[[signer]]\ndomains = [\"Example.org\", \"*.example.org\"]\nselector = \"s1\"\nkey = \"/k\"\n\
            next = { selector = \"s2\", key = \"/k2\", from = \"2027-01-01T00:00:00Z\" }\n\
            [[signer]]\ndomains = [\"*\"]\nsign_as = \"esp.test\"\nselector = \"s3\"\nkey = \"/k\"\n\
            [[signer]]\nkeys = { table = \"t\" }\n[[table]]\nname = \"t\"\n[table.inline]\na = \"b\"\n";
        let own = "[\"s1._domainkey.example.org\", \"s2._domainkey.example.org\"]";
        assert_eq!(
            scopes(signers),
            [
                format!("[\"example.org\"] [\"*.example.org\"] - {own}"),
                "[] [\"*\"] - [\"s3._domainkey.esp.test\"]".to_owned(),
                "[] [\"*\"] t []".to_owned(),
            ]
        );
    }
}
