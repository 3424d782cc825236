//! Who waited for an answer in vain, by what was written and read when.

use super::Network;
use super::connection::{Pipe, Side, StreamRead};

impl Network {
    /// Whether the client's end of a connection gave up what it had begun to write behind its first `start_bytes`,
    /// before it read the last of the other end's first `reply_end` bytes: it wrote and read nothing for
    /// `patience_us`, then wrote (that it had given up), and only then read that.
    #[must_use]
    pub fn gave_up(
        &self,
        connection: u64,
        start_bytes: u64,
        reply_end: u64,
        patience_us: u64,
    ) -> bool {
        let state = self.0.state.borrow();
        state.connections.get(&connection).is_some_and(|connection| {
            let [client, server] =
                [Side::Client, Side::Server].map(|side| &connection.pipes[side as usize]);
            longest_silence_us(client, server, start_bytes, reply_end) >= patience_us
        })
    }
}

/// The longest silence of the client's end that it broke itself, within what it wrote behind `start_bytes` and
/// before it had read `reply_end`.
fn longest_silence_us(client: &Pipe, server: &Pipe, start_bytes: u64, reply_end: u64) -> u64 {
    let reads = &server.reads;
    let heard = reads.get(reads.partition_point(|read| read.end < reply_end));
    let Some(&StreamRead { written_bytes: said_bytes, .. }) = heard else { return 0 };
    let silence_us = |pair: &[(u64, u64)]| {
        let &[(before_bytes, before_us), (end_bytes, at_us)] = pair else { return 0 };
        if before_bytes <= start_bytes || end_bytes > said_bytes {
            return 0;
        }
        let count = reads.partition_point(|read| read.written_bytes <= before_bytes);
        let read_us = reads[..count].last().map_or(0, |read| read.at_us);
        at_us - before_us.max(read_us)
    };
    client.writes.windows(2).map(silence_us).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bound at 1 s; 1,000 bytes from byte 100 on at 3 s, and these writes later.
    fn client(later: &[(u64, u64)]) -> Pipe {
        let writes = [&[(100, 1_000_000), (1_100, 3_000_000)], later].concat();
        Pipe { writes, ..Pipe::default() }
    }

    /// The bind is answered at 1 s, and this is read later.
    fn server(later: &[(u64, u64, u64)]) -> Pipe {
        let read = |&(end, at_us, written_bytes)| StreamRead { end, at_us, written_bytes };
        let reads = [&[(90, 1_000_000, 100)], later].concat();
        Pipe { reads: reads.iter().map(read).collect(), ..Pipe::default() }
    }

    #[test]
    fn who_hears_in_time_has_not_given_up() {
        // What it waits for may take long, as long as nothing is said before it comes.
        let server = server(&[(104, 40_000_000, 1_100)]);
        assert_eq!(longest_silence_us(&client(&[]), &server, 100, 104), 0);
        // The next one begins in the moment in which the last is acknowledged.
        let next = client(&[(2_000, 40_000_000)]);
        assert_eq!(longest_silence_us(&next, &server, 100, 104), 0);
        // The pause before it began is not a silence of the other end.
        let late = Pipe { writes: vec![(100, 1_000_000), (1_100, 30_000_000)], ..Pipe::default() };
        assert_eq!(longest_silence_us(&late, &server, 100, 104), 0);
    }

    #[test]
    fn who_says_so_after_a_silence_and_hears_then_has_given_up() {
        let client = client(&[(1_119, 18_000_000)]);
        let late = server(&[(104, 18_000_000, 1_119)]);
        assert_eq!(longest_silence_us(&client, &late, 100, 104), 15_000_000);
        // It heard in the same moment, and before.
        let just = server(&[(104, 18_000_000, 1_100)]);
        assert_eq!(longest_silence_us(&client, &just, 100, 104), 0);
        // Something else (a checkpoint) was acknowledged meanwhile.
        let partly = server(&[(97, 10_000_000, 1_100), (104, 19_000_000, 1_119)]);
        assert_eq!(longest_silence_us(&client, &partly, 100, 104), 8_000_000);
    }
}
