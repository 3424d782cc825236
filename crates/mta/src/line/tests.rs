use super::*;
use Standing::{Doubtful, Good, Unknown};
use std::task::Waker;

fn poll(waiting: &mut InLine) -> Option<Permit> {
    match Pin::new(waiting).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(permit) => Some(permit),
        Poll::Pending => None,
    }
}

fn take(line: &Arc<Line>, who: u32, standing: Standing) -> Option<Permit> {
    poll(&mut line.join(Who::new(0, who), standing, 1))
}

#[test]
fn everybody_has_one_before_anybody_has_a_second() {
    let line = Line::new(Parts::equal(3));
    let mut held: Vec<_> = (0..3).filter_map(|_| take(&line, 1, Good)).collect();
    assert_eq!(held.len(), 3);
    let mut fourth = line.join(Who::new(0, 1), Good, 1);
    let mut others: Vec<_> = (2..5).map(|who| line.join(Who::new(0, who), Good, 1)).collect();
    assert_eq!(line.place(Who::new(0, 1)), Some(Place { before: 3, waiting: 4 }));
    assert_eq!(line.place(Who::new(0, 3)), Some(Place { before: 1, waiting: 4 }));
    held.pop();
    assert!(poll(&mut fourth).is_none(), "it has two, the others none");
    let first = poll(&mut others[0]).expect("came first");
    assert!(poll(&mut others[1]).is_none());
    held.pop();
    let second = poll(&mut others[1]).expect("its turn");
    // One who gives up leaves no gap.
    let third = others.pop();
    drop(third);
    drop(first);
    assert!(poll(&mut fourth).is_some());
    drop((second, held, others));
    assert_eq!((line.used(), line.waiting()), (0, 0));
    assert!(line.lock().groups.is_empty(), "nobody is remembered");
}

#[test]
fn the_doubtful_and_the_unknown_leave_some_for_the_good() {
    let parts = Parts { max: 8, unproven_max: 4, doubtful_max: 1 };
    let line = Line::new(parts);
    let doubtful = take(&line, 1, Doubtful).expect("one may");
    assert!(take(&line, 2, Doubtful).is_none());
    let mut unknown: Vec<_> = (3..8).filter_map(|who| take(&line, who, Unknown)).collect();
    assert_eq!(unknown.len(), 3);
    let mut waits = line.join(Who::new(0, 9), Unknown, 1);
    let good: Vec<_> = (0..4).filter_map(|_| take(&line, 20, Good)).collect();
    assert_eq!(good.len(), 4);
    assert!(poll(&mut waits).is_none());
    // Proven, one does not count with the unknown any more; but all are taken.
    unknown[0].prove();
    assert!(poll(&mut waits).is_none());
    drop(good);
    assert!(poll(&mut waits).is_some());
    drop((doubtful, unknown, waits));
    assert_eq!(line.lock().unproven, 0);
}

#[test]
fn a_second_of_somebody_unknown_leaves_room_for_the_first_of_others() {
    let line = Line::new(Parts { max: 100, unproven_max: 8, doubtful_max: 8 });
    let tarpits = (0..30).map(|n| n / 10);
    let held: Vec<_> = tarpits.filter_map(|who| take(&line, who, Unknown)).collect();
    assert!(held.len() <= 6, "{}", held.len());
    let mut newcomer = take(&line, 50, Unknown).expect("at once");
    newcomer.prove();
    assert!((0..20).all(|_| take(&line, 50, Good).is_some()));
}

#[test]
fn who_has_much_lets_go_for_who_has_nothing() {
    let line = Line::new(Parts::equal(4));
    let mut held: Vec<_> = (0..4).filter_map(|_| take(&line, 1, Good)).collect();
    assert!(!held[0].must_go(), "nobody waits");
    let mut waits = line.join(Who::new(0, 2), Good, 1);
    assert!(held[0].must_go());
    assert!(!held[1].must_go(), "one is enough");
    held.remove(0);
    let mut other = poll(&mut waits).expect("its turn");
    assert!(!other.must_go());
    let mut third = line.join(Who::new(0, 2), Good, 1);
    assert!(held[0].must_go(), "three against one");
    held.remove(0);
    let _third = poll(&mut third).expect("two each");
    let _fourth = line.join(Who::new(0, 2), Good, 1);
    assert!(!held[0].must_go(), "it would be one against three");
}

#[test]
fn who_is_idle_goes_when_four_fifths_are_taken() {
    let line = Line::new(Parts::equal(10));
    let mut held: Vec<_> = (0..8).filter_map(|who| take(&line, who, Good)).collect();
    let cx = &mut Context::from_waker(Waker::noop());
    assert!(!line.is_tight() && !held[0].should_go());
    assert!(line.poll_tight(cx).is_pending());
    held.extend(take(&line, 9, Good));
    assert!(line.poll_tight(cx).is_ready());
    assert!(held[0].should_go());
    assert!(!held[1].should_go(), "one is enough");
    held[0].stay();
    assert!(held[1].should_go(), "unless it stays");
}

#[test]
fn what_is_larger_than_all_there_is_has_its_turn_alone() {
    let line = Line::new(Parts::equal(10));
    let mut large = poll(&mut line.join(Who::new(0, 1), Good, 50)).expect("alone");
    let mut small = line.join(Who::new(0, 2), Good, 1);
    assert!(poll(&mut small).is_none());
    large.shrink(4);
    assert!(poll(&mut small).is_some());
    let mut large = line.join(Who::new(0, 3), Good, 50);
    assert!(poll(&mut large).is_none());
    assert!(take(&line, 4, Good).is_none(), "and nobody passes it");
}
