//! Mail that moves between servers and disks.

mod postfix_files;
mod postfix_queue;
