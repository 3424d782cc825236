//! Hosts of two that end every transaction without a verdict: whoever was given to such a host goes to the other one
//! next (RFC 5321 §5.1).

use super::executor::Group;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// So often a message may be named to the host that fails before it is named to the other one: the attempts of
/// recipients that are taken apart are not told from each other.
const IN_A_ROW_MAX: u32 = 2;

/// How often in a row messages were named to a host that fails, by process and sender.
#[derive(Debug, Default)]
pub struct Stumbles(RefCell<BTreeMap<(Group, String), u32>>);

impl Stumbles {
    /// MAIL from this sender has come to one of the two. What is wrong with that, for people.
    pub fn note(&self, life: Group, sender: &str, fails: bool) -> Option<String> {
        if sender.is_empty() {
            return None;
        }
        let mut noted = self.0.borrow_mut();
        let in_a_row = noted.entry((life, sender.to_owned())).or_default();
        *in_a_row = if fails { *in_a_row + 1 } else { 0 };
        (*in_a_row == IN_A_ROW_MAX + 1)
            .then(|| format!("was named {in_a_row} times in a row to a host that fails, of two"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_a_row_is_between_two_of_the_other_host() {
        let stumbles = Stumbles::default();
        let note = |fails| stumbles.note(Group(1), "m1@back.test", fails).is_some();
        assert!([true, true, false, true, true, true].map(note)[5]);
        let other = |fails| stumbles.note(Group(1), "m2@back.test", fails).is_some();
        assert_eq!([true, true, false, true, true, false].map(other), [false; 6]);
    }
}
