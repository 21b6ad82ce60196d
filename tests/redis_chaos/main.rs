//! Random faults under load from several processes, on one server, on a pair under a sentinel, and on a cluster.
//!
//! Whatever happens: no promise is broken, apart from what a server forgot; no call hangs, nothing panics, nothing is
//! charged twice, and everybody finds the servers again. See CONTRIBUTING.md for how to run it longer, and how to run
//! one that failed again.
#![cfg(feature = "redis")]

mod faults;
mod load;
mod record;
mod stage;
#[path = "../support/mod.rs"]
mod support;
mod verdict;
mod worker;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use faults::Breaker;
use stage::Stage;
use support::history::Outcome;
use worker::Worker;

/// How long faults are made, unless told otherwise. What comes before and after makes it two minutes.
const SECONDS: u64 = 100;

/// What came of it on one kind of servers.
struct Report {
    name: &'static str,
    outcomes: [(&'static str, usize); 5],
    faults: BTreeMap<&'static str, u64>,
    worst_recovery: Duration,
    broken: Vec<String>,
}

/// Does nothing where it was not started as a process of the fleet.
#[test]
fn worker() {
    worker::work();
}

#[test]
fn chaos() {
    let number = |name: &str, default: u64| match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is a whole number, not {text:?}")),
        Err(_) => default,
    };
    let (seed, seconds) = (number("LIMITER_CHAOS_SEED", 1), number("LIMITER_CHAOS_SECONDS", SECONDS));
    println!("chaos for {seconds} s; again with LIMITER_CHAOS_SEED={seed} LIMITER_CHAOS_SECONDS={seconds}");
    let time = Duration::from_secs(seconds);
    let start = Instant::now();
    let stages: [fn() -> Stage; 3] = [Stage::standalone, Stage::sentinel, Stage::cluster];
    let reports: Vec<Result<Report, _>> = std::thread::scope(|scope| {
        let runs: Vec<_> = (1..)
            .zip(stages)
            .map(|(number, stage)| scope.spawn(move || run(&stage(), seed ^ number << 48, time)))
            .collect();
        runs.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
    });
    let (reports, failed): (Vec<_>, Vec<_>) = reports.into_iter().partition(Result::is_ok);
    let reports: Vec<Report> = reports.into_iter().flatten().collect();
    println!("{}in {:?}", table(&reports), start.elapsed());
    let broken: Vec<String> = reports
        .iter()
        .flat_map(|report| report.broken.iter().map(|what| format!("{}: {what}", report.name)))
        .collect();
    assert!(
        failed.is_empty() && broken.is_empty(),
        "chaos with seed {seed}: {} runs failed, {} promises were broken:\n{}",
        failed.len(),
        broken.len(),
        broken.iter().take(20).map(String::as_str).collect::<Vec<_>>().join("\n")
    );
    // A run in which nothing happens breaks nothing, either.
    for Report { name, outcomes, faults, .. } in &reports {
        assert!(outcomes[..4].iter().all(|(_, count)| *count > 0), "{name}: {outcomes:?}");
        assert!(seconds < SECONDS || faults.len() > 5, "{name}: few kinds of faults: {faults:?}");
    }
}

fn run(stage: &Stage, seed: u64, time: Duration) -> Report {
    let mut workers: Vec<Worker> =
        (0..load::WORKERS).map(|number| Worker::start(number, seed, &stage.url(number))).collect();
    let (faults, losses, worst_recovery) = {
        let mut breaker = Breaker::new(stage, &workers, seed);
        breaker.run(time);
        (breaker.faults, breaker.losses, breaker.worst_recovery)
    };
    let histories: Vec<_> = workers.iter_mut().map(Worker::stop).collect();
    let mut broken = verdict::broken(&histories, &losses);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    broken.extend(runtime.block_on(verdict::audit(&stage.direct_url(), &histories, &losses)));
    let count =
        |is: fn(Outcome) -> bool| histories.iter().flatten().filter(|record| is(record.outcome)).count();
    let outcomes = [
        ("calls", count(|_| true)),
        ("admitted", count(|outcome| outcome == Outcome::Admitted)),
        ("rejected", count(|outcome| outcome == Outcome::Rejected)),
        ("degraded", count(|outcome| matches!(outcome, Outcome::Degraded { .. }))),
        ("dropped", count(|outcome| outcome == Outcome::Dropped)),
    ];
    Report { name: stage.name, outcomes, faults, worst_recovery, broken }
}

fn table(reports: &[Report]) -> String {
    let mut rows: Vec<(String, Vec<String>)> =
        vec![(String::new(), reports.iter().map(|report| report.name.to_owned()).collect())];
    for index in 0..5 {
        let cells = reports.iter().map(|report| report.outcomes[index].1.to_string()).collect();
        rows.push((reports.first().map_or("", |report| report.outcomes[index].0).to_owned(), cells));
    }
    let mut faults: Vec<&str> = reports.iter().flat_map(|report| report.faults.keys().copied()).collect();
    faults.sort_unstable();
    faults.dedup();
    for fault in faults {
        let times = |report: &Report| report.faults.get(fault).map_or_else(String::new, u64::to_string);
        rows.push((format!("fault: {fault}"), reports.iter().map(times).collect()));
    }
    let recovery = |report: &Report| format!("{} ms", report.worst_recovery.as_millis());
    rows.push(("worst recovery".to_owned(), reports.iter().map(recovery).collect()));
    rows.push((
        "promises broken".to_owned(),
        reports.iter().map(|report| report.broken.len().to_string()).collect(),
    ));
    let mut text = String::from("\n");
    for (name, cells) in rows {
        let _ = write!(text, "{name:<28}");
        for cell in cells {
            let _ = write!(text, "{cell:>12}");
        }
        text.push('\n');
    }
    text
}
