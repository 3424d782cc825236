//! What clients say when they log in, and what may stand in a table of passwords.

use auth::password::scram_keys::{Keys, SaltForm, Salted};
use auth::password::{Password, Stored};
use auth::sasl::scram::Channel;
use auth::sasl::{Exchange, ExchangeStep, Mechanism, USER_BYTES_MAX};

/// The server's part of a nonce, longer than a client's guess.
const NONCE: &str = "0123456789abcdefABCDEF";

/// The first byte is the mechanism, and whether there is an initial response; the rest are responses,
/// a line each.
pub fn run(data: &[u8]) {
    let Some((&how, rest)) = data.split_first() else { return };
    if how == b'{' || how == b'$' {
        return stored(data);
    }
    let mechanism = Mechanism::ALL[usize::from(how & 3 | (how >> 1 & 4)) % Mechanism::ALL.len()];
    let channel = match mechanism {
        Mechanism::ScramSha256Plus => Channel::Bound([7; 32]),
        _ if how & 16 == 0 => Channel::Unbound,
        _ => Channel::Declined,
    };
    let mut responses = rest.split(|byte| *byte == b'\n');
    let mut exchange = Exchange::new(mechanism, channel, || NONCE.to_owned());
    let initial = if how & 4 == 0 { responses.next() } else { None };
    let mut step = exchange.start(initial);
    // No exchange takes more steps, whatever a client says.
    for _ in 0..6 {
        step = match step {
            ExchangeStep::Challenge(challenge) => {
                assert!(challenge.len() <= 2_048);
                let Some(response) = responses.next() else { return };
                exchange.handle_response(response)
            }
            ExchangeStep::Keys(user) => {
                check_user(&user);
                let salted = Salted::for_user(b"secret", &user, SaltForm::default());
                exchange.handle_keys(salted.keys_of_nobody(b"secret"))
            }
            ExchangeStep::Check(claim) => {
                check_user(&claim.user);
                assert!(!format!("{claim:?}").contains("pencil") || claim.user.contains("pencil"));
                return;
            }
            ExchangeStep::Token(presented) => {
                presented.user.iter().for_each(|user| check_user(user));
                exchange.refuse_token(None)
            }
            ExchangeStep::External(user) => return user.iter().for_each(|user| check_user(user)),
            ExchangeStep::Proved(user) => panic!("{user} has proved to know what nobody knows"),
            ExchangeStep::Failed(_) => {
                // What is over stays so.
                let again = exchange.handle_response(b"x");
                assert!(matches!(again, ExchangeStep::Failed(_)));
                return;
            }
        };
    }
    panic!("an exchange without end");
}

fn check_user(user: &str) {
    assert!((1..=USER_BYTES_MAX).contains(&user.len()));
    assert!(!user.chars().any(char::is_control));
}

/// Reading takes anything; what is read of the cheap kinds can be asked.
fn stored(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let password = Password::new(b"pencil").expect("it has a length");
    match Stored::parse(text) {
        Ok(stored) if text.to_ascii_uppercase().starts_with("{PLAIN}") => {
            let is_it = text.trim_ascii()["{PLAIN}".len()..] == *"pencil";
            assert_eq!(stored.is(&password), is_it);
        }
        Ok(_) => {}
        Err(why) => assert!(why.to_string().len() < 100),
    }
    if let Some((_, keys)) = text.split_once('}') {
        let _ = Keys::parse(keys);
    }
}
