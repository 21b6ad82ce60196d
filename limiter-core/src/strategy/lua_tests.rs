//! The scripts beside their Rust twins, on a real server: the same decisions, and what only a server can do wrong.

mod server;
mod trace;

use std::time::Duration;

use ::redis::Value;

use self::server::{Script, Server};
use self::trace::{Random, random_calls, random_rule};
use super::lua::{self, LONGEST_WAIT, ScriptClock};
use super::{Strategy, Terms};
use crate::{Quota, Rule};

const SEED: u64 = 1;
const HOUR: u64 = 3_600_000_000;
/// A time of our days, in microseconds.
const TODAY: u64 = 1_790_000_000_000_000;

#[test]
fn fixed_window_decides_as_its_twin() {
    trace::compare(Strategy::FixedWindow);
}

#[test]
fn sliding_window_decides_as_its_twin() {
    trace::compare(Strategy::SlidingWindow);
}

#[test]
fn sliding_log_decides_as_its_twin() {
    trace::compare(Strategy::SlidingLog);
}

#[test]
fn token_bucket_decides_as_its_twin() {
    trace::compare(Strategy::TokenBucket);
}

#[test]
fn leaky_bucket_decides_as_its_twin() {
    trace::compare(Strategy::LeakyBucket);
}

#[test]
fn every_strategy_has_its_traces() {
    assert_eq!(Strategy::ALL.len(), 5, "a new strategy needs a test above");
}

/// Whatever was taken before the step still counts, and after one window, or one full bucket, all is back.
#[test]
fn a_clock_that_steps_back_locks_nobody_out() {
    let server = Server::start();
    for &strategy in Strategy::ALL {
        let rule = rule_of(strategy, &["5/4s"]);
        let mut script = server.script(&rule, "steps back");
        for i in 0..5 {
            assert_eq!(script.ask(TODAY + i * 100_000, &[(1, 0)])[0].verdict, 0, "{strategy}");
        }
        let stepped = TODAY - HOUR;
        let written = script.dump();
        let answers = script.ask(stepped, &[(5, 0), (1, 0)]);
        assert_eq!((answers[0].verdict, answers[1].verdict), (1, 1), "{strategy}: {answers:?}");
        assert!(answers[0].time <= 4_000_000, "{strategy}: locked out for {}", answers[0].time);
        let rewound = script.dump();
        assert_ne!(written, rewound, "{strategy}: the lockout must end, although everything was rejected");
        script.assert_life(answers[0].reset_after);
        script.ask(stepped + 1, &[(5, 0)]);
        assert_eq!(script.dump(), rewound, "{strategy}: it is rewound once");
        let back = stepped + answers[0].time;
        assert_eq!(script.ask(back - 1, &[(5, 0)])[0].verdict, 1, "{strategy}");
        assert_eq!(script.ask(back, &[(5, 0)])[0].verdict, 0, "{strategy}");
    }
}

/// Random calls, some of which wait, by a clock that is stepped back now and then: the promise holds in true time.
#[test]
fn a_clock_that_steps_back_admits_no_more_than_the_limit() {
    let server = Server::start();
    for &strategy in Strategy::ALL {
        let rule = rule_of(strategy, &["5/1s"]);
        let mut calls_admitted = 0;
        for seed in 0..100 {
            let mut random = Random::new(SEED.wrapping_mul(1_000_003) + seed);
            let mut script = server.script(&rule, &format!("promise {seed}"));
            let (mut time, mut clock_is_back) = (TODAY, 0);
            let mut admitted = Vec::new();
            for _ in 0..60 {
                time += random.between(0, 300_000);
                if random.chance(5) {
                    clock_is_back += random.between(1, HOUR);
                }
                let call = (random.between(1, 3), random.one_of(&[0, 0, 500_000, 3_000_000]));
                let answers = script.ask(time - clock_is_back, &[call]);
                if answers[0].verdict == 0 {
                    admitted.push((time + answers[0].time, call.0));
                }
                assert!(answers[0].time <= 4_000_000, "{strategy}, seed {seed}: {answers:?}");
            }
            assert_promise(strategy, script.terms[0], &admitted);
            calls_admitted += admitted.len();
        }
        assert!(calls_admitted > 1_500, "{strategy}: {calls_admitted} show little");
    }
}

#[test]
fn a_clock_that_steps_forward_resets_at_most() {
    let server = Server::start();
    for &strategy in Strategy::ALL {
        let mut script = server.script(&rule_of(strategy, &["5/4s", "100/1000d"]), "steps forward");
        assert_eq!(script.ask(TODAY, &[(5, 0), (1, 0)])[1].verdict, 1, "{strategy}");
        let answers = script.ask(2 * TODAY, &[(5, 0), (1, 0)]);
        assert_eq!((answers[0].verdict, answers[1].verdict), (0, 1), "{strategy}");
    }
}

/// What is no state of ours is an error that says so, and stays what it is.
#[test]
fn foreign_values_are_left_alone() {
    let server = Server::start();
    let mut connection = server.connect();
    let long = "9".repeat(400);
    let strings = [
        "",
        "x",
        "1 2",
        "1 2 3 4",
        "-1 2 3",
        "1 2 3 ",
        " 1 2 3",
        "1 2 3 4 5 6",
        "1 2 0 0 0",
        "1.5 2 3",
        "nan",
    ];
    let mut values: Vec<Vec<String>> = strings.iter().map(|text| set(&["SET", "KEY", text])).collect();
    values.push(set(&["SET", "KEY", &long]));
    values.push(set(&["SET", "KEY", &format!("{long} {long} {long} {long} {long} ")]));
    values.push(set(&["SET", "KEY", &format!("{long} {long} {long}")]));
    values.push(set(&["SET", "KEY", "1 1 1 1 2 not a counter "]));
    values.push(set(&["SADD", "KEY", "1"]));
    values.push(set(&["HSET", "KEY", "1", "1"]));
    values.push(set(&["RPUSH", "KEY", "1"]));
    values.push(set(&["ZADD", "KEY", "1", "somebody"]));
    values.push(set(&["ZADD", "KEY", "1", "1 2 3 4"]));
    for &strategy in Strategy::ALL {
        let rule = rule_of(strategy, &["5/4s", "10/1m"]);
        for value in &values {
            let mut script = server.script(&rule, "foreign");
            for key in script.keys.clone() {
                let mut command = ::redis::Cmd::new();
                for word in value {
                    command.arg(if word == "KEY" { &key } else { word });
                }
                command.query::<Value>(&mut connection).unwrap();
                let before = script.dump();
                let error = script.try_ask(TODAY, &[(1, 0)]).expect_err(&format!("{strategy}: {value:?}"));
                let code = error.code().unwrap_or_default().to_owned();
                assert!(code == "WRONGSTATE" || code == "WRONGTYPE", "{strategy}: {value:?}: {error}");
                assert_eq!(script.dump(), before, "{strategy}: {value:?}");
                ::redis::cmd("DEL").arg(&key).query::<Value>(&mut connection).unwrap();
            }
        }
    }
}

/// Keys of one rule in one script, one of which is somebody else's: each as if it had been alone.
#[test]
fn keys_asked_about_together_are_decided_as_each_alone() {
    let server = Server::start();
    let mut random = Random::new(SEED);
    for &strategy in Strategy::ALL {
        let most = lua::most_keys(strategy);
        for quotas in [&["5/4s"][..], &["3/4s"], &["5/4s", "20/1m"]] {
            let rule = rule_of(strategy, quotas);
            let mut together = server.script(&rule, "together");
            let mut alone: Vec<Script> =
                (0..most).map(|key| server.script(&rule, &format!("alone {key}"))).collect();
            let names: Vec<Vec<String>> = (0..most)
                .map(|key| {
                    (0..quotas.len()).map(|quota| format!("{{{strategy} together {key}}}{quota}")).collect()
                })
                .collect();
            let (mut now, foreign) = (TODAY, most / 2);
            for key in [&names[foreign][quotas.len() - 1], &alone[foreign].keys[quotas.len() - 1]] {
                let value = "somebody else's";
                ::redis::cmd("SET").arg(key).arg(value).query::<Value>(&mut together.connection).unwrap();
            }
            for round in 0..60 {
                now += random.between(0, 500_000);
                // A clock that is stepped back is out of the ordinary for every key.
                now -= if round == 40 { HOUR } else { 0 };
                // One call for each of some keys, or several.
                let several = round % 3 == 0;
                let asked: Vec<usize> = (0..most).filter(|_| random.chance(80)).collect();
                let calls: Vec<Vec<(u64, u64)>> = (asked.iter())
                    .map(|_| if several { random_calls(&mut random, &together.terms) } else { vec![(1, 0)] })
                    .collect();
                if asked.is_empty() {
                    continue;
                }
                let keys: Vec<String> = asked.iter().flat_map(|&key| names[key].clone()).collect();
                let answers = together.try_ask_about(&keys, now, &calls).unwrap();
                for ((&key, calls), answer) in asked.iter().zip(&calls).zip(answers) {
                    let context = format!("{strategy}, {quotas:?}, round {round}, key {key}: {calls:?}");
                    match (answer, alone[key].try_ask(now, calls)) {
                        (Ok(together), Ok(alone)) => assert_eq!(together, alone, "{context}"),
                        (Err(together), Err(alone)) => {
                            assert_eq!((together.code(), key), (alone.code(), foreign), "{context}");
                        }
                        (together, alone) => panic!("{context}: {together:?} and {alone:?}"),
                    }
                }
            }
        }
    }
}

/// A server that may not use more memory refuses, and nothing is lost: not even when a log is replaced.
#[test]
fn without_memory_nothing_is_written() {
    let server = Server::start();
    let mut connection = server.connect();
    let mut limit_memory = |bytes: u64| {
        ::redis::cmd("CONFIG")
            .arg("SET")
            .arg("maxmemory")
            .arg(bytes)
            .query::<Value>(&mut connection)
            .unwrap();
    };
    for &strategy in Strategy::ALL {
        let mut script = server.script(&rule_of(strategy, &["5/4s", "10/1m"]), "memory");
        script.ask(TODAY, &[(1, 0)]);
        let before = script.dump();
        limit_memory(1);
        for now in [TODAY, TODAY + 1, TODAY - HOUR] {
            let error = script.try_ask(now, &[(1, 0), (1, LONGEST_WAIT)]).expect_err("there is no memory");
            assert_eq!(error.code(), Some("OOM"), "{strategy}: {error}");
            assert_eq!(script.dump(), before, "{strategy}");
        }
        limit_memory(0);
        assert_eq!(script.ask(TODAY + 1, &[(4, 0), (1, 0)])[1].verdict, 1, "{strategy}");
    }
}

/// Other quotas over the states of the ones before: no error, and never more than there is.
#[test]
fn a_redeploy_takes_effect() {
    let server = Server::start();
    for &strategy in Strategy::ALL {
        let mut random = Random::new(SEED);
        for i in 0..300 {
            let mut script = server.script(&random_rule(&mut random, strategy), &format!("redeploy {i}"));
            let mut now = TODAY;
            for _ in 0..6 {
                let rule = random_rule(&mut random, strategy);
                script.terms = Terms::in_micros(&rule).iter().copied().take(script.terms.len()).collect();
                script.keys.truncate(script.terms.len());
                now += random.between(0, script.terms[0].window);
                let calls = random_calls(&mut random, &script.terms);
                for answer in script.ask(now, &calls) {
                    assert!(
                        script.terms.iter().all(|terms| answer.remaining <= terms.capacity),
                        "{answer:?}"
                    );
                }
            }
        }
        let mut script = server.script(&rule_of(strategy, &["10/1h"]), "raised");
        assert_eq!(script.ask(TODAY, &[(10, 0)])[0].remaining, 0);
        script.terms = Terms::in_micros(&rule_of(strategy, &["1000/1h"]));
        let answers = script.ask(TODAY, &[(989, 0), (1, 0), (1, 0)]);
        // A bucket rounds up what was taken at the old rate, and so may lack a part of a permit.
        assert_eq!((answers[0].verdict, answers[2].verdict), (0, 1), "{strategy}: {answers:?}");
    }
}

/// One part in a million short of a whole permit, where a double would round it up to one.
#[test]
fn token_bucket_counts_what_doubles_cannot() {
    let server = Server::start();
    let (permits, window, burst, taken) = (999_983, 1_000_000, 1 << 40, 1 << 30);
    let quota = Quota::new(permits, Duration::from_micros(window)).burst(burst);
    let rule = Rule::try_new("rule", Strategy::TokenBucket, [quota]).unwrap();
    let mut script = server.script(&rule, "doubles");
    script.ask(TODAY, &[(taken, 0)]);
    let short = (0..window).find(|time| time * permits % window == window - 1).unwrap();
    for time in [short, short + window, short + 100 * window] {
        let back = time * permits / window;
        assert_eq!(script.ask(TODAY + time, &[(0, 0)])[0].remaining, burst - taken + back, "after {time} µs");
    }
}

/// Totals of a log start anew before doubles would round them.
#[test]
fn sliding_log_counts_without_end() {
    let server = Server::start();
    let quota = Quota::new(u64::MAX, Duration::from_secs(1));
    let rule = Rule::try_new("rule", Strategy::SlidingLog, [quota]).unwrap();
    let mut script = server.script(&rule, "without end");
    let mut random = Random::new(SEED);
    let (mut now, mut admitted) = (TODAY, Vec::new());
    for _ in 0..2_000 {
        now += random.between(0, 200_000);
        let most = Terms::MOST_PERMITS >> random.between(0, 8);
        let cost = random.between(1, most);
        let answers = script.ask(now, &[(cost, random.one_of(&[0, 0, 0, 2_000_000]))]);
        if answers[0].verdict == 0 {
            admitted.push((now + answers[0].time, cost));
        }
        let newest: Vec<(String, u64)> = ::redis::cmd("ZRANGE")
            .arg(&script.keys[0])
            .arg(&["-1", "-1", "WITHSCORES"])
            .query(&mut script.connection)
            .unwrap();
        assert!(newest[0].1 <= Terms::MOST_PERMITS, "{newest:?}");
    }
    assert!(admitted.len() > 500, "{} show little", admitted.len());
    assert_promise(Strategy::SlidingLog, script.terms[0], &admitted);
}

/// A key at which everybody always waits keeps the entries that count, and no others.
#[test]
fn sliding_log_removes_old_entries_also_where_all_wait() {
    let server = Server::start();
    let mut script = server.script(&rule_of(Strategy::SlidingLog, &["10/100ms"]), "waiting");
    for i in 0..400 {
        script.ask(TODAY + i * 10_000, &[(1, 300_000), (1, 300_000)]);
    }
    let size: u64 = ::redis::cmd("ZCARD").arg(&script.keys[0]).query(&mut script.connection).unwrap();
    assert!(size <= 10 * 5, "{size} entries for 10 permits in a window and three windows of waiting");
}

/// Many entries whose permits come back at once are removed in small batches, and do not count meanwhile.
#[test]
fn sliding_log_removes_old_entries_little_by_little() {
    let server = Server::start();
    let mut script = server.script(&rule_of(Strategy::SlidingLog, &["2000/1s"]), "entries");
    let size = |script: &mut Script| -> u64 {
        ::redis::cmd("ZCARD").arg(&script.keys[0]).query(&mut script.connection).unwrap()
    };
    for i in 0..2_000 {
        script.ask(TODAY + i / 2 * 2, &[(1, 0)]);
    }
    assert_eq!(size(&mut script), 1_000, "calls of the same time are one entry");
    for i in 0..30 {
        let answers = script.ask(TODAY + 1_000_700 + 2 * i, &[(1, 0)]);
        assert_eq!((answers[0].verdict, answers[0].remaining), (0, 701 + i), "{i}");
        if i == 0 {
            assert_eq!(
                size(&mut script),
                900,
                "101 of the 351 whose permits are back are gone, and one came"
            );
        }
    }
    assert_eq!(size(&mut script), 650, "all 380 by now, and 30 came");
}

/// A life that is long enough is kept, which is cheaper; one that is not is renewed, so that nothing is forgotten early.
#[test]
fn a_key_called_often_keeps_its_life() {
    let server = Server::start();
    for strategy in
        [Strategy::FixedWindow, Strategy::SlidingWindow, Strategy::TokenBucket, Strategy::LeakyBucket]
    {
        let mut script = server.script(&rule_of(strategy, &["1000/4s"]), "life");
        let mark = 50_000_000;
        let mut renewed_at = |time: u64| {
            let key = script.keys[0].clone();
            ::redis::cmd("PEXPIRE").arg(&key).arg(mark).query::<Value>(&mut script.connection).unwrap();
            assert_eq!(script.ask(TODAY + time, &[(1, 0)])[0].verdict, 0, "{strategy}");
            let life: u64 = ::redis::cmd("PTTL").arg(&key).query(&mut script.connection).unwrap();
            life < mark - 1_000_000
        };
        assert!(renewed_at(0), "{strategy}: there was none");
        assert!(!renewed_at(1_000), "{strategy}: kept");
        assert!(!renewed_at(900_000), "{strategy}: kept");
        assert!(renewed_at(6_000_000), "{strategy}: over");
        assert!(!renewed_at(6_001_000), "{strategy}: kept");
    }
}

/// The calls that the server sees are the price of a decision.
#[test]
fn a_decision_is_few_commands() {
    let server = Server::start();
    let mut connection = server.connect();
    for &strategy in Strategy::ALL {
        let mut script = server.script_with(&rule_of(strategy, &["2/1h"]), "few", ScriptClock::Server);
        for (cost, verdict) in [(1, 0), (1, 0), (1, 1), (3, 2), (0, 0)] {
            ::redis::cmd("CONFIG").arg("RESETSTAT").query::<Value>(&mut connection).unwrap();
            let answers = script.ask(0, &[(cost, 0)]);
            assert_eq!(answers[0].verdict, verdict, "{strategy}, cost {cost}");
            let stats: String = ::redis::cmd("INFO").arg("commandstats").query(&mut connection).unwrap();
            let calls = |name: &str| stats.contains(&format!("cmdstat_{name}:calls=1,"));
            assert!(calls("time") && calls("evalsha"), "{stats}");
            if strategy != Strategy::SlidingLog {
                assert_eq!(
                    (calls("get"), calls("set")),
                    (true, verdict == 0 && cost > 0),
                    "{strategy}: {stats}"
                );
                assert!(stats.lines().filter(|line| line.starts_with("cmdstat_")).count() <= 5, "{stats}");
            }
        }
    }
}

#[test]
fn terms_fit_the_numbers_of_a_script() {
    use Strategy::{FixedWindow, SlidingWindow, TokenBucket};

    let terms = |strategy, permits, window, burst: Option<u64>| {
        let quota = Quota::new(permits, Duration::from_nanos(window));
        let quota = burst.map_or(quota, |burst| quota.burst(burst));
        let terms = Terms::in_micros(&Rule::try_new("rule", strategy, [quota]).unwrap())[0];
        (terms.permits, terms.window, terms.capacity, terms.sample)
    };
    assert_eq!(terms(FixedWindow, 3, 1, None), (3, 1, 3, 1));
    assert_eq!(
        terms(FixedWindow, u64::MAX, 4_000_001, None),
        (Terms::MOST_PERMITS, 4_001, Terms::MOST_PERMITS, 1)
    );
    assert_eq!(terms(SlidingWindow, 3, 4_000_001, None), (3, 4_001, 3, 401));
    assert_eq!(terms(TokenBucket, 6, 4_000_000_000, Some(9)), (3, 2_000_000, 9, 1));
    assert_eq!(terms(TokenBucket, 1_000_000_000, 1_000_000_000, None), (1_000, 1, 1_000_000_000, 1));
    // 1,000,000 µs in 1,000,000,007 permits, as a fraction of 2^26, rounded up.
    assert_eq!(terms(TokenBucket, 1_000_000_007, 1_000_000_000, None), (1 << 26, 67_109, 1_000_000_007, 1));
    let longest = u64::try_from(Quota::LONGEST_WINDOW.as_nanos()).unwrap();
    assert_eq!(terms(TokenBucket, 1, longest, Some(u64::MAX)), (1, 86_400_000_000_000, 26, 1));
}

fn rule_of(strategy: Strategy, quotas: &[&str]) -> Rule {
    let quotas: Vec<Quota> = quotas.iter().map(|quota| quota.parse().unwrap()).collect();
    Rule::try_new("rule", strategy, quotas).unwrap()
}

fn set(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// What went (when, how much), in order of time, is no more than the strategy promises.
fn assert_promise(strategy: Strategy, terms: Terms, admitted: &[(u64, u64)]) {
    let Terms { permits, window, capacity, .. } = terms;
    assert!(admitted.is_sorted_by_key(|&(at, _)| at), "{strategy}: somebody overtook");
    let sum = |calls: &[(u64, u64)]| calls.iter().map(|&(_, cost)| u128::from(cost)).sum::<u128>();
    let mut rest = admitted;
    while let Some(&(first, _)) = rest.first() {
        let one_window = &rest[..rest.partition_point(|&(at, _)| at < first + window)];
        match strategy {
            // The end of one window and the start of the next can meet.
            Strategy::FixedWindow => assert!(sum(one_window) <= 2 * u128::from(permits), "{one_window:?}"),
            Strategy::SlidingWindow | Strategy::SlidingLog => {
                assert!(sum(one_window) <= u128::from(permits), "{strategy}: {one_window:?}");
            }
            Strategy::TokenBucket | Strategy::LeakyBucket => {
                let mut taken = 0;
                for &(at, cost) in rest {
                    taken += cost;
                    let most = capacity * window + (at - first) * permits;
                    assert!(taken * window <= most, "{strategy}: {rest:?}");
                }
            }
        }
        rest = &rest[1..];
    }
}
