//! The configuration and handler of each listening socket.

use super::protocol::{Handler, Protocol};
use crate::pressure::Pressures;
use crate::seams::World;
use config::{Config, Listener};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// A listener's configuration and handler.
#[derive(Debug)]
pub(super) struct ListenerRules<H: ?Sized> {
    pub(super) listener: Arc<Listener>,
    /// `None` if this build lacks the protocol.
    pub(super) handler: Option<Rc<H>>,
    /// A reload removed the listener.
    is_withdrawn: Cell<bool>,
}

impl<H: ?Sized> ListenerRules<H> {
    pub(super) fn new(listener: &Arc<Listener>, handler: Option<Rc<H>>) -> ListenerRules<H> {
        ListenerRules { listener: Arc::clone(listener), handler, is_withdrawn: Cell::new(false) }
    }

    /// Returns true if the active configuration no longer contains the listener. Its socket stays open until the next
    /// start, but grants no rights.
    pub(super) fn is_withdrawn(&self) -> bool {
        self.is_withdrawn.get()
    }
}

/// The rules of all listeners of a configuration.
pub(super) fn rules_of<W: World>(
    config: &Config,
    protocols: &[Rc<dyn Protocol<W>>],
    pools: &Pressures,
) -> Vec<Rc<ListenerRules<dyn Handler<W>>>> {
    let rules = |listener: &Arc<Listener>| {
        let protocol = protocols.iter().find(|protocol| protocol.name() == &*listener.kind);
        let handler = protocol.map(|protocol| protocol.handler(config, listener, pools));
        Rc::new(ListenerRules::new(listener, handler))
    };
    config.listeners.iter().map(rules).collect()
}

/// The rules of each open socket after a reload. Sockets are matched by address, then by name, never by order: the
/// settings of another listener, for example one that may relay, must not apply to them. A socket without a match is
/// withdrawn.
pub(super) fn rules_by_socket<H: ?Sized>(
    sockets: &[Rc<ListenerRules<H>>],
    new: &[Rc<ListenerRules<H>>],
) -> Vec<Rc<ListenerRules<H>>> {
    let find = |old: &ListenerRules<H>| {
        let same_address = |rules: &&Rc<ListenerRules<H>>| {
            let address = rules.listener.address;
            address.port() != 0 && address == old.listener.address
        };
        // A Unix socket never becomes one with addresses: its clients would count as 127.0.0.1.
        let same_name = |rules: &&Rc<ListenerRules<H>>| {
            let (one, other) = (&rules.listener, &old.listener);
            one.name == other.name && one.socket.is_some() == other.socket.is_some()
        };
        new.iter().find(same_address).or_else(|| new.iter().find(same_name)).cloned()
    };
    let withdrawn = |old: &Rc<ListenerRules<H>>| {
        old.is_withdrawn.set(true);
        Rc::clone(old)
    };
    sockets.iter().map(|old| find(old).unwrap_or_else(|| withdrawn(old))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Vec<Rc<ListenerRules<()>>> {
        let text = format!("hostname = \"relay.test\"\n{text}[[route]]\ndiscard = {{}}\n");
        let config = crate::testing::schema().parse(&text, "test.toml").unwrap();
        let rules = |listener| Rc::new(ListenerRules::new(listener, None));
        config.listeners.iter().map(rules).collect()
    }

    #[test]
    fn a_reload_that_moves_listeners_about_gives_no_socket_the_rules_of_another() {
        let open = "[[listener]]\nname = \"open\"\naddress = \"127.0.0.1:2525\"\n\
            relay_from = [\"127.0.0.0/8\"]\n";
        let shut = "[[listener]]\nname = \"shut\"\naddress = \"0.0.0.0:2526\"\n";
        let sockets = rules(&format!("{open}{shut}"));
        let names = |rules: &[Rc<ListenerRules<()>>]| -> Vec<String> {
            rules.iter().map(|rules| rules.listener.name.to_string()).collect()
        };
        let swapped = rules_by_socket(&sockets, &rules(&format!("{shut}{open}")));
        assert_eq!(names(&swapped), ["open", "shut"]);
        let fewer = rules_by_socket(&sockets, &rules(shut));
        assert_eq!(names(&fewer), ["open", "shut"]);
        assert!(Rc::ptr_eq(&fewer[0], &sockets[0]), "there is nothing else to go by");
        assert!(fewer[0].is_withdrawn() && !fewer[1].is_withdrawn());
        let back = rules_by_socket(&fewer, &rules(&format!("{open}{shut}")));
        assert!(!back[0].is_withdrawn() && !back[1].is_withdrawn());
        let moved = shut.replace("2526", "2527");
        let moved = rules_by_socket(&sockets, &rules(&format!("{moved}{open}")));
        assert_eq!(moved[1].listener.address.port(), 2527, "found by its name");
    }
}
