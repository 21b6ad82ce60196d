//! What the macro finds and what the compiler finds, in one go.

use limiter::{Rejected, rate_limit};

struct Point {
    x: f64,
}

#[rate_limit(qps = 0, windw = "1s", key = p, unless = "p.x", fallback = "busy")]
async fn get(p: Point) -> f64 {
    p.x
}

fn busy(p: &Point, _: Rejected) -> u64 {
    p.x as u64
}

fn main() {}
