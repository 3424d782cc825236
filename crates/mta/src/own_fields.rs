//! What goes above a message of this server's own: its signatures.

use crate::answer::Decision;
use crate::event::Signed;
use bytes::Bytes;
use std::rc::Rc;

/// Header fields, and who signed by them.
#[derive(Clone, Debug, Default)]
pub(crate) struct SignatureFields {
    /// Whole lines.
    pub(crate) prefix: Bytes,
    pub(crate) signed: Signed,
}

/// What goes above a message whose content this is.
pub(crate) type AboveOwn = Rc<dyn Fn(&Bytes) -> Decision<'static, SignatureFields>>;
