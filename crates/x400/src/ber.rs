//! BER (X.690): a tolerant reader, a writer of the one minimal form, and a skimmer of streams.
//!
//! **Reading.** [`Reader`] walks the elements of a complete slice; [`Element`] has the values. Definite and indefinite
//! lengths may be mixed, lengths need not be minimal, and strings may be constructed to any depth within
//! [`NESTING_MAX`]. Only a segmented string is copied. Every error has the offset of its octet ([`BerError::at`]),
//! counted from the reader's base.
//!
//! ```
//! use x400::ber::{Reader, Tag};
//! // SEQUENCE (indefinite) { INTEGER 5, [0] "a" }
//! let mut reader = Reader::new(&[0x30, 0x80, 0x02, 0x01, 0x05, 0x80, 0x01, 0x61, 0x00, 0x00]);
//! let mut fields = reader.read(Tag::SEQUENCE)?.children()?;
//! assert_eq!(fields.read(Tag::INTEGER)?.integer()?, 5);
//! assert_eq!(&*fields.read(Tag::context(0))?.octets()?, b"a");
//! fields.end()?;
//! reader.end()?;
//! # Ok::<(), x400::ber::BerError>(())
//! ```
//!
//! A SET is in any order: loop over the reader (it is an iterator) and match on [`Element::tag`]. An IMPLICIT tag
//! changes only the tag: request the value of the expected type from the element. An EXPLICIT tag contains
//! [`Element::only_child`].
//!
//! **Writing.** [`Writer`] appends elements with definite, minimal lengths. Contents too large to copy are left out:
//! [`Writer::header`] writes identifier and length alone, and [`header_bytes`] is their length.
//!
//! ```
//! use x400::ber::{Tag, Writer};
//! let mut writer = Writer::new();
//! writer.constructed(Tag::SET, |set| {
//!     set.integer(Tag::context(0), 1);
//!     set.text(Tag::IA5_STRING, "mta");
//! });
//! assert_eq!(writer.as_slice(), [0x31, 0x08, 0x80, 0x01, 0x01, 0x16, 0x03, 0x6D, 0x74, 0x61]);
//! ```
//!
//! **Skimming.** [`Skimmer`] takes a stream cut at any octet and reports the start and end of elements, down to a level
//! that the caller chooses and may change. Deeper elements pass as octets, unread if their length is definite. Pass the
//! available input, handle each [`SkimStep`], and pass the rest; at the end of the stream, call [`Skimmer::finish`].
//!
//! ```
//! use x400::ber::{Skimmed, Skimmer};
//! let mut skimmer = Skimmer::new(1); // the outermost elements; their contents are opaque
//! let mut contents = Vec::new();
//! for piece in [&[0x30, 0x80, 0x04][..], &[0x01, 0x61, 0x00], &[0x00]] {
//!     let mut rest = piece;
//!     loop {
//!         let step = skimmer.step(rest)?;
//!         let (taken, behind) = rest.split_at(step.consumed);
//!         rest = behind;
//!         match step.what {
//!             Skimmed::Begin(_) | Skimmed::End { .. } => {}
//!             Skimmed::Octets => contents.extend_from_slice(taken),
//!             Skimmed::NeedInput => break,
//!         }
//!     }
//! }
//! skimmer.finish()?;
//! assert_eq!(contents, [0x04, 0x01, 0x61]);
//! # Ok::<(), x400::ber::BerError>(())
//! ```

mod error;
mod header;
mod oid;
mod reader;
mod skimmer;
mod strings;
mod structure;
mod tag;
mod writer;

pub use error::{BerError, BerFault};
pub use oid::{oid_from_text, oid_text};
pub use reader::{Element, Reader};
pub use skimmer::{Begin, SkimStep, Skimmed, Skimmer};
pub(crate) use strings::is_string as is_string_tag;
pub use strings::{Bits, Segments};
pub use structure::check_structure;
pub use tag::{Class, Tag};
pub use writer::{Writer, header_bytes};

/// Maximum depth of nested elements; the outermost have depth 1.
pub const NESTING_MAX: usize = 32;
