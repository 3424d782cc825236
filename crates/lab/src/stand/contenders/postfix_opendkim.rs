//! Postfix whose mail OpenDKIM signs, as a milter: one RSA-2048 signature, relaxed/relaxed.

use super::{DOMAIN, make_key, postfix};
use crate::stand::contender::{Contender, Durability, RoughRates};
use crate::stand::error::{Error, Result};
use crate::stand::place::ServerSetup;
use crate::stand::server::Server;
use auth::dkim::Algorithm;
use load::listener::free_port;
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

const OPENDKIM: &str = "/usr/sbin/opendkim";

/// OpenDKIM listens within this time.
const START_MAX: Duration = Duration::from_secs(30);

/// The contender.
#[derive(Debug)]
pub(crate) struct PostfixOpendkim;

impl Contender for PostfixOpendkim {
    fn name(&self) -> &str {
        "postfix-opendkim"
    }

    fn title(&self) -> String {
        "Postfix, signed by OpenDKIM as a milter".to_owned()
    }

    fn durability(&self) -> Durability {
        postfix::Postfix.durability()
    }

    fn find(&self, postrider: &Path) -> Result<String> {
        let version = postfix::Postfix.find(postrider)?;
        if Path::new(OPENDKIM).exists() {
            return Ok(format!("{version} with OpenDKIM"));
        }
        let help = "OpenDKIM is not installed (Debian: package opendkim; scripts/with-packages opendkim COMMAND)";
        Err(Error::Missing(help.to_owned()))
    }

    fn start(&self, place: &ServerSetup) -> Result<Box<dyn Server>> {
        let port = free_port().map_err(|error| Error::Missing(error.to_string()))?;
        let conf = settings(place, port)?;
        // What can't be signed is put off, never sent bare: such a run shows it.
        let main = format!(
            "{}smtpd_milters = inet:127.0.0.1:{port}\nmilter_default_action = tempfail\n\
             milter_protocol = 6\n",
            postfix::relay_cf(place)
        );
        let server = postfix::start_beside(place, &main, [OPENDKIM, "-f", "-x", &conf])?;
        wait_until_it_listens(port)?;
        Ok(server)
    }

    fn rough_rates(&self) -> RoughRates {
        RoughRates { messages: 200.0, bytes: 15e6 }
    }
}

/// Writes what OpenDKIM needs: it signs all that this machine sends.
fn settings(place: &ServerSetup, port: u16) -> Result<String> {
    let key = make_key(place, "opendkim.pem", Algorithm::RsaSha256)?;
    place.write("opendkim.keys", &format!("bench {DOMAIN}:s1:{key}\n"))?;
    place.write("opendkim.signers", "* bench\n")?;
    let directory = place.directory.display();
    let text = format!(
        "Socket inet:{port}@127.0.0.1\nMode s\nKeyTable file:{directory}/opendkim.keys\n\
         SigningTable refile:{directory}/opendkim.signers\nCanonicalization relaxed/relaxed\n\
         SignatureAlgorithm rsa-sha256\nRequireSafeKeys no\nBackground no\nSyslog no\nUMask 002\n\
         On-Default tempfail\n"
    );
    place.write("opendkim.conf", &text)?;
    Ok(place.directory.join("opendkim.conf").display().to_string())
}

fn wait_until_it_listens(port: u16) -> Result<()> {
    let begun = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if begun.elapsed() > START_MAX {
            return Err(Error::Server("OpenDKIM does not listen".to_owned()));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
