//! Mail that moves between servers and disks.

mod backup;
mod postfix_files;
mod postfix_queue;
