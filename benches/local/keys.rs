//! The cost of a decision as keys become more.

use std::env;
use std::hint::black_box;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use governor::{DefaultKeyedRateLimiter, RateLimiter};
use limiter::{LocalLimiter, rate_limit, sites};
use throttled::RateLimiter as _;

use crate::annotated::{now, user_name};
use crate::report::{Report, Target};
use crate::rounds::{Contender, Workload, nameless};
use crate::{live, peers};

const FEW: u64 = 10_000;
const MOST: u64 = 10_000_000;

fn in_thousands(keys: u64) -> String {
    if keys < 1_000_000 { format!("{},000", keys / 1_000) } else { format!("{},000,000", keys / 1_000_000) }
}

pub(crate) fn measure(report: &mut Report) {
    let limiter = LocalLimiter::builder().max_keys(10_000_000).build();
    let governor: DefaultKeyedRateLimiter<u64> = RateLimiter::keyed(peers::live());
    let rate_net = peers::rate_net();
    let (throttled, quota) = peers::throttled();
    let (trypema, rate) = peers::trypema();
    let check = |id: u64| limiter.check_sync(&live::TOKEN_BUCKET, &id, 1).is_allowed();

    let mut contenders = vec![
        Contender::by_id("governor", |id| governor.check_key(&id)),
        Contender::by_id("limiter, `check_sync`", check),
        Contender::by_id("limiter, annotation", |id| now(live::by_id(id))),
        Contender::by_id("rate-net", |id| rate_net.check(rate_net::Key::id(id))),
        Contender::by_id("throttled", |id| now(throttled.check(id, quota))),
        Contender::by_name("trypema", |name| trypema.absolute().inc(name, &rate, 1)),
    ];
    // The last are the slowest, and the limiter of a process holds a million keys unless told otherwise. Tables are filled
    // step by step, so that each is as large as its keys need.
    let mut known = 0;
    for (keys, taking_part) in [(100, 6), (1000, 6), (FEW, 6), (100_000, 6), (1_000_000, 5), (MOST, 2)] {
        contenders.truncate(taking_part);
        let name = if keys <= 100_000 { user_name } else { nameless };
        let workload = Workload { keys, name, rounds: 21, calls: 20_000 };
        workload.fill(known, &contenders);
        let figures = workload.compare(&contenders);
        report.curve.extend(figures.iter().map(|figure| (figure.contender, keys, figure.nanos)));
        if keys > FEW && taking_part > 2 {
            let path = format!("{} keys u64, `token_bucket`", in_thousands(keys));
            report.row(path, figures[2].ratio, "x governor", Target::None);
        }
        known = keys;
    }

    let small = LocalLimiter::builder().max_keys(10_000_000).build();
    let few = |id: u64| small.check_sync(&live::TOKEN_BUCKET, &(id % FEW), 1).is_allowed();
    let contenders = [Contender::by_id("10,000 keys", few), Contender::by_id("10,000,000 keys", check)];
    Workload { keys: FEW, name: nameless, rounds: 0, calls: 0 }.fill(0, &contenders);
    let figures = Workload { keys: MOST, name: nameless, rounds: 41, calls: 20_000 }.compare(&contenders);
    let path = "10,000,000 keys u64, `token_bucket`, `check_sync`";
    report.row(path, figures[1].ratio, "x 10,000 keys", Target::AtMost(10.0));
    let [annotated, floor] = in_another_process();
    let path = "10,000,000 keys u64, `token_bucket`, annotated, a limiter of as many installed";
    report.row(path, annotated, "x 10,000 keys", Target::AtMost(10.0));
    let path = "a clock and a word of as much memory, nothing else, beside that";
    report.row(path, floor, "x 10,000 keys", Target::None);
}

/// A limiter is installed for a whole process, and before its first call.
fn in_another_process() -> [f64; 2] {
    let program = env::current_exe().expect("a program that runs has a file");
    let output = Command::new(program).arg(MANY).output().expect("it runs once more");
    let text = String::from_utf8_lossy(&output.stdout);
    let ratios: Option<Vec<f64>> = text.split_whitespace().map(|ratio| ratio.parse().ok()).collect();
    ratios
        .and_then(|ratios| ratios.try_into().ok())
        .unwrap_or_else(|| panic!("{text} {}", String::from_utf8_lossy(&output.stderr)))
}

/// With which the bench does nothing but [`many`].
pub(crate) const MANY: &str = "--many";

/// Prints what a call costs with ten million keys, beside one with ten thousand; and what a memory of that size costs alone.
pub(crate) fn many() {
    #[rate_limit(strategy = "token_bucket", key = id, qps = 1000, window = "1d", burst = live::BURST)]
    async fn few(id: u64) -> Option<()> {
        black_box(id);
        Some(())
    }
    let limiter = LocalLimiter::builder().max_keys(10_000_000).build();
    limiter::install(limiter.clone()).expect("the first");
    let memory = Memory::new();
    let contenders = [
        Contender::by_id("10,000 keys", |id| now(few(id % FEW))),
        Contender::by_id("10,000,000 keys", |id| now(live::by_id(id))),
        Contender::by_id("10,000,000 words", |id| memory.look(id)),
    ];
    let workload = Workload { keys: MOST, name: nameless, rounds: 41, calls: 20_000 };
    workload.fill(0, &contenders);
    let rule = sites().iter().map(|site| site.rule()).find(|rule| rule.name().ends_with("::by_id"));
    assert_eq!(rule.map(|rule| limiter.live_keys(rule)), Some(10_000_000));
    let figures = workload.compare(&contenders);
    println!("{} {}", figures[1].ratio, figures[2].ratio);
}

/// As many bytes as the keys take, and nothing to find one by.
struct Memory {
    words: Vec<AtomicU64>,
    clock: quanta::Clock,
}

impl Memory {
    fn new() -> Self {
        let words = 39 * usize::try_from(MOST).expect("they fit") / size_of::<u64>();
        // Not zero, or the system would give no memory for them.
        Self { words: (0..words).map(|_| AtomicU64::new(1)).collect(), clock: quanta::Clock::new() }
    }

    fn look(&self, id: u64) -> u64 {
        let spread = u128::from(id.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let place = usize::try_from((spread * self.words.len() as u128) >> 64).expect("a place");
        self.words[place].fetch_max(self.clock.raw(), Ordering::AcqRel)
    }
}
