//! Names of users and of domains, as the configuration and the queue have them, and as P1 has them.

use config::X400;
use mail::{Mailbox, MessageId, OrAddress};
use x400::mts::GlobalDomain;
use x400::or_name::OrName;

/// Octets of a local identifier.
const LOCAL_ID_BYTES_MAX: usize = 32;

/// The recipient or sender that a name of P1 stands for. `None`: no text of a reasonable length says it.
pub(super) fn mailbox(name: &OrName) -> Option<Mailbox> {
    let address = OrAddress::parse(&name.address.to_string()).ok()?;
    Mailbox::of_or_address(&address).ok()
}

/// The same, or what stands for a name that no text says, which no route takes.
pub(super) fn mailbox_or_none(name: &OrName) -> Mailbox {
    let of_nobody = || Mailbox::parse_any("/CN=unreadable address/").ok();
    match mailbox(name).or_else(of_nobody) {
        Some(mailbox) => mailbox,
        None => unreachable!("the address of nobody is one"),
    }
}

/// The local part of an identifier that we give: 32 octets at most (X.411 Annex B, ub-local-id-length).
pub(super) fn local_id(id: MessageId, x400: &X400) -> String {
    format!("{id}.{}", x400.mta).chars().take(LOCAL_ID_BYTES_MAX).collect()
}

/// Our management domain, as the configuration has it.
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
    fn our_domain_is_named_in_the_world() {
        let domain = OrAddress::parse("/PRMD=Example/ADMD= /C=GB/").unwrap();
        assert_eq!(global_domain(&domain).to_string(), "/PRMD=Example/ADMD= /C=GB/");
    }
}
