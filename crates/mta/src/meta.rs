//! What the spool keeps about a message beside envelope and content, by tags.

use crate::event::{Client, Labels};
use crate::overrides::Overrides;
use bytes::Bytes;
use mail::{
    ByMode, Class, DeliverBy, EnhancedStatus, Failure, Mailbox, Omitted, Priority, Refusal,
    RequireTls, Wall,
};
use spool::Meta;
use spool::record::tag;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

/// Who answers for a list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// The list's mail comes from this address.
    pub address: Mailbox,
    /// Who is told what became of it here: those that the address stands for.
    pub reports_to: Box<[Mailbox]>,
}

/// Recipients, by their indexes in order, that get the message from the owner of a list.
pub(crate) type Owners = BTreeMap<Arc<Owner>, Vec<u32>>;

/// What is known of the client that handed a message in.
pub(crate) fn of_client(client: &Client) -> Meta {
    // Room for the longest of IPv4, and most of IPv6.
    let mut address = Vec::with_capacity(32);
    mail::received::write_address(&mut address, client.address.ip());
    let login = client.login.as_deref().map(|user| (tag::AUTHENTICATED, text_of(user)));
    let known = [
        (tag::LISTENER, text_of(&client.listener)),
        (tag::CLIENT_ADDRESS, Bytes::from(address)),
        (tag::CLIENT_EHLO, text_of(&client.helo)),
    ];
    Meta { fields: login.into_iter().chain(known).collect() }
}

/// Whose mail it is, as events tell it, once an operator has chosen `overrides`; `None`: nothing was said.
pub(crate) fn labels(meta: &Meta, overrides: Option<&Overrides>) -> Option<Labels> {
    // Of most nothing was, and these tags are the first.
    if overrides.is_none() && meta.fields.iter().all(|(tag, _)| *tag > tag::EGRESS_POOL) {
        return None;
    }
    let said = |tag: u16| -> Option<Arc<str>> { text(meta, tag).map(Arc::from) };
    let of = |tag: u16, chosen: Option<&String>| match chosen {
        Some(chosen) => (!chosen.is_empty()).then(|| Arc::from(chosen.as_str())),
        None => said(tag),
    };
    Some(Labels {
        tenant: said(tag::TENANT),
        campaign: of(tag::CAMPAIGN, overrides.and_then(|o| o.campaign.as_ref())),
        pool: of(tag::EGRESS_POOL, overrides.and_then(|o| o.pool.as_ref())),
    })
}

fn text_of(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn field(meta: &Meta, tag: u16) -> Option<&Bytes> {
    meta.fields.iter().find(|(field, _)| *field == tag).map(|(_, value)| value)
}

/// The value of a text field, if it is there.
pub(crate) fn text(meta: &Meta, tag: u16) -> Option<&str> {
    std::str::from_utf8(field(meta, tag)?).ok()
}

/// The value of a moment, if it is there.
pub(crate) fn wall(meta: &Meta, tag: u16) -> Option<Wall> {
    Some(Wall(u64::from_le_bytes(field(meta, tag)?.get(..8)?.try_into().ok()?)))
}

/// How urgent it is, if that was said.
pub(crate) fn priority(meta: &Meta) -> Option<Priority> {
    Priority::new(field(meta, tag::PRIORITY)?.first()?.cast_signed())
}

/// When it should be delivered.
pub(crate) fn deliver_by(by: DeliverBy) -> (u16, Bytes) {
    let mode = match by.mode {
        ByMode::Return => b'R',
        ByMode::Notify => b'N',
    };
    let mut value = by.at.0.to_le_bytes().to_vec();
    value.extend([mode, u8::from(by.is_traced)]);
    (tag::DELIVER_BY, Bytes::from(value))
}

/// What [`deliver_by`] says.
pub(crate) fn deliver_by_of(meta: &Meta) -> Option<DeliverBy> {
    let [at @ .., mode, is_traced] = &field(meta, tag::DELIVER_BY)?[..] else { return None };
    let mode = match mode {
        b'R' => ByMode::Return,
        b'N' => ByMode::Notify,
        _ => return None,
    };
    let at = Wall(u64::from_le_bytes(at.try_into().ok()?));
    Some(DeliverBy { at, mode, is_traced: *is_traced == 1 })
}

/// When it is given up, whatever the retry policy says.
pub(crate) fn given_up_at(meta: &Meta) -> Option<Wall> {
    earlier_end(wall(meta, tag::EXPIRES_AT), deliver_by_of(meta))
}

/// The same of what was said.
pub(crate) fn earlier_end(expires: Option<Wall>, deliver_by: Option<DeliverBy>) -> Option<Wall> {
    let returned = deliver_by.filter(|by| by.mode == ByMode::Return).map(|by| by.at);
    expires.into_iter().chain(returned).min()
}

/// What of the body goes nowhere; `None` if all of it goes.
pub(crate) fn omitted(omitted: &Omitted) -> Option<(u16, Bytes)> {
    (!omitted.is_empty()).then(|| (tag::OMITTED, Bytes::from(omitted.to_bytes())))
}

/// What [`omitted`] says, of a body of so many octets.
pub(crate) fn omitted_of(meta: &Meta, body_bytes: u64) -> Omitted {
    field(meta, tag::OMITTED)
        .map(|value| Omitted::from_bytes(value, body_bytes))
        .unwrap_or_default()
}

/// That the client may not send to any domain; `is_vouched`: somebody vouches for its sender.
pub(crate) fn stranger(is_vouched: bool) -> (u16, Bytes) {
    (tag::STRANGER, Bytes::from_static(if is_vouched { &[2] } else { &[1] }))
}

/// Whether it came from a stranger for whose sender nobody vouches.
pub(crate) fn is_unvouched(meta: &Meta) -> bool {
    field(meta, tag::STRANGER).is_some_and(|value| value[..] == [1])
}

/// Whether a client handed the message in that may not send to any domain. Of what was accepted
/// before that was recorded it is not known: no stranger, then.
pub(crate) fn is_from_stranger(meta: &Meta) -> bool {
    field(meta, tag::STRANGER).is_some()
}

/// That it is a report of ours about TLS.
pub(crate) fn tls_report() -> (u16, Bytes) {
    (tag::TLS_REPORT, Bytes::from_static(&[1]))
}

/// Whether it is.
pub(crate) fn is_tls_report(meta: &Meta) -> bool {
    field(meta, tag::TLS_REPORT).is_some()
}

/// What the message asks of TLS, if it asks for anything.
pub(crate) fn require_tls(asked: RequireTls) -> Option<(u16, Bytes)> {
    let value: &'static [u8] = match asked {
        RequireTls::Unsaid => return None,
        RequireTls::Yes => &[1],
        RequireTls::No => &[2],
    };
    Some((tag::REQUIRE_TLS, Bytes::from_static(value)))
}

/// The same as it was kept. What a later version may have written here is taken for what is safe.
pub(crate) fn asked_of_tls(meta: &Meta) -> RequireTls {
    match field(meta, tag::REQUIRE_TLS).map(|value| &value[..]) {
        None => RequireTls::Unsaid,
        Some([2]) => RequireTls::No,
        Some(_) => RequireTls::Yes,
    }
}

/// The recipients, by their indexes, that go the postmaster's way and not their domain's; `None`
/// if there are none.
pub(crate) fn postmasters(indexes: impl IntoIterator<Item = u32>) -> Option<(u16, Bytes)> {
    let value: Vec<u8> = indexes.into_iter().flat_map(u32::to_le_bytes).collect();
    (!value.is_empty()).then(|| (tag::POSTMASTER, Bytes::from(value)))
}

/// Whether [`postmasters`] names this recipient.
pub(crate) fn is_for_postmaster(meta: &Meta, index: u32) -> bool {
    field(meta, tag::POSTMASTER)
        .is_some_and(|value| value.chunks(4).any(|piece| piece == index.to_le_bytes()))
}

/// The recipients, by their indexes in order, that get the message from a rewritten sender; `None` if
/// there are none.
pub(crate) fn forwarded(indexes: &[u32]) -> Option<(u16, Bytes)> {
    let value = runs_of(indexes);
    (!value.is_empty()).then(|| (tag::FORWARDED, Bytes::from(value)))
}

/// Whether [`forwarded`] names this recipient.
pub(crate) fn is_forwarded(meta: &Meta, index: u32) -> bool {
    field(meta, tag::FORWARDED).is_some_and(|runs| is_in_runs(runs, index))
}

/// Indexes in order, as the first of each run and how many there are.
fn runs_of(indexes: &[u32]) -> Vec<u8> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for index in indexes {
        match runs.last_mut() {
            Some((first, count)) if *first + *count == *index => *count += 1,
            _ => runs.push((*index, 1)),
        }
    }
    let numbers = runs.into_iter().flat_map(|(first, count)| [first, count]);
    numbers.flat_map(u32::to_le_bytes).collect()
}

/// How the hold of a check ends, and by whose wish it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeldMeta<'a> {
    /// The message may be returned to its sender.
    pub(crate) is_returnable: bool,
    /// The peer whose octets can't be read, or nothing.
    pub(crate) peer: &'a str,
    /// The sender's domain, or nothing.
    pub(crate) sender: &'a str,
    /// The author's, or nothing.
    pub(crate) author: &'a str,
    pub(crate) reason: &'a str,
}

/// Bits of the first octet of a hold.
const HELD_RETURNABLE: u8 = 1;
/// The sender is a peer.
const HELD_OF_PEER: u8 = 2;

/// That a check holds the message.
pub(crate) fn held(held: &HeldMeta<'_>) -> (u16, Bytes) {
    let HeldMeta { is_returnable, peer, sender, author, reason } = *held;
    let (kind, sender) = if peer.is_empty() { (0, sender) } else { (HELD_OF_PEER, peer) };
    let mut value = vec![kind | if is_returnable { HELD_RETURNABLE } else { 0 }];
    // The reason is the last, and may be any text.
    value.extend_from_slice(format!("{sender}\n{author}\n{reason}").as_bytes());
    (tag::HELD, Bytes::from(value))
}

/// The hold that [`held`] describes.
pub(crate) fn held_of(meta: &Meta) -> Option<HeldMeta<'_>> {
    let (bits, text) = field(meta, tag::HELD)?.split_first()?;
    let mut lines = std::str::from_utf8(text).ok()?.splitn(3, '\n');
    let (first, author, reason) = (lines.next()?, lines.next()?, lines.next()?);
    let (peer, sender) = if bits & HELD_OF_PEER != 0 { (first, "") } else { ("", first) };
    Some(HeldMeta { is_returnable: bits & HELD_RETURNABLE != 0, peer, sender, author, reason })
}

/// The address of the client that handed the message in.
pub(crate) fn client_address(meta: &Meta) -> Option<IpAddr> {
    let address = text(meta, tag::CLIENT_ADDRESS)?;
    address.strip_prefix("IPv6:").unwrap_or(address).parse().ok()
}

/// What begins the route of a recipient that was refused when the message was accepted. No other is called so.
pub(crate) const REFUSED: &str = "<refused> ";

/// Text of a refusal that is kept, in octets.
const REFUSED_BYTES_MAX: usize = 256;

/// What the channel of a message needs that is no internet mail.
pub(crate) fn x400(kept: Bytes) -> (u16, Bytes) {
    (tag::X400, kept)
}

/// What [`x400`] keeps; `None`: it is internet mail.
pub(crate) fn kept_of_x400(meta: &Meta) -> Option<&Bytes> {
    field(meta, tag::X400)
}

/// Recipients, by their indexes in order, that were refused when the message was accepted, and why; `None` if
/// there are none.
pub(crate) fn refused(refused: &[(u32, Refusal)]) -> Option<(u16, Bytes)> {
    let mut reasons: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for (index, refusal) in refused {
        let mut reason = format!("{REFUSED}{} {}", refusal.status, refusal.text);
        reason.truncate(reason.floor_char_boundary(REFUSED_BYTES_MAX));
        reasons.entry(reason).or_default().push(*index);
    }
    let mut value = Vec::new();
    for (reason, indexes) in &reasons {
        for part in [&*runs_of(indexes), reason.as_bytes()] {
            value.extend_from_slice(&(part.len() as u32).to_le_bytes());
            value.extend_from_slice(part);
        }
    }
    (!value.is_empty()).then(|| (tag::REFUSED, Bytes::from(value)))
}

/// Why [`refused`] names this recipient, behind [`REFUSED`].
pub(crate) fn refusal_of(meta: &Meta, index: u32) -> Option<&str> {
    let mut rest: &[u8] = field(meta, tag::REFUSED)?;
    loop {
        let (runs, reason);
        (runs, rest) = part(rest)?;
        (reason, rest) = part(rest)?;
        if is_in_runs(runs, index) {
            return std::str::from_utf8(reason).ok();
        }
    }
}

/// The failure of recipients whose scheduled queue has this route; `None`: they were not refused.
pub(crate) fn failure_of_refused(route: &str) -> Option<Failure> {
    let (status, text) = route.strip_prefix(REFUSED)?.split_once(' ')?;
    let mut numbers = status.split('.').map(|number| number.parse::<u16>().ok());
    let (subject, detail) = (numbers.nth(1)??, numbers.next()??);
    let status = EnhancedStatus::new(5, subject, detail);
    Some(Failure::local(Class::Permanent, status, text))
}

/// Whether [`runs_of`] were made of this index, too.
fn is_in_runs(runs: &[u8], index: u32) -> bool {
    let number = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_le_bytes);
    runs.chunks_exact(8).any(|run| {
        let (first, count) = run.split_at(4);
        index.checked_sub(number(first)).is_some_and(|at| at < number(count))
    })
}

/// The owner of a list, as it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeptOwner<'a> {
    /// The list's mail comes from this address.
    pub(crate) address: &'a str,
    /// Addresses that are told what became of it, a line each.
    pub(crate) reports_to: &'a str,
}

impl KeptOwner<'_> {
    /// As it was before it was kept.
    pub(crate) fn read(self) -> Option<Owner> {
        let address = |text: &str| Mailbox::parse(text, true).ok();
        let reports_to = self.reports_to.split('\n').map(address).collect::<Option<_>>()?;
        Some(Owner { address: address(self.address)?, reports_to })
    }
}

/// Owners of lists, each with the recipients, by their indexes in order, that get the message from it;
/// `None` if there are none.
pub(crate) fn owners(owners: &Owners) -> Option<(u16, Bytes)> {
    let mut value = Vec::new();
    for (owner, indexes) in owners {
        let reports_to: Vec<&str> = owner.reports_to.iter().map(Mailbox::as_str).collect();
        let reports_to = reports_to.join("\n");
        let runs = runs_of(indexes);
        for part in [owner.address.as_str().as_bytes(), reports_to.as_bytes(), &runs] {
            value.extend_from_slice(&(part.len() as u32).to_le_bytes());
            value.extend_from_slice(part);
        }
    }
    (!value.is_empty()).then(|| (tag::OWNERS, Bytes::from(value)))
}

/// From whom of [`owners`] this recipient gets the message.
pub(crate) fn owner_of(meta: &Meta, index: u32) -> Option<KeptOwner<'_>> {
    let mut rest: &[u8] = field(meta, tag::OWNERS)?;
    loop {
        let (address, reports_to, runs);
        (address, rest) = part(rest)?;
        (reports_to, rest) = part(rest)?;
        (runs, rest) = part(rest)?;
        if is_in_runs(runs, index) {
            let text = |part| std::str::from_utf8(part).ok();
            return Some(KeptOwner { address: text(address)?, reports_to: text(reports_to)? });
        }
    }
}

/// A part with its length before it, and what follows; `None` at the end.
fn part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_postmasters_recipients_are_found_again() {
        assert_eq!(postmasters([]), None);
        let meta = Meta { fields: postmasters([1, 300]).into_iter().collect() };
        let found: Vec<u32> = (0..400).filter(|index| is_for_postmaster(&meta, *index)).collect();
        assert_eq!(found, [1, 300]);
        assert!(!is_for_postmaster(&Meta::default(), 0));
    }

    #[test]
    fn what_is_asked_of_tls_is_found_again() {
        for asked in [RequireTls::Unsaid, RequireTls::Yes, RequireTls::No] {
            let meta = Meta { fields: require_tls(asked).into_iter().collect() };
            assert_eq!(asked_of_tls(&meta), asked);
        }
        for unknown in [&[][..], &[3], &[2, 0]] {
            let fields = vec![(tag::REQUIRE_TLS, Bytes::from_static(unknown))];
            assert_eq!(asked_of_tls(&Meta { fields }), RequireTls::Yes, "{unknown:?}");
        }
    }

    #[test]
    fn hold_of_a_check_is_found_again() {
        let reason = "DMARC:\nquarantine";
        let of_client =
            HeldMeta { is_returnable: true, peer: "", sender: "a.test", author: "", reason };
        let of_peer = HeldMeta { is_returnable: false, peer: "hub", sender: "", ..of_client };
        for told in [of_client, of_peer] {
            assert_eq!(held_of(&Meta { fields: vec![held(&told)] }), Some(told));
        }
        for torn in [&b""[..], b"\x01", b"\x01a\nb", b"\x01\xff\n\n"] {
            let meta = Meta { fields: vec![(tag::HELD, Bytes::from_static(torn))] };
            assert_eq!(held_of(&meta), None);
        }
        for ip in ["192.0.2.1", "2001:db8::1"] {
            let mut written = Vec::new();
            let ip: IpAddr = ip.parse().unwrap();
            mail::received::write_address(&mut written, ip);
            let meta = Meta { fields: vec![(tag::CLIENT_ADDRESS, Bytes::from(written))] };
            assert_eq!(client_address(&meta), Some(ip));
        }
    }

    #[test]
    fn forwarded_recipients_are_found_again() {
        assert_eq!(forwarded(&[]), None);
        let meta = Meta { fields: forwarded(&[1, 2, 3, 7, 300]).into_iter().collect() };
        assert_eq!(meta.fields[0].1.len(), 3 * 8);
        let found: Vec<u32> = (0..400).filter(|index| is_forwarded(&meta, *index)).collect();
        assert_eq!(found, [1, 2, 3, 7, 300]);
        let torn = Meta { fields: vec![(tag::FORWARDED, Bytes::from_static(&[1; 7]))] };
        assert!(!is_forwarded(&torn, 1) && !is_forwarded(&Meta::default(), 0));
    }

    #[test]
    fn owners_are_found_by_the_recipients_of_their_lists() {
        let address = |text: &str| Mailbox::parse(text, false).unwrap();
        let owner = |name: &str, to: &[&str]| {
            let reports_to = to.iter().map(|to| address(to)).collect();
            Arc::new(Owner { address: address(name), reports_to })
        };
        assert_eq!(owners(&Owners::new()), None);
        let all = Owners::from([
            (owner("owner-a@x", &["jo@x", "al@y"]), vec![1, 2, 7]),
            (owner("owner-b@x", &["bo@x"]), vec![3]),
        ]);
        let meta = Meta { fields: owners(&all).into_iter().collect() };
        let found = |index| owner_of(&meta, index).map(|owner| (owner.address, owner.reports_to));
        for index in [1, 2, 7] {
            assert_eq!(found(index), Some(("owner-a@x", "jo@x\nal@y")));
        }
        assert_eq!(found(3), Some(("owner-b@x", "bo@x")));
        let read = owner_of(&meta, 7).and_then(KeptOwner::read);
        assert_eq!(read.as_ref(), all.keys().next().map(|owner| &**owner));
        assert_eq!((found(0), found(4), found(8)), (None, None, None));
        let whole = &meta.fields[0].1;
        for end in 0..whole.len() {
            let torn = Meta { fields: vec![(tag::OWNERS, whole.slice(..end))] };
            assert_eq!(owner_of(&torn, 3), None, "cut at {end}");
        }
    }

    #[test]
    fn who_was_refused_is_found_again_with_the_reason() {
        assert_eq!(refused(&[]), None);
        let (of_loop, of_name) =
            (Refusal::permanent((4, 6), "it loops"), Refusal::permanent((1, 1), "nobody"));
        let all = [(0, of_loop.clone()), (2, of_name), (3, of_loop)];
        let meta = Meta { fields: refused(&all).into_iter().collect() };
        assert_eq!(refusal_of(&meta, 1), None);
        let failure = |index| failure_of_refused(refusal_of(&meta, index)?);
        let status = |index| failure(index).map(|failure| failure.status.to_string());
        assert_eq!(
            (status(0), status(2), status(3)),
            (Some("5.4.6".to_owned()), Some("5.1.1".to_owned()), Some("5.4.6".to_owned()))
        );
        assert_eq!(failure(2).map(|failure| failure.text), Some("nobody".into()));
        for route in ["", "far", "postmaster", "<refused> ", "<refused> 5.x.1 y"] {
            assert!(failure_of_refused(route).is_none(), "{route}");
        }
        let whole = &meta.fields[0].1;
        for end in 0..whole.len() {
            let torn = Meta { fields: vec![(tag::REFUSED, whole.slice(..end))] };
            assert!(refusal_of(&torn, 1).is_none(), "cut at {end}");
        }
    }

    #[test]
    fn a_field_that_is_cut_short_is_none() {
        let fields = vec![(tag::NOT_BEFORE, Bytes::from_static(&[1, 2, 3]))];
        assert_eq!(wall(&Meta { fields }, tag::NOT_BEFORE), None);
        let fields = vec![(tag::CLIENT_EHLO, Bytes::from_static(&[0xff]))];
        let meta = Meta { fields };
        assert_eq!((text(&meta, tag::CLIENT_EHLO), text(&meta, tag::LISTENER)), (None, None));
    }
}
