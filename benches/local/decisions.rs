//! One decision, beside peers that do the same work.

use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, RateLimiter};
use limiter::__private::{Entry, Site, Told, pass};
use limiter::{LocalLimiter, Rule, Strategy, rate_limit};
use shot_limit::Strategy as _;
use throttled::RateLimiter as _;

use crate::annotated::{self, PLENTY, now};
use crate::report::{Report, Target};
use crate::rounds::{Contender, Figure, Workload, nameless};
use crate::{live, peers};

const ONE: Workload = Workload { keys: 1, name: nameless, rounds: 61, calls: 20_000 };
const SOME: Workload = Workload { keys: 10_000, calls: 60_000, ..ONE };

pub(crate) fn measure(report: &mut Report) {
    unkeyed(report);
    by_id(report);
    by_name(report);
    many(report);
    rejected(report);
    annotation(report);
}

/// Where ours stands beside the first contender.
fn ours(figures: &[Figure], name: &str) -> Figure {
    *figures.iter().find(|figure| figure.contender == name).expect("ours takes part")
}

fn unkeyed(report: &mut Report) {
    let governor: DefaultDirectRateLimiter = RateLimiter::direct(peers::plenty());
    let shot_limit = peers::shot_limit();
    let rate_net = rate_net::DirectLimiter::per_second(peers::PLENTY_U32.get());
    let leaky_bucket = peers::leaky_bucket();
    let (clock, word) = (quanta::Clock::new(), AtomicU64::new(0));
    let floor = |_| {
        let last = word.load(Ordering::Relaxed);
        word.compare_exchange(last, clock.raw(), Ordering::AcqRel, Ordering::Relaxed)
    };
    let figures = ONE.compare(&[
        Contender::by_id("governor", |_| governor.check()),
        Contender::by_id("limiter", |_| now(annotated::unkeyed())),
        Contender::by_id("limiter, not async", |_| annotated::unkeyed_sync()),
        Contender::by_id("limiter, sliding_window", |_| now(annotated::unkeyed_sliding_window())),
        Contender::by_id("floor", floor),
        Contender::by_id("shot-limit", |_| shot_limit.process()),
        Contender::by_id("rate-net", |_| rate_net.check()),
        Contender::by_id("leaky-bucket", |_| leaky_bucket.try_acquire(1)),
        Contender::by_id("sentinel", |_| peers::sentinel()),
    ]);
    let ratio = ours(&figures, "limiter").ratio;
    report.row("unkeyed, `token_bucket`", ratio, "x governor", Target::AtMost(1.0));
    report.column("unkeyed", figures);
}

fn by_id(report: &mut Report) {
    let governor: DefaultKeyedRateLimiter<u64> = RateLimiter::keyed(peers::plenty());
    let rate_net = peers::rate_net();
    let pingora = pingora_limits::rate::Rate::new(Duration::from_secs(1));
    let (throttled, quota) = peers::throttled();
    let contenders = [
        Contender::by_id("governor", |id| governor.check_key(&id)),
        Contender::by_id("limiter", |id| now(annotated::token_bucket(id))),
        Contender::by_id("limiter, sliding_window", |id| now(annotated::sliding_window(id))),
        Contender::by_id("rate-net", |id| rate_net.check(rate_net::Key::id(id))),
        Contender::by_id("pingora-limits", |id| pingora.observe(&id, 1)),
        Contender::by_id("throttled", |id| now(throttled.check(id, quota))),
    ];
    SOME.fill(0, &contenders);
    let figures = SOME.compare(&contenders);
    let ratio = |name| ours(&figures, name).ratio;
    report.row("10,000 keys u64, `token_bucket`", ratio("limiter"), "x governor", Target::AtMost(0.5));
    report.row(
        "10,000 keys u64, `sliding_window`",
        ratio("limiter, sliding_window"),
        "x governor",
        Target::AtMost(0.7),
    );
    report.column("10,000 keys, u64", figures);
}

fn by_name(report: &mut Report) {
    #[rate_limit(strategy = "token_bucket", key = name, qps = PLENTY)]
    async fn token_bucket_by_uuid(name: &str) -> Option<()> {
        black_box(name);
        Some(())
    }
    let short = Workload { name: annotated::user_name, ..SOME };
    let figures = of_names(short, |name| now(annotated::token_bucket_by_name(name)));
    let ratio = ours(&figures, "limiter").ratio;
    report.row(
        "10,000 keys String of 11 characters, `token_bucket`",
        ratio,
        "x governor",
        Target::AtMost(0.5),
    );
    report.column("10,000 keys, String", figures);

    let long = Workload { name: annotated::uuid_name, ..SOME };
    let figures = of_names(long, |name| now(token_bucket_by_uuid(name)));
    let ratio = ours(&figures, "limiter").ratio;
    report.row("10,000 keys String of 36 characters, `token_bucket`", ratio, "x governor", Target::None);
    report.column("10,000 keys, 36 characters", figures);
}

fn of_names(workload: Workload, call: impl Fn(&str) -> Option<()>) -> Vec<Figure> {
    let governor: DefaultKeyedRateLimiter<String> = RateLimiter::keyed(peers::plenty());
    let rate_net = peers::rate_net();
    let pingora = pingora_limits::rate::Rate::new(Duration::from_secs(1));
    let (trypema, rate) = peers::trypema();
    let contenders = [
        Contender::by_name("governor", |name| governor.check_key(name)),
        Contender::by_name("limiter", |name| call(name)),
        Contender::by_name("rate-net", |name| rate_net.check_bytes(name)),
        Contender::by_name("pingora-limits", |name| pingora.observe(name, 1)),
        Contender::by_name("trypema", |name| trypema.absolute().inc(name, &rate, 1)),
    ];
    workload.fill(0, &contenders);
    workload.compare(&contenders)
}

fn many(report: &mut Report) {
    let governor: DefaultKeyedRateLimiter<String> = RateLimiter::keyed(peers::live());
    let rate_net = peers::rate_net();
    let contenders = [
        Contender::by_name("governor", |name| governor.check_key(name)),
        Contender::by_name("limiter", |name| now(live::by_name(name))),
        Contender::by_name("rate-net", |name| rate_net.check_bytes(name)),
    ];
    let workload = Workload { keys: 1_000_000, name: annotated::user_name, rounds: 41, ..ONE };
    workload.fill(0, &contenders);
    let figures = workload.compare(&contenders);
    let ratio = ours(&figures, "limiter").ratio;
    report.row(
        "1,000,000 keys String of 11 characters, `token_bucket`",
        ratio,
        "x governor",
        Target::AtMost(0.5),
    );
    report.column("1,000,000 keys, String", figures);
}

fn rejected(report: &mut Report) {
    let governor: DefaultKeyedRateLimiter<u64> = RateLimiter::keyed(peers::one_a_day());
    let rate_net =
        rate_net::Quota::rate(1, peers::DAY).map(rate_net::RateLimiter::with_quota).expect("a quota");
    let throttled: peers::Throttled = throttled::StoreLimiter::new(throttled::MemoryStore::new());
    let hour = throttled::Quota::per_hour(NonZeroU32::MIN);
    let contenders = [
        Contender::by_id("governor", |id| governor.check_key(&id)),
        Contender::by_id("limiter", |id| now(annotated::rejected_with_reason(id))),
        Contender::by_id("limiter, returns an `Option`", |id| now(annotated::rejected(id))),
        Contender::by_id("limiter, sliding_window", |id| now(annotated::rejected_sliding_window(id))),
        Contender::by_id("rate-net", |id| rate_net.check(rate_net::Key::id(id))),
        Contender::by_id("throttled", |id| now(throttled.check(id, hour))),
    ];
    SOME.fill(0, &contenders);
    let figures = SOME.compare(&contenders);
    let ratio = |name| ours(&figures, name).ratio;
    let path = "rejected, 10,000 keys u64, `token_bucket`";
    report.row(format!("{path}, `Result<_, Rejected>`"), ratio("limiter"), "x governor", Target::AtMost(0.5));
    let option = ratio("limiter, returns an `Option`");
    report.row(format!("{path}, `Option<_>`"), option, "x governor", Target::AtMost(0.5));
    let path = "rejected, 10,000 keys u64, `sliding_window`";
    report.row(path, ratio("limiter, sliding_window"), "x governor", Target::None);
    report.column("rejected, 10,000 keys u64", figures);
}

/// What the annotation adds to what it calls.
fn annotation(report: &mut Report) {
    const RULE: Rule =
        Rule::new("by hand", Strategy::TokenBucket, limiter::Quota::new(PLENTY, Duration::from_secs(1)));
    static SITE: Site = Site::new(RULE);
    // One of its own, so that its table is no larger than the other's.
    #[rate_limit(strategy = "token_bucket", key = id, qps = PLENTY)]
    async fn annotated(id: u64) -> Option<()> {
        black_box(id);
        Some(())
    }
    let limiter = LocalLimiter::new();
    let few = Workload { keys: 100, ..ONE };
    let by_hand = |id: u64| {
        let entry = pass(&SITE, &id, 1_u64, &mut Told::Nothing);
        black_box(id);
        matches!(entry, Entry::Goes).then_some(())
    };
    let contenders = [
        Contender::by_id("limiter, what the annotation calls", by_hand),
        Contender::by_id("limiter", |id| now(annotated(id))),
        Contender::by_id("limiter, `check_sync`", |id| limiter.check_sync(&RULE, &id, 1).is_allowed()),
    ];
    few.fill(0, &contenders);
    let figures = few.compare(&contenders);
    let more = ours(&figures, "limiter").more;
    report.row("the annotation, over the call that it makes", more, "ns more", Target::AtMost(2.0));
    report.column("100 keys, u64", figures);
}
