//! A network device whose packets a program carries.

// `ioctl` can't be typed by the compiler: scripts/check-house names this file.
#![allow(unsafe_code)]

use rustix::fs::{Mode, OFlags};
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use std::ffi::c_int;
use std::fs::File;
use std::io;

/// Where the kernel hands out such devices.
pub(super) const CONTROL: &str = "/dev/net/tun";

/// `IFNAMSIZ`: bytes of a device's name with the zero that ends it.
const NAME_BYTES: usize = 16;

/// `IFF_TUN | IFF_NO_PI`: IP packets, nothing before them.
const FLAGS: u16 = 0x0001 | 0x1000;

/// `TUNSETIFF`. The kernel's header says `int` for its argument, and reads a `struct ifreq`.
const TUNSETIFF: Opcode = opcode::write::<c_int>(b'T', 202);

/// `struct ifreq` of netdevice(7), as far as `TUNSETIFF` reads it: 40 bytes.
#[repr(C, align(8))]
struct InterfaceRequest {
    name: [u8; NAME_BYTES],
    flags: u16,
    rest: [u8; 22],
}

const _: () = assert!(size_of::<InterfaceRequest>() == 40);

/// Makes the device `name`, which goes when the file is closed. Reading gives one packet that the
/// kernel sends through it, writing lets the kernel receive one; neither waits.
pub(super) fn open(name: &str) -> io::Result<File> {
    let mut request = InterfaceRequest { name: [0; NAME_BYTES], flags: FLAGS, rest: [0; 22] };
    if name.len() >= NAME_BYTES {
        let text = format!("{name:?} is too long for a device's name");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let device = rustix::fs::open(CONTROL, flags, Mode::empty())?;
    // SAFETY: TUNSETIFF reads a `struct ifreq` at the address that it is given and writes one back
    // (drivers/net/tun.c). `InterfaceRequest` has that struct's layout and whole size, its name ends
    // with a zero (checked above), every bit pattern is a value of its fields, and it outlives the
    // call.
    unsafe { ioctl(&device, Updater::<TUNSETIFF, _>::new(&mut request)) }?;
    Ok(File::from(device))
}

#[cfg(test)]
mod tests {
    use super::open;
    use std::path::Path;
    use std::time::{Duration, Instant};

    const WAIT_MAX: Duration = Duration::from_secs(10);

    #[test]
    fn the_device_is_there_while_the_file_is_open() {
        let name = format!("prt{}", std::process::id());
        let device = match open(&name) {
            Ok(device) => device,
            Err(error) => {
                return skips::machine(skips::Machine::Path, &format!("no TUN device: {error}"));
            }
        };
        let shown = Path::new("/sys/class/net").join(&name);
        assert!(shown.exists(), "{}", shown.display());
        drop(device);
        // The kernel takes it down in its own time.
        let begun = Instant::now();
        while shown.exists() {
            assert!(begun.elapsed() < WAIT_MAX, "{}", shown.display());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_name_that_has_no_room_for_its_end_is_refused() {
        assert!(open("sixteen-bytes-oh").is_err());
    }
}
