use super::super::rules::tests::{rules, words_of};
use super::*;
use config::shaping::Action;
use std::sync::Arc;

const TEXT: &str = "[provider.big]\nbackoff = { max_connections = 1 }\n\
    [[provider.big.rule]]\nname = \"slow\"\nmatch = \"slow\"\nafter = \"3 in 10m\"\naction = \"backoff\"\nlasts = \"40m\"\n\
    [[provider.big.rule]]\nname = \"few\"\nmatch = \"few\"\naction = { set = { max_connections = 2 } }\nlasts = \"1h\"\n\
    until_delivered = 5\n\
    [[default.rule]]\nname = \"hop\"\nmatch = \"hop\"\naction = { set = { max_connections = 1 } }\nlasts = \"1h\"\n\
    [[provider.big.rule]]\nname = \"stop\"\nmatch = \"stop\"\naction = \"suspend\"\nlasts = \"13h\"\n";

const MINUTE: u64 = 60_000;
/// More than an hour later.
const TOLD_NO_MORE: Wall = Wall(61 * MINUTE);

struct World {
    rules: Rules,
    book: ShapingLedger,
}

impl World {
    fn new() -> World {
        World { rules: rules(TEXT).unwrap(), book: ShapingLedger::default() }
    }

    fn rule(&self, name: &str) -> Arc<Rule> {
        Arc::clone(self.rules.named(Some("big"), name).unwrap())
    }

    fn hear(&mut self, minute: u64, rule: &str, source: &str) -> bool {
        let rule = self.rule(rule);
        let words = words_of("mx.big.test", "421 4.7.0 slow");
        let heard = (Origin { next_hop: "mx:big", domain: None }, &words);
        self.book.hear(Wall(minute * MINUTE), &rule, &key(&rule.name, source), heard)
    }

    /// Rule, step, minute of the end and returned quarters of each effect in force.
    fn in_force(&self) -> Vec<(&str, u16, u64, u8)> {
        let in_force = self.book.effects().filter(|effect| effect.is_in_force());
        in_force.map(|e| (&*e.rule, e.step, e.until.0 / MINUTE, e.returned)).collect()
    }

    fn advance(&mut self, minute: u64) -> Option<u64> {
        let (_, next) = self.book.advance(Wall(minute * MINUTE));
        next.map(|next| next.0 / MINUTE)
    }
}

fn key(rule: &str, source: &str) -> EffectKey {
    EffectKey {
        rule: rule.to_owned(),
        provider: Some("big".to_owned()),
        next_hop: None,
        source: Some(source.to_owned()),
        tenant: None,
        campaign: None,
    }
}

#[test]
fn hits_count_within_their_time_and_for_each_source_alone() {
    let mut world = World::new();
    assert!(!world.hear(0, "slow", "ip-1") && !world.hear(1, "slow", "ip-1"));
    assert!(!world.hear(2, "slow", "ip-2") && !world.hear(3, "slow", "ip-2"));
    assert!(!world.hear(11, "slow", "ip-1"), "the first is too long ago");
    assert!(world.hear(11, "slow", "ip-1"));
    assert_eq!(world.in_force(), [("slow", 1, 51, 0)]);
    assert!(world.hear(12, "few", "ip-1"), "at once");
    assert_eq!(world.in_force(), [("few", 1, 72, 0), ("slow", 1, 51, 0)]);
    let news = world.book.take_news();
    assert!(
        matches!(&news[..], [News::Began(slow), News::Began(few)] if slow.rule == "slow" && few.rule == "few")
    );
    assert_eq!(news.len() + world.book.take_news().len(), 2);
}

#[test]
fn what_comes_again_lasts_twice_as_long_and_a_day_at_most() {
    let mut world = World::new();
    assert!(world.hear(0, "stop", "ip-1"));
    assert!(!world.hear(3 * 60, "stop", "ip-1"), "the first quarter is of the same trouble");
    // While it is in force.
    assert!(world.hear(4 * 60, "stop", "ip-1"));
    assert_eq!(world.in_force(), [("stop", 2, (4 + 24) * 60, 0)], "26 hours are too many");
    // Soon after its end.
    let _ = world.advance(28 * 60);
    assert_eq!(world.in_force(), []);
    assert!(world.hear(30 * 60, "stop", "ip-1"));
    assert_eq!(world.in_force(), [("stop", 3, 54 * 60, 0)]);
    // Long after.
    assert!(world.hear(79 * 60, "stop", "ip-1"));
    assert_eq!(world.in_force(), [("stop", 1, (79 + 13) * 60, 0)]);
    let began: Vec<u16> = world
        .book
        .take_news()
        .into_iter()
        .filter_map(|news| if let News::Began(effect) = news { Some(effect.step) } else { None })
        .collect();
    assert_eq!(began, [1, 2, 3, 1]);
    assert_eq!(doubled(Duration::from_secs(1), u16::MAX), LASTS_MAX);
}

#[test]
fn limits_return_in_steps_and_what_is_over_is_remembered_for_a_while() {
    let mut world = World::new();
    (0..3).for_each(|_| _ = world.hear(0, "slow", "ip-1"));
    for (minute, returned, next) in [(0, 0, 40), (39, 0, 40), (40, 1, 50), (50, 2, 60), (65, 3, 70)]
    {
        assert_eq!(world.advance(minute), Some(next));
        assert_eq!(world.in_force(), [("slow", 1, 40, returned)], "{minute}");
    }
    assert_eq!(world.advance(70), Some(80), "forgotten then");
    assert_eq!(world.in_force(), []);
    assert!(matches!(world.book.take_news().last(), Some(News::Ended(_, Over::Time))));
    assert_eq!(world.book.effects().count(), 1);
    assert_eq!(world.advance(80), None);
    assert_eq!(world.book.effects().count(), 0);
    // It matches again while the limits return: the full effect resumes at once.
    (0..3).for_each(|_| _ = world.hear(100, "slow", "ip-1"));
    let _ = world.advance(145);
    assert_eq!(world.in_force(), [("slow", 1, 140, 1)]);
    (0..3).for_each(|_| _ = world.hear(146, "slow", "ip-1"));
    assert_eq!(world.in_force(), [("slow", 2, 226, 0)]);
}

#[test]
fn enough_deliveries_end_it() {
    let mut world = World::new();
    assert!(world.hear(0, "few", "ip-1") && world.hear(0, "stop", "ip-1"));
    let to = |source| (Some("big"), "", source);
    assert!(!world.book.deliver(Wall(1), to("ip-2"), 9), "from another source");
    assert!(!world.book.deliver(Wall(1), (Some("other"), "", "ip-1"), 9));
    assert!(!world.book.deliver(Wall(1), to("ip-1"), 4));
    assert!(world.book.deliver(Wall(MINUTE), to("ip-1"), 4));
    assert_eq!(world.in_force(), [("stop", 1, 13 * 60, 0)]);
    assert!(matches!(world.book.take_news().last(), Some(News::Ended(_, Over::Delivered))));
    assert!(world.hear(30, "few", "ip-1"));
    assert_eq!(world.in_force()[0], ("few", 2, 150, 0), "it is remembered");
}

#[test]
fn what_is_lifted_or_has_no_rule_any_more_is_forgotten() {
    let mut world = World::new();
    assert!(world.hear(0, "stop", "ip-1") && world.hear(0, "stop", "ip-2"));
    let lift = Lift { source: Some("ip-1".to_owned()), ..Lift::default() };
    assert_eq!((world.book.lift(&lift), world.book.lift(&lift)), (1, 0));
    assert_eq!(world.in_force(), [("stop", 1, 13 * 60, 0)]);
    assert!(matches!(world.book.take_news().last(), Some(News::Ended(_, Over::Lifted))));
    assert!(world.hear(1, "stop", "ip-1"), "as if for the first time");
    assert_eq!(world.in_force()[0].1, 1);
    let same = rules(TEXT).unwrap();
    assert_eq!(world.book.keep_to(&same), 0);
    let other = rules(&TEXT.replace("\"suspend\"", "\"backoff\"")).unwrap();
    assert_eq!(world.book.keep_to(&other), 2);
    assert!(matches!(world.book.take_news().last(), Some(News::Ended(_, Over::Rule))));
    assert_eq!(world.book.effects().count(), 0);
}

#[test]
fn effects_outlive_the_process_as_text() {
    let mut world = World::new();
    (0..3).for_each(|_| _ = world.hear(0, "slow", "ip-1"));
    assert!(world.hear(0, "few", ""));
    let kept: Vec<Effect> = world.book.effects().cloned().collect();
    let text = serde_json::to_string(&kept).unwrap();
    let mut again = World::new();
    again.book.restore(serde_json::from_str(&text).unwrap());
    assert_eq!(again.book.effects().cloned().collect::<Vec<_>>(), kept);
    assert!(again.hear(20, "few", ""));
    assert_eq!(again.in_force()[0], ("few", 2, 140, 0));
    assert_eq!(kept[0].action, Action::Set);
}

#[test]
fn there_is_a_limit_on_what_is_counted_and_what_is_in_force() {
    let mut world = World::new();
    for n in 0..=COUNTS_MAX {
        assert!(!world.hear(0, "slow", &format!("ip-{n}")));
    }
    assert_eq!(world.book.heard.len(), COUNTS_MAX);
    for n in 0..EFFECTS_MAX {
        assert!(world.hear(0, "stop", &format!("ip-{n}")));
    }
    assert!(world.hear(0, "stop", "one more"), "that is told");
    assert!(!world.hear(0, "stop", "another"), "once");
    assert!(world.book.lacked_room(Wall(0)) && !world.book.lacked_room(TOLD_NO_MORE));
    assert_eq!(world.book.effects().count(), EFFECTS_MAX);
    let news = world.book.take_news();
    assert_eq!(news.len(), NEWS_MAX);
    let too_many = news.iter().filter(|news| matches!(news, News::TooMany(_))).count();
    assert_eq!(too_many, 1);
    assert!(world.hear(13 * 60, "stop", "ip-0"), "what is known comes again all the same");
}

/// A match of a rule about a next hop without provider.
fn hear_hop(world: &mut World, minute: u64, host: &str) -> bool {
    let rule = Arc::clone(world.rules.named(None, "hop").unwrap());
    let peer: &'static str = Box::leak(host.to_owned().into_boxed_str());
    let words = words_of(peer, "450 hop");
    let key = EffectKey { provider: None, next_hop: Some(host.to_owned()), ..key("hop", "") };
    let from = Origin { next_hop: host, domain: Some(Owner::named("domain", host)) };
    world.book.hear(Wall(minute * MINUTE), &rule, &key, (from, &words))
}

#[test]
fn next_hops_that_are_nobodys_leave_room_for_providers_and_each_other() {
    let mut world = World::new();
    for n in 0..2 * EFFECTS_MAX {
        hear_hop(&mut world, 0, &format!("h{n}.wild.test"));
    }
    assert_eq!(world.book.effects().count(), ZONE_MAX, "of one zone");
    for n in 0..2 * EFFECTS_MAX {
        hear_hop(&mut world, 0, &format!("mx.wild{n}.test"));
    }
    assert_eq!(world.book.effects().count(), HOPS_MAX, "of a thousand zones");
    assert!(world.book.lacked_room(Wall(0)));
    for n in 0..EFFECTS_MAX {
        assert!(world.hear(0, "stop", &format!("ip-{n}")), "a provider's rule has an effect");
    }
    assert_eq!(world.book.effects().count(), EFFECTS_MAX);
    assert!(world.book.effects().all(|effect| effect.provider.is_some()));
}

#[test]
fn what_is_only_remembered_goes_first() {
    let mut world = World::new();
    for n in 0..ZONE_MAX {
        assert!(hear_hop(&mut world, n as u64 / 100, &format!("h{n}.wild.test")));
    }
    // The last quarter of an hour's limits has returned after another three quarters of an hour.
    let _ = world.advance(108);
    assert_eq!(world.in_force().len(), 0);
    assert_eq!(world.book.effects().count(), ZONE_MAX, "for another while");
    assert!(hear_hop(&mut world, 108, "new.wild.test"));
    assert_eq!(world.book.effects().count(), ZONE_MAX);
    assert!(world.book.effects().all(|effect| effect.next_hop.as_deref() != Some("h0.wild.test")));
}

/// Mail for a domain is rejected with this reply, by its own next hop.
fn hear_of(world: &mut World, minute: u64, rule: &str, domain: &str) -> bool {
    let rule = world.rule(rule);
    let words = words_of("mx.big.test", "421 slow");
    let from = Origin { next_hop: domain, domain: Some(Owner::named("domain", domain)) };
    world.book.hear(Wall(minute * MINUTE), &rule, &key(&rule.name, ""), (from, &words))
}

#[test]
fn a_provider_is_concerned_when_more_than_one_of_its_domains_is() {
    let mut world = World::new();
    for _ in 0..3 {
        hear_of(&mut world, 0, "slow", "one.test");
    }
    assert!(hear_of(&mut world, 0, "stop", "one.test"));
    let hops = |world: &World| -> Vec<Option<String>> {
        world.book.effects().map(|effect| effect.next_hop.clone()).collect()
    };
    let one = Some("one.test".to_owned());
    assert_eq!(hops(&world), [one.clone(), one.clone()], "the next hop of that domain alone");
    let effect = world.book.effects().next().unwrap();
    assert!(effect.covers(Some("big"), "one.test", "") && !effect.covers(Some("big"), "other", ""));
    assert!(!hear_of(&mut world, 1, "stop", "one.test"), "the same trouble");
    // Replies to another domain's mail are added to the earlier matches.
    assert!(hear_of(&mut world, 2, "slow", "two.test"));
    assert!(hear_of(&mut world, 2, "stop", "two.test"));
    let wide = world.book.effects().filter(|effect| effect.next_hop.is_none());
    assert_eq!(wide.map(|effect| &*effect.rule).collect::<Vec<_>>(), ["slow", "stop"]);
}
