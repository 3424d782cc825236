//! What the emulated path itself can carry, and what that costs.

use super::{LongPath, PathShape, Traffic};
use load::stop::{CommandError, Outcome};
use serde_json::json;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Emulate a long network path, and measure round trips and one TCP stream.
///
/// The throughput of the stream is the limit for any relay on this path.
#[derive(clap::Args, Clone, Debug)]
pub struct PathOptions {
    /// Round-trip time
    #[arg(long, value_name = "MS", default_value_t = 50.0, value_parser = milliseconds)]
    pub rtt_ms: f64,
    /// Share of packets lost in each direction
    #[arg(long, value_name = "SHARE", default_value_t = 0.001, value_parser = share)]
    pub loss: f64,
    /// Seed for lost packets
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Size of the stream in megabytes
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub megabytes: u64,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Exchanges of one byte to measure the round trip with.
const ROUND_TRIPS: usize = 20;

/// Nothing on the path may take longer.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

fn milliseconds(text: &str) -> Result<f64, String> {
    in_range(text, 10_000.0, "milliseconds from 0 to 10000")
}

fn share(text: &str) -> Result<f64, String> {
    in_range(text, 1.0, "a share from 0 to 1")
}

fn in_range(text: &str, max: f64, what: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| format!("not {what}"))?;
    if (0.0..=max).contains(&number) { Ok(number) } else { Err(format!("not {what}")) }
}

/// The command.
pub fn run(options: &PathOptions) -> Outcome {
    let rtt = Duration::from_secs_f64(options.rtt_ms / 1_000.0);
    let path = LongPath::start(PathShape { rtt, loss: options.loss }, options.seed)
        .map_err(|unavailable| CommandError::new(unavailable.to_string()))?;
    let failed = |error: io::Error| CommandError::new(format!("the emulated path: {error}"));
    let round_trips = round_trips(&path, ROUND_TRIPS).map_err(failed)?;
    let before = path.traffic().map_err(failed)?;
    let time = stream(&path, options.megabytes * 1_000_000).map_err(failed)?;
    let (out, back) = path.traffic().map_err(failed)?;
    let megabits = options.megabytes as f64 * 8.0 / time.as_secs_f64();
    let cpu_us = |traffic: Traffic, before: Traffic| traffic.cpu_us - before.cpu_us;
    let cpu = (cpu_us(out, before.0) + cpu_us(back, before.1)) as f64 / time.as_micros() as f64;
    let ms = |time: Option<&Duration>| time.map(|time| time.as_secs_f64() * 1_000.0);
    let (least, median) = (ms(round_trips.first()), ms(round_trips.get(ROUND_TRIPS / 2)));
    if options.json {
        let report = json!({
            "kind": path.kind().name(), "rtt_min_ms": least, "rtt_median_ms": median,
            "stream_bytes": options.megabytes * 1_000_000, "stream_seconds": time.as_secs_f64(),
            "megabits_per_second": megabits, "cores_used": cpu, "out": out, "back": back,
        });
        println!("{report}");
        return Ok(ExitCode::SUCCESS);
    }
    println!("emulated by {}", path.kind().name());
    println!(
        "round trip of one byte: {:.2} ms at least, {:.2} ms in the middle",
        least.unwrap_or(0.0),
        median.unwrap_or(0.0)
    );
    println!(
        "{} MB to the far end in {:.2} s: {megabits:.0} Mbit/s, {cpu:.2} cores busy carrying",
        options.megabytes,
        time.as_secs_f64()
    );
    for (name, way) in [("out", out), ("back", back)] {
        println!(
            "{name}: {} packets, {} dropped, {} found a queue full, at most {} µs late",
            way.carried, way.dropped, way.overflowed, way.late_max_us
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Listens at the far end, on a port of the kernel's choice.
pub(super) fn listen(path: &LongPath) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = path.at_far_end(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)))??;
    let address = (path.far(), listener.local_addr()?.port()).into();
    Ok((listener, address))
}

/// The times of so many exchanges of a byte on one connection, the shortest first.
pub(super) fn round_trips(path: &LongPath, count: usize) -> io::Result<Vec<Duration>> {
    let (listener, address) = listen(path)?;
    let echo = std::thread::spawn(move || -> io::Result<()> {
        let mut peer = accept(&listener)?;
        let mut byte = [0];
        while peer.read(&mut byte)? > 0 {
            peer.write_all(&byte)?;
        }
        Ok(())
    });
    let mut peer = connect(address)?;
    let mut times = Vec::with_capacity(count);
    for n in 0..count {
        let begun = Instant::now();
        let mut byte = [n as u8];
        peer.write_all(&byte)?;
        peer.read_exact(&mut byte)?;
        times.push(begun.elapsed());
    }
    drop(peer);
    joined(echo)?;
    times.sort();
    Ok(times)
}

/// Sends so many bytes to the far end; how long it took until the far end had read them all.
fn stream(path: &LongPath, bytes: u64) -> io::Result<Duration> {
    let (listener, address) = listen(path)?;
    let reader = std::thread::spawn(move || io::copy(&mut accept(&listener)?, &mut io::sink()));
    let mut peer = connect(address)?;
    let begun = Instant::now();
    io::copy(&mut io::repeat(b'x').take(bytes), &mut peer)?;
    drop(peer);
    let read = joined(reader)?;
    if read == bytes {
        return Ok(begun.elapsed());
    }
    Err(io::Error::other(format!("{read} of {bytes} bytes arrived")))
}

/// A connection that doesn't wait for ever.
pub(super) fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    limited(TcpStream::connect_timeout(&address, PATIENCE)?)
}

/// The other end of it.
pub(super) fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    limited(listener.accept()?.0)
}

fn limited(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// What a thread returned.
pub(super) fn joined<T>(thread: std::thread::JoinHandle<io::Result<T>>) -> io::Result<T> {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
