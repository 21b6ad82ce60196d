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
    /// What the driver needs from it: the time `now`, how many `arguments` are the driver's, and the `spare_life` of a
    /// key in milliseconds.
    const fn lua(self) -> &'static str {
        match self {
            Self::Server => {
                "local time = redis.call('TIME')\n\
                 local now, arguments, spare_life = time[1] * 1000000 + time[2], #ARGV, 0\n"
            }
            // The server still forgets keys by its own clock, which must not come into it.
            Self::Argument => {
                "local now, arguments, spare_life = tonumber(ARGV[#ARGV]), #ARGV - 1, 3600000\n"
            }
        }
    }
}

/// The script that decides calls of a rule of this strategy; driver.lua says what goes in and comes out.
pub(crate) fn source(strategy: Strategy, clock: ScriptClock) -> String {
    [clock.lua(), strategy.lua(), include_str!("driver.lua")].join("\n")
}

/// What follows the keys: the terms of every quota, then the cost and the longest wait (in microseconds) of every call.
///
/// Numbers are cut to what a script computes exactly.
pub(crate) fn arguments(
    terms: &[Terms],
    calls: impl IntoIterator<Item = (u64, u64)>,
) -> impl Iterator<Item = u64> {
    let terms = terms.iter().flat_map(|terms| [terms.permits, terms.window, terms.capacity, terms.sample]);
    let calls = calls
        .into_iter()
        .flat_map(|(cost, longest_wait)| [cost.min(Terms::MOST_PERMITS), longest_wait.min(LONGEST_WAIT)]);
    terms.chain(calls)
}

/// 35 years in microseconds: no call waits longer.
pub(crate) const LONGEST_WAIT: u64 = 1 << 50;
