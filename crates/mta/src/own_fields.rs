//! Fields above a locally generated message: its signatures.

use crate::answer::Decision;
use crate::event::Signed;
use bytes::Bytes;
use std::rc::Rc;

/// Header fields, and the signatures in them.
#[derive(Clone, Debug, Default)]
pub(crate) struct SignatureFields {
    /// Complete lines.
    pub(crate) prefix: Bytes,
    pub(crate) signed: Signed,
}

/// Returns the fields to place above a message with this content.
pub(crate) type AboveOwn = Rc<dyn Fn(&Bytes) -> Decision<'static, SignatureFields>>;
