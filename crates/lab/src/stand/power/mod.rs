//! A disk whose power can be cut: ext4 on a loop device, over a file of which only what was synced
//! is kept.
//!
//! The loop device turns each flush that ext4 asks of it into an fsync of its file, and the file
//! is served by this process ([`image::Image`]): so it knows which blocks a drive would still have
//! had in its cache.

mod image;
mod served;

pub(crate) use image::Cut;

use super::error::{Error, Result};
use super::system::run_words as system;
use fuser::{BackgroundSession, Config, MountOption};
use image::{Image, Loss};
use load::file::{self, FileError};
use load::on_panic::OnPanic;
use load::random::Random;
use served::Served;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A write that is not flushed yet comes within this time, while there is mail.
const UNFLUSHED_MAX: Duration = Duration::from_millis(200);
/// A busy file system is free again within this time.
const BUSY_MAX: Duration = Duration::from_secs(20);

/// The programs that this takes, beside `unshare`.
const PROGRAMS: [&str; 4] = ["mkfs.ext4", "losetup", "mount", "umount"];

/// A disk that is mounted.
#[derive(Debug)]
pub(crate) struct Disk {
    /// What is durable.
    durable: PathBuf,
    /// Where the file of the loop device is served.
    served_at: PathBuf,
    /// Where ext4 is mounted.
    pub(crate) path: PathBuf,
    running: Option<PowerSession>,
}

/// From one power cut to the next.
#[derive(Debug)]
struct PowerSession {
    image: Arc<Mutex<Image>>,
    session: BackgroundSession,
    device: String,
    _on_panic: OnPanic,
}

/// Why this machine can't do it, if it can't.
pub(crate) fn unable() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("only root may make file systems and loop devices".to_owned());
    }
    for device in ["/dev/fuse", "/dev/loop-control"] {
        if let Err(error) = OpenOptions::new().read(true).write(true).open(device) {
            return Some(format!("{device}: {error}"));
        }
    }
    let missing = |program: &&&str| system(program, &["--version"]).is_err() && !knows(program);
    let program = PROGRAMS.iter().find(missing)?;
    Some(format!("there is no {program}"))
}

/// mke2fs knows no `--version`.
fn knows(program: &str) -> bool {
    std::process::Command::new(program).arg("-V").output().is_ok()
}

impl Disk {
    /// Makes an empty file system of so many bytes in `directory` and mounts it there under this
    /// name.
    ///
    /// # Errors
    /// What could not be made or mounted.
    pub(crate) fn make(directory: &Path, name: &str, bytes: u64) -> Result<Disk> {
        let [durable, served_at, path] =
            [".image", ".served", ""].map(|end| directory.join(format!("{name}{end}")));
        for path in [&served_at, &path] {
            std::fs::create_dir(path).map_err(FileError::at(path))?;
        }
        file::create(&durable)?.set_len(bytes).map_err(FileError::at(&durable))?;
        let options = ["-q", "-F", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0"];
        system("mkfs.ext4", &[&options[..], &[&text(&durable)]].concat())?;
        let mut disk = Disk { durable, served_at, path, running: None };
        disk.power_on()?;
        Ok(disk)
    }

    /// Mounts what is durable; ext4 replays its journal.
    ///
    /// # Errors
    /// What could not be mounted.
    pub(crate) fn power_on(&mut self) -> Result<()> {
        let file = OpenOptions::new().read(true).write(true).open(&self.durable);
        let image = file.and_then(Image::new).map_err(FileError::at(&self.durable))?;
        let image = Arc::new(Mutex::new(image));
        let mut config = Config::default();
        config.mount_options.push(MountOption::FSName("postrider-lab".to_owned()));
        let session = fuser::spawn_mount(Served(Arc::clone(&image)), &self.served_at, &config);
        let session = session.map_err(FileError::at(&self.served_at))?;
        let served = text(&self.served_at.join(served::NAME));
        // Through the page cache, or the file's fsync is not asked for.
        let device = system("losetup", &["--find", "--show", "--direct-io=off", &served])?;
        let device = device.trim().to_owned();
        let names = [text(&self.path), device.clone(), text(&self.served_at)];
        let on_panic = OnPanic::new(move || let_go(&names));
        self.running =
            Some(PowerSession { image, session, device: device.clone(), _on_panic: on_panic });
        system("mount", &["-t", "ext4", "-o", "noatime", &device, &text(&self.path)])?;
        Ok(())
    }

    /// Cuts the power: most often at a moment when there is something to lose, which lasts only
    /// as long as a sync. From now on no sync succeeds.
    ///
    /// # Errors
    /// When the disk's file can't be written.
    pub(crate) fn cut(&mut self, random: &mut Random) -> Result<Cut> {
        let loss = Loss::draw(random);
        let wait_max = if random.permille(750) { UNFLUSHED_MAX } else { Duration::ZERO };
        self.cut_within(wait_max, loss, random)
    }

    /// Cuts the power now, whatever there is to lose.
    ///
    /// # Errors
    /// When the disk's file can't be written.
    pub(crate) fn cut_at_once(&mut self, random: &mut Random) -> Result<Cut> {
        self.cut_within(Duration::ZERO, Loss::draw(random), random)
    }

    fn cut_within(&mut self, wait_max: Duration, loss: Loss, random: &mut Random) -> Result<Cut> {
        let running = self.running.as_ref().ok_or_else(power_is_off)?;
        let begun = Instant::now();
        loop {
            let mut image = running.image.lock().unwrap_or_else(PoisonError::into_inner);
            if image.has_unflushed() || begun.elapsed() >= wait_max {
                let cut = image.cut(loss, random);
                return Ok(cut.map_err(FileError::at(&self.durable))?);
            }
            drop(image);
            std::thread::sleep(Duration::from_micros(20));
        }
    }

    /// Lets go of everything but what was durable. Whoever had files there has ended.
    ///
    /// # Errors
    /// When something is still in use.
    pub(crate) fn take_down(&mut self) -> Result<()> {
        let Some(running) = self.running.take() else { return Ok(()) };
        patiently(|| system("umount", &[&text(&self.path)]))?;
        patiently(|| system("losetup", &["--detach", &running.device]))?;
        // The device lets go of the file a moment later.
        patiently(|| system("umount", &[&text(&self.served_at)]))?;
        Ok(running.session.join().map_err(FileError::at(&self.served_at))?)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let Some(running) = &self.running else { return };
        let_go(&[text(&self.path), running.device.clone(), text(&self.served_at)]);
    }
}

/// Something went wrong; as much as can be is undone, and the namespace's end does the rest.
fn let_go([path, device, served_at]: &[String; 3]) {
    let _ = system("umount", &["--lazy", path]);
    let _ = system("losetup", &["--detach", device]);
    let _ = system("umount", &["--lazy", served_at]);
}

fn power_is_off() -> Error {
    Error::Missing("the power is off already".to_owned())
}

fn patiently(mut work: impl FnMut() -> Result<String>) -> Result<()> {
    let begun = Instant::now();
    loop {
        match work() {
            Ok(_) => return Ok(()),
            Err(error) if begun.elapsed() > BUSY_MAX => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
