//! Message-IDs and IPM identifiers (RFC 2156 §4.7.3).

use super::address::{parts, quoted_local};
use super::printable;
use crate::content::IpmIdentifier;
use crate::or_name::OrAddress;

/// Characters of a user-relative identifier at most (X.420, ub-local-ipm-identifier).
pub const RELATIVE_CHARS_MAX: usize = 64;
/// The domain of identifiers that X.400 gave.
const MHS: &str = "MHS";

/// The identifier of a `Message-ID` without its angle brackets. A longer one than X.400 allows is cut: it cannot be
/// restored (§5.1.3).
#[must_use]
pub fn to_ipm(id: &str) -> IpmIdentifier {
    if let Some((local, domain)) = parts(id)
        && domain.eq_ignore_ascii_case(MHS)
        && let Some((relative, user)) = local.split_once('*')
    {
        let user = OrAddress::parse(user).ok().map(Into::into);
        return IpmIdentifier { user, relative: relative.into() };
    }
    let relative =
        printable::encode(id).unwrap_or_else(|| id.replace(|c: char| !c.is_ascii(), "?"));
    IpmIdentifier {
        user: None,
        relative: relative.chars().take(RELATIVE_CHARS_MAX).collect::<String>().into(),
    }
}

/// The `Message-ID` of an identifier, without angle brackets.
#[must_use]
pub fn to_mail(identifier: &IpmIdentifier) -> String {
    if identifier.user.is_none()
        && let Some(id) = printable::decode(&identifier.relative)
        && is_message_id(&id)
    {
        return id;
    }
    let user = identifier.user.as_ref().map(|name| name.address.to_string()).unwrap_or_default();
    let ascii = |text: &str| text.replace(|c: char| !(' '..'\x7f').contains(&c), "?");
    let local = format!("{}*{}", ascii(&identifier.relative), ascii(&user));
    quoted_local(&local, MHS).unwrap_or_else(|| format!("*@{MHS}"))
}

/// Returns true for an internet message identifier.
#[must_use]
pub fn is_message_id(id: &str) -> bool {
    let is_graphic = id.bytes().all(|b| b.is_ascii_graphic() && b != b'<' && b != b'>');
    is_graphic && parts(id).is_some_and(|(local, domain)| !local.is_empty() && !domain.is_empty())
}

/// The identifiers of a field (In-Reply-To, References): those in angle brackets. `None`: there are more than `max`.
#[must_use]
pub fn of_field(value: &str, max: usize) -> Option<Vec<&str>> {
    let mut all = Vec::new();
    let mut rest = value;
    while let Some((_, behind)) = rest.split_once('<') {
        let Some((id, more)) = behind.split_once('>') else { break };
        if all.len() >= max {
            return None;
        }
        all.push(id.trim());
        rest = more;
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_come_back() {
        for id in [
            "a.b@c.example",
            "odd(1)_x@c.example",
            "\"147*/S=Dietrich/O=Siemens/ADMD=DBP/C=DE/\"@MHS",
            "PC1000-910530172027-57D8*@MHS",
        ] {
            let identifier = to_ipm(id);
            let again = to_mail(&identifier);
            assert_eq!(again.replace('"', ""), id.replace('"', ""), "{identifier:?}");
            assert_eq!(to_ipm(&again), identifier);
        }
        let identifier = to_ipm("\"147*/S=Dietrich/O=Siemens/ADMD=DBP/C=DE/\"@MHS");
        assert_eq!((&*identifier.relative, identifier.user.is_some()), ("147", true));
        assert_eq!(to_ipm(&"x".repeat(70)).relative.len(), RELATIVE_CHARS_MAX);
        assert_eq!(of_field("phrase <a@b> <c@d>,<e@f", 2), Some(vec!["a@b", "c@d"]));
        assert_eq!(of_field("<a@b> <c@d>", 1), None);
    }
}
