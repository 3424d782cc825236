//! Splitting of O/R address texts into attributes: `/G=John/S=Smith/C=GB/` (RFC 2156 §4.1) and `G=John; S=Smith; C=GB`
//! (F.401 annex B, RFC 1685).
//!
//! In a value `$` quotes the character after it. A doubled delimiter (`//`, and `;;` in the second form) stands for
//! itself, as in F.401, and so does `/=` for an equals sign.
//!
//! Countries as numbers (X.402 §18.3.4): an O/R address may have the data country code of X.121 in place of the two
//! letters of ISO 3166. The zones of X.121 are 2 to 7. A number outside is that of ISO 3166, which some systems write.

use super::AddressError;

/// A character of a value; true if it was quoted.
pub type Char = (char, bool);

/// The parts of one attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Without quoting characters.
    pub key: String,
    /// The text after the first dot or colon of the key: the type of a domain-defined attribute.
    pub kind: Vec<Char>,
    /// The text after the equals sign.
    pub value: Vec<Char>,
    /// Its start, in octets.
    pub offset: usize,
}

/// The separator of attributes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AttributeSeparator {
    /// `/` and `;`, also mixed.
    Slashes,
    /// Only `;`: a value may have a `/`.
    Semicolons,
}

/// Splits a text in either form into attributes, in order.
///
/// # Errors
/// If an attribute has no value, or there are more than `attributes_max`.
pub fn split(text: &str, attributes_max: usize) -> Result<Vec<Pair>, AddressError> {
    let trimmed = text.trim_start();
    let form = if !trimmed.starts_with('/') && trimmed.contains(';') {
        AttributeSeparator::Semicolons
    } else {
        AttributeSeparator::Slashes
    };
    let mut pairs = Vec::new();
    let mut rest = Cursor { text, offset: text.len() - trimmed.len(), form };
    loop {
        rest.skip_separators();
        if rest.left().trim().is_empty() {
            return Ok(pairs);
        }
        if pairs.len() >= attributes_max {
            return Err(AddressError { reason: "too many attributes", offset: rest.offset });
        }
        pairs.push(rest.pair()?);
    }
}

struct Cursor<'t> {
    text: &'t str,
    offset: usize,
    form: AttributeSeparator,
}

impl<'t> Cursor<'t> {
    fn left(&self) -> &'t str {
        self.text.get(self.offset..).unwrap_or_default()
    }

    fn separates(&self, c: char) -> bool {
        c == ';' || (c == '/' && self.form == AttributeSeparator::Slashes)
    }

    fn skip_separators(&mut self) {
        for c in self.left().chars() {
            // Blanks before a key are allowed only in the form with semicolons.
            if !self.separates(c) && c != ' ' {
                return;
            }
            self.offset += c.len_utf8();
        }
    }

    fn pair(&mut self) -> Result<Pair, AddressError> {
        let offset = self.offset;
        let mut key: Vec<Char> = Vec::new();
        let mut chars = self.left().char_indices().peekable();
        let mut value = None;
        while let Some((at, c)) = chars.next() {
            match c {
                '=' => {
                    value = Some(at + 1);
                    break;
                }
                // The type of a domain-defined attribute may also be quoted.
                '$' => key.extend(chars.next().map(|(_, quoted)| (quoted, true))),
                c if self.separates(c) => break,
                c => key.push((c, false)),
            }
        }
        let Some(value) = value else {
            return Err(AddressError { reason: "an attribute without a value", offset });
        };
        self.offset += value;
        let mut value = self.value();
        if self.form == AttributeSeparator::Semicolons {
            trim(&mut value);
        }
        trim(&mut key);
        let dot = key.iter().position(|(c, _)| matches!(c, '.' | ':'));
        let kind = dot.map_or(&[][..], |dot| key.get(dot + 1..).unwrap_or_default()).to_vec();
        Ok(Pair { key: key.into_iter().map(|(c, _)| c).collect(), kind, value, offset })
    }

    fn value(&mut self) -> Vec<Char> {
        let mut value = Vec::new();
        let mut chars = self.left().char_indices().peekable();
        let mut end = self.left().len();
        while let Some((at, c)) = chars.next() {
            let next = chars.peek().map(|&(_, next)| next);
            match (c, next) {
                ('$', Some(quoted)) => {
                    chars.next();
                    value.push((quoted, true));
                }
                // Doubled, it is itself. At the very end of the text it is an empty attribute, which is none.
                (c, Some(next)) if self.separates(c) && next == c && self.goes_on(at + 2) => {
                    chars.next();
                    value.push((c, true));
                }
                ('/', Some('=')) if self.form == AttributeSeparator::Slashes => {
                    chars.next();
                    value.push(('=', true));
                }
                (c, _) if self.separates(c) => {
                    end = at;
                    break;
                }
                (c, _) => value.push((c, false)),
            }
        }
        self.offset += end;
        value
    }

    fn goes_on(&self, at: usize) -> bool {
        self.left().get(at..).is_some_and(|rest| !rest.is_empty())
    }
}

fn trim(value: &mut Vec<Char>) {
    let is_blank = |c: &Char| *c == (' ', false);
    while value.last().is_some_and(is_blank) {
        value.pop();
    }
    let start = value.iter().take_while(|c| is_blank(c)).count();
    value.drain(..start);
}

/// Quotes a value in the form common to all these texts. Quoted are delimiters, and characters that were quoted
/// although they have a meaning in some values (`*`, `{`, `}`: RFC 2156 §3.3.4).
#[must_use]
pub fn quoted(value: &[Char]) -> String {
    let mut text = String::with_capacity(value.len());
    for &(c, was_quoted) in value {
        if matches!(c, '/' | '=' | '$' | ';') || was_quoted && matches!(c, '*' | '{' | '}') {
            text.push('$');
        }
        text.push(c);
    }
    text
}

/// The reverse of [`quoted`].
#[must_use]
pub fn unquoted(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        plain.extend(if c == '$' { chars.next() } else { Some(c) });
    }
    plain
}

/// The code, or the first and the last, and the country.
const CODES: &str = "036:AU 040:AT 056:BE 076:BR 100:BG 124:CA 152:CL 156:CN 170:CO 191:HR 196:CY 202:GR 204-205:NL \
    206:BE 208-209:FR 212:MC 214-215:ES 216:HU 218:BA 219:HR 220:RS 222-223:IT 225:VA 226:RO 228-229:CH \
    230:CZ 231:SK 232:AT 234-237:GB 238-239:DK 240:SE 242:NO 244:FI 246:LT 247:LV 248:EE 250-251:RU \
    255:UA 257:BY 259:MD 260:PL 262-265:DE 266:GI 268:PT 270:LU 272:IE 274:IS 276:AL 278:MT 280:CY \
    282:GE 283:AM 284:BG 286:TR 288:FO 290:GL 292:SM 293:SI 294:MK 295:LI 302-303:CA 310-316:US \
    334-335:MX 404:IN 410:PK 413:LK 415:LB 416:JO 417:SY 418:IQ 419:KW 420:SA 421:YE 422:OM 424:AE \
    425:IL 426:BH 427:QA 428:MN 429:NP 432:IR 440-443:JP 450:KR 452:VN 454:HK 455:MO 456:KH 457:LA \
    460:CN 466:TW 470:BD 502:MY 505:AU 510:ID 515:PH 520:TH 525:SG 530:NZ 602:EG 603:DZ 604:MA 605:TN \
    606:LY 639:KE 655:ZA 722:AR 724:BR 730:CL 732:CO 734:VE 748:UY 800:UG 804:UA 807:MK 818:EG 826:GB \
    831:GG 832:JE 833:IM 834:TZ 840:US 854:BF 858:UY 860:UZ 862:VE 882:WS 887:YE 894:ZM";

/// The two letters of a country written as three digits; `None` if it is not, or if the number is unknown.
#[must_use]
pub fn letters_of(text: &str) -> Option<&'static str> {
    let is_number = text.len() == 3 && text.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then_some(())?;
    CODES.split(' ').find_map(|entry| {
        let (codes, letters) = entry.split_once(':')?;
        let (first, last) = codes.split_once('-').unwrap_or((codes, codes));
        (first..=last).contains(&text).then_some(letters)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_countries() {
        for (text, letters) in [
            ("234", Some("GB")),
            ("237", Some("GB")),
            ("826", Some("GB")),
            ("311", Some("US")),
            ("840", Some("US")),
            ("036", Some("AU")),
            ("265", Some("DE")),
            ("999", None),
            ("GB", None),
            ("26", None),
            ("2340", None),
        ] {
            assert_eq!(letters_of(text), letters, "{text}");
        }
    }
}
