//! Conversations as a packet capture, with made-up IP and TCP around them.

use std::io::Write;
use std::path::{Path, PathBuf};

/// Raw IP (LINKTYPE_RAW).
const LINK_TYPE: u32 = 101;
/// The caller's port; the other is 102, TPKT's own.
const CALLER: u16 = 40_000;
const CALLED: u16 = 102;
/// What one packet carries at most.
const SEGMENT_BYTES: usize = 8_000;

/// Writes what was said, and by whom (`true` is the caller), to a file of this name.
pub(crate) fn write(name: &str, wire: &[(bool, Vec<u8>)]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.pcap"));
    let mut file = std::fs::File::create(&path).expect("a file");
    let mut out = Vec::new();
    for word in [0xA1B2_C3D4, 0x0004_0002, 0, 0, 0x0004_0000, LINK_TYPE] {
        out.extend(u32::to_ne_bytes(word));
    }
    // Sequence numbers of caller and called.
    let mut next = [1_u32, 1];
    let mut packets = 0;
    let mut packet = |out: &mut Vec<u8>, by_caller: bool, flags: u8, octets: &[u8]| {
        let (from, to) = if by_caller { (0, 1) } else { (1, 0) };
        let ports = [CALLER, CALLED];
        let mut tcp = Vec::new();
        tcp.extend(ports[from].to_be_bytes());
        tcp.extend(ports[to].to_be_bytes());
        tcp.extend(next[from].to_be_bytes());
        tcp.extend(next[to].to_be_bytes());
        tcp.extend([0x50, flags, 0xFF, 0xFF, 0, 0, 0, 0]);
        tcp.extend(octets);
        let mut ip = vec![0x45, 0];
        ip.extend((20 + tcp.len() as u16).to_be_bytes());
        ip.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 127, 0, 0, 1 + from as u8, 127, 0, 0, 1 + to as u8]);
        ip.extend(tcp);
        packets += 1;
        for word in [1_764_000_000, packets, ip.len() as u32, ip.len() as u32] {
            out.extend(u32::to_ne_bytes(word));
        }
        out.extend(ip);
        next[from] += octets.len() as u32 + u32::from(flags & 2 != 0);
    };
    packet(&mut out, true, 0x02, &[]);
    packet(&mut out, false, 0x12, &[]);
    for (by_caller, octets) in wire {
        for segment in octets.chunks(SEGMENT_BYTES) {
            packet(&mut out, *by_caller, 0x18, segment);
        }
    }
    file.write_all(&out).expect("written");
    path
}
