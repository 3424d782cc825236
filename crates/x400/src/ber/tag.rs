//! Tags.

use std::fmt;

/// The namespace of a tag's number (X.690 §8.1.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// ASN.1's own types.
    Universal,
    /// One meaning in a whole application.
    Application,
    /// Context-specific.
    Context,
    /// By agreement.
    Private,
}

/// The type or field of an element.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag {
    /// The namespace of its number.
    pub class: Class,
    /// The number within its class.
    pub number: u32,
}

impl Tag {
    /// BOOLEAN.
    pub const BOOLEAN: Tag = Tag::universal(1);
    /// INTEGER.
    pub const INTEGER: Tag = Tag::universal(2);
    /// BIT STRING.
    pub const BIT_STRING: Tag = Tag::universal(3);
    /// OCTET STRING.
    pub const OCTET_STRING: Tag = Tag::universal(4);
    /// NULL.
    pub const NULL: Tag = Tag::universal(5);
    /// OBJECT IDENTIFIER.
    pub const OID: Tag = Tag::universal(6);
    /// EXTERNAL.
    pub const EXTERNAL: Tag = Tag::universal(8);
    /// ENUMERATED.
    pub const ENUMERATED: Tag = Tag::universal(10);
    /// UTF8String.
    pub const UTF8_STRING: Tag = Tag::universal(12);
    /// SEQUENCE and SEQUENCE OF.
    pub const SEQUENCE: Tag = Tag::universal(16);
    /// SET and SET OF.
    pub const SET: Tag = Tag::universal(17);
    /// NumericString.
    pub const NUMERIC_STRING: Tag = Tag::universal(18);
    /// PrintableString.
    pub const PRINTABLE_STRING: Tag = Tag::universal(19);
    /// TeletexString, T61String.
    pub const TELETEX_STRING: Tag = Tag::universal(20);
    /// VideotexString.
    pub const VIDEOTEX_STRING: Tag = Tag::universal(21);
    /// IA5String.
    pub const IA5_STRING: Tag = Tag::universal(22);
    /// UTCTime.
    pub const UTC_TIME: Tag = Tag::universal(23);
    /// GeneralizedTime.
    pub const GENERALIZED_TIME: Tag = Tag::universal(24);
    /// GraphicString.
    pub const GRAPHIC_STRING: Tag = Tag::universal(25);
    /// VisibleString.
    pub const VISIBLE_STRING: Tag = Tag::universal(26);
    /// GeneralString.
    pub const GENERAL_STRING: Tag = Tag::universal(27);
    /// UniversalString.
    pub const UNIVERSAL_STRING: Tag = Tag::universal(28);
    /// BMPString.
    pub const BMP_STRING: Tag = Tag::universal(30);

    /// A tag of ASN.1's own.
    #[must_use]
    pub const fn universal(number: u32) -> Self {
        Tag { class: Class::Universal, number }
    }

    /// `[APPLICATION n]`.
    #[must_use]
    pub const fn application(number: u32) -> Self {
        Tag { class: Class::Application, number }
    }

    /// `[n]`.
    #[must_use]
    pub const fn context(number: u32) -> Self {
        Tag { class: Class::Context, number }
    }

    /// `[PRIVATE n]`.
    #[must_use]
    pub const fn private(number: u32) -> Self {
        Tag { class: Class::Private, number }
    }
}

/// As ASN.1 writes it: `[0]`, `[APPLICATION 4]`, `[UNIVERSAL 16]`.
impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.number;
        match self.class {
            Class::Universal => write!(f, "[UNIVERSAL {number}]"),
            Class::Application => write!(f, "[APPLICATION {number}]"),
            Class::Context => write!(f, "[{number}]"),
            Class::Private => write!(f, "[PRIVATE {number}]"),
        }
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
