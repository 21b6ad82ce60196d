//! The scripts that decide on a server, put together from the Lua twins of the rooms.

use super::{Strategy, Terms};

/// Where a script takes the time from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScriptClock {
    /// The server's own clock.
    Server,
    /// The last argument, in microseconds: tests tell the time.
    Argument,
}

impl ScriptClock {
    /// What the driver needs from it: the `time`, and in milliseconds the `spare_life` of a key, and a `margin` that
    /// nobody counts on, so that no key is forgotten early.
    const fn lua(self) -> &'static str {
        match self {
            Self::Server => {
                "local time = redis.call('TIME')\n\
                 time = time[1] * 1000000 + time[2]\n\
                 local spare_life, margin = 1000, 1\n"
            }
            // The server still forgets keys by its own clock, which must not come into it.
            Self::Argument => "local time, spare_life, margin = ARGV[2] + 0, 1000, 3600001\n",
        }
    }
}

/// The script that decides calls of a rule of this strategy; driver.lua says what goes in and comes out.
pub(crate) fn source(strategy: Strategy, clock: ScriptClock) -> String {
    [clock.lua(), strategy.lua(), include_str!("driver.lua")].join("\n")
}

/// How many keys of one rule a script can decide on.
pub(crate) const fn most_keys(strategy: Strategy) -> usize {
    match strategy {
        // What is wrong with a log may come to light when another was written already.
        Strategy::SlidingLog => 1,
        // More would save little more, and keep others waiting.
        _ => 16,
    }
}

/// The argument of a script, number by number; driver.lua says which.
///
/// Numbers are cut to what a script computes exactly.
pub(crate) struct Argument(Vec<u8>);

impl Argument {
    /// For so many keys, under a rule with these quotas.
    pub(crate) fn new(keys: usize, quotas: &[Terms]) -> Self {
        let mut argument = Self(Vec::with_capacity(8 * (1 + 4 * quotas.len() + 4 * keys)));
        argument.push(keys as u64);
        for terms in quotas {
            for number in [terms.permits, terms.window, terms.capacity, terms.sample] {
                argument.push(number);
            }
        }
        argument
    }

    /// The runs of calls of the next key.
    pub(crate) fn runs(&mut self, count: usize) {
        self.push(count as u64);
    }

    /// So many calls alike, of this cost, which wait so many microseconds at most; or look, waiting a negative time.
    pub(crate) fn run(&mut self, calls: usize, cost: u64, longest_wait: i64) {
        self.push(calls as u64);
        self.push(cost.min(Terms::MOST_PERMITS));
        if longest_wait < 0 {
            self.0.extend((-1.0_f64).to_le_bytes());
        } else {
            self.push(longest_wait.cast_unsigned().min(LONGEST_WAIT));
        }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn push(&mut self, number: u64) {
        #[expect(clippy::cast_precision_loss, reason = "all numbers are below 2^53")]
        self.0.extend((number as f64).to_le_bytes());
    }
}

/// 35 years in microseconds: no call waits longer.
pub(crate) const LONGEST_WAIT: u64 = 1 << 50;
