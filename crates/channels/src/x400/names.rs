//! Conversion of user and domain names between the configuration, the queue and P1.

use crate::x400::section::X400;
use mail::{Mailbox, MessageId, OrAddress};
use x400::mts::GlobalDomain;
use x400::or_name::OrName;

/// Maximum length of a local identifier.
const LOCAL_ID_BYTES_MAX: usize = 32;

/// The mailbox for a P1 name in the queue: all attributes used for routing, and further ones as far as they fit. The
/// envelope keeps the full name. `None` if no attribute identifies a user.
pub(super) fn mailbox(name: &OrName) -> Option<Mailbox> {
    let mut address = name.address.to_plain();
    let mut mailbox = mailbox_of(&address);
    // The longest and least used attributes are dropped first.
    let shorten: [fn(&mut x400::or_name::OrAddress); 3] = [
        |address| address.extensions.clear(),
        |address| address.domain_defined.clear(),
        |address| {
            *address = x400::or_name::OrAddress {
                country: address.country.take(),
                admd: address.admd.take(),
                prmd: address.prmd.take(),
                organization: std::mem::take(&mut address.organization),
                units: std::mem::take(&mut address.units),
                ..x400::or_name::OrAddress::default()
            };
        },
    ];
    for shorten in shorten {
        if mailbox.is_some() {
            break;
        }
        shorten(&mut address);
        mailbox = mailbox_of(&address);
    }
    mailbox
}

fn mailbox_of(address: &x400::or_name::OrAddress) -> Option<Mailbox> {
    // A control character must not end a log line.
    let text: String =
        address.to_string().chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    Mailbox::of_or_address(&OrAddress::parse(&text).ok()?).ok()
}

/// The same, or a placeholder for a name that can't be written as text. No route accepts the placeholder.
pub(super) fn mailbox_or_none(name: &OrName) -> Mailbox {
    let of_nobody = || Mailbox::parse_any("/CN=unreadable address/").ok();
    match mailbox(name).or_else(of_nobody) {
        Some(mailbox) => mailbox,
        None => unreachable!("the address of nobody is one"),
    }
}

/// The local part of an identifier made here, at most 32 octets (X.411 Annex B, ub-local-id-length).
pub(super) fn local_id(id: MessageId, x400: &X400) -> String {
    format!("{id}.{}", x400.mta).chars().take(LOCAL_ID_BYTES_MAX).collect()
}

/// This MTA's management domain, as configured.
pub(super) fn global_domain(domain: &OrAddress) -> GlobalDomain {
    let text = |key: &str| domain.value(key).map(String::into_boxed_str);
    GlobalDomain {
        country: text("C").unwrap_or_default(),
        admd: text("ADMD").unwrap_or_else(|| " ".into()),
        prmd: text("PRMD"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_mailboxes_of_the_queue() {
        for text in [
            "/G=Carol/S=Sender/O=Gamma/PRMD=TestC/ADMD= /C=GB/",
            "/CN=Duty Officer/OU2=b/OU1=a/O=Beta/ADMD=GOLD 400/C=GB/",
            "/DD.RFC-822=tom(u)h(a)cs.widget.example/ADMD=GOLD 400/C=GB/",
        ] {
            let name = OrName::from(x400::or_name::OrAddress::parse(text).unwrap());
            assert_eq!(mailbox(&name).unwrap().as_str(), text, "{}", name.address);
        }
        assert!(mailbox_or_none(&OrName::default()).is_or_address());
    }

    #[test]
    fn odd_names_are_routed_by_what_they_are_routed_by() {
        use x400::or_name::{DomainDefined, OrAddress, Value};
        let base = OrAddress::parse("/S=X/OU1=u/O=Beta/PRMD=TestB/ADMD= /C=GB/").unwrap();
        let long = |kind: &str| DomainDefined {
            kind: Value::printable(kind),
            value: Value::printable("v".repeat(128)),
        };
        let mut odd = vec![base.clone(); 6];
        odd[0].personal_name.given = Value::printable("");
        odd[1]
            .domain_defined
            .push(DomainDefined { kind: Value::printable("A"), value: Value::printable(" ") });
        odd[2].domain_defined = ["a", "b", "c", "d"].map(long).into();
        odd[3].units.push(Value::printable(""));
        odd[4].personal_name.surname = Value::printable("s".repeat(600));
        odd[5].common_name = Value::printable("a\u{85}b");
        for address in odd {
            let mailbox = mailbox(&OrName::from(address.clone())).expect("it names somebody");
            assert_eq!(mailbox.domain_str(), "/OU1=u/O=Beta/PRMD=TestB/ADMD= /C=GB/", "{address}");
            assert!(mailbox.as_str().len() <= 512);
        }
    }

    #[test]
    fn our_domain_is_named_in_the_world() {
        let domain = OrAddress::parse("/PRMD=Example/ADMD= /C=GB/").unwrap();
        assert_eq!(global_domain(&domain).to_string(), "/PRMD=Example/ADMD= /C=GB/");
    }
}
