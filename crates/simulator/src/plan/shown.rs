//! A plan as people read it.

use super::{ActKind, Crash, CrashKind, Hop, Plan};
use std::fmt;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: {} shards, {} logs", self.seed, self.shards, self.logs)?;
        let (clients, messages) = self.clients;
        writeln!(
            f,
            "  {clients} clients with {messages} messages each until {} s, unsettled_max {}",
            seconds(self.traffic_us),
            self.unsettled_max
        )?;
        self.hops.iter().try_for_each(|hop| write_hop(f, hop))?;
        if let Some(crowd) = self.crowd {
            writeln!(f, "  {crowd:?}")?;
        }
        if let Some(parts) = self.parts {
            writeln!(f, "  {parts:?}")?;
        }
        if let Some(max) = self.lookups_max {
            writeln!(f, "  {max} lookups at once")?;
        }
        if let Some(directory) = &self.directory {
            writeln!(f, "  {directory:?}")?;
        }
        if let Some(pace) = &self.pace {
            writeln!(f, "  {pace:?}")?;
        }
        if let Some(x400) = &self.x400 {
            writeln!(f, "  {x400:?}")?;
        }
        if self.swapped {
            writeln!(
                f,
                "  the hosts found by MX records are in the other order for the second domain"
            )?;
        }
        self.crashes.iter().try_for_each(|crash| write_crash(f, crash))?;
        for (number, change) in self.changes.iter().enumerate() {
            writeln!(f, "  change {number}: {change:?}")?;
        }
        for (number, change) in self.zone_changes.iter().enumerate() {
            writeln!(f, "  zones {number}: {change:?}")?;
        }
        for act in self.acts.iter().filter(|act| act.kind != ActKind::Ask) {
            writeln!(f, "  {} s: {:?}", seconds(act.at_us), act.kind)?;
        }
        writeln!(f, "  until {} s, in thousandths: {:?}", seconds(self.heal_us), self.fault_rates)
    }
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

fn write_hop(f: &mut fmt::Formatter<'_>, hop: &Hop) -> fmt::Result {
    writeln!(
        f,
        "  {:?} at {:?}{}{}{}, {} connections, {} in flight, {} per second, chunking {}, pipelining {}, replies \
         one by one {}, \
         defers until {} s, down {} to {} s",
        hop.domains,
        hop.hosts,
        if hop.dead { " (dead)" } else { "" },
        if hop.refuses { " (refuses all)" } else { "" },
        if hop.is_well { " (well)" } else { "" },
        hop.connections_max,
        hop.in_flight_max,
        hop.per_second,
        hop.chunking,
        hop.pipelining,
        hop.dribbles,
        seconds(hop.defers_until_us),
        seconds(hop.down_us.0),
        seconds(hop.down_us.1)
    )?;
    if hop.defers_all_until_us > 0 {
        writeln!(f, "    defers all until {} s", seconds(hop.defers_all_until_us))?;
    }
    if let Some(stumble) = &hop.stumble {
        writeln!(f, "    its first host fails: {stumble:?}")?;
    }
    if let Some(tls) = &hop.tls {
        writeln!(f, "    {tls:?}")?;
    }
    if !hop.discards {
        writeln!(f, "    reads chunks that it refuses as commands")?;
    }
    Ok(())
}

fn write_crash(f: &mut fmt::Formatter<'_>, crash: &Crash) -> fmt::Result {
    let power = if crash.power { "power is lost" } else { "the process is killed" };
    let how = match crash.kind {
        CrashKind::Kill => power.to_owned(),
        CrashKind::Poison(failure) => format!("a disk fails ({failure:?}), then {power}"),
        CrashKind::Stop => "it is stopped".to_owned(),
    };
    let (at, down) = (seconds(crash.at_us), seconds(crash.down_us));
    let amid = if crash.amid_write { ", amid a write" } else { "" };
    writeln!(f, "  {at} s and {} steps{amid}: {how}; back after {down} s", crash.polls)?;
    if let Some(count) = crash.again_after {
        writeln!(f, "    and power is lost {count} disk operations later")?;
    }
    Ok(())
}
