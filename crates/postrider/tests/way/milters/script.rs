//! A filter that a test scripts.

use crate::world::TestWorld;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

/// Everything may be done.
pub(super) const ALL: u32 = 0x1ff;
/// Values are told with the blank before them.
pub(super) const LEADING_SPACE: u32 = 0x10_0000;
pub(super) const SKIP: u32 = 0x400;
/// Fields are not answered.
pub(super) const FIELDS_UNANSWERED: u32 = 0x80;

pub(super) fn packet(command: u8, data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len() + 1).expect("a packet");
    [&length.to_be_bytes()[..], &[command], data].concat()
}

/// A filter: what it says to which command, and what it was told.
#[derive(Clone)]
pub(super) struct Script(pub(super) Rc<Memory>);

pub(super) struct Memory {
    negotiated: Cell<(u32, u32)>,
    /// By command, whenever it comes; empty: it hangs up. Otherwise it goes on.
    answers: RefCell<BTreeMap<u8, Vec<Vec<u8>>>>,
    /// Waits so long before it answers that.
    pub(super) pauses: RefCell<BTreeMap<u8, Duration>>,
    told: RefCell<Vec<String>>,
    macros: RefCell<BTreeMap<String, String>>,
    pub(super) body: RefCell<Vec<u8>>,
    pub(super) connections: Cell<usize>,
}

impl Script {
    pub(super) fn at(world: &TestWorld, address: &str, actions: u32, protocol: u32) -> Script {
        let script = Script(Rc::new(Memory {
            negotiated: Cell::new((actions, protocol)),
            answers: RefCell::default(),
            pauses: RefCell::default(),
            told: RefCell::default(),
            macros: RefCell::default(),
            body: RefCell::default(),
            connections: Cell::new(0),
        }));
        let address: SocketAddr = address.parse().expect("an address");
        let serving = script.clone();
        world.serve(address, move |stream| {
            let script = serving.clone();
            script.0.connections.set(script.0.connections.get() + 1);
            tokio::task::spawn_local(async move {
                // Whoever hangs up has heard enough.
                let _ = script.converse(stream).await;
            });
        });
        script
    }

    /// What it says to a command, in packets.
    pub(super) fn says(&self, command: u8, packets: &[Vec<u8>]) -> &Script {
        self.0.answers.borrow_mut().insert(command, packets.to_vec());
        self
    }

    pub(super) fn heal(&self) {
        self.0.answers.borrow_mut().clear();
        self.0.pauses.borrow_mut().clear();
    }

    pub(super) fn told(&self) -> Vec<String> {
        self.0.told.take()
    }

    pub(super) fn told_of(&self, name: &str) -> Option<String> {
        self.0.macros.borrow().get(name).cloned()
    }

    async fn converse(&self, mut stream: DuplexStream) -> std::io::Result<()> {
        loop {
            let length = stream.read_u32().await?;
            let mut data = vec![0; length as usize];
            stream.read_exact(&mut data).await?;
            let (command, data) = data.split_first().expect("a command");
            let texts = |data: &[u8]| {
                let text = String::from_utf8_lossy(data).into_owned();
                text.trim_end_matches('\0').split('\0').map(str::to_owned).collect::<Vec<_>>()
            };
            match command {
                b'D' => {
                    let all = texts(&data[1..]);
                    let pairs = all.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone()));
                    self.0.macros.borrow_mut().extend(pairs);
                    continue;
                }
                b'B' => {
                    assert!(data.len() <= 65_535);
                    self.0.body.borrow_mut().extend_from_slice(data);
                    self.0.told.borrow_mut().push("B".to_owned());
                }
                b'O' => {
                    let (actions, protocol) = self.0.negotiated.get();
                    let numbers = [6, actions, protocol].map(u32::to_be_bytes).concat();
                    stream.write_all(&packet(b'O', &numbers)).await?;
                    continue;
                }
                other => {
                    let texts = texts(data).join(" ");
                    let what = format!("{} {texts}", char::from(*other));
                    self.0.told.borrow_mut().push(what.trim_end().to_owned());
                }
            }
            if matches!(command, b'A' | b'Q') {
                continue;
            }
            let pause = self.0.pauses.borrow().get(command).copied();
            if let Some(pause) = pause {
                tokio::time::sleep(pause).await;
            }
            let answer = self.0.answers.borrow().get(command).cloned();
            let is_answered =
                *command != b'L' || self.0.negotiated.get().1 & FIELDS_UNANSWERED == 0;
            match answer {
                Some(packets) if packets.is_empty() => return Ok(()),
                Some(packets) => stream.write_all(&packets.concat()).await?,
                None if is_answered => stream.write_all(&packet(b'c', b"")).await?,
                None => {}
            }
        }
    }
}
