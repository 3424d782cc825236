//! The queue as text for people.

use crate::terminal::{clean, fit};
use comfy_table::{CellAlignment, Table, presets};
use mail::Wall;
use mta::control::{QueueItem, QueueRecipient, RecipientState, Status, Summary};
use std::fmt::Write as _;
use std::time::Duration;

/// A table, one line per message. With a `width`, long texts are cut so that its lines fit, where that is possible.
pub(super) fn list(items: &[QueueItem], matched: u64, now: Wall, width: Option<u16>) -> String {
    if items.is_empty() {
        return if matched == 0 {
            "Nothing is queued.\n".to_owned()
        } else {
            format!("{}, none shown.\n", counted(matched, "message"))
        };
    }
    let mut rows = vec![LIST_HEADER.map(str::to_owned)];
    for item in items {
        let Some(first) = item.recipients.first() else { continue };
        let open = item.recipients_open.max(u32::try_from(item.recipients.len()).unwrap_or(0));
        let more = open.saturating_sub(1);
        let to = if more > 0 {
            format!("{} and {more} more", clean(&first.address))
        } else {
            clean(&first.address)
        };
        // A recipient on hold has no next attempt.
        let next_try = first.next_try;
        rows.push([
            item.id.to_string(),
            age(Duration::from_millis(item.age_ms)),
            bytes(item),
            sender(item),
            to,
            clean(&first.blocker.text),
            next_try.map_or_else(|| "-".to_owned(), |at| from_now(at, now)),
        ]);
    }
    if let Some(width) = width {
        // The reasons first, then addresses.
        fit(&mut rows, &[5, 4, 3], usize::from(width));
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut rows = rows.into_iter();
    table.set_header(rows.next().unwrap_or_default());
    table.add_rows(rows);
    for column in [1, 2] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text = table.trim_fmt();
    text.push('\n');
    let shown = items.len() as u64;
    if matched > shown {
        let _ = writeln!(text, "The oldest {shown} of {}.", counted(matched, "message"));
    } else {
        let _ = writeln!(text, "{}.", counted(shown, "message"));
    }
    text
}

const LIST_HEADER: [&str; 7] = ["ID", "AGE", "BYTES", "FROM", "TO", "WAITS FOR", "NEXT TRY"];

/// Everything about one message.
pub(super) fn show(item: &QueueItem, now: Wall) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "Message     {}", item.id);
    let _ = writeln!(text, "From        {}", sender(item));
    let since = age(Duration::from_millis(item.age_ms));
    let _ = writeln!(text, "Received    {} ({since} ago)", item.received_at);
    if let Some(client) = &item.client {
        let _ = writeln!(text, "Client      {}", clean(client));
    }
    if let Some(login) = &item.login {
        let _ = writeln!(text, "Login       {}", clean(login));
    }
    if let Some(why) = &item.unreadable {
        let _ = writeln!(text, "Unreadable  {}", clean(why));
    } else {
        let _ = writeln!(text, "Size        {}", counted(item.body_bytes, "byte"));
    }
    if let Some(reason) = &item.held {
        let _ = writeln!(text, "On hold     {}", clean(reason));
    }
    if let Some(priority) = item.priority {
        let _ = writeln!(text, "Priority    {priority}");
    }
    for (name, value) in &item.headers {
        let _ = writeln!(text, "Header      {name}: {}", clean(value));
    }
    if let Some(moved) = &item.moved {
        let _ = writeln!(text, "Moved to    {}", clean(&moved.to_string()));
    }
    let _ = writeln!(text, "Shard       {}", item.shard);
    let open = item.recipients_open;
    let _ = writeln!(text, "Recipients  {open} of {} still open", item.recipients_count);
    for recipient in &item.recipients {
        recipient_lines(&mut text, recipient, now);
    }
    text
}

fn recipient_lines(text: &mut String, recipient: &QueueRecipient, now: Wall) {
    let _ = writeln!(text, "\n  {}", clean(&recipient.address));
    let _ = writeln!(text, "    state      {}", state(recipient.state));
    let _ = writeln!(text, "    waits for  {}", clean(&recipient.blocker.text));
    let _ = writeln!(text, "    attempts   {}", recipient.attempts);
    if let Some(at) = recipient.next_try {
        let _ = writeln!(text, "    next try   {at} ({})", distance(at, now));
    }
    match recipient.expires_at {
        Some(at) if at <= now => {
            let _ = writeln!(text, "    expired    {at}, fails unless one last attempt succeeds");
        }
        Some(at) => {
            let _ = writeln!(text, "    expires    {at} ({})", distance(at, now));
        }
        None => text.push_str("    expires    never (no expiry configured)\n"),
    }
    if let Some(route) = &recipient.route {
        let _ = writeln!(text, "    route      {}", clean(route));
    }
    if let Some(next_hop) = &recipient.next_hop {
        let _ = writeln!(text, "    next hop   {}", clean(next_hop));
    }
    if let Some(source) = &recipient.source {
        let _ = writeln!(text, "    source     {}", clean(source));
    }
    if let Some(failure) = &recipient.last_failure {
        let _ = writeln!(text, "    last try   {}", clean(failure));
    }
    if let Some(class) = recipient.class {
        let _ = writeln!(text, "    class      {class}");
    }
}

/// One sentence per open recipient: the condition it waits for, and until when.
pub(in crate::commands) fn why(item: &QueueItem, now: Wall) -> String {
    let mut text = String::new();
    for recipient in &item.recipients {
        let _ = write!(
            text,
            "{} → {}: waiting for {}",
            item.id,
            clean(&recipient.address),
            clean(&recipient.blocker.text)
        );
        match (recipient.next_try, recipient.blocker.until) {
            (Some(at), _) => {
                let _ = write!(text, "; next try {}", from_now(at, now));
            }
            (None, Some(at)) => {
                let _ = write!(text, ", until {}", from_now(at, now));
            }
            (None, None) => {}
        }
        match recipient.expires_at {
            Some(at) if at <= now => {
                text.push_str("; expired, fails unless one last attempt succeeds")
            }
            Some(at) => {
                let _ = write!(text, "; expires {}", from_now(at, now));
            }
            None => {}
        }
        if let Some(failure) = &recipient.last_failure {
            let _ = write!(text, "; last try: {}", clean(failure));
        }
        if let Some(moved) = &item.moved {
            let _ = write!(text, "; moved by an operator to {}", clean(&moved.to_string()));
        }
        text.push('\n');
    }
    text
}

/// The last failed dialogue with each next hop.
pub(super) fn dialogues(item: &QueueItem) -> String {
    if item.dialogues.is_empty() {
        return "No dialogue with a next hop of this message has failed since the start.\n"
            .to_owned();
    }
    let mut text = String::new();
    for dialogue in &item.dialogues {
        let (hop, peer) = (clean(&dialogue.next_hop), clean(&dialogue.peer));
        let _ = writeln!(text, "\n{hop}, with {peer} at {}:", dialogue.at);
        for line in dialogue.text.lines() {
            let _ = writeln!(text, "  {}", clean(line));
        }
    }
    text
}

/// Output of `postrider status`.
pub(super) fn status(status: &Status) -> String {
    let mut text = String::new();
    let uptime = age(Duration::from_millis(status.uptime_ms));
    let (version, queued) = (&status.version, status.messages);
    let _ = writeln!(text, "postrider {version}, up {uptime}, messages queued: {queued}");
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "SHARD",
        "SESSIONS",
        "CONNECTIONS",
        "RECIPIENTS",
        "HELD",
        "IN FLIGHT",
        "UNREPORTED",
    ]);
    for shard in &status.shards {
        table.add_row([
            u64::from(shard.shard),
            shard.sessions,
            shard.connections,
            shard.recipients,
            shard.held,
            shard.in_flight,
            shard.unreported,
        ]);
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let _ = writeln!(text, "{}", table.trim_fmt());
    for suspension in &status.suspensions {
        let (scope, since) = (clean(&suspension.scope.to_string()), suspension.since);
        let _ = write!(text, "Suspended: {scope}, since {since}");
        if let Some(until) = suspension.until {
            let _ = write!(text, ", until {until}");
        }
        if !suspension.reason.is_empty() {
            let _ = write!(text, ": {}", clean(&suspension.reason));
        }
        text.push('\n');
    }
    if status.problems.is_empty() {
        text.push_str("All is well.\n");
    }
    for problem in &status.problems {
        let _ = writeln!(text, "Trouble: {}", clean(problem));
    }
    text
}

/// Output of `postrider queue summary`.
pub(super) fn summary(summary: &Summary) -> String {
    let recipients = counted(summary.recipients, "recipient");
    let messages = counted(summary.messages, "message");
    let mut text = format!("{recipients} of {messages}.\n");
    let tables = [
        ("DOMAIN", &summary.domains),
        ("NEXT HOP", &summary.next_hops),
        ("TENANT", &summary.tenants),
        ("CAMPAIGN", &summary.campaigns),
        ("PROVIDER", &summary.providers),
        ("SOURCE", &summary.sources),
        ("LAST FAILURE", &summary.reasons),
        ("CLASS", &summary.classes),
    ];
    for (title, groups) in tables.into_iter().filter(|(_, groups)| !groups.is_empty()) {
        let rows = groups.iter().map(|group| {
            let oldest = age(Duration::from_millis(group.oldest_ms));
            vec![group.recipients.to_string(), oldest, clean(&group.name)]
        });
        let _ = writeln!(text, "\n{}", table(&["RECIPIENTS", "OLDEST", title], rows));
    }
    let ages = summary.ages.iter().filter(|group| group.recipients > 0);
    let rows: Vec<_> =
        ages.map(|group| vec![group.recipients.to_string(), group.name.clone()]).collect();
    if !rows.is_empty() {
        let _ = writeln!(text, "\n{}", table(&["RECIPIENTS", "AGE"], rows.into_iter()));
    }
    text
}

/// Columns of text, the first one of numbers.
fn table(header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header.to_vec());
    for row in rows {
        table.add_row(row);
    }
    if let Some(column) = table.column_mut(0) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

fn state(state: RecipientState) -> &'static str {
    match state {
        RecipientState::Scheduled => "scheduled",
        RecipientState::Ready => "ready",
        RecipientState::InFlight => "in delivery",
        RecipientState::Held => "held",
        RecipientState::Unreported => "failed, DSN pending",
    }
}

fn bytes(item: &QueueItem) -> String {
    if item.unreadable.is_some() { "-".to_owned() } else { item.body_bytes.to_string() }
}

/// `-` for an unknown sender, unlike `<>`.
fn sender(item: &QueueItem) -> String {
    match &item.sender {
        _ if item.unreadable.is_some() => "-".to_owned(),
        sender if sender.is_empty() => "<>".to_owned(),
        sender => clean(sender),
    }
}

fn counted(n: u64, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// A time of day today, a date otherwise, with the distance: `12:04:11Z (in 3m 2s)`.
fn from_now(at: Wall, now: Wall) -> String {
    let (there, here) = (at.civil(), now.civil());
    let clock = format!("{:02}:{:02}:{:02}Z", there.hour, there.minute, there.second);
    let today = (there.year, there.month, there.day) == (here.year, here.month, here.day);
    let distance = distance(at, now);
    if today {
        format!("{clock} ({distance})")
    } else {
        format!("{:04}-{:02}-{:02} {clock} ({distance})", there.year, there.month, there.day)
    }
}

fn distance(at: Wall, now: Wall) -> String {
    if at > now {
        format!("in {}", age(at.since(now)))
    } else if now.since(at) < Duration::from_secs(1) {
        "now".to_owned()
    } else {
        format!("{} ago", age(now.since(at)))
    }
}

/// The two largest units: `3m 2s`, `4d 23h`.
fn age(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    if days > 0 {
        format!("{days}d {hours}h")
    } else if hours > 0 {
        format!("{hours}h {minutes}m")
    } else if minutes > 0 {
        format!("{minutes}m {}s", seconds % 60)
    } else {
        format!("{seconds}s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mail::MessageId;
    use mta::control::{
        AgeGroup, Blocker, BlockerKind, Scope, ShardStatus, SummaryRow, Suspension,
    };
    use mta::overrides::Overrides;

    /// 2026-11-21T12:01:09Z.
    const NOW: Wall = Wall(1_795_262_469_000);

    fn item() -> QueueItem {
        QueueItem {
            id: MessageId(0x0001_0000_0000_002a),
            sender: String::new(),
            unreadable: None,
            body_bytes: 400,
            received_at: Wall(NOW.0 - 90_000),
            age_ms: 90_000,
            shard: 1,
            held: None,
            priority: None,
            headers: std::collections::BTreeMap::new(),
            moved: None,
            client: Some("192.0.2.7 evil\u{1b}[2J".to_owned()),
            login: Some("jo\u{1b}[2J".to_owned()),
            recipients: vec![QueueRecipient {
                index: 0,
                address: "user@example.com".to_owned(),
                state: RecipientState::Ready,
                blocker: Blocker {
                    kind: BlockerKind::ConnectionSlot,
                    text: "a connection slot of mx.example.com, 50/50 in use".to_owned(),
                    until: None,
                },
                expires_at: Some(Wall(NOW.0 + 432_000_000 - 90_000)),
                attempts: 2,
                next_try: None,
                last_failure: Some("mx.example.com[192.0.2.1]:25 said: 421 4.7.0 busy".to_owned()),
                class: Some(::classes::ReplyClass::ServerError),
                route: Some("example.com".to_owned()),
                next_hop: Some("smtp:mx.example.com".to_owned()),
                source: Some("ip-1".to_owned()),
            }],
            dialogues: Vec::new(),
            recipients_open: 1,
            recipients_count: 3,
        }
    }

    #[test]
    fn a_next_try_is_one_and_the_end_of_a_wait_is_another() {
        let mut item = item();
        item.recipients[0].last_failure = None;
        item.recipients[0].next_try = Some(Wall(NOW.0 + 182_000));
        assert!(why(&item, NOW).contains("in use; next try 12:04:11Z (in 3m 2s); expires"));
        let recipient = &mut item.recipients[0];
        (recipient.next_try, recipient.expires_at) = (None, None);
        recipient.blocker.text = "an operator to resume the domain example.com".to_owned();
        recipient.blocker.until = Some(Wall(NOW.0 + 182_000));
        let text = why(&item, NOW);
        assert!(text.ends_with("resume the domain example.com, until 12:04:11Z (in 3m 2s)\n"));
        assert!(list(&[item.clone()], 1, NOW, None).lines().nth(1).unwrap().ends_with(" -"));
        item.recipients[0].expires_at = Some(NOW);
        assert!(why(&item, NOW).contains("; expired, fails unless one last attempt succeeds"));
    }

    #[test]
    fn a_summary_has_a_table_for_each_question() {
        let group =
            |name: &str| SummaryRow { name: name.to_owned(), recipients: 12, oldest_ms: 3_600_000 };
        let text = summary(&Summary {
            messages: 11,
            recipients: 12,
            domains: vec![group("a.test")],
            next_hops: vec![group("smtp:mx\u{202e}.test:25")],
            tenants: vec![group("acme")],
            campaigns: Vec::new(),
            providers: vec![group("big")],
            sources: vec![group("ip-1")],
            reasons: vec![group("450 busy")],
            classes: vec![group("server_error")],
            ages: vec![AgeGroup { name: "under 1m".to_owned(), below_ms: None, recipients: 12 }],
        });
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(lines[0], "12 recipients of 11 messages.");
        assert!(lines.iter().any(|line| line.starts_with("12") && line.ends_with("a.test")));
        assert!(text.contains("1h 0m") && text.contains("mx\u{fffd}.test"), "{text}");
        assert!(text.contains("LAST FAILURE") && text.contains("under 1m"), "{text}");
        assert!(
            text.contains("TENANT") && text.contains("acme") && text.contains("ip-1"),
            "{text}"
        );
        assert!(!text.contains("CAMPAIGN"), "nobody has one: {text}");
    }

    #[test]
    fn why_names_the_blocker_and_the_deadline_in_one_line() {
        assert_eq!(
            why(&item(), NOW),
            "000100000000002a → user@example.com: waiting for a connection slot of \
             mx.example.com, 50/50 in use; expires 2026-11-26 11:59:39Z (in 4d 23h); last try: mx.example.com[192.0.2.1]:25 said: 421 4.7.0 busy\n"
        );
    }

    #[test]
    fn what_was_moved_is_told() {
        let mut moved = item();
        moved.moved = Some(Overrides::parse("\npool bulk"));
        assert!(show(&moved, NOW).contains("Moved to    the pool bulk\n"));
        assert!(why(&moved, NOW).ends_with("; moved by an operator to the pool bulk\n"));
    }

    #[test]
    fn a_list_has_one_line_per_message_and_the_count() {
        let mut many = item();
        many.recipients_open = 2;
        many.sender = "a@b.example".to_owned();
        let text = list(&[item(), many], 7, NOW, None);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines[0].trim_start().starts_with("ID"), "{text}");
        assert!(lines[1].contains("000100000000002a") && lines[1].contains("<>"), "{text}");
        assert!(lines[2].contains("user@example.com and 1 more"), "{text}");
        assert_eq!(lines[3], "The oldest 2 of 7 messages.");
    }

    #[test]
    fn a_list_fits_the_terminal() {
        let mut long = item();
        long.recipients[0].blocker.text = "a reply of mx.example.com, ".repeat(30);
        let items = [item(), long];
        for width in [100, 140, 1_000] {
            let text = list(&items, 2, NOW, Some(width));
            let longest = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(longest <= usize::from(width), "{longest} {text}");
            assert_eq!(text.contains('…'), width < 1_000, "{text}");
            assert!(
                text.contains("000100000000002a") && text.contains("user@example.com"),
                "{text}"
            );
        }
        assert!(!list(&items, 2, NOW, None).contains('…'));
        // Nothing is narrower than its minimum.
        assert!(list(&items, 2, NOW, Some(1)).contains("a reply of …"));
    }

    #[test]
    fn what_is_not_known_of_a_message_is_not_made_up() {
        let mut unread = item();
        unread.unreadable = Some("damaged: x at 1".to_owned());
        let text = list(&[unread.clone()], 1, NOW, None);
        let line = text.lines().nth(1).unwrap_or_default();
        assert!(!line.contains("<>") && !line.contains("400"), "{text}");
        let text = show(&unread, NOW);
        assert!(text.contains("Unreadable  damaged: x at 1\n"), "{text}");
        assert!(!text.contains("<>") && !text.contains("Size"), "{text}");
    }

    #[test]
    fn show_lets_nobody_drive_the_terminal() {
        let text = show(&item(), NOW);
        assert!(text.contains("Recipients  1 of 3 still open"), "{text}");
        assert!(text.contains("\nLogin       jo"), "{text}");
        assert!(text.contains("expires    2026-11-26T11:59:39.000Z (in 4d 23h)"), "{text}");
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
    }

    #[test]
    fn status_shows_trouble() {
        let mut status_now = Status {
            version: "1.2.3".to_owned(),
            protocol: 2,
            uptime_ms: 3_600_000,
            messages: 7,
            shards: vec![ShardStatus { shard: 0, sessions: 12, ..ShardStatus::default() }],
            problems: Vec::new(),
            problem_list: Vec::new(),
            suspensions: Vec::new(),
        };
        let text = status(&status_now);
        assert!(text.starts_with("postrider 1.2.3, up 1h 0m, messages queued: 7\n"), "{text}");
        assert!(text.ends_with("All is well.\n"), "{text}");
        status_now.suspensions.push(Suspension {
            scope: Scope { route: Some("out".to_owned()), ..Scope::default() },
            reason: "peer is moving".to_owned(),
            since: NOW,
            until: None,
        });
        let line = "Suspended: the route out, since 2026-11-21T12:01:09.000Z: peer is moving\n";
        assert!(status(&status_now).contains(line));
        status_now.problems.push("log 0 is poisoned".to_owned());
        assert!(status(&status_now).ends_with("Trouble: log 0 is poisoned\n"));
    }

    #[test]
    fn distances_are_short() {
        assert_eq!(distance(Wall(5_500), Wall(5_400)), "in 0s");
        assert_eq!(distance(Wall(5_400), Wall(5_500)), "now");
        assert_eq!(distance(Wall(0), Wall(7_260_000)), "2h 1m ago");
    }
}
