//! Contenders that take turns, so that noise hits them alike.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Whose call it is.
pub(crate) struct Key {
    pub(crate) id: u64,
    pub(crate) name: String,
}

/// Makes one call for each key.
type Turn<'a> = Box<dyn Fn(&[Key]) + 'a>;

pub(crate) struct Contender<'a> {
    name: &'static str,
    turn: Turn<'a>,
}

impl<'a> Contender<'a> {
    pub(crate) fn by_id<T>(name: &'static str, call: impl Fn(u64) -> T + 'a) -> Self {
        Self::new(name, move |key| call(key.id))
    }

    pub(crate) fn by_name<T>(name: &'static str, call: impl Fn(&String) -> T + 'a) -> Self {
        Self::new(name, move |key| call(&key.name))
    }

    /// The loop is compiled together with the call, as it would be in a program.
    fn new<T>(name: &'static str, call: impl Fn(&Key) -> T + 'a) -> Self {
        let turn = move |keys: &[Key]| {
            for key in keys {
                black_box(call(key));
            }
        };
        Self { name, turn: Box::new(turn) }
    }
}

/// What the contenders are asked to do.
#[derive(Clone, Copy)]
pub(crate) struct Workload {
    /// How many keys there are. All are known before the first round.
    pub(crate) keys: u64,
    pub(crate) name: fn(u64) -> String,
    pub(crate) rounds: usize,
    /// In each round, by each contender.
    pub(crate) calls: usize,
}

/// How a contender fared beside the first of them.
#[derive(Clone, Copy)]
pub(crate) struct Figure {
    pub(crate) contender: &'static str,
    /// For one call: the median of all rounds.
    pub(crate) nanos: f64,
    /// To the first contender in the same round: the median of all rounds.
    pub(crate) ratio: f64,
    /// More nanoseconds than the first contender in the same round: the median of all rounds.
    pub(crate) more: f64,
}

impl Workload {
    /// Makes all keys known, from those that already are.
    pub(crate) fn fill(&self, known: u64, contenders: &[Contender<'_>]) {
        const AT_ONCE: u64 = 100_000;
        let mut next = known;
        while next < self.keys {
            let some: Vec<Key> = (next..self.keys.min(next + AT_ONCE)).map(|id| self.key(id)).collect();
            for contender in contenders {
                (contender.turn)(&some);
            }
            next += AT_ONCE;
        }
    }

    /// Lets the contenders take turns. The first is the one that the others are compared with.
    pub(crate) fn compare(&self, contenders: &[Contender<'_>]) -> Vec<Figure> {
        let mut times = vec![Vec::with_capacity(self.rounds); contenders.len()];
        for round in 0..=self.rounds {
            for turn in 0..contenders.len() {
                // Whoever is first, and whose caches one finds, changes from round to round.
                let place = if round.is_multiple_of(2) { turn } else { contenders.len() - 1 - turn };
                let place = (place + round) % contenders.len();
                let nanos = self.turn(round, &contenders[place]);
                // The first round only warms up.
                if round > 0 {
                    times[place].push(nanos);
                }
            }
        }
        let figure = |contender: &Contender<'_>, own: &Vec<f64>| Figure {
            contender: contender.name,
            nanos: median(own.iter().copied()),
            ratio: median(own.iter().zip(&times[0]).map(|(own, first)| own / first)),
            more: median(own.iter().zip(&times[0]).map(|(own, first)| own - first)),
        };
        contenders.iter().zip(&times).map(|(contender, own)| figure(contender, own)).collect()
    }

    /// Nanoseconds for one call, with keys that are the same for all in a round.
    fn turn(&self, round: usize, contender: &Contender<'_>) -> f64 {
        /// A few at a time, made while the clock stands: a key that was just read from a request is in the cache.
        const AT_ONCE: usize = 128;
        let mut random = Random(round as u64);
        let mut time = Duration::ZERO;
        let steps = self.calls / AT_ONCE;
        // Before that, as many again: by then the caches have the keys again that others drove out.
        for step in 0..2 * steps {
            let keys: [Key; AT_ONCE] = std::array::from_fn(|_| self.key(random.below(self.keys)));
            let start = Instant::now();
            (contender.turn)(&keys);
            if step >= steps {
                time += start.elapsed();
            }
        }
        time.as_secs_f64() * 1e9 / float(steps * AT_ONCE)
    }

    fn key(&self, id: u64) -> Key {
        Key { id, name: (self.name)(id) }
    }
}

/// For contenders that do not go by name.
pub(crate) fn nameless(_: u64) -> String {
    String::new()
}

pub(crate) fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

#[expect(clippy::cast_precision_loss, reason = "no number of calls here is that large")]
pub(crate) fn float(number: usize) -> f64 {
    number as f64
}

/// The same keys in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}
