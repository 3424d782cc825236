//! Something that runs beside the shards, and a list of such. Another configuration is prepared by all of them first, which may fail and
//! changes nothing that is in force; then all adopt it, which can't fail.

use config::{Config, ConfigErrors, Problem};
use mta::event::EventSink;
use mta::metrics::MetricSet;
use std::sync::Arc;

/// A configuration that is to be put in force.
pub(crate) struct CandidateConfig<'a> {
    pub(crate) config: &'a Arc<Config>,
    /// Called with what is read.
    pub(crate) progress: &'a dyn Fn(&str),
    /// Nothing is to be started, bound or asked for it: files are read alone.
    pub(crate) is_check: bool,
    /// What the shaping files know is known.
    pub(crate) is_shaped: bool,
}

/// A configuration with everything prepared for it.
pub(crate) struct Prepared {
    pub(crate) config: Arc<Config>,
    pub(super) adoptions: Vec<Adoption>,
}

impl Prepared {
    /// Puts it in force.
    pub(crate) fn adopt(self) -> Arc<Config> {
        self.adoptions.into_iter().for_each(|adopt| adopt());
        self.config
    }
}

/// Puts a prepared configuration in force for one service. Dropped instead, it leaves everything as it was.
pub(crate) type Adoption = Box<dyn FnOnce() + Send>;

/// What a service does that has nothing to put in force.
pub(crate) fn nothing_to_adopt() -> Adoption {
    Box::new(|| ())
}

/// Takes events of a shard, on its thread.
pub(crate) type EventTaker = Arc<dyn EventSink + Send + Sync>;

/// Something that runs beside the shards and follows the configuration.
pub(crate) trait Service: Send + Sync {
    /// What it reads or is, for those that wait for it.
    fn name(&self) -> &'static str;

    /// Reads the files that the configuration names, and starts the threads that it needs.
    ///
    /// # Errors
    /// All mistakes, each with its place.
    fn prepare(&self, next: &CandidateConfig<'_>) -> Result<Adoption, Vec<Problem>>;

    /// What it counts.
    fn metrics(&self) -> Option<Arc<dyn MetricSet>> {
        None
    }

    /// What takes the events of this shard for it. Asked for once, before the shard starts: where a reload may turn it
    /// on, it is there, and off ([`EventSink::is_on`]) until then.
    fn events(&self, _shard: u16) -> Option<EventTaker> {
        None
    }

    /// Writes what is not written yet, before the process ends. May hang with its disk.
    fn finish(&self) {}
}

/// All services, in the order in which they adopt a configuration.
#[derive(Default)]
pub(crate) struct Services(Vec<Box<dyn Service>>);

impl Services {
    /// Adds one behind the others.
    pub(crate) fn with(mut self, service: impl Service + 'static) -> Services {
        self.0.push(Box::new(service));
        self
    }

    /// Adds others behind these.
    pub(crate) fn and(mut self, others: Services) -> Services {
        self.0.extend(others.0);
        self
    }

    /// Puts a configuration in force that is in force elsewhere already.
    ///
    /// # Errors
    /// All mistakes.
    pub(crate) fn start(
        &self,
        config: &Arc<Config>,
        progress: &dyn Fn(&str),
    ) -> Result<(), ConfigErrors> {
        let next = CandidateConfig { config, progress, is_check: false, is_shaped: true };
        let adoptions = self.prepare(&next).map_err(|mistakes| config.errors(mistakes))?;
        adoptions.into_iter().for_each(|adopt| adopt());
        Ok(())
    }

    /// Has all of them prepare a configuration. What is wrong with the files of one is found beside what is wrong
    /// with those of others.
    ///
    /// # Errors
    /// All mistakes. Nothing has changed then.
    pub(super) fn prepare(
        &self,
        next: &CandidateConfig<'_>,
    ) -> Result<Vec<Adoption>, Vec<Problem>> {
        let (mut adoptions, mut mistakes) = (Vec::new(), Vec::new());
        for service in &self.0 {
            (next.progress)(service.name());
            match service.prepare(next) {
                Ok(adoption) => adoptions.push(adoption),
                Err(found) => mistakes.extend(found),
            }
        }
        if mistakes.is_empty() { Ok(adoptions) } else { Err(mistakes) }
    }

    /// What they count.
    pub(crate) fn metrics(&self) -> Vec<Arc<dyn MetricSet>> {
        self.0.iter().filter_map(|service| service.metrics()).collect()
    }

    /// What takes the events of a shard.
    pub(crate) fn events(&self, shard: u16) -> impl Iterator<Item = EventTaker> {
        self.0.iter().filter_map(move |service| service.events(shard))
    }

    /// Writes what is not written yet, in turn.
    pub(crate) fn finish(&self) {
        self.0.iter().for_each(|service| service.finish());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Follows configurations, unless it can't.
    struct Follower {
        name: &'static str,
        adopted: Arc<Mutex<Vec<&'static str>>>,
        is_able: bool,
    }

    impl Service for Follower {
        fn name(&self) -> &'static str {
            self.name
        }

        fn prepare(&self, next: &CandidateConfig<'_>) -> Result<Adoption, Vec<Problem>> {
            let (adopted, name) = (Arc::clone(&self.adopted), self.name);
            match self.is_able {
                true => Ok(Box::new(move || adopted.lock().unwrap().push(name))),
                false => Err(["no", "nor this"]
                    .map(|why| next.config.mistake_at("spool", format!("{name}: {why}")))
                    .to_vec()),
            }
        }
    }

    #[test]
    fn one_that_cannot_prepare_keeps_all_from_adopting() {
        let text = "[[listener]]\naddress = \"127.0.0.1:2525\"\n[[route]]\ndiscard = {}\n";
        let config = Arc::new(channels::sections().parse(text, "test.toml").unwrap());
        let names = ["a", "b", "c"];
        for able in [[true, true, false], [false, true, true], [false, true, false], [true; 3]] {
            let adopted = Arc::<Mutex<Vec<_>>>::default();
            let follower = |(name, is_able)| {
                let adopted = Arc::clone(&adopted);
                Follower { name, adopted, is_able }
            };
            let all = names.into_iter().zip(able).map(follower);
            let services = all.fold(Services::default(), Services::with);
            let unable = names.into_iter().zip(able).filter(|(_, is_able)| !is_able);
            let expected: Vec<_> = unable
                .flat_map(|(name, _)| [format!("{name}: no"), format!("{name}: nor this")])
                .collect();
            match services.start(&config, &|_| ()) {
                Ok(()) => assert_eq!(*adopted.lock().unwrap(), names),
                Err(mistakes) => {
                    let found = mistakes.problems().iter().map(|found| found.message.clone());
                    assert_eq!(found.collect::<Vec<_>>(), expected);
                    assert!(adopted.lock().unwrap().is_empty());
                }
            }
            assert_eq!(adopted.lock().unwrap().is_empty(), able != [true; 3]);
        }
    }
}
