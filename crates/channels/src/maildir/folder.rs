//! Maildir++ folders by recipient tag: `user+Lists@` selects `.Lists`.

/// Separate the levels of a folder in a tag; Maildir++ itself uses `.`.
const LEVELS: [char; 3] = ['.', '/', '+'];
/// Maximum nesting of folders.
const LEVELS_MAX: usize = 8;
/// NAME_MAX of Linux and of nearly all file systems.
const NAME_BYTES_MAX: usize = 255;

/// The folder directory for a tag. `None` if the tag names no valid folder, or the inbox.
pub(super) fn directory_of(tag: &str) -> Option<String> {
    let mut name = String::with_capacity(tag.len() + 1);
    let mut levels = 0;
    for level in tag.split(LEVELS) {
        levels += 1;
        if level.is_empty() || level.chars().any(char::is_control) || levels > LEVELS_MAX {
            return None;
        }
        name.push('.');
        push_utf7(&mut name, level);
    }
    (name.len() <= NAME_BYTES_MAX && !name.eq_ignore_ascii_case(".inbox")).then_some(name)
}

/// Appends a name in modified UTF-7, as IMAP servers do (RFC 3501 §5.1.3).
fn push_utf7(out: &mut String, name: &str) {
    let mut rest = name;
    while !rest.is_empty() {
        let plain = rest.find(|c: char| !matches!(c, ' '..='~')).unwrap_or(rest.len());
        out.push_str(&rest[..plain].replace('&', "&-"));
        rest = &rest[plain..];
        let shifted = rest.find(|c: char| matches!(c, ' '..='~')).unwrap_or(rest.len());
        if shifted > 0 {
            out.push('&');
            push_base64(out, &rest[..shifted]);
            out.push('-');
        }
        rest = &rest[shifted..];
    }
}

/// UTF-16 in base64, with `,` for `/` and without padding.
fn push_base64(out: &mut String, text: &str) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+,";
    let (mut bits, mut count) = (0_u32, 0);
    let mut push = |bits: u32| out.push(char::from(DIGITS[(bits & 63) as usize]));
    for unit in text.encode_utf16() {
        bits = (bits << 16) | u32::from(unit);
        count += 16;
        while count >= 6 {
            count -= 6;
            push(bits >> count);
        }
    }
    if count > 0 {
        push(bits << (6 - count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_lies_in_the_maildir_whatever_its_tag() {
        let is = |tag: &str, name: Option<&str>| {
            assert_eq!(directory_of(tag).as_deref(), name, "{tag:?}");
        };
        is("Lists", Some(".Lists"));
        is("Lists.Rust", Some(".Lists.Rust"));
        is("Lists/Rust", Some(".Lists.Rust"));
        is("Lists+Rust", Some(".Lists.Rust"));
        is("a b~", Some(".a b~"));
        for tag in ["", ".", "..", "a..b", "/", "a/", "/etc", "../../etc", "inbox", "INBOX", "a\0b"]
        {
            is(tag, None);
        }
        is(&"x".repeat(254), Some(&format!(".{}", "x".repeat(254))));
        is(&"x".repeat(255), None);
        is("a.b.c.d.e.f.g.h", Some(".a.b.c.d.e.f.g.h"));
        is("a.b.c.d.e.f.g.h.i", None);
    }

    #[test]
    fn names_beyond_ascii_are_written_as_imap_servers_write_them() {
        // The examples of RFC 3501 §5.1.3, and an octet that stands for itself.
        let is = |tag: &str, name: &str| assert_eq!(directory_of(tag).as_deref(), Some(name));
        is("~peter/mail/台北/日本語", ".~peter.mail.&U,BTFw-.&ZeVnLIqe-");
        is("Entwürfe", ".Entw&APw-rfe");
        is("R&D", ".R&-D");
    }
}
