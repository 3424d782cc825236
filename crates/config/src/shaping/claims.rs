//! Whether two providers claim one name.

use super::pace::Place;
use crate::route::DomainPattern;
use mail::map::FixedMap;

/// A name that is two providers'.
#[derive(Debug)]
pub(super) struct Conflict<'a> {
    pub(super) providers: (&'a str, &'a str),
    pub(super) places: (&'a Place, &'a Place),
}

type Names<'a> = (&'a str, Option<&'a [(DomainPattern, Place)]>);

/// The first name that two of these providers have.
pub(super) fn conflict<'a>(
    providers: impl Iterator<Item = Names<'a>> + Clone,
) -> Option<Conflict<'a>> {
    let names = || {
        let of_one = |(provider, names): Names<'a>| {
            names.into_iter().flatten().map(move |(pattern, place)| (provider, pattern, place))
        };
        providers.clone().flat_map(of_one)
    };
    let mut owners: FixedMap<String, (&str, &Place)> = FixedMap::default();
    for (provider, pattern, place) in names() {
        let before = owners.insert(pattern.to_string(), (provider, place));
        if let Some((other, there)) = before.filter(|(other, _)| *other != provider) {
            return Some(Conflict { providers: (other, provider), places: (there, place) });
        }
    }
    names().find_map(|(provider, pattern, place)| {
        let text = pattern.to_string();
        let mut rest = text.strip_prefix("*.").unwrap_or(&text);
        while let Some((_, parent)) = rest.split_once('.') {
            let owner = owners.get(&format!("*.{parent}"));
            if let Some((other, there)) = owner.filter(|(other, _)| *other != provider) {
                return Some(Conflict { providers: (other, provider), places: (there, place) });
            }
            rest = parent;
        }
        None
    })
}
