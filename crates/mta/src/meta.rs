//! What the spool keeps about a message beside envelope and content, by tags.

use crate::event::Client;
use bytes::Bytes;
use mail::Wall;
use spool::Meta;
use spool::record::tag;

/// What is known of the client that handed a message in.
pub(crate) fn of_client(client: &Client) -> Meta {
    // Room for the longest of IPv4, and most of IPv6.
    let mut address = Vec::with_capacity(32);
    mail::received::write_address(&mut address, client.address.ip());
    let fields = vec![
        (tag::LISTENER, Bytes::copy_from_slice(client.listener.as_bytes())),
        (tag::CLIENT_ADDRESS, Bytes::from(address)),
        (tag::CLIENT_EHLO, Bytes::copy_from_slice(client.helo.as_bytes())),
    ];
    Meta { fields }
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

/// That the client may not send to any domain.
pub(crate) fn stranger() -> (u16, Bytes) {
    (tag::STRANGER, Bytes::from_static(&[1]))
}

/// Whether a client handed the message in that may not send to any domain. Of what was accepted
/// before that was recorded it is not known: no stranger, then.
pub(crate) fn is_from_stranger(meta: &Meta) -> bool {
    field(meta, tag::STRANGER).is_some()
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
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for index in indexes {
        match runs.last_mut() {
            Some((first, count)) if *first + *count == *index => *count += 1,
            _ => runs.push((*index, 1)),
        }
    }
    let numbers = runs.into_iter().flat_map(|(first, count)| [first, count]);
    let value: Vec<u8> = numbers.flat_map(u32::to_le_bytes).collect();
    (!value.is_empty()).then(|| (tag::FORWARDED, Bytes::from(value)))
}

/// Whether [`forwarded`] names this recipient.
pub(crate) fn is_forwarded(meta: &Meta, index: u32) -> bool {
    let number = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_le_bytes);
    field(meta, tag::FORWARDED).is_some_and(|value| {
        value.chunks_exact(8).any(|run| {
            let (first, count) = run.split_at(4);
            index.checked_sub(number(first)).is_some_and(|at| at < number(count))
        })
    })
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
    fn a_field_that_is_cut_short_is_none() {
        let fields = vec![(tag::NOT_BEFORE, Bytes::from_static(&[1, 2, 3]))];
        assert_eq!(wall(&Meta { fields }, tag::NOT_BEFORE), None);
        let fields = vec![(tag::CLIENT_EHLO, Bytes::from_static(&[0xff]))];
        let meta = Meta { fields };
        assert_eq!((text(&meta, tag::CLIENT_EHLO), text(&meta, tag::LISTENER)), (None, None));
    }
}
