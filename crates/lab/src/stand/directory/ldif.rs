//! Users as entries of a directory, in LDIF (RFC 2849).

use super::User;
use std::io::{self, Write};

/// Where the tree begins.
pub(super) const SUFFIX: &str = "dc=example,dc=org";
/// Below which the users are.
pub(crate) const PEOPLE: &str = "ou=people,dc=example,dc=org";
/// What is told of a user's mailbox.
pub(crate) const PATH_ATTRIBUTE: &str = "mailboxPath";
/// The class that has it.
pub(super) const PATH_CLASS: &str = "mailboxUser";

/// Writes the tree, with an entry for each user.
///
/// # Errors
/// When it can't be written.
pub(super) fn write(users: impl Iterator<Item = User>, out: &mut impl Write) -> io::Result<()> {
    write!(
        out,
        "dn: {SUFFIX}\nobjectClass: dcObject\nobjectClass: organization\ndc: example\no: Example\n\n\
         dn: {PEOPLE}\nobjectClass: organizationalUnit\nou: people\n"
    )?;
    for user in users {
        let (local, address, path) = (user.local(), user.address(), user.path());
        write!(
            out,
            "\ndn: uid={local},{PEOPLE}\nobjectClass: inetOrgPerson\nobjectClass: {PATH_CLASS}\n\
             uid: {local}\ncn: {local}\nsn: {local}\nmail: {address}\n{PATH_ATTRIBUTE}: {path}\n"
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{User, write};

    #[test]
    fn each_user_is_an_entry_of_its_own() {
        let mut out = Vec::new();
        write([User(1), User(20)].into_iter(), &mut out).expect("to memory");
        let text = String::from_utf8(out).expect("ASCII");
        let entries: Vec<&str> = text.split("\n\n").collect();
        assert_eq!(entries.len(), 4);
        assert!(entries.iter().all(|entry| entry.starts_with("dn: ")), "{text}");
        let expected = "dn: uid=user0000020,ou=people,dc=example,dc=org\n\
            objectClass: inetOrgPerson\nobjectClass: mailboxUser\nuid: user0000020\n\
            cn: user0000020\nsn: user0000020\nmail: user0000020@example.org\n\
            mailboxPath: example.org/user0000020/\n";
        assert_eq!(entries[3], expected);
    }
}
