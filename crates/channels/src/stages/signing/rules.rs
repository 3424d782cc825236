//! Signing settings of a listener (`sign`, `unsigned`, `encode_before_signing`).

use config::{Listener, ListenerSection, Reader, Unsigned};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Keys of a `[[listener]]` for signing.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub(crate) struct SigningKeysText {
    /// Sign messages of clients that may relay, if a `[[signer]]` has their author. Switch it off for clients that
    /// submit mail of external authors, for example a gateway for incoming mail. See `docs/signing.md`.
    sign: bool,
    /// Action for messages of clients that may relay if they are not signed: no signer has the author, or the message
    /// has no or several From fields.
    unsigned: Unsigned,
    /// Parts of a message that are encoded before signing. Encoding for a next hop later would break the signature (RFC
    /// 6376 §5.3).
    encode_before_signing: EncodeBeforeSigning,
}

impl Default for SigningKeysText {
    fn default() -> SigningKeysText {
        SigningKeysText {
            sign: true,
            unsigned: Unsigned::Send,
            encode_before_signing: EncodeBeforeSigning::LongLines,
        }
    }
}

/// Parts that are encoded before signing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EncodeBeforeSigning {
    /// Parts with lines over 998 octets, which are encoded for all next hops.
    #[default]
    LongLines,
    /// Also parts with 8-bit octets, for next hops without 8BITMIME.
    #[serde(rename = "8bit")]
    EightBit,
    /// None: the message is stored as received.
    Never,
}

/// Signing rules of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SigningRules {
    /// Sign mail of clients that may relay.
    pub(crate) signs: bool,
    /// Unsigned messages of these clients are refused.
    pub(crate) refuses_unsigned: bool,
    pub(crate) encodes: EncodeBeforeSigning,
}

impl Default for SigningRules {
    fn default() -> SigningRules {
        SigningRules {
            signs: true,
            refuses_unsigned: false,
            encodes: EncodeBeforeSigning::default(),
        }
    }
}

impl ListenerSection for SigningRules {
    type Text = SigningKeysText;
    type Value = SigningRules;

    fn read(text: SigningKeysText, reader: &mut Reader<'_, '_>) -> Option<SigningRules> {
        let refuses_unsigned = text.unsigned == Unsigned::Refuse;
        if refuses_unsigned && !text.sign {
            let help = "remove sign = false";
            reader.error(
                "unsigned",
                "sign = false, but the listener may relay only signed mail",
                help,
            );
        }
        let encodes = text.encode_before_signing;
        if !text.sign && encodes != EncodeBeforeSigning::default() {
            let help = "remove sign = false, or this";
            reader.error(
                "encode_before_signing",
                "sign = false disables signing on this listener",
                help,
            );
        }
        Some(SigningRules { signs: text.sign, refuses_unsigned, encodes })
    }
}

impl SigningRules {
    /// The signing rules of a listener.
    pub(super) fn at(listener: &Listener) -> SigningRules {
        listener.of::<SigningRules>().copied().unwrap_or_default()
    }
}
