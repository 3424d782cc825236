use super::*;
use std::task::Waker;

const LIMITS: SeatLimits = SeatLimits { all: 100, network: 8 };

fn ip(group: u8, n: u8) -> IpAddr {
    IpAddr::from([198, 51, group, n])
}

fn is_displaced(seat: &mut Seat) -> bool {
    seat.poll_displaced(&mut Context::from_waker(Waker::noop())).is_ready()
}

fn enter(seats: &Arc<Seats>, ip: IpAddr) -> Option<Seat> {
    seats.enter(0, ip, Rank::Unproven, LIMITS)
}

#[test]
fn network_has_its_share_and_its_own_oldest_gives_way() {
    let seats = Arc::<Seats>::default();
    let mut held: Vec<Seat> = (0..8).filter_map(|_| enter(&seats, ip(1, 1))).collect();
    held[0].set_busy(true);
    let ninth = enter(&seats, ip(1, 1));
    assert!(ninth.is_some() && is_displaced(&mut held[1]) && !is_displaced(&mut held[0]));
    held.iter().skip(2).for_each(|seat| seat.set_busy(true));
    ninth.as_ref().unwrap().set_busy(true);
    assert!(enter(&seats, ip(1, 1)).is_none(), "none of its own is idle");
    assert!(enter(&seats, ip(1, 2)).is_some(), "others have theirs");
    assert!(seats.enter(0, ip(1, 1), Rank::Privileged, LIMITS).is_some());
    // Another listener's seats are separate.
    assert!(seats.enter(1, ip(1, 1), Rank::Unproven, LIMITS).is_some());
    drop((held, ninth));
    assert_eq!(seats.count(), 0);
    assert!(seats.lock().pools.values().all(|pool| pool.groups.is_empty() && pool.count == 0));
}

#[test]
fn those_who_hold_most_give_way_the_oldest_idle_first() {
    let seats = Arc::<Seats>::default();
    // 30 networks of as many groups with three seats each, and one with a single seat.
    let mut single = enter(&seats, ip(200, 1)).unwrap();
    let mut held: Vec<Seat> = Vec::new();
    for n in 0..89 {
        held.push(enter(&seats, ip(n % 30, 1)).unwrap());
    }
    assert_eq!(seats.count(), 90);
    held[0].set_busy(true);
    // The oldest network of those with three seats: its first is busy, its second is displaced.
    let late = enter(&seats, ip(201, 1)).unwrap();
    assert!(is_displaced(&mut held[30]) && !is_displaced(&mut held[0]));
    // 50 more come, each from another group: the single seat is kept.
    let more: Vec<Seat> = (100..150).filter_map(|n| enter(&seats, ip(n, 1))).collect();
    assert_eq!((more.len(), seats.count()), (50, 90));
    assert!(!is_displaced(&mut single));
    drop((late, more));
}

#[test]
fn groups_of_networks_displace_themselves() {
    let seats = Arc::<Seats>::default();
    let mut well: Vec<Seat> = (0..10).filter_map(|n| enter(&seats, ip(n, 7))).collect();
    // A thousand addresses of one /24 and as many /64s of one /48, with a seat each.
    let six = |n: u16| IpAddr::from([0x2001, 0xdb8, 1, n, 0, 0, 0, 1]);
    let mut hostile = Vec::new();
    for n in 0..1_000 {
        hostile.extend(enter(&seats, ip(99, (n % 250) as u8)));
        hostile.extend(enter(&seats, six(n)));
    }
    assert!(well.iter_mut().all(|seat| !is_displaced(seat)));
    // A hundred other clients all get a seat.
    for n in 100..200 {
        assert!(enter(&seats, ip(n, 1)).is_some());
    }
}

#[test]
fn the_last_tenth_and_the_proven_are_not_for_strangers() {
    let seats = Arc::<Seats>::default();
    let all = SeatLimits { all: 20, network: 100 };
    let proven: Vec<Seat> =
        (0..9).filter_map(|n| seats.enter(0, ip(n, 1), Rank::Proven, all)).collect();
    let mut strangers: Vec<Seat> =
        (0..9).filter_map(|n| seats.enter(0, ip(50, n), Rank::Unproven, all)).collect();
    assert_eq!((proven.len(), strangers.len()), (9, 9));
    let first = seats.enter(0, ip(60, 1), Rank::Proven, all);
    assert!(first.is_some() && is_displaced(&mut strangers[0]));
    let mut users: Vec<Seat> =
        (0..2).filter_map(|_| seats.enter(0, ip(61, 1), Rank::Privileged, all)).collect();
    assert_eq!((users.len(), seats.count()), (2, 20));
    strangers.clear();
    let mut rest: Vec<Seat> =
        (0..8).filter_map(|n| seats.enter(0, ip(70 + n, 1), Rank::Privileged, all)).collect();
    assert_eq!(rest.len(), 8);
    assert!(seats.enter(0, ip(90, 1), Rank::Unproven, all).is_none(), "nobody has more than one");
    assert!(users.iter_mut().chain(&mut rest).all(|seat| !is_displaced(seat)));
    drop((proven, first));
}

#[test]
fn raised_places_are_counted_as_what_they_are() {
    let seats = Arc::<Seats>::default();
    let all = SeatLimits { all: 10, network: 100 };
    let mut held: Vec<Seat> =
        (0..9).filter_map(|n| seats.enter(0, ip(n, 1), Rank::Unproven, all)).collect();
    held[0].set_rank(Rank::Proven);
    held[1].set_rank(Rank::Privileged);
    assert_eq!(seats.make_room(0, ip(50, 1), Rank::Unproven, false), Some((0, ip(2, 1))));
    assert!(is_displaced(&mut held[2]) && !held[2].leave(), "another has it");
    assert!(held[3].leave() && !held[3].leave());
    assert_eq!(seats.count(), 7);
}
