//! Encoding before signing (RFC 6376 §5.3). Content that would be encoded for a next hop, which breaks signatures, is
//! encoded first. The stored content is then sent unchanged.

use super::rules::EncodeBeforeSigning;
use mail::transfer_encoding::{Encoder, LINE_BYTES_MAX, Survey};
use mail::{ContentFacts, Refusal};
use mta::ingress::Draft;

/// Returns true if content with these properties may need encoding.
pub(super) fn is_wanted(rule: EncodeBeforeSigning, facts: &ContentFacts) -> bool {
    let is_long = facts.longest_line > LINE_BYTES_MAX;
    match rule {
        EncodeBeforeSigning::LongLines => is_long,
        EncodeBeforeSigning::EightBit => is_long || facts.has_8bit,
        EncodeBeforeSigning::Never => false,
    }
}

/// Encodes the parts that need it and replaces the content. Returns true if it changed. Content that can't be encoded
/// stays unchanged; it is not encoded for a next hop either.
///
/// # Errors
/// The content can't be read, or not stored.
pub(super) async fn encode(draft: &mut Draft, takes_eight_bit: bool) -> Result<bool, Refusal> {
    let mut survey = Survey::new(takes_eight_bit);
    let mut offset = 0;
    loop {
        let piece = draft.read(offset).await?;
        if piece.is_empty() {
            break;
        }
        survey.push(&piece);
        offset += piece.len() as u64;
    }
    let Some(plan) = survey.finish().ok().filter(|plan| !plan.is_empty()) else {
        return Ok(false);
    };
    let (mut encoder, mut content) = (Encoder::new(&plan), draft.gather());
    let mut offset = 0;
    loop {
        let piece = draft.read(offset).await?;
        if piece.is_empty() {
            break;
        }
        content.push(&encoder.push(&piece)).await?;
        offset += piece.len() as u64;
    }
    content.push(&encoder.finish()).await?;
    draft.replace_content(content.finish().await?);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_content_that_may_have_to_be_encoded_is_looked_at() {
        let facts = |longest_line, has_8bit| ContentFacts {
            longest_line,
            has_8bit,
            ..ContentFacts::default()
        };
        let (plain, long, eight) =
            (facts(LINE_BYTES_MAX, false), facts(LINE_BYTES_MAX + 1, false), facts(70, true));
        for (rule, expected) in [
            (EncodeBeforeSigning::LongLines, [false, true, false]),
            (EncodeBeforeSigning::EightBit, [false, true, true]),
            (EncodeBeforeSigning::Never, [false; 3]),
        ] {
            assert_eq!([&plain, &long, &eight].map(|facts| is_wanted(rule, facts)), expected);
        }
    }
}
