//! Our two ends on real sockets, one association at a time.

use bytes::Bytes;
use mail::Mono;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use x400::association::{Initiator, InitiatorSettings, Responder, ResponderSettings};
use x400::testing::driver::{Driver, Machine, Policy};

const PATIENCE: Duration = Duration::from_secs(30);

/// Until the association is over. What came and went is in the driver.
fn drive<M: Machine>(mut driver: Driver<M>, mut stream: TcpStream) -> Driver<M> {
    stream.set_nodelay(true).expect("TCP_NODELAY");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let (started, mut written, mut buffer) = (Instant::now(), 0, vec![0; 65_536]);
    driver.run();
    loop {
        if written < driver.output.len() {
            stream.write_all(&driver.output[written..]).expect("the peer reads");
            written = driver.output.len();
        }
        if driver.machine.is_closed() {
            return driver;
        }
        let bytes = stream.read(&mut buffer).expect("the peer says something");
        driver.now = Mono(started.elapsed().as_micros() as u64);
        if bytes == 0 {
            driver.close();
        } else {
            driver.feed(&buffer[..bytes]);
        }
    }
}

/// A port where one association is answered.
pub(crate) fn answer(settings: ResponderSettings) -> (u16, JoinHandle<Driver<Responder>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let answering = std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a caller");
        drive(Driver::new(Responder::new(settings, Mono(0))), stream)
    });
    (port, answering)
}

/// Transfers these, and releases.
pub(crate) fn call(port: u16, settings: InitiatorSettings, apdus: Vec<Bytes>) -> Driver<Initiator> {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("a peer");
    let mut driver = Driver::new(Initiator::new(settings, Mono(0)));
    driver.policy = Policy { to_send: apdus, releases: true, ..Policy::default() };
    drive(driver, stream)
}
