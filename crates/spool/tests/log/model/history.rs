//! What may happen to a log.

use super::world::World;

/// Something happens; what, two numbers tell.
pub(crate) fn event(world: &mut World, what: u8, argument: u16) {
    let argument = usize::from(argument);
    match what % 24 {
        0..=5 => world.accept(1, argument % 900),
        6 => world.accept(1 + argument as u32 % 70, argument % 2_000),
        7 => world.accept_blob(1 + argument as u32 % 3, 1 + argument % 3_000),
        8..=11 => world.settle(argument % 3 == 0),
        12 => world.dsn(),
        13 => world.attempt(),
        14 => world.hold(argument % 3 == 0),
        15..=19 => world.pump(argument % 12),
        20 => world.pump(200),
        21 => {
            world.disk.set_fuse(argument as u64 % 30);
            world.pump(argument % 50);
        }
        22 if argument % 8 == 0 => world.restart(false),
        23 if argument % 4 == 0 => world.restart(true),
        23 if argument % 4 == 1 => {
            world.stop();
            world.restart(argument % 3 == 0);
        }
        _ => world.pump(2),
    }
    if world.disk.has_crashed() || world.poisoned {
        world.restart(argument % 5 != 0);
    }
}
