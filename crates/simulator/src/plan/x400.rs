//! Worlds with MTAs of X.400: who transfers to the node over P1, whom it transfers to, and what goes wrong between them.
//! Drawn by itself so that it changes nothing else.

use super::Plan;
use crate::names::{NODE, OR_BACK, OR_DEAD, P1_PORT};
use load::random::Random;
use std::fmt::Write as _;
use std::net::SocketAddr;
use x400::association::Mode;

const MODES: [Mode; 3] = [Mode::Normal, Mode::X410, Mode::X410Of1984];

/// MTAs of X.400.
#[derive(Clone, Debug)]
pub struct X400Plan {
    /// Whom the node knows: each may bind, and mail goes there. The last one is dead.
    pub peers: Vec<P1Peer>,
    /// Those that transfer to the node.
    pub clients: Vec<P1ClientPlan>,
    /// What goes wrong with peers until all heals, in thousandths.
    pub peer_faults: P1PeerFaults,
    /// The same of clients.
    pub client_faults: P1ClientFaults,
}

/// An MTA that the node knows.
#[derive(Clone, Debug)]
pub struct P1Peer {
    /// The node's name for it.
    pub name: String,
    /// Where it listens.
    pub host: SocketAddr,
    /// The ends of the O/R addresses that go there.
    pub organizations: Vec<String>,
    /// How RTSE is spoken with it.
    pub mode: Mode,
    /// Associations that the node may open.
    pub associations_max: u32,
    /// Checkpoints that the node proposes: at first, and after every other reload.
    pub checkpoints_kib: [u32; 2],
    /// Unacknowledged checkpoints that the node proposes.
    pub window: u32,
    /// The longest TPDU that it agrees to.
    pub tpdu_bytes: usize,
    /// Checkpoints that it asks for.
    pub own_checkpoint_kib: u32,
    /// Nobody listens between these.
    pub down_us: (u64, u64),
    /// Nobody listens, ever.
    pub dead: bool,
}

/// An MTA that transfers to the node.
#[derive(Clone, Copy, Debug)]
pub struct P1ClientPlan {
    /// As which of the peers it binds.
    pub peer: usize,
    /// How it speaks RTSE.
    pub mode: Mode,
    /// Checkpoints that it proposes; 0 for none.
    pub checkpoint_kib: u32,
    /// Unacknowledged checkpoints.
    pub window: u32,
    /// The longest TPDU that it offers.
    pub tpdu_bytes: usize,
    /// It offers the node turns, and gives one now and then.
    pub two_way: bool,
    /// Messages that it has.
    pub messages: u32,
}

/// What goes wrong with those that are called, in thousandths.
#[derive(Clone, Copy, Debug)]
pub struct P1PeerFaults {
    /// Of connections: it says nothing.
    pub mute: u16,
    /// Of connections: it refuses the bind, for it is busy.
    pub busy: u16,
    /// Of connections: it answers with another password.
    pub stranger: u16,
    /// Of connections: it reads a little at a time.
    pub slow: u16,
    /// Of APDUs: it cuts the connection.
    pub cut: u16,
    /// Of APDUs: it takes it, and its acknowledgement is lost.
    pub lose: u16,
    /// Of APDUs: it is temporarily unable.
    pub unable: u16,
    /// Of APDUs: it aborts.
    pub abort: u16,
    /// Of APDUs: it reads no further, for a while or until nobody waits for it any more.
    pub silent: u16,
}

/// What goes wrong with those that call, in thousandths.
#[derive(Clone, Copy, Debug)]
pub struct P1ClientFaults {
    /// Of connections: it says nothing.
    pub mute: u16,
    /// Of connections: it shows a password that is not its own.
    pub wrong_password: u16,
    /// Of APDUs: it cuts the connection in the middle.
    pub cut: u16,
    /// Of APDUs: it cuts the connection behind the last octet, whatever is acknowledged.
    pub lose: u16,
    /// Of APDUs: it aborts in the middle.
    pub abort: u16,
    /// Of APDUs: it gives it up in the middle, and the association goes on.
    pub discard: u16,
    /// Of APDUs: it takes its time in the middle.
    pub slow: u16,
    /// Of APDUs: it closes the connection behind the acknowledgement, and releases nothing.
    pub vanish: u16,
}

impl Plan {
    /// Draws it for one world of three without small domains: those have a bound on how long mail takes.
    pub(super) fn add_x400(&mut self, random: &mut Random) {
        if random.below(3) > 0 || self.crowd.is_some() {
            return;
        }
        let alive = 1 + random.below(2) as u8;
        let mut peers: Vec<P1Peer> =
            (0..=alive).map(|number| self.draw_peer(random, number, number == alive)).collect();
        peers[0].organizations.push(OR_BACK.to_owned());
        let clients = (0..1 + random.below(3)).map(|_| P1ClientPlan {
            peer: random.below(u64::from(alive)) as usize,
            mode: any(random, MODES),
            checkpoint_kib: any(random, [0, 0, 1, 4]),
            window: 1 + random.below(4) as u32,
            tpdu_bytes: any(random, [128, 2_048, 65_408, 65_408]),
            two_way: random.below(4) == 0,
            messages: 3 + random.below(8) as u32,
        });
        self.x400 = Some(X400Plan {
            clients: clients.collect(),
            peers,
            peer_faults: peer_faults(random),
            client_faults: client_faults(random),
        });
    }

    fn draw_peer(&self, random: &mut Random, number: u8, dead: bool) -> P1Peer {
        let from_us = random.below(self.heal_us);
        let for_us = if random.below(2) == 0 { random.below(self.heal_us - from_us) } else { 0 };
        let organization = format!("/O=org{number}/PRMD=Peers/ADMD= /C=GB/");
        P1Peer {
            name: format!("p{number}"),
            host: SocketAddr::new([10, 3, 0, number + 1].into(), P1_PORT),
            organizations: vec![if dead { OR_DEAD.to_owned() } else { organization }],
            mode: any(random, MODES),
            associations_max: 1 + random.below(3) as u32,
            checkpoints_kib: [any(random, [0, 0, 1, 4]), any(random, [0, 1, 2])],
            window: 1 + random.below(4) as u32,
            tpdu_bytes: any(random, [128, 2_048, 65_408, 65_408]),
            own_checkpoint_kib: any(random, [0, 0, 0, 1]),
            down_us: (from_us, from_us + for_us),
            dead,
        }
    }
}

fn any<T: Copy, const COUNT: usize>(random: &mut Random, all: [T; COUNT]) -> T {
    all[random.below(COUNT as u64) as usize]
}

/// Some worlds are calm in some respects: faults hide one another.
fn some(random: &mut Random, most: u64) -> u16 {
    if random.below(2) == 0 { 0 } else { random.below(most) as u16 }
}

fn peer_faults(random: &mut Random) -> P1PeerFaults {
    P1PeerFaults {
        mute: some(random, 100),
        busy: some(random, 200),
        stranger: some(random, 100),
        slow: some(random, 200),
        cut: some(random, 200),
        lose: some(random, 200),
        unable: some(random, 200),
        abort: some(random, 200),
        silent: some(random, 100),
    }
}

fn client_faults(random: &mut Random) -> P1ClientFaults {
    P1ClientFaults {
        mute: some(random, 100),
        wrong_password: some(random, 200),
        cut: some(random, 200),
        lose: some(random, 400),
        abort: some(random, 200),
        discard: some(random, 200),
        slow: some(random, 200),
        vanish: some(random, 200),
    }
}

impl X400Plan {
    /// Sessions of the node's listener at once.
    pub const SESSIONS_MAX: u64 = 8;
    /// So long the node waits for the answer to an APDU.
    pub const ANSWER_US: u64 = 15_000_000;
    /// The node's name among MTAs.
    pub const MTA: &'static str = "node";
    /// Its domain.
    pub const DOMAIN: &'static str = "/PRMD=Node/ADMD= /C=GB/";

    /// Associations that the node may have open, with all peers.
    #[must_use]
    pub fn associations_max(&self) -> u32 {
        self.peers.iter().map(|peer| peer.associations_max).sum()
    }

    /// Sections of the configuration, after so many changes.
    pub(super) fn sections(&self, changes: usize) -> String {
        let (mta, domain, sessions) = (X400Plan::MTA, X400Plan::DOMAIN, X400Plan::SESSIONS_MAX);
        let answer_s = X400Plan::ANSWER_US / 1_000_000;
        let mut text = format!(
            "[[listener]]\nname = \"p1\"\nkind = \"p1\"\naddress = \"{NODE}:{P1_PORT}\"\nmax_sessions = {sessions}\n\
             [x400]\nmta = \"{mta}\"\ndomain = \"{domain}\"\n"
        );
        for peer in &self.peers {
            let P1Peer { name, host, associations_max, window, .. } = peer;
            let mode = match peer.mode {
                Mode::Normal => "normal",
                Mode::X410 => "x410",
                Mode::X410Of1984 => "x410-1984",
            };
            let checkpoint_kib = peer.checkpoints_kib[changes % 2];
            // Writing to a String can't fail.
            let _ = write!(
                text,
                "[[x400.peer]]\nname = \"{name}\"\nhosts = [\"{host}\"]\nmode = \"{mode}\"\n\
                 their_name = \"{}\"\ntheir_password = \"{}\"\nour_password = \"{}\"\n\
                 max_associations = {associations_max}\ncheckpoint_kib = {checkpoint_kib}\nwindow = {window}\n\
                 connect_timeout = \"5s\"\nanswer_timeout = \"{answer_s}s\"\nidle_timeout = \"3s\"\n\
                 [[route]]\nname = \"to-{name}\"\nor_addresses = {:?}\nx400 = {{ peer = \"{name}\" }}\n",
                peer.mta(),
                peer.password(),
                peer.password_of_node(),
                peer.organizations,
            );
            if peer.dead {
                text.push_str("retry = { give_up_after = \"90s\" }\n");
            }
        }
        text
    }
}

impl P1Peer {
    /// What it calls itself.
    #[must_use]
    pub fn mta(&self) -> String {
        format!("mta-{}", self.name)
    }

    /// What it shows.
    #[must_use]
    pub fn password(&self) -> String {
        format!("theirs-{}", self.name)
    }

    /// What the node shows it.
    #[must_use]
    pub fn password_of_node(&self) -> String {
        format!("ours-{}", self.name)
    }

    /// Whether this O/R address is one of its.
    #[must_use]
    pub fn has(&self, address: &str) -> bool {
        self.organizations.iter().any(|organization| address.ends_with(organization))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_worlds_have_mtas_of_all_modes() {
        let plans: Vec<Plan> = (0..300).map(Plan::new).collect();
        let with: Vec<&X400Plan> = plans.iter().filter_map(|plan| plan.x400.as_ref()).collect();
        assert!((50..130).contains(&with.len()), "{} of 300", with.len());
        for mode in MODES {
            assert!(with.iter().any(|x400| x400.peers[0].mode == mode), "{mode:?}");
            assert!(with.iter().any(|x400| x400.clients[0].mode == mode), "{mode:?}");
        }
        for x400 in with {
            assert!(x400.peers.len() >= 2 && x400.peers.last().is_some_and(|peer| peer.dead));
            assert!(x400.peers[0].has(&format!("/S=x1{OR_BACK}")));
            assert!(x400.clients.iter().all(|client| !x400.peers[client.peer].dead));
        }
    }
}
