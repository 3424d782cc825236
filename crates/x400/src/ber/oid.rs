//! Object identifiers (X.690 §8.19).

use std::fmt::Write;

/// The octets are components that end.
pub(super) fn check_oid(octets: &[u8]) -> bool {
    let mut component = 0_u64;
    let mut is_open = true;
    for &octet in octets {
        if component > u64::MAX >> 7 {
            return false;
        }
        component = component << 7 | u64::from(octet & 0x7F);
        is_open = octet & 0x80 != 0;
        if !is_open {
            component = 0;
        }
    }
    !is_open
}

/// Numbers with dots, as in `2.6.0.1.6`. Octets that are no object identifier show as far as they are one.
#[must_use]
pub fn oid_text(octets: &[u8]) -> String {
    let mut text = String::new();
    let mut component = 0_u64;
    for &octet in octets {
        component = component << 7 | u64::from(octet & 0x7F);
        if octet & 0x80 != 0 {
            continue;
        }
        if text.is_empty() {
            let first = (component / 40).min(2);
            let _ = write!(text, "{first}.{}", component - first * 40);
        } else {
            let _ = write!(text, ".{component}");
        }
        component = 0;
    }
    text
}

/// The octets of an object identifier from dotted numbers; `None` if invalid.
#[must_use]
pub fn oid_from_text(text: &str) -> Option<Vec<u8>> {
    let mut numbers = text.split('.').map(|part| {
        let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { part.parse::<u64>().ok() } else { None }
    });
    let first = numbers.next()??;
    let second = numbers.next()??;
    if first > 2 || (first < 2 && second > 39) {
        return None;
    }
    let mut octets = Vec::new();
    push_component(&mut octets, (first * 40).checked_add(second)?);
    for number in numbers {
        push_component(&mut octets, number?);
    }
    Some(octets)
}

fn push_component(octets: &mut Vec<u8>, component: u64) {
    let groups = (64 - component.leading_zeros()).div_ceil(7).max(1);
    for group in (0..groups).rev() {
        let low = (component >> (7 * group)) as u8 & 0x7F;
        octets.push(if group == 0 { low } else { low | 0x80 });
    }
}
