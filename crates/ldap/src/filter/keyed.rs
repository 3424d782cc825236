//! Filters read backwards: of an entry, the keys by which the filter would find it.

use super::{EQUAL, Filter, Node};
use crate::Entry;
use crate::key::{Key, Template};

/// A filter without its key. [`Keyed::presence`] finds all entries that any key can find,
/// [`Keyed::keys_of`] returns an entry's keys, and [`Keyed::sought`] the keys that a lookup matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyed {
    presence: Filter,
    filter: Filter,
    classes: Vec<Class>,
}

/// Attributes that are compared with the same.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Class {
    template: Template,
    attributes: Vec<Box<str>>,
}

/// A comparison of an attribute with the key.
type Comparison = (String, Template);

impl Keyed {
    /// Reads a filter backwards.
    ///
    /// # Errors
    /// Why that is not possible, for people.
    pub fn new(filter: &Filter) -> Result<Keyed, &'static str> {
        let mut comparisons = Vec::new();
        let presence = Filter(without_key(&filter.0, &mut comparisons)?);
        let mut classes: Vec<Class> = Vec::new();
        for (attribute, template) in comparisons {
            let attribute = attribute.into_boxed_str();
            match classes.iter_mut().find(|class| class.template == template) {
                Some(class) => class.attributes.push(attribute),
                None => classes.push(Class { template, attributes: vec![attribute] }),
            }
        }
        if classes.is_empty() {
            return Err("no attribute is compared with the key");
        }
        Ok(Keyed { presence, filter: filter.clone(), classes })
    }

    /// Finds every entry that the filter finds for one key or another: attributes that are compared with
    /// the key need only be there.
    #[must_use]
    pub fn presence(&self) -> &Filter {
        &self.presence
    }

    /// The attributes that hold keys.
    pub fn attributes(&self) -> impl Iterator<Item = &str> {
        self.classes.iter().flat_map(|class| class.attributes.iter().map(|name| &**name))
    }

    /// The keys of an entry, each with the number of its class. Attributes compared with the same part of
    /// a key have the same number. Values that are not UTF-8 are skipped.
    pub fn keys_of<'a>(&'a self, entry: &'a Entry) -> impl Iterator<Item = (usize, &'a str)> {
        self.classes.iter().enumerate().flat_map(move |(number, class)| {
            let own = entry.attributes.iter().filter(move |attribute| class.has(&attribute.name));
            let values = own.flat_map(|attribute| &attribute.values);
            values.filter_map(move |value| Some((number, std::str::from_utf8(value).ok()?)))
        })
    }

    /// Returns the members of [`Keyed::keys_of`] that match a key: the filter finds the entries with at
    /// least one. Empty if the key has not all required parts.
    #[must_use]
    pub fn sought(&self, key: &Key<'_>) -> Vec<(usize, String)> {
        if !self.filter.fits(key) {
            return Vec::new();
        }
        let value = |class: &Class| String::from_utf8(class.template.value(key)).ok();
        let values = self.classes.iter().enumerate();
        values.filter_map(|(number, class)| Some((number, value(class)?))).collect()
    }
}

impl Class {
    /// Returns true for an attribute of this class, with or without options (RFC 4512 §2.5).
    fn has(&self, name: &str) -> bool {
        let name = name.split(';').next().unwrap_or_default();
        self.attributes.iter().any(|own| own.eq_ignore_ascii_case(name))
    }
}

/// The filter with presence in the place of comparisons with the key, which go to `out`.
fn without_key(node: &Node, out: &mut Vec<Comparison>) -> Result<Node, &'static str> {
    if !node.has_parts() {
        return Ok(node.clone());
    }
    match node {
        Node::Compare(EQUAL, attribute, template) => {
            out.push((attribute.clone(), template.clone()));
            Ok(Node::Present(attribute.clone()))
        }
        Node::And(nodes) => {
            if nodes.iter().filter(|node| node.has_parts()).count() > 1 {
                return Err("two conditions on the key are combined by &");
            }
            let nodes = nodes.iter().map(|node| without_key(node, out));
            Ok(Node::And(nodes.collect::<Result<_, _>>()?))
        }
        Node::Or(nodes) => {
            let mut kept = Vec::with_capacity(nodes.len());
            for node in nodes {
                kept.push(match node {
                    Node::Compare(..) | Node::Or(_) if node.has_parts() => without_key(node, out)?,
                    _ if node.has_parts() => {
                        return Err("an alternative of | has conditions besides the key");
                    }
                    _ => return Err("an alternative of | does not depend on the key"),
                });
            }
            Ok(Node::Or(kept))
        }
        Node::Not(_) => Err("a negated condition (!) depends on the key"),
        Node::Compare(..) => Err("the key is compared by an operator other than ="),
        Node::Substrings(..) => Err("the key is combined with *"),
        Node::Matching { .. } => Err("the key is compared by a matching rule"),
        Node::Present(_) => Ok(node.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Attribute;

    fn keyed(filter: &str) -> Result<Keyed, &'static str> {
        Keyed::new(&Filter::parse(filter).unwrap())
    }

    fn entry(attributes: &[(&str, &[&[u8]])]) -> Entry {
        let attribute = |(name, values): &(&str, &[&[u8]])| Attribute {
            name: (*name).to_owned(),
            values: values.iter().map(|value| value.to_vec()).collect(),
        };
        Entry { dn: "cn=x".to_owned(), attributes: attributes.iter().map(attribute).collect() }
    }

    #[test]
    fn keys_come_from_what_the_key_is_compared_with() {
        let filter = "(&(objectClass=person)(!(closed=TRUE))(|(mail=%s)(|(alias=%s)(uid=%u))))";
        let keyed = keyed(filter).unwrap();
        let wanted = "(&(objectClass=person)(!(closed=TRUE))(|(mail=*)(|(alias=*)(uid=*))))";
        assert_eq!(*keyed.presence(), Filter::parse(wanted).unwrap());
        assert_eq!(keyed.attributes().collect::<Vec<_>>(), ["mail", "alias", "uid"]);
        let joe = entry(&[
            ("MAIL", &[b"joe@a.test", b"\xff"]),
            ("uid", &[b"joe"]),
            ("alias;lang-de", &[b"joseph@a.test"]),
            ("mailHost", &[b"one"]),
        ]);
        let keys: Vec<_> = keyed.keys_of(&joe).collect();
        assert_eq!(keys, [(0, "joe@a.test"), (0, "joseph@a.test"), (1, "joe")]);
        let sought = |key| keyed.sought(&Key::new(key));
        assert_eq!(sought("joe@a.test"), [(0, "joe@a.test".to_owned()), (1, "joe".to_owned())]);
        assert_eq!(sought("@a.test"), []);
    }

    #[test]
    fn parts_may_stand_beside_other_text() {
        let keyed = keyed("(proxyAddresses=smtp:%u@%d)").unwrap();
        assert_eq!(keyed.sought(&Key::new("a@b")), [(0, "smtp:a@b".to_owned())]);
        assert_eq!(keyed.sought(&Key::new("a")), []);
    }

    #[test]
    fn what_can_not_be_read_backwards_is_refused() {
        for (filter, why) in [
            ("(mail=joe)", "no attribute is compared with the key"),
            ("(&(uid=%u)(ou=%d))", "two conditions on the key are combined by &"),
            ("(|(mail=%s)(uid=postmaster))", "an alternative of | does not depend on the key"),
            ("(|(mail=%s)(&(a=b)(uid=%u)))", "an alternative of | has conditions besides the key"),
            ("(!(mail=%s))", "a negated condition (!) depends on the key"),
            ("(mail>=%s)", "the key is compared by an operator other than ="),
            ("(mail~=%s)", "the key is compared by an operator other than ="),
            ("(mail=*%s)", "the key is combined with *"),
            ("(mail:caseExactMatch:=%s)", "the key is compared by a matching rule"),
        ] {
            assert_eq!(keyed(filter), Err(why), "{filter}");
        }
    }
}
