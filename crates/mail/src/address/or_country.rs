//! Countries as numbers (X.402 §18.3.4): an O/R address may have the data country code of X.121 in the place of the two
//! letters of ISO 3166. The zones of X.121 are 2 to 7; what lies outside is the number of ISO 3166, which some write.

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

/// The two letters of a country that is written as three digits; `None`: it is not, or nobody is known by them.
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
