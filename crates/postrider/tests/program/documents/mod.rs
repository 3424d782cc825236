//! Commands and configurations in `README.md` and in the pages below `docs` work.

mod blocks;
mod commands;
mod configurations;
mod stand_ins;
mod units;
